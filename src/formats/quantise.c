/* Storing a model in another type: which tensor becomes what, and the streaming of rows through a team of threads. */
#include "bw_quantise.h"

#include <inttypes.h>
#include <stdio.h>

#include "bw_gguf.h"
#include "bw_mem.h"
#include "bw_quant.h"
#include "bw_str.h"
#include "bw_team.h"
#include "name_index.h"

enum { PIECE_BYTES = 4 << 20, MAX_NAME = 1 << 10 };

typedef struct conversion {
    const bw_gguf *in;
    const bw_quantise_options *options;
    bw_dtype *dtypes; /* [tensors]: the new types */
    bw_team *team;
    float *scratch; /* [team][longest row] */
    int64_t longest;
    unsigned char *piece; /* encoded rows */
    size_t piece_cap;
    uint64_t bytes_done, bytes_total;
} conversion;

void bw_quantise_options_init(bw_quantise_options *options)
{
    *options =
        (bw_quantise_options){.dtype = BW_Q4_0, .output_dtype = BW_DTYPE_COUNT, .embedding_dtype = BW_DTYPE_COUNT};
}

/* ---- which type ---- */

static bool name_is(const bw_gguf_tensor *t, const char *name)
{
    return t->name.n_bytes == strlen(name) && memcmp(t->name.data, name, t->name.n_bytes) == 0;
}

static bool name_ends(const bw_gguf_tensor *t, const char *suffix)
{
    size_t n = strlen(suffix);
    return t->name.n_bytes >= n && memcmp(t->name.data + t->name.n_bytes - n, suffix, n) == 0;
}

static bool is_converted(const bw_gguf_tensor *t)
{
    static const char *const kept[] = {"norm.weight",        "ffn_gate_inp.weight", "position_embd.weight",
                                       "token_types.weight", "ssm_conv1d.weight",   "shortconv.conv.weight"};
    if (t->n_dims < 2 || !name_ends(t, ".weight"))
        return false;
    if (t->dtype == BW_I8 || t->dtype == BW_I16 || t->dtype == BW_I32 || t->dtype == BW_I64 || t->dtype == BW_F64)
        return false;
    for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++)
        if (name_ends(t, kept[i]))
            return false;
    return true;
}

/* Bits of a weight, times 32. */
static int64_t weight_bits(bw_dtype dtype)
{
    return bw_dtype_block_bytes(dtype) * 256 / bw_dtype_block_elements(dtype);
}

/* The asked-for type of one tensor, before its row length is looked at. */
static bw_dtype wanted_dtype(const conversion *c, const bw_gguf_tensor *t)
{
    const bw_quantise_options *o = c->options;
    bool is_output = name_is(t, "output.weight"), is_embedding = name_is(t, "token_embd.weight");
    if (is_output && o->output_dtype != BW_DTYPE_COUNT)
        return o->output_dtype;
    if (is_embedding && o->embedding_dtype != BW_DTYPE_COUNT)
        return o->embedding_dtype;
    bool gives_logits = is_output || (is_embedding && !bw_gguf_find_tensor(c->in, "output.weight"));
    if (gives_logits && !o->pure && weight_bits(o->dtype) < weight_bits(BW_Q6_K))
        return BW_Q6_K;
    return o->dtype;
}

static bw_dtype fitting_dtype(bw_dtype dtype, int64_t row)
{
    if (row % bw_dtype_block_elements(dtype) == 0)
        return dtype;
    if (row % 32 != 0)
        return BW_F16;
    switch (dtype) {
    case BW_Q4_K:
        return BW_Q5_0;
    case BW_Q5_K:
        return BW_Q5_1;
    case BW_Q6_K:
        return BW_Q8_0;
    default: /* Q2_K, Q3_K, IQ4_XS */
        return BW_IQ4_NL;
    }
}

static void choose_dtypes(conversion *c, bw_quantise_report *report)
{
    for (size_t i = 0; i < bw_gguf_n_tensors(c->in); i++) {
        const bw_gguf_tensor *t = bw_gguf_tensor_at(c->in, i);
        c->bytes_total += t->n_bytes;
        c->dtypes[i] = t->dtype;
        if (!is_converted(t)) {
            report->n_copied++;
            continue;
        }
        int64_t row = t->dims[t->n_dims - 1];
        bw_dtype wanted = wanted_dtype(c, t), got = fitting_dtype(wanted, row);
        c->dtypes[i] = got;
        report->n_converted++;
        c->longest = row > c->longest ? row : c->longest;
        if (got == wanted)
            continue;
        report->n_fallback++;
        char shown[BW_NAME_SHOWN], sentence[300];
        snprintf(sentence, sizeof sentence,
                 "%s becomes %s, not %s: its rows of %" PRId64 " elements are no multiple of %" PRId64,
                 bw_name_show(shown, t->name.data, t->name.n_bytes), bw_dtype_name(got), bw_dtype_name(wanted), row,
                 bw_dtype_block_elements(wanted));
        if (c->options->note)
            c->options->note(c->options->user, sentence);
    }
}

/* ---- one tensor ---- */

