#include "tokenizer_source.h"

#include <stdlib.h>
#include <string.h>

#include "bw_json.h"
#include "bw_mem.h"

enum { MAX_TOKENIZER_BYTES = 256 << 20, MAX_SMALL_BYTES = 16 << 20 };

static bw_status load_gguf(const bw_source *source, bw_tokenizer **tokenizer, bw_err *err)
{
    bw_gguf_string model;
    bool found = false;
    BW_TRY(bw_gguf_get_string(source->gguf, "tokenizer.ggml.model", &model, &found, err));
    if (!found || (model.n_bytes == 8 && memcmp(model.data, "no_vocab", 8) == 0))
        return BW_OK;
    return bw_tokenizer_from_gguf(source->gguf, tokenizer, err);
}

/* Read DIRECTORY/name; *text stays NULL when there is no such file. */
static bw_status read_beside(const bw_source *source, const char *name, size_t max_bytes, char **text, size_t *n_bytes,
                             bw_err *err)
{
    bw_str path = {0};
    bw_str_add_format(&path, "%s/%s", source->directory, name);
    bw_status status = path.failed ? bw_fail_memory(err, 64, "a path") : BW_OK;
    if (status == BW_OK && bw_file_exists(path.data))
        status = bw_file_read(path.data, max_bytes, text, n_bytes, err);
    bw_str_deinit(&path);
    return status;
}

/* A value as text of our own memory; NULL when there is none. */
static char *dump(const json_t *json)
{
    char *text = json_dumps(json, JSON_COMPACT), *copy = text ? bw_strdup(text) : NULL;
    json_malloc_t json_malloc;
    json_free_t json_free;
    json_get_alloc_funcs(&json_malloc, &json_free);
    json_free(text);
    return copy;
}

/* Set a member of an object in text; *text NULL is an empty object. Takes over value; BW_E_FORMAT says only that. */
static bw_status set_member(char **text, size_t *n_bytes, const char *what, const char *key, json_t *value, bw_err *err)
{
    json_error_t json_error;
    bool no_memory = false;
    json_t *json = *text ? bw_json_load_any_number(*text, *n_bytes, 0, &json_error, &no_memory) : json_object();
    bool is_object = json_is_object(json);
    char *copy = is_object && json_object_set(json, key, value) == 0 ? dump(json) : NULL;
    json_decref(json);
    json_decref(value);
    if (!copy && *text && !no_memory && !is_object)
        return bw_fail(err, BW_E_FORMAT, "%s is no JSON object", what);
    if (!copy)
        return bw_fail_memory(err, *n_bytes, what);
    bw_free(*text);
    *text = copy;
    *n_bytes = strlen(copy);
    return BW_OK;
}

/* Put the text of chat_template.jinja into the tokenizer's configuration. */
static bw_status merge_template(char **config, size_t *config_bytes, const char *template_text, size_t template_bytes,
                                bw_err *err)
{
    bw_json_init();
    json_t *text = json_stringn(template_text, template_bytes);
    if (!text)
        return bw_fail(err, BW_E_FORMAT, "chat_template.jinja is not UTF-8");
    return set_member(config, config_bytes, "tokenizer_config.json", "chat_template", text, err);
}

/* The same from chat_template.json, an object with the member of that name. */
static bw_status merge_template_json(char **config, size_t *config_bytes, const char *json_text, size_t n_json,
                                     bw_err *err)
{
    bw_json_init();
    json_error_t json_error;
    bool no_memory = false;
    json_t *json = bw_json_load_any_number(json_text, n_json, 0, &json_error, &no_memory);
    json_t *template = json_incref(json_object_get(json, "chat_template"));
    json_decref(json);
    if (no_memory)
        return bw_fail_memory(err, n_json, "chat_template.json");
    if (!template)
        return bw_fail(err, BW_E_FORMAT, "chat_template.json is no JSON object with a \"chat_template\"");
    return set_member(config, config_bytes, "tokenizer_config.json", "chat_template", template, err);
}

/* A chat template in a file of its own counts before tokenizer_config.json's; the newer way first. */
static bw_status read_template(const bw_source *source, char **config, size_t *config_bytes, bw_err *err)
{
    char *text = NULL;
    size_t n = 0;
    bw_status status = read_beside(source, "chat_template.jinja", MAX_SMALL_BYTES, &text, &n, err);
    if (status == BW_OK && text) {
        status = merge_template(config, config_bytes, text, n, err);
    } else if (status == BW_OK) {
        status = read_beside(source, "chat_template.json", MAX_SMALL_BYTES, &text, &n, err);
        if (status == BW_OK && text)
            status = merge_template_json(config, config_bytes, text, n, err);
    }
    bw_free(text);
    return status;
}

