/* OpenAI's two bodies: /v1/completions and /v1/chat/completions. See ask.h.
 *
 * Members this server does not know are ignored, as OpenAI's clients send many; members it knows but cannot honour
 * (tools that must be called, JSON schemas, images, audio) are refused with a sentence. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ask.h"
#include "bw_mem.h"
#include "json.h"

typedef struct reader {
    const json_t *object;
    bw_ask *ask;
    bw_reply *reply; /* filled by the first complaint */
    bool bad;
} reader;

#define COMPLAIN(in, param, ...)                                                                                       \
    do {                                                                                                               \
        if (!(in)->bad)                                                                                                \
            bw_reply_set_openai((in)->reply, 400, "invalid_request_error", param, NULL, __VA_ARGS__);                  \
        (in)->bad = true;                                                                                              \
    } while (0)

static void no_memory(reader *in)
{
    if (!in->bad)
        bw_reply_set_openai(in->reply, 503, "server_error", NULL, NULL, "The server has no memory for this request.");
    in->bad = true;
}

static void read_real(reader *in, const char *key, double low, double high, float *out)
{
    double value;
    switch (bw_json_get_f64(in->object, key, &value)) {
    case BW_JSON_ABSENT:
        return;
    case BW_JSON_WRONG_TYPE:
        COMPLAIN(in, key, "'%s' must be a number.", key);
        return;
    case BW_JSON_FOUND:
        if (value >= low && value <= high)
            *out = (float)value;
        else
            COMPLAIN(in, key, "'%s' must be between %g and %g, not %g.", key, low, high, value);
    }
}

static bool read_integer(reader *in, const char *key, int64_t low, int64_t high, int32_t *out)
{
    int64_t value;
    switch (bw_json_get_i64(in->object, key, &value)) {
    case BW_JSON_ABSENT:
        return false;
    case BW_JSON_WRONG_TYPE:
        COMPLAIN(in, key, "'%s' must be an integer.", key);
        return false;
    case BW_JSON_FOUND:
        break;
    }
    if (value < low || value > high) {
        COMPLAIN(in, key, "'%s' must be between %lld and %lld, not %lld.", key, (long long)low, (long long)high,
                 (long long)value);
        return false;
    }
    *out = (int32_t)value;
    return true;
}

static void read_bool(reader *in, const json_t *object, const char *key, bool *out)
{
    if (bw_json_get_bool(object, key, out) == BW_JSON_WRONG_TYPE)
        COMPLAIN(in, key, "'%s' must be true or false.", key);
}

static void read_stop(reader *in)
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
        no_memory(in);
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
            no_memory(in);
            return;
        }
        in->ask->stop[in->ask->n_stop++] = copy;
    }
}

static void read_logit_bias(reader *in)
{
    json_t *biases = bw_json_get(in->object, "logit_bias");
    if (!biases)
        return;
    if (!json_is_object(biases) || json_object_size(biases) > 1024) {
        COMPLAIN(in, "logit_bias", "'logit_bias' must be an object of at most 1024 token ids.");
        return;
    }
    size_t n = 0;
    bw_logit_bias *items = bw_arena_alloc_zero(&in->ask->arena, json_object_size(biases) + 1, sizeof *items);
    if (!items) {
        no_memory(in);
        return;
    }
    const char *key;
    json_t *value;
    json_object_foreach(biases, key, value)
    {
        int64_t token;
        double bias = json_number_value(value);
        if (!bw_parse_i64(key, &token) || token < 0 || token > INT32_MAX || !json_is_number(value) ||
            !(bias >= -100 && bias <= 100)) {
            COMPLAIN(in, "logit_bias", "'logit_bias' must map token ids to numbers between -100 and 100.");
            return;
        }
        /* OpenAI: -100 bans a token. */
        items[n++] = (bw_logit_bias){.token = (int32_t)token, .bias = bias <= -100 ? -INFINITY : (float)bias};
    }
    in->ask->sampling.logit_bias = items;
    in->ask->sampling.n_logit_bias = n;
}

