/* Any bytes as a safetensors file. The first eight bytes, the header's length, are made to fit half of the time, so
 * that the header is reached. */
#include "bw_mem.h"
#include "bw_safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

static volatile unsigned seen;

static void open_and_use(const uint8_t *data, size_t n_bytes)
{
    bw_err err = {0};
    bw_safetensors *st;
    if (bw_safetensors_open_memory(data, n_bytes, "fuzz.safetensors", &st, &err) != BW_OK)
        return;
    for (size_t i = 0; i < bw_safetensors_count(st); i++) {
        const bw_safetensor *t = bw_safetensors_at(st, i);
        if (bw_safetensors_find(st, t->name) != t)
            __builtin_trap();
        for (size_t k = 0; k < t->n_bytes; k++)
            seen += ((const uint8_t *)t->data)[k];
    }
    bw_safetensors_metadata(st, "format");
    bw_safetensors_close(st);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    if (n_bytes == 0 || data[0] & 1) {
        open_and_use(data, n_bytes);
        return 0;
    }
    /* the rest up to the last '}' as the header, what follows as the data */
    size_t n_header = n_bytes - 1;
    while (n_header > 0 && data[n_header] != '}')
        n_header--;
    uint8_t *file = bw_alloc(n_bytes + 8);
    uint64_t length = n_header;
    if (!file)
        return 0;
    memcpy(file, &length, 8);
    memcpy(file + 8, data + 1, n_bytes - 1);
    open_and_use(file, n_bytes + 7);
    bw_free(file);
    return 0;
}
