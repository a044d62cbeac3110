/* models: what configurations say: rope scalings by GGUF's keys, defaults that config.json leaves out, and everything
 * that must be refused rather than ignored. Files are made on the spot. */
#include "../bw_test.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "bw_lm.h"
#include "bw_mem.h"
#include "bw_recognise.h"
#include "bw_str.h"
#include "model.h"
#include "tokenizer_source.h"
#include "../formats/raw.h"

static char folder[200];

static void path_of(const char *name, char out[300])
{
    snprintf(out, 300, "%s/%s", folder, name);
}

static void write_text(const char *name, const char *text)
{
    char path[300];
    path_of(name, path);
    raw_write(path, text, strlen(text));
}

/* ---- GGUF's rope keys -------------------------------------------------------------------------------------------- */

static bw_status no_tensors(void *user, bw_gguf_writer *w, size_t i, bw_err *err)
{
    (void)user;
    float zero[32] = {0};
    (void)i;
    return bw_gguf_writer_put(w, zero, sizeof zero, err);
}

typedef struct setting {
    const char *key; /* NULL ends the list */
    float value;
} setting;

/* A rope configuration of 16 dimensions from a GGUF file with these keys. */
static bw_status configure(const char *architecture, const char *type, const setting *settings, bw_rope_config *rope,
                           bw_err *err)
{
    char path[300];
    path_of("rope.gguf", path);
    bw_gguf_writer *w;
    bw_source source;
    assert_ok(bw_gguf_writer_new(&w, err), *err);
    assert_ok(bw_gguf_writer_set_string(w, "general.architecture", architecture, err), *err);
    if (type)
        assert_ok(bw_gguf_writer_set_string(w, "llama.rope.scaling.type", type, err), *err);
    for (; settings->key; settings++) {
        char key[100];
        snprintf(key, sizeof key, "llama.rope.%s", settings->key);
        assert_ok(bw_gguf_writer_set_f32(w, key, settings->value, err), *err);
    }
    assert_ok(bw_gguf_writer_set_u32(w, "llama.rope.scaling.original_context_length", 64, err), *err);
    assert_ok(bw_gguf_writer_add_tensor(w, "t", BW_F32, 1, (int64_t[]){32}, err), *err);
    assert_ok(bw_gguf_writer_write(w, path, no_tensors, NULL, err), *err);
    bw_gguf_writer_free(w);
    bw_status status = bw_source_open(path, &source, err);
    if (status == BW_OK) {
        *rope = (bw_rope_config){.base = 10000, .n_rot = 16, .n_ctx_original = 256};
        status = bw_model_configure_rope(&source, NULL, rope, err);
    }
    bw_source_close(&source);
    unlink(path);
    return status;
}

static float magnitude_of(const bw_rope_config *rope, float inv_freq[8])
{
    float magnitude;
    bw_rope_compute_inv_freq(rope, NULL, inv_freq, &magnitude);
    return magnitude;
}

