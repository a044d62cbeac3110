/* make_model: random values of every type, the same bytes for the same seed, models that load and compute, full disks.
 */
#include "../bw_test.h"

#include <dirent.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bw_gguf.h"
#include "bw_lm.h"
#include "bw_map.h"
#include "bw_mem.h"
#include "bw_quant.h"
#include "make_model.h"
#include "model.h"

static char folder[] = "make_model_test_XXXXXX";

/* ---- values ------------------------------------------------------------------------------------------------------ */

static void check_values(bw_dtype dtype, double mean, double sigma, double limit)
{
    bw_err err = {0};
    mm_values *v = bw_alloc(sizeof *v);
    float *f = bw_alloc_array(MM_CHUNK, sizeof *f);
    void *bytes = bw_alloc((size_t)bw_dtype_bytes(dtype, MM_CHUNK));
    assert_non_null(bytes);
    assert_ok(mm_values_init(v, dtype, mean, sigma, &err), err);
    mm_values_fill(v, 5, 6, 7, MM_CHUNK, bytes);
    assert_ok(bw_decode_row(dtype, bytes, f, MM_CHUNK, &err), err);
    double sum = 0, squares = 0;
    for (int i = 0; i < MM_CHUNK; i++) {
        if (!isfinite(f[i]))
            fail_msg("%s: value %d is %g", bw_dtype_name(dtype), i, (double)f[i]);
        sum += f[i];
        squares += (double)f[i] * f[i];
    }
    double m = sum / MM_CHUNK, s = sqrt(squares / MM_CHUNK - m * m);
    if (!(fabs(m - mean) < 0.08 * sigma && fabs(s / sigma - 1) < limit))
        fail_msg("%s: mean %g and deviation %g, wanted %g and %g", bw_dtype_name(dtype), m, s, mean, sigma);
    bw_free(bytes);
    bw_free(f);
    bw_free(v);
}

