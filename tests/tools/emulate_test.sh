#!/bin/sh
# tools/emulate.sh with an emulator and a bw-conformance of its own: what must fail fails, and says why.
# usage: emulate_test.sh SOURCE_FOLDER
set -u
emulate=$1/tools/emulate.sh
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
failed=0
mkdir -p "$dir/emulator" "$dir/build/bin" "$dir/kernels"
touch "$dir/kernels/add.gfx1100.hsaco"
cat >"$dir/build/bin/bw-conformance" <<'END'
#!/bin/sh
[ "$1" = --list ] && { printf 'add/f32\nadd/f16\nmul/f32\n'; exit; }
for op; do :; done
[ "$EMU_CARD $BW_GPU_GRAPHS" = "gfx1100 0" ] && [ -f "$BW_HIP_LIBRARY" ] && [ -d "$BW_KERNEL_DIR" ] || exit 9
[ "$op" = mul ] || { echo "3 passed, 0 failed, 0 skipped"; exit; }
case $FAULT in
failing) echo "FAILED mul of something"; echo "2 passed, 1 failed, 0 skipped"; exit 1 ;;
dying) echo "2 passed"; exit 134 ;;
silent) ;;
lanes) echo "LANES: an active lane reads lane 16, which is off" >&2; echo "3 passed, 0 failed, 0 skipped" ;;
*) echo "3 passed, 0 failed, 0 skipped" ;;
esac
END
chmod +x "$dir/build/bin/bw-conformance"
# expect CODE TEXT ARGUMENTS...
expect() {
    wanted=$1 text=$2
    shift 2
    BW_EMULATOR=$dir/emulator "$emulate" "$@" >"$dir/log" 2>&1
    code=$?
    [ $code = "$wanted" ] && grep -q -e "$text" "$dir/log" || { failed=1; echo "FAIL: $code, not $wanted with '$text':"; cat "$dir/log"; }
}
expect 2 "usage: tools/emulate.sh" "$dir/build"
expect 2 "there is no emulator: .* (BW_EMULATOR)" "$dir/build" "$dir/kernels" gfx1100
printf '#!/bin/sh\necho why not; exit 3\n' >"$dir/emulator/build.sh"
chmod +x "$dir/emulator/build.sh"
expect 1 "why not" "$dir/build" "$dir/kernels" gfx1100
printf '#!/bin/sh\nmkdir -p "$1"; echo x >>"%s/built"; echo >"$1/libamdhip64.so"\n' "$dir" >"$dir/emulator/build.sh"
expect 2 "holds no kernels for gfx942" "$dir/build" "$dir/kernels" gfx942
export FAULT=none
expect 0 "^6 passed, 0 failed in 2 families on an emulated gfx1100$" "$dir/build" "$dir/kernels" gfx1100
expect 0 "^3 passed, 0 failed in 1 families" "$dir/build" "$dir/kernels" gfx1100 add
FAULT=failing expect 1 "FAILED mul of something" "$dir/build" "$dir/kernels" gfx1100
FAULT=failing expect 1 "^5 passed, 1 failed in 2 families" "$dir/build" "$dir/kernels" gfx1100
FAULT=dying expect 1 "FAILED  gfx1100 mul, exit status 134" "$dir/build" "$dir/kernels" gfx1100
FAULT=silent expect 1 "FAILED  gfx1100 mul, exit status 0" "$dir/build" "$dir/kernels" gfx1100
FAULT=lanes expect 1 "an active lane reads lane 16" "$dir/build" "$dir/kernels" gfx1100
[ "$(wc -l <"$dir/built")" = 1 ] || { failed=1; echo "FAIL: the emulator was built more than once"; }
[ $failed = 0 ] && echo "emulate_test: what must fail fails"
exit $failed
