/* bw-conformance: every op's kernels on a device against its reference.
 *
 *     bw-conformance [--device D] [--op NAME] [--variant NAME] [--seed N] [--nightly | --quick]
 *                    [--cases N] [--list | --names] [--fixtures FILE...] [--require FILE]
 *
 * --fixtures: instead of generated cases those of files, whose expected values another library computed.
 * --require: every entry point that the file names must have had a case. --list groups entry points by their last type,
 * --names writes each in full.
 * --quick: every kernel with every combination of types, and beyond that each fourth case; on one team, or once on a
 * GPU. --cases N: the first N of each operation's generated cases, and more only until one has shown that a corrupted
 * element is noticed. The last line, which tells how many were left out, is "N passed, N failed, N skipped"; exit
 * status 1 when any failed. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bw_clock.h"
#include "bw_dtype.h"
#include "bw_mem.h"
#include "conformance.h"

static bw_op_cases_fn *const cases[BW_OP_COUNT] = {
#define BW_OP(NAME, name, family, entry, formula) [BW_OP_##NAME] = bw_op_##name##_cases,
#include "ops.def"
#undef BW_OP
};

static const char *const variants[] = {
    "ref",
#define BW_VARIANT(OP, name, supports, kernel, scratch) name,
#define BW_GPU_VARIANT(OP, name, supports, launch, scratch) name,
#include "variants.def"
#undef BW_VARIANT
#undef BW_GPU_VARIANT
};

typedef struct options {
    const char *device, *op, *variant, *require;
    char **fixtures; /* [n_fixtures] */
    int n_fixtures, most;
    uint64_t seed;
    bool is_list, is_names, is_nightly, is_quick;
} options;

static const char usage[] =
    "usage: bw-conformance [--device D] [--op NAME] [--variant NAME] [--seed N] [--nightly | --quick]\n"
    "                      [--cases N] [--list | --names] [--require FILE] [--fixtures FILE...]\n"
    "Runs every kernel of every operation on a device and compares it with the reference.\n";

static int read_options(int argc, char **argv, options *o)
{
    for (int i = 1; i < argc; i++) {
        const char *name = argv[i];
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (strcmp(name, "--list") == 0) {
            o->is_list = true;
        } else if (strcmp(name, "--names") == 0) {
            o->is_list = o->is_names = true;
        } else if (strcmp(name, "--nightly") == 0) {
            o->is_nightly = true;
        } else if (strcmp(name, "--quick") == 0) {
            o->is_quick = true;
        } else if (strcmp(name, "--help") == 0) {
            fputs(usage, stdout);
            exit(0);
        } else if (value && strcmp(name, "--device") == 0) {
            o->device = value;
            i++;
        } else if (value && strcmp(name, "--op") == 0) {
            o->op = value;
            i++;
        } else if (value && strcmp(name, "--variant") == 0) {
            o->variant = value;
            i++;
        } else if (value && strcmp(name, "--require") == 0) {
            o->require = value;
            i++;
        } else if (value && strcmp(name, "--fixtures") == 0) {
            o->fixtures = argv + i + 1;
            o->n_fixtures = argc - i - 1;
            break;
        } else if (value && (strcmp(name, "--seed") == 0 || strcmp(name, "--cases") == 0)) {
            char *end;
            uint64_t number = strtoull(value, &end, 10);
            bool is_seed = strcmp(name, "--seed") == 0;
            if (*value == 0 || *end != 0 || (!is_seed && (number == 0 || number > INT32_MAX))) {
                fprintf(stderr, "%s takes a number%s, not \"%s\"\n", name, is_seed ? "" : " from 1", value);
                return 2;
            }
            if (is_seed)
                o->seed = number;
            else
                o->most = (int)number;
            i++;
        } else {
            fprintf(stderr, "\"%s\" is not an option, or lacks its value\n%s", name, usage);
            return 2;
        }
    }
    bool is_known = !o->variant;
    for (size_t i = 0; i < sizeof variants / sizeof *variants && !is_known; i++)
        is_known = strcmp(o->variant, variants[i]) == 0;
    if (!is_known)
        fprintf(stderr, "no operation has a kernel \"%s\"\n", o->variant);
    return is_known ? 0 : 2;
}

