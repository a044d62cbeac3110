/* jinja: the fixtures that jinja2 rendered (tools/fixtures/jinja_fixtures.py), exactly; bounds; failing allocations. */
#include "../bw_test.h"

#include "bw_jinja.h"
#include "bw_mem.h"

#define TIME 1735689600 /* 2025-01-01 00:00:00 UTC, as the fixtures have it */

static json_t *load(const char *folder, const char *name)
{
    char path[500];
    json_error_t why;
    snprintf(path, sizeof path, "%s/jinja/%s", folder, name);
    json_t *json = json_load_file(path, 0, &why);
    if (!json)
        fail_msg("%s: %s", path, why.text);
    return json;
}

static bw_status render(const char *source, size_t n, const json_t *context, bw_str *out, bw_err *err)
{
    bw_jinja *jinja = NULL;
    bw_status status = bw_jinja_parse(source, n, &jinja, err);
    if (status == BW_OK)
        status = bw_jinja_render(jinja, NULL, context, TIME, out, NULL, err);
    bw_jinja_free(jinja);
    return status;
}

/* 0 when the text (or its absence) is what jinja2 gave. */
static int differs(const json_t *source, const json_t *context, const json_t *want, const char *what)
{
    bw_str out = {0};
    bw_err err = {0};
    bw_status status = render(json_string_value(source), json_string_length(source), context, &out, &err);
    int bad;
    if (json_is_string(want))
        bad = status != BW_OK || out.len != json_string_length(want) ||
              (out.len && memcmp(out.data, json_string_value(want), out.len) != 0);
    else
        bad = status == BW_OK || out.len != 0;
    if (bad)
        print_error("%s: %s\n  want %s\n  got  %s (%s)\n", what, json_string_value(source),
                    json_is_string(want) ? json_string_value(want) : "an error", out.data ? out.data : "", err.text);
    bw_str_deinit(&out);
    return bad;
}

static void snippets(void **state)
{
    (void)state;
    json_t *all = load(BW_TEST_DATA, "snippets.json"), *context = json_object_get(all, "context"), *item;
    int64_t live = bw_mem_live();
    size_t i, n = 0, n_bad = 0;
    json_array_foreach(json_object_get(all, "snippets"), i, item)
    {
        n_bad += (size_t)differs(json_array_get(item, 0), context, json_array_get(item, 1), "snippet");
        n++;
    }
    print_message("%zu snippets, %zu differ\n", n, n_bad);
    assert_int_equal(n_bad, 0);
    assert_true(n >= 400);
    assert_int_equal(bw_mem_live(), live);
    json_decref(all);
}

static void conversations(void **state)
{
    (void)state;
    json_t *all = load(BW_UNPACKED_DATA, "chats.json"), *contexts = json_object_get(all, "contexts"), *template;
    const char *name;
    size_t n = 0, n_bad = 0;
    json_object_foreach(json_object_get(all, "templates"), name, template)
    {
        const json_t *source = json_object_get(template, "source"), *texts = json_object_get(template, "texts");
        assert_int_equal(json_array_size(texts), json_array_size(contexts));
        for (size_t i = 0; i < json_array_size(contexts); i++, n++)
            n_bad += (size_t)differs(source, json_array_get(contexts, i), json_array_get(texts, i), name);
    }
    print_message("%zu renderings, %zu differ\n", n, n_bad);
    assert_int_equal(n_bad, 0);
    assert_true(n >= 700);
    json_decref(all);
}

