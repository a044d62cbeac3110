/* One call of an op, at once: inputs' devices, a new array for the result, check, kernel, run. */
#include "array.h"

#include <stdio.h>
#include <string.h>

bw_status array_call_device(const array_call *call, bw_device **device, bw_err *err)
{
    const char *name = call->name ? call->name : call->op;
    *device = NULL;
    for (int i = 0; i < call->n_in; i++) {
        bw_device *own = call->in[i] ? call->in[i]->buffer->device : NULL;
        if (own && *device && own != *device)
            return array_fail(err, name, call->in[i],
                              "the inputs lie on two devices, %s and %s: bring them to one with "
                              "bw_array_to_device",
                              (*device)->name, own->name);
        if (own)
            *device = own;
    }
    return *device ? BW_OK : array_fail(err, name, NULL, "there is no input");
}

/* An op's sentences begin with its own name, "ia: ..": the caller knows it as "index_add". Others (no memory) do not
 * say what they stopped. */
static bw_status rename_failure(const array_call *call, bw_status status, bw_err *err)
{
    const char *name = call->name ? call->name : call->op;
    size_t n = strlen(call->op);
    char text[128] = "";
    if (!err)
        return status;
    if (strncmp(err->text, call->op, n) == 0 && err->text[n] == ':') {
        char rest[sizeof err->text];
        memcpy(rest, err->text, sizeof rest);
        snprintf(err->text, sizeof err->text, "%s%s", name, rest + n);
    } else if (call->n_in > 0 && call->in[0]) {
        bw_err_prefix(err, "%s of %s", name, bw_tensor_describe(&call->in[0]->t, text, sizeof text));
    } else {
        bw_err_prefix(err, "%s", name);
    }
    return status;
}

bw_status array_call_into(const array_call *call, bw_device *device, bw_tensor *const *out, int n_out, bw_err *err)
{
    bw_op_call c = {.op = bw_op_from_name(call->op), .n_in = call->n_in, .n_out = n_out, .params = call->params};
    if (c.op == BW_OP_COUNT)
        return bw_fail(err, BW_E_UNSUPPORTED, "%s: this build has no such operation",
                       call->name ? call->name : call->op);
    for (int i = 0; i < call->n_in; i++)
        c.in[i] = call->in[i] ? &call->in[i]->t : NULL;
    for (int i = 0; i < n_out; i++)
        c.out[i] = out[i];
    bw_status status = bw_op_prepare(&c, device, NULL, err);
    if (status == BW_OK)
        status = bw_op_run(&c, device, err);
    return status == BW_OK ? status : rename_failure(call, status, err);
}

bw_status array_call_new(const array_call *call, bw_dtype dtype, int n_dims, const int64_t *dims, bw_array **out,
                         bw_err *err)
{
    bw_device *device;
    *out = NULL;
    BW_TRY(array_call_device(call, &device, err));
    BW_TRY(array_new(device, dtype, n_dims, dims, call->name ? call->name : call->op, out, err));
    bw_status status = array_call_into(call, device, (bw_tensor *const[]){&(*out)->t}, 1, err);
    if (status != BW_OK) {
        bw_array_free(*out);
        *out = NULL;
    }
    return status;
}
