/* rbee's two bodies: {"operation":"infer",...} and the flat one without `operation`. See ask.h. */
#include <stdio.h>
#include <string.h>

#include "ask_fields.h"

typedef struct reader {
    const json_t *object;
    char wrong[300]; /* the first member of a wrong type; empty = none */
    bw_str errors;   /* comma-separated objects of values out of range */
} reader;

static void note_found(reader *in, const char *key, bw_json_found found, const char *expected)
{
    if (found == BW_JSON_WRONG_TYPE && !in->wrong[0])
        snprintf(in->wrong, sizeof in->wrong, "invalid type for field `%s`, expected %s", key, expected);
}

static void add_error(reader *in, const char *field, const char *constraint, const char *message, const char *value)
{
    bw_str *out = &in->errors;
    bw_str_add(out, out->len ? ",{\"field\":" : "{\"field\":");
    bw_str_add_json(out, field, strlen(field));
    bw_str_add(out, ",\"constraint\":");
    bw_str_add_json(out, constraint, strlen(constraint));
    bw_str_add(out, ",\"message\":");
    bw_str_add_json(out, message, strlen(message));
    if (value) {
        bw_str_add(out, ",\"value\":");
        bw_str_add_json(out, value, strlen(value));
    }
    bw_str_add_char(out, '}');
}

/* The shortest text that reads back as the same number. */
static void write_real(double value, char text[40])
{
    for (int digits = 1; digits <= 17; digits++) {
        double again;
        snprintf(text, 40, "%.*g", digits, value);
        if (bw_parse_f64(text, &again) && again == value)
            break;
    }
}

static void tell(void *user, const bw_fault *f)
{
    reader *in = user;
    char text[40], constraint[64], message[200];
    switch (f->kind) {
    case BW_FAULT_TYPE:
        note_found(in, f->name, BW_JSON_WRONG_TYPE, f->words);
        break;
    case BW_FAULT_RANGE:
        if (f->is_integer && !f->is_beyond)
            snprintf(text, sizeof text, "%lld", (long long)f->whole);
        else
            write_real(f->value, text);
        snprintf(constraint, sizeof constraint, f->is_integer ? "range(%.0f..=%.0f)" : "range(%.1f..=%.1f)", f->low,
                 f->high);
        snprintf(message, sizeof message,
                 f->is_beyond    ? "%s is too large: it must be between %.0f and %.0f"
                 : f->is_integer ? "%s must be between %.0f and %.0f"
                                 : "%s must be between %.1f and %.1f",
                 f->name, f->low, f->high);
        add_error(in, f->name, constraint, message, text);
        break;
    case BW_FAULT_REFUSED:
        snprintf(message, sizeof message, "%s is not supported: %s", f->name, f->words);
        add_error(in, f->name, "unsupported", message, NULL);
        break;
    case BW_FAULT_VALUE:
        snprintf(message, sizeof message, "%s %s", f->name, f->words);
        add_error(in, f->name, "value", message, NULL);
        break;
    }
}

static size_t count_chars(const char *text, size_t n_bytes)
{
    size_t n = 0;
    for (size_t i = 0; i < n_bytes; i++)
        n += ((unsigned char)text[i] & 0xC0) != 0x80;
    return n;
}

static bool read_prompt(reader *in, bool tagged, bw_ask *ask)
{
    const char *text = NULL;
    size_t n_bytes = 0;
    bw_json_found found = bw_json_get_text(in->object, "prompt", &text, &n_bytes);
    note_found(in, "prompt", found, "a string");
    if (found == BW_JSON_ABSENT && !in->wrong[0])
        snprintf(in->wrong, sizeof in->wrong, "missing field `prompt`");
    if (found != BW_JSON_FOUND)
        return true;
    size_t n_chars = count_chars(text, n_bytes);
    if (n_chars < 1)
        add_error(in, "prompt", tagged ? "non_empty" : "length(1..=32768)", "prompt must not be empty", NULL);
    else if (n_chars > 32768 && !tagged)
        add_error(in, "prompt", "length(1..=32768)", "prompt must be at most 32768 characters", NULL);
    ask->prompts = bw_arena_alloc_zero(&ask->arena, 1, sizeof *ask->prompts);
    char *copy = bw_arena_strndup(&ask->arena, text, n_bytes);
    if (!ask->prompts || !copy)
        return false;
    ask->prompts[0] = (bw_ask_prompt){.text = copy, .n_bytes = n_bytes};
    ask->n_prompts = 1;
    return true;
}

