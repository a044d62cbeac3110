#!/bin/sh
# The table of what every GPU kernel takes, from the compilers' reports beside the code objects.
# usage: tools/kernel_table.sh KERNELS_FOLDER TABLE.tsv
# Occupancy: on AMD what the compiler says, waves for each SIMD; on NVIDIA how many warps a multiprocessor's 65536 registers
# are enough for, of 64. sgpr is - where there are none.
# KERNELS_FOLDER/objects.list, where it is there, names the objects that count; else all that have a report do.
# Fails when a kernel spills registers, uses scratch memory (private memory that lies in video memory) or indexes a private
# array at run time or exchanges between lanes in divergent code, when a report names no kernel or its code object is not there, when there is no kernel at all, and when
# a kernel is in one target's object and not in another's.
set -eu
folder=$1 table=$2
if [ -f "$folder/objects.list" ]; then
    objects=$(cat "$folder/objects.list")
else
    objects=$(cd "$folder" && for f in *.usage; do [ ! -f "$f" ] || echo "${f%.usage}"; done)
fi
for o in $objects; do
    [ -f "$folder/$o" ] || { echo "$o is not there: is its report left from an earlier build?" >&2; exit 1; }
    case $o in *.ptx) continue ;; esac
    grep -q -e 'Function Name:' -e 'Compiling entry function' "$folder/$o.usage" || { echo "$o.usage names no kernel" >&2; exit 1; }
done
{
    printf 'kernel\ttarget\tvgpr\tsgpr\tlds\tspills\tscratch\toccupancy\tfamily\n'
    for o in $objects; do
        case $o in *.ptx) continue ;; esac # ptxas has not counted yet
        target=${o#*.}
        awk -v target="${target%.*}" -v family="${o%%.*}" '
            function value(line) { sub(/ *\[-Rpass.*/, "", line); sub(/.*: */, "", line); return line }
            function flush() { if (kernel != "") printf "%s\t%s\t%s\t%s\t%s\t%d\t%s\t%s\t%s\n", kernel, target, vgpr, sgpr, lds, spills, scratch, occupancy, family; kernel = "" }
            /Function Name:/ { flush(); kernel = value($0); spills = 0; lds = scratch = occupancy = sgpr = 0 }
            / SGPRs:/ { sgpr = value($0) }
            / VGPRs:/ { vgpr = value($0) }
            /ScratchSize/ { scratch = value($0) }
            /Occupancy/ { occupancy = value($0) }
            /Spill:/ { spills += value($0) }
            /LDS Size/ { lds = value($0) }
            /Compiling entry function/ { split($0, part, "\047"); kernel = part[2]; spills = scratch = lds = 0; sgpr = "-" }
            /bytes stack frame/ { scratch = $1; spills = $5 + $9 }
            /Used [0-9]+ registers/ { for (i = 1; i < NF; i++) { if ($i == "Used") vgpr = $(i + 1); if ($(i + 1) == "bytes" && $(i + 2) ~ /smem/) lds = $i }
                each = int((vgpr + 7) / 8) * 8; occupancy = each ? int(2048 / each) : 64; if (occupancy > 64) occupancy = 64; flush() }
            END { flush() }' "$folder/$o.usage"
    done
} >"$table"
bad=0
for o in $objects; do
    [ ! -f "$folder/$o.usage" ] || sed -n -e "s/^Indexed /an indexed private array: $o: /p" -e "s/^Divergent /an exchange in divergent code: $o: /p" "$folder/$o.usage"
done | { ! grep . ; } || bad=1
awk -F '\t' 'NR > 1 { n++; if ($6 != 0 || $7 != 0) { print "spills: " $1 " for " $2 ": " $6 " registers, " $7 " bytes of scratch"; bad = 1 } }
    END { print n + 0 " kernels in the table"; exit bad || n == 0 }' "$table" || bad=1
# the same kernels in every target: of PTX the names are all there is
{
    awk -F '\t' 'NR > 1 { print $9, $2, $1 }' "$table"
    for o in $objects; do
        case $o in *.ptx) ;; *) continue ;; esac
        target=${o#*.}
        sed -n "s/^\.visible \.entry \([A-Za-z0-9_]*\).*/${o%%.*} ${target%.*} \1/p" "$folder/$o"
    done
} | awk '{ targets[$2]; kernels[$1 " " $3]; is_there[$1 " " $3 " " $2] }
    END { for (k in kernels) for (t in targets) if (!(k " " t in is_there)) { print "missing: " k " for " t; bad = 1 } exit bad }' || bad=1
exit $bad
