/* What ROW_SAMPLE is tried with. Where an element's share of the whole begins and ends depends on how an exponential is
 * rounded: relative to the whole at most TOLERANCE. So a random number that falls this near to a border of the token it
 * draws is drawn again, after which any device must give ref's token. */
#include <math.h>

#include "bw_cases.h"

static const double TOLERANCE = 2e-6; /* |logit - largest| / temperature is below 10 where most of the weight lies */

typedef enum values { NORMAL, FEW, RISING, EQUAL, PEAK, MASKED, HUGE_ONES, N_VALUES } values;

static void fill(bw_case_sink *sink, bw_case *c, bw_tensor *x, values v)
{
    bw_case_fill_normal(c, x, 3);
    for (int64_t r = 0; r < x->dims[0] && v != NORMAL; r++) {
        float *row = (float *)x->data + r * x->strides[0];
        int64_t n = x->dims[1], one = bw_cases_between(sink, 0, n - 1);
        for (int64_t i = 0; i < n; i++) {
            float few = (float)bw_cases_between(sink, -3, 0);
            row[i] = v == FEW                                 ? few
                     : v == RISING                            ? 5 * (float)i / (float)n
                     : v == EQUAL                             ? -3.5f
                     : v == PEAK                              ? (i == one ? 1.0f : -200.0f)
                     : v == MASKED && i != one && few < -0.5f ? -INFINITY
                     : v == HUGE_ONES                         ? few * 1e38f
                                                              : row[i];
        }
    }
}

static double weigh(float x, float largest, double temperature, double least)
{
    double w = x < largest ? exp(((double)x - (double)largest) / temperature) : 1;
    return w < least ? 0 : w;
}

/* Whether every device draws the same token: the running sums keep away from the share of the whole, and the weights
 * from the least. */
static bool is_clear(const float *row, int64_t n, double temperature, double least, uint32_t random)
{
    double total = 0, sum = 0;
    float largest = row[0];
    for (int64_t i = 1; i < n; i++)
        largest = row[i] > largest ? row[i] : largest;
    for (int64_t i = 0; i < n; i++) {
        double w = weigh(row[i], largest, temperature, 0);
        if (least > 0 && fabs(w - least) < 1e-5 * least)
            return false;
        total += w < least ? 0 : w;
    }
    double at = random / 4294967296.0, before = at - TOLERANCE;
    int64_t first = -1, last = -1; /* the tokens at either end of what may be rounded to */
    for (int64_t i = 0; i < n && last < 0; i++) {
        sum += weigh(row[i], largest, temperature, least) / total;
        first = first < 0 && sum > (before > 0 ? before : 0) ? i : first;
        last = sum > at + TOLERANCE ? i : last;
    }
    return first >= 0 && (last < 0 ? first == n - 1 : first == last);
}

/* A random number for the row; where none of many is clear, the one in the middle of the row's largest token. */
static uint32_t choose_random(bw_case_sink *sink, const float *row, int64_t n, double temperature, double least)
{
    for (int k = 0; k < 200; k++) {
        uint32_t random = bw_rng_u32(bw_cases_rng(sink));
        if (is_clear(row, n, temperature, least, random))
            return random;
    }
    int64_t most = 0;
    double total = 0, sum = 0;
    for (int64_t i = 1; i < n; i++)
        most = row[i] > row[most] ? i : most;
    for (int64_t i = 0; i < n; i++) {
        double w = weigh(row[i], row[most], temperature, least);
        sum += i < most ? w : i == most ? w / 2 : 0;
        total += w;
    }
    return total > 0 ? (uint32_t)(sum / total * 4294967295.0) : 0; /* NaN is not */
}

typedef struct options {
    int64_t gap;
    double temperature, least; /* temperature below 0: each row its own */
    int n_special;
} options;

static void draw(bw_case_sink *sink, int64_t rows, int64_t n, values v, options o)
{
    bw_case *c =
        bw_case_begin(sink, BW_OP_ROW_SAMPLE, "[%lld, %lld], gap %lld, values %d, T %g, least %g, %d special",
                      (long long)rows, (long long)n, (long long)o.gap, (int)v, o.temperature, o.least, o.n_special);
    bw_tensor *x = bw_case_in_strided(c, BW_F32, 2, (int64_t[]){rows, n}, (int64_t[]){n + o.gap, 1});
    fill(sink, c, x, v);
    bw_case_fill_special(c, x, o.n_special);
    bw_tensor *temperatures = bw_case_in(c, BW_F32, 1, &rows);
    bw_case_fill_uniform(c, temperatures, 0.5, 2);
    bw_tensor *leasts = bw_case_in(c, BW_F32, 1, &rows);
    bw_tensor *randoms = bw_case_in(c, BW_U32, 1, &rows);
    for (int64_t r = 0; r < rows; r++) {
        float *temperature = (float *)temperatures->data + r, *least = (float *)leasts->data + r;
        *temperature = o.temperature < 0 ? *temperature : (float)o.temperature;
        *least = (float)o.least;
        ((uint32_t *)randoms->data)[r] =
            choose_random(sink, (const float *)x->data + r * (n + o.gap), n, (double)*temperature, (double)*least);
    }
    bw_case_out(c, BW_I32, 1, &rows);
    bw_case_out(c, BW_I32, 1, &rows);
    bw_case_exact(c);
    bw_case_run(c);
}

