#include "bw_nn.h"

#include <string.h>

void bw_nn_init(bw_nn *nn, bw_plan *plan, const bw_device *device)
{
    *nn = (bw_nn){.plan = plan, .device = device};
    for (int i = 0; i < BW_NN_ACTS; i++)
        nn->acts[i].x = BW_NO_VALUE;
}

static bw_value temp(bw_nn *nn, int64_t rows, int64_t columns)
{
    return bw_plan_temp(nn->plan, BW_F32, 0, 2, (int64_t[]){rows, columns});
}

static int64_t last_dim(const bw_nn *nn, bw_value x)
{
    const bw_tensor *t = bw_plan_tensor(nn->plan, x);
    return t->dims[t->n_dims - 1];
}

/* x in the form that this weight's kernel wants. */
static bw_value activation_for(bw_nn *nn, bw_value x, int64_t rows, const bw_tensor *w)
{
    uint32_t format = bw_linear_act_format(nn->device, w);
    if (format == BW_ACT_F32)
        return x;
    for (int i = 0; i < BW_NN_ACTS; i++)
        if (nn->acts[i].x == x && nn->acts[i].format == format)
            return nn->acts[i].act;
    int64_t bytes = bw_act_row_bytes(format, w->dims[1]);
    bw_value act = bw_plan_temp(nn->plan, BW_U8, format, 2, (int64_t[]){rows, bytes});
    bw_plan_call(nn->plan, BW_OP_QUANTISE_ACT, 1, &x, 1, &act, NULL, 0);
    nn->acts[nn->next_act].x = x;
    nn->acts[nn->next_act].format = format;
    nn->acts[nn->next_act].act = act;
    nn->next_act = (nn->next_act + 1) % BW_NN_ACTS;
    return act;
}

bw_value bw_nn_linear(bw_nn *nn, bw_value x, int64_t rows, const bw_nn_linear_weights *weights)
{
    bw_linear_params params = {.k = weights->w.dims[1]};
    bw_value in[3] = {activation_for(nn, x, rows, &weights->w), bw_plan_const(nn->plan, &weights->w), BW_NO_VALUE};
    if (weights->bias.data)
        in[2] = bw_plan_const(nn->plan, &weights->bias);
    bw_value y = temp(nn, rows, weights->w.dims[0]);
    bw_plan_call(nn->plan, BW_OP_LINEAR, 3, in, 1, &y, &params, sizeof params);
    return y;
}

bw_value bw_nn_embedding(bw_nn *nn, const bw_tensor *table, bw_value ids, int64_t rows, float scale)
{
    bw_get_rows_params params = {.scale = scale};
    bw_value in[2] = {bw_plan_const(nn->plan, table), ids}, y = temp(nn, rows, table->dims[1]);
    bw_plan_call(nn->plan, BW_OP_GET_ROWS, 2, in, 1, &y, &params, sizeof params);
    return y;
}

bw_value bw_nn_select_rows(bw_nn *nn, bw_value x, bw_value ids, int64_t rows)
{
    bw_get_rows_params params = {.scale = 1};
    bw_value in[2] = {x, ids}, y = temp(nn, rows, last_dim(nn, x));
    bw_plan_call(nn->plan, BW_OP_GET_ROWS, 2, in, 1, &y, &params, sizeof params);
    return y;
}

bw_value bw_nn_rms_norm(bw_nn *nn, bw_value x, int64_t rows, const bw_tensor *w, float eps)
{
    bw_rms_norm_params params = {.eps = eps};
    bw_value in[2] = {x, bw_plan_const(nn->plan, w)}, y = temp(nn, rows, last_dim(nn, x));
    bw_plan_call(nn->plan, BW_OP_RMSNORM, 2, in, 1, &y, &params, sizeof params);
    return y;
}

static bw_value as_heads(bw_nn *nn, bw_value x, int64_t rows, int64_t n_heads)
{
    int64_t row = last_dim(nn, x), d = row / n_heads;
    return bw_plan_view(nn->plan, x, 3, (int64_t[]){rows, n_heads, d}, (int64_t[]){row, d, 1}, 0);
}

