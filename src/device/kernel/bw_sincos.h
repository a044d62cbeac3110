/* sin and cos of an angle that f32 does not hold: reduced in f64, then Taylor's polynomials in f32. The same on every
 * target. */
#ifndef BW_SINCOS_H
#define BW_SINCOS_H

#include "bw_kernel.h"

/* angle in radians, |angle| < 2^40. Error below 1.5 ulp of f32 (of 1 where the result is small). */
BW_DEVICE void bw_sincos(double angle, float *s, float *c)
{
    const double round = 0x1.8p52; /* adding and taking it away rounds to a whole number */
    double n = bw_fma(angle, 0.63661977236758134308, round) - round; /* quarter turns */
    double r = bw_fma(n, -1.5707963267948965580, angle);             /* pi / 2 in two parts */
    r = bw_fma(n, -6.1232339957367660359e-17, r);
    double turns = bw_fma(n, 0.25, round) - round;
    int quarter = (int)(n - 4 * turns); /* -2 to 2 */
    float x = (float)r, z = x * x;      /* |x| <= pi / 4 */
    float p = bw_fma(z, 2.75573192e-6f, -1.98412698e-4f);
    p = bw_fma(p, z, 8.33333333e-3f);
    p = bw_fma(p, z, -1.66666667e-1f);
    float sine = bw_fma(p * z, x, x);
    float q = bw_fma(z, -2.75573192e-7f, 2.48015873e-5f);
    q = bw_fma(q, z, -1.38888889e-3f);
    q = bw_fma(q, z, 4.16666667e-2f);
    q = bw_fma(q, z, -0.5f);
    float cosine = bw_fma(q, z, 1.0f);
    bool swap = (quarter & 1) != 0;
    float a = swap ? cosine : sine, b = swap ? sine : cosine;
    *s = (quarter & 2) != 0 ? -a : a;
    *c = ((quarter + 1) & 2) != 0 ? -b : b;
}

#endif
