#!/bin/sh
# The programs on a GPU, the simulated one (BW_HIP_LIBRARY, tests/simgpu): which device computes, what is said of it, the
# same text as on the CPU, and what clients and supervisors see when the device is lost under way.
#   sh simgpu_e2e.sh BEESWAX WORKER MODEL MAKE_MODEL
set -u
beeswax=$1 worker=$2 model=$3 make_model=$4
dir=$(mktemp -d) || exit 1
pid= hive=
cleanup() {
    [ -z "$pid" ] || kill -KILL "$pid" 2>/dev/null
    [ -z "$hive" ] || kill -KILL "$hive" 2>/dev/null
    rm -rf "$dir"
}
trap cleanup EXIT
trap 'exit 1' INT TERM
unset LLORCH_API_TOKEN http_proxy HTTP_PROXY all_proxy ALL_PROXY
XDG_CACHE_HOME=$dir/cache HOME=$dir
export XDG_CACHE_HOME HOME
passed=0 failed=0
pass() { passed=$((passed + 1)); }
fail() {
    failed=$((failed + 1))
    echo "FAIL: $*"
    tail -n 8 "$dir/out" "$dir/err" 2>/dev/null
}
same() { if [ "$1" = "$2" ]; then pass; else fail "$3: \"$1\" is not \"$2\""; fi; }
says() { if grep -q -e "$1" "$dir/err"; then pass; else fail "$2: nothing like \"$1\" on standard error"; fi; }
prints() { if grep -q -e "$1" "$dir/out"; then pass; else fail "$2: nothing like \"$1\""; fi; }

# ---- one prompt: the CPU's text, whatever names the card
on() { # on CODE ARGUMENTS...: beeswax run, greedy
    want=$1
    shift
    timeout 120 "$beeswax" run "$model" -v -p 'hello there' -n 24 --temp 0 --ignore-eos "$@" >"$dir/out" 2>"$dir/err" </dev/null
    same $? "$want" "run $*: exit code"
}
on 0 --device cpu:0
text=$(cat "$dir/out")
for arguments in '--device rocm:0' '--device rocm:0 --gpu-layers 1' '--require-gpu' '' '--device rocm:0 --kv q8_0 --require-gpu' \
    '--device rocm:0 --batch 3'; do
    # shellcheck disable=SC2086 # the command's words
    on 0 $arguments
    case $arguments in
    *q8_0*) [ -s "$dir/out" ] || fail "run $arguments: no text" ;; # a coarser cache may say something else
    *) same "$(cat "$dir/out")" "$text" "run $arguments: the text" ;;
    esac
    says 'rocm:0' "run $arguments"
done
on 1 --device rocm:1; says 'rocm:1' 'run --device rocm:1'
on 1 --device cpu:0 --gpu-layers 1; says 'a GPU was asked to compute layers (1), but only the CPU can be used: it was named' 'run on the CPU with --gpu-layers'
card=$BW_HIP_LIBRARY BW_HIP_LIBRARY=$dir/none.so
on 0; says 'computing on the CPU: there is no GPU that can be used' 'run with a library that is not there'
on 1 --gpu-layers 1; says 'only the CPU can be used: there is no GPU' 'run with --gpu-layers and no library'
BW_HIP_LIBRARY=$card
on 1 --device cpu:0 --require-gpu; says 'a GPU is required' 'run on the CPU with --require-gpu'
timeout 60 "$beeswax" devices >"$dir/out" 2>"$dir/err"
same $? 0 'devices: exit code'
prints 'rocm:0' devices; prints 'simulated GPU' devices; prints '(the first choice)' devices
timeout 60 "$beeswax" doctor >"$dir/out" 2>"$dir/err" # the kernels lie in BW_KERNEL_DIR
same $? 0 'doctor: exit code'
prints '^rocm:0 can be used' doctor
(unset BW_KERNEL_DIR; timeout 60 "$beeswax" doctor >"$dir/out" 2>"$dir/err")
prints 'rocm:0 .*this build has no kernels for it' 'doctor without BW_KERNEL_DIR'

if ! command -v curl >/dev/null; then
    echo 'SKIPPED: the servers on a simulated card: there is no curl'
    echo "simgpu_e2e: $passed passed, $failed failed"
    exit $((failed > 0))
fi

