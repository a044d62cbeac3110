/* jinja: which bytes of a rendering came with the request. A table by hand for what makes text, every filter and method
 * in it; and conversations through whole templates, tokenised: nobody who writes a message makes a control token, and
 * what nobody attacks has the tokens that the whole text has. With a folder of *.jinja files as argument, those too. */
#include "../bw_test.h"

#include <dirent.h>
#include <stdlib.h>

#include "bw_mem.h"
#include "bw_tokenizer.h"
#include "jinja.h"

#define TIME 1735689600 /* as the fixtures have it */
#define BEGIN "«"
#define END "»"

/* ---- one expression at a time ---- */

static const char request_json[] = "{\"q\": \"qQ\", \"tag\": \"<q>\", \"tab\": \"q\\tq\", \"lines\": \"q\\n  Q\", "
                                   "\"list\": [\"q\", \"Q\"], \"n\": \"7\","
                                   "\"d\": {\"q\": \"Q\"}, \"f\": \"q%sQ\", \"g\": \"q{}Q\", \"time\": \"q%Y\", "
                                   "\"fill\": \"q\", \"none_at_all\": \"\", \"words\": \"qa qb\", \"messages\": "
                                   "[{\"role\": \"user\"}, {\"role\": \"qser\"}]}";
static const char own_json[] = "{\"own\": \"o\", \"q\": \"hidden\"}";

