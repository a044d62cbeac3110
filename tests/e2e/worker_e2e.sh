#!/bin/sh
# The real worker with a tiny model, as its clients meet it: a queen's request, the unmodified packages openai, litellm,
# langchain-openai and llm, a crowd of clients, and its end in under 2 s.
#   sh worker_e2e.sh WORKER SOAK MODEL FOLDER_OF_THIS_SCRIPT [MOST_GROWTH [MAKE_MODEL]]
# MOST_GROWTH: percent that resident memory may grow in these few seconds, 50; a sanitizer keeps freed memory, so more there.
# SOAK and MAKE_MODEL may be empty: those parts are left out. The packages are looked for in ${BW_TEST_PYTHON:-python3}.
set -u
worker=$1 soak=$2 model=$3 here=$4 growth=${5:-50} make_model=${6:-}
dir=$(mktemp -d) || exit 1
pid=
cleanup() {
    [ -z "$pid" ] || kill -KILL "$pid" 2>/dev/null
    rm -rf "$dir"
}
trap cleanup EXIT
trap 'exit 1' INT TERM
unset LLORCH_API_TOKEN http_proxy HTTP_PROXY all_proxy ALL_PROXY
failed=0
fail() {
    failed=$((failed + 1))
    echo "FAIL: $1"
    tail -n 20 "$dir/out" "$dir/err" 2>/dev/null
}

# Under ROCm's name without a card, whatever HIP runtime is installed: one sentence, exit code 1, no fall-back.
if [ ! -e /dev/kfd ]; then
    ln -s "$(realpath "$worker")" "$dir/llm-worker-rbee-rocm"
    timeout 30 "$dir/llm-worker-rbee-rocm" --worker-id w --model "$model" --port 0 --local-mode --rocm-device 0 \
        >"$dir/out" 2>"$dir/err"
    code=$?
    [ $code -eq 1 ] || fail "--rocm-device 0 without a card: exit code $code"
    [ "$(grep -c '^Error: .*\(ROCm\|AMD\|rocm\)' "$dir/err")" -eq 1 ] || fail '--rocm-device 0 without a card: not one sentence'
else
    echo 'SKIPPED: --rocm-device without a card: this machine has /dev/kfd'
fi

# start MODEL [PROGRAM ARGUMENTS...]: leaves pid and url. The arguments run the worker: a limit of time, for instance.
start() {
    start_model=$1; shift
    : >"$dir/err" # the background job may empty it only after it was read here
    "$@" "$worker" --worker-id w --model "$start_model" --port 0 --local-mode >"$dir/out" 2>"$dir/err" &
    pid=$!
    url=
    for _ in $(seq 160); do # 40 s: machines that run tests are busy
        url=$(sed -n 's/.*listening on \(http:[^" ]*\).*/\1/p' "$dir/err")
        [ -z "$url" ] || return 0
        sleep 0.25
    done
    fail "the worker names no address"
    exit 1
}
python=${BW_TEST_PYTHON:-python3}

# Clients that offer tools and have them in the history: a model whose template shows tools.
if [ -n "$make_model" ]; then
    "$make_model" tiny "$dir/tools" >/dev/null || fail "make_model"
    cp "$here/tools_template.jinja" "$dir/tools/chat_template.jinja"
    start "$dir/tools"
    "$python" "$here/other_clients.py" "$url" >"$dir/out" 2>&1 || fail "packages that talk to OpenAI's API, with tools"
    grep '^SKIPPED: ' "$dir/out"
    kill -TERM "$pid" && wait "$pid" || fail "exit code $? after SIGTERM"
    pid=
fi

# From here on under a name without an ending, as another program's store has it: the first bytes say what it is.
ln -s "$(realpath "$model")" "$dir/sha256-8f1c0e"
start "$dir/sha256-8f1c0e"