typedef struct piece_job {
    const conversion *c;
    bw_dtype from, to;
    const unsigned char *src;
    int64_t row, n_rows, src_bytes, dst_bytes; /* elements of a row; rows of this piece; bytes of a row */
    _Atomic int64_t next;
    _Atomic int failed; /* the first to fail writes err */
    int64_t failed_row;
    bw_err err;
} piece_job;

static void convert_rows(void *arg, bw_member *member)
{
    piece_job *job = arg;
    float *values = job->c->scratch + (size_t)member->rank * (size_t)job->c->longest;
    int64_t begin, end;
    while (!atomic_load(&job->failed) && bw_team_take(&job->next, job->n_rows, 1, &begin, &end)) {
        bw_err err = {0};
        bw_status status = bw_decode_row(job->from, job->src + begin * job->src_bytes, values, job->row, &err);
        if (status == BW_OK)
            status = bw_encode_row(job->to, values, job->c->piece + begin * job->dst_bytes, job->row, NULL, &err);
        int expected = 0;
        if (status != BW_OK && atomic_compare_exchange_strong(&job->failed, &expected, 1)) {
            job->err = err;
            job->failed_row = begin;
        }
    }
}

static bw_status tell_progress(conversion *c, const char *name, uint64_t bytes, bw_err *err)
{
    c->bytes_done += bytes;
    if (c->options->progress && !c->options->progress(c->options->user, name, c->bytes_done, c->bytes_total))
        return bw_fail(err, BW_E_CANCELLED, "the conversion was stopped at %s", name);
    return BW_OK;
}

static bw_status convert_tensor(conversion *c, bw_gguf_writer *writer, const bw_gguf_tensor *t, bw_dtype to,
                                const char *name, bw_err *err)
{
    int64_t row = t->dims[t->n_dims - 1], n_rows = bw_shape_elements(t->dims, t->n_dims) / row;
    piece_job job = {.c = c, .from = t->dtype, .to = to, .row = row};
    job.src_bytes = bw_dtype_bytes(t->dtype, row);
    job.dst_bytes = bw_dtype_bytes(to, row);
    int64_t rows_at_once = (int64_t)c->piece_cap / job.dst_bytes;
    for (int64_t done = 0; done < n_rows; done += job.n_rows) {
        job.src = (const unsigned char *)t->data + done * job.src_bytes;
        job.n_rows = n_rows - done < rows_at_once ? n_rows - done : rows_at_once;
        atomic_store(&job.next, 0);
        bw_team_run(c->team, convert_rows, &job);
        if (atomic_load(&job.failed)) {
            if (err)
                *err = job.err;
            bw_err_prefix(err, "tensor %s, row %" PRId64, name, done + job.failed_row);
            return job.err.status;
        }
        BW_TRY(bw_gguf_writer_put(writer, c->piece, (size_t)(job.n_rows * job.dst_bytes), err));
        BW_TRY(tell_progress(c, name, (uint64_t)(job.n_rows * job.src_bytes), err));
    }
    return BW_OK;
}

static bw_status copy_tensor(conversion *c, bw_gguf_writer *writer, const bw_gguf_tensor *t, const char *name,
                             bw_err *err)
{
    for (size_t done = 0; done < t->n_bytes;) {
        size_t n = t->n_bytes - done < PIECE_BYTES ? t->n_bytes - done : PIECE_BYTES;
        BW_TRY(bw_gguf_writer_put(writer, (const char *)t->data + done, n, err));
        BW_TRY(tell_progress(c, name, n, err));
        done += n;
    }
    return BW_OK;
}

static const char *terminated_name(const bw_gguf_tensor *t, char out[MAX_NAME])
{
    snprintf(out, MAX_NAME, "%.*s", (int)t->name.n_bytes, t->name.data);
    return out;
}

static bw_status fill_tensor(void *user, bw_gguf_writer *writer, size_t i, bw_err *err)
{
    conversion *c = user;
    const bw_gguf_tensor *t = bw_gguf_tensor_at(c->in, i);
    const bw_map *map = bw_gguf_map(c->in, t->part);
    size_t offset = (size_t)((const unsigned char *)t->data - map->data);
    char name[MAX_NAME];
    terminated_name(t, name);
    bw_map_will_need(map, offset, t->n_bytes);
    bw_status status = t->dtype == c->dtypes[i] ? copy_tensor(c, writer, t, name, err)
                                                : convert_tensor(c, writer, t, c->dtypes[i], name, err);
    bw_map_drop(map, offset, t->n_bytes);
    BW_TRY(bw_map_check(true, err)); /* the input may have been cut short meanwhile */
    return status;
}

/* ---- the whole ---- */

/* The number that general.file_type gives a file whose matrices are mostly of this type (ggml's llama_ftype). */
static uint32_t file_type(bw_dtype dtype)
{
    static const struct {
        bw_dtype dtype;
        uint32_t number;
    } types[] = {{BW_F32, 0},   {BW_F16, 1},    {BW_Q4_0, 2},    {BW_Q4_1, 3},   {BW_Q8_0, 7},  {BW_Q5_0, 8},
                 {BW_Q5_1, 9},  {BW_Q2_K, 10},  {BW_Q3_K, 11},   {BW_Q4_K, 14},  {BW_Q5_K, 16}, {BW_Q6_K, 18},
                 {BW_BF16, 32}, {BW_MXFP4, 38}, {BW_IQ4_NL, 25}, {BW_IQ4_XS, 30}};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (types[i].dtype == dtype)
            return types[i].number;
    return 1024; /* "guessed" */
}

