#!/bin/sh
# LINEAR on the simulated card with a matrix library that computes plainly (tests/device/fake_blas.c): trials are made, the
# library, whose time is not counted (BW_SIM_CLOCK), is taken, its results are as exact as ours, and the choice is kept.
# usage: linear_library.sh BW-CONFORMANCE FOLDER LIBRARY
set -u
folder=$2
rm -rf "$folder"
mkdir -p "$folder" || exit 1
BW_SIM_NAMES=$folder/names BW_CACHE_DIR=$folder/cache BW_SIM_CLOCK=kernels
export BW_SIM_NAMES BW_CACHE_DIR BW_SIM_CLOCK
"$1" --device rocm:0 --quick --op linear || exit 1
grep -q '^linear_rescale$' "$folder/names" || { echo "the library was never taken"; exit 1; }
rows=$(cat "$folder"/cache/trials/*.txt | grep -c '^[0-9a-f]\{16\} 2$')
[ "$rows" -gt 0 ] || { echo "no choice of the library was kept"; exit 1; }
grep -q "^library $3 " "$folder"/cache/trials/*.txt || { echo "it was not $3"; exit 1; }
echo "the library was taken for $rows shapes"
# what is found while the library lacks memory is not kept
BW_CACHE_DIR=$folder/cache2
FAKE_BLAS_FAIL=hipblasLtMatmul FAKE_BLAS_ERROR=2 "$1" --device rocm:0 --quick --op linear >"$folder/log" 2>&1 ||
    { tail -n 20 "$folder/log"; exit 1; }
grep -q 'no memory for a product' "$folder/log" || { echo "the library did not fail"; exit 1; }
[ ! -e "$folder/cache2/trials" ] || { echo "a choice was kept"; cat "$folder"/cache2/trials/*; exit 1; }
rm -r "$folder"