if command -v curl >/dev/null; then
    # Without --ctx it is the model's own.
    info=
    for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
        info=$(curl -s "$url/info")
        case $info in *n_ctx_train*) break ;; esac
        sleep 0.25
    done
    own=$(printf '%s' "$info" | sed -n 's/.*"n_ctx_train":\([0-9]*\).*/\1/p')
    ctx=$(printf '%s' "$info" | sed -n 's/.*"n_ctx":\([0-9]*\).*/\1/p')
    [ -n "$own" ] && [ "$ctx" = "$own" ] || fail "a context of $ctx tokens, the model's own is $own"
    # Control tokens in messages are text, unless the worker was told otherwise (below).
    prompt_tokens() {
        for _ in $(seq 80); do
            if curl -s "$url/v1/ready" | grep -q '"ready":true'; then break; fi
            sleep 0.25
        done
        curl -s -m 60 "$url/v1/chat/completions" -H 'Content-Type: application/json' \
            -d '{"messages":[{"role":"user","content":"a<|im_end|>b"}],"max_tokens":1}' |
            sed -n 's/.*"prompt_tokens":\([0-9]*\).*/\1/p'
    }
    as_text=$(prompt_tokens)
    # A queen: the flat body, then lines until [DONE]. The model may still be loading: the job is held.
    answer=$(curl -s "$url/v1/inference" -H 'Content-Type: application/json' \
        -d '{"prompt":"abc","max_tokens":6,"temperature":0.7,"top_p":0.9,"top_k":40}')
    sse=$(printf '%s' "$answer" | sed -n 's/.*"sse_url":"\([^"]*\)".*/\1/p')
    curl -s -m 60 "$url$sse" >"$dir/out"
    grep -q '^data: {"type":"started","job_id":"job-' "$dir/out" || fail "no started event: $answer"
    grep -q '^data: {"type":"end",' "$dir/out" || fail "no end event"
    [ "$(tail -n 2 "$dir/out" | head -n 1)" = 'data: [DONE]' ] || fail "the stream does not end with [DONE]"
else
    echo 'SKIPPED: a request with curl, which is not installed'
fi

if "$python" -c 'import openai' 2>/dev/null; then
    "$python" "$here/openai_client.py" "$url" >"$dir/out" 2>&1 || fail "the openai package"
else
    echo 'SKIPPED: the openai package is not installed'
fi

if [ -n "$soak" ]; then
    "$soak" "$url" --seconds 8 --clients 12 --max-tokens 20 --max-growth "$growth" >"$dir/out" 2>&1 || fail "soak"
    # Beside attackers nobody else may lose a request, be refused or wait for more than ten seconds; tools/soak.sh measures how long they wait.
    "$soak" "$url" --seconds 12 --clients 12 --max-tokens 20 --max-growth "$growth" --attack crowd,long,jobs --slow-ms 10000 \
        --max-refused 2 \
        >"$dir/out" 2>&1 || fail "soak beside attackers"
fi

begin=$(date +%s%3N)
kill -TERM "$pid"
wait "$pid"
code=$?
pid=
[ $code -eq 0 ] || fail "exit code $code after SIGTERM"
[ $(($(date +%s%3N) - begin)) -lt 2000 ] || fail "SIGTERM took more than 2 s"
if command -v curl >/dev/null; then
    for how in "env BW_CONTROL_TOKENS_IN_MESSAGES=1" "flag"; do
        if [ "$how" = flag ]; then
            printf '#!/bin/sh\nexec "$@" --control-tokens-in-messages\n' >"$dir/flag.sh"
            start "$model" sh "$dir/flag.sh"
        else
            # shellcheck disable=SC2086 # two words
            start "$model" $how
        fi
        as_tokens=$(prompt_tokens)
        [ -n "$as_tokens" ] && [ -n "$as_text" ] && [ "$as_tokens" -lt "$as_text" ] ||
            fail "control tokens in messages, $how: $as_tokens tokens of prompt, as text $as_text"
        kill -TERM "$pid" && wait "$pid" || fail "exit code $? after SIGTERM"
        pid=
    done
fi
# A model file that is cut short under the worker: 503 with a sentence, then an end that is no success.
if command -v curl >/dev/null; then
    cp "$model" "$dir/cut.gguf"
    start "$dir/cut.gguf" timeout 60 # it must end by itself
    ask() {
        curl -s -m 20 -o "$dir/body" -w '%{http_code}' "$url/v1/completions" -H 'Content-Type: application/json' \
            -d '{"prompt":"abc","max_tokens":4}'
    }
    [ "$(ask)" = 200 ] || fail 'before its file is cut'
    sleep 1.1
    truncate -s 20000 "$dir/cut.gguf"
    [ "$(ask)" = 503 ] || fail 'after its file was cut: not 503'
    grep -q 'cut.gguf was changed from [0-9]* to 20000 bytes' "$dir/body" || fail "after its file was cut: $(cat "$dir/body")"
    wait $pid
    code=$?
    pid=
    [ $code -eq 1 ] || fail "exit code $code after its file was cut"
    grep -q '^Error: .*cut.gguf was changed' "$dir/err" || fail 'after its file was cut: no sentence'
fi
[ $failed -eq 0 ] && echo "the worker's clients are served"
exit $failed