static bw_status declare_all(const conversion *c, bw_gguf_writer *writer, bw_err *err)
{
    for (size_t i = 0; i < bw_gguf_n_values(c->in); i++) {
        const char *key = bw_gguf_key(c->in, i);
        if (!bw_str_starts(key, "split."))
            BW_TRY(bw_gguf_writer_set(writer, key, bw_gguf_value_at(c->in, i), err));
    }
    BW_TRY(bw_gguf_writer_set_u32(writer, "general.file_type", file_type(c->options->dtype), err));
    BW_TRY(bw_gguf_writer_set_u32(writer, "general.quantization_version", 2, err));
    for (size_t i = 0; i < bw_gguf_n_tensors(c->in); i++) {
        const bw_gguf_tensor *t = bw_gguf_tensor_at(c->in, i);
        char name[MAX_NAME];
        BW_TRY(bw_gguf_writer_add_tensor(writer, terminated_name(t, name), c->dtypes[i], t->n_dims, t->dims, err));
    }
    return BW_OK;
}

static bw_status allocate(conversion *c, bw_err *err)
{
    size_t scratch = 0;
    int64_t widest = 0; /* bytes of an encoded row; no encoder needs more than four bytes an element */
    if (!bw_mul_size((size_t)c->longest, (size_t)bw_team_size(c->team), &scratch) ||
        !bw_mul_i64(c->longest, 4, &widest))
        return bw_fail(err, BW_E_RANGE, "a row of %" PRId64 " elements is too long", c->longest);
    c->piece_cap = widest > PIECE_BYTES ? (size_t)widest : PIECE_BYTES;
    c->scratch = bw_alloc_array(scratch, sizeof *c->scratch);
    c->piece = bw_alloc(c->piece_cap);
    if (!c->scratch || !c->piece)
        return bw_fail_memory(err, scratch * sizeof *c->scratch + c->piece_cap, "the rows in work");
    return BW_OK;
}

static bw_status convert(conversion *c, const char *out_path, bw_quantise_report *report, bw_err *err)
{
    bw_gguf_writer *writer = NULL;
    c->dtypes = bw_alloc_zero(bw_gguf_n_tensors(c->in), sizeof *c->dtypes);
    if (!c->dtypes)
        return bw_fail_memory(err, bw_gguf_n_tensors(c->in) * sizeof *c->dtypes, "the tensors' types");
    choose_dtypes(c, report);
    bw_status status = bw_team_new(c->options->n_threads, &c->team, err);
    if (status == BW_OK)
        status = allocate(c, err);
    if (status == BW_OK)
        status = bw_gguf_writer_new(&writer, err);
    if (status == BW_OK)
        status = declare_all(c, writer, err);
    if (status == BW_OK)
        status = bw_gguf_writer_write(writer, out_path, fill_tensor, c, err);
    for (size_t i = 0; i < bw_gguf_n_tensors(c->in); i++) {
        const bw_gguf_tensor *t = bw_gguf_tensor_at(c->in, i);
        report->bytes_in += t->n_bytes;
        report->bytes_out += (uint64_t)bw_tensor_bytes(c->dtypes[i], t->n_dims, t->dims);
    }
    bw_gguf_writer_free(writer);
    bw_team_free(c->team);
    bw_free(c->scratch);
    bw_free(c->piece);
    bw_free(c->dtypes);
    return status;
}

static bw_status check_dtype(bw_dtype dtype, bool may_be_absent, bw_err *err)
{
    if ((dtype == BW_DTYPE_COUNT && may_be_absent) || bw_can_encode(dtype))
        return BW_OK;
    return bw_fail(err, BW_E_UNSUPPORTED,
                   "a model cannot be written as %s; f32 f16 bf16 q4_0 q4_1 q5_0 q5_1 q8_0 q2_k q3_k "
                   "q4_k q5_k q6_k iq4_nl iq4_xs mxfp4 are possible",
                   bw_dtype_name(dtype));
}

bw_status bw_formats_quantise(const char *in_path, const char *out_path, const bw_quantise_options *options,
                              bw_quantise_report *report, bw_err *err)
{
    bw_quantise_report ours;
    report = report ? report : &ours;
    *report = (bw_quantise_report){0};
    BW_TRY(check_dtype(options->dtype, false, err));
    BW_TRY(check_dtype(options->output_dtype, true, err));
    BW_TRY(check_dtype(options->embedding_dtype, true, err));
    bw_gguf *in;
    BW_TRY(bw_gguf_open(in_path, &in, err));
    conversion c = {.in = in, .options = options};
    bw_status status = convert(&c, out_path, report, err);
    bw_gguf_close(in);
    return status;
}
