#!/bin/sh
# Compiles every .hip source for AMD targets and checks the table of registers: a spill fails. With NAMES, a file of
# kernels that programs asked for by name (BW_SIM_NAMES of tests/simgpu), each must be there for every target.
# usage: tools/build_kernels.sh BUILD_DIRECTORY [TARGETS [NAMES]]     (TARGETS: as BW_GFX, "default")
set -eu
cd "$(dirname "$0")/.."
build=$1 targets=${2:-default} names=${3:-}
cmake -S . -B "$build" -G Ninja -DBW_GFX="$targets" -DBW_SM=none -DBW_SERVER=OFF >/dev/null
ninja -C "$build" bw_kernels bw_kernel_table
tools/kernel_table.sh "$build/kernels" "$build/kernels.tsv"
[ -n "$names" ] || exit 0
sort -u "$names" | awk -F '\t' '
    NR == FNR { if (FNR > 1) { has[$1, $2] = 1; target[$2] = 1 } next }
    { n++; for (t in target) if (!(($1, t) in has)) { print "there is no kernel " $1 " for " t; bad = 1 } }
    END { print n + 0 " kernels that were asked for by name are there for every target"; exit bad || n == 0 }' \
    "$build/kernels.tsv" -
