/* The indexing family: values picked from, or put at, places that a tensor of ids names along one dimension.
 *
 * Values (in0 and out0) are of one of the ten types; ids (in1) are u8, u32, i64, i16 or i32; any strides, broadcast
 * inputs too. params->dim counts from the outermost dimension, 0 to n_dims - 1.
 *
 * An id is valid when it is from 0 to the size of that dimension - 1 and not the largest value of its type. With any
 * other id IS and GATHER write 0, and IA, SA and S skip the value: nothing outside the tensors is read or written.
 * (Candle says so of the largest value only and leaves the others open.)
 *
 *   IS      index_select. in0 x [.., X, ..], in1 ids [J]; out0 [.., J, ..]: y[.., j, ..] = x[.., ids[j], ..].
 *   GATHER  in0 x, in1 ids of as many dimensions, none but params->dim larger than x's; out0 like ids:
 *           y[.., j, ..] = x[.., ids[.., j, ..], ..].
 *   IA      index_add. in0 x [.., J, ..], in1 ids [J]; out0 y [.., Y, ..]: y[.., ids[j], ..] += x[.., j, ..].
 *   SA      scatter_add. in0 x, in1 ids of as many dimensions, none larger than x's, none but params->dim larger than
 *           out0's; y[.., ids[.., j, ..], ..] += x[.., j, ..].
 *   S       scatter. As SA, with = in place of +=.
 *
 * IA, SA and S write into out0, which keeps what it held elsewhere. Several values for one place are taken in order of
 * j: sums are rounded to the type after each addition (integers wrap), and the last of several values stays. out0 may
 * not overlap an input, nor be broadcast. Candle: indexing.cu. */
#ifndef BW_INDEXING_H
#define BW_INDEXING_H

typedef struct bw_indexing_params {
    int32_t dim;
} bw_indexing_params;

#endif
