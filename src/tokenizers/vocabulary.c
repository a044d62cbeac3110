/* Building a tokenizer from parts, whatever file they come from, and the questions it answers. */
#include <stdlib.h>
#include <string.h>

#include "tok_internal.h"

bw_status bw_tok_new(const char *path, bw_tokenizer **out, bw_err *err)
{
    bw_tokenizer *t = bw_alloc_zero(1, sizeof *t);
    if (!t)
        return bw_fail_memory(err, sizeof *t, "a tokenizer");
    bw_arena_init(&t->arena, 0);
    t->bos = t->eos = t->unk = -1;
    for (int i = 0; i < 256; i++)
        t->byte_ids[i] = -1;
    t->path = bw_strdup(path ? path : "tokenizer");
    if (!t->path) {
        bw_tokenizer_free(t);
        return bw_fail_memory(err, 64, "a tokenizer");
    }
    *out = t;
    return BW_OK;
}

void bw_tokenizer_free(bw_tokenizer *t)
{
    if (!t)
        return;
    for (int i = 0; i < t->n_norms; i++)
        bw_tok_regex_deinit(&t->norms[i].regex);
    for (int i = 0; i < t->n_pres; i++)
        bw_tok_regex_deinit(&t->pres[i].regex);
    bw_tok_trie_deinit(&t->raw);
    bw_tok_trie_deinit(&t->normalized);
    bw_free(t->spellings);
    bw_free(t->pieces);
    bw_free(t->flags);
    bw_free(t->words.slots);
    bw_free(t->merges.slots);
    bw_free(t->added);
    bw_free(t->prefix);
    bw_free(t->suffix);
    bw_arena_deinit(&t->arena);
    bw_free(t->path);
    bw_free(t);
}

bw_status bw_tok_set_size(bw_tokenizer *t, int32_t n, bw_err *err)
{
    if (n <= 0 || n > TOK_MAX_ID)
        return bw_fail(err, BW_E_FORMAT, "%s: a vocabulary of %d tokens; 1 to %d are allowed", t->path, (int)n,
                       TOK_MAX_ID);
    t->n_tokens = n;
    t->spellings = bw_alloc_zero((size_t)n, sizeof *t->spellings);
    t->pieces = bw_alloc_zero((size_t)n, sizeof *t->pieces);
    t->flags = bw_alloc_zero((size_t)n, 1);
    if (!t->spellings || !t->pieces || !t->flags || !bw_tok_words_init(&t->words, (size_t)n))
        return bw_fail_memory(err, (size_t)n * 40, "a vocabulary");
    return BW_OK;
}

tok_text bw_tok_keep(bw_tokenizer *t, const char *s, size_t n)
{
    return (tok_text){bw_arena_strndup(&t->arena, s, n), n};
}

bw_status bw_tok_set_spelling(bw_tokenizer *t, int32_t id, const char *s, size_t n, bw_err *err)
{
    if (id < 0 || id >= t->n_tokens)
        return bw_fail(err, BW_E_FORMAT, "%s: token id %d is outside the vocabulary of %d", t->path, (int)id,
                       (int)t->n_tokens);
    t->spellings[id] = bw_tok_keep(t, s, n);
    if (!t->spellings[id].s)
        return bw_fail_memory(err, n, "a vocabulary");
    bw_tok_words_add(&t->words, t->spellings, id);
    return BW_OK;
}

bw_status bw_tok_add_added(bw_tokenizer *t, const tok_added *added, bw_err *err)
{
    for (size_t i = 0; (t->flags[added->id] & TOKEN_ADDED) && i < t->n_added; i++) {
        if (t->added[i].id == added->id) { /* said twice: the later counts */
            t->added[i] = *added;
            t->flags[added->id] =
                (uint8_t)((t->flags[added->id] & ~TOKEN_SPECIAL) | (added->special ? TOKEN_SPECIAL : 0));
            return BW_OK;
        }
    }
    if (!bw_reserve((void **)&t->added, &t->added_capacity, t->n_added + 1, sizeof *t->added))
        return bw_fail_memory(err, (t->n_added + 1) * sizeof *t->added, "added tokens");
    t->added[t->n_added++] = *added;
    t->flags[added->id] |= (uint8_t)(TOKEN_ADDED | (added->special ? TOKEN_SPECIAL : 0));
    return BW_OK;
}

