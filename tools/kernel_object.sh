#!/bin/sh
# Compiles one code object; what the compiler says of registers and spills, and what the disassembler finds, is kept beside
# it, and shown when the compiler fails.
# usage: tools/kernel_object.sh REPORT OBJECT OBJDUMP CHECK_LANES COMMAND...
# OBJDUMP: llvm-objdump for an AMD object, "" for others and where it is not installed. It adds a line for each kernel that
# indexes its registers at run time (an array of private memory, kept in registers), uses scratch memory or calls a
# function: `Indexed KERNEL: N instructions`; and what tools/check_lanes.c, as the program CHECK_LANES, says of each that
# exchanges between lanes where some may be off: `Divergent KERNEL: N exchanges ...`.
set -eu
report=$1 object=$2 objdump=$3 check_lanes=$4
shift 4
"$@" 2>"$report" || { cat "$report" >&2; exit 1; }
[ -n "$objdump" ] || exit 0
"$objdump" -d --no-show-raw-insn --no-leading-addr "$object" >"$object.s"
awk '/^(<|[0-9a-f]+ <).*>:$/ { kernel = $NF; gsub(/[<>:]/, "", kernel) }
    /^[ \t]*(v_movrel|s_movrel|s_set_gpr_idx|scratch_|s_swappc)/ { n[kernel]++ }
    END { for (k in n) print "Indexed " k ": " n[k] " instructions" }' "$object.s" | sort >>"$report"
"$check_lanes" <"$object.s" >>"$report" || [ $? = 1 ] # 1: there are some, which kernel_table.sh refuses
rm "$object.s"
