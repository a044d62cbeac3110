/* The table of operations and the choice of kernels. */
#include "bw_ops.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "bw_entry.h"
#include "bw_op_check.h"
#include "bw_mem.h"

#define BW_OP(NAME, name, family, entry, formula)                                                                      \
    bw_status bw_op_##name##_check(const bw_op_call *call, bw_err *err);                                               \
    void bw_op_##name##_cost(const bw_op_call *call, bw_op_cost *cost);                                                \
    void bw_op_##name##_ref(const bw_op_call *call);
#include "ops.def"
#undef BW_OP
#define BW_OP(NAME, name, family, entry, formula) bw_entry_fn entry;
#include "ops.def"
#undef BW_OP

static const bw_op_def defs[BW_OP_COUNT] = {
#define BW_OP(NAME, name, family, entry, formula)                                                                      \
    [BW_OP_##NAME] = {#name, #family, formula, bw_op_##name##_check, bw_op_##name##_cost, bw_op_##name##_ref},
#include "ops.def"
#undef BW_OP
};

/* Variants in order of preference: the first that supports a call is taken. */
#define BW_VARIANT(OP, name, supports, kernel, scratch)                                                                \
    bool supports(const bw_op_call *call, const bw_cpu_features *cpu);                                                 \
    bw_op_kernel kernel;                                                                                               \
    size_t scratch(const bw_op_call *call);
#define BW_GPU_VARIANT(OP, name, supports, launch, scratch)                                                            \
    bool supports(const bw_op_call *call, const bw_device *device);                                                    \
    bw_op_gpu_kernel launch;                                                                                           \
    size_t scratch(const bw_op_call *call);
#include "variants.def"
#undef BW_VARIANT
#undef BW_GPU_VARIANT

static const bw_op_variant variants[] = {
#define BW_VARIANT(OP, name, supports, kernel, scratch) {BW_OP_##OP, name, supports, kernel, scratch},
#define BW_GPU_VARIANT(OP, name, supports, launch, scratch)
#include "variants.def"
#undef BW_VARIANT
#undef BW_GPU_VARIANT
};
enum { N_VARIANTS = sizeof variants / sizeof *variants };

static const bw_op_gpu_variant gpu_variants[] = {
#define BW_VARIANT(OP, name, supports, kernel, scratch)
#define BW_GPU_VARIANT(OP, name, supports, launch, scratch) {BW_OP_##OP, name, supports, launch, scratch},
#include "variants.def"
#undef BW_VARIANT
#undef BW_GPU_VARIANT
};
enum { N_GPU_VARIANTS = sizeof gpu_variants / sizeof *gpu_variants };

const bw_op_def *bw_op_get(bw_op op)
{
    return &defs[op];
}

void bw_op_get_entry(const bw_op_call *call, bw_entry *entry)
{
    static bw_entry_fn *const names[BW_OP_COUNT] = {
#define BW_OP(NAME, name, family, entry, formula) [BW_OP_##NAME] = entry,
#include "ops.def"
#undef BW_OP
    };
    *entry = (bw_entry){0};
    names[call->op](call, entry);
}

bw_op bw_op_from_name(const char *name)
{
    for (int i = 0; i < BW_OP_COUNT; i++)
        if (strcmp(defs[i].name, name) == 0)
            return (bw_op)i;
    return BW_OP_COUNT;
}

/* The reference as a kernel: member 0 works, the others wait at the caller's barrier. */
static void run_ref(const bw_op_call *call, bw_member *member)
{
    if (member->rank == 0)
        defs[call->op].ref(call);
}

/* Nothing, for calls whose outputs have no elements: so no kernel and no reference need care how large the other
 * dimensions are beside a 0. */
static void run_nothing(const bw_op_call *call, bw_member *member)
{
    (void)call;
    (void)member;
}

static bw_status launch_nothing(const bw_op_call *call, bw_device *device, bw_err *err)
{
    (void)call;
    (void)device;
    (void)err;
    return BW_OK;
}

static bool has_no_elements(const bw_op_call *call)
{
    bool is_empty = call->n_out > 0;
    for (int i = 0; i < call->n_out; i++)
        is_empty = is_empty && bw_tensor_elements(call->out[i]) == 0;
    return is_empty;
}

static bw_status check_outputs(const bw_op_call *call, bw_err *err)
{
    for (int i = 0; i < call->n_out; i++) {
        const char what[] = {'o', 'u', 't', (char)('0' + i), 0};
        BW_TRY(bw_op_check_output(call, call->out[i], what, err));
    }
    return BW_OK;
}

bool bw_variant_always(const bw_op_call *call, const bw_cpu_features *cpu)
{
    (void)call;
    (void)cpu;
    return true;
}

bool bw_gpu_always(const bw_op_call *call, const bw_device *device)
{
    (void)call;
    (void)device;
    return true;
}

size_t bw_variant_no_scratch(const bw_op_call *call)
{
    (void)call;
    return 0;
}

static bw_status prepare_gpu(bw_op_call *call, const bw_device *device, const char *force, bw_err *err)
{
    for (int i = 0; i < N_GPU_VARIANTS; i++) {
        const bw_op_gpu_variant *v = &gpu_variants[i];
        if (v->op != call->op || (force && strcmp(force, v->name) != 0) || !v->supports(call, device))
            continue;
        call->launch = v->launch;
        call->variant = v->name;
        call->scratch_bytes = v->scratch_bytes(call);
        return BW_OK;
    }
    bw_op_fail(call, err, force ? "variant %s cannot do this on %s" : "there is no kernel for this%s on %s",
               force ? force : "", device->name);
    if (err)
        err->status = BW_E_UNSUPPORTED;
    return BW_E_UNSUPPORTED;
}

bw_status bw_op_prepare(bw_op_call *call, const bw_device *device, const char *force, bw_err *err)
{
    if ((int)call->op < 0 || call->op >= BW_OP_COUNT)
        return bw_fail(err, BW_E_ARG, "op number %d does not exist", (int)call->op);
    BW_TRY(defs[call->op].check(call, err));
    BW_TRY(check_outputs(call, err));
    call->kernel = NULL;
    call->launch = NULL;
    call->scratch_bytes = 0;
    call->n_members = device->kind == BW_DEVICE_CPU ? bw_team_size(device->team) : 0;
    if (device->kind != BW_DEVICE_CPU) {
        BW_TRY(prepare_gpu(call, device, force, err));
        if (has_no_elements(call)) {
            call->launch = launch_nothing;
            call->scratch_bytes = 0;
        }
        return BW_OK;
    }
    if (!force || strcmp(force, "ref") != 0) {
        for (int i = 0; i < N_VARIANTS && !call->kernel; i++) {
            const bw_op_variant *v = &variants[i];
            if (v->op != call->op || (force && strcmp(force, v->name) != 0) || !v->supports(call, device->cpu))
                continue;
            call->kernel = v->kernel;
            call->variant = v->name;
            call->scratch_bytes = v->scratch_bytes(call);
        }
        if (!call->kernel && force)
            return bw_op_fail(call, err, "variant %s cannot do this here", force);
    }
    if (!call->kernel) {
        call->kernel = run_ref;
        call->variant = "ref";
    }
    if (has_no_elements(call)) {
        call->kernel = run_nothing;
        call->scratch_bytes = 0;
    }
    return BW_OK;
}

int bw_op_list_variants(const bw_op_call *call, const bw_device *device, const char **names, int max)
{
    int n = 0;
    if (device->kind != BW_DEVICE_CPU) {
        for (int i = 0; i < N_GPU_VARIANTS; i++)
            if (gpu_variants[i].op == call->op && gpu_variants[i].supports(call, device) && n < max)
                names[n++] = gpu_variants[i].name;
        return n;
    }
    if (n < max)
        names[n++] = "ref";
    bw_op_call here = *call;
    here.n_members = bw_team_size(device->team);
    for (int i = 0; i < N_VARIANTS; i++)
        if (variants[i].op == call->op && variants[i].supports(&here, device->cpu) && n < max)
            names[n++] = variants[i].name;
    return n;
}

static void run_member(void *arg, bw_member *member)
{
    const bw_op_call *call = arg;
    call->kernel(call, member);
}

static bw_status run_gpu(bw_op_call *call, bw_device *device, bw_err *err)
{
    bw_buffer scratch = {0};
    if (call->scratch_bytes)
        BW_TRY(device->vtable->alloc(device, call->scratch_bytes, BW_MEMORY_BRIEF, "scratch", &scratch, err));
    call->scratch = scratch.data;
    bw_status status = call->launch(call, device, err);
    if (status == BW_OK)
        status = device->vtable->synchronise(device, err);
    device->vtable->release(device, &scratch);
    call->scratch = NULL;
    return status;
}

bw_status bw_op_run(bw_op_call *call, bw_device *device, bw_err *err)
{
    if (call->launch)
        return run_gpu(call, device, err);
    _Atomic int64_t next = 0;
    size_t member_bytes = (call->scratch_bytes + 63) / 64 * 64, bytes;
    if (!bw_mul_size(member_bytes, (size_t)bw_team_size(device->team), &bytes))
        return bw_op_fail(call, err, "%zu bytes of scratch for each member are too many", member_bytes);
    call->scratch = bytes ? bw_alloc_aligned(bytes) : NULL;
    if (bytes && !call->scratch)
        return bw_fail_memory(err, bytes, defs[call->op].name);
    call->next = &next;
    bw_team_run(device->team, run_member, call);
    bw_free(call->scratch);
    call->scratch = NULL;
    call->next = NULL;
    return BW_OK;
}

bw_status bw_op_fail(const bw_op_call *call, bw_err *err, const char *format, ...)
{
    char sentence[240], tensors[420] = "";
    va_list args;
    va_start(args, format);
    vsnprintf(sentence, sizeof sentence, format, args);
    va_end(args);
    size_t n = 0;
    for (int i = 0; i < call->n_in + call->n_out && n < sizeof tensors - 1; i++) {
        bool is_in = i < call->n_in;
        int k = is_in ? i : i - call->n_in;
        const bw_tensor *t = is_in ? call->in[k] : call->out[k];
        char one[128];
        int w = snprintf(tensors + n, sizeof tensors - n, "%s%s%d %s", n ? ", " : "", is_in ? "in" : "out", k,
                         t ? bw_tensor_describe(t, one, sizeof one) : "absent");
        n += w > 0 ? (size_t)w : 0;
    }
    const char *name = (int)call->op >= 0 && call->op < BW_OP_COUNT ? defs[call->op].name : "?";
    return bw_fail(err, BW_E_ARG, "%s: %s; %s", name, sentence, tensors);
}