bw_status bw_tok_set_around(bw_tokenizer *t, const int32_t *prefix, size_t n_prefix, const int32_t *suffix,
                            size_t n_suffix, bw_err *err)
{
    bw_free(t->prefix);
    bw_free(t->suffix);
    t->n_prefix = t->n_suffix = 0;
    t->prefix = bw_alloc_array(n_prefix, sizeof *prefix);
    t->suffix = bw_alloc_array(n_suffix, sizeof *suffix);
    if (!t->prefix || !t->suffix)
        return bw_fail_memory(err, (n_prefix + n_suffix) * sizeof *prefix, "tokens around a text");
    for (size_t i = 0; i < n_prefix + n_suffix; i++) {
        int32_t id = i < n_prefix ? prefix[i] : suffix[i - n_prefix];
        if (id < 0 || id >= t->n_tokens)
            return bw_fail(err, BW_E_FORMAT, "%s: token id %d, to be put around texts, is outside the vocabulary of %d",
                           t->path, (int)id, (int)t->n_tokens);
    }
    for (size_t i = 0; i < n_prefix; i++)
        t->prefix[t->n_prefix++] = prefix[i];
    for (size_t i = 0; i < n_suffix; i++)
        t->suffix[t->n_suffix++] = suffix[i];
    return BW_OK;
}

/* ---- merges from scores -------------------------------------------------------------------------------------- */

typedef struct candidate {
    float score;
    uint32_t left_chars, right_chars;
    int32_t left, right, id;
} candidate;

static int compare_candidates(const void *pa, const void *pb)
{
    const candidate *a = pa, *b = pb;
    if (a->score != b->score)
        return a->score > b->score ? -1 : 1;
    if (a->left_chars != b->left_chars)
        return a->left_chars > b->left_chars ? -1 : 1;
    if (a->right_chars != b->right_chars)
        return a->right_chars > b->right_chars ? -1 : 1;
    return a->id < b->id ? -1 : a->id > b->id;
}

static uint32_t count_chars(const char *s, size_t n)
{
    uint32_t count = 0;
    for (size_t i = 0; i < n; i++)
        count += ((unsigned char)s[i] & 0xC0) != 0x80;
    return count;
}

static bool cut_piece(const bw_tokenizer *t, int32_t id, float score, candidate **list, size_t *n, size_t *capacity)
{
    tok_text p = t->spellings[id];
    uint32_t chars = count_chars(p.s, p.n), left_chars = 0;
    for (size_t i = 0; i < p.n; i++) {
        bool boundary = ((unsigned char)p.s[i] & 0xC0) != 0x80;
        if (boundary && i > 0) {
            int32_t left = bw_tok_words_find(&t->words, t->spellings, p.s, i);
            int32_t right = left < 0 ? -1 : bw_tok_words_find(&t->words, t->spellings, p.s + i, p.n - i);
            if (left >= 0 && right >= 0 && (t->flags[left] & TOKEN_MODEL) && (t->flags[right] & TOKEN_MODEL)) {
                if (!bw_reserve((void **)list, capacity, *n + 1, sizeof **list))
                    return false;
                (*list)[(*n)++] = (candidate){score, left_chars, chars - left_chars, left, right, id};
            }
        }
        left_chars += boundary;
    }
    return true;
}

bw_status bw_tok_merges_from_scores(bw_tokenizer *t, const float *scores, bw_err *err)
{
    candidate *list = NULL;
    size_t n = 0, capacity = 0, total = 0;
    bool ok = true;
    for (int32_t id = 0; ok && id < t->n_tokens; id++) {
        tok_text p = t->spellings[id];
        if (!(t->flags[id] & TOKEN_MODEL) || !p.s || bw_tok_words_find(&t->words, t->spellings, p.s, p.n) != id)
            continue;
        if (p.n > 4096 || (total += p.n) > (size_t)1 << 28) {
            bw_free(list);
            return bw_fail(err, BW_E_FORMAT, "%s: token %d has %zu bytes; pieces of at most 4096 are allowed", t->path,
                           (int)id, p.n);
        }
        ok = cut_piece(t, id, scores[id], &list, &n, &capacity);
    }
    ok = ok && bw_tok_merges_init(&t->merges, n);
    if (ok && n) {
        qsort(list, n, sizeof *list, compare_candidates);
        for (size_t i = 0; i < n; i++)
            bw_tok_merges_add(&t->merges, list[i].left, list[i].right, (uint32_t)i, list[i].id);
    }
    bw_free(list);
    return ok ? BW_OK : bw_fail_memory(err, n * sizeof *list, "merges");
}

