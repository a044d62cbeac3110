#!/bin/bash
# Executes AMD code objects without a card, on an emulator that stands in for libamdhip64: every operation's quick cases against
# the reference, or the tokens of a whole model against the CPU's.
# usage: tools/emulate.sh BUILD KERNELS TARGET [FAMILY...]
#        tools/emulate.sh BUILD KERNELS TARGET --model MODEL
# BUILD: a build folder with bin/bw-conformance and tests/lm_argmax, with or without kernels of its own. KERNELS: a folder of
# FAMILY.TARGET.hsaco (tools/build_kernels.sh FOLDER leaves them in FOLDER/kernels). TARGET: gfx1100, gfx1201, gfx90a or gfx942.
# The emulator is no part of this project. BW_EMULATOR names its folder, else ../shared/emu-proto beside the checkout: its
# build.sh makes a libamdhip64.so, and EMU_CARD says which target it is. It lies in BUILD/emulator, built when its sources
# change. An active lane that reads another one that is off fails too (EMU_LANES).
# Environment: JOBS, families at a time (as many as processors); CASES, --quick unless set (empty: all, some 15 minutes).
set -u -o pipefail
export LC_ALL=C.UTF-8
[ $# -ge 3 ] && [ -d "$1" ] && [ -d "$2" ] || { sed -n '2,14s/^# \{0,1\}//p' "$0" >&2; exit 2; }
build=$(realpath "$1") kernels=$(realpath "$2") target=$3 root=$(realpath "$(dirname -- "$0")/..")
shift 3
emulator=${BW_EMULATOR:-$root/../shared/emu-proto}
[ -x "$emulator/build.sh" ] || { echo "emulate.sh: there is no emulator: $emulator has no build.sh (BW_EMULATOR)" >&2; exit 2; }
ls "$kernels"/*."$target".hsaco >/dev/null 2>&1 || { echo "emulate.sh: $kernels holds no kernels for $target" >&2; exit 2; }
out=$(mktemp -d) || exit 1
trap 'rm -rf "$out"' EXIT

hip=$build/emulator/libamdhip64.so
if [ ! -f "$hip" ] || [ -n "$(find -L "$emulator" -type f -newer "$hip")" ]; then
    rm -rf "$build/emulator"
    "$emulator/build.sh" "$build/emulator" >"$out/log" 2>&1 && [ -f "$hip" ] || { cat "$out/log" >&2; echo "emulate.sh: the emulator does not build" >&2; exit 1; }
fi
export EMU_CARD=$target EMU_LANES=1 BW_HIP_LIBRARY=$hip BW_KERNEL_DIR=$kernels BW_GPU_GRAPHS=0 BW_GPU_LIBRARIES=0 BW_GPU_TRIALS=0

# of what a process said on standard error: lanes that read others which were off
lanes() { ! grep -a -m 3 LANES "$@"; }

if [ "${1:-}" = --model ]; then
    # Steps of one token each, as text is generated. What is wrong anywhere chooses other tokens at once; where the two highest
    # logits are close, rounding may.
    echo "The capital of France is" >"$out/prompt"
    PROMPTS=$out/prompt "$root/tools/compare/devices.sh" "$build/tests/lm_argmax" "$2" cpu:0 rocm:0 8 1 75 2>"$out/err"
    status=$?
    lanes "$out/err" || status=1
    [ $status = 0 ] || tail -n 5 "$out/err"
    exit $status
fi

if [ $# -gt 0 ]; then printf '%s\n' "$@"; else "$build/bin/bw-conformance" --list | cut -d/ -f1 | sort -u; fi >"$out/families"
# the longest ones first
{ grep -x -E 'attention|quantized|conv|linear|matmul' "$out/families"; grep -v -x -E 'attention|quantized|conv|linear|matmul' "$out/families"; } >"$out/order"
# shellcheck disable=SC2016
EMU_THREADS=1 xargs -P "${JOBS:-$(nproc)}" -I{} sh -c '"$0" --device rocm:0 $1 --op {} >"$2/{}.out" 2>"$2/{}.err"; echo $? >"$2/{}.status"' \
    "$build/bin/bw-conformance" "${CASES---quick}" "$out" <"$out/order"
bad=0
while read -r family; do
    sum=$(grep -a -E '^[0-9]+ passed' "$out/$family.out" | tail -n 1)
    if [ "$(cat "$out/$family.status")" = 0 ] && [ -n "$sum" ] && lanes "$out/$family.err"; then
        echo "ok      $target $family: $sum"
    else
        bad=$((bad + 1))
        echo "FAILED  $target $family, exit status $(cat "$out/$family.status"): $sum"
        grep -a -m 5 FAILED "$out/$family.out"
        tail -n 3 "$out/$family.err"
    fi
done <"$out/families"
cat "$out"/*.out | awk -v t="$target" -v bad=$bad '/^[0-9]+ passed/ { p += $1; f += $3; n++ }
    END { print p + 0 " passed, " f + 0 " failed in " n + 0 " families on an emulated " t; exit !(p > 0 && bad == 0) }'
