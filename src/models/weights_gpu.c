/* Weights onto a GPU: packed by all of the host's threads into pinned memory, piece by piece, and copied from there
 * while the next piece is packed. Layouts of GPUs are local to rows, so that any run of rows can be packed alone. */
#include <string.h>

#include "bw_gpu.h"
#include "bw_mem.h"
#include "weights_private.h"

struct piece {
    const struct weight_entry *entry;
    int64_t begin, n; /* rows */
    void *room;
    _Atomic int64_t next;
};

static void pack_member(void *arg, bw_member *member)
{
    (void)member;
    struct piece *p = arg;
    const struct weight_entry *e = p->entry;
    int64_t unit = bw_linear_layout_rows(e->layout), chunk = (16 + unit - 1) / unit * unit;
    int64_t row_bytes = bw_dtype_bytes(e->src.dtype, e->k), begin, end;
    while (bw_team_take(&p->next, p->n, chunk, &begin, &end))
        bw_linear_pack_rows(e->layout, e->src.dtype, p->n, e->k, begin, end,
                            (const char *)e->src.data + (p->begin + begin) * row_bytes, p->room);
}

static bw_status place_matrix(bw_weights *w, bw_team *team, const struct weight_entry *e, bw_err *err)
{
    int64_t unit = bw_linear_layout_rows(e->layout);
    int64_t unit_bytes = bw_linear_layout_bytes(e->layout, e->src.dtype, unit, e->k);
    if (unit_bytes < 1 || unit_bytes > BW_STAGE_BYTES)
        return bw_fail(err, BW_E_UNSUPPORTED, "tensor %s: rows of %lld elements are too long for a GPU", e->src.name,
                       (long long)e->k);
    int64_t most = BW_STAGE_BYTES / unit_bytes * unit;
    char *dst = (char *)w->packed.data + e->place;
    for (int64_t begin = 0; begin < e->n; begin += most) {
        struct piece piece = {.entry = e, .begin = begin, .n = e->n - begin < most ? e->n - begin : most};
        BW_TRY(bw_gpu_stage(w->device, &piece.room, err));
        bw_team_run(team, pack_member, &piece);
        int64_t bytes = bw_linear_layout_bytes(e->layout, e->src.dtype, piece.n, e->k);
        BW_TRY(bw_gpu_send(w->device, dst, (size_t)bytes, err));
        dst += bytes;
    }
    *e->dest = bw_tensor_view(e->src.dtype, 2, (int64_t[]){e->n, e->k}, (char *)w->packed.data + e->place);
    e->dest->layout = e->layout;
    return BW_OK;
}

static void move(bw_tensor *t, const char *from, char *to)
{
    if (t->data)
        t->data = to + ((const char *)t->data - from);
}

static bw_status place_vectors(struct weight_list *list, bw_weights *w, bw_model *model, char *host, int64_t vectors,
                               int64_t rope)
{
    for (size_t i = 0; i < list->n; i++)
        if (list->entries[i].role == ROLE_VECTOR)
            BW_TRY(bw_weight_place_vector(&list->entries[i], host, list->err));
    BW_TRY(bw_weight_place_rope(list->source, model, (float *)(void *)(host + vectors), list->err));
    BW_TRY(w->device->vtable->upload(w->device, w->vectors.data, host, (size_t)(vectors + rope), list->err));
    for (size_t i = 0; i < list->n; i++)
        if (list->entries[i].role == ROLE_VECTOR)
            move(list->entries[i].dest, host, w->vectors.data);
    move(&model->inv_freq, host, w->vectors.data);
    move(&model->inv_freq_local, host, w->vectors.data);
    return BW_OK;
}

bw_status bw_weights_place_gpu(struct weight_list *list, bw_weights *w, bw_model *model, int64_t vectors, int64_t rope,
                               bw_progress *progress, bw_weights_report_fn *report, void *user)
{
    bw_team *team = NULL;
    char *host = bw_alloc_zero((size_t)(vectors + rope), 1);
    bw_status status =
        host ? bw_team_new(0, &team, list->err) : bw_fail_memory(list->err, (size_t)(vectors + rope), "norms");
    if (status == BW_OK)
        status = place_vectors(list, w, model, host, vectors, rope);
    for (size_t i = 0; status == BW_OK && i < list->n; i++) {
        const struct weight_entry *e = &list->entries[i];
        if (e->role != ROLE_VECTOR)
            status = place_matrix(w, team, e, list->err);
        bw_weight_drop_pages(e);
        progress->bytes_done += e->src.n_bytes;
        if (e->layer >= 0)
            progress->layers_done = e->layer + 1;
        if (report && e->role != ROLE_VECTOR)
            report(user, progress);
    }
    if (status == BW_OK)
        status = w->device->vtable->synchronise(w->device, list->err);
    bw_gpu_stage_free(w->device);
    if (team)
        bw_team_free(team);
    bw_free(host);
    return status;
}
