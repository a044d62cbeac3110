/* SHA-256 (FIPS 180-4), for comparing tokens and naming them in the log. */
#ifndef BW_SERVER_SHA256_H
#define BW_SERVER_SHA256_H

#include <stddef.h>

void bw_sha256(const void *data, size_t n_bytes, unsigned char digest[32]);

#endif