/* What both bodies share. */
static void read_common(reader *in)
{
    bw_ask *ask = in->ask;
    bw_sampling *s = &ask->sampling;
    *s = (bw_sampling){.temperature = 1.0f, .top_p = 1.0f, .repetition_penalty = 1.0f};
    ask->n = 1;
    ask->n_logprobs = -1;
    ask->add_generation_prompt = true;
    read_real(in, "temperature", 0, 2, &s->temperature);
    read_real(in, "top_p", 0, 1, &s->top_p);
    read_real(in, "min_p", 0, 1, &s->min_p);
    read_real(in, "frequency_penalty", -2, 2, &s->frequency_penalty);
    read_real(in, "presence_penalty", -2, 2, &s->presence_penalty);
    read_real(in, "repetition_penalty", 0.01, 10, &s->repetition_penalty);
    read_integer(in, "top_k", 0, INT32_MAX, &s->top_k);
    read_integer(in, "n", 1, BW_ASK_MAX_CHOICES, &ask->n);
    int64_t seed;
    switch (bw_json_get_i64(in->object, "seed", &seed)) {
    case BW_JSON_FOUND:
        s->seed = (uint64_t)seed;
        s->has_seed = true;
        break;
    case BW_JSON_WRONG_TYPE:
        COMPLAIN(in, "seed", "'seed' must be a 64-bit integer.");
        break;
    case BW_JSON_ABSENT:
        break;
    }
    read_bool(in, in->object, "stream", &ask->stream);
    read_bool(in, in->object, "ignore_eos", &ask->ignore_eos);
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
    read_logit_bias(in);
}

