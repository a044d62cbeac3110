/* Which steps a tokenizer has: by the name in a GGUF file, or by a regular expression that may be a known one. */
#include <string.h>

#include "tok_internal.h"

#define REST "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define FOLDED "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|"
#define GPT2 "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)"
#define O200K_UPPER "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define O200K_LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define CONTRACTION "(?i:'s|'t|'re|'ve|'m|'ll|'d)?"

tok_norm *bw_tok_next_norm(bw_tokenizer *t, tok_norm_kind kind, bw_err *err)
{
    if (t->n_norms == TOK_MAX_STEPS) {
        bw_fail(err, BW_E_UNSUPPORTED, "%s: a normaliser of more than %d steps", t->path, TOK_MAX_STEPS);
        return NULL;
    }
    tok_norm *step = &t->norms[t->n_norms++];
    step->kind = kind;
    return step;
}

tok_pre *bw_tok_next_pre(bw_tokenizer *t, tok_pre_kind kind, bw_err *err)
{
    if (t->n_pres == TOK_MAX_STEPS) {
        bw_fail(err, BW_E_UNSUPPORTED, "%s: a pre-tokenizer of more than %d steps", t->path, TOK_MAX_STEPS);
        return NULL;
    }
    tok_pre *step = &t->pres[t->n_pres++];
    step->kind = kind;
    step->behaviour = SPLIT_ISOLATED;
    return step;
}

/* The expressions that pretokenize.c scans natively. */
static const struct {
    const char *pattern;
    tok_pre_kind kind;
    int max_digits;
} native[] = {
    {GPT2 "|\\s+", PRE_GPT2, 0},
    {FOLDED "\\p{N}{1,3}" REST, PRE_LLAMA3, 3},
    {FOLDED "\\p{N}" REST, PRE_LLAMA3, 1},
};

bw_status bw_tok_add_regex_step(bw_tokenizer *t, const char *pattern, size_t n, tok_behaviour behaviour, bool invert,
                                bw_err *err)
{
    /* Every character is in some match, so isolating the matches and removing all else are the same. */
    bool covers = behaviour == SPLIT_ISOLATED || (behaviour == SPLIT_REMOVED && invert);
    for (size_t i = 0; covers && i < sizeof native / sizeof *native; i++) {
        if (strlen(native[i].pattern) != n || memcmp(native[i].pattern, pattern, n) != 0)
            continue;
        tok_pre *step = bw_tok_next_pre(t, native[i].kind, err);
        if (!step)
            return BW_E_UNSUPPORTED;
        step->max_digits = native[i].max_digits;
        return BW_OK;
    }
    tok_pre *step = bw_tok_next_pre(t, PRE_REGEX, err);
    if (!step)
        return BW_E_UNSUPPORTED;
    step->behaviour = behaviour;
    step->invert = invert;
    return bw_tok_regex_new(pattern, n, t->path, &step->regex, err);
}

/* tokenizer.ggml.pre to expressions, applied one after the other. "#" = every numeric character on its own. */
static const struct {
    const char *name;
    const char *steps[5];
    bool ignore_merges, add_bos, nfc;
} families[] = {
    {"gpt-2", {GPT2 "|\\s+"}, false, false, false},
    {"llama-bpe", {FOLDED "\\p{N}{1,3}" REST}, true, true, false},
    {"qwen2", {FOLDED "\\p{N}" REST}, false, false, true},
    {"smollm", {"#", GPT2 "|\\s+"}, false, false, false},
    {"default", {"[\\p{P}\\$\\+<=>\\^~\\|]+", GPT2, "\\p{N}+", "[0-9][0-9][0-9]"}, false, false, false},
    {"gpt-4o",
     {O200K_UPPER "*" O200K_LOWER "+" CONTRACTION "|" O200K_UPPER "+" O200K_LOWER "*" CONTRACTION
                  "|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"},
     false,
     false,
     false},
    {"tekken",
     {O200K_UPPER "*" O200K_LOWER "+|" O200K_UPPER "+" O200K_LOWER
                  "*|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"},
     true,
     true,
     false},
};

/* Other names for the same steps. */
static const struct {
    const char *name;
    int family;
} aliases[] = {
    {"gpt2", 0},
    {"phi-2", 0},
    {"mpt", 0},
    {"olmo", 0},
    {"jina-es", 0},
    {"jina-de", 0},
    {"exaone4", 0},
    {"trillion", 0},
    {"granite-docling", 0},
    {"llama3", 1},
    {"llama-v3", 1},
    {"falcon3", 1},
    {"pixtral", 6},
    {"smaug-bpe", 1},
    {"dbrx", 1},
    {"deepseek-r1-qwen", 2},
    {"megrez", 2},
    {"hunyuan", 2},
    {"stablelm2", 2},
    {"starcoder", 3},
    {"refact", 3},
    {"command-r", 3},
    {"codeshell", 3},
    {"minerva-7b", 3},
    {"llama4", 5},
};

static bool same_name(const char *a, const char *name, size_t n)
{
    return strlen(a) == n && memcmp(a, name, n) == 0;
}

bw_status bw_tok_pre_by_name(bw_tokenizer *t, const char *name, size_t n, bool *add_bos, bw_err *err)
{
    int family = -1;
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (same_name(families[i].name, name, n))
            family = (int)i;
    for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++)
        if (same_name(aliases[i].name, name, n))
            family = aliases[i].family;
    if (family < 0)
        return bw_fail(
            err, BW_E_UNSUPPORTED,
            "%s: the pre-tokenizer '%.*s' (tokenizer.ggml.pre) is not known to this build; gpt-2, llama-bpe, qwen2, "
            "smollm, gpt-4o, tekken, default and their relatives are",
            t->path, (int)(n > 60 ? 60 : n), name);
    t->ignore_merges = families[family].ignore_merges;
    *add_bos = families[family].add_bos;
    if (families[family].nfc) {
        tok_norm *norm = bw_tok_next_norm(t, NORM_FORM, err);
        if (!norm)
            return BW_E_UNSUPPORTED;
        norm->form = FORM_NFC;
    }
    for (int i = 0; i < 5 && families[family].steps[i]; i++) {
        const char *pattern = families[family].steps[i];
        if (strcmp(pattern, "#") != 0) {
            BW_TRY(bw_tok_add_regex_step(t, pattern, strlen(pattern), SPLIT_ISOLATED, false, err));
            continue;
        }
        tok_pre *step = bw_tok_next_pre(t, PRE_DIGITS, err);
        if (!step)
            return BW_E_UNSUPPORTED;
        step->flag = true;
    }
    return BW_OK;
}
