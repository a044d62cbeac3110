/* The sample family: what choosing a token needs of rows of logits, so that the rows themselves need not leave the
 * device. logits f32 [O, V], V from 1 to 2^31 - 1; rows may be strided.
 *
 * Order: the larger logit first, then the smaller index; 0 and -0 are equal. A NaN stands by its bits above infinity
 * (sign bit 0) or below -infinity (1), which makes every result one of its row's even where the row is not finite.
 *
 * ROW_ARGMAX: in logits; out tokens i32 [O]: the first in that order; finite i32 [O]: 1 where the row has no NaN and no
 * infinity, else 0. No params.
 *
 * ROW_TOP_K: in logits, temperatures f32 [O] (each above 0: the caller's duty); out values f32 [O, K] and tokens
 * i32 [O, K], 1 <= K <= V: the K first, in order; sums f32 [O, BW_ROW_SUMS]: see the constants. Sums and largest of a
 * row that is not finite are 0. No params. With it: top-k of at most K, min-p and top-p are exact as long as the last
 * of the K would be dropped (weights relative to BW_ROW_WEIGHT), and log-probabilities are value - largest -
 * log(BW_ROW_LIKELIHOOD's sum).
 *
 * ROW_SAMPLE: in logits, temperatures f32 [O] (0 or above), leasts f32 [O] (min-p, 0 to 1; 0: none), randoms u32 [O]
 * (each uniform); out tokens i32 [O], finite i32 [O] as ROW_ARGMAX's. No params. A token weighs
 * e^((logit - largest) / temperature), the largest ones 1 at any temperature, and nothing below the row's least. In the
 * order of tokens, the weights' running sum first exceeds random / 2^32 of the whole at the token that is drawn; of
 * the weights what lies below BW_SAMPLE_UNIT may be left out, twice that for rows of 2^21 and so on. With a random of 0
 * and temperature 0 it is ROW_ARGMAX's token, where there is one. A token that weighs nothing (a logit of -infinity) is
 * never drawn. A row that has a NaN, +infinity or no finite number gives -1.
 */
#ifndef BW_SAMPLE_H
#define BW_SAMPLE_H

enum {
    BW_ROW_LARGEST,    /* the largest logit */
    BW_ROW_WEIGHT,     /* sum over the row of e^((logit - largest) / temperature) */
    BW_ROW_LIKELIHOOD, /* sum over the row of e^(logit - largest) */
    BW_ROW_FINITE,     /* 1 or 0, as above */
    BW_ROW_SUMS
};

#endif
