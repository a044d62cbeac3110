/* formats: storing a model in another type. */
#include "../bw_test.h"

#include <math.h>
#include <sys/stat.h>

#include "bw_gguf.h"
#include "bw_mem.h"
#include "bw_quant.h"
#include "bw_quantise.h"
#include "bw_rng.h"
#include "raw.h"

static char folder[200], model[300], result[300];

typedef struct source {
    const char *name;
    int n_dims;
    int64_t dims[3];
} source;
/* rows of 256, of 96 (no multiple of 256) and of 40 (of neither) */
static const source sources[] = {{"token_embd.weight", 2, {50, 256}},
                                 {"blk.0.attn_q.weight", 2, {300, 256}},
                                 {"blk.0.attn_norm.weight", 1, {256}},
                                 {"blk.0.ffn_down.weight", 2, {7, 96}},
                                 {"blk.0.odd.weight", 2, {5, 40}},
                                 {"blk.0.ffn_gate_inp.weight", 2, {4, 256}},
                                 {"blk.0.ffn_up_exps.weight", 3, {2, 8, 256}},
                                 {"blk.0.attn_q.bias", 2, {1, 256}}};
enum { N_SOURCES = sizeof sources / sizeof sources[0] };
static float spoil; /* what the 1,000th element of attn_q becomes when it is not 0 */

static bw_status fill(void *user, bw_gguf_writer *w, size_t i, bw_err *err)
{
    (void)user;
    int64_t n = bw_shape_elements(sources[i].dims, sources[i].n_dims);
    bw_rng rng;
    bw_rng_init(&rng, i);
    for (int64_t k = 0; k < n; k++) {
        float v = (float)bw_rng_normal(&rng);
        if (spoil != 0 && i == 1 && k == 1000)
            v = spoil;
        BW_TRY(bw_gguf_writer_put(w, &v, 4, err));
    }
    return BW_OK;
}

static void make_model(void)
{
    bw_err err = {0};
    bw_gguf_writer *w;
    assert_ok(bw_gguf_writer_new(&w, &err), err);
    assert_ok(bw_gguf_writer_set_string(w, "general.architecture", "llama", &err), err);
    assert_ok(bw_gguf_writer_set_u32(w, "general.file_type", 0, &err), err);
    assert_ok(bw_gguf_writer_set_u32(w, "split.count", 1, &err), err);
    for (int i = 0; i < N_SOURCES; i++)
        assert_ok(bw_gguf_writer_add_tensor(w, sources[i].name, BW_F32, sources[i].n_dims, sources[i].dims, &err), err);
    assert_ok(bw_gguf_writer_write(w, model, fill, NULL, &err), err);
    bw_gguf_writer_free(w);
}

static int set_up(void **state)
{
    (void)state;
    raw_folder(folder);
    snprintf(model, sizeof model, "%s/in.gguf", folder);
    snprintf(result, sizeof result, "%s/out.gguf", folder);
    make_model();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    unlink(model);
    unlink(result);
    return rmdir(folder);
}

typedef struct told {
    int n_notes, n_progress, stop_after;
    uint64_t last, total;
    char note[300];
} told;

static bool progress(void *user, const char *tensor, uint64_t done, uint64_t total)
{
    told *t = user;
    assert_true(tensor[0] != 0 && done >= t->last && done <= total);
    t->last = done;
    t->total = total;
    t->n_progress++;
    return t->stop_after == 0 || t->n_progress < t->stop_after;
}

static void note(void *user, const char *sentence)
{
    told *t = user;
    t->n_notes++;
    snprintf(t->note, sizeof t->note, "%s", sentence);
}

static bw_dtype dtype_of(const bw_gguf *g, const char *name)
{
    const bw_gguf_tensor *t = bw_gguf_find_tensor(g, name);
    return t ? t->dtype : BW_DTYPE_COUNT;
}