static const struct {
    const char *source, *want;
} rows[] = {
    {"abc", "abc"},
    {"{{ q }}", "«qQ»"},
    {"a{{ q }}{{ q }}b", "a«qQqQ»b"},
    {"{{ own }}", "o"},
    {"{{ 'a' + q }}", "a«qQ»"},
    {"{{ q + 'a' + q }}", "«qQ»a«qQ»"},
    {"{{ 'a' ~ q ~ 1 ~ own }}", "a«qQ»1o"},
    {"{{ (q ~ 'a') * 2 }}", "«qQ»a«qQ»a"},
    {"{{ 'a' + none_at_all + 'b' }}{{ none_at_all + 'a' }}{{ none_at_all ~ 'a' }}", "abaa"},
    {"{{ q * 2 }}", "«qQqQ»"},
    {"{{ (q ~ 'abc')[1:4] }}", "«Q»ab"},
    {"{{ (q ~ 'abc')[::-1] }}", "cba«Qq»"},
    {"{{ (q ~ 'abc')|reverse }}", "cba«Qq»"},
    {"{{ ('a' ~ q)[1] }}", "«q»"},
    {"{% for c in 'a' ~ q %}{{ c }}.{% endfor %}", "a.«q».«Q»."},
    {"{{ ('a' ~ q)|list|join('-') }}", "a-«q»-«Q»"},
    {"{% set x %}a{{ q }}b{% endset %}{{ x }}", "a«qQ»b"},
    {"{% set x %} a{{ q }} {% endset %}{{ x|trim }}", "a«qQ»"},
    {"{% macro m(v) %}a{{ v }}{% endmacro %}{{ m(q) }}", "a«qQ»"},
    {"{% macro m() %}{{ caller() }}a{% endmacro %}{% call m() %}{{ q }}{% endcall %}", "«qQ»a"},
    {"{% filter upper %}{{ q }}{% endfilter %}", "«QQ»"},
    {"{% for i in list recursive %}{{ i }}{% if loop.depth == 1 %}{{ loop(['a']) }}{% endif %}{% endfor %}",
     "«q»a«Q»a"},
    {"{{ {'role': q}['role'] }}{% for m in messages %}<{{ m.role }}>{% endfor %}", "«qQ»<user><«qser»>"},
    {"{% set ns = namespace(x=q) %}{% set ns.x = ns.x ~ 'a' %}{{ ns.x }}", "«qQ»a"},
    {"{{ q if q == 'qQ' else 'a' }}{{ 'a' if 'Q' in q }}", "«qQ»a"},
    {"{{ cycler(q, 'a').next() }}{% set j = joiner(q) %}{{ j() }}a{{ j() }}", "«qQ»a«qQ»"},
    {"{{ strftime_now('%Y') }} {{ strftime_now(time) }}", "2025 «q2025»"},
    {"{{ list }}", "[«'q'», «'Q'»]"},
    {"{{ d }} {{ d.keys()|list }}", "{«'q'»: «'Q'»} [«'q'»]"},
    /* filters */
    {"{{ q|upper }}{{ q|lower }}{{ q|title }}{{ q|capitalize }}", "«QQqqQqQq»"},
    {"{{ q|string }}{{ q|safe }}{{ tag|escape }}{{ tag|e }}{{ tag|safe|forceescape }}",
     "«qQqQ&lt;q&gt;&lt;q&gt;&lt;q&gt;»"},
    {"{{ ('a<'|safe) + q }}{{ ('a'|safe) + tag }}", "a<«qQ»a«&lt;q&gt;»"},
    {"{{ (q ~ '<' ~ q) + ('a'|safe) }}", "«qQ»&lt;«qQ»a"},
    {"{{ q|replace('Q', 'a') }}{{ 'aba'|replace('b', q) }}{{ q.replace('', '-') }}", "«q»aa«qQ»a-«q»-«Q»-"},
    {"{{ 'aba'.replace('b', q, 1) }}", "a«qQ»a"},
    {"{{ list|tojson }}{{ d|tojson }}", "[«\"q\"», «\"Q\"»]{«\"q\"»: «\"Q\"»}"},
    {"{{ [1, none, own]|tojson(indent=1) }}", "[\n 1,\n null,\n \"o\"\n]"},
    {"{{ [1, 2]|tojson(separators=[fill, ':']) }}", "«[1q2]»"},
    {"{{ q|center(4) }}{{ q.center(4, 'a') }}{{ q.ljust(3) }}{{ q.rjust(3, 'a') }}", " «qQ» a«qQ»a«qQ» a«qQ»"},
    {"{{ 'a'.ljust(3, fill) }}{{ n.zfill(2) }}", "a«qq07»"},
    {"{{ lines|indent(1) }}{{ lines|indent(fill, true) }}", "«q»\n «  Qqq»\n«q  Q»"},
    {"{{ 'aaaa bbbb cc'|truncate(8, true, fill, 0) }}{{ ('qq' ~ q)|truncate(3, true, '.', 0) }}", "aaaa bb«q»qq."},
    {"{{ 'a%s' % q }}{{ f % 'a' }}{{ '%5s' % q }}{{ '%r' % q }}", "a«qQq»a«Q   qQ'qQ'»"},
    {"{{ 'a%sb'|format(q) }}{{ '%(k)s' % {'k': q} }}{{ '%c' % fill }}", "a«qQ»b«qQq»"},
    {"{{ 'a{}b{x}'.format(q, x=1) }}{{ g.format('a') }}", "a«qQ»b1«q»a«Q»"},
    {"{{ '{:5}'.format(q) }}{{ '{!r}'.format(q) }}{{ '{0:{1}>3}'.format('a', fill) }}", "«qQ   'qQ'qqa»"},
    {"{{ 'a{k}'.format_map({'k': q}) }}", "a«qQ»"},
    {"{{ tag|urlencode }}{{ d|urlencode }}", "«%3Cq%3Eq»=«Q»"},
    {"{{ list|join }}{{ list|join('-') }}{{ ['a', 'b']|join(fill) }}{{ '-'.join(list) }}", "«qQq»-«Q»a«q»b«q»-«Q»"},
    {"{{ list|first }}{{ list|last }}{{ list|min }}{{ list|max }}{{ list|sort|join }}{{ list|unique|join }}", NULL},
    {"{{ list|map('upper')|join }}{{ list|map('replace', 'q', 'a')|join }}{{ [d]|map(attribute='q')|join }}",
     "«QQ»a«QQ»"},
    {"{{ list|select('equalto', 'q')|join }}{{ list|reject('equalto', 'q')|join }}", "«qQ»"},
    {"{{ [d]|selectattr('q')|map(attribute='q')|join }}{{ [d]|rejectattr('z')|map(attribute='q')|join }}", "«QQ»"},
    {"{{ missing|default(q) }}{{ missing|d('a') }}", "«qQ»a"},
    {"{% for k, v in d|items %}{{ k }}a{{ v }}{% endfor %}{% for k, v in d|dictsort %}{{ k }}{% endfor %}", "«q»a«Qq»"},
    {"{% for b in list|batch(1) %}{{ b|join }}a{% endfor %}{% for b in list|slice(2) %}{{ b|join }}a{% endfor %}",
     "«q»a«Q»a«q»a«Q»a"},
    {"{% for g in [d]|groupby('q') %}{{ g.grouper }}a{{ g.list[0].q }}{% endfor %}", "«Q»a«Q»"},
    {"{{ d|attr('q') }}{{ d['q'] }}{{ d.get('q') }}{{ d.get('z', q) }}", NULL},
    {"{{ [[q], ['a']]|sum(start=[])|join }}{{ q|length }}{{ q|count }}{{ words|wordcount }}", "«qQ»a222"},
    {"{{ n|int }}{{ n|float }}{{ n|int|abs }}{{ n|float|round }}{{ 5000|filesizeformat }}", "77.077.05.0 kB"},
    /* methods */
    {"{{ q.upper() }}{{ q.lower() }}{{ q.title() }}{{ q.capitalize() }}{{ q.swapcase() }}{{ q.casefold() }}",
     "«QQqqQqQqQqqq»"},
    {"{{ ('-' ~ q ~ '-').strip('-') }}{{ (' ' ~ q).lstrip() }}{{ (q ~ ' ').rstrip() }}", "«qQqQqQ»"},
    {"{{ ('a,' ~ q ~ 'b').split(',')[1] }}{{ ('a,' ~ q).rsplit(',', 1)|join('.') }}", "«qQ»ba.«qQ»"},
    {"{{ ('a ' ~ q ~ 'b').split()[1] }}{{ lines.splitlines()|join('a') }}", "«qQ»b«q»a«  Q»"},
    {"{{ ('a,' ~ q).partition(',')|join('.') }}{{ ('a,' ~ q).rpartition(',')[2] }}", "a.,.«qQqQ»"},
    {"{{ ('a' ~ q).removeprefix('a') }}{{ (q ~ 'a').removesuffix('a') }}", "«qQqQ»"},
    {"{{ tab.expandtabs(2) }}", "«q q»"},
    {"{{ q.find('Q') }}{{ q.rfind('Q') }}{{ q.index('Q') }}{{ q.rindex('Q') }}{{ q.count('Q') }}", "11111"},
    {"{{ q.startswith('q') }}{{ q.endswith('q') }}{{ q.isalnum() }}{{ q.isdigit() }}", "TrueFalseTrueFalse"},
};