/* ---- finishing ----------------------------------------------------------------------------------------------- */

static void find_byte_ids(bw_tokenizer *t)
{
    for (int b = 0; b < 256; b++) {
        char s[8];
        size_t n = 6;
        if (t->byte_level) {
            n = (size_t)bw_utf8_encode(bw_tok_byte_to_char((unsigned char)b), s);
        } else {
            static const char hex[] = "0123456789ABCDEF";
            memcpy(s, "<0x00>", 6);
            s[3] = hex[b >> 4];
            s[4] = hex[b & 15];
        }
        t->byte_ids[b] = bw_tok_words_find(&t->words, t->spellings, s, n);
    }
}

/* Byte-level spelling to bytes; false when a character is not in the alphabet. */
static bool bytes_of(const bw_tokenizer *t, tok_text spelling, bw_str *out)
{
    (void)t;
    for (size_t i = 0; i < spelling.n;) {
        uint32_t cp;
        int len = bw_utf8_decode(spelling.s + i, spelling.n - i, &cp);
        int byte = len ? bw_tok_char_to_byte(cp) : -1;
        if (byte < 0)
            return false;
        bw_str_add_char(out, (char)byte);
        i += (size_t)len;
    }
    return true;
}

static void replaced(const bw_tokenizer *t, tok_text spelling, bw_str *out)
{
    for (size_t i = 0; i < spelling.n;) {
        int k = 0;
        while (k < t->n_replace && (spelling.n - i < t->replace[k].from.n ||
                                    memcmp(spelling.s + i, t->replace[k].from.s, t->replace[k].from.n) != 0))
            k++;
        if (k < t->n_replace) {
            bw_str_add_bytes(out, t->replace[k].to.s, t->replace[k].to.n);
            i += t->replace[k].from.n;
        } else {
            bw_str_add_char(out, spelling.s[i++]);
        }
    }
}

/* "<0xE2>" to its byte; -1 for other spellings. */
static int byte_token(tok_text s)
{
    if (s.n != 6 || memcmp(s.s, "<0x", 3) != 0 || s.s[5] != '>')
        return -1;
    int v = 0;
    for (int i = 3; i < 5; i++) {
        char c = s.s[i];
        int d = c >= '0' && c <= '9'   ? c - '0'
                : c >= 'A' && c <= 'F' ? c - 'A' + 10
                : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                       : -1;
        if (d < 0)
            return -1;
        v = v * 16 + d;
    }
    return v;
}

static bw_status make_pieces(bw_tokenizer *t, bw_err *err)
{
    bw_str buffer = {0};
    for (int32_t id = 0; id < t->n_tokens; id++) {
        tok_text s = t->spellings[id];
        int byte = t->decode_bytes && s.s ? byte_token(s) : -1;
        bw_str_clear(&buffer);
        t->pieces[id] = s;
        if (!s.s) {
            t->pieces[id] = (tok_text){"", 0};
            continue;
        }
        if (t->flags[id] & TOKEN_SPECIAL)
            continue;
        if (byte >= 0)
            bw_str_add_char(&buffer, (char)byte);
        else if (t->decode_byte_level && ((t->flags[id] & TOKEN_ADDED) || !bytes_of(t, s, &buffer)))
            continue;
        else if (!t->decode_byte_level && t->n_replace)
            replaced(t, s, &buffer);
        else if (!t->decode_byte_level)
            continue;
        tok_text piece = bw_tok_keep(t, buffer.len ? buffer.data : "", buffer.len);
        if (buffer.failed || !piece.s) {
            bw_str_deinit(&buffer);
            return bw_fail_memory(err, s.n, "the tokens' texts");
        }
        t->pieces[id] = piece;
    }
    bw_str_deinit(&buffer);
    return BW_OK;
}

