#!/bin/bash
# Everything that CI runs. Prints the time of each part and ends with "N passed, N failed, N skipped".
# usage: tools/test.sh [--coverage | --nightly]
# --coverage: only the coverage build, its tests and its figures. --nightly: also what takes too long for each change; without it
# that is named as skipped.
set -u
CDPATH= cd -- "$(dirname -- "$0")/.." || exit 1
export LC_ALL=C.UTF-8
passed=0 failed=0 skipped=0 part_begin=0 part_name=
out=$(mktemp -d) || exit 1
trap 'rm -rf "$out"' EXIT

begin() { part_name=$1; part_begin=$(date +%s); echo "== $part_name"; }
end() { echo "-- $part_name: $(($(date +%s) - part_begin)) s"; }
pass() { passed=$((passed + 1)); }
fail() { failed=$((failed + 1)); echo "FAILED: $1"; }
skip() { skipped=$((skipped + 1)); echo "SKIPPED: $1"; }
# run NAME COMMAND...: one check; its output is shown when it fails
run() {
    local name=$1; shift
    if "$@" >"$out/log" 2>&1; then pass; else fail "$name"; tail -n 60 "$out/log"; fi
}
# suite NAME BUILD_DIR [CTEST OPTIONS...]: every ctest of a build counts
suite() {
    local name=$1 dir=$2; shift 2
    ctest --test-dir "$dir" --output-on-failure --timeout 900 "$@" >"$out/log" 2>&1
    local total bad
    total=$(sed -n 's/.*tests failed out of \([0-9]*\).*/\1/p' "$out/log" | tail -1)
    bad=$(sed -n 's/.* \([0-9]*\) tests failed out of.*/\1/p' "$out/log" | tail -1)
    if [ -z "$total" ]; then fail "$name: no tests ran"; tail -n 30 "$out/log"; return; fi
    passed=$((passed + total - bad)); failed=$((failed + bad))
    grep -E '^ *[0-9]+/[0-9]+ Test' "$out/log"
    # what a test itself left out, it says on a line of its own
    while IFS= read -r line; do skip "$name: ${line#*SKIPPED: }"; done < <(grep -h 'SKIPPED: ' "$dir"/Testing/Temporary/LastTest.log 2>/dev/null | grep -v '^Command: ')
    [ "$bad" = 0 ] || tail -n 200 "$out/log"
}
# build PRESET [OPTION...]: configure and build one of CMakePresets.json
build() {
    cmake --preset "$@" && cmake --build --preset "$1"
}

begin "packages"
run packages tools/packages.sh test
end

if [ "${1:-}" = --coverage ]; then
    begin "coverage"
    run "coverage build" build coverage
    suite "coverage tests" build-coverage
    if tools/coverage.sh build-coverage; then pass; else fail "coverage"; fi
    end
    echo "$passed passed, $failed failed, $skipped skipped"
    [ "$failed" = 0 ]; exit
fi

begin "sources: formatting, lengths, words"
run formatting tools/check_sources.sh
end

# Programs that the worker's clients use: fetched while the compiler works, 306 MB on the disk, 25 s of processor time.
pip=$(command -v pip3 || command -v pip)
clients="openai litellm langchain-openai llm"
# shellcheck disable=SC2086 # words
"$pip" install -q --no-compile --target "$out/python" $clients >"$out/clients.log" 2>&1 &
fetching=$!

begin "build (gcc, release)"
run "release build" build release -DBW_GFX=none -DBW_SM=none # kernels have parts of their own below
end

begin "the small real model"
if model=$(tools/get_model.sh 2>"$out/log"); then
    pass; export BW_TEST_MODEL=$model
else
    skip "the real model could not be fetched"; tail -n 3 "$out/log"
fi
end

begin "the openai package, and others that talk to its API"
if wait "$fetching"; then
    for _ in $clients; do pass; done
else
    tail -n 3 "$out/clients.log"
    rm -rf "$out/python"
    for client in $clients; do # one that is not to be had takes no other with it
        if "$pip" install -q --no-compile --upgrade --target "$out/python" "$client" >"$out/log" 2>&1; then
            pass
        else
            skip "the package $client could not be fetched"; tail -n 3 "$out/log"
        fi
    done
