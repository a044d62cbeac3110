/* See tok_unicode.h. The tables are unicode_tables.c; decompositions and compositions are utf8proc's. */
#include "tok_unicode.h"

#include <string.h>
#include <utf8proc.h>

#include "bw_mem.h"

tok_category bw_tok_category(uint32_t cp)
{
    size_t lo = 0, hi = bw_tok_n_category_runs; /* runs[lo] starts at or before cp */
    while (hi - lo > 1) {
        size_t mid = lo + (hi - lo) / 2;
        if (bw_tok_category_runs[mid] >> 8 <= cp)
            lo = mid;
        else
            hi = mid;
    }
    return (tok_category)(bw_tok_category_runs[lo] & 0xFF);
}

uint32_t bw_tok_category_mask(const char *name, size_t n_bytes)
{
    static const char names[] = "LuLlLtLmLoMnMcMeNdNlNoPcPdPsPePiPfPoSmScSkSoZsZlZpCcCfCsCoCn";
    uint32_t mask = 0;
    if (n_bytes == 0 || n_bytes > 2)
        return 0;
    for (int i = 0; i < N_CATEGORIES; i++)
        if (names[2 * i] == name[0] && (n_bytes == 1 || names[2 * i + 1] == name[1]))
            mask |= 1u << i;
    return mask;
}

bool bw_tok_is_space(uint32_t cp)
{
    if (cp < 0x80)
        return cp == ' ' || (cp >= 9 && cp <= 13);
    return cp == 0x85 || cp == 0xA0 || cp == 0x1680 || (cp >= 0x2000 && cp <= 0x200A) || cp == 0x2028 || cp == 0x2029 ||
           cp == 0x202F || cp == 0x205F || cp == 0x3000;
}

unsigned bw_tok_class(uint32_t cp)
{
    if (cp < 0x80) {
        if ((cp | 32) >= 'a' && (cp | 32) <= 'z')
            return TOK_IS_LETTER;
        if (cp >= '0' && cp <= '9')
            return TOK_IS_NUMBER;
        return bw_tok_is_space(cp) ? TOK_IS_SPACE : 0;
    }
    if ((cp >= 0x4E00 && cp <= 0x9FFF) || (cp >= 0xAC00 && cp <= 0xD7A3)) /* the two largest alphabets */
        return TOK_IS_LETTER;
    if (bw_tok_is_space(cp))
        return TOK_IS_SPACE;
    tok_category c = bw_tok_category(cp);
    return c <= CAT_LO ? TOK_IS_LETTER : c >= CAT_ND && c <= CAT_NO ? TOK_IS_NUMBER : 0;
}

static bool in_ranges(const uint32_t ranges[][2], size_t n, uint32_t cp)
{
    size_t lo = 0, hi = n;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (ranges[mid][1] < cp)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < n && ranges[lo][0] <= cp;
}

bool bw_tok_is_numeric(uint32_t cp)
{
    return bw_tok_class(cp) == TOK_IS_NUMBER ||
           (cp >= 0x80 && in_ranges(bw_tok_numeric_ranges, bw_tok_n_numeric_ranges, cp));
}

bool bw_tok_is_punctuation(uint32_t cp)
{
    tok_category c = bw_tok_category(cp);
    bool is = (c >= CAT_PC && c <= CAT_PO) || (cp < 0x80 && c >= CAT_SM && c <= CAT_SO);
    return is != (cp >= 0x80 && in_ranges(bw_tok_punctuation_ranges, bw_tok_n_punctuation_ranges, cp));
}

bool bw_tok_is_word(uint32_t cp, bool in_regex)
{
    tok_category c = bw_tok_category(cp);
    if (c <= CAT_NL || c == CAT_PC || (cp >= 0x24B6 && cp <= 0x24E9) || (cp >= 0x1F130 && cp <= 0x1F149) ||
        (cp >= 0x1F150 && cp <= 0x1F169) || (cp >= 0x1F170 && cp <= 0x1F189))
        return true;
    return in_regex ? c == CAT_NO && cp < 0x100 : cp == 0x200C || cp == 0x200D;
}

uint32_t bw_tok_lowercase(uint32_t cp)
{
    size_t lo = 0, hi = bw_tok_n_lowercase_pairs;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (bw_tok_lowercase_pairs[mid][0] < cp)
            lo = mid + 1;
        else
            hi = mid;
    }
    if (lo < bw_tok_n_lowercase_pairs && bw_tok_lowercase_pairs[lo][0] == cp)
        return bw_tok_lowercase_pairs[lo][1];
    return (uint32_t)utf8proc_tolower((utf8proc_int32_t)cp);
}