static void values(void **state)
{
    (void)state;
    int n = 0;
    for (int t = 0; t < BW_DTYPE_COUNT; t++) {
        if (!mm_values_can((bw_dtype)t))
            continue;
        n++;
        check_values((bw_dtype)t, 0, 0.06, 0.05);
        check_values((bw_dtype)t, 0, 5e-4, 0.25); /* llama-70b's ffn_down: scales near binary16's smallest */
        if (!bw_dtype_is_quantised((bw_dtype)t))
            check_values((bw_dtype)t, 1, 0.1, 0.01);
        else
            assert_true(bw_dtype_gguf((bw_dtype)t) >= 0);
    }
    print_message("%d types\n", n);
    int n_quantised = 0;
    for (int t = 0; t < BW_DTYPE_COUNT; t++)
        n_quantised += bw_dtype_is_quantised((bw_dtype)t);
    assert_int_equal(n, n_quantised + 4);
    assert_false(mm_values_can(BW_I32));
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

static const char *path_of(const char *name)
{
    static char path[100];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static bw_status make(const char *shape, const char *name, bw_dtype type, mm_mix mix, uint64_t seed, int n_threads,
                      bw_err *err)
{
    mm_result result;
    mm_options o = {mm_shape_find(shape), path_of(name), type, mix, seed, n_threads, NULL};
    assert_non_null(o.shape);
    return mm_write(&o, &result, err);
}

static uint64_t hash_of(const char *name)
{
    bw_err err = {0};
    bw_map map;
    assert_ok(bw_map_open(path_of(name), &map, &err), err);
    uint64_t hash = map.n_bytes;
    for (size_t i = 0; i < map.n_bytes; i++)
        hash = (hash ^ map.data[i]) * UINT64_C(0x100000001b3);
    bw_map_close(&map);
    unlink(path_of(name));
    return hash;
}

static void same_bytes(void **state)
{
    (void)state;
    bw_err err = {0};
    static const bw_dtype types[] = {BW_Q4_K, BW_F32};
    for (size_t i = 0; i < 2; i++) {
        assert_ok(make("tiny", "a.gguf", types[i], MM_MIX_NONE, 1, 1, &err), err);
        uint64_t one = hash_of("a.gguf");
        assert_ok(make("tiny", "a.gguf", types[i], MM_MIX_NONE, 1, 3, &err), err);
        assert_true(hash_of("a.gguf") == one);
        assert_ok(make("tiny", "a.gguf", types[i], MM_MIX_NONE, 2, 3, &err), err);
        assert_true(hash_of("a.gguf") != one);
    }
}

/* One prompt of 20 tokens: logits that are finite, spread as they should be, and differ from row to row. */
static void step(const char *shape, const char *name)
{
    enum { N = 20 };
    bw_err err = {0};
    bw_device *device;
    bw_lm_file *file;
    bw_lm *lm;
    bw_lm_info info;
    assert_ok(bw_device_open("cpu:0", 2, &device, &err), err);
    assert_ok(bw_lm_file_open(path_of(name), &file, &err), err);
    bw_lm_options o = {
        .kv_dtype = BW_F16, .n_pages = 2, .max_tokens = 32, .max_seqs = 1, .max_outputs = 2, .max_seq_pages = 1};
    assert_ok(bw_lm_new(file, device, &o, &lm, &err), err);
    bw_lm_get_info(lm, &info);
    int32_t tokens[N], outputs[2] = {0, N - 1}, pages[1] = {1}, n = info.n_vocab;
    for (int i = 0; i < N; i++)
        tokens[i] = i * 37 % n;
    bw_lm_seq seq = {.n_tokens = N, .n_cached = N, .pages = pages};
    bw_lm_batch batch = {
        .n_tokens = N, .tokens = tokens, .n_seqs = 1, .seqs = &seq, .n_outputs = 2, .outputs = outputs};
    const float *logits;
    assert_ok(bw_lm_step(lm, &batch, &logits, &err), err);
    double squares = 0, dot = 0, most = 0;
    for (int32_t i = 0; i < 2 * n; i++)
        squares += (double)logits[i] * logits[i] / (2.0 * n);
    for (int32_t i = 0; i < n; i++)
        dot += (double)logits[i] * logits[n + i] / n / squares;
    if (!(squares > 2 && squares < 30 && dot < 0.7)) /* about 9: their standard deviation is 3 */
        fail_msg("%s %s: logits' mean square %g, likeness of rows %g", shape, name, squares, dot);
    for (int32_t i = 0; i < 2 * n; i++)
        most = fabs((double)logits[i]) > most ? fabs((double)logits[i]) : most;
    if (!(most < 6 * sqrt(squares))) /* no token, such as the one that was read, wins by design */
        fail_msg("%s %s: a logit of %g among logits of about %g", shape, name, most, sqrt(squares));
    const bw_tokenizer *t = bw_lm_tokenizer(lm);
    assert_non_null(t);
    assert_int_equal(bw_tokenizer_n_tokens(t), n);
    bw_lm_free(lm);
    bw_device_close(device);
}

static void gguf_models(void **state)
{
    (void)state;
    static const char *const shapes[] = {"tiny", "tiny-gemma3", "tiny-qwen2"};
    static const bw_dtype types[] = {BW_F32,   BW_F16,   BW_BF16,  BW_Q4_0,  BW_Q4_1, BW_Q5_0,   BW_Q8_0,
                                     BW_Q2_K,  BW_Q3_K,  BW_Q4_K,  BW_Q5_K,  BW_Q6_K, BW_IQ4_XS, BW_IQ2_XXS,
                                     BW_IQ1_M, BW_MXFP4, BW_NVFP4, BW_TQ1_0, BW_Q1_0};
    bw_err err = {0};
    for (size_t s = 0; s < 3; s++)
        for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
            char name[40];
            snprintf(name, sizeof name, "%s.gguf", bw_dtype_name(types[t]));
            assert_ok(make(shapes[s], name, types[t], MM_MIX_NONE, 1, 2, &err), err);
            step(shapes[s], name);
            unlink(path_of(name));
        }
    assert_ok(make("tiny", "mix.gguf", BW_F16, MM_MIX_Q4_K_M, 1, 2, &err), err);
    step("tiny", "mix.gguf");
    unlink(path_of("mix.gguf"));
}

static void safetensors_models(void **state)
{
    (void)state;
    static const char *const shapes[] = {"tiny", "tiny-gemma3", "tiny-qwen2"};
    static const char *const files[] = {"dir/model.safetensors", "dir/config.json", "dir/tokenizer.json"};
    static const bw_dtype types[] = {BW_BF16, BW_F16, BW_F32};
    bw_err err = {0};
    for (size_t s = 0; s < 3; s++) {
        assert_ok(make(shapes[s], "dir", types[s], MM_MIX_NONE, 3, 2, &err), err);
        step(shapes[s], "dir");
        for (int i = 0; i < 3; i++)
            assert_int_equal(unlink(path_of(files[i])), 0);
        assert_int_equal(rmdir(path_of("dir")), 0);
    }
}

/* The mixture of experts: its metadata and tensors. */
static void experts(void **state)
{
    (void)state;
    bw_err err = {0};
    bw_gguf *g;
    int64_t n = 0;
    assert_ok(make("tiny-qwen3-moe", "moe.gguf", BW_Q4_K, MM_MIX_NONE, 1, 2, &err), err);
    assert_ok(bw_gguf_open(path_of("moe.gguf"), &g, &err), err);
    assert_ok(bw_gguf_get_i64(g, "qwen3moe.expert_count", &n, NULL, &err), err);
    assert_int_equal(n, 8);
    assert_ok(bw_gguf_get_i64(g, "qwen3moe.expert_used_count", &n, NULL, &err), err);
    assert_int_equal(n, 2);
    const bw_gguf_tensor *t = bw_gguf_find_tensor(g, "blk.1.ffn_down_exps.weight");
    assert_non_null(t);
    assert_int_equal(t->dtype, BW_Q4_K);
    assert_int_equal(t->dims[0], 8);
    assert_int_equal(t->dims[1], 256);
    assert_int_equal(t->dims[2], 256);
    t = bw_gguf_find_tensor(g, "blk.0.ffn_gate_inp.weight");
    assert_non_null(t);
    assert_int_equal(t->dtype, BW_F32);
    assert_non_null(bw_gguf_find_tensor(g, "blk.0.attn_k_norm.weight"));
    bw_gguf_close(g);
    unlink(path_of("moe.gguf"));
}

/* What generating a token reads, of files whose tensors can be added up by hand. */
static bw_source_sizes sizes_of(const char *name)
{
    bw_err err = {0};
    bw_source source;
    bw_source_sizes sizes;
    assert_ok(bw_source_open(path_of(name), &source, &err), err);
    bw_source_count(&source, &sizes);
    bw_source_close(&source);
    return sizes;
}

static void remove_folder(const char *name)
{
    static const char *const files[] = {"model.safetensors", "config.json", "tokenizer.json"};
    char path[60];
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%.20s/%s", name, files[i]);
        unlink(path_of(path));
    }
    assert_int_equal(rmdir(path_of(name)), 0);
}

