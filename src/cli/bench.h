/* beeswax bench: what its two files share. */
#ifndef BW_CLI_BENCH_H
#define BW_CLI_BENCH_H

#include "cli.h"

typedef struct bench_settings {
    cli_engine_settings engine;
    int32_t n_prompt, n_generate, n_parallel, n_repetitions;
    bool json, profile, no_bandwidth;
} bench_settings;

/* Runs the model without an engine, with the profile on: one prompt step and some generating steps of one token.
 * Appends the two tables, for people. path: as bw_model_path_find gives it. */
bw_status cli_bench_profile(const bench_settings *settings, const char *path, bw_str *prompt, bw_str *generate,
                            bw_err *err);

#endif