static void types(void **state)
{
    (void)state;
    static const struct {
        bw_dtype asked, embedding, q, down;
        uint32_t file_type;
    } cases[] = {{BW_Q4_0, BW_Q6_K, BW_Q4_0, BW_Q4_0, 2},     {BW_Q2_K, BW_Q6_K, BW_Q2_K, BW_IQ4_NL, 10},
                 {BW_Q3_K, BW_Q6_K, BW_Q3_K, BW_IQ4_NL, 11},  {BW_Q4_K, BW_Q6_K, BW_Q4_K, BW_Q5_0, 14},
                 {BW_Q5_K, BW_Q6_K, BW_Q5_K, BW_Q5_1, 16},    {BW_Q6_K, BW_Q6_K, BW_Q6_K, BW_Q8_0, 18},
                 {BW_Q8_0, BW_Q8_0, BW_Q8_0, BW_Q8_0, 7},     {BW_IQ4_XS, BW_Q6_K, BW_IQ4_XS, BW_IQ4_NL, 30},
                 {BW_MXFP4, BW_Q6_K, BW_MXFP4, BW_MXFP4, 38}, {BW_F16, BW_F16, BW_F16, BW_F16, 1},
                 {BW_BF16, BW_BF16, BW_BF16, BW_BF16, 32}};
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        bw_err err = {0};
        bw_gguf *g;
        told t = {0};
        bw_quantise_options o;
        bw_quantise_report report;
        bw_quantise_options_init(&o);
        o.dtype = cases[k].asked;
        o.n_threads = 1 + (int)(k % 3);
        o.progress = progress;
        o.note = note;
        o.user = &t;
        assert_ok(bw_formats_quantise(model, result, &o, &report, &err), err);
        assert_ok(bw_gguf_open(result, &g, &err), err);
        assert_int_equal(dtype_of(g, "token_embd.weight"), cases[k].embedding);
        assert_int_equal(dtype_of(g, "blk.0.attn_q.weight"), cases[k].q);
        assert_int_equal(dtype_of(g, "blk.0.ffn_up_exps.weight"), cases[k].q);
        assert_int_equal(dtype_of(g, "blk.0.ffn_down.weight"), cases[k].down);
        assert_int_equal(dtype_of(g, "blk.0.odd.weight"), o.dtype == BW_BF16 ? BW_BF16 : BW_F16);
        assert_int_equal(dtype_of(g, "blk.0.attn_norm.weight"), BW_F32);
        assert_int_equal(dtype_of(g, "blk.0.ffn_gate_inp.weight"), BW_F32);
        assert_int_equal(dtype_of(g, "blk.0.attn_q.bias"), BW_F32);
        int64_t v = -1;
        assert_ok(bw_gguf_get_i64(g, "general.file_type", &v, NULL, &err), err);
        assert_int_equal(v, cases[k].file_type);
        assert_null(bw_gguf_find(g, "split.count"));
        assert_non_null(bw_gguf_find(g, "general.architecture"));
        assert_int_equal(report.n_converted, 5);
        assert_int_equal(report.n_copied, 3);
        assert_int_equal(report.n_fallback, t.n_notes);
        assert_int_equal(t.n_notes, (cases[k].down != o.dtype) + (bw_dtype_is_quantised(o.dtype) ? 1 : 0));
        assert_true(t.last == t.total && t.total == report.bytes_in);
        assert_true(report.bytes_out < report.bytes_in);
        bw_gguf_close(g);
    }
}