static void token_bytes(void **state)
{
    (void)state;
    /* elements: a row of 256, q and o, k and v, the feed-forward part, one expert */
    enum { ROW = 256, QO = 2 * 256 * 256, KV = 2 * 128 * 256, FF = 3 * 512 * 256, EXPERT = 3 * 256 * 256 };
    enum { N_VOCAB = 1024, LAYERS = 2 };
    bw_err err = {0};
    /* GGUF: f16 matrices, f32 norms and biases */
    const int64_t layer = 2 * (QO + KV + FF) + 4 * 2 * ROW, matrix = 2 * N_VOCAB * ROW;
    assert_ok(make("tiny", "x.gguf", BW_F16, MM_MIX_NONE, 1, 1, &err), err);
    bw_source_sizes s = sizes_of("x.gguf");
    assert_int_equal(s.token_bytes, LAYERS * layer + 4 * ROW + matrix + 2 * ROW); /* of the embedding one row */
    assert_int_equal(s.n_bytes, LAYERS * layer + 4 * ROW + 2 * matrix);
    assert_ok(make("tiny-qwen2", "x.gguf", BW_F16, MM_MIX_NONE, 1, 1, &err), err);
    s = sizes_of("x.gguf");
    assert_int_equal(s.token_bytes, LAYERS * (layer + 4 * (256 + 2 * 128)) + 4 * ROW + matrix); /* tied: all of it */
    assert_int_equal(s.n_bytes, s.token_bytes);
    assert_ok(make("tiny-qwen3-moe", "x.gguf", BW_F16, MM_MIX_NONE, 1, 1, &err), err);
    s = sizes_of("x.gguf");
    const int64_t rest = 2 * (QO + KV) + 4 * (2 * ROW + 2 * 64 + 8 * 256);
    assert_int_equal(s.token_bytes, LAYERS * (rest + 2 * 2 * EXPERT) + 4 * ROW + matrix + 2 * ROW); /* 2 of 8 */
    assert_int_equal(s.n_bytes, LAYERS * (rest + 8 * 2 * EXPERT) + 4 * ROW + 2 * matrix);
    /* one row of blocks of 20 bytes for 32 values */
    assert_ok(make("tiny", "x.gguf", BW_Q4_1, MM_MIX_NONE, 1, 1, &err), err);
    s = sizes_of("x.gguf");
    assert_int_equal(s.n_bytes - s.token_bytes, (N_VOCAB - 1) * ROW / 32 * 20);
    unlink(path_of("x.gguf"));
    /* safetensors: everything in bf16 */
    assert_ok(make("tiny", "x", BW_BF16, MM_MIX_NONE, 1, 1, &err), err);
    s = sizes_of("x");
    assert_int_equal(s.token_bytes, 2 * (LAYERS * (QO + KV + FF + 2 * ROW) + ROW + N_VOCAB * ROW + ROW));
    assert_int_equal(s.n_bytes - s.token_bytes, 2 * (N_VOCAB - 1) * ROW);
    remove_folder("x");
    assert_ok(make("tiny-qwen3-moe", "x", BW_BF16, MM_MIX_NONE, 1, 1, &err), err);
    s = sizes_of("x");
    assert_int_equal(s.n_bytes - s.token_bytes, 2 * ((N_VOCAB - 1) * ROW + LAYERS * 6 * EXPERT));
    remove_folder("x");
}