static void rope_of_gguf(void **state)
{
    (void)state;
    bw_err err = {0};
    bw_rope_config rope;
    float f[8], g[8];
    /* no type: a factor alone is linear, by either key */
    assert_ok(configure("llama", NULL, (setting[]){{0}}, &rope, &err), err);
    assert_int_equal(rope.scaling, BW_ROPE_NONE);
    magnitude_of(&rope, f);
    assert_ok(configure("llama", NULL, (setting[]){{"scaling.factor", 4}, {0}}, &rope, &err), err);
    assert_int_equal(rope.scaling, BW_ROPE_LINEAR);
    assert_true(magnitude_of(&rope, g) == 1 && fabsf(g[3] * 4 - f[3]) < 1e-7f);
    assert_ok(configure("llama", NULL, (setting[]){{"scale_linear", 2}, {0}}, &rope, &err), err);
    assert_true(magnitude_of(&rope, g) == 1 && fabsf(g[3] * 2 - f[3]) < 1e-7f);
    /* YaRN: magnitude 0.1 ln 4 + 1, or what the file says, times attn_factor */
    setting yarn[] = {{"scaling.factor", 4}, {0}, {0}, {0}, {0}};
    assert_ok(configure("llama", "yarn", yarn, &rope, &err), err);
    assert_true(fabsf(magnitude_of(&rope, f) - 1.138629f) < 1e-5f);
    yarn[1] = (setting){"scaling.attn_factor", 0.5f};
    assert_ok(configure("llama", "yarn", yarn, &rope, &err), err);
    assert_true(fabsf(magnitude_of(&rope, g) - 0.5693147f) < 1e-5f);
    yarn[1] = (setting){"scaling.yarn_attn_factor", 1.25f};
    assert_ok(configure("llama", "yarn", yarn, &rope, &err), err);
    assert_true(magnitude_of(&rope, g) == 1.25f);
    assert_memory_equal(f, g, sizeof f);
    /* other borders between the dimensions that are scaled and those that are not */
    yarn[1] = (setting){"scaling.yarn_beta_fast", 8};
    yarn[2] = (setting){"scaling.yarn_beta_slow", 2};
    assert_ok(configure("llama", "yarn", yarn, &rope, &err), err);
    assert_true(rope.beta_fast == 8 && rope.beta_slow == 2);
    magnitude_of(&rope, g);
    assert_true(memcmp(f, g, sizeof f) != 0);
    /* what cannot be done is refused, not ignored */
    yarn[2] = (setting){"scaling.yarn_ext_factor", 0.5f};
    assert_int_equal(configure("llama", "yarn", yarn, &rope, &err), BW_E_UNSUPPORTED);
    yarn[2] = (setting){"scaling.yarn_log_multiplier", 0.1f};
    assert_int_equal(configure("llama", "yarn", yarn, &rope, &err), BW_E_UNSUPPORTED);
    yarn[2] = (setting){"scaling.yarn_beta_slow", 0};
    assert_int_equal(configure("llama", "yarn", yarn, &rope, &err), BW_E_FORMAT);
    yarn[2] = (setting){"freq_base", 1};
    assert_int_equal(configure("llama", "yarn", yarn, &rope, &err), BW_E_FORMAT);
    assert_int_equal(configure("llama", "longrope", (setting[]){{0}}, &rope, &err), BW_E_UNSUPPORTED);
    /* names that would end up on a terminal */
    assert_int_equal(configure("", NULL, (setting[]){{0}}, &rope, &err), BW_E_FORMAT);
    assert_int_equal(configure("a\x1b[31m", NULL, (setting[]){{0}}, &rope, &err), BW_E_FORMAT);
    assert_null(strchr(err.text, 0x1b));
}

/* ---- config.json ------------------------------------------------------------------------------------------------- */

enum { VOCAB = 8, EMBD = 16, FF = 32 };

/* A model of one layer in folder. leave_out: a tensor that is not written, or NULL; scalar: one that becomes a scalar.
 */
static void write_model(int64_t embd, const char *leave_out, const char *scalar)
{
    static const float data[FF * EMBD];
    const struct {
        const char *name;
        int n_dims;
        int64_t dims[2];
    } tensors[] = {{"model.embed_tokens.weight", 2, {VOCAB, embd}},
                   {"lm_head.weight", 2, {VOCAB, embd}},
                   {"model.norm.weight", 1, {embd}},
                   {"model.layers.0.input_layernorm.weight", 1, {embd}},
                   {"model.layers.0.post_attention_layernorm.weight", 1, {embd}},
                   {"model.layers.0.self_attn.q_proj.weight", 2, {embd, embd}},
                   {"model.layers.0.self_attn.k_proj.weight", 2, {embd, embd}},
                   {"model.layers.0.self_attn.v_proj.weight", 2, {embd, embd}},
                   {"model.layers.0.self_attn.o_proj.weight", 2, {embd, embd}},
                   {"model.layers.0.mlp.gate_proj.weight", 2, {FF, embd}},
                   {"model.layers.0.mlp.up_proj.weight", 2, {FF, embd}},
                   {"model.layers.0.mlp.down_proj.weight", 2, {embd, FF}}};
    bw_safetensor list[sizeof tensors / sizeof *tensors];
    size_t n = 0;
    bw_err err = {0};
    char path[300];
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++) {
        if (leave_out && strcmp(leave_out, tensors[i].name) == 0)
            continue;
        bw_safetensor t = {.name = tensors[i].name, .dtype = BW_F32, .n_dims = tensors[i].n_dims, .data = data};
        if (scalar && strcmp(scalar, t.name) == 0)
            t.n_dims = 0;
        memcpy(t.dims, tensors[i].dims, sizeof tensors[i].dims);
        t.n_bytes = (size_t)bw_tensor_bytes(BW_F32, t.n_dims, t.dims);
        list[n++] = t;
    }
    path_of("model.safetensors", path);
    assert_ok(bw_safetensors_write(path, list, n, &err), err);
}

