/* The products with q8_1 columns as tasks. */
#include "quantized.h"

size_t bw_quant_mul_scratch(const bw_op_call *call);
size_t bw_quant_dot_scratch(const bw_op_call *call);
bool bw_quant_supports_blocks_avx2(const bw_op_call *call, const bw_cpu_features *cpu);

void bw_quant_job_init(bw_quant_job *job, const bw_op_call *call)
{
    const bw_tensor *w = call->in[0], *x = call->in[1], *y = call->out[0];
    bool is_moe = call->op == BW_OP_INDEXED_MOE_FORWARD;
    int last = w->n_dims - 1;
    *job = (bw_quant_job){.call = call,
                          .dtype = w->dtype,
                          .n = w->dims[last - 1],
                          .k = w->dims[last],
                          .w_row = bw_quant_bytes(w->dtype, w->strides[last - 1]),
                          .x_row = is_moe ? 0 : bw_quant_bytes(BW_Q8_1, x->strides[0]),
                          .y_row = is_moe ? 0 : y->strides[0],
                          .n_tasks = is_moe ? bw_tensor_elements(call->in[2]) : 1,
                          .n_columns = is_moe ? 1 : x->dims[0]};
}

bool bw_quant_job_task(const bw_quant_job *job, int64_t index, bw_quant_task *task)
{
    const bw_tensor *w = job->call->in[0], *x = job->call->in[1], *y = job->call->out[0];
    if (job->call->op != BW_OP_INDEXED_MOE_FORWARD) {
        *task = (bw_quant_task){w->data, x->data, y->data};
        return true;
    }
    const bw_tensor *ids = job->call->in[2];
    int64_t t = index / ids->dims[1], s = index % ids->dims[1];
    uint32_t id = ((const uint32_t *)ids->data)[t * ids->strides[0] + s * ids->strides[1]];
    *task = (bw_quant_task){.y = (float *)y->data + t * y->strides[0] + s * y->strides[1]};
    if (id >= w->dims[0])
        return false;
    task->w = (const uint8_t *)w->data + bw_quant_bytes(w->dtype, id * w->strides[0]);
    int64_t x_at = t * x->strides[0] + (x->dims[1] == 1 ? 0 : s * x->strides[1]);
    task->x = (const uint8_t *)x->data + bw_quant_bytes(BW_Q8_1, x_at);
    return true;
}

void bw_quant_job_run(const bw_op_call *call, bw_member *member, bw_quant_rows_fn *rows)
{
    bw_quant_job job;
    bw_quant_job_init(&job, call);
    int64_t begin, end, work = job.k * job.n_columns;
    if (!bw_op_my_share(member, job.n_tasks * job.n, work ? work : 1, 4096, &begin, &end))
        return;
    void *scratch = call->scratch_bytes ? bw_op_member_scratch(call, member) : NULL; /* the reference has none */
    for (int64_t i = begin; i < end;) {
        int64_t row = i % job.n, n_rows = job.n - row < end - i ? job.n - row : end - i;
        bw_quant_task task;
        if (bw_quant_job_task(&job, i / job.n, &task))
            rows(&job, &task, row, n_rows, scratch);
        else
            memset(task.y + row, 0, (size_t)n_rows * 4);
        i += n_rows;
    }
}

/* One decoded row. */
size_t bw_quant_mul_scratch(const bw_op_call *call)
{
    const bw_tensor *w = call->in[0];
    return (size_t)w->dims[w->n_dims - 1] * 4 + 64;
}

/* BW_QUANT_ROWS rows as groups of 32. */
size_t bw_quant_dot_scratch(const bw_op_call *call)
{
    const bw_tensor *w = call->in[0];
    return ((size_t)w->dims[w->n_dims - 1] / 32 + 1) * sizeof(bw_quant_group) * BW_QUANT_ROWS;
}

/* The types that quant_unpack_avx2.h knows. */
bool bw_quant_supports_blocks_avx2(const bw_op_call *call, const bw_cpu_features *cpu)
{
    const uint64_t known = BW_MASK(BW_Q4_0) | BW_MASK(BW_Q4_1) | BW_MASK(BW_Q5_0) | BW_MASK(BW_Q5_1) |
                           BW_MASK(BW_Q8_0) | BW_MASK(BW_Q2_K) | BW_MASK(BW_Q3_K) | BW_MASK(BW_Q4_K) |
                           BW_MASK(BW_Q5_K) | BW_MASK(BW_Q6_K);
    return cpu->avx2 && (known >> call->in[0]->dtype & 1);
}
