/* Errors: a status from errors.def and one sentence. Owns how they are filled; refuses to print or exit. */
#ifndef BW_ERR_H
#define BW_ERR_H

#include "beeswax.h"

/* Fill err (NULL allowed) with a sentence and return status. A sentence names the file, tensor or field, the numbers
 * and what to do. */
bw_status bw_fail(bw_err *err, bw_status status, const char *format, ...) BW_PRINTF(3, 4);
/* BW_E_MEMORY with the number of bytes that could not be had and what they were for. */
bw_status bw_fail_memory(bw_err *err, size_t n_bytes, const char *what);
/* BW_E_IO with the text of the errno value. */
bw_status bw_fail_errno(bw_err *err, int errnum, const char *format, ...) BW_PRINTF(3, 4);
/* Put "context: " in front of the sentence that is there already; returns err's status. */
bw_status bw_err_prefix(bw_err *err, const char *format, ...) BW_PRINTF(2, 3);

/* Return from the calling function when an expression's status is not BW_OK. */
#define BW_TRY(expression)                                                                                             \
    do {                                                                                                               \
        bw_status bw_try_status = (expression);                                                                        \
        if (bw_try_status != BW_OK)                                                                                    \
            return bw_try_status;                                                                                      \
    } while (0)

#endif
