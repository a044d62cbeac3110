/* The tables of docs/http.md, made from src/server's routes.def, fields.def and limits.def.
 *
 *     http_docs FILE            rewrite what stands between lines "<!-- table NAME -->" and "<!-- end -->"
 *     http_docs --check FILE    change nothing; exit 1 when something would change
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ask_fields.h"
#include "bw_str.h"

static void add_cell(bw_str *out, const char *text)
{
    bw_str_add(out, " ");
    for (; *text; text++) {
        if (*text == '|')
            bw_str_add_char(out, '\\');
        bw_str_add_char(out, *text);
    }
    bw_str_add(out, " |");
}

/* ---- routes ---- */

/* What a handler does. A handler that is missing here shows as such in the table. */
static const char *const handlers[][2] = {
    {"root", "says that the program runs, its name and version"},
    {"health", "200 as long as the program runs, also while the model loads"},
    {"info", "the worker (id, device, state) and, once loaded, the model's sizes"},
    {"metrics", "counters and gauges in Prometheus' text format"},
    {"ready", "whether the model is loaded: `ready`, `state` (loading, idle, busy, error), perhaps a `notice`"},
    {"progress", "a stream of loading progress; 503 when nothing loads"},
    {"create_job", "begins a job: `job_id` and `sse_url`"},
    {"stream_job", "the job's events, once; closing it cancels the job"},
    {"delete_job", "cancels a job"},
    {"list_models", "the model, as a list of one"},
    {"get_model", "the model, by its name"},
    {"completions", "goes on with a text"},
    {"chat", "answers a conversation"},
};

static void add_route(bw_str *out, const char *method, const char *path, const char *match, const char *handler,
                      const char *error)
{
    const char *what = "(not described: add it to tools/http_docs.c)";
    bw_str shown = {0};
    for (size_t i = 0; i < sizeof handlers / sizeof *handlers; i++)
        if (strcmp(handlers[i][0], handler) == 0)
            what = handlers[i][1];
    bw_str_add_format(&shown, "`%s %s%s`", method, path,
                      strcmp(match, "UNDER") == 0 ? "{id}"
                      : strcmp(match, "JOB") == 0 ? "{id}/stream"
                                                  : "");
    bw_str_add(out, "|");
    add_cell(out, shown.data);
    add_cell(out, what);
    add_cell(out, strcmp(error, "OPENAI") == 0 ? "OpenAI's object" : "text");
    bw_str_add(out, "\n");
    bw_str_deinit(&shown);
}

static void add_routes(bw_str *out)
{
    bw_str_add(out, "| route | what it does | errors |\n|---|---|---|\n");
#define ROUTE(method, path, match, handler, body, error) add_route(out, #method, path, #match, #handler, #error);
#include "routes.def"
#undef ROUTE
}

/* ---- limits ---- */

static void add_limits(bw_str *out)
{
    bw_str_add(out, "| limit | |\n|---|---|\n");
#define LIMIT(name, value, unit, meaning)                                                                              \
    bw_str_add_format(out, "| %lld%s%s | %s |\n", (long long)(value), *(unit) ? " " : "", unit, meaning);
#include "limits.def"
#undef LIMIT
}

/* ---- fields ---- */

static const char *where_name(unsigned where, unsigned table)
{
    switch (where & table) {
    case BW_IN_CHAT:
        return "chat";
    case BW_IN_COMPLETION:
        return "completions";
    case BW_IN_FLAT:
        return "flat";
    case BW_IN_TAGGED:
        return "tagged";
    default:
        return "both";
    }
}

static const char *type_name(const bw_field *f)
{
    switch (f->kind) {
    case BW_FIELD_REAL:
        return "number";
    case BW_FIELD_INTEGER:
        return "integer";
    case BW_FIELD_LIMIT:
        return "integer or null";
    case BW_FIELD_SWITCH:
        return "boolean";
    default:
        return f->type;
    }
}

static void add_number(bw_str *out, double value)
{
    if (value >= INT32_MAX)
        bw_str_add(out, "any");
    else
        bw_str_add_format(out, "%g", value);
}

static void add_limits_of(bw_str *out, const bw_field *f)
{
    if (f->kind == BW_FIELD_OTHER) {
        bw_str_add(out, f->limits);
    } else if (f->kind != BW_FIELD_SWITCH) {
        add_number(out, f->low);
        bw_str_add(out, " to ");
        add_number(out, f->high);
        if (f->kind == BW_FIELD_LIMIT)
            bw_str_add(out, "; -1, null: as many as fit");
    }
}

static void add_default_of(bw_str *out, const bw_field *f)
{
    if (f->kind == BW_FIELD_OTHER)
        bw_str_add(out, f->otherwise);
    else if (f->kind == BW_FIELD_SWITCH)
        bw_str_add(out, f->value != 0 ? "true" : "false");
    else if (f->kind == BW_FIELD_LIMIT && f->value < 0)
        bw_str_add(out, f->value < -1 ? "none" : "as many as fit");
    else
        bw_str_add_format(out, "%g", f->value);
}

