/* How far counts may lie from what is expected. */
#ifndef CHI_SQUARE_H
#define CHI_SQUARE_H

#include <math.h>
#include <stdint.h>

/* The chi-square value that is exceeded with probability 1e-6 (Wilson and Hilferty's approximation). */
static inline double chi_square_limit(int32_t freedom)
{
    double k = 2.0 / (9.0 * freedom), x = 1 - k + 4.7534 * sqrt(k);
    return freedom * x * x * x;
}

#endif
