/* Opening a model: GGUF, or safetensors with config.json; its hyperparameters and tensors by either format's names. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "bw_json_object.h"
#include "bw_mem.h"
#include "bw_recognise.h"
#include "bw_str.h"
#include "model.h"

enum { MAX_CONFIG_BYTES = 16 << 20 };

/* The name is shown to people and becomes part of keys. */
static bw_status check_architecture(const bw_source *source, const char *where, bw_err *err)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";
    size_t n = strspn(source->architecture, letters);
    if (n == 0 || source->architecture[n] != 0)
        return bw_fail(err, BW_E_FORMAT, "%s: %s is empty or holds other characters than letters, digits, _, - and .",
                       source->path, where);
    return BW_OK;
}

static bw_status open_gguf(const char *path, bw_source *source, bw_err *err)
{
    BW_TRY(bw_gguf_open(path, &source->gguf, err));
    bw_gguf_string architecture;
    bool found = false;
    BW_TRY(bw_gguf_get_string(source->gguf, "general.architecture", &architecture, &found, err));
    if (!found)
        return bw_fail(err, BW_E_FORMAT, "%s has no general.architecture: it is no model", path);
    if (architecture.n_bytes >= sizeof source->architecture ||
        (architecture.n_bytes && memchr(architecture.data, 0, architecture.n_bytes)))
        return bw_fail(err, BW_E_FORMAT, "%s: general.architecture has %zu bytes, too many, or a zero among them", path,
                       architecture.n_bytes);
    memcpy(source->architecture, architecture.data, architecture.n_bytes);
    source->architecture[architecture.n_bytes] = 0;
    return check_architecture(source, "general.architecture", err);
}

/* What "architectures" says, else what "model_type" stands for; that itself when it is unknown, NULL without either. */
static const char *class_of(const bw_source *source)
{
    const json_t *classes = json_object_get(source->config, "architectures");
    if (json_array_size(classes) > 0 || (classes && !json_is_array(classes) && !json_is_null(classes)))
        return json_string_value(json_array_get(classes, 0));
    const char *type = json_string_value(json_object_get(source->config, "model_type"));
    const char *known = type ? bw_model_class_of_type(type) : NULL;
    return known ? known : type;
}

static bw_status read_config(const char *path, bw_source *source, bw_err *err)
{
    bw_str name = {0};
    bw_str_add_format(&name, "%s/config.json", source->directory);
    if (name.failed) {
        bw_str_deinit(&name);
        return bw_fail_memory(err, 64, "a path");
    }
    char *text = NULL;
    size_t n_bytes = 0;
    bw_status status = bw_file_read(name.data, MAX_CONFIG_BYTES, &text, &n_bytes, err);
    if (status == BW_OK)
        status = bw_json_parse(text, n_bytes, name.data, "the configuration", &source->config, err);
    else
        bw_err_prefix(err, "%s needs a config.json beside it", path);
    bw_free(text);
    bw_str_deinit(&name);
    if (status != BW_OK)
        return status;
    json_t *text_config = json_object_get(source->config, "text_config");
    source->text = json_is_object(text_config) ? text_config : source->config;
    const char *class_name = class_of(source);
    if (!class_name || strlen(class_name) >= sizeof source->architecture)
        return bw_fail(
            err, BW_E_FORMAT,
            "%s/config.json names no architecture (\"architectures\": [\"...\"], or \"model_type\": \"...\")",
            source->directory);
    snprintf(source->architecture, sizeof source->architecture, "%s", class_name);
    if (json_is_object(json_object_get(source->config, "quantization_config")))
        return bw_fail(
            err, BW_E_UNSUPPORTED,
            "%s: its safetensors are quantised (quantization_config in config.json), which is not supported; "
            "take the model unquantised or as GGUF",
            path);
    return check_architecture(source, "config.json's architecture", err);
}

/* Where the text model lies among the tensors of a larger one. */
static bw_status find_prefix(bw_source *source, bw_err *err)
{
    static const char *const prefixes[] = {"model.", "language_model.model.", "model.language_model.", ""};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        char name[96];
        snprintf(name, sizeof name, "%sembed_tokens.weight", prefixes[i]);
        if (bw_safetensors_find(source->st, name)) {
            source->hf_prefix = prefixes[i];
            return BW_OK;
        }
    }
    return bw_fail(err, BW_E_FORMAT, "%s has no tensor model.embed_tokens.weight: it is no language model we know",
                   source->path);
}

static bw_status open_safetensors(const char *path, bw_source *source, bw_err *err)
{
    const char *slash = strrchr(path, '/');
    if (bw_dir_exists(path))
        source->directory = bw_strdup(path);
    else
        source->directory = slash ? bw_strndup(path, slash == path ? 1 : (size_t)(slash - path)) : bw_strdup(".");
    if (!source->directory)
        return bw_fail_memory(err, strlen(path), "a path");
    BW_TRY(bw_safetensors_open(path, &source->st, err));
    BW_TRY(read_config(path, source, err));
    return find_prefix(source, err);
}

