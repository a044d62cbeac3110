/* Unicode classes as Hugging Face tokenizers' regular expressions see them (Unicode 16), and normalisation forms with
 * that library's age limits. Private to this module. */
#ifndef BW_TOK_UNICODE_H
#define BW_TOK_UNICODE_H

#include "bw_str.h"

/* General categories in the order of unicode_tables.c; each major class is one stretch. */
typedef enum tok_category {
    CAT_LU,
    CAT_LL,
    CAT_LT,
    CAT_LM,
    CAT_LO,
    CAT_MN,
    CAT_MC,
    CAT_ME,
    CAT_ND,
    CAT_NL,
    CAT_NO,
    CAT_PC,
    CAT_PD,
    CAT_PS,
    CAT_PE,
    CAT_PI,
    CAT_PF,
    CAT_PO,
    CAT_SM,
    CAT_SC,
    CAT_SK,
    CAT_SO,
    CAT_ZS,
    CAT_ZL,
    CAT_ZP,
    CAT_CC,
    CAT_CF,
    CAT_CS,
    CAT_CO,
    CAT_CN,
    N_CATEGORIES
} tok_category;

extern const uint32_t bw_tok_category_runs[];
extern const size_t bw_tok_n_category_runs;
extern const uint32_t bw_tok_numeric_ranges[][2];
extern const size_t bw_tok_n_numeric_ranges;
extern const uint32_t bw_tok_young_ranges[][2];
extern const size_t bw_tok_n_young_ranges;
extern const uint32_t bw_tok_punctuation_ranges[][2];
extern const size_t bw_tok_n_punctuation_ranges;
extern const uint32_t bw_tok_lowercase_pairs[][2]; /* rising */
extern const size_t bw_tok_n_lowercase_pairs;

tok_category bw_tok_category(uint32_t cp);
/* The name of a category or major class ("L", "Lu", "N", ...) as a bit set over tok_category; 0 when unknown. */
uint32_t bw_tok_category_mask(const char *name, size_t n_bytes);

enum { TOK_IS_LETTER = 1, TOK_IS_NUMBER = 2, TOK_IS_SPACE = 4 };
/* \p{L}, \p{N} and \s as TOK_IS_*; 0 for all else. */
unsigned bw_tok_class(uint32_t cp);
/* \s: the White_Space property. */
bool bw_tok_is_space(uint32_t cp);
/* The Digits step's class: Nd, Nl, No of a newer Unicode. */
bool bw_tok_is_numeric(uint32_t cp);
/* The Punctuation step's class. */
bool bw_tok_is_punctuation(uint32_t cp);
/* \w: letters, marks, decimal digits, letter numbers, connectors, circled letters. Added tokens that must be whole
 * words count joiners too, regular expressions the Latin-1 superscripts and fractions. */
bool bw_tok_is_word(uint32_t cp, bool in_regex);
/* Simple lower case. */
uint32_t bw_tok_lowercase(uint32_t cp);

typedef enum tok_form { FORM_NFC, FORM_NFD, FORM_NFKC, FORM_NFKD } tok_form;
/* text (valid UTF-8) in a normalisation form, appended to out (Unicode Standard Annex 15). false: no memory. Linear
 * time, whatever the text. */
bool bw_tok_normalise(tok_form form, const char *text, size_t n_bytes, bw_str *out);

#endif
