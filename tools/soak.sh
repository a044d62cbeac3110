#!/bin/bash
# The worker with a model, and bench/soak against it; its verdict is the exit status, and so is the worker's end.
# usage: tools/soak.sh BUILD MODEL [SOAK OPTIONS...], for instance tools/soak.sh build MODEL --minutes 30 --clients 64 --attack crowd,long,jobs
set -u
[ $# -ge 2 ] || { sed -n '2,3s/^# //p' "$0"; exit 2; }
build=$1 model=$2; shift 2
log=$(mktemp) || exit 1
pid=
trap '[ -z "$pid" ] || kill -KILL "$pid" 2>/dev/null; rm -f "$log"' EXIT
trap 'exit 1' INT TERM
"$build/bin/llm-worker-rbee" --worker-id soak --model "$model" --port 0 --local-mode >"$log" 2>&1 &
pid=$!
url=
for _ in $(seq 240); do
    url=$(sed -n 's/.*listening on \(http:[^" ]*\).*/\1/p' "$log")
    [ -n "$url" ] && grep -q 'model ready' "$log" && break
    kill -0 "$pid" 2>/dev/null || break
    sleep 0.25
done
grep -q 'model ready' "$log" || { echo "the worker did not start"; tail -n 20 "$log"; exit 1; }
"$build/bench/soak" "$url" "$@"
code=$?
kill -TERM "$pid"
wait "$pid" || { echo "the worker ended with $?"; code=1; }
pid=
exit $code
