/* Inside models/: what weights.c and weights_gpu.c share. */
#ifndef WEIGHTS_PRIVATE_H
#define WEIGHTS_PRIVATE_H

#include "model.h"

enum weight_role { ROLE_MATRIX, ROLE_TABLE, ROLE_VECTOR };

struct weight_entry {
    enum weight_role role;
    bw_source_tensor src;
    int64_t n, k;
    bw_tensor *dest;
    int layer; /* -1 = none */
    float add; /* added to a vector */
    uint32_t layout;
    int64_t place;        /* in packed or vectors; -1 = stays in the file */
    _Atomic int64_t next; /* rows taken by packers */
};

struct weight_list {
    const bw_source *source;
    const bw_model_config *config;
    struct weight_entry *entries;
    size_t n, cap;
    bw_err *err;
    bw_status status; /* the first failure; later calls do nothing */
};

typedef void bw_weights_report_fn(void *user, const bw_progress *progress);

/* Give the file's pages of a placed tensor back. */
void bw_weight_drop_pages(const struct weight_entry *e);
/* As f32 at vectors + place; *e->dest is that. */
bw_status bw_weight_place_vector(const struct weight_entry *e, char *vectors, bw_err *err);
/* The model's inv_freq tensors, in room f32 [2 * head_dim]. */
bw_status bw_weight_place_rope(const bw_source *source, bw_model *model, float *room, bw_err *err);

/* Everything onto a GPU, whose memory is there already. vectors, rope: bytes of the norms and biases, and of the rope
 * tables behind them. */
bw_status bw_weights_place_gpu(struct weight_list *list, bw_weights *w, bw_model *model, int64_t vectors, int64_t rope,
                               bw_progress *progress, bw_weights_report_fn *report, void *user);

#endif
