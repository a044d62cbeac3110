/* Tests: what stands after "is". */
#include "jinja.h"

#define TEST(name) static bool name(jinja_runtime *rt, jinja_value v, jinja_value *arg, jinja_value *out)
#define ANSWER(expression)                                                                                             \
    do {                                                                                                               \
        (void)rt;                                                                                                      \
        (void)arg;                                                                                                     \
        *out = jinja_bool(expression);                                                                                 \
        return true;                                                                                                   \
    } while (0)

TEST(is_defined)
{
    ANSWER(v.kind != JINJA_UNDEFINED);
}

TEST(is_undefined)
{
    ANSWER(v.kind == JINJA_UNDEFINED);
}

TEST(is_none)
{
    ANSWER(v.kind == JINJA_NONE);
}

TEST(is_boolean)
{
    ANSWER(v.kind == JINJA_BOOL);
}

TEST(is_true)
{
    ANSWER(v.kind == JINJA_BOOL && v.b);
}

TEST(is_false)
{
    ANSWER(v.kind == JINJA_BOOL && !v.b);
}

TEST(is_integer)
{
    ANSWER(v.kind == JINJA_INT);
}

TEST(is_float)
{
    ANSWER(v.kind == JINJA_FLOAT);
}

TEST(is_number)
{
    ANSWER(jinja_is_number(v));
}

TEST(is_string)
{
    ANSWER(v.kind == JINJA_STRING);
}

TEST(is_mapping)
{
    ANSWER(v.kind == JINJA_DICT);
}

TEST(is_sequence)
{
    ANSWER(v.kind == JINJA_STRING || v.kind == JINJA_LIST || v.kind == JINJA_TUPLE || v.kind == JINJA_DICT ||
           v.kind == JINJA_RANGE || v.kind == JINJA_UNDEFINED);
}

TEST(is_iterable)
{
    ANSWER(jinja_iterable(v));
}

TEST(is_callable)
{
    ANSWER(v.kind == JINJA_FUNCTION || v.kind == JINJA_MACRO || v.kind == JINJA_LOOP || v.kind == JINJA_JOINER ||
           v.kind == JINJA_UNDEFINED);
}

TEST(is_escaped)
{
    ANSWER(v.kind == JINJA_STRING && v.s->markup);
}

TEST(is_sameas)
{
    ANSWER(jinja_same(v, arg[0]));
}

TEST(is_filter)
{
    ANSWER(v.kind == JINJA_STRING && jinja_find_filter(v.s));
}

TEST(is_test)
{
    ANSWER(v.kind == JINJA_STRING && jinja_find_test(v.s));
}

static bool remainder_is(jinja_runtime *rt, jinja_value v, jinja_value by, int64_t wanted, jinja_value *out)
{
    jinja_value rest;
    bool same;
    if (!jinja_binary(rt, JINJA_MOD, v, by, &rest) || !jinja_equal(rt, rest, jinja_int(wanted), &same))
        return false;
    *out = jinja_bool(same);
    return true;
}

TEST(is_odd)
{
    (void)arg;
    return remainder_is(rt, v, jinja_int(2), 1, out);
}

TEST(is_even)
{
    (void)arg;
    return remainder_is(rt, v, jinja_int(2), 0, out);
}

TEST(is_divisible)
{
    return remainder_is(rt, v, arg[0], 0, out);
}

static bool by_case(jinja_runtime *rt, jinja_value v, jinja_class which, jinja_value *out)
{
    jinja_value s;
    if (!jinja_str(rt, v, &s))
        return false;
    *out = jinja_bool(jinja_has_class(s.s->data, s.s->n_bytes, which));
    return true;
}

TEST(is_lower)
{
    (void)arg;
    return by_case(rt, v, JINJA_IS_LOWER, out);
}

TEST(is_upper)
{
    (void)arg;
    return by_case(rt, v, JINJA_IS_UPPER, out);
}

static bool compared(jinja_runtime *rt, jinja_op op, jinja_value a, jinja_value b, jinja_value *out)
{
    bool holds;
    if (!jinja_compare(rt, op, a, b, &holds))
        return false;
    *out = jinja_bool(holds);
    return true;
}

#define COMPARISON(name, op)                                                                                           \
    TEST(name)                                                                                                         \
    {                                                                                                                  \
        return compared(rt, op, v, arg[0], out);                                                                       \
    }

COMPARISON(is_eq, JINJA_EQ)
COMPARISON(is_ne, JINJA_NE)
COMPARISON(is_lt, JINJA_LT)
COMPARISON(is_le, JINJA_LE)
COMPARISON(is_gt, JINJA_GT)
COMPARISON(is_ge, JINJA_GE)
COMPARISON(is_in, JINJA_IN)

const jinja_builtin jinja_tests[] = {
    {"defined", "", is_defined, NULL},
    {"undefined", "", is_undefined, NULL},
    {"none", "", is_none, NULL},
    {"boolean", "", is_boolean, NULL},
    {"true", "", is_true, NULL},
    {"false", "", is_false, NULL},
    {"integer", "", is_integer, NULL},
    {"float", "", is_float, NULL},
    {"number", "", is_number, NULL},
    {"string", "", is_string, NULL},
    {"mapping", "", is_mapping, NULL},
    {"sequence", "", is_sequence, NULL},
    {"iterable", "", is_iterable, NULL},
    {"callable", "", is_callable, NULL},
    {"escaped", "", is_escaped, NULL},
    {"sameas", "other", is_sameas, NULL},
    {"filter", "", is_filter, NULL},
    {"test", "", is_test, NULL},
    {"odd", "", is_odd, NULL},
    {"even", "", is_even, NULL},
    {"divisibleby", "num", is_divisible, NULL},
    {"lower", "", is_lower, NULL},
    {"upper", "", is_upper, NULL},
    {"in", "seq", is_in, NULL},
    {"==", "/b", is_eq, NULL},
    {"eq", "/b", is_eq, NULL},
    {"equalto", "/b", is_eq, NULL},
    {"!=", "/b", is_ne, NULL},
    {"ne", "/b", is_ne, NULL},
    {"<", "/b", is_lt, NULL},
    {"lt", "/b", is_lt, NULL},
    {"lessthan", "/b", is_lt, NULL},
    {"<=", "/b", is_le, NULL},
    {"le", "/b", is_le, NULL},
    {">", "/b", is_gt, NULL},
    {"gt", "/b", is_gt, NULL},
    {"greaterthan", "/b", is_gt, NULL},
    {">=", "/b", is_ge, NULL},
    {"ge", "/b", is_ge, NULL},
    {0},
};
