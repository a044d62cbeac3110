/* ADD_RMS_NORM's launch. */
#include <stdio.h>

#include "bw_gpu.h"
#include "bw_op_check.h"
#include "norm/bw_add_norm_args.h"

bw_op_gpu_kernel bw_add_rms_norm_gpu;

/* Whether every row begins at a multiple of 16 bytes. */
static bool is_packed(const bw_tensor *t)
{
    bool packed = (uintptr_t)t->data % 16 == 0;
    for (int i = 0; i < t->n_dims - 1; i++)
        packed = packed && (t->dims[i] == 1 || t->strides[i] % 4 == 0);
    return packed;
}

bw_status bw_add_rms_norm_gpu(const bw_op_call *call, bw_device *device, bw_err *err)
{
    enum { BLOCK = 256, MOST = 1 << 23 }; /* workgroups in a grid: HIP counts threads in 32 bits */
    bw_tensor t[4] = {*call->in[0], *call->in[1], *call->out[0], *call->out[1]}; /* x, r, h, y */
    const bw_tensor *w = call->in[2], *w_r = call->in[3];
    bw_add_norm_args p = {.n = t[0].dims[t[0].n_dims - 1], .eps = ((const bw_rms_norm_params *)call->params)->eps};
    const void *none = NULL, *const *w_r_data = w_r ? (const void *const *)&w_r->data : &none;
    bool packed = p.n % 4 == 0 && p.n <= 8 * BLOCK * 4 && is_packed(w) && (!w_r || is_packed(w_r));
    for (int i = 0; i < 4; i++) {
        packed = packed && is_packed(&t[i]);
        t[i].n_dims--;
    }
    bw_loop_init(&p.rows, t[0].n_dims, t[0].dims, 4, (const bw_tensor *[]){&t[0], &t[1], &t[2], &t[3]});
    if (p.n == 0)
        return BW_OK;
    char name[32] = "add_rms_norm_any";
    if (packed) {
        int64_t each = (p.n + BLOCK * 4 - 1) / (BLOCK * 4);
        snprintf(name, sizeof name, "add_rms_norm_packs_%d", each <= 2 ? (int)each : each <= 4 ? 4 : 8);
    }
    void *args[] = {&p, &t[0].data, &t[1].data, (void *)&w->data, (void *)w_r_data, &t[2].data, &t[3].data};
    for (; p.first_row < p.rows.n; p.first_row += MOST) {
        int64_t left = p.rows.n - p.first_row;
        bw_gpu_grid grid = {.blocks = {(uint32_t)(left < MOST ? left : MOST), 1, 1}, .threads = BLOCK};
        BW_TRY(bw_gpu_run(device, name, &grid, args, err));
    }
    return BW_OK;
}