/* Those that are read. */
static void add_fields(bw_str *out, unsigned table)
{
    bw_str_add(out, "| field | body | type | limits | default | meaning |\n|---|---|---|---|---|---|\n");
    for (size_t i = 0; i < bw_n_fields; i++) {
        const bw_field *f = &bw_fields[i];
        bw_str limits = {0}, otherwise = {0};
        if (!(f->where & table) || f->kind > BW_FIELD_OTHER)
            continue;
        add_limits_of(&limits, f);
        add_default_of(&otherwise, f);
        bw_str_add_format(out, "| `%s` |", f->name);
        add_cell(out, where_name(f->where, table));
        add_cell(out, type_name(f));
        add_cell(out, limits.data ? limits.data : "");
        add_cell(out, otherwise.data);
        add_cell(out, f->meaning);
        bw_str_add(out, "\n");
        bw_str_deinit(&limits);
        bw_str_deinit(&otherwise);
    }
}

/* Those without effect, or refused; unless they ask for what happens anyway. */
static void add_others(bw_str *out, unsigned table, bw_field_kind kind)
{
    bool refused = kind == BW_FIELD_REFUSED;
    bw_str_add(out, refused ? "| field | body | taken all the same | why not |\n|---|---|---|---|\n"
                            : "| field | body | why |\n|---|---|---|\n");
    for (size_t i = 0; i < bw_n_fields; i++) {
        const bw_field *f = &bw_fields[i];
        if (!(f->where & table) || f->kind != kind)
            continue;
        bw_str_add_format(out, "| `%s` |", f->name);
        add_cell(out, where_name(f->where, table));
        if (refused && *f->allowed)
            add_cell(out, f->allowed);
        else if (refused && (f->low != 0 || f->high != 0))
            bw_str_add_format(out, f->low == f->high ? " %g |" : " %g to %g |", f->low, f->high);
        else if (refused)
            add_cell(out, "");
        add_cell(out, f->meaning);
        bw_str_add(out, "\n");
    }
}

/* ---- the file ---- */

static bool add_table(bw_str *out, const char *name)
{
    if (strcmp(name, "routes") == 0)
        add_routes(out);
    else if (strcmp(name, "limits") == 0)
        add_limits(out);
    else if (strcmp(name, "openai") == 0)
        add_fields(out, BW_IN_OPENAI);
    else if (strcmp(name, "rbee") == 0)
        add_fields(out, BW_IN_RBEE);
    else if (strcmp(name, "ignored") == 0)
        add_others(out, BW_IN_OPENAI, BW_FIELD_IGNORED);
    else if (strcmp(name, "ignored-rbee") == 0)
        add_others(out, BW_IN_RBEE, BW_FIELD_IGNORED);
    else if (strcmp(name, "refused") == 0)
        add_others(out, BW_IN_OPENAI, BW_FIELD_REFUSED);
    else if (strcmp(name, "refused-rbee") == 0)
        add_others(out, BW_IN_RBEE, BW_FIELD_REFUSED);
    else
        return false;
    return true;
}

static char *read_whole(const char *path)
{
    enum { MOST = 4 << 20 };
    FILE *file = fopen(path, "r");
    char *text = file ? calloc(1, MOST + 1) : NULL;
    if (!text || fread(text, 1, MOST, file) == 0) {
        fprintf(stderr, "%s cannot be read\n", path);
        exit(1);
    }
    fclose(file);
    return text;
}

int main(int argc, char **argv)
{
    bool check = argc == 3 && strcmp(argv[1], "--check") == 0;
    if (argc != 2 && !check) {
        fprintf(stderr, "usage: http_docs [--check] FILE\n");
        return 2;
    }
    const char *path = argv[argc - 1];
    char *text = read_whole(path), *end;
    bw_str out = {0};
    bool skipping = false;
    for (char *line = text; *line; line = end) {
        char name[40];
        end = line + strcspn(line, "\n");
        end += *end == '\n';
        if (strncmp(line, "<!-- end -->", 12) == 0)
            skipping = false;
        if (!skipping)
            bw_str_add_bytes(&out, line, (size_t)(end - line));
        if (sscanf(line, "<!-- table %39[a-z-] -->", name) != 1)
            continue;
        skipping = true;
        if (!add_table(&out, name)) {
            fprintf(stderr, "%s: there is no table \"%s\"\n", path, name);
            return 1;
        }
    }
    bool same = !out.failed && strcmp(out.data, text) == 0;
    if (!same && check) {
        fprintf(stderr, "%s is not what the lists in src/server say: run build/bin/http_docs %s\n", path, path);
        return 1;
    }
    FILE *file = same ? NULL : fopen(path, "w");
    if (!same && (!file || fwrite(out.data, 1, out.len, file) != out.len || fclose(file) != 0)) {
        fprintf(stderr, "%s cannot be written\n", path);
        return 1;
    }
    bw_str_deinit(&out);
    free(text);
    return 0;
}
