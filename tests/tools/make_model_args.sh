#!/bin/sh
# make_model's command line: what it refuses, and that nothing is left behind. usage: make_model_args.sh PROGRAM
set -u
program=$1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
bad=0
refuse() { # CODE TEXT ARGUMENTS...
    code=$1 text=$2
    shift 2
    "$program" "$@" >"$dir/out" 2>"$dir/err"
    got=$?
    if [ $got != "$code" ] || ! grep -q -- "$text" "$dir/err"; then
        echo "make_model $*: exit code $got, and: $(cat "$dir/err")"
        bad=1
    fi
}
refuse 2 'a shape and an output are needed'
refuse 2 'a shape and an output are needed' tiny
refuse 2 'there is no shape giant' giant "$dir/x.gguf"
refuse 2 'one word too many: c' tiny "$dir/x.gguf" c
refuse 2 'there is no type of weights q9' tiny "$dir/x.gguf" --type q9
refuse 2 'there is no type of weights i32' tiny "$dir/x.gguf" --type i32
refuse 2 'the mixes are' tiny "$dir/x.gguf" --mix q4
refuse 2 'exclude each other' tiny "$dir/x.gguf" --mix q4_k_m --type f16
refuse 2 '--layers takes' tiny "$dir/x.gguf" --layers 0
refuse 2 '--seed takes' tiny "$dir/x.gguf" --seed -1
refuse 2 '--threads takes' tiny "$dir/x.gguf" --threads 1000
refuse 2 'no option --what' tiny "$dir/x.gguf" --what 1
refuse 2 'lacks its value' tiny "$dir/x.gguf" --seed
refuse 1 'safetensors hold' tiny "$dir/x" --type q4_0
refuse 1 'cannot be created' tiny "$dir/none/x.gguf"
if [ -c /dev/full ]; then
    ln -s /dev/full "$dir/full.gguf"
    refuse 1 'no regular file' tiny "$dir/full.gguf"
    rm "$dir/full.gguf"
fi
(ulimit -f 100 && refuse 1 'cannot be written' tiny "$dir/x.gguf"; exit $bad) || bad=1
# stopped by a signal it keeps nothing: a file of 2 GB would not be complete in that time
"$program" llama-1b "$dir/x.gguf" 2>"$dir/err" & pid=$!
tries=0
while [ -z "$(ls "$dir"/x.gguf.tmp* 2>/dev/null)" ] && [ $tries -lt 200 ]; do sleep 0.05; tries=$((tries + 1)); done
kill -TERM $pid
wait $pid; status=$?
[ $status = 143 ] || { echo "stopped: exit status $status"; bad=1; }
grep -q 'nothing of .* is kept' "$dir/err" || { echo "stopped: $(cat "$dir/err")"; bad=1; }
# but what was ignored when it began stays so
(trap '' HUP; exec "$program" llama-135m "$dir/x.gguf" >"$dir/out" 2>"$dir/err") & pid=$!
tries=0
while [ -z "$(ls "$dir"/x.gguf.tmp* 2>/dev/null)" ] && [ $tries -lt 200 ]; do sleep 0.05; tries=$((tries + 1)); done
kill -HUP $pid
wait $pid; status=$?
[ $status = 0 ] && [ -s "$dir/x.gguf" ] || { echo "with SIGHUP ignored: exit status $status"; bad=1; }
rm -f "$dir/x.gguf"
if [ -c /dev/full ] && "$program" --help >/dev/full 2>/dev/null; then echo 'a full standard output is no error'; bad=1; fi
rm -f "$dir/out" "$dir/err"
[ -z "$(ls "$dir")" ] || { echo "left behind: $(ls "$dir")"; bad=1; }
"$program" --help | grep -q 'llama-70b' || { echo '--help does not list the shapes'; bad=1; }
"$program" tiny "$dir/x.gguf" --layers 1 --type q4_0 | grep -q ' 12 tensors' || { echo 'a good line fails'; bad=1; }
[ -s "$dir/x.gguf" ] || { echo 'there is no x.gguf'; bad=1; }
exit $bad