/* The result's rows are what encoding each row gives; the norms are copied. */
static void contents(void **state)
{
    (void)state;
    bw_err err = {0};
    bw_gguf *in, *out;
    bw_quantise_options o;
    bw_quantise_options_init(&o);
    o.dtype = BW_Q4_K;
    o.embedding_dtype = BW_Q8_0;
    o.n_threads = 3;
    assert_ok(bw_formats_quantise(model, result, &o, NULL, &err), err);
    assert_ok(bw_gguf_open(model, &in, &err), err);
    assert_ok(bw_gguf_open(result, &out, &err), err);
    assert_int_equal(dtype_of(out, "token_embd.weight"), BW_Q8_0);
    for (int i = 0; i < N_SOURCES; i++) {
        const bw_gguf_tensor *a = bw_gguf_find_tensor(in, sources[i].name),
                             *b = bw_gguf_find_tensor(out, sources[i].name);
        unsigned char row[2048];
        int64_t n = a->dims[a->n_dims - 1], bytes = bw_dtype_bytes(b->dtype, n);
        for (int64_t k = 0; k < bw_shape_elements(a->dims, a->n_dims) / n; k++) {
            assert_ok(bw_encode_row(b->dtype, (const float *)a->data + k * n, row, n, NULL, &err), err);
            assert_memory_equal(row, (const char *)b->data + k * bytes, (size_t)bytes);
        }
    }
    bw_gguf_close(in);
    bw_gguf_close(out);
    /* again, from the quantised file onto itself, in another type: pure */
    o.dtype = BW_Q5_0;
    o.embedding_dtype = BW_DTYPE_COUNT;
    o.pure = true;
    assert_ok(bw_formats_quantise(result, result, &o, NULL, &err), err);
    assert_ok(bw_gguf_open(result, &out, &err), err);
    assert_int_equal(dtype_of(out, "token_embd.weight"), BW_Q5_0);
    bw_gguf_close(out);
}

static void refusing(void **state)
{
    (void)state;
    bw_err err = {0};
    struct stat st;
    bw_quantise_options o;
    bw_quantise_options_init(&o);
    unlink(result);
    o.dtype = BW_IQ2_XS;
    assert_int_equal(bw_formats_quantise(model, result, &o, NULL, &err), BW_E_UNSUPPORTED);
    o.dtype = BW_Q8_0;
    o.output_dtype = BW_I8;
    assert_int_equal(bw_formats_quantise(model, result, &o, NULL, &err), BW_E_UNSUPPORTED);
    o.output_dtype = BW_DTYPE_COUNT;
    assert_int_equal(bw_formats_quantise("absent.gguf", result, &o, NULL, &err), BW_E_IO);
    told t = {.stop_after = 2};
    o.progress = progress;
    o.user = &t;
    assert_int_equal(bw_formats_quantise(model, result, &o, NULL, &err), BW_E_CANCELLED);
    assert_int_not_equal(stat(result, &st), 0);
    o.progress = NULL;
    spoil = NAN;
    make_model();
    assert_int_equal(bw_formats_quantise(model, result, &o, NULL, &err), BW_E_FORMAT);
    assert_non_null(strstr(err.text, "blk.0.attn_q.weight, row 3: element 232"));
    spoil = 1e30f;
    make_model();
    assert_int_equal(bw_formats_quantise(model, result, &o, NULL, &err), BW_E_RANGE);
    spoil = 0;
    make_model();
    assert_int_not_equal(stat(result, &st), 0);
}

/* The input has the very name that the result would have while it is written. */
static void input_named_like_temporary(void **state)
{
    (void)state;
    bw_err err = {0};
    char temporary[310];
    struct stat before, after;
    bw_quantise_options o;
    bw_quantise_options_init(&o);
    snprintf(temporary, sizeof temporary, "%s.tmp", result);
    assert_int_equal(rename(model, temporary), 0);
    assert_int_equal(stat(temporary, &before), 0);
    assert_ok(bw_formats_quantise(temporary, result, &o, NULL, &err), err);
    assert_int_equal(stat(temporary, &after), 0);
    assert_true(before.st_ino == after.st_ino && before.st_size == after.st_size);
    unlink(result);
    assert_int_equal(rename(temporary, model), 0);
}

static void out_of_memory(void **state)
{
    (void)state;
    bw_quantise_options o;
    bw_quantise_options_init(&o);
    o.n_threads = 2;
    int failed = 0;
    for (int64_t n = 1;; n++) {
        bw_err err = {0};
        int64_t live = bw_mem_live();
        bw_mem_fail_at(n);
        bw_status status = bw_formats_quantise(model, result, &o, NULL, &err);
        bw_mem_fail_at(0);
        assert_int_equal(bw_mem_live(), live);
        if (status == BW_OK)
            break;
        assert_int_equal(status, BW_E_MEMORY);
        failed++;
    }
    assert_true(failed > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(types),         cmocka_unit_test(contents),
        cmocka_unit_test(refusing),      cmocka_unit_test(input_named_like_temporary),
        cmocka_unit_test(out_of_memory),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
