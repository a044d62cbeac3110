#!/bin/sh
# Compiles every .hip source and checks the table of registers: a spill, scratch memory, an indexed private array, an exchange
# between lanes in divergent code or a kernel that one target lacks fails. Ends with the size of each target's archive, as it lies in the programs.
# usage: tools/build_kernels.sh BUILD_DIRECTORY [BW_GFX [BW_SM [NAMES]]]    (default and none; see cmake/kernels.cmake)
# NAMES: a file of kernels that programs asked for by name (BW_SIM_NAMES of tests/simgpu): each must be there for every target.
# JOBS in the environment: compilers at a time, else as many as there are processors.
set -eu
CDPATH= cd -- "$(dirname -- "$0")/.."
build=$1 names=${4:-}
command -v llvm-objdump-19 >/dev/null || { echo "build_kernels.sh: llvm-objdump-19 is missing (package llvm-19): indexed arrays and divergent exchanges cannot be looked for" >&2; exit 1; }
cmake -S . -B "$build" -G Ninja -DBW_GFX="${2:-default}" -DBW_SM="${3:-none}" -DBW_SERVER=OFF >/dev/null
ninja -C "$build" -j "${JOBS:-$(nproc)}" bw_kernels bw_kernel_table
tools/kernel_table.sh "$build/kernels" "$build/kernels.tsv"
(cd "$build/kernels" && wc -c ./*.archive)
[ -n "$names" ] || exit 0
sort -u "$names" | awk -F '\t' '
    NR == FNR { if (FNR > 1) { has[$1, $2] = 1; target[$2] = 1 } next }
    { n++; for (t in target) if (!(($1, t) in has)) { print "there is no kernel " $1 " for " t; bad = 1 } }
    END { print n + 0 " kernels that were asked for by name are there for every target"; exit bad || n == 0 }' \
    "$build/kernels.tsv" -