/* In a file with other models beside the language model, and with an output matrix that config.json says is none. */
static void token_bytes_of_parts(void **state)
{
    (void)state;
    bw_err err = {0};
    float data[12] = {0};
    bw_safetensor t[] = {
        {.name = "model.language_model.embed_tokens.weight", .n_dims = 2, .dims = {3, 2}, .n_bytes = 24},
        {.name = "model.language_model.norm.weight", .n_dims = 1, .dims = {2}, .n_bytes = 8},
        {.name = "model.vision_tower.patch.weight", .n_dims = 2, .dims = {3, 4}, .n_bytes = 48},
        {.name = "lm_head.weight", .n_dims = 2, .dims = {3, 2}, .n_bytes = 24},
    };
    for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
        t[i].dtype = BW_F32;
        t[i].data = data;
    }
    static const struct {
        const char *tied;
        int64_t n;
    } rows[] = {{"true", 24 + 8}, {"false", 8 + 8 + 24}};
    assert_int_equal(mkdir(path_of("x"), 0700), 0);
    assert_ok(bw_safetensors_write(path_of("x/model.safetensors"), t, sizeof t / sizeof *t, &err), err);
    for (size_t i = 0; i < 2; i++) {
        FILE *f = fopen(path_of("x/config.json"), "w");
        assert_non_null(f);
        fprintf(f, "{\"architectures\":[\"Gemma3ForCausalLM\"],\"tie_word_embeddings\":%s}", rows[i].tied);
        assert_int_equal(fclose(f), 0);
        bw_source_sizes s = sizes_of("x");
        assert_int_equal(s.token_bytes, rows[i].n);
        assert_int_equal(s.n_bytes, 104);
    }
    remove_folder("x");
}