bw_value bw_nn_head_norm(bw_nn *nn, bw_value x, int64_t rows, int64_t n_heads, const bw_tensor *w, float eps)
{
    bw_rms_norm_params params = {.eps = eps};
    bw_value y = temp(nn, rows, last_dim(nn, x));
    bw_value in[2] = {as_heads(nn, x, rows, n_heads), bw_plan_const(nn->plan, w)}, out = as_heads(nn, y, rows, n_heads);
    bw_plan_call(nn->plan, BW_OP_RMSNORM, 2, in, 1, &out, &params, sizeof params);
    return y;
}

bw_value bw_nn_add_norm(bw_nn *nn, bw_value x, bw_value r, int64_t rows, const bw_tensor *w, const bw_tensor *w_r,
                        float eps, bw_value *h)
{
    bw_rms_norm_params params = {.eps = eps};
    bw_value in[4] = {x, r, bw_plan_const(nn->plan, w), BW_NO_VALUE};
    if (w_r)
        in[3] = bw_plan_const(nn->plan, w_r);
    bw_value out[2] = {temp(nn, rows, last_dim(nn, x)), temp(nn, rows, last_dim(nn, x))};
    bw_plan_call(nn->plan, BW_OP_ADD_RMS_NORM, 4, in, 2, out, &params, sizeof params);
    *h = out[0];
    return out[1];
}

bw_value bw_nn_attention(bw_nn *nn, bw_value x, const bw_nn_step *step, const bw_nn_attention_config *c,
                         const bw_nn_attention_weights *w, bw_value k_cache, bw_value v_cache)
{
    int64_t rows = BW_DIM_TOKENS, row = c->n_heads * c->head_dim;
    bw_value q = bw_nn_linear(nn, x, rows, &w->q);
    bw_value k = bw_nn_linear(nn, x, rows, &w->k);
    bw_value v = bw_nn_linear(nn, x, rows, &w->v);
    if (w->q_norm.data)
        q = bw_nn_head_norm(nn, q, rows, c->n_heads, &w->q_norm, c->eps);
    if (w->k_norm.data)
        k = bw_nn_head_norm(nn, k, rows, c->n_kv_heads, &w->k_norm, c->eps);
    bw_value rotated = temp(nn, rows, row), attended = temp(nn, rows, row);
    bw_value rotated_heads = as_heads(nn, rotated, rows, c->n_heads);
    bw_value rope_in[6] = {as_heads(nn, q, rows, c->n_heads),
                           as_heads(nn, k, rows, c->n_kv_heads),
                           as_heads(nn, v, rows, c->n_kv_heads),
                           step->positions,
                           step->slots,
                           bw_plan_const(nn->plan, c->inv_freq)};
    bw_value rope_out[3] = {rotated_heads, k_cache, v_cache};
    bw_plan_call(nn->plan, BW_OP_ROPE_KV, 6, rope_in, 3, rope_out, &c->rope, sizeof c->rope);
    bw_value att_in[5] = {rotated_heads, k_cache, v_cache, step->seqs, step->pages};
    bw_value att_out = as_heads(nn, attended, rows, c->n_heads);
    bw_plan_call(nn->plan, BW_OP_ATTENTION, 5, att_in, 1, &att_out, &c->attention, sizeof c->attention);
    return bw_nn_linear(nn, attended, rows, &w->o);
}

bw_value bw_nn_ffn(bw_nn *nn, bw_value x, bw_activation activation, const bw_nn_ffn_weights *w)
{
    bw_glu_params params = {.activation = activation};
    bw_value in[2] = {bw_nn_linear(nn, x, BW_DIM_TOKENS, &w->gate), bw_nn_linear(nn, x, BW_DIM_TOKENS, &w->up)};
    bw_value y = temp(nn, BW_DIM_TOKENS, w->gate.w.dims[0]);
    bw_plan_call(nn->plan, BW_OP_GLU, 2, in, 1, &y, &params, sizeof params);
    return bw_nn_linear(nn, y, BW_DIM_TOKENS, &w->down);
}
