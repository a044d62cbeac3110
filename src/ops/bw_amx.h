/* The shapes of AMX's tiles, as LDTILECFG reads them (Intel Architecture Instruction Set Extensions Programming
 * Reference, chapter 3). */
#ifndef BW_AMX_H
#define BW_AMX_H

#include <stdint.h>

typedef struct bw_amx_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} bw_amx_config;

#endif
