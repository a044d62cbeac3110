#!/bin/sh
# The table of what every GPU kernel takes, from the compilers' reports beside the code objects.
# usage: tools/kernel_table.sh KERNELS_FOLDER TABLE.tsv
# Fails when a kernel spills registers or uses scratch memory (private memory that lies in video memory), when a report
# names no kernel or its code object is not there, and when there is no kernel at all.
set -eu
folder=$1 table=$2
for f in "$folder"/*.usage; do
    [ -f "$f" ] || continue
    [ -f "${f%.usage}" ] || { echo "$f is left from an object that is gone: remove it" >&2; exit 1; }
    grep -q -e 'Function Name:' -e 'Compiling entry function' "$f" || { echo "$f names no kernel" >&2; exit 1; }
done
{
    printf 'kernel\ttarget\tvgpr\tsgpr\tlds\tspills\tscratch\toccupancy\n'
    for f in "$folder"/*.usage; do
        [ -f "$f" ] || continue
        target=$(basename "$f" | sed 's/^[^.]*\.\([^.]*\)\..*/\1/')
        awk -v target="$target" '
            function value(line) { sub(/ *\[-Rpass.*/, "", line); sub(/.*: */, "", line); return line }
            function flush() { if (kernel != "") printf "%s\t%s\t%s\t%s\t%s\t%d\t%s\t%s\n", kernel, target, vgpr, sgpr, lds, spills, scratch, occupancy; kernel = "" }
            /Function Name:/ { flush(); kernel = value($0); spills = 0; lds = scratch = occupancy = sgpr = 0 }
            / SGPRs:/ { sgpr = value($0) }
            / VGPRs:/ { vgpr = value($0) }
            /ScratchSize/ { scratch = value($0) }
            /Occupancy/ { occupancy = value($0) }
            /Spill:/ { spills += value($0) }
            /LDS Size/ { lds = value($0) }
            /Compiling entry function/ { split($0, part, "\047"); kernel = part[2]; spills = scratch = lds = sgpr = occupancy = 0 }
            /bytes stack frame/ { scratch = $1; spills = $5 + $9 }
            /Used [0-9]+ registers/ { for (i = 1; i < NF; i++) { if ($i == "Used") vgpr = $(i + 1); if ($(i + 1) == "bytes" && $(i + 2) ~ /smem/) lds = $i } flush() }
            END { flush() }' "$f"
    done
} >"$table"
awk -F '\t' 'NR > 1 { n++; if ($6 != 0 || $7 != 0) { print "spills: " $1 " for " $2 ": " $6 " registers, " $7 " bytes of scratch"; bad = 1 } }
    END { print n + 0 " kernels in the table"; exit bad || n == 0 }' "$table"
