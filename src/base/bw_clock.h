/* Time. Monotonic for durations, wall clock only for what people and other programs read. */
#ifndef BW_CLOCK_H
#define BW_CLOCK_H

#include <stdint.h>

/* Nanoseconds of the monotonic clock. */
int64_t bw_clock_now_ns(void);
/* Seconds since 1970, UTC. */
int64_t bw_clock_unix_s(void);
/* "2025-11-14T10:00:00.000000Z" (RFC 3339), 28 bytes with the NUL. */
void bw_clock_rfc3339(char out[32]);
void bw_clock_sleep_ms(int64_t ms);

#endif