# ---- servers
start() { # start PROGRAM ARGUMENTS...: sets pid and url
    : >"$dir/err"
    "$@" >"$dir/log" 2>"$dir/err" &
    pid=$! url=
    for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30; do
        url=$(sed -n 's/.*\(http:\/\/[0-9.]*:[0-9]*\).*/\1/p' "$dir/err" | head -n 1)
        [ -z "$url" ] || break
        sleep 0.25
    done
    [ -n "$url" ] || fail "$*: names no address"
    for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30; do
        curl -s "$url/v1/ready" | grep -q '"ready":true' && return
        sleep 0.25
    done
    fail "$*: is never ready"
}
stop() {
    kill -TERM "$pid"
    wait "$pid"
    same $? 0 "$1: after SIGTERM"
    pid=
}
ended() { # ended WHAT: by itself, with 1, within 10 s; a sentence says why
    for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36 37 38 39 40; do
        kill -0 "$pid" 2>/dev/null || break
        sleep 0.25
    done
    if kill -0 "$pid" 2>/dev/null; then fail "$1: still there 10 s after the device was lost"; kill -KILL "$pid"; fi
    wait "$pid"
    same $? 1 "$1: exit code after the device was lost"
    pid=
    says 'rocm:0.*illegal memory access' "$1"
}
ask() { # ask TOKENS: a completion; prints the body and then the status on a line of its own
    curl -s -m 60 -w '\n%{http_code}\n' "$url/v1/completions" -H 'Content-Type: application/json' \
        -d "{\"prompt\":\"hello there\",\"max_tokens\":$1,\"temperature\":0,\"ignore_eos\":true}"
}
# lose WHAT: six requests wait or run when the device is lost; each is answered with 503, so is a later one
lose() {
    clients=
    for i in 1 2 3 4 5 6; do
        ask 200 >"$dir/answer.$i" &
        clients="$clients $!"
    done
    sleep 0.3
    : >"$dir/lost"
    late=0
    # shellcheck disable=SC2034 # a counter
    for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
        code=$(curl -s -m 5 -o "$dir/out" -w '%{http_code}' "$url/v1/inference" -H 'Content-Type: application/json' \
            -d '{"prompt":"abc","max_tokens":4}')
        if [ "$code" = 503 ]; then late=1; break; fi
        [ "$code" != 000 ] || break
    done
    same $late 1 "$1: a queen's request after the loss is answered with 503"
    prints 'rocm:0' "$1: what the queen reads"
    for client in $clients; do wait "$client"; done
    for i in 1 2 3 4 5 6; do
        same "$(tail -n 1 "$dir/answer.$i")" 503 "$1: request $i"
        grep -q '"code": *"device_lost"' "$dir/answer.$i" || fail "$1: request $i: $(head -c 300 "$dir/answer.$i")"
    done
}
BW_SIM_LOST_FILE=$dir/lost
export BW_SIM_LOST_FILE

ln -s "$(realpath "$worker")" "$dir/llm-worker-rbee-rocm"
ln -s "$(realpath "$worker")" "$dir/worker-cuda-8080"
python=${BW_TEST_PYTHON:-python3}
hive_url=
if command -v "$python" >/dev/null; then # a hive: keeps what it is sent
    "$python" -c '