/* ---- normalisation ------------------------------------------------------------------------------------------- */

typedef struct points {
    utf8proc_int32_t *v;
    size_t n, capacity;
} points;

static uint8_t combining_class(utf8proc_int32_t cp)
{
    return (uint8_t)utf8proc_get_property(cp)->combining_class;
}

/* Put each stretch of combining marks into canonical order: a stable counting sort, so that no text is slow. */
static bool order_marks(points *p, points *scratch)
{
    size_t i = 0;
    while (i < p->n) {
        if (combining_class(p->v[i]) == 0) {
            i++;
            continue;
        }
        size_t end = i, counts[257] = {0};
        bool sorted = true;
        for (uint8_t last = 0; end < p->n; end++) {
            uint8_t c = combining_class(p->v[end]);
            if (c == 0)
                break;
            sorted = sorted && c >= last;
            last = c;
            counts[c + 1]++;
        }
        size_t n = end - i;
        if (!sorted) {
            if (!bw_reserve((void **)&scratch->v, &scratch->capacity, n, sizeof *scratch->v))
                return false;
            memcpy(scratch->v, p->v + i, n * sizeof *p->v);
            for (int c = 0; c < 256; c++)
                counts[c + 1] += counts[c];
            for (size_t k = 0; k < n; k++)
                p->v[i + counts[combining_class(scratch->v[k])]++] = scratch->v[k];
        }
        i = end;
    }
    return true;
}

/* The characters gathered since the last young one: order, compose, write, empty. */
static bool flush(tok_form form, points *p, points *scratch, bw_str *out)
{
    if (!order_marks(p, scratch))
        return false;
    if ((form == FORM_NFC || form == FORM_NFKC) && p->n) {
        utf8proc_ssize_t n = utf8proc_normalize_utf32(p->v, (utf8proc_ssize_t)p->n,
                                                      (utf8proc_option_t)(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
        if (n >= 0)
            p->n = (size_t)n;
    }
    for (size_t i = 0; i < p->n; i++)
        bw_str_add_codepoint(out, (uint32_t)p->v[i]);
    p->n = 0;
    return !out->failed;
}

/* Nothing below U+0300 changes under NFC: most texts are done here. */
static bool is_plain(tok_form form, const char *text, size_t n_bytes)
{
    unsigned char limit = form == FORM_NFC ? 0xCC : 0x80;
    for (size_t i = 0; i < n_bytes; i++)
        if ((unsigned char)text[i] >= limit)
            return false;
    return true;
}

bool bw_tok_normalise(tok_form form, const char *text, size_t n_bytes, bw_str *out)
{
    if (is_plain(form, text, n_bytes)) {
        bw_str_add_bytes(out, text, n_bytes);
        return !out->failed;
    }
    bool compat = form == FORM_NFKC || form == FORM_NFKD;
    utf8proc_option_t options =
        (utf8proc_option_t)(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | (compat ? UTF8PROC_COMPAT : 0));
    points p = {0}, scratch = {0};
    bool ok = true;
    size_t i = 0;
    while (ok && i < n_bytes) {
        uint32_t cp;
        int n = bw_utf8_decode(text + i, n_bytes - i, &cp);
        i += n ? (size_t)n : 1;
        if (n == 0)
            cp = 0xFFFD;
        if (cp >= 0x7FD && in_ranges(bw_tok_young_ranges, bw_tok_n_young_ranges, cp)) {
            ok = flush(form, &p, &scratch, out);
            bw_str_add_codepoint(out, cp);
            continue;
        }
        int boundary = 0;
        utf8proc_int32_t parts[32]; /* the longest decomposition, that of U+FDFA, has 18 */
        utf8proc_ssize_t n_parts = utf8proc_decompose_char((utf8proc_int32_t)cp, parts, 32, options, &boundary);
        if (n_parts < 0 || n_parts > 32) {
            parts[0] = (utf8proc_int32_t)cp;
            n_parts = 1;
        }
        ok = bw_reserve((void **)&p.v, &p.capacity, p.n + (size_t)n_parts, sizeof *p.v);
        if (!ok)
            break;
        memcpy(p.v + p.n, parts, (size_t)n_parts * sizeof *p.v);
        p.n += (size_t)n_parts;
    }
    ok = ok && flush(form, &p, &scratch, out);
    bw_free(p.v);
    bw_free(scratch.v);
    return ok && !out->failed;
}
