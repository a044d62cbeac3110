/* Rotary position embeddings (Su et al., arXiv:2104.09864): what a model says of them, and the frequencies that follow.
 * Scalings: linear position interpolation (Chen et al., arXiv:2306.15595), Llama 3.1's band-wise one (as in Hugging
 * Face's modeling_rope_utils, rope_type "llama3"), YaRN (Peng et al., arXiv:2309.00071).
 */
#include <math.h>
#include <string.h>

#include "model.h"

static bw_status scaling_by_name(const bw_source *source, const char *name, bw_rope_config *rope, bw_err *err)
{
    if (strcmp(name, "none") == 0 || strcmp(name, "default") == 0)
        rope->scaling = BW_ROPE_NONE;
    else if (strcmp(name, "linear") == 0)
        rope->scaling = BW_ROPE_LINEAR;
    else if (strcmp(name, "llama3") == 0)
        rope->scaling = BW_ROPE_LLAMA3;
    else if (strcmp(name, "yarn") == 0)
        rope->scaling = BW_ROPE_YARN;
    else {
        char shown[BW_NAME_SHOWN];
        return bw_fail(err, BW_E_UNSUPPORTED,
                       "%s: rope scaling \"%s\" is not supported; none, linear, llama3 and yarn are", source->path,
                       bw_name_show(shown, name, strlen(name)));
    }
    return BW_OK;
}

/* What converters write beside "yarn". */
static bw_status configure_gguf_yarn(const bw_source *source, bw_rope_config *rope, bw_err *err)
{
    double extrapolation = 1, log_multiplier = 0;
    BW_TRY(
        bw_source_get_f64(source, "rope.scaling.yarn_attn_factor", NULL, false, 0, 1e6, &rope->attention_factor, err));
    BW_TRY(bw_source_get_f64(source, "rope.scaling.yarn_beta_fast", NULL, false, 0, 1e6, &rope->beta_fast, err));
    BW_TRY(bw_source_get_f64(source, "rope.scaling.yarn_beta_slow", NULL, false, 0, 1e6, &rope->beta_slow, err));
    BW_TRY(bw_source_get_f64(source, "rope.scaling.yarn_ext_factor", NULL, false, -1e6, 1e6, &extrapolation, err));
    BW_TRY(bw_source_get_f64(source, "rope.scaling.yarn_log_multiplier", NULL, false, -1e6, 1e6, &log_multiplier, err));
    if ((extrapolation >= 0 && extrapolation != 1) || log_multiplier != 0)
        return bw_fail(err, BW_E_UNSUPPORTED,
                       "%s: rope.scaling.yarn_ext_factor %g and yarn_log_multiplier %g are not supported; 1 and 0 are",
                       source->path, extrapolation, log_multiplier);
    return BW_OK;
}

static bw_status configure_gguf(const bw_source *source, bw_rope_config *rope, bw_err *err)
{
    int64_t n_rot = rope->n_rot, original = rope->n_ctx_original;
    BW_TRY(bw_source_get_i64(source, "rope.dimension_count", NULL, false, 0, rope->n_rot, &n_rot, err));
    rope->n_rot = (int32_t)n_rot;
    BW_TRY(bw_source_get_f64(source, "rope.freq_base", NULL, false, 1, 1e12, &rope->base, err));
    double factor = 0; /* 0 = none; the older key counts where the newer one is absent */
    BW_TRY(bw_source_get_f64(source, "rope.scale_linear", NULL, false, 0, 1e6, &factor, err));
    BW_TRY(bw_source_get_f64(source, "rope.scaling.factor", NULL, false, 0, 1e6, &factor, err));
    if (factor > 0)
        rope->factor = factor;
    BW_TRY(bw_source_get_f64(source, "rope.scaling.attn_factor", NULL, false, 0, 1e6, &rope->attention_multiply, err));
    BW_TRY(
        bw_source_get_i64(source, "rope.scaling.original_context_length", NULL, false, 0, INT32_MAX, &original, err));
    rope->n_ctx_original = (int32_t)original;
    BW_TRY(configure_gguf_yarn(source, rope, err));
    char key[96];
    snprintf(key, sizeof key, "%s.rope.scaling.type", source->architecture);
    bw_gguf_string type;
    bool found = false;
    BW_TRY(bw_gguf_get_string(source->gguf, key, &type, &found, err));
    if (found) {
        char name[32];
        snprintf(name, sizeof name, "%.*s", (int)(type.n_bytes < 31 ? type.n_bytes : 31), type.data);
        BW_TRY(scaling_by_name(source, name, rope, err));
    } else if (factor > 0) {
        rope->scaling = BW_ROPE_LINEAR;
    }
    return BW_OK;
}

