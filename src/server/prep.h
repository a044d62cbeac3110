/* Threads that read long requests (JSON, template, tokens) so that those of HTTP never have to. */
#ifndef BW_SERVER_PREP_H
#define BW_SERVER_PREP_H

#include "internal.h"

/* Bodies of at most this many bytes are read where they arrive: that takes less than a millisecond. */
enum { BW_PREP_INLINE_BYTES = 16 * 1024 };

bw_status bw_prep_new(bw_prep **prep, bw_err *err);
/* Have bw_job_prepare called soon. Clients take turns, by bytes. BW_E_FULL: too many wait. */
bw_status bw_prep_add(bw_prep *prep, bw_job *job, bw_err *err);
/* What waits is still prepared (a server that stops refuses it at once); then the threads end. NULL is allowed. */
void bw_prep_stop(bw_prep *prep);
void bw_prep_free(bw_prep *prep);

#endif
