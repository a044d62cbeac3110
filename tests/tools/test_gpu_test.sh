#!/bin/sh
# What tools/test_gpu.sh says with a build folder of made-up programs: a test that is not built is named as skipped, one
# that fails fails the whole.
#   sh test_gpu_test.sh SOURCE_FOLDER
set -u
source=$1
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
failed=0
program() { mkdir -p "$(dirname "$dir/build/$1")" && printf '#!/bin/sh\n%s\n' "$2" >"$dir/build/$1" && chmod +x "$dir/build/$1"; }
program bin/beeswax 'echo doctor'
program bin/bw-conformance 'case $* in --list) echo "affine/affine f32" ;; *) echo "1 passed, 0 failed, 0 skipped" ;; esac'
for test in plan_test models_test array_test array_ops_test; do program tests/$test 'echo fine'; done
report() { # report CODE
    BUILD=$dir/build bash "$source/tools/test_gpu.sh" --quick rocm:0 "$dir/report" >"$dir/out" 2>&1
    code=$?
    [ $code -eq "$1" ] || { failed=1; echo "FAIL: exit code $code, not $1"; cat "$dir/out"; }
}
says() { grep -q -e "$1" "$dir/report" || { failed=1; echo "FAIL: nothing like \"$1\" in the report"; cat "$dir/report"; }; }
report 0
says '^SKIPPED gpu_top_k_test: not built$'
says '^7 passed, 0 failed, 3 skipped$' # the third: no models with --quick
program tests/gpu_draw_test 'echo fine'
program tests/gpu_top_k_test 'echo fine'
report 0
says '^ok      gpu_top_k_test '
says '^9 passed, 0 failed, 1 skipped$'
program tests/gpu_top_k_test 'exit 3'
report 1
says '^FAILED  gpu_top_k_test, exit status 3 '
[ $failed -eq 0 ] && echo 'test_gpu_test: the report says what was and was not run'
exit $failed