bw_status bw_source_open(const char *path, bw_source *source, bw_err *err)
{
    *source = (bw_source){.path = bw_strdup(path)};
    if (!source->path)
        return bw_fail_memory(err, strlen(path), "a path");
    bw_format format;
    bw_status status = access(path, F_OK) == 0 ? bw_formats_recognise(path, &format, err)
                                               : bw_fail(err, BW_E_NOT_FOUND, "%s does not exist", path);
    if (status == BW_OK)
        status = format == BW_FORMAT_GGUF ? open_gguf(path, source, err) : open_safetensors(path, source, err);
    if (status != BW_OK)
        bw_source_close(source);
    return status;
}

void bw_source_close(bw_source *source)
{
    bw_gguf_close(source->gguf);
    bw_safetensors_close(source->st);
    json_decref(source->config);
    bw_free(source->directory);
    bw_free(source->path);
    *source = (bw_source){0};
}

/* "block_count" to "llama.block_count" */
static void full_key(const bw_source *source, const char *key, char out[160])
{
    snprintf(out, 160, "%s.%s", source->architecture, key);
}

static bw_status missing(const bw_source *source, const char *name, bw_err *err)
{
    return bw_fail(err, BW_E_FORMAT, "%s does not say %s", source->path, name);
}

/* The key that messages name, and for safetensors config.json's value (NULL when absent or null). */
static const json_t *name_key(const bw_source *source, const char *gguf_key, const char *hf_name, char key[160])
{
    key[0] = 0;
    if (source->gguf && gguf_key)
        full_key(source, gguf_key, key);
    if (source->gguf || !hf_name)
        return NULL;
    snprintf(key, 160, "%s", hf_name);
    const json_t *json = json_object_get(source->text, hf_name);
    return json_is_null(json) ? NULL : json;
}

bw_status bw_source_get_i64(const bw_source *source, const char *gguf_key, const char *hf_name, bool required,
                            int64_t min, int64_t max, int64_t *out, bw_err *err)
{
    char key[160];
    const json_t *json = name_key(source, gguf_key, hf_name, key);
    bool found = json != NULL;
    int64_t value = json_integer_value(json);
    if (json && !json_is_integer(json))
        return bw_fail(err, BW_E_FORMAT, "%s: config.json: %s is no integer", source->path, hf_name);
    if (source->gguf && gguf_key)
        BW_TRY(bw_gguf_get_i64(source->gguf, key, &value, &found, err));
    if (!found)
        return required ? missing(source, key, err) : BW_OK;
    if (value < min || value > max)
        return bw_fail(err, BW_E_FORMAT, "%s: %s is %lld; %lld to %lld are possible", source->path, key,
                       (long long)value, (long long)min, (long long)max);
    *out = value;
    return BW_OK;
}

bw_status bw_source_get_f64(const bw_source *source, const char *gguf_key, const char *hf_name, bool required,
                            double min, double max, double *out, bw_err *err)
{
    char key[160];
    const json_t *json = name_key(source, gguf_key, hf_name, key);
    bool found = json != NULL;
    double value = json_number_value(json);
    if (json && !json_is_number(json))
        return bw_fail(err, BW_E_FORMAT, "%s: config.json: %s is no number", source->path, hf_name);
    if (source->gguf && gguf_key)
        BW_TRY(bw_gguf_get_f64(source->gguf, key, &value, &found, err));
    if (!found)
        return required ? missing(source, key, err) : BW_OK;
    if (!(value >= min && value <= max))
        return bw_fail(err, BW_E_FORMAT, "%s: %s is %g; %g to %g are possible", source->path, key, value, min, max);
    *out = value;
    return BW_OK;
}

bool bw_source_find(const bw_source *source, const char *gguf_name, const char *hf_name, bw_source_tensor *tensor)
{
    *tensor = (bw_source_tensor){0};
    if (source->gguf) {
        snprintf(tensor->name, sizeof tensor->name, "%s", gguf_name);
        const bw_gguf_tensor *t = bw_gguf_find_tensor(source->gguf, gguf_name);
        if (!t)
            return false;
        tensor->dtype = t->dtype;
        tensor->n_dims = t->n_dims;
        tensor->dims = t->dims;
        tensor->data = t->data;
        tensor->n_bytes = t->n_bytes;
        tensor->map = bw_gguf_map(source->gguf, t->part);
        return true;
    }
    const bw_safetensor *t = NULL;
    snprintf(tensor->name, sizeof tensor->name, "%s%s", source->hf_prefix, hf_name);
    t = bw_safetensors_find(source->st, tensor->name);
    if (!t) { /* lm_head stands outside the prefix */
        const char *outer = strcmp(source->hf_prefix, "language_model.model.") == 0 ? "language_model." : "";
        char name[sizeof tensor->name];
        snprintf(name, sizeof name, "%s%s", outer, hf_name);
        t = bw_safetensors_find(source->st, name);
        if (t)
            memcpy(tensor->name, name, sizeof name);
    }
    if (!t)
        return false;
    tensor->dtype = t->dtype;
    tensor->n_dims = t->n_dims;
    tensor->dims = t->dims;
    tensor->data = t->data;
    tensor->n_bytes = t->n_bytes;
    tensor->map = bw_safetensors_map(source->st, t->part);
    return true;
}

