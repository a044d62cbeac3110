/* What the kernel lets this process have of the machine: processors, and by its control groups (cgroups v1 and v2)
 * processor time and memory. Owns reading; what is done about it is the callers' business. */
#ifndef BW_LIMITS_H
#define BW_LIMITS_H

#include "bw_err.h"

typedef struct bw_limits {
    int n_processors;          /* that this process may run on (its affinity, which a cpuset narrows); at least 1 */
    double cpu_quota;          /* processors' worth of time, the smallest on the way up from its cgroup; 0 = no limit */
    char cpu_file[256];        /* the file that says cpu_quota; empty = none does */
    int64_t memory_bytes;      /* the smallest limit on that way; -1 = none */
    int64_t memory_free_bytes; /* the least that is left below a limit, file pages that can go counted as left; -1 */
    char memory_file[256];     /* the file that says memory_bytes */
} bw_limits;

/* root: "" for this system; else a folder in whose proc and sys files are looked for (tests, other systems' trees); the
 * processors are this system's in any case. Whatever cannot be read is no limit. */
void bw_limits_read(const char *root, bw_limits *limits);
/* Threads that compute without being held back: one for each processor, but no more than the quota's worth, rounded to
 * the nearest: half a processor more is worth a thread that pauses, less is not. At least 1. */
int bw_limits_threads(const bw_limits *limits);

#endif
