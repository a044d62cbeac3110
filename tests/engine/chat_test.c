/* Chat messages as clients send them, shaped for templates of each habit that published ones have, rendered with the
 * real interpreter. */
#include "../bw_test.h"

#include "bw_json.h"
#include "bw_mem.h"
#include "engine_private.h"

/* + on content, arguments through tojson: what most templates do. */
static const char plain[] =
    "{% if tools %}[{{ tools | tojson }}]{% endif %}{% for m in messages %}<{{ m.role }}>{{ '' + m.content }}"
    "{% for c in m.tool_calls %}({{ c.function.name }} {{ c.function.arguments | tojson }}){% endfor %}{% endfor %}";
/* Arguments one by one. */
static const char items[] =
    "{{ tools | tojson if tools }}{% for m in messages %}<{{ m.role }}>{{ m['content'] | trim }}"
    "{% for c in m.tool_calls or [] %}({{ c.function.name }}{% for k, v in c.function.arguments | items %} {{ k }}={{ "
    "v }}{% endfor %}){% endfor %}{% endfor %}";
/* A call is seen only where content is none, and its arguments are text. */
static const char none_and_text[] =
    "{% for m in messages %}{% if m['content'] is none %}({{ m.tool_calls[0]['function']['name'] + ' ' + "
    "m.tool_calls[0]['function']['arguments'] }}){% else %}<{{ m.role }}>{{ m['content'] }}{% endif %}{% endfor %}";
/* Arguments are text, content too. */
static const char text_only[] = "{% for m in messages %}<{{ m.role }}>{{ '' + m.content }}{% for c in m.tool_calls %}"
                                "({{ c.function.name + ' ' + c.function.arguments }}){% endfor %}{% endfor %}";
/* Knows neither tools nor roles but two. */
static const char strict[] = "{% for m in messages %}{% if m.role not in ['user', 'assistant'] %}{{ "
                             "raise_exception('no such role') }}{% endif %}"
                             "<{{ m.role }}>{{ m.content }}{% endfor %}";
static const char developer[] = "{% for m in messages %}{% if m.role == 'developer' %}DEV {% endif %}<{{ m.role }}>"
                                "{{ m.content }}{% endfor %}";

#define CALL(content, arguments)                                                                                       \
    "[{\"role\":\"user\",\"content\":\"q\"},{\"role\":\"assistant\"," content "\"tool_calls\":[{\"id\":\"c\","         \
    "\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":" arguments "}}]},"                              \
    "{\"role\":\"tool\",\"tool_call_id\":\"c\",\"content\":\"r\"}]"
#define TEXT_ARGUMENTS "\"{\\\"a\\\": 1}\""

static void expect(const char *template, const char *messages, const char *want)
{
    bw_err err = {0};
    bw_jinja *jinja = NULL;
    bw_chat_habits habits = {0};
    bw_str out = {0};
    assert_ok(bw_jinja_parse(template, strlen(template), &jinja, &err), err);
    assert_ok(bw_chat_learn(jinja, template, &habits, &err), err);
    json_t *list = json_loads(messages, 0, NULL), *context = json_object();
    assert_non_null(list);
    assert_ok(bw_chat_shape(&habits, list, &err), err);
    json_object_set_new(context, "messages", list);
    assert_ok(bw_jinja_render(jinja, NULL, context, 0, &out, NULL, &err), err);
    assert_string_equal(out.data, want);
    bw_str_deinit(&out);
    json_decref(context);
    bw_jinja_free(jinja);
}

/* content null, absent or empty and arguments as text or object: one and the same prompt. */
static void calls(void **state)
{
    (void)state;
    static const char *const forms[] = {
        CALL("\"content\":null,", TEXT_ARGUMENTS), CALL("", TEXT_ARGUMENTS), CALL("\"content\":\"\",", TEXT_ARGUMENTS),
        CALL("\"content\":null,", "{\"a\":1}"),    CALL("", "{\"a\":1}"),    CALL("\"content\":[],", "{\"a\":1}"),
    };
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        bool list = i == 5; /* content [] is the server's to flatten; beside none it counts as nothing */
        if (!list) {
            expect(plain, forms[i], "<user>q<assistant>(f {\"a\": 1})<tool>r");
            expect(items, forms[i], "<user>q<assistant>(f a=1)<tool>r");
            expect(text_only, forms[i], "<user>q<assistant>(f {\"a\": 1})<tool>r");
        }
        expect(none_and_text, forms[i], "<user>q(f {\"a\": 1})<tool>r");
    }
    expect(plain, CALL("\"content\":\"so\",", TEXT_ARGUMENTS), "<user>q<assistant>so(f {\"a\": 1})<tool>r");
    expect(plain, CALL("", "\"\""), "<user>q<assistant>(f {})<tool>r");                     /* no arguments */
    expect(plain, CALL("", "\"not {json\""), "<user>q<assistant>(f \"not {json\")<tool>r"); /* as the model wrote it */
    expect(items, CALL("", "\"{\\\"a\\\":99999999999999999999}\""), "<user>q<assistant>(f a=1e+20)<tool>r");
    expect(plain, CALL("", "\"[1]\""), "<user>q<assistant>(f \"[1]\")<tool>r");
    expect(plain, "[{\"role\":\"assistant\",\"content\":null},{\"role\":\"user\"}]", "<assistant><user>");
    expect(strict, "[{\"role\":\"assistant\",\"content\":null}]", "<assistant>");
    /* members of a call itself, as some clients have them */
    expect("{% for m in messages %}{% for c in m.tool_calls %}{{ c.name }} {{ c.arguments.a }}{% endfor %}{% endfor %}",
           "[{\"role\":\"assistant\",\"tool_calls\":[{\"name\":\"f\",\"arguments\":" TEXT_ARGUMENTS "}]}]", "f 1");
}