fi
export PYTHONPATH=$out/python${PYTHONPATH:+:$PYTHONPATH}
end

begin "tests (gcc, release)"
suite release build -LE 'conformance|simgpu'
end

begin "every GPU kernel, and what stands above them, on a simulated card (release)"
BW_SIM_NAMES=$out/launched suite "release simgpu" build -L simgpu -j 2
end

begin "every op against its reference and against PyTorch (gcc, release)"
suite "release conformance" build -L conformance -j 2
end

begin "installed library, header and example"
run install tools/check_install.sh build
end

begin "address and undefined-behaviour sanitizers (clang)"
run "asan build" build asan
BW_TEST_MODEL='' suite asan build-asan -LE 'speed|conformance|simgpu'
suite "asan conformance" build-asan -L conformance -j 2
suite "asan simgpu" build-asan -L simgpu -j 2
end

begin "thread sanitizer (clang)"
run "tsan build" build tsan
BW_TEST_MODEL='' suite tsan build-tsan -L threads -LE conformance
suite "tsan conformance" build-tsan -L conformance -L threads -j 2
end

# No spill, every kernel that the simulated card was asked for in every target's code objects, one target in two minutes.
begin "AMD kernels for gfx1100"
run "kernels for gfx1100" tools/build_kernels.sh build-kernels gfx1100
[ $(($(date +%s) - part_begin)) -lt 120 ] || echo "NOTE: one target's kernels took more than two minutes"
end

begin "AMD kernels for gfx90a gfx942 gfx1100 gfx1201"
run "kernels for gfx90a gfx942 gfx1100 gfx1201" tools/build_kernels.sh build-kernels default none "$out/launched"
end

# The same code objects, executed: see tools/emulate.sh, where a developer can run one family on one target.
begin "AMD kernels executed on an emulator"
if [ -x "${BW_EMULATOR:-../shared/emu-proto}/build.sh" ]; then
    for target in gfx1100 gfx1201 gfx90a gfx942; do
        run "every operation on an emulated $target" tools/emulate.sh build build-kernels/kernels "$target"
        tail -n 1 "$out/log"
    done
    for target in gfx1100 gfx942; do
        if [ -n "${BW_TEST_MODEL:-}" ]; then
            run "the small real model on an emulated $target" tools/emulate.sh build build-kernels/kernels "$target" --model "$BW_TEST_MODEL"
            tail -n 1 "$out/log"
        else
            skip "the small real model on an emulated $target: it could not be fetched"
        fi
    done
else
    skip "AMD kernels on an emulator: BW_EMULATOR names none, and ../shared/emu-proto is not there"
fi
end

begin "fuzzing, 20 s each"
if build fuzz >"$out/log" 2>&1; then
    pass; fuzzed=0
    for target in build-fuzz/fuzz/fuzz_*; do
        [ -x "$target" ] && [ -f "$target" ] || continue
        fuzzed=$((fuzzed + 1))
        mkdir -p "$out/corpus"
        run "$(basename "$target")" tools/fuzz.sh "$target" 20
    done
    [ "$fuzzed" -gt 0 ] || fail "fuzzing: build-fuzz/fuzz holds no fuzz target"
else
    fail "fuzz build"; tail -n 30 "$out/log"
fi
end

# What takes too long for each change, every part of it counted and named.
begin "nightly"
soak="nightly: soak of 30 minutes, 64 clients beside attackers"
emulated="nightly: every case of every operation on an emulated"
if [ "${1:-}" != --nightly ]; then
    skip "$soak"
    for target in gfx1100 gfx1201 gfx90a gfx942; do skip "$emulated $target"; done
else
    if [ -n "${BW_TEST_MODEL:-}" ]; then
        run "$soak" tools/soak.sh build "$BW_TEST_MODEL" --minutes 30 --clients 64 --attack crowd,long,jobs
        cat "$out/log"
    else
        skip "$soak: the real model could not be fetched"
    fi
    for target in gfx1100 gfx1201 gfx90a gfx942; do
        if [ -x "${BW_EMULATOR:-../shared/emu-proto}/build.sh" ]; then
            CASES='' run "$emulated $target" tools/emulate.sh build build-kernels/kernels "$target"
            tail -n 1 "$out/log"
        else
            skip "$emulated $target: there is no emulator"
        fi
    done
fi
end

echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
