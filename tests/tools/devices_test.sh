#!/bin/sh
# The gate of tools/compare/devices.sh, with a program that makes tokens up in place of lm_argmax.
#   sh devices_test.sh SOURCE_FOLDER
set -u
devices=$1/tools/compare/devices.sh
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
failed=0
# --greedy: one line, a prompt of 2 tokens and 100 chosen ones, all 7; else the judge's choice and the distance of the two
# highest logits of each: CLOSE others with a distance of 0.5, FAR others with one of 2
cat >"$dir/argmax" <<'END'
#!/bin/sh
case $* in
*--greedy*) awk 'BEGIN { printf "2 5 6"; for (i = 0; i < 100; i++) printf " 7"; print "" }' ;;
*) awk -v c="$CLOSE" -v f="$FAR" 'BEGIN { for (i = 0; i < 100; i++)
       printf "%d %s ", i < c + f ? 8 : 7, i < c ? "0.5" : "2"; print "" }' ;;
esac
END
chmod +x "$dir/argmax"
gate() { # gate CODE CLOSE FAR [SHARE]
    wanted=$1; CLOSE=$2 FAR=$3; export CLOSE FAR
    shift 3
    sh "$devices" "$dir/argmax" model cpu:0 rocm:0 100 255 "$@" >"$dir/out" 2>&1
    code=$?
    [ $code -eq "$wanted" ] || { failed=1; echo "FAIL: $CLOSE close and $FAR far, share ${1:-97}: $code, not $wanted"; cat "$dir/out"; }
}
gate 0 0 0
gate 0 3 0
gate 1 4 0
gate 0 5 0 95
gate 1 6 0 95
gate 1 0 1 95 # one that was sure
gate 1 0 1
[ $failed -eq 0 ] && echo 'devices_test: the gate holds'
exit $failed
