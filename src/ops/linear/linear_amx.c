/* LINEAR with AMX-INT8 for 16 activation rows or more. A group's weights are unpacked once into the member's scratch,
 * in the very form of a tile: 8 rows (4 elements of k each) of 16 weight rows. Fewer rows, and those left over, go the
 * AVX-512 way. Tile instructions: Intel Architecture Instruction Set Extensions Programming Reference, chapter 3. */
#include "linear_avx512.h"

#include "bw_amx.h"
#include "linear_levels.h"

/* Tiles: 0, 1 sums [16 activation rows][16 weight rows]; 2 activations [16][32 bytes]; 3 weights [8][64 bytes]; 4
 * activations [16][16 bytes]; 5 weights [4][64 bytes]. */
static void configure_tiles(void)
{
    static const bw_amx_config config = {
        .palette = 1, .row_bytes = {64, 64, 32, 64, 16, 64}, .rows = {16, 16, 16, 8, 16, 4}};
    _tile_loadconfig(&config);
}

/* sums i32 [16, 16] = 16 activation rows' 32 signed bytes times 8 * 64 unsigned ones */
BW_INLINE void multiply_whole(const int8_t *x, size_t x_bytes, const uint8_t *quants, int32_t *sums)
{
    _tile_zero(0);
    _tile_loadd(2, x, x_bytes);
    _tile_loadd(3, quants, 64);
    _tile_dpbsud(0, 2, 3);
    _tile_stored(0, sums, 64);
}

/* The same for bytes 0..15 and 16..31. */
BW_INLINE void multiply_halves(const int8_t *x, size_t x_bytes, const uint8_t *quants, int32_t *low, int32_t *high)
{
    _tile_zero(0);
    _tile_loadd(4, x, x_bytes);
    _tile_loadd(5, quants, 64);
    _tile_dpbsud(0, 4, 5);
    _tile_stored(0, low, 64);
    _tile_zero(1);
    _tile_loadd(4, x + 16, x_bytes);
    _tile_loadd(5, quants + 256, 64);
    _tile_dpbsud(1, 4, 5);
    _tile_stored(1, high, 64);
}

#define TEMPLATE "linear_amx.inc"
#include "linear_types.inc"

typedef struct type_fns {
    void (*unpack)(const uint8_t *w, int64_t n_blocks, uint8_t *quants, void *states);
    void (*rows16)(const uint8_t *quants, const void *states, int64_t n_blocks, const bw_act_q8 x[16], size_t x_bytes,
                   float *out);
} type_fns;

#define ROW(NAME, name) [BW_##NAME] = {name##_unpack, name##_rows16},
static const type_fns fns[BW_DTYPE_COUNT] = {BW_PACKED_TYPES(ROW)};
#undef ROW

/* Scratch: 16 * K quants, then the states. */
size_t bw_op_linear_amx_scratch(const bw_op_call *call)
{
    const bw_tensor *w = call->in[1];
    size_t k = (size_t)w->dims[1], n_blocks = k / (size_t)bw_dtype_block_elements(w->dtype);
    bool small = bw_dtype_block_elements(w->dtype) == 32;
    size_t larger = sizeof(scales_state) > sizeof(halves_state) ? sizeof(scales_state) : sizeof(halves_state);
    return BW_GROUP * k + n_blocks * (small ? sizeof(scale_state) : larger);
}

bool bw_op_linear_amx_supports(const bw_op_call *call, const bw_cpu_features *cpu)
{
    const bw_tensor *x = call->in[0], *w = call->in[1];
    return cpu->amx_int8 && cpu->avx512_vnni && w->layout == BW_LAYOUT_ROWS16 && x->layout == BW_ACT_Q8 &&
           fns[w->dtype].unpack;
}

void bw_op_linear_amx(const bw_op_call *call, bw_member *member)
{
    bw_drive d = bw_drive_begin(call, member);
    if (d.n_tokens < 16) {
        bw_op_linear_avx512(call, member);
        return;
    }
    const type_fns *f = &fns[d.w->dtype];
    uint8_t *quants = bw_op_member_scratch(call, member);
    void *states = quants + BW_GROUP * (size_t)d.k;
    int64_t begin, end;
    configure_tiles();
    while (bw_drive_take(call, &d, &begin, &end))
        for (int64_t i = begin; i < end; i++) {
            int64_t g = i % d.n_groups, t = i / d.n_groups * d.block_tokens, stop = t + d.block_tokens;
            stop = stop < d.n_tokens ? stop : d.n_tokens;
            if (stop - t >= 16)
                f->unpack((const uint8_t *)d.w->data + (size_t)g * d.group_bytes, d.n_blocks, quants, states);
            for (; stop - t >= 16; t += 16) {
                float tile[16 * BW_GROUP];
                bw_act_q8 rows[16];
                for (int j = 0; j < 16; j++)
                    rows[j] = bw_act_q8_view(bw_drive_row(&d, t + j), d.k);
                f->rows16(quants, states, d.n_blocks, rows, d.x_bytes, tile);
                bw_store_tile(&d, t, 16, g * BW_GROUP, tile);
            }
            bw_drive_tiles(&d, g, t, stop, bw_linear_avx512_groups[d.w->dtype], 8);
        }
    _tile_release();
}
