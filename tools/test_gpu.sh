#!/bin/bash
# What a GPU of this machine can show: every kernel against the reference, with the vendors' libraries and without, what
# stands above the kernels, the small real model against the CPU, memory, speed. For owners of a card that docs/rocm.md
# does not name as tried: the report, which it keeps in a file, is what an issue needs.
# usage: tools/test_gpu.sh [--quick] [DEVICE [REPORT]]     (rocm:0 or cuda:0, whichever is there; gpu-report.txt)
# --quick: a part of the cases, and no models. Environment: BUILD, a build folder that is taken as it is (else build-gpu
# is made, after tools/packages.sh card where there is apt-get); JOBS, processes at once (4); LIMIT, seconds for each part
# (1800), after which it has failed: a kernel that never ends is a fault too.
set -u -o pipefail
export LC_ALL=C.UTF-8
quick=
[ "${1:-}" = --quick ] && { quick=--quick; shift; }
for argument; do
    case $argument in -*) set -- 1 2 3 ;; esac
done
[ $# -le 2 ] || { echo "usage: tools/test_gpu.sh [--quick] [DEVICE [REPORT]]" >&2; exit 2; }
device=${1:-} jobs=${JOBS:-4} limit=${LIMIT:-1800} passed=0 failed=0 skipped=0
report=$(realpath -m "${2:-gpu-report.txt}") build=${BUILD:+$(realpath -m "$BUILD")}
cd "$(dirname "$0")/.." || exit 1
out=$(mktemp -d) || exit 1
trap 'rm -rf "$out"' EXIT
: >"$report" || exit 1

say() { echo "$*" | tee -a "$report"; }
show() { tail -n "$1" "$2" | tee -a "$report"; }
skip() { skipped=$((skipped + 1)); say "SKIPPED $1"; }
# check NAME COMMAND...: of what it printed the last line, or the last 80 when it failed
check() {
    local name=$1 begin status; shift
    begin=$(date +%s)
    "$@" >"$out/log" 2>&1; status=$?
    if [ $status = 0 ]; then
        passed=$((passed + 1))
        say "ok      $name ($(($(date +%s) - begin)) s): $(grep -v '^ *$' "$out/log" | tail -n 1)"
    else
        failed=$((failed + 1))
        say "FAILED  $name, exit status $status after $(($(date +%s) - begin)) s"
        show 80 "$out/log"
    fi
}
limited() { timeout "$limit" "$@"; }
# families [NAME...]: cases of these families of operations, or of all, a process for each
last_line='^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped'
families() {
    local family status=0
    rm -rf "$out/family"; mkdir "$out/family" || return 1
    if [ $# -gt 0 ]; then printf '%s\n' "$@"; else "$build/bin/bw-conformance" --list | cut -d/ -f1 | sort -u; fi >"$out/families" || return 1
    # shellcheck disable=SC2016
    xargs -P "$jobs" -I{} sh -c 'timeout "$4" "$0" --device "$1" $2 --op {} >"$3/{}" 2>"$3/{}.err"; echo $? >"$3/{}.status"' \
        "$build/bin/bw-conformance" "$device" "$quick" "$out/family" "$limit" <"$out/families" || status=1
    while read -r family; do # done is what ended with 0 and its sum
        grep -q '^0$' "$out/family/$family.status" 2>/dev/null && tail -n 1 "$out/family/$family" | grep -q -E "$last_line" && continue
        status=1
        echo "$family: exit status $(cat "$out/family/$family.status" 2>/dev/null || echo "unknown")"
        grep -m 3 FAILED "$out/family/$family"
        tail -q -n 3 "$out/family/$family.err" "$out/family/$family"
    done <"$out/families"
    grep -h -E "$last_line" "$out"/family/* | awk '{ p += $1; f += $3; s += $5; n++ }
        END { print p + 0 " passed, " f + 0 " failed, " s + 0 " skipped in " n + 0 " families"; exit !(p > 0 && f == 0) }' && return $status
}
without() { BW_GPU_LIBRARIES=0 families; }
always() { BW_GPU_LIBRARIES=always families matmul conv; }
above() { BW_TEST_DEVICE=$device limited "$build/tests/$1"; }

programs="beeswax_program make_model bw-conformance lm_argmax lm_cycles"
tests="plan_test models_test array_test array_ops_test"
say "beeswax $(git describe --always --dirty 2>/dev/null || echo "outside git"), $(uname -srm), $(date -u +%F)"
if [ -z "$build" ]; then
    build=$PWD/build-gpu
    . tools/cards.sh
    say "kernels: BW_GFX=$gfx BW_SM=$sm"
    : >"$out/log"
    if command -v apt-get >/dev/null; then tools/packages.sh card "$([ $gfx = none ] || echo amd)" 2>&1 | tee -a "$out/log" || { show 30 "$out/log"; exit 1; }; fi
    # shellcheck disable=SC2086
    { cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DBW_GFX=$gfx -DBW_SM=$sm &&
        cmake --build "$build" --target $programs $tests; } >>"$out/log" 2>&1 || { show 40 "$out/log"; exit 1; }
fi
[ -x "$build/bin/bw-conformance" ] && [ -x "$build/bin/beeswax" ] || { say "$build holds no bin/beeswax and bin/bw-conformance"; exit 1; }
"$build/bin/beeswax" doctor 2>&1 | tee -a "$report"
if [ -z "$device" ]; then
    device=$("$build/bin/beeswax" devices 2>/dev/null | sed -n 's/^\([a-z]*:[0-9]*\) (the first choice)$/\1/p' | grep -v cpu)
    [ -n "$device" ] || { say "there is no GPU that can be used"; exit 1; }
fi
export BW_CACHE_DIR=$out/cache BW_GPU_TRIALS=0

say ""
say "on $device:"
check "every kernel, libraries where a trial says so" families
check "every kernel, no libraries" without
check "MATMUL and convolutions, libraries wherever they can" always
for test in $tests gpu_top_k_test; do
    if [ -x "$build/tests/$test" ]; then check "$test" above "$test"; elif [ "$test" != gpu_top_k_test ]; then skip "$test: not built"; fi
done
if [ -n "$quick" ]; then
    skip "the real model, memory and speed: --quick"
elif model=$(tools/get_model.sh 2>"$out/log"); then
    # the tokens that the CPU would choose, as devices.sh counts them: each in a step of its own, then in long steps
    check "SmolLM2, token by token" limited tools/compare/devices.sh "$build/tests/lm_argmax" "$model" cpu:0 "$device" 64 1
    check "SmolLM2, 255 tokens in a step" limited tools/compare/devices.sh "$build/tests/lm_argmax" "$model" cpu:0 "$device" 64 255
    check "loaded and freed 50 times" limited "$build/tests/lm_cycles" "$model" "$device" 50
    check "speed of SmolLM2" limited "$build/bin/beeswax" bench "$model" -d "$device" -p 2048 -n 128 --parallel 16 --json
    for type in f16 q8_0 q4_k; do
        if "$build/bin/make_model" llama-1b "$out/$type.gguf" --type $type >"$out/log" 2>&1; then
            check "speed of a random llama-1B, $type" limited "$build/bin/beeswax" bench "$out/$type.gguf" -d "$device" -p 2048 -n 128 --json
        else
            skip "speed of a random llama-1B, $type: it cannot be written to $out"
            show 3 "$out/log"
        fi
        rm -f "$out/$type.gguf"
    done
else
    skip "the real model, memory and speed: it could not be fetched"
    show 3 "$out/log"
fi
say ""
say "$passed passed, $failed failed, $skipped skipped"
echo "the report: $report"
[ "$failed" = 0 ]