/* Load the model in folder with this in its config.json besides what every one has. */
static bw_status load(const char *more, int embd, bw_err *err)
{
    char config[1000];
    bw_device *device;
    bw_lm_file *file = NULL;
    bw_lm *lm = NULL;
    snprintf(
        config, sizeof config,
        "{\"architectures\":[\"LlamaForCausalLM\"],\"hidden_size\":%d,\"intermediate_size\":%d,"
        "\"num_hidden_layers\":1,\"num_attention_heads\":1,\"max_position_embeddings\":64,\"rms_norm_eps\":1e-5%s}",
        embd, FF, more);
    write_text("config.json", config);
    int64_t live = bw_mem_live();
    assert_ok(bw_device_open(NULL, 1, &device, err), *err);
    bw_status status = bw_lm_file_open(folder, &file, err);
    if (status == BW_OK) {
        bw_lm_options options = {
            .kv_dtype = BW_F16, .n_pages = 2, .max_tokens = 8, .max_seqs = 1, .max_outputs = 8, .max_seq_pages = 1};
        status = bw_lm_new(file, device, &options, &lm, err);
    }
    bw_lm_free(lm);
    bw_device_close(device);
    assert_int_equal(bw_mem_live(), live);
    return status;
}

static void refuse(const char *more, bw_status status, const char *words)
{
    bw_err err = {0};
    bw_status got = load(more, EMBD, &err);
    if (got != status || !strstr(err.text, words))
        fail_msg("%s: %s, wanted \"%s\": %s", more, bw_status_name(got), words, err.text);
}

static void configurations(void **state)
{
    (void)state;
    bw_err err = {0};
    write_model(EMBD, NULL, NULL);
    assert_ok(load("", EMBD, &err), err);
    assert_ok(load(",\"hidden_act\":\"gelu_pytorch_tanh\"", EMBD, &err), err);
    assert_ok(load(",\"hidden_act\":null,\"tie_word_embeddings\":true,\"rope_scaling\":null", EMBD, &err), err);
    assert_ok(load(",\"vocab_size\":8", EMBD, &err), err);
    assert_ok(load(",\"vocab_size\":7", EMBD, &err), err); /* a padded embedding */
    refuse(",\"vocab_size\":9", BW_E_FORMAT,
           "vocabulary has 9 tokens, but tensor model.embed_tokens.weight has 8 rows");
    refuse(",\"hidden_act\":\"relu2\"", BW_E_UNSUPPORTED, "relu2");
    refuse(",\"hidden_act\":7", BW_E_UNSUPPORTED, "activation");
    refuse(",\"quantization_config\":{\"quant_method\":\"fp8\"}", BW_E_UNSUPPORTED, "quantization_config");
    refuse(",\"head_dim\":\"16\"", BW_E_FORMAT, "head_dim");
    refuse(",\"num_key_value_heads\":0", BW_E_FORMAT, "num_key_value_heads");
    refuse(",\"head_dim\":99999999999", BW_E_FORMAT, "head_dim");
    refuse(",\"head_dim\":15", BW_E_FORMAT, "q_proj");
    refuse(",\"hidden_size\":16", BW_E_FORMAT, "duplicate");
    refuse(",\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":4,\"truncate\":false}", BW_E_UNSUPPORTED, "truncate");
    refuse(",\"rope_scaling\":{\"rope_type\":\"dynamic\",\"factor\":4}", BW_E_UNSUPPORTED, "dynamic");
    /* a missing output matrix is the embedding only where that is said or left open */
    write_model(EMBD, "lm_head.weight", NULL);
    assert_ok(load("", EMBD, &err), err);
    assert_ok(load(",\"tie_word_embeddings\":true", EMBD, &err), err);
    refuse(",\"tie_word_embeddings\":false", BW_E_FORMAT, "lm_head.weight");
    /* a scalar where a vector of one element could stand */
    write_model(1, NULL, "model.norm.weight");
    assert_int_equal(load("", 1, &err), BW_E_FORMAT);
    assert_non_null(strstr(err.text, "model.norm.weight"));
    /* a vocabulary that is there, but in a form that is not read */
    write_model(EMBD, NULL, NULL);
    static const char *const forms[] = {"tokenizer.model", "tekken.json", "vocab.json"};
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        char path[300];
        write_text(forms[i], "x");
        refuse("", BW_E_UNSUPPORTED, forms[i]);
        refuse("", BW_E_UNSUPPORTED, "and no tokenizer.json; make that with");
        path_of(forms[i], path);
        unlink(path);
    }
    assert_ok(load("", EMBD, &err), err);
    write_text("config.json", "{\"architectures\":[\"MambaForCausalLM\"]}");
    bw_lm_file *file;
    assert_int_equal(bw_lm_file_open(folder, &file, &err), BW_E_UNSUPPORTED);
    assert_non_null(strstr(err.text, "MambaForCausalLM"));
    assert_non_null(strstr(err.text, "LlamaForCausalLM, MistralForCausalLM"));
    write_text("config.json", "[]");
    assert_int_equal(bw_lm_file_open(folder, &file, &err), BW_E_FORMAT);
}