/* Rows that K-quants' blocks do not divide; no file is written. */
static void fitting_types(void **state)
{
    (void)state;
    bw_err err = {0};
    mm_list list;
    for (int i = 0; i < mm_n_shapes; i++) {
        const mm_shape *s = &mm_shapes[i];
        assert_ok(mm_list_make(s, true, BW_F16, MM_MIX_Q5_K_M, &list, &err), err);
        for (size_t k = 0; k < list.n; k++)
            assert_true(bw_tensor_bytes(list.items[k].dtype, list.items[k].n_dims, list.items[k].dims) > 0);
        if (strcmp(s->name, "llama-135m") == 0) /* rows of 576 */
            assert_int_equal(list.items[2].dtype, BW_Q5_1);
        mm_list_free(&list);
        assert_ok(mm_list_make(s, false, BW_BF16, MM_MIX_NONE, &list, &err), err);
        mm_list_free(&list);
    }
    assert_ok(mm_list_make(mm_shape_find("llama-8b"), true, BW_Q4_0, MM_MIX_NONE, &list, &err), err);
    int64_t n = 0;
    for (size_t k = 0; k < list.n; k++)
        n += mm_tensor_elements(&list.items[k]);
    assert_true(n == INT64_C(8030261248)); /* as published */
    mm_list_free(&list);
}

/* ---- failures ---------------------------------------------------------------------------------------------------- */

static int n_files(void)
{
    int n = 0;
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    for (struct dirent *e; (e = readdir(dir)) != NULL;)
        n += e->d_name[0] != '.';
    closedir(dir);
    return n;
}

static void full_disk(void **state)
{
    (void)state;
    bw_err err = {0};
    struct rlimit old, small;
    getrlimit(RLIMIT_FSIZE, &old);
    small = (struct rlimit){400000, old.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    bw_status gguf = make("tiny", "full.gguf", BW_F16, MM_MIX_NONE, 1, 3, &err);
    bw_err gguf_err = err;
    bw_status safetensors = make("tiny", "full", BW_BF16, MM_MIX_NONE, 1, 3, &err);
    setrlimit(RLIMIT_FSIZE, &old);
    assert_int_equal(gguf, BW_E_IO);
    assert_non_null(strstr(gguf_err.text, "full.gguf"));
    assert_non_null(strstr(gguf_err.text, "cannot be written"));
    assert_int_equal(safetensors, BW_E_IO);
    assert_non_null(strstr(err.text, "full/model.safetensors"));
    assert_int_equal(n_files(), 0);
}

static void refusals(void **state)
{
    (void)state;
    bw_err err = {0};
    assert_int_equal(make("tiny", "no/x.gguf", BW_F16, MM_MIX_NONE, 1, 1, &err), BW_E_IO);
    assert_int_equal(make("tiny", "no/x", BW_F16, MM_MIX_NONE, 1, 1, &err), BW_E_IO);
    assert_int_equal(make("tiny", "x", BW_Q4_0, MM_MIX_NONE, 1, 1, &err), BW_E_UNSUPPORTED);
    assert_int_equal(make("tiny", "x.gguf", BW_I32, MM_MIX_NONE, 1, 1, &err), BW_E_UNSUPPORTED);
    assert_null(mm_shape_find("llama-9000b"));
    assert_int_equal(n_files(), 0);
}

static int set_up(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values),        cmocka_unit_test(same_bytes),
        cmocka_unit_test(gguf_models),   cmocka_unit_test(experts),
        cmocka_unit_test(fitting_types), cmocka_unit_test(safetensors_models),
        cmocka_unit_test(full_disk),     cmocka_unit_test(refusals),
        cmocka_unit_test(token_bytes),   cmocka_unit_test(token_bytes_of_parts),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
