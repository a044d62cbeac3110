#!/bin/sh
# tools/kernel_table.sh: takes good reports, fails on spills, on none, on stale and on empty ones.
# usage: kernel_table_test.sh tools/kernel_table.sh
set -eu
script=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
refuses() { if "$script" "$folder/kernels" "$folder/table.tsv" >"$folder/log" 2>&1; then echo "taken: $1"; exit 1; fi; }
report() {
    echo "ptxas info    : Compiling entry function 'bw_$1' for 'sm_90'"
    echo "    $2 bytes stack frame, $2 bytes spill stores, $2 bytes spill loads"
    echo "ptxas info    : Used 30 registers, 400 bytes cmem[0]"
}
mkdir "$folder/kernels"
refuses "a folder without reports"
touch "$folder/kernels/a.sm_90.cubin"
report one 0 >"$folder/kernels/a.sm_90.cubin.usage"
"$script" "$folder/kernels" "$folder/table.tsv" | grep -q "^1 kernels"
grep -q "bw_one.sm_90.30" "$folder/table.tsv"
report two 8 >>"$folder/kernels/a.sm_90.cubin.usage"
refuses "a spill"
report one 0 >"$folder/kernels/a.sm_90.cubin.usage"
report old 0 >"$folder/kernels/b.sm_90.cubin.usage"
refuses "a report without its object"
touch "$folder/kernels/b.sm_90.cubin"
: >"$folder/kernels/b.sm_90.cubin.usage"
refuses "a report of nothing"