static bw_status make_tries(bw_tokenizer *t, bw_err *err)
{
    bw_status status = BW_OK;
    tok_encoder e = {.t = t, .err = err, .regex_budget = bw_tok_regex_budget(0)};
    for (size_t i = 0; status == BW_OK && i < t->n_added; i++) {
        tok_text text = t->added[i].text;
        t->added[i].control = t->added[i].special || (t->flags[t->added[i].id] & TOKEN_EOS) ||
                              (text.n > 4 && memcmp(text.s, "<|", 2) == 0 && memcmp(text.s + text.n - 2, "|>", 2) == 0);
        if (t->added[i].normalized)
            status = bw_tok_normalize_text(&e, text.s, text.n, &text);
        if (status == BW_OK && text.n &&
            !bw_tok_trie_add(t->added[i].normalized ? &t->normalized : &t->raw, text.s, text.n, (int32_t)i))
            status = bw_fail_memory(err, text.n, "added tokens");
    }
    bw_tok_encoder_deinit(&e);
    return status;
}

/* Whether a byte of a word is always part of some token of its own: unknown characters can be left out, or many be one
 * unknown token. */
static bool gives_tokens(const bw_tokenizer *t, int byte)
{
    if (t->byte_level)
        return t->byte_ids[byte] >= 0;
    char c = (char)byte;
    int32_t id = byte < 0x80 ? bw_tok_words_find(&t->words, t->spellings, &c, 1) : -1;
    if (id >= 0 && (t->flags[id] & TOKEN_MODEL))
        return true;
    for (int b = 0; b < 256; b++) /* all of them: the other bytes of this one's character count as well */
        if (!t->byte_fallback || t->byte_ids[b] < 0)
            return false;
    return true;
}

/* Every token has at most as many bytes as the longest that has one of its bytes in it, so the shares of a token's
 * bytes are never more than 1 together. */
static bw_status make_shares(bw_tokenizer *t, bw_err *err)
{
    size_t longest[256];
    bw_str bytes = {0};
    for (int b = 0; b < 256; b++)
        longest[b] = 1;
    for (int32_t id = 0; id < t->n_tokens; id++) {
        tok_text s = t->spellings[id];
        if (!(t->flags[id] & TOKEN_MODEL) || !s.s)
            continue;
        bw_str_clear(&bytes);
        if (t->byte_level && bytes_of(t, s, &bytes))
            s = (tok_text){bytes.len ? bytes.data : "", bytes.len};
        for (size_t i = 0; i < s.n; i++)
            if (s.n > longest[(unsigned char)s.s[i]])
                longest[(unsigned char)s.s[i]] = s.n;
    }
    bool failed = bytes.failed;
    bw_str_deinit(&bytes);
    if (failed)
        return bw_fail_memory(err, 64, "the tokens' lengths");
    for (int b = 0; b < 256; b++)
        t->share[b] = gives_tokens(t, b) ? (uint32_t)(((size_t)1 << 20) / longest[b]) : 0;
    t->steps_keep_text = true;
    for (int i = 0; i < t->n_pres; i++) {
        tok_pre_kind kind = t->pres[i].kind;
        bool splits = kind == PRE_REGEX || kind == PRE_LITERAL || kind == PRE_PUNCTUATION || kind == PRE_SPACES;
        t->steps_keep_text &= kind != PRE_METASPACE && !(splits && t->pres[i].behaviour == SPLIT_REMOVED);
    }
    return BW_OK;
}

bw_status bw_tok_finish(bw_tokenizer *t, bw_err *err)
{
    find_byte_ids(t);
    bw_tok_add_named_eos(t);
    BW_TRY(make_tries(t, err));
    BW_TRY(make_shares(t, err));
    return make_pieces(t, err);
}

