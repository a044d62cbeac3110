/* A raw-socket HTTP client for tests: it sends exactly the bytes it is told to. */
#ifndef BW_TEST_CLIENT_H
#define BW_TEST_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bw_str.h"

typedef struct answer {
    int status; /* 0: the connection ended without one */
    char head[4096];
    bw_str body;     /* chunks joined */
    bool whole;      /* the body came to its proper end */
    int64_t seen_ns; /* when client_mark was there; 0: never */
} answer;

/* A connection to 127.0.0.1 or to a host, or -1. Reads give up after 10 s, or after client_timeout_s. */
int client_connect(uint16_t port);
int client_connect_to(const char *host, uint16_t port);
/* The same from an address of this machine's, such as 127.0.0.9: another client as the server sees it. NULL: any. */
int client_connect_from(const char *source, const char *host, uint16_t port);
extern int client_timeout_s;
/* false when the peer closed. */
bool client_send(int fd, const void *data, size_t n_bytes);
/* Read one answer. stop: end as soon as the body holds this text; NULL = read it all. */
void client_read(int fd, answer *out, const char *stop);
/* Reads it all, and notes when the body first held mark. */
void client_read_marked(int fd, answer *out, const char *mark);
/* A whole exchange on a connection of its own; body NULL: none, else sent as JSON. headers: lines with CRLF, or "". */
void client_ask(uint16_t port, const char *method, const char *path, const char *headers, const char *body,
                answer *out);
void answer_deinit(answer *a);
/* A header's value as an owned string (bw_free), NULL when absent. */
char *answer_header(const answer *a, const char *name);
/* The value of a string member in JSON text, cut out plainly (bw_free); NULL when absent. */
char *json_text(const char *json, const char *key);
/* How often text holds piece. */
int count_text(const char *text, const char *piece);

#endif
