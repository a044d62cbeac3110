/* Tokens to text, one at a time. Decoding all at once is the same thing in a loop, so the two cannot differ. */
#include <string.h>

#include "tok_internal.h"

void bw_detokenizer_init(bw_detokenizer *d, const bw_tokenizer *tokenizer, bool show_special)
{
    *d = (bw_detokenizer){
        .tokenizer = tokenizer, .show_special = show_special, .at_start = tokenizer && tokenizer->strip_start};
}

/* What waits can no longer become a character. A byte-level text replaces the longest start of a character by one
 * U+FFFD, byte tokens of SentencePiece are replaced one by one, as Hugging Face does. */
static void give_up(bw_detokenizer *d, bw_str *out)
{
    for (int i = d->tokenizer && d->tokenizer->decode_bytes ? d->n_pending : d->n_pending > 0; i > 0; i--)
        bw_str_add_codepoint(out, 0xFFFD);
    d->n_pending = 0;
}

/* One byte while a character is incomplete or when the byte does not stand for itself. */
static void add_byte(bw_detokenizer *d, char c, bw_str *out)
{
    uint32_t cp;
    d->pending[d->n_pending++] = c;
    if (bw_utf8_decode(d->pending, (size_t)d->n_pending, &cp)) {
        bw_str_add_bytes(out, d->pending, (size_t)d->n_pending);
        d->n_pending = 0;
        return;
    }
    if (bw_utf8_is_incomplete(d->pending, (size_t)d->n_pending))
        return;
    if (d->n_pending == 1) {
        give_up(d, out);
        return;
    }
    d->n_pending--; /* what came before is lost; the byte itself may start anew */
    give_up(d, out);
    add_byte(d, c, out);
}

bw_status bw_detokenizer_add(bw_detokenizer *d, int32_t token, bw_str *out, bw_err *err)
{
    const bw_tokenizer *t = d->tokenizer;
    if (!t)
        return BW_OK;
    if (token < 0)
        return bw_fail(err, BW_E_RANGE, "token %d is outside the vocabulary of %d", (int)token, (int)t->n_tokens);
    if (token >= t->n_tokens) /* models pad their tables: such a row may be drawn, and stands for nothing */
        return BW_OK;
    if ((t->flags[token] & TOKEN_SPECIAL) && !d->show_special)
        return BW_OK;
    const char *s = t->pieces[token].s;
    size_t n = t->pieces[token].n, i = 0;
    if (n && d->at_start) {
        i = s[0] == ' ';
        d->at_start = false;
    }
    while (i < n) {
        if (d->n_pending == 0) {
            size_t good = bw_utf8_valid_prefix(s + i, n - i);
            bw_str_add_bytes(out, s + i, good);
            i += good;
            if (i == n)
                break;
        }
        add_byte(d, s[i++], out);
    }
    return out->failed ? bw_fail(err, BW_E_MEMORY, "no memory for decoded text") : BW_OK;
}

bw_status bw_detokenizer_finish(bw_detokenizer *d, bw_str *out, bw_err *err)
{
    give_up(d, out);
    return out->failed ? bw_fail(err, BW_E_MEMORY, "no memory for decoded text") : BW_OK;
}

bw_status bw_tokenizer_decode(const bw_tokenizer *tokenizer, const int32_t *tokens, size_t n_tokens, bool show_special,
                              bw_str *out, bw_err *err)
{
    bw_detokenizer d;
    bw_detokenizer_init(&d, tokenizer, show_special);
    for (size_t i = 0; i < n_tokens; i++)
        BW_TRY(bw_detokenizer_add(&d, tokens[i], out, err));
    return bw_detokenizer_finish(&d, out, err);
}