/* One array of token ids. */
static bool read_tokens(reader *in, const json_t *array, bw_ask_prompt *prompt)
{
    size_t n = json_array_size(array);
    int32_t *tokens = bw_arena_alloc_zero(&in->ask->arena, n + 1, sizeof *tokens);
    if (!tokens) {
        no_memory(in);
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        const json_t *item = json_array_get(array, i);
        int64_t token = json_is_integer(item) ? json_integer_value(item) : -1;
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

static bool read_one_prompt(reader *in, const json_t *item, bw_ask_prompt *prompt)
{
    if (json_is_array(item))
        return read_tokens(in, item, prompt);
    if (!json_is_string(item)) {
        COMPLAIN(in, "prompt", "'prompt' must be a string, an array of strings, of tokens, or of token arrays.");
        return false;
    }
    char *copy = bw_arena_strndup(&in->ask->arena, json_string_value(item), json_string_length(item));
    if (!copy) {
        no_memory(in);
        return false;
    }
    *prompt = (bw_ask_prompt){.text = copy, .n_bytes = json_string_length(item)};
    return true;
}

static void read_prompts(reader *in)
{
    const json_t *value = bw_json_get(in->object, "prompt");
    if (!value) {
        COMPLAIN(in, "prompt", "'prompt' is missing.");
        return;
    }
    bool several = json_is_array(value) && !json_is_integer(json_array_get(value, 0));
    size_t n = several ? json_array_size(value) : 1;
    if (n < 1 || n * (size_t)in->ask->n > BW_ASK_MAX_CHOICES) {
        COMPLAIN(in, "prompt", "%zu prompts with n = %d: their product must be between 1 and %d.", n, (int)in->ask->n,
                 BW_ASK_MAX_CHOICES);
        return;
    }
    in->ask->prompts = bw_arena_alloc_zero(&in->ask->arena, n, sizeof *in->ask->prompts);
    if (!in->ask->prompts) {
        no_memory(in);
        return;
    }
    for (size_t i = 0; i < n; i++)
        if (!read_one_prompt(in, several ? json_array_get(value, i) : value, &in->ask->prompts[i]))
            return;
    in->ask->n_prompts = n;
}

static void read_completion(reader *in)
{
    bw_ask *ask = in->ask;
    ask->api = BW_ASK_COMPLETION;
    ask->max_tokens = 16;
    read_common(in);
    read_integer(in, "max_tokens", 0, INT32_MAX, &ask->max_tokens);
    read_integer(in, "logprobs", 0, BW_ASK_MAX_LOGPROBS, &ask->n_logprobs);
    read_bool(in, in->object, "echo", &ask->echo);
    int32_t best_of = ask->n;
    if (read_integer(in, "best_of", 1, BW_ASK_MAX_CHOICES, &best_of) && best_of != ask->n)
        COMPLAIN(in, "best_of", "'best_of' other than 'n' is not supported.");
    const json_t *suffix = bw_json_get(in->object, "suffix");
    if (suffix && !(json_is_string(suffix) && json_string_length(suffix) == 0))
        COMPLAIN(in, "suffix", "'suffix' is not supported: this model only continues text.");
    if (!in->bad)
        read_prompts(in);
}

/* Text parts under the names that clients give them: the type, and the member that holds the words. */
static const char *const part_types[][2] = {
    {"text", "text"}, {"refusal", "refusal"}, {"input_text", "text"}, {"output_text", "text"}};

static bool add_part(bw_str *text, const json_t *part)
{
    const char *type = json_string_value(json_object_get(part, "type"));
    for (size_t i = 0; type && i < sizeof part_types / sizeof *part_types; i++) {
        const json_t *words = json_object_get(part, part_types[i][1]);
        if (strcmp(type, part_types[i][0]) != 0 || !json_is_string(words))
            continue;
        bw_str_add_bytes(text, json_string_value(words), json_string_length(words));
        return true;
    }
    if (!json_is_string(part)) /* some send bare strings */
        return false;
    bw_str_add_bytes(text, json_string_value(part), json_string_length(part));
    return true;
}

/* content: a string, nothing, or an array of text parts, which become one string. NULL when it cannot be used. */
static json_t *flatten_content(reader *in, size_t index, const json_t *content)
{
    if (!content || json_is_null(content))
        return json_null();
    if (json_is_string(content))
        return json_incref((json_t *)(uintptr_t)content);
    bw_str text = {0};
    bool good = json_is_array(content);
    for (size_t i = 0; good && i < json_array_size(content); i++)
        good = add_part(&text, json_array_get(content, i));
    json_t *flat = NULL;
    if (!good)
        COMPLAIN(in, "messages",
                 "messages[%zu]: 'content' must be a string, null or an array of text parts; images, audio and files "
                 "are not supported.",
                 index);
    else if (text.failed || !(flat = json_stringn_nocheck(text.data ? text.data : "", text.len)))
        no_memory(in);
    bw_str_deinit(&text);
    return flat;
}

/* What came before tools: function_call becomes a tool call, role "function" the tool that answers it. */
static bool modernise(json_t *message, size_t index)
{
    char id[32];
    json_t *call = json_object_get(message, "function_call");
    bool answers = strcmp(json_string_value(json_object_get(message, "role")), "function") == 0;
    if (json_is_object(call) && !json_object_get(message, "tool_calls")) {
        snprintf(id, sizeof id, "call%05zu", index); /* nine characters, which some templates demand */
        json_t *calls = json_pack("[{s:s, s:s, s:O}]", "id", id, "type", "function", "function", call);
        if (!calls || json_object_set_new(message, "tool_calls", calls) != 0)
            return false;
    }
    if (!answers)
        return true;
    snprintf(id, sizeof id, "call%05zu", index > 0 ? index - 1 : 0); /* it answers the message before it */
    return json_object_set_new(message, "role", json_string("tool")) == 0 &&
           json_object_set_new(message, "tool_call_id", json_string(id)) == 0;
}

/* tool_calls must be what templates go through; their arguments are shaped for the template by the engine. */
static bool check_calls(reader *in, size_t index, json_t *message)
{
    json_t *calls = json_object_get(message, "tool_calls");
    if (json_is_null(calls) || (calls && json_array_size(calls) == 0 && json_is_array(calls))) {
        json_object_del(message, "tool_calls"); /* "is defined" is all that many templates ask */
        return true;
    }
    bool good = !calls || json_is_array(calls);
    for (size_t i = 0; good && i < json_array_size(calls); i++) {
        const json_t *call = json_array_get(calls, i), *function = json_object_get(call, "function");
        good = json_is_string(json_object_get(function ? function : call, "name"));
    }
    if (!good)
        COMPLAIN(in, "messages",
                 "messages[%zu]: 'tool_calls' must be an array of objects with a 'function' that has a "
                 "'name'.",
                 index);
    return good;
}

static bool read_message(reader *in, size_t index, json_t *message)
{
    if (!json_is_object(message) || !json_is_string(json_object_get(message, "role"))) {
        COMPLAIN(in, "messages", "messages[%zu] must be an object with a 'role'.", index);
        return false;
    }
    if (!modernise(message, index)) {
        no_memory(in);
        return false;
    }
    const json_t *content = json_object_get(message, "content"), *refusal = json_object_get(message, "refusal");
    bool assistant = strcmp(json_string_value(json_object_get(message, "role")), "assistant") == 0;
    if (!content && !assistant) {
        COMPLAIN(in, "messages", "messages[%zu] has no 'content'.", index);
        return false;
    }
    if (!check_calls(in, index, message))
        return false;
    bool refused = (!content || json_is_null(content)) && json_is_string(refusal); /* that is what it said */
    json_t *flat = flatten_content(in, index, refused ? refusal : content);
    if (!flat)
        return false;
    if (json_object_set_new_nocheck(message, "content", flat) == 0)
        return true;
    no_memory(in);
    return false;
}

static void read_messages(reader *in)
{
    const json_t *messages = bw_json_get(in->object, "messages");
    size_t n = json_array_size(messages);
    if (!json_is_array(messages) || n == 0) {
        COMPLAIN(in, "messages",
                 messages ? "'messages' must be an array with at least one message." : "'messages' is missing.");
        return;
    }
    for (size_t i = 0; i < n; i++)
        if (!read_message(in, i, json_array_get(messages, i)))
            return;
    char *text = json_dumps(messages, JSON_COMPACT);
    in->ask->messages_json = text ? bw_arena_strndup(&in->ask->arena, text, strlen(text)) : NULL;
    bw_free(text);
    if (!in->ask->messages_json)
        no_memory(in);
}

/* What the template is given by other members of the body. */
static bool check_template_values(reader *in, const json_t *given)
{
    static const char *const taken[] = {"messages", "tools", "add_generation_prompt", "bos_token", "eos_token"};
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++) {
        if (!json_object_get(given, taken[i]))
            continue;
        COMPLAIN(in, "chat_template_kwargs", "'chat_template_kwargs' may not set '%s'%s", taken[i],
                 i < 3 ? ": it is a member of the body itself." : ": it is the model's.");
        return false;
    }
    return true;
}

/* Template variables: chat_template_kwargs and tools. */
static void read_extra(reader *in)
{
    json_t *given = bw_json_get(in->object, "chat_template_kwargs"), *tools = bw_json_get(in->object, "tools");
    json_t *choice = bw_json_get(in->object, "tool_choice");
    if (given && !json_is_object(given)) {
        COMPLAIN(in, "chat_template_kwargs", "'chat_template_kwargs' must be an object.");
        return;
    }
    if (!check_template_values(in, given))
        return;
    if (tools && !json_is_array(tools)) {
        COMPLAIN(in, "tools", "'tools' must be an array.");
        return;
    }
    const char *chosen = json_string_value(choice);
    if (choice && !(chosen && (strcmp(chosen, "auto") == 0 || strcmp(chosen, "none") == 0))) {
        COMPLAIN(in, "tool_choice", "'tool_choice' other than \"auto\" and \"none\" is not supported.");
        return;
    }
    if (json_array_size(tools) == 0 || (chosen && strcmp(chosen, "none") == 0))
        tools = NULL;
    if (!given && !tools)
        return;
    json_t *extra = given ? json_copy(given) : json_object();
    char *text = NULL;
    if (extra && (!tools || json_object_set_nocheck(extra, "tools", tools) == 0))
        text = json_dumps(extra, JSON_COMPACT);
    if (text)
        in->ask->extra_json = bw_arena_strndup(&in->ask->arena, text, strlen(text));
    if (!in->ask->extra_json)
        no_memory(in);
    bw_free(text);
    json_decref(extra);
}

static void read_chat(reader *in)
{
    bw_ask *ask = in->ask;
    ask->api = BW_ASK_CHAT;
    ask->max_tokens = -1;
    read_common(in);
    read_integer(in, "max_tokens", 0, INT32_MAX, &ask->max_tokens);
    read_integer(in, "max_completion_tokens", 0, INT32_MAX, &ask->max_tokens);
    bool logprobs = false;
    int32_t top = 0;
    read_bool(in, in->object, "logprobs", &logprobs);
    if (read_integer(in, "top_logprobs", 0, BW_ASK_MAX_LOGPROBS, &top) && !logprobs && top > 0)
        COMPLAIN(in, "top_logprobs", "'top_logprobs' needs 'logprobs' to be true.");
    ask->n_logprobs = logprobs ? top : -1;
    read_bool(in, in->object, "add_generation_prompt", &ask->add_generation_prompt);
    const json_t *format = bw_json_get(in->object, "response_format");
    const char *type = json_string_value(json_object_get(format, "type"));
    if (format && !(type && strcmp(type, "text") == 0))
        COMPLAIN(in, "response_format", "'response_format' other than {\"type\":\"text\"} is not supported.");
    if (in->bad)
        return;
    read_messages(in);
    if (!in->bad)
        read_extra(in);
    ask->prompts = bw_arena_alloc_zero(&ask->arena, 1, sizeof *ask->prompts);
    ask->n_prompts = 1;
    if (!ask->prompts)
        no_memory(in);
}

bool bw_ask_read_openai(const char *body, size_t n_bytes, bool chat, bw_ask *ask, bw_reply *reply)
{
    *ask = (bw_ask){0};
    char why[300] = "";
    json_t *root = bw_body_parse_json(body, n_bytes, why, sizeof why);
    reader in = {.object = root, .ask = ask, .reply = reply};
    if (!root && !why[0])
        no_memory(&in);
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
    json_decref(root);
    if (in.bad)
        bw_ask_deinit(ask);
    return !in.bad;
}
