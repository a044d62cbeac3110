/* One token per byte, some longer pieces, some pieces that cut characters apart. Encoding uses bytes only. */
#include <string.h>

#include "bw_mem.h"
#include "fake.h"

static const char *const pieces[] = {
    "hello",        " world",   "ab",    "abc",      "bcd",      "STOP",           "ST",   "OP",   "<en", "d>x",
    "\xe2\x82\xac", "\xe2\x82", "\xac!", "\xf0\x9f", "\x98\x80", "\x80 then \xe2", "aaaa", "\n\n", "",
};
static const char *const specials[] = {"<eos>", "<bos>", "<script>", "<go>", "<turn>"};

struct bw_tokenizer {
    int32_t n;
    char bytes[256][2];
};

bw_tokenizer *fake_tokenizer_new(int32_t n_extra)
{
    bw_tokenizer *t = bw_alloc_zero(1, sizeof *t);
    if (!t)
        return NULL;
    t->n = FAKE_VOCAB + n_extra;
    for (int i = 0; i < 256; i++)
        t->bytes[i][0] = (char)i;
    return t;
}

void bw_tokenizer_free(bw_tokenizer *t)
{
    bw_free(t);
}

int32_t bw_tokenizer_n_tokens(const bw_tokenizer *t)
{
    return t->n;
}

int32_t bw_tokenizer_bos(const bw_tokenizer *t)
{
    (void)t;
    return FAKE_BOS;
}

int32_t bw_tokenizer_eos(const bw_tokenizer *t)
{
    (void)t;
    return FAKE_EOS;
}

bool bw_tokenizer_is_eos(const bw_tokenizer *t, int32_t token)
{
    (void)t;
    return token == FAKE_EOS || token == FAKE_TURN;
}

bool bw_tokenizer_is_special(const bw_tokenizer *t, int32_t token)
{
    (void)t;
    return token >= 0 && token < FAKE_BYTE;
}

bool bw_tokenizer_adds_bos(const bw_tokenizer *t)
{
    (void)t;
    return true;
}

bool bw_tokenizer_adds_eos(const bw_tokenizer *t)
{
    (void)t;
    return false;
}

const char *bw_tokenizer_spelling(const bw_tokenizer *t, int32_t token)
{
    size_t n;
    return bw_tokenizer_piece(t, token, &n);
}

const char *bw_tokenizer_piece(const bw_tokenizer *t, int32_t token, size_t *n_bytes)
{
    const char *text = "";
    *n_bytes = 0;
    if (token < 0 || token >= t->n)
        return NULL;
    if (token >= FAKE_BYTE && token < FAKE_PIECES) {
        *n_bytes = 1;
        return t->bytes[token - FAKE_BYTE];
    }
    if (token < (int32_t)(sizeof specials / sizeof *specials))
        text = specials[token];
    else if (token >= FAKE_PIECES && token - FAKE_PIECES < (int32_t)(sizeof pieces / sizeof *pieces))
        text = pieces[token - FAKE_PIECES];
    *n_bytes = strlen(text);
    return text;
}

const char *bw_tokenizer_chat_template(const bw_tokenizer *t, const char *name)
{
    (void)t;
    return name && strcmp(name, "default") != 0 ? NULL : fake.chat_template;
}

static int32_t find_special(const char *text, size_t n_bytes, size_t *length)
{
    for (size_t i = 0; i < sizeof specials / sizeof *specials; i++) {
        *length = strlen(specials[i]);
        if (*length <= n_bytes && memcmp(text, specials[i], *length) == 0)
            return (int32_t)i;
    }
    return -1;
}

bw_status bw_tokenizer_encode(const bw_tokenizer *t, const char *text, size_t n_bytes, const bw_encode_options *options,
                              int32_t **tokens, size_t *n_tokens, bw_err *err)
{
    (void)t;
    if (options->max_tokens && n_bytes > options->max_tokens)
        return bw_fail(err, BW_E_RANGE, "the text has more than %zu tokens", options->max_tokens);
    int32_t *out = bw_realloc_array(*tokens, *n_tokens + n_bytes + 1, sizeof *out);
    if (!out)
        return bw_fail_memory(err, n_bytes * sizeof *out, "tokens");
    *tokens = out;
    size_t n_first = 0;
    bool written = options->once && options->parse_special && find_special(text, n_bytes, &n_first) == FAKE_BOS;
    if (options->add_special && !written)
        out[(*n_tokens)++] = FAKE_BOS;
    for (size_t i = 0; i < n_bytes;) {
        size_t length = 0;
        int32_t token = options->parse_special ? find_special(text + i, n_bytes - i, &length) : -1;
        if (token < 0) {
            token = FAKE_BYTE + (unsigned char)text[i];
            length = 1;
        }
        out[(*n_tokens)++] = token;
        i += length;
    }
    return BW_OK;
}

bw_status bw_tokenizer_decode(const bw_tokenizer *t, const int32_t *tokens, size_t n_tokens, bool show_special,
                              bw_str *out, bw_err *err)
{
    bw_detokenizer d;
    bw_detokenizer_init(&d, t, show_special);
    for (size_t i = 0; i < n_tokens; i++)
        BW_TRY(bw_detokenizer_add(&d, tokens[i], out, err));
    return bw_detokenizer_finish(&d, out, err);
}

void bw_detokenizer_init(bw_detokenizer *d, const bw_tokenizer *t, bool show_special)
{
    *d = (bw_detokenizer){.tokenizer = t, .show_special = show_special};
}

bw_status bw_detokenizer_add(bw_detokenizer *d, int32_t token, bw_str *out, bw_err *err)
{
    size_t n;
    const char *piece = bw_tokenizer_piece(d->tokenizer, token, &n);
    if (token < 0)
        return bw_fail(err, BW_E_RANGE, "token %d", token);
    if (!piece)
        return BW_OK; /* a padding row of the model */
    if (bw_tokenizer_is_special(d->tokenizer, token) && !d->show_special)
        return BW_OK;
    for (size_t i = 0; i < n; i++) {
        d->pending[d->n_pending++] = piece[i];
        while (d->n_pending > 0) {
            size_t have = (size_t)d->n_pending, valid = bw_utf8_valid_prefix(d->pending, have), drop = valid;
            if (valid > 0) {
                bw_str_add_bytes(out, d->pending, valid);
            } else if (bw_utf8_is_incomplete(d->pending, have)) {
                break;
            } else { /* all but the last byte were a valid beginning */
                bw_str_add_codepoint(out, 0xfffd);
                drop = have > 1 ? have - 1 : 1;
            }
            memmove(d->pending, d->pending + drop, have - drop);
            d->n_pending -= (int)drop;
        }
    }
    return BW_OK;
}

bw_status bw_detokenizer_finish(bw_detokenizer *d, bw_str *out, bw_err *err)
{
    (void)err;
    if (d->n_pending > 0)
        bw_str_add_codepoint(out, 0xfffd);
    d->n_pending = 0;
    return BW_OK;
}
