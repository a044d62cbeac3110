/* Reading by fields.def; see ask_fields.h. */
#include "ask_fields.h"

#include <math.h>
#include <pthread.h>
#include <string.h>

#include "bw_log.h"

#define READ(where_, name_, kind_, member, low_, high_, value_, meaning_)                                              \
    {.where = BW_IN_##where_,                                                                                          \
     .name = #name_,                                                                                                   \
     .kind = BW_FIELD_##kind_,                                                                                         \
     .offset = offsetof(bw_ask, member),                                                                               \
     .low = low_,                                                                                                      \
     .high = high_,                                                                                                    \
     .value = value_,                                                                                                  \
     .meaning = meaning_},
#define OTHER(where_, name_, type_, limits_, otherwise_, meaning_)                                                     \
    {.where = BW_IN_##where_,                                                                                          \
     .name = #name_,                                                                                                   \
     .kind = BW_FIELD_OTHER,                                                                                           \
     .type = type_,                                                                                                    \
     .limits = limits_,                                                                                                \
     .otherwise = otherwise_,                                                                                          \
     .meaning = meaning_},
#define IGNORED(where_, name_, meaning_)                                                                               \
    {.where = BW_IN_##where_, .name = #name_, .kind = BW_FIELD_IGNORED, .meaning = meaning_},
#define REFUSED(where_, name_, low_, high_, allowed_, meaning_)                                                        \
    {.where = BW_IN_##where_,                                                                                          \
     .name = #name_,                                                                                                   \
     .kind = BW_FIELD_REFUSED,                                                                                         \
     .low = low_,                                                                                                      \
     .high = high_,                                                                                                    \
     .allowed = allowed_,                                                                                              \
     .meaning = meaning_},
const bw_field bw_fields[] = {
#include "fields.def"
};
const size_t bw_n_fields = sizeof bw_fields / sizeof *bw_fields;

typedef struct reader {
    const json_t *object;
    bw_ask *ask;
    void (*tell)(void *user, const bw_fault *fault);
    void *user;
    bool limited; /* a LIMIT was given as a number */
    bool no_memory;
} reader;

static void tell(reader *in, bw_fault_kind kind, const char *name, const char *words)
{
    in->tell(in->user, &(bw_fault){.kind = kind, .name = name, .words = words});
}

/* ---- numbers ---- */

static void set(bw_ask *ask, const bw_field *f, double value)
{
    char *at = (char *)ask + f->offset;
    if (f->kind == BW_FIELD_REAL)
        *(float *)(void *)at = (float)value;
    else if (f->kind == BW_FIELD_SWITCH)
        *(bool *)(void *)at = value != 0;
    else
        *(int32_t *)(void *)at = value > INT32_MAX ? INT32_MAX : (int32_t)value;
}

static void read_real(reader *in, const bw_field *f)
{
    double value;
    bw_json_found found = bw_json_get_f64(in->object, f->name, &value);
    if (found == BW_JSON_WRONG_TYPE)
        tell(in, BW_FAULT_TYPE, f->name, "a number");
    else if (found == BW_JSON_FOUND && value >= f->low && value <= f->high)
        set(in->ask, f, value);
    else if (found == BW_JSON_FOUND)
        in->tell(in->user,
                 &(bw_fault){.kind = BW_FAULT_RANGE, .name = f->name, .low = f->low, .high = f->high, .value = value});
}

/* True when there is one within its limits; a number that is whole and only too large is a matter of range. */
static bool read_integer(reader *in, const bw_field *f, double low)
{
    int64_t value;
    bw_json_found found = bw_json_get_i64(in->object, f->name, &value);
    if (found == BW_JSON_TOO_LARGE) {
        in->tell(in->user, &(bw_fault){.kind = BW_FAULT_RANGE,
                                       .name = f->name,
                                       .is_integer = true,
                                       .low = low,
                                       .high = f->high,
                                       .value = json_real_value(bw_json_get(in->object, f->name)),
                                       .is_beyond = true});
        return false;
    }
    if (found == BW_JSON_WRONG_TYPE)
        tell(in, BW_FAULT_TYPE, f->name, "an integer");
    if (found != BW_JSON_FOUND)
        return false;
    if ((double)value < low || (double)value > f->high) {
        in->tell(in->user, &(bw_fault){.kind = BW_FAULT_RANGE,
                                       .name = f->name,
                                       .is_integer = true,
                                       .low = low,
                                       .high = f->high,
                                       .whole = value});
        return false;
    }
    set(in->ask, f, (double)value);
    return true;
}

/* null asks for as many tokens as fit, unless a number under another name says how many. */
static void read_limit(reader *in, const bw_field *f)
{
    if (read_integer(in, f, -1))
        in->limited = true;
    else if (json_is_null(json_object_get(in->object, f->name)) && !in->limited)
        set(in->ask, f, -1);
}

static void read_switch(reader *in, const bw_field *f)
{
    bool on;
    bw_json_found found = bw_json_get_bool(in->object, f->name, &on);
    if (found == BW_JSON_FOUND)
        set(in->ask, f, on);
    else if (found == BW_JSON_WRONG_TYPE)
        tell(in, BW_FAULT_TYPE, f->name, "true or false");
}

/* ---- refusals ---- */

static bool is_word(const char *words, const json_t *text)
{
    size_t n = json_string_length(text);
    if (!json_is_string(text))
        return false;
    for (const char *at = words; *at; at += strspn(at, " ")) {
        size_t length = strcspn(at, " ");
        if (length == n && strncmp(at, json_string_value(text), n) == 0)
            return true;
        at += length;
    }
    return n == 0;
}

/* Whether what is asked for is what happens anyway. */
static bool asks_for_nothing(const bw_field *f, const json_t *value)
{
    if (json_is_boolean(value) || json_is_number(value)) {
        double number = json_is_boolean(value) ? json_is_true(value) : json_number_value(value);
        return number >= f->low && number <= f->high;
    }
    if (json_is_object(value))
        return json_object_size(value) == 0 || is_word(f->allowed, json_object_get(value, "type"));
    bool nothing = true;
    for (size_t i = 0; nothing && i < json_array_size(value); i++)
        nothing = is_word(f->allowed, json_array_get(value, i));
    return json_is_array(value) ? nothing : is_word(f->allowed, value);
}

/* ---- lists ---- */

enum { MAX_STOP_TOKENS = 64, MAX_BAD_WORDS = 64, MAX_BAD_WORD = 256, MAX_BIASES = 1024 };

static void *allocate(reader *in, size_t n, size_t size)
{
    void *items = bw_arena_alloc_zero(&in->ask->arena, n + 1, size);
    in->no_memory = in->no_memory || !items;
    return items;
}

/* Digits alone, and more than an id can have. */
static bool is_huge_id(const char *key)
{
    int64_t token;
    size_t n = strspn(key, "0123456789");
    return n > 0 && !key[n] && (!bw_parse_i64(key, &token) || token > INT32_MAX);
}

static void read_logit_bias(reader *in)
{
    json_t *biases = bw_json_get(in->object, "logit_bias"), *value;
    const char *key;
    size_t n = 0;
    if (!biases)
        return;
    if (!json_is_object(biases) || json_object_size(biases) > MAX_BIASES) {
        tell(in, BW_FAULT_VALUE, "logit_bias", "must be an object of at most 1024 token ids");
        return;
    }
    bw_logit_bias *items = allocate(in, json_object_size(biases), sizeof *items);
    if (!items)
        return;
    json_object_foreach(biases, key, value)
    {
        int64_t token;
        double bias = json_number_value(value);
        if (is_huge_id(key)) {
            tell(in, BW_FAULT_VALUE, "logit_bias", "holds a token id that is too large");
            return;
        }
        if (!bw_parse_i64(key, &token) || token < 0 || token > INT32_MAX || !json_is_number(value) ||
            !(bias >= -100 && bias <= 100)) {
            tell(in, BW_FAULT_VALUE, "logit_bias", "must map token ids to numbers between -100 and 100");
            return;
        }
        /* OpenAI: -100 bans a token. */
        items[n++] = (bw_logit_bias){.token = (int32_t)token, .bias = bias <= -100 ? -INFINITY : (float)bias};
    }
    in->ask->sampling.logit_bias = items;
    in->ask->sampling.n_logit_bias = n;
}

static void read_stop_tokens(reader *in)
{
    const json_t *list = bw_json_get(in->object, "stop_token_ids");
    size_t n = json_array_size(list);
    bool good = !list || (json_is_array(list) && n <= MAX_STOP_TOKENS);
    int32_t *ids = good && n > 0 ? allocate(in, n, sizeof *ids) : NULL;
    for (size_t i = 0; ids && good && i < n; i++) {
        int64_t id = -1;
        good = bw_json_to_i64(json_array_get(list, i), &id) && id >= 0 && id <= INT32_MAX;
        if (id > INT32_MAX || bw_json_is_beyond_i64(json_array_get(list, i))) {
            tell(in, BW_FAULT_VALUE, "stop_token_ids", "holds a token id that is too large");
            return;
        }
        ids[i] = (int32_t)id;
    }
    if (!good)
        tell(in, BW_FAULT_VALUE, "stop_token_ids", "must be an array of at most 64 token ids");
    else if (ids) {
        in->ask->stop_tokens = ids;
        in->ask->n_stop_tokens = n;
    }
}

static void read_bad_words(reader *in)
{
    const json_t *list = bw_json_get(in->object, "bad_words");
    size_t n = json_array_size(list);
    bool good = !list || (json_is_array(list) && n <= MAX_BAD_WORDS);
    const char **words = good && n > 0 ? allocate(in, n, sizeof *words) : NULL;
    for (size_t i = 0; words && good && !in->no_memory && i < n; i++) {
        const json_t *word = json_array_get(list, i);
        size_t n_bytes = json_string_length(word);
        good = json_is_string(word) && n_bytes > 0 && n_bytes <= MAX_BAD_WORD &&
               !memchr(json_string_value(word), 0, n_bytes);
        if (good && !(words[i] = bw_arena_strndup(&in->ask->arena, json_string_value(word), n_bytes)))
            in->no_memory = true;
    }
    if (!good)
        tell(in, BW_FAULT_VALUE, "bad_words",
             "must be an array of at most 64 strings of 1 to 256 bytes without U+0000");
    else if (words && !in->no_memory) {
        in->ask->bad_words = words;
        in->ask->n_bad_words = n;
    }
}

/* ---- all of them ---- */

static void read_one(reader *in, const bw_field *f)
{
    const json_t *value = bw_json_get(in->object, f->name);
    switch (f->kind) {
    case BW_FIELD_REAL:
        read_real(in, f);
        break;
    case BW_FIELD_INTEGER:
        read_integer(in, f, f->low);
        break;
    case BW_FIELD_LIMIT:
        read_limit(in, f);
        break;
    case BW_FIELD_SWITCH:
        read_switch(in, f);
        break;
    case BW_FIELD_REFUSED:
        if (value && !asks_for_nothing(f, value))
            tell(in, BW_FAULT_REFUSED, f->name, f->meaning);
        break;
    case BW_FIELD_OTHER:
    case BW_FIELD_IGNORED:
        break;
    }
}

bool bw_fields_read(const json_t *object, unsigned where, bw_ask *ask, void (*tell_fault)(void *, const bw_fault *),
                    void *user)
{
    reader in = {.object = object, .ask = ask, .tell = tell_fault, .user = user};
    for (size_t i = 0; i < bw_n_fields; i++)
        if ((bw_fields[i].where & where) && bw_fields[i].kind <= BW_FIELD_SWITCH && bw_fields[i].value > -2)
            set(ask, &bw_fields[i], bw_fields[i].value);
    for (size_t i = 0; i < bw_n_fields; i++)
        if (bw_fields[i].where & where)
            read_one(&in, &bw_fields[i]);
    read_logit_bias(&in);
    read_stop_tokens(&in);
    read_bad_words(&in);
    if (!(where & BW_IN_RBEE) && ask->max_tokens >= 0 && ask->min_tokens > ask->max_tokens)
        tell(&in, BW_FAULT_VALUE, "min_tokens", "must not be above 'max_tokens'");
    return !in.no_memory;
}

/* ---- what is not known ---- */

enum { MAX_NOTED = 64, MAX_NOTED_BYTES = 48, MAX_LOOKED_AT = 512 };

static bool is_known(const char *name, unsigned where)
{
    for (size_t i = 0; i < bw_n_fields; i++)
        if ((bw_fields[i].where & where) && strcmp(bw_fields[i].name, name) == 0)
            return true;
    return false;
}

/* True when this name was not told before. */
static bool remember(const char *name, size_t *n_told)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static char noted[MAX_NOTED][MAX_NOTED_BYTES];
    static size_t n;
    pthread_mutex_lock(&lock);
    bool is_new = n < MAX_NOTED;
    for (size_t i = 0; i < n && is_new; i++)
        is_new = strcmp(noted[i], name) != 0;
    if (is_new)
        memcpy(noted[n++], name, strlen(name) + 1);
    *n_told = n;
    pthread_mutex_unlock(&lock);
    return is_new;
}

void bw_fields_note_unknown(const json_t *object, unsigned where, const char *body)
{
    json_t *root = (json_t *)(uintptr_t)object;
    size_t n_looked_at = 0, n_told;
    for (void *at = json_object_iter(root); at && n_looked_at < MAX_LOOKED_AT;
         at = json_object_iter_next(root, at), n_looked_at++) {
        const char *key = json_object_iter_key(at);
        char name[MAX_NOTED_BYTES];
        size_t n = 0;
        if (is_known(key, where))
            continue;
        for (; key[n] && n + 1 < sizeof name; n++) /* nothing that could forge a line or move a cursor */
            name[n] = key[n] > ' ' && key[n] < 0x7F ? key[n] : '?';
        name[n] = 0;
        if (!remember(name, &n_told))
            continue;
        bw_log_warn("'%s' in the body of %s is not known here and has no effect%s", name, body,
                    n_told == MAX_NOTED ? "; that is said of no further name" : "");
    }
}