static void mark(const bw_str *out, const bw_text_spans *spans, bw_str *marked)
{
    size_t at = 0;
    for (size_t i = 0; i < spans->n; i++) {
        assert_true(spans->v[i].start >= at && spans->v[i].end > spans->v[i].start && spans->v[i].end <= out->len);
        bw_str_add_bytes(marked, out->data + at, spans->v[i].start - at);
        bw_str_add(marked, BEGIN);
        bw_str_add_bytes(marked, out->data + spans->v[i].start, spans->v[i].end - spans->v[i].start);
        bw_str_add(marked, END);
        at = spans->v[i].end;
    }
    bw_str_add_bytes(marked, out->data + at, out->len - at);
}

static void expressions(void **state)
{
    (void)state;
    json_t *request = json_loads(request_json, 0, NULL), *own = json_loads(own_json, 0, NULL);
    assert_non_null(request);
    int n_bad = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        bw_jinja *jinja;
        bw_err err = {0};
        bw_str out = {0}, marked = {0};
        bw_text_spans spans = {0};
        if (bw_jinja_parse(rows[i].source, strlen(rows[i].source), &jinja, &err) != BW_OK ||
            bw_jinja_render(jinja, own, request, TIME, &out, &spans, &err) != BW_OK)
            fail_msg("%s: %s", rows[i].source, err.text);
        mark(&out, &spans, &marked);
        bw_str_add(&marked, "");
        /* without a text of its own: all of it came with the request */
        bool good = rows[i].want ? strcmp(marked.data, rows[i].want) == 0
                                 : spans.n == 1 && spans.v[0].start == 0 && spans.v[0].end == out.len;
        if (!good) {
            print_error("%s\n  want %s\n  got  %s\n", rows[i].source, rows[i].want ? rows[i].want : "all", marked.data);
            n_bad++;
        }
        bw_jinja_free(jinja);
        bw_str_deinit(&out);
        bw_str_deinit(&marked);
        bw_free(spans.v);
    }
    assert_int_equal(n_bad, 0);
    json_decref(request);
    json_decref(own);
}