/* Which of the tokens a to f end a generation, as letters. */
static void expect_ends(const char *config, const char *generation, const char *want)
{
    bw_err err = {0};
    bw_source source;
    bw_tokenizer *t = NULL;
    char got[8] = "", text[400], path[300];
    snprintf(text, sizeof text, "{\"architectures\":[\"LlamaForCausalLM\"]%s}", config);
    write_text("config.json", text);
    path_of("generation_config.json", path);
    if (generation)
        write_text("generation_config.json", generation);
    assert_ok(bw_source_open(folder, &source, &err), err);
    assert_ok(bw_source_load_tokenizer(&source, &t, &err), err);
    for (int32_t i = 0; i < 6; i++)
        if (bw_tokenizer_is_eos(t, i))
            got[strlen(got)] = "abcdef"[i];
    if (strcmp(got, want) != 0)
        fail_msg("%s with %s: ends are \"%s\", not \"%s\"", config, generation, got, want);
    bw_tokenizer_free(t);
    bw_source_close(&source);
    unlink(path);
}

static void end_tokens(void **state)
{
    (void)state;
    char path[300];
    write_model(EMBD, NULL, NULL);
    write_text("tokenizer.json", "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"c\":2,\"d\":3,\"e\":4,"
                                 "\"f\":5},\"merges\":[]},\"added_tokens\":[]}");
    expect_ends("", NULL, "");
    expect_ends(",\"eos_token_id\":2", NULL, "c");
    expect_ends(",\"eos_token_id\":[2,4]", NULL, "ce");
    expect_ends(",\"eos_token_id\":[2,4]", "{}", "ce");
    expect_ends(",\"eos_token_id\":[2,4]", "{\"eos_token_id\":null,\"temperature\":1}", "ce");
    expect_ends(",\"eos_token_id\":[2,4]", "{\"eos_token_id\":1}", "b");
    expect_ends(",\"eos_token_id\":null,\"text_config\":{\"eos_token_id\":[0,5]}", NULL, "af");
    expect_ends(",\"eos_token_id\":3,\"text_config\":{\"eos_token_id\":null}", NULL, "d");
    expect_ends(",\"eos_token_id\":99", NULL, ""); /* beyond the vocabulary */
    path_of("tokenizer.json", path);
    unlink(path);
}

/* The folder's chat template with these files beside tokenizer.json; NULL = no such file, or none wanted. */
static void expect_template(const char *jinja, const char *json, const char *config, const char *want)
{
    const char *const names[] = {"chat_template.jinja", "chat_template.json", "tokenizer_config.json"};
    const char *const texts[] = {jinja, json, config};
    char path[300];
    bw_err err = {0};
    bw_source source;
    bw_tokenizer *t = NULL;
    for (int i = 0; i < 3; i++)
        if (texts[i])
            write_text(names[i], texts[i]);
    assert_ok(bw_source_open(folder, &source, &err), err);
    assert_ok(bw_source_load_tokenizer(&source, &t, &err), err);
    const char *got = bw_tokenizer_chat_template(t, NULL);
    if (want ? !got || strcmp(got, want) != 0 : got != NULL)
        fail_msg("the template is %s, not %s", got ? got : "none", want ? want : "none");
    bw_tokenizer_free(t);
    bw_source_close(&source);
    for (int i = 0; i < 3; i++) {
        path_of(names[i], path);
        unlink(path);
    }
}