void bw_tok_add_eos(bw_tokenizer *t, int32_t id)
{
    if (id < 0 || id >= t->n_tokens)
        return;
    if (t->eos < 0)
        t->eos = id;
    t->flags[id] |= TOKEN_EOS;
}

void bw_tok_add_named_eos(bw_tokenizer *t)
{
    static const char *const names[] = {
        "<|im_end|>",
        "<|eot_id|>",
        "<|end_of_text|>",
        "<end_of_turn>",
        "<|endoftext|>",
        "<|eom_id|>",
        "<|end|>",
        "<|eot|>",
        "<|eom|>",
        "<|end_of_turn|>",
        "</s>",
        "<eos>",
        "<|return|>",
        "<|END_OF_TURN_TOKEN|>",
        "<turn|>",
        "<EOT>",
        "<|EOT|>",
    };
    bool channels = bw_tokenizer_find(t, "<|return|>", 10) >= 0 && bw_tokenizer_find(t, "<|channel|>", 11) >= 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (channels && strcmp(names[i], "<|end|>") == 0) /* there it ends one message of an answer, not the answer */
            continue;
        int32_t id = bw_tokenizer_find(t, names[i], strlen(names[i]));
        if (id >= 0 && (t->flags[id] & (TOKEN_SPECIAL | TOKEN_ADDED)))
            bw_tok_add_eos(t, id);
    }
}

bw_status bw_tok_add_template(bw_tokenizer *t, const char *name, size_t name_bytes, const char *text, size_t n,
                              bw_err *err)
{
    int max = (int)(sizeof t->templates / sizeof *t->templates);
    if (t->n_templates == max)
        return bw_fail(err, BW_E_UNSUPPORTED, "%s: more than %d chat templates", t->path, max);
    tok_text a = bw_tok_keep(t, name, name_bytes), b = bw_tok_keep(t, text, n);
    if (!a.s || !b.s)
        return bw_fail_memory(err, n, "a chat template");
    t->templates[t->n_templates].name = a.s;
    t->templates[t->n_templates++].text = b.s;
    return BW_OK;
}

/* ---- questions ----------------------------------------------------------------------------------------------- */

int32_t bw_tokenizer_n_tokens(const bw_tokenizer *t)
{
    return t ? t->n_tokens : 0;
}

int32_t bw_tokenizer_bos(const bw_tokenizer *t)
{
    return t ? t->bos : -1;
}

int32_t bw_tokenizer_eos(const bw_tokenizer *t)
{
    return t ? t->eos : -1;
}

static bool has_flag(const bw_tokenizer *t, int32_t token, int flag)
{
    return t && token >= 0 && token < t->n_tokens && (t->flags[token] & flag);
}

bool bw_tokenizer_is_eos(const bw_tokenizer *t, int32_t token)
{
    return has_flag(t, token, TOKEN_EOS);
}

bool bw_tokenizer_is_special(const bw_tokenizer *t, int32_t token)
{
    return has_flag(t, token, TOKEN_SPECIAL);
}

bool bw_tokenizer_adds_bos(const bw_tokenizer *t)
{
    return t && t->n_prefix > 0;
}

bool bw_tokenizer_adds_eos(const bw_tokenizer *t)
{
    return t && t->n_suffix > 0;
}

int32_t bw_tokenizer_find(const bw_tokenizer *t, const char *text, size_t n_bytes)
{
    return t ? bw_tok_words_find(&t->words, t->spellings, text, n_bytes) : -1;
}

const char *bw_tokenizer_spelling(const bw_tokenizer *t, int32_t token)
{
    return t && token >= 0 && token < t->n_tokens ? t->spellings[token].s : NULL;
}

const char *bw_tokenizer_piece(const bw_tokenizer *t, int32_t token, size_t *n_bytes)
{
    if (!t || token < 0 || token >= t->n_tokens) {
        *n_bytes = 0;
        return "";
    }
    *n_bytes = t->pieces[token].n;
    return t->pieces[token].s;
}

const char *bw_tokenizer_chat_template(const bw_tokenizer *t, const char *name)
{
    for (int i = 0; t && i < t->n_templates; i++)
        if (strcmp(t->templates[i].name, name ? name : "default") == 0)
            return t->templates[i].text;
    return NULL;
}