/* A new filter or method needs a row, but for those that only say something of a text or refuse to work. */
static void every_builtin_has_a_row(void **state)
{
    (void)state;
    static const char *const others[] = {"isalpha",   "isdecimal", "isnumeric", "isspace", "isprintable",
                                         "isascii",   "islower",   "isupper",   "istitle", "isidentifier",
                                         "encode",    "maketrans", "translate", "pprint",  "random",
                                         "striptags", "urlize",    "wordwrap",  "xmlattr"};
    const jinja_builtin *const tables[] = {jinja_filters_text, jinja_filters_list, jinja_string_methods,
                                           jinja_string_methods_more};
    for (size_t k = 0; k < sizeof tables / sizeof *tables; k++)
        for (const jinja_builtin *b = tables[k]; b->name; b++) {
            bool found = false;
            char as_filter[80], as_method[80];
            snprintf(as_filter, sizeof as_filter, "|%s", b->name);
            snprintf(as_method, sizeof as_method, ".%s(", b->name);
            for (size_t i = 0; !found && i < sizeof others / sizeof *others; i++)
                found = strcmp(others[i], b->name) == 0;
            for (size_t i = 0; !found && i < sizeof rows / sizeof *rows; i++)
                found = strstr(rows[i].source, k < 2 ? as_filter : as_method) != NULL;
            if (!found)
                fail_msg("no row for %s", b->name);
        }
}

/* ---- whole templates, tokenised ---- */

static char *read_all(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    if (!f)
        fail_msg("cannot open %s", path);
    fseek(f, 0, SEEK_END);
    *n = (size_t)ftell(f);
    rewind(f);
    char *data = malloc(*n + 1);
    assert_int_equal(fread(data, 1, *n, f), *n);
    data[*n] = 0;
    fclose(f);
    return data;
}

enum { MAX_TOKENS = 400 };

/* The control tokens that a template's source spells: <|...|>, <...>, [...] and </...> of letters, digits and _. */
typedef struct spellings {
    char v[MAX_TOKENS][64];
    int n;
} spellings;

static void add_spelling(spellings *s, const char *text, size_t n)
{
    if (n >= sizeof s->v[0] || s->n == MAX_TOKENS)
        return;
    for (int i = 0; i < s->n; i++)
        if (strlen(s->v[i]) == n && memcmp(s->v[i], text, n) == 0)
            return;
    memcpy(s->v[s->n], text, n);
    s->v[s->n++][n] = 0;
}

static void find_spellings(const char *source, size_t n, spellings *s)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_|/-";
    for (size_t i = 0; i < n; i++) {
        if (source[i] != '<' && source[i] != '[')
            continue;
        size_t k = i + 1 + strspn(source + i + 1, letters);
        char close = source[i] == '<' ? '>' : ']';
        bool capitals = source[i] == '<' || (source[i + 1] >= 'A' && source[i + 1] <= 'Z') || source[i + 1] == '/';
        if (k > i + 2 && source[k] == close && capitals)
            add_spelling(s, source + i, k + 1 - i);
    }
}

/* The small vocabulary of the fixtures with these as its control tokens. */
static bw_tokenizer *tokenizer_of(const spellings *s, bool normalized)
{
    char path[500];
    json_error_t why;
    snprintf(path, sizeof path, "%s/tokenizers/smollm.json", BW_TEST_DATA);
    json_t *json = json_load_file(path, 0, &why), *added = json_object_get(json, "added_tokens");
    assert_non_null(added);
    json_array_clear(added);
    for (int i = 0; i < s->n; i++)
        json_array_append_new(added, json_pack("{s:i, s:s, s:b, s:b, s:b, s:b, s:b}", "id", 710 + i, "content", s->v[i],
                                               "single_word", 0, "lstrip", 0, "rstrip", 0, "normalized", normalized,
                                               "special", 1));
    if (normalized) /* one that makes a text longer */
        json_object_set_new(
            json, "normalizer",
            json_pack("{s:s, s:{s:s}, s:s}", "type", "Replace", "pattern", "String", "e", "content", "eee"));
    char *text = json_dumps(json, 0);
    bw_tokenizer *t;
    bw_err err = {0};
    assert_ok(bw_tokenizer_from_json(text, strlen(text), NULL, 0, NULL, 0, "x", &t, &err), err);
    free(text);
    json_decref(json);
    return t;
}

