#!/bin/bash
# Everything that a GPU of this machine can show: every kernel against the reference, with the vendors' libraries and
# without, what stands above the kernels, the small real model against the CPU, memory, speed. For owners of a card that
# docs/rocm.md does not name as tried: the report, which it keeps in a file, is what an issue needs.
# usage: tools/test_gpu.sh [--quick] [DEVICE [REPORT]]     (rocm:0 or cuda:0, whichever is there; gpu-report.txt)
# --quick: a part of the cases and no models: minutes on a slow card. BUILD in the environment: a build folder that is
# taken as it is (else build-gpu is made, with kernels for the cards that are here). JOBS: processes at once (4).
set -u -o pipefail
cd "$(dirname "$0")/.." || exit 1
export LC_ALL=C.UTF-8
quick=
[ "${1:-}" = --quick ] && { quick=--quick; shift; }
device=${1:-} report=${2:-gpu-report.txt} jobs=${JOBS:-4} passed=0 failed=0
out=$(mktemp -d) || exit 1
trap 'rm -rf "$out"' EXIT
: >"$report" || exit 1

say() { echo "$*" | tee -a "$report"; }
# check NAME COMMAND...: what it printed is kept of one that failed; the last line of the others
check() {
    local name=$1 begin; shift
    begin=$(date +%s)
    if "$@" >"$out/log" 2>&1; then
        passed=$((passed + 1))
        say "ok      $name ($(($(date +%s) - begin)) s): $(grep -v '^ *$' "$out/log" | tail -n 1)"
    else
        say "FAILED  $name, exit status $?"
        failed=$((failed + 1))
        tail -n 60 "$out/log" | tee -a "$report"
    fi
}
# families: the whole conformance list, a process for each family
families() {
    "$build/bin/bw-conformance" --list | cut -d/ -f1 | sort -u >"$out/families"
    [ -s "$out/families" ] || return 1
    rm -rf "$out/family"; mkdir "$out/family"
    # shellcheck disable=SC2016
    xargs -P "$jobs" -I{} sh -c '"$0" --device "$1" $2 --op {} >"$3/{}" 2>&1 || echo "{} failed" >>"$3/{}"' \
        "$build/bin/bw-conformance" "$device" "$quick" "$out/family" <"$out/families"
    grep -h -m 3 -E 'FAILED|failed$' "$out"/family/* # the first tell what happened
    cat "$out"/family/* | awk '/ passed, .* failed, .* skipped/ && !/ cases, / { p += $1; f += $3; s += $5; n++ }
        END { print p + 0 " passed, " f + 0 " failed, " s + 0 " skipped in " n + 0 " families"; exit !(n > 0 && p > 0 && f == 0) }' || return 1
    [ "$(grep -c . "$out/families")" = "$(grep -l ' passed, .* failed, .* skipped' "$out"/family/* | wc -l)" ] && ! grep -q 'failed$' "$out"/family/*
}
alone() { BW_GPU_LIBRARIES=0 families; }
above() { BW_TEST_DEVICE=$device "$build/tests/$1"; }

if [ -n "${BUILD:-}" ]; then
    build=$BUILD
else
    build=build-gpu gfx=none sm=none
    ls -d /sys/class/kfd/kfd/topology/nodes >/dev/null 2>&1 && gfx=native
    { command -v nvcc || ls /usr/local/cuda/bin/nvcc; } >/dev/null 2>&1 && sm=auto
    tools/packages.sh test || exit 1
    cmake -S . -B $build -G Ninja -DCMAKE_BUILD_TYPE=Release -DBW_GFX=$gfx -DBW_SM=$sm >"$out/log" 2>&1 &&
        cmake --build $build >>"$out/log" 2>&1 || { tail -n 30 "$out/log"; exit 1; }
fi
if [ -z "$device" ]; then
    device=$("$build/bin/beeswax" devices 2>/dev/null | sed -n 's/^\([a-z]*:[0-9]*\) (the first choice)$/\1/p' | grep -v cpu)
    [ -n "$device" ] || { echo "test_gpu.sh: there is no GPU that can be used:" >&2; "$build/bin/beeswax" doctor; exit 1; }
fi
export BW_CACHE_DIR=$out/cache BW_GPU_TRIALS=0

say "beeswax $(git describe --always --dirty 2>/dev/null || cat VERSION 2>/dev/null), $(uname -sr), $device, $(date -u +%F)"
"$build/bin/beeswax" doctor 2>&1 | tee -a "$report"
say ""
check "every kernel" families
check "every kernel, without the vendors' libraries" alone
for test in plan_test models_test array_test array_ops_test gpu_top_k_test; do
    if [ -x "$build/tests/$test" ]; then check "$test" above $test; else say "SKIPPED $test: not built"; fi
done
if [ -n "$quick" ]; then
    say "SKIPPED the real model, memory and speed: --quick"
elif model=$(tools/get_model.sh 2>"$out/log"); then
    # the same tokens as the CPU would choose, each in a step of its own, and in long steps
    check "SmolLM2, token by token" tools/compare/devices.sh "$build/tests/lm_argmax" "$model" cpu:0 "$device" 64 1
    check "SmolLM2, 255 tokens in a step" tools/compare/devices.sh "$build/tests/lm_argmax" "$model" cpu:0 "$device" 64 255
    check "loaded and freed 50 times" "$build/tests/lm_cycles" "$model" "$device" 50
    check "speed of SmolLM2" "$build/bin/beeswax" bench "$model" -d "$device" -p 2048 -n 128 --parallel 16
    for type in f16 q8_0 q4_k; do
        if "$build/bin/make_model" llama-1b "$out/$type.gguf" --type $type >"$out/log" 2>&1; then
            check "speed of a random llama-1B, $type" "$build/bin/beeswax" bench "$out/$type.gguf" -d "$device" -p 2048 -n 128 --json
        else
            failed=$((failed + 1)); say "FAILED  a random llama-1B of $type could not be written"; tail -n 3 "$out/log"
        fi
        rm -f "$out/$type.gguf"
    done
else
    say "SKIPPED the real model, memory and speed: it could not be fetched"
    tail -n 3 "$out/log"
fi
say ""
say "$passed passed, $failed failed"
echo "the report: $report"
[ "$failed" = 0 ]