static bw_status number(const bw_source *source, const json_t *object, const char *name, double min, double *out,
                        bw_err *err)
{
    const json_t *value = json_object_get(object, name);
    if (!value || json_is_null(value))
        return BW_OK;
    double v = json_number_value(value);
    if (!json_is_number(value) || !(v >= min && v <= 1e12))
        return bw_fail(err, BW_E_FORMAT, "%s: config.json: rope %s is not a sensible number", source->path, name);
    *out = v;
    return BW_OK;
}

/* What transformers' yarn takes besides: attention_factor follows from mscale and mscale_all_dim where it is not given
 * itself. */
static bw_status configure_json_yarn(const bw_source *source, const json_t *scaling, bw_rope_config *rope, bw_err *err)
{
    double scale = 0, scale_all = 0;
    BW_TRY(number(source, scaling, "mscale", 0, &scale, err));
    BW_TRY(number(source, scaling, "mscale_all_dim", 0, &scale_all, err));
    if (json_is_false(json_object_get(scaling, "truncate")))
        return bw_fail(err, BW_E_UNSUPPORTED, "%s: config.json: rope truncate false is not supported", source->path);
    if (rope->scaling == BW_ROPE_YARN && rope->attention_factor == 0 && scale > 0 && scale_all > 0 && rope->factor > 1)
        rope->attention_factor = (0.1 * scale * log(rope->factor) + 1) / (0.1 * scale_all * log(rope->factor) + 1);
    return BW_OK;
}

static bw_status configure_json(const bw_source *source, const char *kind, bw_rope_config *rope, bw_err *err)
{
    double original = rope->n_ctx_original, partial = 1;
    BW_TRY(number(source, source->text, "rope_theta", 1, &rope->base, err));
    BW_TRY(number(source, source->text, "partial_rotary_factor", 0, &partial, err));
    const json_t *scaling = json_object_get(source->text, "rope_parameters");
    if (!json_is_object(scaling))
        scaling = json_object_get(source->text, "rope_scaling");
    if (kind && json_is_object(json_object_get(scaling, kind)))
        scaling = json_object_get(scaling, kind);
    if (json_is_object(scaling)) {
        const char *type = json_string_value(json_object_get(scaling, "rope_type"));
        if (!type)
            type = json_string_value(json_object_get(scaling, "type"));
        if (type)
            BW_TRY(scaling_by_name(source, type, rope, err));
        BW_TRY(number(source, scaling, "rope_theta", 1, &rope->base, err));
        BW_TRY(number(source, scaling, "partial_rotary_factor", 0, &partial, err));
        BW_TRY(number(source, scaling, "factor", 0, &rope->factor, err));
        BW_TRY(number(source, scaling, "low_freq_factor", 0, &rope->low_freq_factor, err));
        BW_TRY(number(source, scaling, "high_freq_factor", 0, &rope->high_freq_factor, err));
        BW_TRY(number(source, scaling, "beta_fast", 0, &rope->beta_fast, err));
        BW_TRY(number(source, scaling, "beta_slow", 0, &rope->beta_slow, err));
        BW_TRY(number(source, scaling, "attention_factor", 0, &rope->attention_factor, err));
        BW_TRY(number(source, scaling, "original_max_position_embeddings", 1, &original, err));
        BW_TRY(configure_json_yarn(source, scaling, rope, err));
    }
    if (original > INT32_MAX || partial > 1)
        return bw_fail(err, BW_E_FORMAT, "%s: config.json: rope parameters are out of range", source->path);
    rope->n_ctx_original = (int32_t)original;
    rope->n_rot = (int32_t)(rope->n_rot * partial) / 2 * 2;
    return BW_OK;
}

