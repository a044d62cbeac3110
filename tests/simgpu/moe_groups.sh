#!/bin/sh
# INDEXED_MOE_FORWARD on the simulated card with many tasks: right, and every type by the kernel for groups (with few, by the
# other one).
# usage: moe_groups.sh BW-CONFORMANCE FOLDER
set -u
folder=$2
rm -rf "$folder"
mkdir -p "$folder" || exit 1
BW_SIM_NAMES=$folder/names
export BW_SIM_NAMES
"$1" --device rocm:0 --quick --cases 160 --op indexed_moe_forward || exit 1
grep -q '^indexed_moe_groups$' "$folder/names" || { echo "no tasks were grouped"; exit 1; }
# indexed_moe_forward_q4k_q8_1 and indexed_moe_grouped_q4_k are of one type
sed -n 's/^indexed_moe_grouped_//p' "$folder/names" | sort >"$folder/grouped"
sed -n 's/^indexed_moe_forward_\(.*\)_q8_1$/\1/p' "$folder/names" | sed 's/^\(q[0-9]\)k$/\1_k/' | sort >"$folder/single"
cmp "$folder/grouped" "$folder/single" || { diff "$folder/grouped" "$folder/single"; exit 1; }
n=$(wc -l <"$folder/grouped")
[ "$n" -gt 20 ] || { echo "only $n types"; exit 1; }
echo "$n types by groups and one by one"
rm -r "$folder"
