/* Any bytes as a GGUF file: opened, every value and tensor read. */
#include "bw_gguf.h"
#include "bw_mem.h"
#include "bw_quant.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

static void use_value(const bw_gguf_value *v)
{
    for (uint64_t i = 0; v->type == BW_GGUF_ARRAY && i < v->a.n; i++) {
        if (v->a.type == BW_GGUF_ARRAY)
            use_value(&v->a.arrays[i]);
        else if (v->a.type == BW_GGUF_STRING && v->a.strings[i].n_bytes > 0 && v->a.strings[i].data[0] == 0)
            continue;
        else
            bw_gguf_array_f64(v, i);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    bw_err err = {0};
    bw_gguf *g;
    if (bw_gguf_open_memory(data, n_bytes, "fuzz.gguf", &g, &err) != BW_OK)
        return 0;
    for (size_t i = 0; i < bw_gguf_n_values(g); i++) {
        int64_t number;
        double f;
        use_value(bw_gguf_find(g, bw_gguf_key(g, i)));
        bw_gguf_get_i64(g, bw_gguf_key(g, i), &number, NULL, &err);
        bw_gguf_get_f64(g, bw_gguf_key(g, i), &f, NULL, &err);
    }
    for (size_t i = 0; i < bw_gguf_n_tensors(g); i++) {
        const bw_gguf_tensor *t = bw_gguf_tensor_at(g, i);
        int64_t n = bw_shape_elements(t->dims, t->n_dims);
        float *values = bw_alloc_array((size_t)n, sizeof *values);
        if (values)
            bw_decode_row(t->dtype, t->data, values, n, &err);
        bw_free(values);
    }
    bw_gguf_close(g);
    return 0;
}
