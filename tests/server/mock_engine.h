/* Knobs of the mock engine; see mock_engine.c. */
#ifndef BW_MOCK_ENGINE_H
#define BW_MOCK_ENGINE_H

#include "beeswax.h"

/* Set before bw_engine_new. Environment for the mock worker: MOCK_TOKEN_US, MOCK_LOAD_MS. */
extern int mock_token_us; /* time per step */
extern int mock_load_ms;  /* time bw_engine_new takes */
extern int mock_read_ms;  /* time that a prompt of more than 64 KiB takes to become tokens */

/* Sessions that were handed out and not yet freed. */
int mock_live_sessions(void);

#endif