static void expect_no_tokenizer(const char *name, const char *text, const char *words)
{
    char path[300];
    bw_err err = {0};
    bw_source source;
    bw_tokenizer *t = NULL;
    write_text(name, text);
    assert_ok(bw_source_open(folder, &source, &err), err);
    assert_int_equal(bw_source_load_tokenizer(&source, &t, &err), BW_E_FORMAT);
    if (!strstr(err.text, words))
        fail_msg("\"%s\" lacks \"%s\"", err.text, words);
    bw_source_close(&source);
    path_of(name, path);
    unlink(path);
}

static void template_files(void **state)
{
    (void)state;
    write_model(EMBD, NULL, NULL);
    static const char tokenizer[] = "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]}}";
    write_text("config.json", "{\"architectures\":[\"LlamaForCausalLM\"]}");
    write_text("tokenizer.json", tokenizer);
    expect_template(NULL, NULL, NULL, NULL);
    expect_template(NULL, NULL, "{\"chat_template\":\"c\"}", "c");
    expect_template(NULL, "{\"chat_template\":\"j\"}", NULL, "j");
    expect_template(NULL, "{\"chat_template\":\"j\"}", "{\"chat_template\":\"c\",\"bos_token\":\"a\"}", "j");
    expect_template(NULL, "{\"chat_template\":[{\"name\":\"default\",\"template\":\"d\"}]}", NULL, "d");
    expect_template("x", "{\"chat_template\":\"j\"}", "{\"chat_template\":\"c\"}", "x");
    /* transformers writes 1e30 as an integer, and newer ones the template into a file of its own beside it */
    expect_template("x", NULL, "{\"model_max_length\":1000000000000000019884624838656,\"bos_token\":\"a\"}", "x");
    expect_template(NULL, "{\"chat_template\":\"j\"}", "{\"model_max_length\":1000000000000000019884624838656}", "j");
    expect_no_tokenizer("chat_template.json", "[]", "chat_template.json is no JSON object");
    expect_no_tokenizer("chat_template.json", "{", "chat_template.json is no JSON object");
    expect_no_tokenizer("chat_template.json", "{\"x\":1}", "chat_template.json is no JSON object");
    expect_no_tokenizer("tokenizer_config.json", "{", "tokenizer_config.json: not valid JSON");
    expect_no_tokenizer("tokenizer.json", "{\"model\":", "/tokenizer.json: not valid JSON at byte 9");
    expect_no_tokenizer("tokenizer.json", "{\"x\":1}", "/tokenizer.json: no \"model\"");
}

/* Without architectures model_type says which it is. */
static void model_types(void **state)
{
    (void)state;
    static const struct {
        const char *config, *architecture; /* NULL: refused, with `words` */
        bw_status status;
        const char *words;
    } rows[] = {
        {"{\"model_type\":\"llama\"", "LlamaForCausalLM", BW_OK, ""},
        {"{\"model_type\":\"mistral\",\"architectures\":null", "MistralForCausalLM", BW_OK, ""},
        {"{\"model_type\":\"qwen2\",\"architectures\":[]", "Qwen2ForCausalLM", BW_OK, ""},
        {"{\"model_type\":\"gemma3_text\"", "Gemma3ForCausalLM", BW_OK, ""},
        {"{\"model_type\":\"gemma3\"", "Gemma3ForConditionalGeneration", BW_OK, ""},
        {"{\"model_type\":\"llama\",\"architectures\":[\"Qwen2ForCausalLM\"]", "Qwen2ForCausalLM", BW_OK, ""},
        {"{\"model_type\":\"mamba\"", "mamba", BW_OK, ""}, /* bw_model_find knows none */
        {"{\"model_type\":7", NULL, BW_E_FORMAT, "names no architecture"},
        {"{\"model_type\":\"llama\",\"architectures\":[7]", NULL, BW_E_FORMAT, "names no architecture"},
        {"{\"model_type\":\"llama\",\"architectures\":\"x\"", NULL, BW_E_FORMAT, "names no architecture"},
        {"{\"x\":1", NULL, BW_E_FORMAT, "\"model_type\""},
    };
    write_model(EMBD, NULL, NULL);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        bw_err err = {0};
        bw_source source;
        char text[200];
        snprintf(text, sizeof text, "%s}", rows[i].config);
        write_text("config.json", text);
        assert_int_equal(bw_source_open(folder, &source, &err), rows[i].status);
        if (rows[i].status == BW_OK)
            assert_string_equal(source.architecture, rows[i].architecture);
        assert_non_null(strstr(err.text, rows[i].words));
        bw_source_close(&source);
    }
}