static bool read_stop(reader *in, bw_ask *ask)
{
    const json_t *stop = bw_json_get(in->object, "stop");
    if (!stop)
        return true;
    if (!json_is_array(stop)) {
        note_found(in, "stop", BW_JSON_WRONG_TYPE, "an array of strings");
        return true;
    }
    size_t n = json_array_size(stop);
    if (n > BW_ASK_MAX_STOP) {
        char text[24];
        snprintf(text, sizeof text, "%zu", n);
        add_error(in, "stop", "max_count(4)", "stop takes at most 4 strings", text);
        return true;
    }
    ask->stop = bw_arena_alloc_zero(&ask->arena, BW_ASK_MAX_STOP, sizeof *ask->stop);
    if (!ask->stop)
        return false;
    for (size_t i = 0; i < n; i++) {
        const json_t *item = json_array_get(stop, i);
        if (!json_is_string(item)) {
            note_found(in, "stop", BW_JSON_WRONG_TYPE, "an array of strings");
            return true;
        }
        size_t n_bytes = json_string_length(item);
        char field[24];
        snprintf(field, sizeof field, "stop[%zu]", i);
        if (n_bytes == 0)
            add_error(in, field, "non_empty", "a stop string must not be empty", NULL);
        else if (n_bytes > 100)
            add_error(in, field, "max_length(100)", "a stop string must be at most 100 bytes", NULL);
        else if (memchr(json_string_value(item), 0, n_bytes))
            add_error(in, field, "no_nul", "a stop string must not hold U+0000", NULL);
        else if (!(ask->stop[ask->n_stop++] = bw_arena_strndup(&ask->arena, json_string_value(item), n_bytes)))
            return false;
    }
    return true;
}

static bool read_members(reader *in, bool tagged, bw_ask *ask)
{
    bw_sampling *s = &ask->sampling;
    if (!bw_fields_read(in->object, tagged ? BW_IN_TAGGED : BW_IN_FLAT, ask, tell, in))
        return false;
    s->seed = tagged ? 42 : 0;
    s->has_seed = tagged;
    ask->api = BW_ASK_RBEE;
    ask->n = 1;
    ask->n_logprobs = -1;
    ask->stream = true;
    if (!read_prompt(in, tagged, ask) || !read_stop(in, ask))
        return false;
    bw_json_found found = bw_json_get_u64(in->object, "seed", &s->seed);
    note_found(in, "seed", found, "an unsigned 64-bit integer");
    if (found == BW_JSON_TOO_LARGE)
        add_error(in, "seed", "range(0..=18446744073709551615)", "seed is too large: 64 bits do not hold it", NULL);
    s->has_seed = s->has_seed || found == BW_JSON_FOUND;
    /* The contract allows 0 and what is almost 0, by which the engine does not divide: off, and the least it takes. */
    if (s->repetition_penalty == 0)
        s->repetition_penalty = 1;
    else if (s->repetition_penalty < 0.01f)
        s->repetition_penalty = 0.01f;
    return true;
}

/* The operation's name: true when there is nothing against it. */
static bool check_operation(const json_t *root, bool *tagged, bw_reply *reply)
{
    if (!json_is_object(root)) {
        bw_reply_set_text(reply, 500, "Failed to parse operation: the body is not a JSON object");
        return false;
    }
    const json_t *operation = json_object_get(root, "operation");
    *tagged = operation != NULL;
    if (!operation)
        return true;
    if (!json_is_string(operation)) {
        bw_reply_set_text(reply, 500,
                          "Failed to parse operation: invalid type for field `operation`, expected a string");
        return false;
    }
    if (strcmp(json_string_value(operation), "infer") != 0) {
        bw_reply_set_text(reply, 500, "Unsupported operation for worker: %.200s", json_string_value(operation));
        return false;
    }
    return true;
}

bool bw_ask_read_rbee(const char *body, size_t n_bytes, bw_ask *ask, bw_reply *reply)
{
    *ask = (bw_ask){0};
    char why[300] = "";
    json_t *root = bw_body_parse_json(body, n_bytes, why, sizeof why);
    if (!root && !why[0]) {
        bw_reply_set_text(reply, 503, "Failed to queue request: no memory");
        return false;
    }
    if (!root) {
        bw_reply_set_text(reply, 400, "Failed to parse the request body as JSON: %s", why);
        return false;
    }
    bool tagged = false, good = check_operation(root, &tagged, reply);
    if (good) {
        reader in = {.object = root};
        bw_arena_init(&ask->arena, 0);
        good = read_members(&in, tagged, ask) && !in.errors.failed;
        if (!good) {
            bw_reply_set_text(reply, 503, "Failed to queue request: no memory");
        } else if (in.wrong[0]) {
            bw_reply_set_text(reply, 500, "Failed to parse operation: %s", in.wrong);
            good = false;
        } else if (in.errors.len) {
            bw_reply_set_text(reply, 400, "%s", "");
            reply->content_type = bw_type_json;
            bw_str_add(&reply->body, "{\"errors\":[");
            bw_str_add_bytes(&reply->body, in.errors.data, in.errors.len);
            bw_str_add(&reply->body, "]}");
            good = false;
        }
        bw_str_deinit(&in.errors);
    }
    if (good)
        bw_fields_note_unknown(root, tagged ? BW_IN_TAGGED : BW_IN_FLAT, "a job");
    json_decref(root);
    if (!good)
        bw_ask_deinit(ask);
    return good;
}