bw_status bw_model_configure_rope(const bw_source *source, const char *kind, bw_rope_config *rope, bw_err *err)
{
    rope->factor = 1;
    rope->low_freq_factor = 1;
    rope->high_freq_factor = 4;
    rope->beta_fast = 32;
    rope->beta_slow = 1;
    rope->attention_factor = rope->attention_multiply = 0;
    BW_TRY(source->gguf ? configure_gguf(source, rope, err) : configure_json(source, kind, rope, err));
    if (rope->n_rot % 2 != 0)
        return bw_fail(err, BW_E_FORMAT, "%s: an odd number (%d) of rotated dimensions", source->path, rope->n_rot);
    if (rope->scaling == BW_ROPE_YARN && !(rope->base > 1 && rope->beta_fast > 0 && rope->beta_slow > 0))
        return bw_fail(err, BW_E_FORMAT, "%s: YaRN needs a rope base above 1, beta_fast and beta_slow above 0",
                       source->path);
    if (rope->scaling != BW_ROPE_NONE && !(rope->factor > 0))
        return bw_fail(err, BW_E_FORMAT, "%s: rope scaling without a factor above 0", source->path);
    if ((rope->scaling == BW_ROPE_YARN || rope->scaling == BW_ROPE_LLAMA3) && rope->n_ctx_original < 1)
        return bw_fail(err, BW_E_FORMAT, "%s: rope scaling without the original context length", source->path);
    if (rope->scaling == BW_ROPE_LLAMA3 && !(rope->high_freq_factor > rope->low_freq_factor))
        return bw_fail(err, BW_E_FORMAT, "%s: rope high_freq_factor must be above low_freq_factor", source->path);
    return BW_OK;
}

static const double two_pi = 6.283185307179586;

static double scale_llama3(const bw_rope_config *rope, double freq)
{
    double wavelength = two_pi / freq, original = rope->n_ctx_original;
    if (wavelength < original / rope->high_freq_factor)
        return freq;
    if (wavelength > original / rope->low_freq_factor)
        return freq / rope->factor;
    double smooth = (original / wavelength - rope->low_freq_factor) / (rope->high_freq_factor - rope->low_freq_factor);
    return (1 - smooth) * freq / rope->factor + smooth * freq;
}

/* The dimension at which a full turn happens `rotations` times within the original context. */
static double yarn_dimension(const bw_rope_config *rope, double rotations)
{
    return rope->n_rot * log(rope->n_ctx_original / (rotations * two_pi)) / (2 * log(rope->base));
}

static double scale_yarn(const bw_rope_config *rope, double freq, int i)
{
    double low = floor(yarn_dimension(rope, rope->beta_fast)), high = ceil(yarn_dimension(rope, rope->beta_slow));
    low = low < 0 ? 0 : low;
    high = high > rope->n_rot - 1 ? rope->n_rot - 1 : high;
    if (high <= low)
        high = low + 0.001;
    double ramp = (i - low) / (high - low);
    ramp = ramp < 0 ? 0 : ramp > 1 ? 1 : ramp;
    return freq / rope->factor * ramp + freq * (1 - ramp);
}

void bw_rope_compute_inv_freq(const bw_rope_config *rope, const float *divisors, float *inv_freq, float *magnitude)
{
    for (int i = 0; i < rope->n_rot / 2; i++) {
        double freq = pow(rope->base, -2.0 * i / rope->n_rot);
        if (rope->scaling == BW_ROPE_LINEAR)
            freq /= rope->factor;
        else if (rope->scaling == BW_ROPE_LLAMA3)
            freq = scale_llama3(rope, freq);
        else if (rope->scaling == BW_ROPE_YARN)
            freq = scale_yarn(rope, freq, i);
        inv_freq[i] = (float)(divisors ? freq / (double)divisors[i] : freq);
    }
    *magnitude = 1;
    if (rope->scaling == BW_ROPE_YARN && rope->attention_factor > 0)
        *magnitude = (float)rope->attention_factor;
    else if (rope->scaling == BW_ROPE_YARN && rope->factor > 1)
        *magnitude = (float)(0.1 * log(rope->factor) + 1);
    if (rope->attention_multiply > 0)
        *magnitude *= (float)rope->attention_multiply;
}
