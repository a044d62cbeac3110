/* OpenAI's two bodies: /v1/completions and /v1/chat/completions. See ask.h; what is known is in fields.def. */
#include <stdio.h>
#include <string.h>

#include "ask_openai.h"
#include "bw_mem.h"

void bw_ask_no_memory(bw_ask_reader *in)
{
    if (!in->bad)
        bw_reply_set_openai(in->reply, 503, "server_error", NULL, NULL, "The server has no memory for this request.");
    in->bad = true;
}

static void tell(void *user, const bw_fault *f)
{
    bw_ask_reader *in = user;
    switch (f->kind) {
    case BW_FAULT_TYPE:
        COMPLAIN(in, f->name, "'%s' must be %s.", f->name, f->words);
        break;
    case BW_FAULT_RANGE:
        if (f->is_beyond)
            COMPLAIN(in, f->name, "'%s' is too large for 64 bits; it must be between %.0f and %.0f.", f->name, f->low,
                     f->high);
        else if (f->is_integer)
            COMPLAIN(in, f->name, "'%s' must be between %.0f and %.0f, not %lld.", f->name, f->low, f->high,
                     (long long)f->whole);
        else
            COMPLAIN(in, f->name, "'%s' must be between %g and %g, not %g.", f->name, f->low, f->high, f->value);
        break;
    case BW_FAULT_REFUSED:
        COMPLAIN(in, f->name, "'%s' is not supported: %s.", f->name, f->words);
        break;
    case BW_FAULT_VALUE:
        COMPLAIN(in, f->name, "'%s' %s.", f->name, f->words);
        break;
    }
}

static void read_bool(bw_ask_reader *in, const json_t *object, const char *key, bool *out)
{
    if (bw_json_get_bool(object, key, out) == BW_JSON_WRONG_TYPE)
        COMPLAIN(in, key, "'%s' must be true or false.", key);
}

/* An integer of fields.def's OTHER rows. */
static bool read_integer(bw_ask_reader *in, const char *key, int64_t low, int64_t high, int32_t *out)
{
    int64_t value;
    bw_json_found found = bw_json_get_i64(in->object, key, &value);
    if (found == BW_JSON_WRONG_TYPE)
        COMPLAIN(in, key, "'%s' must be an integer.", key);
    if (found == BW_JSON_TOO_LARGE)
        COMPLAIN(in, key, "'%s' is too large for 64 bits; it must be between %lld and %lld.", key, (long long)low,
                 (long long)high);
    if (found != BW_JSON_FOUND)
        return false;
    if (value < low || value > high) {
        COMPLAIN(in, key, "'%s' must be between %lld and %lld, not %lld.", key, (long long)low, (long long)high,
                 (long long)value);
        return false;
    }
    *out = (int32_t)value;
    return true;
}

static void read_stop(bw_ask_reader *in)
{
    const json_t *stop = bw_json_get(in->object, "stop");
    if (!stop)
        return;
    size_t n = json_is_string(stop) ? 1 : json_array_size(stop);
    if (!json_is_string(stop) && !json_is_array(stop)) {
        COMPLAIN(in, "stop", "'stop' must be a string or an array of strings.");
        return;
    }
    if (n > BW_ASK_MAX_STOP) {
        COMPLAIN(in, "stop", "'stop' takes at most %d strings, not %zu.", BW_ASK_MAX_STOP, n);
        return;
    }
    in->ask->stop = bw_arena_alloc_zero(&in->ask->arena, BW_ASK_MAX_STOP, sizeof *in->ask->stop);
    if (!in->ask->stop) {
        bw_ask_no_memory(in);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        const json_t *item = json_is_string(stop) ? stop : json_array_get(stop, i);
        size_t n_bytes = json_is_string(item) ? json_string_length(item) : 0;
        if (!json_is_string(item) || n_bytes > 4096 || memchr(json_string_value(item), 0, n_bytes)) {
            COMPLAIN(in, "stop", "'stop' must hold strings of at most 4096 bytes without U+0000.");
            return;
        }
        if (n_bytes == 0)
            continue; /* stops nothing */
        char *copy = bw_arena_strndup(&in->ask->arena, json_string_value(item), n_bytes);
        if (!copy) {
            bw_ask_no_memory(in);
            return;
        }
        in->ask->stop[in->ask->n_stop++] = copy;
    }
}

