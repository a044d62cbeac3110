#include "bw_json.h"

#include <pthread.h>
#include <string.h>

#include "bw_mem.h"

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