static void roles(void **state)
{
    (void)state;
    static const char messages[] = "[{\"role\":\"developer\",\"content\":\"d\"},{\"role\":\"user\",\"content\":\"u\"}]";
    expect(plain, messages, "<system>d<user>u");
    expect(developer, messages, "DEV <developer>d<user>u");
    expect(bw_jinja_chatml, messages, "<|im_start|>system\nd<|im_end|>\n<|im_start|>user\nu<|im_end|>\n");
}

static void learnt(void **state)
{
    (void)state;
    static const struct {
        const char *template;
        bw_chat_habits want;
    } rows[] = {
        {plain, {.shows_tools = true}},
        {items, {.shows_tools = true}},
        {none_and_text, {.null_content = true, .text_arguments = true}},
        {text_only, {.text_arguments = true}},
        {strict, {0}},
        {developer, {.knows_developer = true}},
        {bw_jinja_chatml, {0}},
        {"{% for m in messages if m.role != 'developer' %}{{ m.content }}{% endfor %}", {0}},
        {"{% if messages[0].role != 'system' %}{{ raise_exception('a system message is needed') }}{% endif %}"
         "{{ tools | tojson }}{% for m in messages %}{{ m.content }}{% endfor %}",
         {.shows_tools = true}},
        {"{{ functions.x.y }} tools", {.shows_tools = true}}, /* renders nothing: it is believed */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        bw_err err = {0};
        bw_jinja *jinja = NULL;
        bw_chat_habits got = {0}, want = rows[i].want;
        assert_ok(bw_jinja_parse(rows[i].template, strlen(rows[i].template), &jinja, &err), err);
        assert_ok(bw_chat_learn(jinja, rows[i].template, &got, &err), err);
        if (got.null_content != want.null_content || got.text_arguments != want.text_arguments ||
            got.shows_tools != want.shows_tools || got.knows_developer != want.knows_developer)
            fail_msg("row %zu: %d %d %d %d", i, got.null_content, got.text_arguments, got.shows_tools,
                     got.knows_developer);
        bw_jinja_free(jinja);
    }
}

/* Every allocation in turn fails: BW_E_MEMORY each time, nothing leaks. */
static void no_memory(void **state)
{
    (void)state;
    bw_json_init();
    bw_err err = {0};
    bw_jinja *jinja = NULL;
    assert_ok(bw_jinja_parse(none_and_text, strlen(none_and_text), &jinja, &err), err);
    bw_status status = BW_E_MEMORY;
    for (int64_t n = 1; status != BW_OK; n++) {
        int64_t live = bw_mem_live();
        bw_chat_habits habits = {0};
        bw_mem_fail_at(n);
        status = bw_chat_learn(jinja, none_and_text, &habits, &err);
        bw_mem_fail_at(0);
        assert_true(status == BW_OK || status == BW_E_MEMORY);
        assert_int_equal(bw_mem_live(), live);
        assert_true(status != BW_OK || habits.text_arguments);
    }
    for (status = BW_E_MEMORY; status != BW_OK;) {
        static int64_t n;
        int64_t live = bw_mem_live();
        json_t *list = json_loads(CALL("", TEXT_ARGUMENTS), 0, NULL);
        bw_mem_fail_at(++n);
        status = bw_chat_shape(&(bw_chat_habits){0}, list, &err);
        bw_mem_fail_at(0);
        json_decref(list);
        assert_true(status == BW_OK || status == BW_E_MEMORY);
        assert_int_equal(bw_mem_live(), live);
    }
    bw_jinja_free(jinja);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls),
        cmocka_unit_test(roles),
        cmocka_unit_test(learnt),
        cmocka_unit_test(no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