static void read_seed(bw_ask_reader *in)
{
    int64_t seed;
    bw_json_found found = bw_json_get_i64(in->object, "seed", &seed);
    if (found == BW_JSON_WRONG_TYPE)
        COMPLAIN(in, "seed", "'seed' must be a 64-bit integer.");
    if (found == BW_JSON_TOO_LARGE)
        COMPLAIN(in, "seed", "'seed' is too large: it must be between -2^63 and 2^63 - 1.");
    if (found != BW_JSON_FOUND || seed == -1) /* -1: llama-server's clients ask for a random one */
        return;
    in->ask->sampling.seed = (uint64_t)seed;
    in->ask->sampling.has_seed = true;
}

/* What both bodies share. */
static void read_common(bw_ask_reader *in, unsigned where)
{
    bw_ask *ask = in->ask;
    bw_sampling *s = &ask->sampling;
    ask->n_logprobs = -1;
    ask->add_generation_prompt = true;
    if (!bw_fields_read(in->object, where, ask, tell, in))
        bw_ask_no_memory(in);
    if (s->repeat_last_n == 0) { /* as llama-server has it */
        s->repetition_penalty = 1;
        s->frequency_penalty = s->presence_penalty = 0;
    }
    s->repeat_last_n = s->repeat_last_n > 0 ? s->repeat_last_n : 0;
    s->top_k = s->top_k > 0 ? s->top_k : 0;
    read_seed(in);
    const json_t *options = bw_json_get(in->object, "stream_options");
    if (options && !json_is_object(options))
        COMPLAIN(in, "stream_options", "'stream_options' must be an object.");
    else if (options && !ask->stream)
        COMPLAIN(in, "stream_options", "'stream_options' needs 'stream' to be true.");
    else if (options)
        read_bool(in, options, "include_usage", &ask->include_usage);
    const json_t *model = bw_json_get(in->object, "model");
    if (model && !json_is_string(model))
        COMPLAIN(in, "model", "'model' must be a string.");
    read_stop(in);
}

/* One array of token ids. */
static bool read_tokens(bw_ask_reader *in, const json_t *array, bw_ask_prompt *prompt)
{
    size_t n = json_array_size(array);
    int32_t *tokens = bw_arena_alloc_zero(&in->ask->arena, n + 1, sizeof *tokens);
    if (!tokens) {
        bw_ask_no_memory(in);
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        const json_t *item = json_array_get(array, i);
        int64_t token = json_is_integer(item) ? json_integer_value(item) : -1;
        if (token > INT32_MAX || bw_json_is_beyond_i64(item)) {
            COMPLAIN(in, "prompt", "'prompt' holds a token id that is too large.");
            return false;
        }
        if (token < 0 || token > INT32_MAX) {
            COMPLAIN(in, "prompt", "'prompt' must be a string, an array of strings, of tokens, or of token arrays.");
            return false;
        }
        tokens[i] = (int32_t)token;
    }
    if (n == 0) {
        COMPLAIN(in, "prompt", "'prompt' must not be empty.");
        return false;
    }
    *prompt = (bw_ask_prompt){.tokens = tokens, .n_tokens = n};
    return true;
}

static bool read_one_prompt(bw_ask_reader *in, const json_t *item, bw_ask_prompt *prompt)
{
    if (json_is_array(item))
        return read_tokens(in, item, prompt);
    if (!json_is_string(item)) {
        COMPLAIN(in, "prompt", "'prompt' must be a string, an array of strings, of tokens, or of token arrays.");
        return false;
    }
    char *copy = bw_arena_strndup(&in->ask->arena, json_string_value(item), json_string_length(item));
    if (!copy) {
        bw_ask_no_memory(in);
        return false;
    }
    *prompt = (bw_ask_prompt){.text = copy, .n_bytes = json_string_length(item)};
    return true;
}

