/* The members of a request for text, as fields.def lists them: what both readers of bodies share. */
#ifndef BW_ASK_FIELDS_H
#define BW_ASK_FIELDS_H

#include "ask.h"
#include "json.h"

/* Where a member is known. */
enum {
    BW_IN_CHAT = 1,
    BW_IN_COMPLETION = 2,
    BW_IN_OPENAI = BW_IN_CHAT | BW_IN_COMPLETION,
    BW_IN_FLAT = 4,
    BW_IN_TAGGED = 8,
    BW_IN_RBEE = BW_IN_FLAT | BW_IN_TAGGED,
    BW_IN_ALL = BW_IN_OPENAI | BW_IN_RBEE
};

typedef enum bw_field_kind {
    BW_FIELD_REAL,
    BW_FIELD_INTEGER,
    BW_FIELD_LIMIT,
    BW_FIELD_SWITCH,
    BW_FIELD_OTHER,
    BW_FIELD_IGNORED,
    BW_FIELD_REFUSED
} bw_field_kind;

typedef struct bw_field {
    unsigned where;
    const char *name;
    bw_field_kind kind;
    size_t offset; /* of its member of bw_ask, where it is read */
    double low, high, value;
    const char *type, *limits, *otherwise; /* for people: OTHER alone */
    const char *allowed;                   /* REFUSED: words */
    const char *meaning;
} bw_field;
extern const bw_field bw_fields[];
extern const size_t bw_n_fields;

/* What is wrong with a member. */
typedef enum bw_fault_kind { BW_FAULT_TYPE, BW_FAULT_RANGE, BW_FAULT_REFUSED, BW_FAULT_VALUE } bw_fault_kind;
typedef struct bw_fault {
    bw_fault_kind kind;
    const char *name;
    const char *words; /* TYPE: what was expected; REFUSED: the reason; VALUE: a sentence without its subject */
    bool is_integer;   /* RANGE: so are the numbers */
    double low, high;  /* RANGE */
    double value;      /* RANGE: of a real number */
    int64_t whole;     /* RANGE: of an integer */
    bool is_beyond;    /* RANGE: of an integer that 64 bits do not hold; value has it, rounded */
} bw_fault;

/* Fill in the defaults, read what the list says how to read, and the lists logit_bias, stop_token_ids and bad_words.
 * Every fault is told; false: there is no memory. */
bool bw_fields_read(const json_t *object, unsigned where, bw_ask *ask, void (*tell)(void *user, const bw_fault *fault),
                    void *user);
/* Log the members that the list does not know: each name once while the program runs, and not more than 64 names. */
void bw_fields_note_unknown(const json_t *object, unsigned where, const char *body);

#endif