bool bw_source_is_tied(const bw_source *source)
{
    bw_source_tensor t;
    const json_t *says = source->gguf ? NULL : json_object_get(source->text, "tie_word_embeddings");
    if (json_is_false(says))
        return false; /* then a missing matrix is an error, as any other */
    return json_is_true(says) || !bw_source_find(source, "output.weight", "lm_head.weight", &t);
}

/* ---- counting ---------------------------------------------------------------------------------------------------- */

/* The share of a layer's experts that a token uses; 1 where the file does not say, or says it wrongly: whoever needs
 * the numbers refuses them. */
static double share_of_experts(const bw_source *source)
{
    static const char *const totals[] = {"num_experts", "num_local_experts", "n_routed_experts"};
    enum { MOST = 1 << 16 };
    int64_t n = 0, n_used = 0;
    bw_err err;
    for (size_t i = 0; i < sizeof totals / sizeof *totals && n == 0; i++)
        if (bw_source_get_i64(source, "expert_count", totals[i], false, 1, MOST, &n, &err) != BW_OK)
            return 1;
    if (n == 0 || bw_source_get_i64(source, "expert_used_count", "num_experts_per_tok", false, 1, n, &n_used, &err))
        return 1;
    return n_used > 0 ? (double)n_used / (double)n : 1;
}

typedef struct counted {
    const char *name;
    size_t n_name;
    bw_dtype dtype;
    int n_dims;
    const int64_t *dims;
    const void *data;
    int64_t n_bytes;
} counted;

static counted count_tensor(const bw_source *source, size_t i)
{
    if (source->gguf) {
        const bw_gguf_tensor *t = bw_gguf_tensor_at(source->gguf, i);
        return (counted){t->name.data, t->name.n_bytes, t->dtype, t->n_dims, t->dims, t->data, (int64_t)t->n_bytes};
    }
    const bw_safetensor *t = bw_safetensors_at(source->st, i);
    return (counted){t->name, strlen(t->name), t->dtype, t->n_dims, t->dims, t->data, (int64_t)t->n_bytes};
}

/* "blk.0.ffn_up_exps.weight", "model.layers.0.mlp.experts.5.up_proj.weight" */
static bool is_expert(const bw_source *source, const counted *t)
{
    const char *part = source->gguf ? "_exps." : ".experts.";
    return memmem(t->name, t->n_name, part, strlen(part)) != NULL;
}

void bw_source_count(const bw_source *source, bw_source_sizes *sizes)
{
    int64_t by_type[BW_DTYPE_COUNT] = {0}, expert_bytes = 0;
    bw_source_tensor embedding, output;
    bool tied = bw_source_is_tied(source);
    bool has_embedding = bw_source_find(source, "token_embd.weight", "embed_tokens.weight", &embedding);
    bool has_output = bw_source_find(source, "output.weight", "lm_head.weight", &output);
    size_t n_prefix = source->gguf ? 0 : strlen(source->hf_prefix);
    *sizes = (bw_source_sizes){.commonest = BW_F32};
    size_t n = source->gguf ? bw_gguf_n_tensors(source->gguf) : bw_safetensors_count(source->st);
    for (size_t i = 0; i < n; i++) {
        counted t = count_tensor(source, i);
        int64_t elements = bw_shape_elements(t.dims, t.n_dims);
        sizes->n_params += elements;
        sizes->n_bytes += t.n_bytes;
        by_type[t.dtype] += elements;
        bool is_output = has_output && t.data == output.data;
        if (has_embedding && t.data == embedding.data && !tied && t.n_dims == 2 && t.dims[0] > 0)
            sizes->token_bytes += t.n_bytes / t.dims[0];
        else if (is_expert(source, &t))
            expert_bytes += t.n_bytes;
        else if (is_output ? !tied : n_prefix == 0 || strncmp(t.name, source->hf_prefix, n_prefix) == 0)
            sizes->token_bytes += t.n_bytes;
    }
    sizes->token_bytes += llround((double)expert_bytes * share_of_experts(source));
    for (int t = 0; t < BW_DTYPE_COUNT; t++)
        if (by_type[t] > by_type[sizes->commonest])
            sizes->commonest = (bw_dtype)t;
}
