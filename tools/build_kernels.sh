#!/bin/sh
# Compiles every .hip source and checks the table of registers: a spill, scratch memory, an indexed private array or a kernel
# that one target lacks fails. Ends with the size of each target's archive, as it lies in the programs.
# usage: tools/build_kernels.sh BUILD_DIRECTORY [BW_GFX [BW_SM]]    (default and none; see cmake/kernels.cmake)
# JOBS in the environment: compilers at a time, else as many as there are processors.
set -eu
cd "$(dirname "$0")/.."
command -v llvm-objdump-19 >/dev/null || { echo "build_kernels.sh: llvm-objdump-19 is missing (package llvm-19): indexed arrays cannot be looked for" >&2; exit 1; }
cmake -S . -B "$1" -G Ninja -DBW_GFX="${2:-default}" -DBW_SM="${3:-none}" -DBW_SERVER=OFF >/dev/null
ninja -C "$1" -j "${JOBS:-$(nproc)}" bw_kernels bw_kernel_table
tools/kernel_table.sh "$1/kernels" "$1/kernels.tsv"
(cd "$1/kernels" && wc -c ./*.archive)
