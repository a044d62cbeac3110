#!/bin/sh
# Convolutions through a vendor's library on the simulated card: right wherever the library is taken, and right by our own
# kernels where it fails.
#   sh dnn_test.sh CONFORMANCE LIBRARY FUNCTIONS_HEADER miopen|cudnn
set -u
conformance=$1 library=$2 header=$3 prefix=$4
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
trap 'exit 1' INT TERM
passed=0 failed=0
export BW_DNN_LIBRARY="$library" BW_FAKE_DNN_LOG="$dir/log"
check() {
    if "$@" >"$dir/out" 2>&1 && grep -q '[1-9][0-9]* passed, 0 failed' "$dir/out"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAIL: $what"
        tail -n 8 "$dir/out"
    fi
}
# count NAME: how often the library's function was called
count() { if [ -f "$dir/log" ]; then grep -c -x "$1" "$dir/log"; else echo 0; fi; }
expect() {
    if [ "$2" "$3" "$4" ]; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "FAIL: $what: $1: $2 is not $3 $4"; fi
}
case $prefix in
miopen) forward=miopenConvolutionForwardImmediate open=miopenCreateWithStream close=miopenDestroy ;;
cudnn) forward=cudnnConvolutionForward open=cudnnCreate close=cudnnDestroy ;;
*) exit 1 ;;
esac

what="taken wherever it can be"
BW_GPU_LIBRARIES=always
export BW_GPU_LIBRARIES
for op in conv2d conv1d; do
    rm -f "$dir/log"
    quick=--quick
    [ $op = conv2d ] || quick= # short, and with the weights that are not finite
    BW_SIM_NAMES="$dir/names" check "$conformance" --device rocm:0 $quick --op $op
    expect "$forward for $op" "$(count $forward)" -gt 40
    expect "$open for $op" "$(count $open)" -eq "$(count $close)"
done

for type in f32 f16 bf16; do
    expect "conv_repair_$type" "$(grep -c -x conv_repair_$type "$dir/names")" -gt 0
done

what="hidden"
rm -f "$dir/log"
BW_GPU_LIBRARIES=0 check "$conformance" --device rocm:0 --quick --op conv1d
expect "calls" "$(count "$open")" -eq 0

what="by trial"
BW_SIM_CLOCK=kernels BW_CACHE_DIR="$dir/cache" BW_GPU_LIBRARIES=1 check "$conformance" --device rocm:0 --quick --op conv2d
expect "$forward" "$(count $forward)" -gt 3
expect "choices of the library" "$(cat "$dir"/cache/trials/*.txt | grep -c '^[0-9a-f]\{16\} 2$')" -gt 0

functions=$(sed -n "s/.*DNN(\($prefix[A-Za-z0-9_]*\),.*/\1/p" "$header")
[ "$(echo "$functions" | wc -l)" -ge 14 ] || { echo "FAIL: the functions' names are not found in $header"; exit 1; }
for function in $functions; do
    what="$function fails"
    rm -f "$dir/log"
    BW_FAKE_DNN_FAILS=$function check "$conformance" --device rocm:0 --cases 16 --op conv1d
    expect "$function" "$(count "$function")" -gt 0
done
echo "dnn_test ($prefix): $passed passed, $failed failed"
[ "$failed" -eq 0 ]
