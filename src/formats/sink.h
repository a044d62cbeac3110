/* A file that is written whole or not at all: to a new NAME.tmp, flushed to the disk, then renamed. Private to
 * formats/. */
#ifndef BW_FORMATS_SINK_H
#define BW_FORMATS_SINK_H

#include "bw_err.h"

typedef struct bw_sink {
    int fd;
    char *path, *temporary;
    unsigned char *buffer;
    size_t used;
    uint64_t written; /* bytes put so far */
} bw_sink;

/* On failure nothing is left to release. */
bw_status bw_sink_open(bw_sink *sink, const char *path, bw_err *err);
bw_status bw_sink_put(bw_sink *sink, const void *bytes, size_t n_bytes, bw_err *err);
bw_status bw_sink_put_zeros(bw_sink *sink, uint64_t n_bytes, bw_err *err);
/* Flush, rename, release; on failure the temporary file is removed. */
bw_status bw_sink_commit(bw_sink *sink, bw_err *err);
/* Remove the temporary file and release. */
void bw_sink_abort(bw_sink *sink);

#endif