static bw_status parse_tokenizer(const bw_source *source, const char *json, size_t n_json, const char *config,
                                 size_t n_config, const char *generation, size_t n_generation, bw_tokenizer **tokenizer,
                                 bw_err *err)
{
    bw_str path = {0};
    bw_str_add_format(&path, "%s/tokenizer.json", source->directory);
    bw_status status = path.failed ? bw_fail_memory(err, 64, "a path")
                                   : bw_tokenizer_from_json(json, n_json, config, n_config, generation, n_generation,
                                                            path.data, tokenizer, err);
    bw_str_deinit(&path);
    return status;
}

/* The end tokens of config.json count where generation_config.json names none: a number or an array, also within the
 * text part of a model of several kinds of input. */
static bw_status merge_ends(const bw_source *source, char **generation, size_t *generation_bytes, bw_err *err)
{
    static const char key[] = "eos_token_id";
    json_t *ends = json_object_get(source->text, key);
    if (!ends || json_is_null(ends))
        ends = json_object_get(source->config, key);
    if (!ends || json_is_null(ends))
        return BW_OK;
    if (*generation) {
        json_error_t json_error;
        bool no_memory = false;
        json_t *json = bw_json_load_any_number(*generation, *generation_bytes, 0, &json_error, &no_memory);
        const json_t *own = json_object_get(json, key);
        bool settled = !json_is_object(json) || (own && !json_is_null(own)); /* what is no object is told of later */
        json_decref(json);
        if (no_memory)
            return bw_fail_memory(err, *generation_bytes, "generation_config.json");
        if (settled)
            return BW_OK;
    }
    return set_member(generation, generation_bytes, "generation_config.json", key, json_incref(ends), err);
}

/* Without tokenizer.json a model computes, but no text can be read: fine for one that has no vocabulary, an oversight
 * where the vocabulary lies there in a form that is not read. */
static bw_status refuse_other_forms(const bw_source *source, bw_err *err)
{
    static const char *const names[] = {"tokenizer.model", "spiece.model", "sentencepiece.bpe.model",
                                        "tekken.json",     "vocab.json",   "vocab.txt"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        bw_str path = {0};
        bw_str_add_format(&path, "%s/%s", source->directory, names[i]);
        bool failed = path.failed, found = !failed && bw_file_exists(path.data);
        bw_str_deinit(&path);
        if (failed)
            return bw_fail_memory(err, 64, "a path");
        if (found)
            return bw_fail(err, BW_E_UNSUPPORTED,
                           "%s has its vocabulary as %s, which is not read, and no tokenizer.json; make that with "
                           "transformers' AutoTokenizer.from_pretrained(folder).save_pretrained(folder), or take the "
                           "model as GGUF",
                           source->directory, names[i]);
    }
    return BW_OK;
}

static bw_status load_json(const bw_source *source, bw_tokenizer **tokenizer, bw_err *err)
{
    char *json = NULL, *config = NULL, *generation = NULL;
    size_t n_json = 0, n_config = 0, n_generation = 0;
    bw_status status = read_beside(source, "tokenizer.json", MAX_TOKENIZER_BYTES, &json, &n_json, err);
    if (status == BW_OK && !json)
        return refuse_other_forms(source, err);
    if (status == BW_OK) {
        status = read_beside(source, "tokenizer_config.json", MAX_SMALL_BYTES, &config, &n_config, err);
        if (status == BW_OK)
            status = read_beside(source, "generation_config.json", MAX_SMALL_BYTES, &generation, &n_generation, err);
        if (status == BW_OK)
            status = read_template(source, &config, &n_config, err);
        if (status == BW_OK)
            status = merge_ends(source, &generation, &n_generation, err);
        if (status == BW_OK)
            status = parse_tokenizer(source, json, n_json, config, n_config, generation, n_generation, tokenizer, err);
    }
    bw_free(json);
    bw_free(config);
    bw_free(generation);
    return status;
}

bw_status bw_source_load_tokenizer(const bw_source *source, bw_tokenizer **tokenizer, bw_err *err)
{
    *tokenizer = NULL;
    return source->gguf ? load_gguf(source, tokenizer, err) : load_json(source, tokenizer, err);
}