/* Every string of the request (but for roles and types, by which templates choose) with `more` behind it, and without
 * the letters that begin control tokens where `tame`. */
static json_t *changed(json_t *v, const char *more, bool tame)
{
    const char *key;
    json_t *item, *out;
    size_t i;
    if (json_is_array(v)) {
        out = json_array();
        json_array_foreach(v, i, item) json_array_append_new(out, changed(item, more, tame));
        return out;
    }
    if (json_is_object(v)) {
        out = json_object();
        json_object_foreach(v, key, item)
        {
            bool choice = strcmp(key, "role") == 0 || strcmp(key, "type") == 0 || strcmp(key, "id") == 0 ||
                          strcmp(key, "tool_call_id") == 0;
            json_object_set_new(out, key, choice ? json_incref(item) : changed(item, more, tame));
        }
        return out;
    }
    if (!json_is_string(v))
        return json_incref(v);
    bw_str text = {0};
    for (const char *c = json_string_value(v); *c; c++)
        bw_str_add_char(&text, tame && (*c == '<' || *c == '[') ? '(' : *c);
    bw_str_add(&text, more);
    out = json_string(text.data);
    bw_str_deinit(&text);
    return out;
}

typedef struct tokens {
    int32_t *v;
    size_t n;
} tokens;

/* The text's tokens, with and without its literal stretches; false when the template refuses the conversation. */
static bool tokenise(const bw_jinja *jinja, const bw_tokenizer *t, const json_t *context, const char *more, bool tame,
                     bw_str *text, tokens *careful, tokens *whole)
{
    json_t *own = json_object(), *request = json_object(), *value;
    const char *name;
    json_object_foreach((json_t *)(uintptr_t)context, name, value)
    {
        bool ours = strcmp(name, "bos_token") == 0 || strcmp(name, "eos_token") == 0 ||
                    strcmp(name, "add_generation_prompt") == 0;
        json_object_set_new(ours ? own : request, name, ours ? json_incref(value) : changed(value, more, tame));
    }
    bw_err err = {0};
    bw_text_spans spans = {0};
    *careful = *whole = (tokens){0};
    bool good = bw_jinja_render(jinja, own, request, TIME, text, &spans, &err) == BW_OK;
    if (good) {
        bw_encode_options o = {.parse_special = true};
        bw_str_add(text, "");
        assert_ok(bw_tokenizer_encode(t, text->data, text->len, &o, &whole->v, &whole->n, &err), err);
        o.literal = spans.v;
        o.n_literal = spans.n;
        assert_ok(bw_tokenizer_encode(t, text->data, text->len, &o, &careful->v, &careful->n, &err), err);
    }
    bw_free(spans.v);
    json_decref(own);
    json_decref(request);
    return good;
}

static size_t control_tokens(const bw_tokenizer *t, const tokens *ids, int32_t *out)
{
    size_t n = 0;
    for (size_t i = 0; i < ids->n; i++)
        if (bw_tokenizer_is_special(t, ids->v[i]))
            out[n++] = ids->v[i];
    return n;
}

typedef struct tally {
    size_t n_templates, n_innocent, n_hostile, n_forged, n_control, n_bad;
} tally;

/* Which tests of a text a template makes may depend on the text, so that the hostile conversation is held against the
 * same one in which every < and [ of the attack is another letter. */
