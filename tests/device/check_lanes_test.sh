#!/bin/sh
# bw_check_lanes on kernels that exchange in divergent code and on some that do not, compiled for each kind of AMD target.
# usage: check_lanes_test.sh check_lanes.hip BW_CHECK_LANES SRC
set -eu
source=$1 check_lanes=$2 src=$3
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
if "$check_lanes" </dev/null 2>/dev/null; then echo "taken: nothing"; exit 1; fi
for tool in clang-19 ld.lld-19 llvm-objdump-19; do
    command -v "$tool" >/dev/null || { echo "SKIPPED: check_lanes_test: there is no $tool"; exit 0; }
done
for target in gfx90a gfx942 gfx1030 gfx1100 gfx1201; do
    clang-19 -x hip --cuda-device-only --no-gpu-bundle-output -fuse-cuid=none -nogpuinc -nogpulib -nostdinc -nostdinc++ -std=c++17 -O3 \
        --offload-arch="$target" -I"$src/device/kernel" -I"$src/ops" "$source" -o "$folder/o"
    llvm-objdump-19 -d --no-show-raw-insn --no-leading-addr "$folder/o" >"$folder/s"
    status=0
    "$check_lanes" <"$folder/s" >"$folder/found" || status=$?
    [ $status = 1 ] || { echo "$target: exit status $status"; exit 1; }
    sed -n 's/^Divergent \([a-z0-9_]*\): .*/\1/p' "$folder/found" | sort >"$folder/got"
    sed -n 's/^<\(bad_[a-z0-9_]*\)>:$/\1/p' "$folder/s" | sort >"$folder/wanted"
    [ "$(wc -l <"$folder/wanted")" -ge 9 ] || { echo "$target: kernels are missing"; exit 1; }
    diff "$folder/wanted" "$folder/got" || { echo "$target: < was not refused, > was"; cat "$folder/found"; exit 1; }
    grep -c '^<good_' "$folder/s" | grep -qx 5
done
echo "5 targets"