static void hostile(void **state)
{
    (void)state;
    static const char *const sources[] = {
        "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}",
        "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
        "{% for a in range(100000) %}{{ 'x' * 100000 }}{% endfor %}",
        "{% set ns = namespace(s='xxxxxxxxxxxxxxxx') %}{% for a in range(100) %}{% set ns.s = ns.s + ns.s %}{% endfor "
        "%}",
        "{% set ns = namespace(l=[]) %}{% for a in range(99999) %}{% set ns.l = [ns.l] %}{% endfor %}{{ ns.l }}",
        "{% set ns = namespace(l=[]) %}{% for a in range(99999) %}{% set ns.l = [ns.l] %}{% endfor %}{{ ns.l|tojson }}",
        "{% set ns = namespace(l=[], k=[]) %}{% for a in range(999) %}{% set ns.l, ns.k = [ns.l], [ns.k] %}{% endfor "
        "%}{{ ns.l == ns.k }}",
        "{{ range(100001) }}",
        "{{ [0.1] * 3000000 }}",
        "{{ 'a' * 9223372036854775807 }}",
        "{{ [1] * 9223372036854775807 }}",
        "{{ 9223372036854775807 + 1 }}",
        "{{ -9223372036854775807 - 2 }}",
        "{{ (-9223372036854775807 - 1) // -1 }}",
        "{{ 2 ** 64 }}",
        "{{ '%1000000d' % 1 }}",
        "{{ '{:1000000}'.format(1) }}",
        "{{ 'x'.ljust(1000000000) }}",
        "{{ ('a' * 1000000).rfind('a' * 500000 + 'b') }}",
        "{{ ('a' * 3000000).replace('', 'b' * 1000) }}",
        "{{ [[1]] | tojson(indent=1000000) }}",
        "{{ strftime_now('%1000000d') }}",
        "{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}",
        "{% set ns = namespace(x=1) %}{% set ns.x = ns %}{{ ns }}",
    };
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
        bw_str out = {0};
        bw_err err = {0};
        bw_status status = render(sources[i], strlen(sources[i]), NULL, &out, &err);
        if (status == BW_OK)
            fail_msg("no error: %s", sources[i]);
        assert_int_equal(status, err.status);
        assert_true(strlen(err.text) > 10);
        bw_str_deinit(&out);
    }
}

static void nested_sources(void **state)
{
    (void)state;
    static const struct {
        const char *before, *unit, *middle, *after;
    } shapes[] = {
        {"{{ ", "(", "1", " }}"},        {"{{ ", "[", "1", " }}"},         {"{{ ", "not ", "1", " }}"},
        {"{{ ", "-", "1", " }}"},        {"{{ 1", "+1", "", " }}"},        {"{{ x", ".a", "", " }}"},
        {"{{ x", "|upper", "", " }}"},   {"", "{% if 1 %}", "", ""},       {"{{ ", "1 if 1 else ", "1", " }}"},
        {"{{ x", "(1)", "", " }}"},      {"", "{% for a in b %}", "", ""}, {"{{ 1", " is defined", "", " }}"},
        {"", "{% macro m() %}", "", ""}, {"{{ x", "[x", "", " }}"},        {"{% set ", "(", "x = 1", " %}"}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        bw_str source = {0}, out = {0};
        bw_err err = {0};
        bw_str_add(&source, shapes[i].before);
        for (int k = 0; k < 20000; k++)
            bw_str_add(&source, shapes[i].unit);
        bw_str_add(&source, shapes[i].middle);
        bw_str_add(&source, shapes[i].after);
        assert_int_not_equal(render(source.data, source.len, NULL, &out, &err), BW_OK);
        bw_str_deinit(&source);
        bw_str_deinit(&out);
    }
}

static void errors(void **state)
{
    (void)state;
    bw_str out = {0};
    bw_err err = {0};
    bw_str_add(&out, "kept");
    const char *source = "line\n{{ raise_exception('Roles must alternate') }}";
    assert_int_equal(render(source, strlen(source), NULL, &out, &err), BW_E_ARG);
    assert_string_equal(err.text, "Roles must alternate");
    assert_string_equal(out.data, "kept");
    source = "a\nb\n{{ missing.field }}";
    assert_int_equal(render(source, strlen(source), NULL, &out, &err), BW_E_ARG);
    assert_string_equal(err.text, "template line 3: 'missing' is undefined");
    source = "a\n{% endfor %}";
    assert_int_equal(render(source, strlen(source), NULL, &out, &err), BW_E_FORMAT);
    assert_non_null(strstr(err.text, "line 2"));
    assert_int_equal(render("\xff", 1, NULL, &out, &err), BW_E_FORMAT);
    json_t *list = json_array();
    assert_int_equal(render("x", 1, list, &out, &err), BW_E_ARG);
    json_decref(list);
    bw_str_deinit(&out);
}