import http.server, sys
class Hive(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        open(sys.argv[1], "ab").write(body + b"\n")
        self.send_response(200); self.send_header("Content-Length", "0"); self.end_headers()
    def log_message(self, *a): pass
s = http.server.HTTPServer(("127.0.0.1", 0), Hive)
open(sys.argv[2], "w").write(str(s.server_port)); s.serve_forever()' "$dir/beats" "$dir/port" 2>/dev/null &
    hive=$!
    for _ in 1 2 3 4 5 6 7 8 9 10 11 12; do
        [ ! -s "$dir/port" ] || break
        sleep 0.25
    done
    hive_url=http://127.0.0.1:$(cat "$dir/port")
else
    echo 'SKIPPED: heartbeats from a simulated card: there is no python3'
fi
for how in "llm-worker-rbee-rocm --rocm-device 0" "llm-worker-rbee-rocm" "worker-cuda-8080 --backend rocm --require-gpu" \
    "worker-cuda-8080 --gpu-layers 1" "worker-cuda-8080 --device 0" "worker-cuda-8080 --device rocm:0"; do
    # shellcheck disable=SC2086 # the command's words
    start "$dir"/$how --worker-id bee --model "$model" --port 0 --local-mode ${hive_url:+--hive-url $hive_url}
    curl -s "$url/info" >"$dir/out"
    prints '"device":"rocm:0"' "$how: /info"
    curl -s "$url/metrics" >"$dir/out"
    prints 'device="rocm:0"' "$how: /metrics"
    curl -s "$url/v1/ready" >"$dir/out"
    same "$(grep -c notice "$dir/out")" 0 "$how: no notice in /v1/ready"
    ask 6 >"$dir/out"
    same "$(tail -n 1 "$dir/out")" 200 "$how: a request"
    says 'computing on rocm:0' "$how"
    # the card's memory is told wherever it has a place: the engine looks when it falls idle
    for _ in 1 2 3 4 5 6 7 8 9 10 11 12; do
        curl -s "$url/metrics" >"$dir/out"
        ! grep -q '^beeswax_vram_bytes [1-9]' "$dir/out" || break
        sleep 0.25
    done
    prints '^beeswax_vram_bytes [1-9]' "$how: GPU memory in /metrics"
    curl -s "$url/info" >"$dir/out"
    prints '"vram_bytes":[1-9]' "$how: GPU memory in /info"
    sse=$(curl -s -m 60 "$url/v1/inference" -H 'Content-Type: application/json' -d '{"prompt":"abc","max_tokens":4}' |
        sed -n 's/.*"sse_url":"\([^"]*\)".*/\1/p')
    curl -s -m 60 "$url$sse" >"$dir/out"
    prints '"type":"metrics".*"vram_bytes":[1-9]' "$how: GPU memory in a job's metrics"
    stop "$how"
done
"$make_model" tiny "$dir/split.gguf" --layers 3 >"$dir/out" 2>"$dir/err"
start "$dir/worker-cuda-8080" --worker-id bee --model "$dir/split.gguf" --port 0 --local-mode --gpu-layers 1
curl -s "$url/v1/ready" >"$dir/out"
prints '"notice":"the CPU computes some of the layers: rocm:0 (1 of 3 layers), cpu:0"' 'layers on both: /v1/ready'
stop 'layers on both'
if [ -n "$hive_url" ]; then
    cp "$dir/beats" "$dir/out"
    prints '"device":"rocm:0"' 'heartbeats'
    prints '"vram_bytes":[1-9]' 'heartbeats: GPU memory'
fi
for how in "worker-cuda-8080 --backend cuda" "llm-worker-rbee-rocm --rocm-device 7" "worker-cuda-8080 --backend cpu --require-gpu" \
    "worker-cuda-8080 --device 5" "worker-cuda-8080 --device cuda:0" "worker-cuda-8080 --backend rocm --device cuda:0"; do
    # shellcheck disable=SC2086
    timeout 60 "$dir"/$how --worker-id bee --model "$model" --port 0 --local-mode >"$dir/out" 2>"$dir/err"
    same $? 1 "$how: exit code"
    same "$(grep -c '^Error: ' "$dir/err")" 1 "$how: one sentence"
done

start "$dir/llm-worker-rbee-rocm" --worker-id bee --model "$model" --port 0 --local-mode --parallel 1
lose llm-worker-rbee
ended llm-worker-rbee
rm -f "$dir/lost"
start "$beeswax" serve "$model" --port 0 --device rocm:0 --parallel 2
lose 'beeswax serve'
ended 'beeswax serve'
# lost before the first step: the model cannot be loaded, and that is the end too
timeout 60 "$dir/llm-worker-rbee-rocm" --worker-id bee --model "$model" --port 0 --local-mode >"$dir/log" 2>"$dir/err"
same $? 1 'llm-worker-rbee: exit code when the device is lost while the model loads'
timeout 60 "$beeswax" serve "$model" --port 0 --device rocm:0 >"$dir/log" 2>"$dir/err"
same $? 1 'beeswax serve: exit code when the device is lost while the model loads'
timeout 60 "$beeswax" run "$model" -p x --device rocm:0 >"$dir/log" 2>"$dir/err"
same $? 1 'beeswax run: exit code when the device is lost'

echo "simgpu_e2e: $passed passed, $failed failed"
[ "$failed" -eq 0 ]
