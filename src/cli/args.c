/* Options: one table drives reading, checking and the help text. Owns no settings; refuses to guess: an unknown or
 * shortened option is an error. */
#include "cli.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const cli_option common_options[] = {
    {"quiet", 'q', CLI_FLAG, offsetof(cli_common, quiet), NULL, "no remarks and progress bars", 0, 0, NULL},
    {"verbose", 'v', CLI_FLAG, offsetof(cli_common, verbose), NULL, "log details on standard error", 0, 0, NULL},
    {"log-json", 0, CLI_FLAG, offsetof(cli_common, log_json), NULL, "log one JSON object a line", 0, 0, NULL},
    {"help", 'h', CLI_FLAG, offsetof(cli_common, help), NULL, "show this text", 0, 0, NULL},
};
const cli_group cli_common_group = {"Everywhere", common_options, sizeof common_options / sizeof *common_options};

/* ---- finding ----------------------------------------------------------------------------------------------------- */

static const cli_option *find_option(const cli_command *command, const char *name, size_t n, char letter)
{
    for (int g = 0; g < CLI_MAX_GROUPS && command->groups[g]; g++)
        for (size_t i = 0; i < command->groups[g]->n; i++) {
            const cli_option *o = &command->groups[g]->options[i];
            if (name ? strlen(o->name) == n && memcmp(o->name, name, n) == 0 : o->letter && o->letter == letter)
                return o;
        }
    return NULL;
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

static bw_status bad_number(const cli_option *o, const char *text, bw_err *err)
{
    if (o->kind == CLI_U64)
        return bw_fail(err, BW_E_ARG, "--%s needs a whole number from 0 to 18446744073709551615, not \"%s\"", o->name,
                       text);
    return bw_fail(err, BW_E_ARG, "--%s needs %sa %snumber from %.10g to %.10g, not \"%s\"", o->name,
                   o->kind == CLI_AUTO ? "auto or " : "", o->kind == CLI_F32 ? "" : "whole ", o->min, o->max, text);
}

static bw_status set_choice(const cli_option *o, const char *text, int32_t *out, bw_err *err)
{
    bw_str words = {0};
    for (int32_t i = 0; o->choices[i]; i++) {
        if (strcmp(o->choices[i], text) == 0) {
            *out = i;
            bw_str_deinit(&words);
            return BW_OK;
        }
        bw_str_add_format(&words, "%s%s", i ? ", " : "", o->choices[i]);
    }
    bw_fail(err, BW_E_ARG, "--%s must be one of %s, not \"%s\"", o->name, words.failed ? "its words" : words.data,
            text);
    bw_str_deinit(&words);
    return BW_E_ARG;
}

static bw_status set_value(const cli_option *o, const char *text, void *settings, bw_err *err)
{
    void *out = (char *)settings + o->offset;
    int64_t i;
    double f;
    cli_u64 *u = out;
    cli_texts *texts = out;
    switch (o->kind) {
    case CLI_FLAG:
        *(bool *)out = true;
        return BW_OK;
    case CLI_TEXT:
        *(const char **)out = text;
        return BW_OK;
    case CLI_TEXTS:
        if (texts->n == CLI_MAX_TEXTS)
            return bw_fail(err, BW_E_ARG, "--%s was given more than %d times", o->name, (int)CLI_MAX_TEXTS);
        texts->items[texts->n++] = text;
        return BW_OK;
    case CLI_I32:
    case CLI_AUTO:
        *(int32_t *)out = 0;
        if (o->kind == CLI_AUTO && strcmp(text, "auto") == 0)
            return BW_OK;
        if (!bw_parse_i64(text, &i) || (double)i < o->min || (double)i > o->max)
            return bad_number(o, text, err);
        *(int32_t *)out = (int32_t)i;
        return BW_OK;
    case CLI_U64:
        if (!bw_parse_u64(text, &u->value))
            return bad_number(o, text, err);
        u->given = true;
        return BW_OK;
    case CLI_F32:
        if (!bw_parse_f64(text, &f) || !isfinite(f) || f < o->min || f > o->max)
            return bad_number(o, text, err);
        *(float *)out = (float)f;
        return BW_OK;
    case CLI_CHOICE:
        return set_choice(o, text, out, err);
    }
    return bw_fail(err, BW_E_INTERNAL, "option --%s has no kind", o->name);
}

/* ---- parsing ----------------------------------------------------------------------------------------------------- */

typedef struct parser {
    const cli_command *command;
    char **argv;
    int argc, i; /* i: the next word to read */
    void *settings;
} parser;

static bw_status take_next(parser *p, const cli_option *o, const char *spelled, bw_err *err)
{
    if (p->i >= p->argc)
        return bw_fail(err, BW_E_ARG, "%s needs a value (%s)", spelled, o->metavar);
    return set_value(o, p->argv[p->i++], p->settings, err);
}

/* "--name", "--name value" or "--name=value". */
static bw_status read_long(parser *p, const char *word, bw_err *err)
{
    const char *name = word + 2, *equals = strchr(name, '=');
    size_t n = equals ? (size_t)(equals - name) : strlen(name);
    const cli_option *o = find_option(p->command, name, n, 0);
    if (!o)
        return bw_fail(err, BW_E_ARG, "there is no option --%.*s", (int)(n < 100 ? n : 100), name);
    if (o->kind == CLI_FLAG)
        return equals ? bw_fail(err, BW_E_ARG, "--%s takes no value", o->name) : set_value(o, NULL, p->settings, err);
    return equals ? set_value(o, equals + 1, p->settings, err) : take_next(p, o, word, err);
}

/* "-x", "-x value", "-xvalue" or flags together: "-qv". */
static bw_status read_short(parser *p, const char *word, bw_err *err)
{
    for (const char *c = word + 1; *c; c++) {
        const cli_option *o = find_option(p->command, NULL, 0, *c);
        if (!o)
            return bw_fail(err, BW_E_ARG, "there is no option -%c in \"%.100s\"", *c, word);
        if (o->kind == CLI_FLAG) {
            BW_TRY(set_value(o, NULL, p->settings, err));
            continue;
        }
        char spelled[3] = {'-', *c, 0};
        return c[1] ? set_value(o, c + 1, p->settings, err) : take_next(p, o, spelled, err);
    }
    return BW_OK;
}

bw_status cli_args_parse(const cli_command *command, char **argv, int argc, void *settings, int *n_words, bw_err *err)
{
    parser p = {command, argv, argc, 0, settings};
    bool words_only = false;
    *n_words = 0;
    while (p.i < argc) {
        char *word = argv[p.i++];
        if (words_only || word[0] != '-' || word[1] == 0)
            argv[(*n_words)++] = word;
        else if (strcmp(word, "--") == 0)
            words_only = true;
        else
            BW_TRY(word[1] == '-' ? read_long(&p, word, err) : read_short(&p, word, err));
    }
    return BW_OK;
}

/* ---- help -------------------------------------------------------------------------------------------------------- */

enum { HELP_COLUMN = 26, HELP_WIDTH = 100 };

/* text from column `at`, broken at spaces to lines that begin at HELP_COLUMN. */
static void add_wrapped(bw_str *out, int at, const char *text)
{
    for (const char *word = text; *word;) {
        int n = (int)strcspn(word, " ");
        if (at + 1 + n > HELP_WIDTH && at > HELP_COLUMN) {
            bw_str_add_format(out, "\n%*s", HELP_COLUMN, "");
            at = HELP_COLUMN;
        } else if (word != text) {
            bw_str_add_char(out, ' ');
            at++;
        }
        bw_str_add_bytes(out, word, (size_t)n);
        at += n;
        word += n;
        word += strspn(word, " ");
    }
    bw_str_add_char(out, '\n');
}

static void add_option(bw_str *out, const cli_option *o)
{
    char left[128];
    char letter[8] = "    ";
    if (o->letter)
        snprintf(letter, sizeof letter, "-%c, ", o->letter);
    int n = snprintf(left, sizeof left, "  %s--%s%s%s", letter, o->name, o->metavar ? " " : "",
                     o->metavar ? o->metavar : "");
    bw_str_add(out, left);
    if (n > HELP_COLUMN - 2) {
        bw_str_add_char(out, '\n');
        n = 0;
    }
    bw_str_add_format(out, "%*s", HELP_COLUMN - n, "");
    add_wrapped(out, HELP_COLUMN, o->help);
}

void cli_args_help(const cli_command *command, bw_str *out)
{
    bw_str_add_format(out, "beeswax %s: %s\n\nUsage: beeswax %s %s\n\n%s", command->name, command->summary,
                      command->name, command->usage, command->details);
    for (int g = 0; g < CLI_MAX_GROUPS && command->groups[g]; g++) {
        bw_str_add_format(out, "\n%s:\n", command->groups[g]->title);
        for (size_t i = 0; i < command->groups[g]->n; i++)
            add_option(out, &command->groups[g]->options[i]);
    }
}
