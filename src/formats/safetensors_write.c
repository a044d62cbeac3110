/* Writing one safetensors file. Refuses what its readers would refuse: too many tensors, too long a header. */
#include <inttypes.h>

#include "bw_mem.h"
#include "bw_str.h"
#include "safetensors_file.h"
#include "sink.h"

static bw_status add_entry(bw_str *header, const bw_safetensor *t, uint64_t begin, bw_err *err)
{
    const char *type = bw_safetensors_dtype_name(t->dtype);
    if (!type)
        return bw_fail(err, BW_E_UNSUPPORTED, "tensor %s: safetensors has no type %s", t->name,
                       bw_dtype_name(t->dtype));
    int64_t need = bw_tensor_bytes(t->dtype, t->n_dims, t->dims);
    if (need < 0 || (size_t)need != t->n_bytes)
        return bw_fail(err, BW_E_ARG, "tensor %s takes %" PRId64 " bytes by its shape, and %zu were given", t->name,
                       need, t->n_bytes);
    bw_str_add_json(header, t->name, strlen(t->name));
    bw_str_add_format(header, ":{\"dtype\":\"%s\",\"shape\":[", type);
    for (int i = 0; i < t->n_dims; i++)
        bw_str_add_format(header, "%s%" PRId64, i ? "," : "", t->dims[i]);
    bw_str_add_format(header, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", begin, begin + t->n_bytes);
    return BW_OK;
}

static bw_status make_header(bw_str *header, const bw_safetensor *tensors, size_t n, bw_err *err)
{
    uint64_t begin = 0;
    if (n > SAFETENSORS_MAX_TENSORS)
        return bw_fail(err, BW_E_ARG, "%zu tensors are too many for a safetensors file; it holds at most %d", n,
                       SAFETENSORS_MAX_TENSORS);
    bw_str_add_char(header, '{');
    for (size_t i = 0; i < n; i++) {
        if (i > 0)
            bw_str_add_char(header, ',');
        BW_TRY(add_entry(header, &tensors[i], begin, err));
        begin += tensors[i].n_bytes;
        if (header->len > SAFETENSORS_MAX_HEADER - 8)
            return bw_fail(err, BW_E_ARG,
                           "the names and shapes of these %zu tensors are too long for a safetensors file; its header "
                           "holds at most %d bytes",
                           n, SAFETENSORS_MAX_HEADER);
    }
    bw_str_add_char(header, '}');
    while (!header->failed && header->len % 8 != 0)
        bw_str_add_char(header, ' ');
    return header->failed ? bw_fail_memory(err, header->len, "a safetensors header") : BW_OK;
}

struct bw_safetensors_output {
    bw_sink sink;
    uint64_t left; /* bytes that the current tensor still lacks */
};

bw_status bw_safetensors_put(bw_safetensors_output *output, const void *bytes, size_t n_bytes, bw_err *err)
{
    if (n_bytes > output->left)
        return bw_fail(err, BW_E_INTERNAL, "a tensor is given %zu bytes and lacks %" PRIu64, n_bytes, output->left);
    output->left -= n_bytes;
    return bw_sink_put(&output->sink, bytes, n_bytes, err);
}

static bw_status put_all(bw_safetensors_output *output, const bw_str *header, const bw_safetensor *tensors, size_t n,
                         bw_safetensors_fill_fn *fill, void *user, bw_err *err)
{
    uint64_t n_header = header->len;
    BW_TRY(bw_sink_put(&output->sink, &n_header, 8, err));
    BW_TRY(bw_sink_put(&output->sink, header->data, header->len, err));
    for (size_t i = 0; i < n; i++) {
        output->left = tensors[i].n_bytes;
        BW_TRY(fill(user, output, i, err));
        if (output->left)
            return bw_fail(err, BW_E_INTERNAL, "tensor %s lacks %" PRIu64 " bytes", tensors[i].name, output->left);
    }
    return BW_OK;
}

bw_status bw_safetensors_write_filled(const char *path, const bw_safetensor *tensors, size_t n_tensors,
                                      bw_safetensors_fill_fn *fill, void *user, bw_err *err)
{
    bw_str header = {0};
    bw_safetensors_output output = {.left = 0};
    bw_status status = make_header(&header, tensors, n_tensors, err);
    if (status == BW_OK)
        status = bw_sink_open(&output.sink, path, err);
    if (status == BW_OK) {
        status = put_all(&output, &header, tensors, n_tensors, fill, user, err);
        if (status == BW_OK)
            status = bw_sink_commit(&output.sink, err);
        else
            bw_sink_abort(&output.sink);
    }
    bw_str_deinit(&header);
    return status;
}

static bw_status put_given(void *user, bw_safetensors_output *output, size_t index, bw_err *err)
{
    const bw_safetensor *t = (const bw_safetensor *)user + index;
    return bw_safetensors_put(output, t->data, t->n_bytes, err);
}

bw_status bw_safetensors_write(const char *path, const bw_safetensor *tensors, size_t n_tensors, bw_err *err)
{
    /* put_given only reads through it */
    return bw_safetensors_write_filled(path, tensors, n_tensors, put_given, (void *)(uintptr_t)tensors, err);
}
