/* What a device draws (ROW_SAMPLE by the engine's random numbers) against what the host's sampler draws: the same
 * tokens from the same seed, but for borders between two; the frequencies that softmax, temperature and min-p say; and
 * the same again. BW_TEST_DEVICE names the device, cpu:0. (A simulated card draws a few hundred tokens a second.) */
#include "../bw_test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bw_plan.h"
#include "bw_sampler.h"
#include "chi_square.h"

enum { VOCAB = 120, DRAWS = 20000, FEWER_DRAWS = 5000, SIM_DRAWS = 4000, SIM_FEWER_DRAWS = 2000, AT_ONCE = 1000 };

static bw_device *device;
static float row[VOCAB];

static int open_device(void **state)
{
    (void)state;
    bw_err err = {0};
    bw_rng rng;
    const char *name = getenv("BW_TEST_DEVICE");
    assert_ok(bw_device_open(name ? name : "cpu:0", 2, &device, &err), err);
    bw_rng_init(&rng, 9);
    for (int32_t i = 0; i < VOCAB; i++)
        row[i] = (float)bw_rng_normal(&rng) * 1.5f;
    return 0;
}

static int close_device(void **state)
{
    (void)state;
    bw_device_close(device);
    return 0;
}

/* An input of the plan: where the device has it. */
typedef struct input {
    bw_value value;
    void *host;
    size_t n_bytes;
    bw_buffer buffer;
} input;

static void bind(bw_plan *plan, input *in)
{
    bw_err err = {0};
    assert_ok(device->vtable->alloc(device, in->n_bytes, BW_MEMORY_DENSE, "an input", &in->buffer, &err), err);
    bw_plan_bind(plan, in->value, in->buffer.data);
}

/* n tokens, a multiple of AT_ONCE, by the device. */
static void draw_there(const bw_sampling *options, const uint32_t *randoms, int32_t *tokens, int32_t n)
{
    bw_err err = {0};
    bw_plan *plan;
    static float rows[AT_ONCE * VOCAB], temperatures[AT_ONCE], leasts[AT_ONCE];
    static uint32_t some[AT_ONCE];
    static int32_t finite[AT_ONCE];
    for (size_t i = 0; i < AT_ONCE; i++) {
        memcpy(rows + i * VOCAB, row, sizeof row);
        temperatures[i] = options->temperature;
        leasts[i] = options->min_p;
    }
    assert_ok(bw_plan_new(device, (int64_t[BW_DIM_COUNT]){AT_ONCE}, NULL, &plan, &err), err);
    int64_t dims[2] = {BW_DIM_TOKENS, VOCAB};
    input in[4] = {{bw_plan_input(plan, BW_F32, 2, dims), rows, sizeof rows, {0}},
                   {bw_plan_input(plan, BW_F32, 1, dims), temperatures, sizeof temperatures, {0}},
                   {bw_plan_input(plan, BW_F32, 1, dims), leasts, sizeof leasts, {0}},
                   {bw_plan_input(plan, BW_U32, 1, dims), some, sizeof some, {0}}};
    bw_value out[2] = {bw_plan_temp(plan, BW_I32, 0, 1, dims), bw_plan_temp(plan, BW_I32, 0, 1, dims)};
    for (int i = 0; i < 2; i++)
        bw_plan_keep(plan, out[i]);
    bw_plan_call(plan, BW_OP_ROW_SAMPLE, 4, (bw_value[]){in[0].value, in[1].value, in[2].value, in[3].value}, 2, out,
                 NULL, 0);
    assert_ok(bw_plan_finish(plan, &err), err);
    for (int i = 0; i < 4; i++)
        bind(plan, &in[i]);
    for (int32_t begin = 0; begin < n; begin += AT_ONCE) {
        memcpy(some, randoms + begin, sizeof some);
        for (int i = 0; i < 4; i++)
            assert_ok(device->vtable->upload(device, in[i].buffer.data, in[i].host, in[i].n_bytes, &err), err);
        assert_ok(bw_plan_run(plan, (int64_t[BW_DIM_COUNT]){AT_ONCE}, &err), err);
        assert_ok(device->vtable->download(device, tokens + begin, bw_plan_data(plan, out[0]), sizeof finite, &err),
                  err);
        assert_ok(device->vtable->download(device, finite, bw_plan_data(plan, out[1]), sizeof finite, &err), err);
        for (int i = 0; i < AT_ONCE; i++)
            assert_int_equal(finite[i], 1);
    }
    for (int i = 0; i < 4; i++)
        device->vtable->release(device, &in[i].buffer);
    bw_plan_free(plan);
}