static void read_prompts(bw_ask_reader *in)
{
    const json_t *value = bw_json_get(in->object, "prompt");
    if (!value) {
        COMPLAIN(in, "prompt", "'prompt' is missing.");
        return;
    }
    const json_t *first = json_array_get(value, 0);
    bool several = json_is_array(value) && !json_is_integer(first) && !bw_json_is_beyond_i64(first);
    size_t n = several ? json_array_size(value) : 1;
    if (n < 1 || n * (size_t)in->ask->n > BW_ASK_MAX_CHOICES) {
        COMPLAIN(in, "prompt", "%zu prompts with n = %d: their product must be between 1 and %d.", n, (int)in->ask->n,
                 BW_ASK_MAX_CHOICES);
        return;
    }
    in->ask->prompts = bw_arena_alloc_zero(&in->ask->arena, n, sizeof *in->ask->prompts);
    if (!in->ask->prompts) {
        bw_ask_no_memory(in);
        return;
    }
    for (size_t i = 0; i < n; i++)
        if (!read_one_prompt(in, several ? json_array_get(value, i) : value, &in->ask->prompts[i]))
            return;
    in->ask->n_prompts = n;
}

static void read_completion(bw_ask_reader *in)
{
    bw_ask *ask = in->ask;
    ask->api = BW_ASK_COMPLETION;
    read_common(in, BW_IN_COMPLETION);
    read_integer(in, "logprobs", 0, BW_ASK_MAX_LOGPROBS, &ask->n_logprobs);
    int32_t best_of = ask->n;
    if (read_integer(in, "best_of", 1, BW_ASK_MAX_CHOICES, &best_of) && best_of != ask->n)
        COMPLAIN(in, "best_of", "'best_of' other than 'n' is not supported.");
    if (!in->bad)
        read_prompts(in);
}

static void read_chat(bw_ask_reader *in)
{
    bw_ask *ask = in->ask;
    ask->api = BW_ASK_CHAT;
    read_common(in, BW_IN_CHAT);
    bool logprobs = false;
    int32_t top = 0;
    read_bool(in, in->object, "logprobs", &logprobs);
    if (read_integer(in, "top_logprobs", 0, BW_ASK_MAX_LOGPROBS, &top) && !logprobs && top > 0)
        COMPLAIN(in, "top_logprobs", "'top_logprobs' needs 'logprobs' to be true.");
    ask->n_logprobs = logprobs ? top : -1;
    if (in->bad)
        return;
    bw_ask_read_messages(in);
    if (!in->bad)
        bw_ask_read_template_values(in);
    ask->prompts = bw_arena_alloc_zero(&ask->arena, 1, sizeof *ask->prompts);
    ask->n_prompts = 1;
    if (!ask->prompts)
        bw_ask_no_memory(in);
}

bool bw_ask_read_openai(const char *body, size_t n_bytes, bool chat, bw_ask *ask, bw_reply *reply)
{
    *ask = (bw_ask){0};
    char why[300] = "";
    json_t *root = bw_body_parse_json(body, n_bytes, why, sizeof why);
    bw_ask_reader in = {.object = root, .ask = ask, .reply = reply};
    if (!root && !why[0])
        bw_ask_no_memory(&in);
    else if (!root)
        COMPLAIN(&in, NULL, "The body is not valid JSON: %s.", why);
    else if (!json_is_object(root))
        COMPLAIN(&in, NULL, "The body must be a JSON object.");
    if (!in.bad) {
        bw_arena_init(&ask->arena, 0);
        if (chat)
            read_chat(&in);
        else
            read_completion(&in);
    }
    if (!in.bad)
        bw_fields_note_unknown(root, chat ? BW_IN_CHAT : BW_IN_COMPLETION,
                               chat ? "/v1/chat/completions" : "/v1/completions");
    json_decref(root);
    if (in.bad)
        bw_ask_deinit(ask);
    return !in.bad;
}
