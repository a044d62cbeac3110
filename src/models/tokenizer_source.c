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

/* Put the text of chat_template.jinja into the tokenizer's configuration. */
static bw_status merge_template(char **config, size_t *config_bytes, const char *template_text, size_t template_bytes,
                                bw_err *err)
{
    json_error_t json_error;
    bool no_memory = false;
    bw_json_init();
    json_t *json = *config ? bw_json_load(*config, *config_bytes, 0, &json_error, &no_memory) : json_object();
    if (no_memory)
        return bw_fail_memory(err, *config_bytes, "tokenizer_config.json");
    json_t *text = json_stringn(template_text, template_bytes);
    if (!json_is_object(json) || !text || json_object_set_new(json, "chat_template", text) != 0) {
        json_decref(json);
        return bw_fail(err, BW_E_FORMAT,
                       "tokenizer_config.json is no JSON object, or chat_template.jinja is not UTF-8");
    }
    char *dumped = json_dumps(json, JSON_COMPACT);
    json_decref(json);
    char *copy = dumped ? bw_strdup(dumped) : NULL;
    json_malloc_t json_malloc;
    json_free_t json_free;
    json_get_alloc_funcs(&json_malloc, &json_free);
    json_free(dumped);
    if (!copy)
        return bw_fail_memory(err, template_bytes, "a chat template");
    bw_free(*config);
    *config = copy;
    *config_bytes = strlen(copy);
    return BW_OK;
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
    char *json = NULL, *config = NULL, *generation = NULL, *template_text = NULL;
    size_t n_json = 0, n_config = 0, n_generation = 0, n_template = 0;
    bw_status status = read_beside(source, "tokenizer.json", MAX_TOKENIZER_BYTES, &json, &n_json, err);
    if (status == BW_OK && !json)
        return refuse_other_forms(source, err);
    if (status == BW_OK) {
        status = read_beside(source, "tokenizer_config.json", MAX_SMALL_BYTES, &config, &n_config, err);
        if (status == BW_OK)
            status = read_beside(source, "generation_config.json", MAX_SMALL_BYTES, &generation, &n_generation, err);
        if (status == BW_OK)
            status = read_beside(source, "chat_template.jinja", MAX_SMALL_BYTES, &template_text, &n_template, err);
        if (status == BW_OK && template_text)
            status = merge_template(&config, &n_config, template_text, n_template, err);
        if (status == BW_OK)
            status = bw_tokenizer_from_json(json, n_json, config, n_config, generation, n_generation, source->directory,
                                            tokenizer, err);
    }
    bw_free(json);
    bw_free(config);
    bw_free(generation);
    bw_free(template_text);
    return status;
}

bw_status bw_source_load_tokenizer(const bw_source *source, bw_tokenizer **tokenizer, bw_err *err)
{
    *tokenizer = NULL;
    return source->gguf ? load_gguf(source, tokenizer, err) : load_json(source, tokenizer, err);
}
