#include "bw_json.h"

#include <pthread.h>

#include "bw_mem.h"

/* jansson does not always say that an allocation failed, and may then even return a string that lacks a character; this
 * remembers it. */
static _Thread_local bool ran_out;

static void *json_alloc(size_t n_bytes)
{
    void *memory = bw_alloc(n_bytes);
    if (!memory)
        ran_out = true;
    return memory;
}

static void set_up(void)
{
    json_set_alloc_funcs(json_alloc, bw_free);
    json_object_seed(0); /* a hash order that nobody outside can predict */
}

void bw_json_init(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, set_up);
}

json_t *bw_json_load(const char *text, size_t n_bytes, size_t flags, json_error_t *error, bool *no_memory)
{
    bw_json_init();
    ran_out = false;
    json_t *value = json_loadb(text, n_bytes, flags, error);
    *no_memory = ran_out;
    if (!ran_out)
        return value;
    json_decref(value);
    return NULL;
}