/* One row that is given, with the ends of what a random number can be. */
static void draw_row(bw_case_sink *sink, const char *name, const float *row, int64_t n, float temperature,
                     uint32_t random)
{
    bw_case *c = bw_case_begin(sink, BW_OP_ROW_SAMPLE, "%s, random %u", name, (unsigned)random);
    bw_tensor *x = bw_case_in(c, BW_F32, 2, (int64_t[]){1, n});
    for (int64_t i = 0; i < n; i++)
        ((float *)x->data)[i] = row[i];
    ((float *)bw_case_in(c, BW_F32, 1, (int64_t[]){1})->data)[0] = temperature;
    bw_case_in(c, BW_F32, 1, (int64_t[]){1});
    ((uint32_t *)bw_case_in(c, BW_U32, 1, (int64_t[]){1})->data)[0] = random;
    bw_case_out(c, BW_I32, 1, (int64_t[]){1});
    bw_case_out(c, BW_I32, 1, (int64_t[]){1});
    bw_case_exact(c);
    bw_case_run(c);
}

static void edges(bw_case_sink *sink)
{
    static const uint32_t ends[] = {0, 1, 0x80000000u, 0xffffffffu};
    static const struct {
        const char *name;
        float row[6], temperature;
    } rows[] = {
        {"all alike", {2, 2, 2, 2, 2, 2}, 1},
        {"the ends are masked", {-INFINITY, 1, 0, 0.5f, 1, -INFINITY}, 1},
        {"one is left", {-INFINITY, -INFINITY, -7, -INFINITY, -INFINITY, -INFINITY}, 1},
        {"none is left", {-INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY}, 1},
        {"temperature 0", {0, 3, 1, 3, 3, 2}, 0},
        {"zeros of both signs, temperature 0", {-1, -0.0f, 0, -0.0f, 0, -1e-45f}, 0},
        {"temperature 1e-30", {0, 3, 1, 3, 3.0000002f, 2}, 1e-30f},
        {"temperature 1e-45", {-0.5f, -1, -1, -1, -1, -2}, 1e-45f},
        {"temperature 1000", {-3, 9, 1, 0, 7, 2}, 1000},
        {"a NaN", {0, 3, NAN, 3, 3, 2}, 1},
        {"a NaN of negative sign", {0, 3, -NAN, 3, 3, 2}, 1},
        {"infinity", {0, 3, 1, INFINITY, 3, 2}, 1},
        {"infinity and masked ones", {0, -INFINITY, 1, INFINITY, 3, 2}, 1},
        {"NaN and masked ones", {NAN, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY}, 1},
        {"the largest numbers", {3e38f, -3e38f, -3e38f, -3e38f, 3e38f, -3e38f}, 1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (size_t k = 0; k < sizeof ends / sizeof *ends; k++)
            draw_row(sink, rows[i].name, rows[i].row, 6, rows[i].temperature, ends[k]);
}

static void refuse(bw_case_sink *sink, const char *name, bw_dtype randoms, int64_t n_temperatures, int64_t n_tokens,
                   int64_t n)
{
    bw_case *c = bw_case_begin(sink, BW_OP_ROW_SAMPLE, "%s", name);
    bw_case_in(c, BW_F32, 2, (int64_t[]){3, n});
    bw_case_in(c, BW_F32, 1, &n_temperatures);
    bw_case_in(c, BW_F32, 1, (int64_t[]){3});
    bw_case_in(c, randoms, 1, (int64_t[]){3});
    bw_case_out(c, BW_I32, 1, &n_tokens);
    bw_case_out(c, BW_I32, 1, (int64_t[]){3});
    bw_case_refuse(c);
}

void bw_op_row_sample_cases(bw_case_sink *sink)
{
    static const int64_t sizes[] = {1, 2, 31, 64, 257, 4096, 4097, 9000, 20000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int v = 0; v < N_VALUES; v++)
            draw(sink, 1 + (int64_t)(i + (size_t)v) % 3, sizes[i], (values)v,
                 (options){v == FEW ? 3 : 0, -1, v % 2 ? 0.1 : 0, 0});
    edges(sink);
    draw(sink, 4, 128256, NORMAL, (options){0, -1, 0, 0});
    draw(sink, 2, 128256, EQUAL, (options){0, 1, 0, 0});
    draw(sink, 2, 262144, NORMAL, (options){0, 1, 0.02, 0});
    draw(sink, 0, 100, NORMAL, (options){0, 1, 0, 0});
    draw(sink, 3, 5000, NORMAL, (options){0, 1e-7, 0, 0});
    draw(sink, 2, 5000, NORMAL, (options){0, 1, 1, 0}); /* the largest alone */
    draw(sink, 2, 500, FEW, (options){0, 2, 1, 0});
    for (int k = 0; k < 6; k++)
        draw(sink, 3, k % 2 ? 9000 : 40, (values)(k % 2), (options){k, -1, 0, 1 + k});
    for (int k = 0; k < bw_cases_n_random(sink); k++)
        draw(sink, bw_cases_between(sink, 1, 5), bw_cases_between(sink, 1, 20000),
             (values)bw_cases_between(sink, 0, N_VALUES - 1),
             (options){bw_cases_between(sink, 0, 4), -1, bw_cases_between(sink, 0, 1) ? 0.05 : 0, 0});
    refuse(sink, "randoms i32", BW_I32, 3, 3, 8);
    refuse(sink, "two temperatures", BW_U32, 2, 3, 8);
    refuse(sink, "four tokens", BW_U32, 3, 4, 8);
    refuse(sink, "no logits", BW_U32, 3, 3, 0);
}
