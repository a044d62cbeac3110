/* Parsing JSON with our allocator. Owns jansson's set-up; refuses what is no object and repeated keys. */
#include "bw_json.h"

#include <pthread.h>
#include <string.h>

#include "bw_mem.h"
#include "name_index.h"

/* jansson does not always say that an allocation failed, and may then even return a string that lacks a character; this
 * remembers it. */
static _Thread_local bool json_ran_out;

static void *json_alloc(size_t n_bytes)
{
    void *memory = bw_alloc(n_bytes);
    if (!memory)
        json_ran_out = true;
    return memory;
}

static void use_our_memory(void)
{
    json_set_alloc_funcs(json_alloc, bw_free);
}

bw_status bw_json_parse(const char *text, size_t n_bytes, const char *path, const char *what, json_t **root,
                        bw_err *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, use_our_memory);
    json_error_t e = {0};
    json_ran_out = false;
    *root = json_loadb(text, n_bytes, JSON_REJECT_DUPLICATES, &e);
    if (json_ran_out) {
        json_decref(*root);
        *root = NULL;
        return bw_fail_memory(err, n_bytes, path);
    }
    if (*root && json_is_object(*root))
        return BW_OK;
    if (!*root) {
        char shown[BW_NAME_SHOWN];
        return bw_fail(err, BW_E_FORMAT, "%s: %s is not valid JSON (at byte %d: %s)", path, what, e.position,
                       bw_name_show(shown, e.text, strlen(e.text)));
    }
    json_decref(*root);
    *root = NULL;
    return bw_fail(err, BW_E_FORMAT, "%s: %s is JSON, but not an object", path, what);
}