static void chatml(void **state)
{
    (void)state;
    json_t *context = json_loads(
        "{\"messages\": [{\"role\": \"user\", \"content\": \"hi\"}], \"add_generation_prompt\": true}", 0, NULL);
    bw_str out = {0};
    bw_err err = {0};
    assert_ok(render(bw_jinja_chatml, strlen(bw_jinja_chatml), context, &out, &err), err);
    assert_string_equal(out.data, "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n");
    bw_str_deinit(&out);
    json_decref(context);
}

/* Every allocation in turn fails: BW_E_MEMORY each time, nothing leaks, nothing is written. */
static void no_memory(void **state)
{
    (void)state;
    static const char source[] =
        "{% macro m(a, b=2) %}{{ a }}-{{ b }}{{ caller() if caller }}{{ kwargs }}{% endmacro %}"
        "{% call m('x', c=3) %}{{ 'body' | upper | indent(2, true) }}{% endcall %}"
        "{% set ns = namespace(t='\\u00e9\\n') %}{% for k, v in {'b': [1, 2.5], 'a': (none, true)}|dictsort %}"
        "{% set ns.t = ns.t ~ k ~ v|tojson(indent=1) %}{{ loop.index }}{% endfor %}{{ ns.t }}"
        "{% set w %}{{ 'a b c'.split() | map('upper') | join(',') }}{% endset %}{{ w.replace('A', 'z') }}"
        "{{ [3, 1, 2] | sort(reverse=true) }}{{ '%s|%5.2f' % ('q', 1.5) }}{{ '{:>4}{a[0]!r}'.format(1, a=['x']) }}"
        "{% for x in [1, [2, [3]]] recursive %}{{ loop(x) if x is iterable else x }}{% endfor %}"
        "{{ messages | selectattr('role', 'eq', 'user') | map(attribute='content') | list }}"
        "{{ messages | groupby('role') }}{{ ['b', 'a', 'b'] | unique | list }}{{ strftime_now('%Y') }}";
    json_t *context =
        json_loads("{\"messages\": [{\"role\": \"user\", \"content\": \"h\xc3\xa9\"}], \"n\": 1}", 0, NULL);
    bw_str out = {0};
    bw_err err = {0};
    assert_ok(render(source, sizeof source - 1, context, &out, &err), err);
    bw_str_deinit(&out);
    int64_t live = bw_mem_live(), before = bw_mem_count();
    assert_ok(render(source, sizeof source - 1, context, &out, &err), err);
    int64_t n = bw_mem_count() - before;
    bw_str_deinit(&out);
    assert_true(n > 20);
    for (int64_t i = 1; i <= n; i++) {
        bw_mem_fail_at(i);
        bw_status status = render(source, sizeof source - 1, context, &out, &err);
        bw_mem_fail_at(0);
        if (status != BW_E_MEMORY)
            fail_msg("allocation %d of %d: %s", (int)i, (int)n, bw_status_name(status));
        assert_int_equal(out.len, 0);
        bw_str_deinit(&out);
        assert_int_equal(bw_mem_live(), live);
    }
    print_message("%d allocations failed in turn\n", (int)n);
    json_decref(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(snippets),  cmocka_unit_test(conversations),  cmocka_unit_test(hostile),
        cmocka_unit_test(errors),    cmocka_unit_test(nested_sources), cmocka_unit_test(chatml),
        cmocka_unit_test(no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
