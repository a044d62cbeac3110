/* Names of entry points. An entry point is one op for one type, or one pair of types, under the name that Candle's
 * kernel of that meaning has: "affine_f32", "cast_u8_f16", "where_u8_f32". Element types are spelled as dtypes.def
 * spells them (Candle writes fp8_e4m3 in two families and q2_K in one).
 *
 * A naming function fills the part before the last type and that type; `bw-conformance --list` groups by the first.
 */
#ifndef BW_ENTRY_H
#define BW_ENTRY_H

#include "bw_ops.h"

typedef struct bw_entry {
    char prefix[48]; /* "where_u8" */
    char dtype[16];  /* "f32"; empty when the name has none */
} bw_entry;

typedef void bw_entry_fn(const bw_op_call *call, bw_entry *entry);
bw_entry_fn bw_entry_plain;    /* <op>: operations beyond Candle's; their types are those of their tensors */
bw_entry_fn bw_entry_in0;      /* <op>_<in0> */
bw_entry_fn bw_entry_in1;      /* <op>_<in1> */
bw_entry_fn bw_entry_out0;     /* <op>_<out0> */
bw_entry_fn bw_entry_in0_out0; /* <op>_<in0>_<out0> */
bw_entry_fn bw_entry_in0_in1;  /* <op>_<in0>_<in1> */
bw_entry_fn bw_entry_in1_in0;  /* <op>_<in1>_<in0>: an index type, then a value type */

/* The name of a checked call's entry point. */
void bw_op_get_entry(const bw_op_call *call, bw_entry *entry);

#endif
