#include "bw_json.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "bw_mem.h"
#include "bw_str.h"

/* jansson does not always say that an allocation failed, and may then even return a string that lacks a character; this
 * remembers it. Worse, its lexer writes beyond what it has when the buffer of the token that it reads cannot grow. So
 * while a text is read there is a reserve for what is asked for after the first failure, the text seems to end there,
 * and little more is asked for: see FEED. */
typedef struct reserve {
    char *data;
    size_t n_bytes, used;
    bool in_use; /* an allocation failed */
} reserve;
static _Thread_local reserve spare;

static void *json_alloc(size_t n_bytes)
{
    void *memory = spare.in_use ? NULL : bw_alloc(n_bytes);
    if (memory || !spare.data) /* nothing is read just now */
        return memory;
    size_t rounded = (n_bytes + 15) & ~(size_t)15;
    spare.in_use = true;
    if (n_bytes > spare.n_bytes || rounded > spare.n_bytes - spare.used)
        return NULL;
    memory = spare.data + spare.used;
    spare.used += rounded;
    return memory;
}

static void json_release(void *memory)
{
    const char *at = memory;
    if (!spare.data || at < spare.data || at >= spare.data + spare.n_bytes)
        bw_free(memory);
}

static void set_up(void)
{
    json_set_alloc_funcs(json_alloc, json_release);
    json_object_seed(0); /* a hash order that nobody outside can predict */
}

void bw_json_init(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, set_up);
}

/* Bytes that jansson is given at a time, and what the values in so many can need. */
enum { FEED = 64, FEED_NEEDS = 24 << 10 };

typedef struct feed {
    const char *text;
    size_t n_bytes, at;
} feed;

static size_t give(void *buffer, size_t most, void *data)
{
    feed *f = data;
    size_t n = f->n_bytes - f->at;
    if (spare.in_use)
        return 0;
    n = n < FEED ? n : FEED;
    n = n < most ? n : most;
    memcpy(buffer, f->text + f->at, n);
    f->at += n;
    return n;
}

/* Bytes of the longest token. */
static size_t longest_token(const char *text, size_t n_bytes)
{
    size_t longest = 0, begin = 0;
    bool in_string = false;
    for (size_t i = 0; i < n_bytes; i++) {
        if (text[i] == '"' && !in_string) {
            begin = i;
            in_string = true;
        } else if (in_string && text[i] == '\\') {
            i++;
        } else if (in_string && text[i] == '"') {
            in_string = false;
        } else if (!in_string && strchr(" \t\r\n,:[]{}", text[i])) {
            begin = i;
        }
        longest = i - begin > longest ? i - begin : longest;
    }
    return longest;
}

json_t *bw_json_load(const char *text, size_t n_bytes, size_t flags, json_error_t *error, bool *no_memory)
{
    bw_json_init();
    size_t n_reserve = FEED_NEEDS + 2 * longest_token(text, n_bytes); /* its buffer doubles */
    spare = (reserve){.data = bw_alloc(n_reserve), .n_bytes = n_reserve};
    *no_memory = !spare.data;
    if (*no_memory)
        return NULL;
    feed f = {.text = text, .n_bytes = n_bytes};
    json_t *value = json_load_callback(give, &f, flags, error);
    *no_memory = spare.in_use;
    if (spare.in_use) {
        json_decref(value);
        value = NULL;
    }
    char *data = spare.data;
    spare = (reserve){0};
    bw_free(data);
    return value;
}

bool bw_json_is_too_large(const json_error_t *error)
{
    return json_error_code(error) == json_error_numeric_overflow;
}

/* One number, n bytes: an exponent makes an integer real, with the digits that it has. */
static void add_number(bw_str *out, const char *number, size_t n)
{
    char *end;
    errno = 0;
    strtoll(number, &end, 10);
    const bool is_integer = (size_t)(end - number) == n, is_beyond = is_integer && errno == ERANGE;
    const double value = strtod(number, &end);
    if ((size_t)(end - number) == n && isinf(value)) {
        bw_str_add(out, value < 0 ? "-1e308" : "1e308");
        return;
    }
    bw_str_add_bytes(out, number, n);
    if (is_beyond)
        bw_str_add(out, "E0");
}

/* A NUL stands behind the text. */
static void tame_numbers(const char *text, size_t n_bytes, bw_str *out)
{
    const char *begin = text, *at = text, *end = text + n_bytes; /* begin: of what is not copied yet */
    while (at < end) {
        if (*at == '"') {
            for (at++; at < end && *at != '"'; at++)
                at += *at == '\\' && at + 1 < end;
            at += at < end;
        } else if ((*at >= '0' && *at <= '9') || *at == '-') {
            const size_t n = strspn(at, "+-.0123456789eE");
            bw_str_add_bytes(out, begin, (size_t)(at - begin));
            add_number(out, at, n);
            begin = at += n;
        } else {
            at++;
        }
    }
    bw_str_add_bytes(out, begin, (size_t)(end - begin));
}

json_t *bw_json_load_any_number(const char *text, size_t n_bytes, size_t flags, json_error_t *error, bool *no_memory)
{
    json_t *value = bw_json_load(text, n_bytes, flags, error, no_memory);
    if (value || *no_memory || !bw_json_is_too_large(error))
        return value;
    bw_str copy = {0}, tamed = {0};
    bw_str_add_bytes(&copy, text, n_bytes);
    if (!copy.failed)
        tame_numbers(copy.data, copy.len, &tamed);
    *no_memory = copy.failed || tamed.failed;
    if (!*no_memory)
        value = bw_json_load(tamed.data, tamed.len, flags, error, no_memory);
    bw_str_deinit(&copy);
    bw_str_deinit(&tamed);
    return value;
}