/* The whole name, or family/name as --list prints it. */
bool op_is_wanted(const char *wanted, bw_op op)
{
    const bw_op_def *def = bw_op_get(op);
    char full[128];
    snprintf(full, sizeof full, "%s/%s", def->family, def->name);
    return !wanted || strcmp(wanted, def->name) == 0 || strcmp(wanted, full) == 0 || strcmp(wanted, def->family) == 0;
}

static void run_op(bw_case_sink *sink, bw_op op, uint64_t seed)
{
    sink->op = op;
    sink->is_self_tested = false;
    sink->n_cases = 0;
    /* Each op draws from its own stream, so that --op repeats what a whole run did. */
    bw_rng_init(&sink->rng, seed * 1000003u + (uint64_t)op);
    int64_t passed = sink->n_passed, failed = sink->n_failed, skipped = sink->n_skipped, begin = bw_clock_now_ns();
    cases[op](sink);
    if (sink->is_list)
        return;
    if (!sink->is_self_tested) {
        sink->n_failed++;
        printf("FAILED %s: none of its cases could show that a corrupted element is noticed\n", bw_op_get(op)->name);
    }
    printf("%-14s %d cases, %" PRId64 " passed, %" PRId64 " failed, %" PRId64 " skipped, %.2f s\n", bw_op_get(op)->name,
           sink->n_cases, sink->n_passed - passed, sink->n_failed - failed, sink->n_skipped - skipped,
           (double)(bw_clock_now_ns() - begin) * 1e-9);
}

static void close_devices(bw_case_sink *sink)
{
    for (int i = 0; i < N_TEAMS; i++)
        bw_device_close(sink->devices[i]);
    bw_device_close(sink->cpu);
}

int main(int argc, char **argv)
{
    options o = {.device = "cpu:0", .seed = 1};
    int bad = read_options(argc, argv, &o);
    if (bad)
        return bad;
    bw_case_sink sink = {.only_variant = o.variant,
                         .is_list = o.is_list,
                         .is_nightly = o.is_nightly,
                         .is_quick = o.is_quick,
                         .most = o.most};
    bw_err err = {0};
    bool ok = bw_device_open("cpu:0", 1, &sink.cpu, &err) == BW_OK;
    int n_devices = strncmp(o.device, "cpu", 3) == 0 ? N_TEAMS : 1;
    for (int i = 0; i < n_devices && ok; i++)
        ok = bw_device_open(o.device, i + 1, &sink.devices[i], &err) == BW_OK;
    if (!ok) {
        fprintf(stderr, "%s\n", err.text);
        close_devices(&sink);
        return 2;
    }
    if (!o.is_list)
        printf("%s: %s, seed %" PRIu64 "\n", sink.devices[0]->name, sink.devices[0]->description, o.seed);
    int n_ops = 0;
    for (int i = 0; i < o.n_fixtures; i++)
        ok = fixtures_run(&sink, o.fixtures[i], o.op) && ok;
    for (int op = 0; op < BW_OP_COUNT; op++) {
        if (!op_is_wanted(o.op, (bw_op)op))
            continue;
        n_ops++;
        if (o.n_fixtures == 0)
            run_op(&sink, (bw_op)op, o.seed);
    }
    if (o.is_list)
        sink_print_entries(&sink, o.is_names);
    int n_missing = o.require ? sink_require_entries(&sink, o.require) : 0;
    close_devices(&sink);
    bw_free(sink.entries);
    if (n_ops == 0 || !ok || n_missing < 0) {
        if (n_ops == 0)
            fprintf(stderr, "there is no operation \"%s\"; --list names them\n", o.op);
        if (n_missing < 0)
            fprintf(stderr, "%s cannot be read\n", o.require);
        return 2;
    }
    if (!o.is_list)
        printf("%" PRId64 " passed, %" PRId64 " failed, %" PRId64 " skipped", sink.n_passed, sink.n_failed,
               sink.n_skipped);
    if ((o.is_quick || o.most) && !o.is_list)
        printf(" (%" PRId64 " cases were left out)", sink.n_left_out);
    if (!o.is_list)
        puts("");
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fputs("what was found cannot be written\n", stderr);
        return 1;
    }
    return sink.n_failed || n_missing ? 1 : 0;
}
