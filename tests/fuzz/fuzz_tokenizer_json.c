/* libFuzzer: any bytes as a tokenizer.json; when it loads, texts go through it, and its tokens stream as they decode.
 * The part behind a NUL byte, if there is one, is a text to encode. Seeds: tests/data/tokenizers/NAME.json. */
#include <stdlib.h>
#include <string.h>

#include "bw_mem.h"
#include "bw_tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool good)
{
    if (!good)
        abort();
}

static void use(const bw_tokenizer *t, const char *text, size_t n)
{
    bw_err err = {0};
    int32_t *ids = NULL;
    size_t n_ids = 0;
    if (bw_tokenizer_encode(t, text, n, &(bw_encode_options){.add_special = true, .parse_special = true}, &ids, &n_ids,
                            &err) == BW_OK) {
        bw_str whole = {0}, stream = {0};
        bw_detokenizer d;
        bw_detokenizer_init(&d, t, true);
        check(bw_tokenizer_decode(t, ids, n_ids, true, &whole, &err) == BW_OK);
        for (size_t i = 0; i < n_ids; i++)
            check(bw_detokenizer_add(&d, ids[i], &stream, &err) == BW_OK);
        check(bw_detokenizer_finish(&d, &stream, &err) == BW_OK);
        check(whole.len == stream.len && (whole.len == 0 || memcmp(whole.data, stream.data, whole.len) == 0));
        bw_str_deinit(&whole);
        bw_str_deinit(&stream);
    } else {
        check(err.text[0] != 0);
    }
    bw_free(ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *json = (const char *)data, *cut = size ? memchr(json, 0, size) : NULL;
    size_t n = cut ? (size_t)(cut - json) : size;
    bw_err err = {0};
    bw_tokenizer *t;
    if (bw_tokenizer_from_json(json, n, json, n, json, n, "fuzz", &t, &err) != BW_OK) {
        check(t == NULL && err.text[0] != 0);
        return 0;
    }
    static const char text[] = "Hello  <s>world, it's 123 \xF0\x9F\x98\x80 e\xCC\x81\n\n \xFF end";
    use(t, text, sizeof text - 1);
    if (cut)
        use(t, cut, size - n);
    bw_tokenizer_free(t);
    return 0;
}