/* Against the probabilities themselves; what is expected less than 20 times counts together. */
static void check_frequencies(const bw_sampling *o, const int32_t *tokens, int32_t n, const char *who)
{
    double p[VOCAB], total = 0, most = -INFINITY, chi = 0, rest_p = 0, rest_n = 0;
    int64_t counts[VOCAB] = {0};
    int32_t freedom = -1;
    for (int32_t i = 0; i < n; i++) {
        assert_in_range(tokens[i], 0, VOCAB - 1);
        counts[tokens[i]]++;
    }
    for (int i = 0; i < VOCAB; i++)
        most = (double)row[i] > most ? (double)row[i] : most;
    for (int i = 0; i < VOCAB; i++) {
        double w = exp(((double)row[i] - most) / (double)o->temperature);
        p[i] = w < (double)o->min_p ? 0 : w;
        total += p[i];
    }
    for (int i = 0; i < VOCAB; i++) {
        double expected = p[i] / total * n, got = (double)counts[i];
        assert_true(p[i] > 0 || counts[i] == 0);
        rest_p += expected < 20 ? expected : 0;
        rest_n += expected < 20 ? got : 0;
        chi += expected < 20 ? 0 : (got - expected) * (got - expected) / expected;
        freedom += expected >= 20;
    }
    if (rest_p > 5) {
        chi += (rest_n - rest_p) * (rest_n - rest_p) / rest_p;
        freedom++;
    }
    assert_true(freedom > 8);
    if (chi > chi_square_limit(freedom))
        fail_msg("%s: chi-square %f of %d degrees of freedom", who, chi, (int)freedom);
}

static void as_the_host_draws(void **state)
{
    (void)state;
    static const bw_sampling options[] = {{.temperature = 1, .top_p = 1, .repetition_penalty = 1},
                                          {.temperature = 1.4f, .top_p = 1, .min_p = 0.05f, .repetition_penalty = 1}};
    static uint32_t randoms[DRAWS];
    static int32_t there[DRAWS], again[AT_ONCE], here[DRAWS];
    bw_err err = {0};
    bw_sample_scratch scratch;
    assert_ok(bw_sample_scratch_init(&scratch, VOCAB, &err), err);
    for (size_t k = 0; k < sizeof options / sizeof *options; k++) {
        bw_sampling o = options[k];
        bw_sampler on_host, on_device;
        o.has_seed = true;
        o.seed = 100 + k;
        assert_ok(bw_sampler_init(&on_host, &o, VOCAB, 16, &err), err);
        assert_ok(bw_sampler_init(&on_device, &o, VOCAB, 16, &err), err);
        assert_true(bw_sampler_draws_whole(&on_device));
        int32_t unlike = 0, n = k == 0 ? DRAWS : FEWER_DRAWS;
        if (getenv("BW_HIP_LIBRARY"))
            n = k == 0 ? SIM_DRAWS : SIM_FEWER_DRAWS;
        for (int32_t i = 0; i < n; i++) {
            bw_sample sample;
            assert_ok(bw_sampler_sample(&on_host, &scratch, row, -1, &sample, &err), err);
            here[i] = sample.token;
            randoms[i] = bw_sampler_next_random(&on_device);
        }
        draw_there(&o, randoms, there, n);
        draw_there(&o, randoms, again, AT_ONCE);
        assert_memory_equal(there, again, AT_ONCE * sizeof *there);
        for (int32_t i = 0; i < n; i++)
            unlike += here[i] != there[i];
        if (unlike > 5) /* each of 120 borders is unsure by less than 1e-6: 2.4 are expected at the very most */
            fail_msg("options %zu: %d of %d tokens are not the host's", k, (int)unlike, (int)n);
        check_frequencies(&o, here, n, "the host");
        check_frequencies(&o, there, n, "the device");
        bw_sampler_deinit(&on_host);
        bw_sampler_deinit(&on_device);
    }
    bw_sample_scratch_deinit(&scratch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(as_the_host_draws)};
    return cmocka_run_group_tests(tests, open_device, close_device);
}
