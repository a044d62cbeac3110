/* The entry points that cases were made for. */
#include "conformance.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bw_entry.h"
#include "bw_mem.h"

static uint64_t tensor_dtypes(const bw_op_call *call)
{
    uint64_t mask = 0;
    for (int i = 0; i < call->n_in; i++)
        if (call->in[i])
            mask |= (uint64_t)1 << call->in[i]->dtype;
    for (int i = 0; i < call->n_out; i++)
        mask |= (uint64_t)1 << call->out[i]->dtype;
    return mask;
}

void sink_note_entry(bw_case_sink *sink, const bw_op_call *call)
{
    bw_entry entry;
    bw_op_get_entry(call, &entry);
    bw_dtype dtype = bw_dtype_from_name(entry.dtype);
    bool has_dtype = dtype < BW_DTYPE_COUNT;
    uint64_t mask = has_dtype ? (uint64_t)1 << dtype : tensor_dtypes(call);
    for (size_t i = 0; i < sink->n_entries; i++)
        if (sink->entries[i].op == call->op && strcmp(sink->entries[i].prefix, entry.prefix) == 0) {
            sink->entries[i].dtypes |= mask;
            return;
        }
    if (!bw_reserve((void **)&sink->entries, &sink->entries_capacity, sink->n_entries + 1, sizeof *sink->entries)) {
        fprintf(stderr, "no memory for the list of entry points\n");
        exit(2);
    }
    entry_point *e = &sink->entries[sink->n_entries++];
    *e = (entry_point){.op = call->op, .dtypes = mask, .has_dtype = has_dtype};
    memcpy(e->prefix, entry.prefix, sizeof e->prefix);
}

void sink_print_entries(const bw_case_sink *sink, bool full_names)
{
    for (size_t i = 0; i < sink->n_entries; i++) {
        const entry_point *e = &sink->entries[i];
        const char *family = bw_op_get(e->op)->family;
        if (full_names && !e->has_dtype) {
            printf("%s/%s\n", family, e->prefix);
            continue;
        }
        if (!full_names)
            printf("%s/%s", family, e->prefix);
        for (int d = 0; d < BW_DTYPE_COUNT; d++) {
            if (!(e->dtypes >> d & 1))
                continue;
            if (full_names)
                printf("%s/%s_%s\n", family, e->prefix, bw_dtype_name((bw_dtype)d));
            else
                printf(" %s", bw_dtype_name((bw_dtype)d));
        }
        if (!full_names)
            printf("\n");
    }
}

static bool is_there(const bw_case_sink *sink, const char *wanted)
{
    char name[128];
    for (size_t i = 0; i < sink->n_entries; i++) {
        const entry_point *e = &sink->entries[i];
        const char *family = bw_op_get(e->op)->family;
        snprintf(name, sizeof name, "%s/%s", family, e->prefix);
        if (!e->has_dtype && strcmp(name, wanted) == 0)
            return true;
        for (int d = 0; d < BW_DTYPE_COUNT && e->has_dtype; d++) {
            snprintf(name, sizeof name, "%s/%s_%s", family, e->prefix, bw_dtype_name((bw_dtype)d));
            if ((e->dtypes >> d & 1) && strcmp(name, wanted) == 0)
                return true;
        }
    }
    return false;
}

int sink_require_entries(const bw_case_sink *sink, const char *path)
{
    FILE *f = fopen(path, "re");
    if (!f)
        return -1;
    char line[128];
    int n_missing = 0, n = 0;
    while (fgets(line, sizeof line, f)) {
        line[strcspn(line, "\r\n")] = 0;
        if (line[0] == 0)
            continue;
        n++;
        if (!is_there(sink, line)) {
            printf("MISSING %s\n", line);
            n_missing++;
        }
    }
    fclose(f);
    printf("%d of %d required entry points are there\n", n - n_missing, n);
    return n_missing;
}