/* Larger Gemma 3 models' config.json says next to nothing: the rest is transformers' default. */
static void gemma_defaults(void **state)
{
    (void)state;
    bw_err err = {0};
    bw_source source;
    bw_model_config c = {0};
    float data[1] = {0};
    char path[300];
    path_of("model.safetensors", path);
    bw_safetensor t = {.name = "language_model.model.embed_tokens.weight",
                       .dtype = BW_F32,
                       .n_dims = 2,
                       .dims = {1, 1},
                       .data = data,
                       .n_bytes = 4};
    assert_ok(bw_safetensors_write(path, &t, 1, &err), err);
    write_text("config.json", "{\"architectures\":[\"Gemma3ForConditionalGeneration\"],\"text_config\":{"
                              "\"hidden_size\":2560,\"intermediate_size\":10240,\"num_hidden_layers\":34,"
                              "\"rope_scaling\":{\"factor\":8.0,\"rope_type\":\"linear\"},\"sliding_window\":1024}}");
    assert_ok(bw_source_open(folder, &source, &err), err);
    assert_ok(bw_model_find(&source)->configure(&source, &c, &err), err);
    assert_int_equal(c.n_heads, 8);
    assert_int_equal(c.n_kv_heads, 4);
    assert_int_equal(c.head_dim, 256);
    assert_int_equal(c.window, 1024);
    assert_true(c.rope.base == 1e6 && c.rope.factor == 8 && c.rope.scaling == BW_ROPE_LINEAR);
    assert_true(c.rope_local.base == 1e4 && c.rope_local.scaling == BW_ROPE_NONE);
    assert_true(c.attention_scale == 1 / 16.0f && c.activation == BW_ACTIVATION_GELU_TANH && c.eps == 1e-6f);
    assert_true(c.is_local[0] && c.is_local[4] && !c.is_local[5] && c.is_local[6] && !c.is_local[11]);
    bw_source_close(&source);
}

/* The first bytes say the format, whatever the name; a name counts where they say nothing. */
static void formats_by_bytes(void **state)
{
    (void)state;
    static const struct {
        const char *name, *bytes;
        size_t n_bytes;
        bw_status status;
        bw_format format;
    } rows[] = {
        {"sha256-a", "GGUF\3\0\0\0", 8, BW_OK, BW_FORMAT_GGUF},
        {"a.safetensors", "GGUF\3\0\0\0", 8, BW_OK, BW_FORMAT_GGUF},
        {"sha256-b", "\2\0\0\0\0\0\0\0{}", 10, BW_OK, BW_FORMAT_SAFETENSORS},
        {"b.gguf", "\2\0\0\0\0\0\0\0{}", 10, BW_OK, BW_FORMAT_SAFETENSORS},
        {"c.gguf", "", 0, BW_OK, BW_FORMAT_GGUF},
        {"c.safetensors", "GGU", 3, BW_OK, BW_FORMAT_SAFETENSORS},
        {"c", "", 0, BW_E_FORMAT, BW_FORMAT_SAFETENSORS},
        {"d", "\3\0\0\0\0\0\0\0{}", 10, BW_E_FORMAT, BW_FORMAT_SAFETENSORS}, /* longer than the file */
        {"e", "\2\0\0\0\0\0\0\0[]", 10, BW_E_FORMAT, BW_FORMAT_SAFETENSORS},
        {"f.bin", "just a text", 11, BW_E_FORMAT, BW_FORMAT_SAFETENSORS},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char path[300];
        bw_err err = {0};
        bw_format format;
        path_of(rows[i].name, path);
        raw_write(path, rows[i].bytes, rows[i].n_bytes);
        assert_int_equal(bw_formats_recognise(path, &format, &err), rows[i].status);
        if (rows[i].status == BW_OK)
            assert_int_equal(format, rows[i].format);
        else
            assert_non_null(strstr(err.text, path));
        unlink(path);
    }
}

static int set_up(void **state)
{
    (void)state;
    raw_folder(folder);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    char path[300];
    path_of("model.safetensors", path);
    unlink(path);
    path_of("config.json", path);
    unlink(path);
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rope_of_gguf),   cmocka_unit_test(configurations),   cmocka_unit_test(end_tokens),
        cmocka_unit_test(gemma_defaults), cmocka_unit_test(formats_by_bytes), cmocka_unit_test(model_types),
        cmocka_unit_test(template_files),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
