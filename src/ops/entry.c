/* Names of entry points. */
#include "bw_entry.h"

#include <stdio.h>

static const char *dtype_of(const bw_tensor *t)
{
    return t ? bw_dtype_name(t->dtype) : "none";
}

static void set(const bw_op_call *call, bw_entry *entry, const bw_tensor *middle, const bw_tensor *last)
{
    const char *name = bw_op_get(call->op)->name;
    if (middle)
        snprintf(entry->prefix, sizeof entry->prefix, "%s_%s", name, dtype_of(middle));
    else
        snprintf(entry->prefix, sizeof entry->prefix, "%s", name);
    snprintf(entry->dtype, sizeof entry->dtype, "%s", last ? dtype_of(last) : "");
}

void bw_entry_plain(const bw_op_call *call, bw_entry *entry)
{
    set(call, entry, NULL, NULL);
}

void bw_entry_in0(const bw_op_call *call, bw_entry *entry)
{
    set(call, entry, NULL, call->in[0]);
}

void bw_entry_in1(const bw_op_call *call, bw_entry *entry)
{
    set(call, entry, NULL, call->in[1]);
}

void bw_entry_out0(const bw_op_call *call, bw_entry *entry)
{
    set(call, entry, NULL, call->out[0]);
}

void bw_entry_in0_out0(const bw_op_call *call, bw_entry *entry)
{
    set(call, entry, call->in[0], call->out[0]);
}

void bw_entry_in0_in1(const bw_op_call *call, bw_entry *entry)
{
    set(call, entry, call->in[0], call->in[1]);
}

void bw_entry_in1_in0(const bw_op_call *call, bw_entry *entry)
{
    set(call, entry, call->in[1], call->in[0]);
}
