#!/bin/sh
# tools/kernel_table.sh: takes good reports, fails on spills, on indexed arrays, on none, on stale and on empty ones, and
# where a kernel is missing in one target. tools/kernel_object.sh finds indexed arrays in what a disassembler writes, and
# keeps what bw_check_lanes says of it.
# usage: kernel_table_test.sh tools/kernel_table.sh BW_CHECK_LANES
set -eu
script=$1 check_lanes=$2
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
tab=$(printf '\t')
grep -qx "bw_one${tab}sm_90${tab}30${tab}-${tab}0${tab}0${tab}0${tab}64${tab}a" "$folder/table.tsv"
report two 8 >>"$folder/kernels/a.sm_90.cubin.usage"
refuses "a spill"
report one 0 >"$folder/kernels/a.sm_90.cubin.usage"
report old 0 >"$folder/kernels/b.sm_90.cubin.usage"
refuses "a report without its object"
touch "$folder/kernels/b.sm_90.cubin"
: >"$folder/kernels/b.sm_90.cubin.usage"
refuses "a report of nothing"
rm "$folder"/kernels/b.*
report one 0 | sed s/sm_90/sm_80/ >"$folder/kernels/a.sm_80.cubin.usage"
touch "$folder/kernels/a.sm_80.cubin"
"$script" "$folder/kernels" "$folder/table.tsv" | grep -q "^2 kernels"
report two 0 >>"$folder/kernels/a.sm_80.cubin.usage"
refuses "a kernel that one target lacks"
grep -q "missing: a bw_two for sm_90" "$folder/log"
echo a.sm_90.cubin >"$folder/kernels/objects.list" # the other is no part of the build
"$script" "$folder/kernels" "$folder/table.tsv" | grep -q "^1 kernels"
echo a.ptx_90.ptx >>"$folder/kernels/objects.list"
echo ".visible .entry bw_two(" >"$folder/kernels/a.ptx_90.ptx"
refuses "PTX with other kernels"
echo ".visible .entry bw_one(" >"$folder/kernels/a.ptx_90.ptx"
"$script" "$folder/kernels" "$folder/table.tsv" | grep -q "^1 kernels"

object="$(dirname "$script")/kernel_object.sh"
cat >"$folder/objdump" <<'EOF'
printf '0000000000001900 <bw_good>:\n\tv_mov_b32_e32 v1, v2 // 1900: 0\n\n0000000000001a00 <bw_one>:\n\tv_movrels_b32_e32 v1, v2 // 1a00: 0\n'
printf '\ts_set_gpr_idx_on s4, gpr_idx(SRC0) // 1a04: 0\n'
EOF
cat >"$folder/objdump_lanes" <<'EOF'
printf '0000000000001900 <bw_good>:\n\tds_swizzle_b32 v1, v0 // 1900: 0\n\n0000000000001a00 <bw_one>:\n\tv_cmpx_gt_u32_e32 7, v0 // 1a00: 0\n'
printf '\tds_swizzle_b32 v1, v0 // 1a04: 0\n'
EOF
chmod +x "$folder/objdump" "$folder/objdump_lanes"
# made OBJDUMP: the object's report again, with what is found in what OBJDUMP writes
made() { "$object" "$folder/kernels/a.sm_90.cubin.usage" "$folder/kernels/a.sm_90.cubin" "$1" "$check_lanes" sh -c "printf '%s\n' \"$(report one 0)\" >&2"; }
made "$folder/objdump"
grep -qx "Indexed bw_one: 2 instructions" "$folder/kernels/a.sm_90.cubin.usage"
[ "$(grep -c Indexed "$folder/kernels/a.sm_90.cubin.usage")" = 1 ]
refuses "an indexed private array"
made "$folder/objdump_lanes"
grep -q "^Divergent bw_one: 1 exchange .* 0x1a04: ds_swizzle_b32 v1, v0$" "$folder/kernels/a.sm_90.cubin.usage"
[ "$(grep -c Divergent "$folder/kernels/a.sm_90.cubin.usage")" = 1 ]
refuses "an exchange in divergent code"
if made "true" 2>"$folder/log"; then echo "taken: no disassembly"; exit 1; fi
grep -q "this is no disassembly" "$folder/log"
if "$object" "$folder/report" "$folder/none" "" "" sh -c 'echo why >&2; exit 1' 2>"$folder/log"; then echo "taken: a compiler's failure"; exit 1; fi
grep -qx why "$folder/log"
