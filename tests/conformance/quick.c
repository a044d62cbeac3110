/* Which cases --quick leaves out. Owns the set of what has been run. */
#include <string.h>

#include "conformance.h"

enum { SLOTS = 1 << 16, EVERY = 4 };
static uint64_t seen[SLOTS]; /* hashes, by open addressing; 0 is free */
static int n_seen;

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
    return hash ^ hash >> 29;
}

/* Kernels for one row, a few, a tile and many differ. */
static int row_class(const bw_tensor *t)
{
    uint64_t n = 1; /* may wrap: some cases have sizes that no memory holds, to be refused */
    for (int i = 0; i + 1 < t->n_dims; i++)
        n *= (uint64_t)t->dims[i];
    return n == 0 ? 0 : n == 1 ? 1 : n <= 8 ? 2 : n <= 64 ? 3 : 4;
}

/* Products, convolutions, attention, norms: operands of different shapes, and a kernel for each of many sizes. */
static uint64_t shape_of(const bw_case *c, uint64_t hash)
{
    if (c->n_in < 2 || c->in[1].absent)
        return hash;
    const bw_tensor *a = &c->in[0].tensor, *b = &c->in[1].tensor;
    if (a->n_dims == b->n_dims && memcmp(a->dims, b->dims, (size_t)a->n_dims * sizeof *a->dims) == 0)
        return hash;
    for (int i = 0; i < a->n_dims; i++)
        hash = mix(hash, (uint64_t)a->dims[i]);
    for (int i = 0; i < b->n_dims; i++)
        hash = mix(hash, (uint64_t)b->dims[i]);
    return hash;
}

/* Whether it was new; a full set takes everything for new. */
static bool add(uint64_t hash)
{
    hash += hash == 0;
    if (n_seen >= SLOTS / 2)
        return true;
    uint64_t at = hash % SLOTS;
    while (seen[at] && seen[at] != hash)
        at = (at + 1) % SLOTS;
    bool is_new = !seen[at];
    seen[at] = hash;
    n_seen += is_new;
    return is_new;
}

bool quick_leaves_out(bw_case *c, const char *const *names, int n)
{
    uint64_t types = mix((uint64_t)c->op + 1, (uint64_t)c->n_in);
    for (int i = 0; i < c->n_in; i++)
        types = c->in[i].absent ? mix(types, 255)
                                : mix(mix(types, (uint64_t)c->in[i].tensor.dtype), c->in[i].tensor.layout);
    for (int i = 0; i < c->n_out; i++)
        types = mix(mix(types, (uint64_t)c->out[i].tensor.dtype), c->out[i].tensor.layout);
    types = shape_of(c, mix(types, (uint64_t)row_class(&c->out[0].tensor)));
    bool is_new = false;
    for (int v = 0; v < n; v++) {
        uint64_t hash = types;
        for (const char *letter = names[v]; *letter; letter++)
            hash = mix(hash, (unsigned char)*letter);
        is_new = add(hash) || is_new;
    }
    return !is_new && c->sink->n_cases % EVERY != 1 && c->sink->is_self_tested;
}
