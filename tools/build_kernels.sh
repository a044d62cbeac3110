#!/bin/sh
# Compiles every .hip source for the default AMD targets and checks the table of registers: a spill fails.
# usage: tools/build_kernels.sh BUILD_DIRECTORY
set -eu
cd "$(dirname "$0")/.."
cmake -S . -B "$1" -G Ninja -DBW_GFX=default -DBW_SM=none -DBW_SERVER=OFF >/dev/null
ninja -C "$1" bw_kernels bw_kernel_table
tools/kernel_table.sh "$1/kernels" "$1/kernels.tsv"
