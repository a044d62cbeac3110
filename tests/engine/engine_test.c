/* The engine from end to end over the fake model: events, ends, limits, the queue, cancelling, closing. */
#include "engine_harness.h"

#include <math.h>
#include <stdatomic.h>

#include "bw_clock.h"
#include "bw_mem.h"

static int setup(void **state)
{
    (void)state;
    fake_reset();
    return 0;
}

static void generates_script(void **state)
{
    (void)state;
    int64_t live = bw_mem_live();
    bw_engine *e = make_engine(256, 2, 64, 0);
    bw_request r = make_request("<script>Good day\xe2\x82\xac.<go>", 50);
    outcome o;
    run_request(e, &r, &o);
    assert_string_equal(o.text.data, "Good day\xe2\x82\xac.");
    assert_int_equal(o.last.type, BW_EVENT_END);
    assert_int_equal(o.last.finish, BW_FINISH_EOS);
    assert_int_equal(o.last.n_generated_tokens, 12);
    assert_int_equal(o.last.n_prompt_tokens, 14);
    assert_int_equal(o.n_tokens, 12);
    assert_int_equal(o.n_events, 10); /* the three bytes of the euro sign come together */
    outcome_deinit(&o);
    r.max_tokens = 4;
    run_request(e, &r, &o);
    assert_string_equal(o.text.data, "Good");
    assert_int_equal(o.last.finish, BW_FINISH_LENGTH);
    outcome_deinit(&o);
    r.max_tokens = 0;
    run_request(e, &r, &o);
    assert_int_equal(o.text.len, 0);
    assert_int_equal(o.last.finish, BW_FINISH_LENGTH);
    assert_int_equal(o.last.n_generated_tokens, 0);
    outcome_deinit(&o);
    bw_engine_free(e);
    assert_int_equal(bw_mem_live(), live);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(generates_script, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
