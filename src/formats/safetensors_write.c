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

static bw_status put_all(bw_sink *sink, const bw_str *header, const bw_safetensor *tensors, size_t n, bw_err *err)
{
    uint64_t n_header = header->len;
    BW_TRY(bw_sink_put(sink, &n_header, 8, err));
    BW_TRY(bw_sink_put(sink, header->data, header->len, err));
    for (size_t i = 0; i < n; i++)
        BW_TRY(bw_sink_put(sink, tensors[i].data, tensors[i].n_bytes, err));
    return BW_OK;
}

bw_status bw_safetensors_write(const char *path, const bw_safetensor *tensors, size_t n_tensors, bw_err *err)
{
    bw_str header = {0};
    bw_sink sink;
    bw_status status = make_header(&header, tensors, n_tensors, err);
    if (status == BW_OK)
        status = bw_sink_open(&sink, path, err);
    if (status == BW_OK) {
        status = put_all(&sink, &header, tensors, n_tensors, err);
        if (status == BW_OK)
            status = bw_sink_commit(&sink, err);
        else
            bw_sink_abort(&sink);
    }
    bw_str_deinit(&header);
    return status;
}
