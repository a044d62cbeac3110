/* Those who mean a server ill while others use it: what bench/soak runs beside its clients. Each kind comes from
 * loopback addresses of its own, and at a lower priority than the clients: its own machine is not what is measured. */
#ifndef BW_SOAK_ATTACK_H
#define BW_SOAK_ATTACK_H

#include <stdbool.h>
#include <stdint.h>

typedef enum attack_kind {
    ATTACK_CROWD, /* connections that pipeline GET /metrics and never read an answer */
    ATTACK_LONG,  /* clients that send prompts of 2 MB, one after the other */
    ATTACK_JOBS,  /* clients that create 256 jobs at a time and never ask for one */
    ATTACK_KINDS
} attack_kind;

extern const char *const attack_names[ATTACK_KINDS];

typedef struct attack_options {
    const char *host;
    uint16_t port;
    const char *headers; /* further header lines with CRLF; "" = none */
    bool own_addresses;
    int n[ATTACK_KINDS]; /* connections, clients, clients; 0 = not this kind */
} attack_options;

typedef struct attack_counts {
    int64_t n_sent[ATTACK_KINDS];   /* requests; of a crowd those whose bytes were taken */
    int64_t n_ok[ATTACK_KINDS];     /* answered 200 or 202; a crowd never sees an answer */
    int64_t n_4xx[ATTACK_KINDS];    /* answered that the request is wrong, too large, one too many */
    int64_t n_5xx[ATTACK_KINDS];    /* 503 and its like */
    int64_t n_closed[ATTACK_KINDS]; /* connections that the server ended without an answer */
} attack_counts;

typedef struct attack attack;
/* NULL without memory. */
attack *attack_start(const attack_options *options);
void attack_stop(attack *a, attack_counts *counts);

#endif