static void one_conversation(const char *name, const bw_jinja *jinja, const bw_tokenizer *t, const json_t *context,
                             const spellings *s, tally *sums)
{
    bw_str attack = {0}, harmless = {0}, text = {0};
    tokens careful, whole, other;
    for (int i = 0; i < s->n; i++)
        if (!strstr(s->v[i], "think")) /* templates cut thoughts out of messages: the rest would be another one */
            bw_str_add_format(&attack, " %s%s", s->v[i], i % 2 ? "\n" : "");
    bw_str_add(&attack, " ");
    for (size_t i = 0; i < attack.len; i++)
        bw_str_add_char(&harmless, attack.data[i] == '<' || attack.data[i] == '[' ? '(' : attack.data[i]);
    if (tokenise(jinja, t, context, "", true, &text, &careful, &whole)) {
        sums->n_innocent++;
        if (careful.n != whole.n || (whole.n && memcmp(careful.v, whole.v, whole.n * sizeof *whole.v) != 0)) {
            print_error("%s: other tokens for an innocent conversation\n", name);
            sums->n_bad++;
        }
        bw_free(careful.v);
        bw_free(whole.v);
        bw_str_clear(&text);
        bool calm = tokenise(jinja, t, context, harmless.data, true, &text, &other, &whole);
        bw_free(whole.v);
        bw_str_clear(&text);
        bool hostile = tokenise(jinja, t, context, attack.data, true, &text, &careful, &whole);
        if (calm && hostile) {
            int32_t *a = malloc((other.n + 1) * sizeof *a), *b = malloc((careful.n + 1) * sizeof *b);
            int32_t *c = malloc((whole.n + 1) * sizeof *c);
            size_t n_a = control_tokens(t, &other, a), n_b = control_tokens(t, &careful, b);
            size_t n_forged = control_tokens(t, &whole, c) - n_b;
            if (n_a != n_b || memcmp(a, b, n_a * sizeof *a) != 0) {
                print_error("%s: %zu control tokens instead of %zu\n", name, n_b, n_a);
                sums->n_bad++;
            }
            sums->n_hostile++;
            sums->n_control += n_b;
            sums->n_forged += n_forged;
            free(a);
            free(b);
            free(c);
        }
        bw_free(other.v);
        bw_free(careful.v);
        bw_free(whole.v);
    }
    bw_str_deinit(&attack);
    bw_str_deinit(&harmless);
    bw_str_deinit(&text);
}

static void one_template(const char *name, const char *source, size_t n, const json_t *contexts, tally *sums)
{
    bw_jinja *jinja;
    bw_err err = {0};
    if (bw_jinja_parse(source, n, &jinja, &err) != BW_OK) {
        print_message("%s: %s\n", name, err.text);
        return;
    }
    spellings s = {0};
    find_spellings(source, n, &s);
    add_spelling(&s, "</s>", 4);
    add_spelling(&s, "<s>", 3);
    add_spelling(&s, "<|im_end|>", 10);
    sums->n_templates++;
    for (int normalized = 0; normalized < 2; normalized++) {
        bw_tokenizer *t = tokenizer_of(&s, normalized);
        size_t step = normalized ? 7 : 1;
        for (size_t i = 0; i < json_array_size(contexts); i += step)
            one_conversation(name, jinja, t, json_array_get(contexts, i), &s, sums);
        bw_tokenizer_free(t);
    }
    bw_jinja_free(jinja);
}

static const char *more_templates;

static void templates(void **state)
{
    (void)state;
    char path[1000];
    json_error_t why;
    snprintf(path, sizeof path, "%s/jinja/chats.json", BW_UNPACKED_DATA);
    json_t *all = json_load_file(path, 0, &why), *contexts = json_object_get(all, "contexts"), *template;
    assert_non_null(all);
    const char *name;
    tally sums = {0};
    json_object_foreach(json_object_get(all, "templates"), name, template)
    {
        const json_t *source = json_object_get(template, "source");
        one_template(name, json_string_value(source), json_string_length(source), contexts, &sums);
    }
    DIR *folder = more_templates ? opendir(more_templates) : NULL;
    for (struct dirent *file; folder && (file = readdir(folder));) {
        size_t n;
        if (!strstr(file->d_name, ".jinja"))
            continue;
        snprintf(path, sizeof path, "%s/%s", more_templates, file->d_name);
        char *source = read_all(path, &n);
        one_template(file->d_name, source, n, contexts, &sums);
        free(source);
    }
    if (folder)
        closedir(folder);
    print_message("%zu templates: %zu innocent conversations with the same tokens; %zu hostile ones with %zu control "
                  "tokens of the templates, and none of the %zu that were spelt\n",
                  sums.n_templates, sums.n_innocent, sums.n_hostile, sums.n_control, sums.n_forged);
    assert_int_equal(sums.n_bad, 0);
    assert_true(sums.n_templates >= 7 && sums.n_innocent > 500 && sums.n_hostile > 300);
    assert_true(sums.n_control > 0 && sums.n_forged > 1000); /* the attack is one */
    json_decref(all);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(expressions),
        cmocka_unit_test(every_builtin_has_a_row),
        cmocka_unit_test(templates),
    };
    more_templates = argc > 1 ? argv[1] : NULL;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
