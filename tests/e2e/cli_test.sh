#!/bin/sh
# The program beeswax from outside: exit codes, what it prints where, and what it says to bad input.
#   sh cli_test.sh PROGRAM DATA_FOLDER [FAKE_HIP_LIBRARY]
# With BW_TEST_MODEL=FILE also a real instruct model (SmolLM2) is run; without it those tests count as skipped.
# Prints one line per failure and a total; exits 1 when anything failed.
set -u
program=$1
data=$2
fake_hip=${3-}
tiny=$data/cli/tiny.gguf
no_vocab=$data/cli/no-vocab.gguf
dir=$(mktemp -d) || exit 1
server=
cleanup() {
    [ -z "$server" ] || kill -KILL "$server" 2>/dev/null
    rm -rf "$dir"
}
trap cleanup EXIT
trap 'exit 1' INT TERM
passed=0 failed=0 skipped=0

# Nothing outside the test may be found or written.
XDG_CACHE_HOME=$dir/cache HOME=$dir
export XDG_CACHE_HOME HOME
unset LLORCH_API_TOKEN HF_HOME HF_HUB_CACHE

pass() { passed=$((passed + 1)); }
fail() {
    failed=$((failed + 1))
    echo "FAIL: $*"
    sed 's/^/    out: /' "$dir/out" | head -5
    sed 's/^/    err: /' "$dir/err" | head -5
}
skip() {
    skipped=$((skipped + 1))
    echo "skipped: $*"
}

# run CODE ARGUMENTS...: standard input is empty; leaves out and err behind.
run() {
    want=$1
    shift
    what="beeswax $*"
    "$program" "$@" </dev/null >"$dir/out" 2>"$dir/err"
    got=$?
    if [ "$got" -eq "$want" ]; then pass; else fail "$what: exit code $got, not $want"; fi
}
# says PATTERN: the last run's standard error matches.
says() { if grep -q -e "$1" "$dir/err"; then pass; else fail "$what: nothing like \"$1\" on standard error"; fi; }
prints() { if grep -q -e "$1" "$dir/out"; then pass; else fail "$what: nothing like \"$1\" on standard output"; fi; }
# What went wrong is one sentence, and nothing else was printed.
one_sentence() {
    if [ "$(grep -c '^beeswax: ' "$dir/err")" -eq 1 ] && [ "$(wc -l <"$dir/err")" -eq 1 ] && [ ! -s "$dir/out" ]; then
        pass
    else
        fail "$what: not exactly one sentence"
    fi
}
same() { if [ "$1" = "$2" ]; then pass; else fail "$3: \"$1\" is not \"$2\""; fi; }

# ---- the program and its options
run 0; prints '^Usage: beeswax COMMAND'
run 0 --version; prints '^beeswax [0-9]*\.[0-9]*\.[0-9]*$'
run 0 help; prints 'quantize'
for command in run chat serve bench; do
    run 0 help $command; prints '--gpu-layers N'; prints 'auto, as many as'
done
for command in run chat serve bench inspect quantize devices doctor; do
    run 0 help $command; prints "^Usage: beeswax $command"; prints '  -h, --help'
    run 0 $command --help; prints "^Usage: beeswax $command"
    run 2 $command --no-such-option; says 'there is no option --no-such-option'; says "^Usage: beeswax $command"
    run 2 $command -Z; says 'there is no option -Z'
done
for command in run chat serve bench inspect quantize; do
    run 2 $command; says "^beeswax: $command needs"
done
run 2 nonsense; says 'no command "nonsense"'
run 2 help nonsense; says 'no command "nonsense"'
run 2 --nonsense; says 'no option --nonsense'
run 2 run "$tiny" x -n; says '-n needs a value'
run 2 run "$tiny" x --temp; says '--temp needs a value'
run 2 run "$tiny" x -n 1x; says '--n-predict needs a whole number'
run 2 run "$tiny" x -n -1; says '--n-predict needs a whole number'
run 2 run "$tiny" x -n 99999999999999999999; says '--n-predict needs a whole number'
run 2 run "$tiny" x --temp=; says '--temp needs a number'
run 2 run "$tiny" x --temp nan; says '--temp needs a number'
run 2 run "$tiny" x --temp -0.5; says '--temp needs a number'
run 2 run "$tiny" x --top-p 1.5; says '--top-p needs a number'
run 2 run "$tiny" x --seed -1; says '--seed needs a whole number'
run 2 run "$tiny" x --kv q3; says '--kv must be one of f16, bf16, q8_0'
run 2 run "$tiny" x --threads 0; says '--threads needs'
run 2 run "$tiny" x --gpu-layers x; says '--gpu-layers needs auto or a whole number from 1'
run 2 run "$tiny" x --gpu-layers 0; says '--gpu-layers needs auto or a whole number from 1'
run 2 run "$tiny" x --quiet=1; says '--quiet takes no value'
run 2 run "$tiny" x --chat --raw; says 'exclude each other'
run 2 run "$tiny" x --raw --system y; says 'leave --raw out'
run 2 run "$tiny" x -p y; says 'two prompts'
run 2 chat "$tiny" x; says 'one word too many'
run 2 serve "$tiny" --port 70000; says '--port needs'
run 2 bench "$tiny" -r 0; says '--repetitions needs'
run 2 devices x; says 'one word too many'

# ---- files that are no models
: >"$dir/empty.gguf"
echo 'just text' >"$dir/text.gguf"
printf 'GGUF\003\000\000\000\377\377\377\377\377\377\377\177\377\377\377\377\377\377\377\177' >"$dir/huge.gguf"
printf 'GGUF\143\000\000\000\000\000\000\000\000\000\000\000' >"$dir/version.gguf"
head -c 3000 "$tiny" >"$dir/header-cut.gguf"
head -c 50000 "$tiny" >"$dir/data-cut.gguf"
printf '\377\377\377\377\377\377\377\177{}' >"$dir/bad.safetensors"
mkdir "$dir/folder"
for command in "run -p x" chat bench inspect; do
    for file in missing.gguf empty.gguf text.gguf huge.gguf version.gguf header-cut.gguf data-cut.gguf bad.safetensors \
        folder; do
        # shellcheck disable=SC2086 # the command's words
        run 1 $command "$dir/$file"; one_sentence; says "$file"
    done
done
for file in missing.gguf text.gguf header-cut.gguf data-cut.gguf folder; do
    run 1 quantize "$dir/$file" "$dir/never.gguf" q4_0; one_sentence
    if [ -e "$dir/never.gguf" ]; then fail "$what: left a file behind"; else pass; fi
done
run 1 run no/such-model -p x; one_sentence; says 'no/such-model'

# ---- a model under a name without an ending, as other programs' stores keep them: its first bytes say what it is
blob=$dir/sha256-8f1c0e
cp "$tiny" "$blob"
run 0 run "$blob" -p abc -n 2 --temp 0; says 'generated 2 tokens'
run 0 inspect "$blob"; prints '^format: gguf'
run 0 bench "$blob" -p 4 -n 2 -r 1 --no-bandwidth; prints '^prompt '
run 0 quantize "$blob" "$blob-q" q8_0; says 'tensors converted'
run 0 run "$blob-q" -p abc -n 2 --temp 0; says 'generated 2 tokens'
run 0 inspect "$data/formats/one.safetensors"; prints '^format: safetensors'
cp "$data/formats/one.safetensors" "$blob-st"
run 0 inspect "$blob-st"; prints '^format: safetensors'
run 1 run "$blob-st" -p x; one_sentence; says 'config.json'
cp "$dir/text.gguf" "$blob-text"
run 1 run "$blob-text" -p x; one_sentence; says 'neither GGUF .* nor safetensors'
run 1 run '' -p x; one_sentence

# ---- run
run 0 run "$tiny" abc -n 12 --temp 0
text=$(cat "$dir/out")
if [ -n "$text" ]; then pass; else fail "$what: no text"; fi
says 'generated 12 tokens'
run 0 run "$tiny" -p abc -n 12 --temp 0 --no-stream; same "$(cat "$dir/out")" "$text" "$what"
run 0 run --temp=0 -n12 "$tiny" -q -- abc; same "$(cat "$dir/out")" "$text" "$what"
same "$(cat "$dir/err")" '' "$what, quiet"
run 0 run "$tiny" -p abc -n 12 --temp 0 --threads 1 --batch 4 --ctx 64; same "$(cat "$dir/out")" "$text" "$what"
run 0 run "$tiny" -p abc -n 12 --temp 0 --json
prints '^{"text":".*","finish":"length","prompt_tokens":[0-9]*,"cached_tokens":0,"generated_tokens":12,.*}$'
what='beeswax run, prompt on standard input'
printf 'abc\n' | "$program" run "$tiny" -n 12 --temp 0 >"$dir/out" 2>"$dir/err"
same "$(cat "$dir/out")" "$text" "$what"
run 0 run "$tiny" -p abc -n 12 --seed 5; text=$(cat "$dir/out")
run 0 run "$tiny" -p abc -n 12 --seed 5; same "$(cat "$dir/out")" "$text" "$what, the same seed"
run 0 run "$tiny" -p abc -n 12 --seed 6
if [ "$(cat "$dir/out")" = "$text" ]; then fail "$what: another seed gave the same text"; else pass; fi
run 0 run "$tiny" -p abc -n 12 --temp 0 --raw; says 'prompt [1-9]'
for kv in f16 bf16 q8_0; do
    run 0 run "$tiny" -p abc -n 4 --kv $kv
done
for option in "--top-k 3" "--top-p 0.5" "--min-p 0.2" "--repeat-penalty 1.3" "--system hello" "--chat" "--ignore-eos" \
    "--stop q --stop z" "--verbose" "--log-json" "-n 0" "--gpu-layers auto" "--gpu-layers=auto --device cpu:0"; do
    # shellcheck disable=SC2086
    run 0 run "$tiny" -p abc -n 4 $option
done
run 0 run "$tiny" -p abc -n 100000 --ignore-eos; says 'length'
run 1 run "$tiny" -p abcdefghijklmnopqrstuvwxyz --raw --ctx 8; one_sentence; says 'context'
run 1 run "$tiny" -p "$(printf 'a\377b')"; one_sentence; says 'not UTF-8'
export BW_CUDA_LIBRARY=/nowhere/cuda.so
run 1 run "$tiny" -p x --device cuda:0; one_sentence; says '/nowhere/cuda.so cannot be loaded'
unset BW_CUDA_LIBRARY
run 1 run "$tiny" -p x --device tpu; one_sentence
run 1 run "$no_vocab" -p x --raw; one_sentence; says 'no tokenizer'
what='beeswax run, standard input closed'
"$program" run "$tiny" <&- >"$dir/out" 2>"$dir/err"
same $? 1 "$what"
one_sentence

# ---- outputs that cannot be written
if [ -c /dev/full ]; then
    for arguments in "run $tiny -p abc -n 5" "run $tiny -p abc -n 5 --json" "inspect $tiny" "devices" "--version" "help" \
        "help run" "bench $no_vocab -p 4 -n 4 -r 1 --no-bandwidth"; do
        # shellcheck disable=SC2086
        "$program" $arguments </dev/null >/dev/full 2>"$dir/err"
        code=$?
        : >"$dir/out"
        same $code 1 "beeswax $arguments >/dev/full"
        what="beeswax $arguments >/dev/full"
        says 'standard output cannot be written: No space'
    done
else
    skip 'there is no /dev/full'
fi
"$program" devices >&- 2>"$dir/err"
same $? 1 'beeswax devices >&-'
what='beeswax devices >&-'
says 'standard output cannot be written'
# A reader that leaves: no message, no hang, no success.
what='beeswax run, reader gone'
{
    "$program" -q 2>/dev/null
    "$program" run "$tiny" -p abc -n 200 --ignore-eos 2>"$dir/err"
    echo $? >"$dir/code"
} | true
case $(cat "$dir/code") in
1 | 141) pass ;;
*) fail "$what: exit code $(cat "$dir/code")" ;;
esac
if grep -q 'beeswax:' "$dir/err"; then fail "$what: a message"; else pass; fi

# ---- chat
chat() { # chat INPUT ARGUMENTS...
    input=$1
    shift
    what="beeswax chat $*"
    # shellcheck disable=SC2059 # escapes are wanted
    printf "$input" | "$program" chat "$@" >"$dir/out" 2>"$dir/err"
    got=$?
}
chat 'abc\ndef\n' "$tiny" -n 8 --temp 0 -v
same $got 0 "$what"
same "$(wc -l <"$dir/out")" 2 "$what: answers"
says 'prompt [0-9]* tokens, [1-9][0-9]* of them cached'
first=$(head -1 "$dir/out")
chat 'abc\n/reset\nabc\n' "$tiny" -n 8 --temp 0
same "$(sed -n 2p "$dir/out")" "$first" "$what: after /reset"
chat '/help\n/nonsense\n\n   \n/exit\nabc\n' "$tiny" -n 8
same $got 0 "$what"
same "$(cat "$dir/out")" '' "$what: no answer was asked for"
says '/reset'
says 'no command /nonsense'
chat 'a\377b\n' "$tiny" -n 8
same $got 1 "$what, not UTF-8"
says 'not UTF-8'
chat 'abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz\nabc\n' "$tiny" -n 4 --ctx 48 --temp 0
same $got 1 "$what, too long"
says 'context'
same "$(wc -l <"$dir/out")" 1 "$what: the next line is answered"
chat 'abc\n' "$tiny" -n 2 --gpu-layers auto
same $got 0 "$what"
chat 'abc\n' "$no_vocab"
same $got 1 "$what, no tokenizer"

# ---- bench
for model in "$tiny" "$no_vocab"; do
    run 0 bench "$model" -p 40 -n 6 -t 1 --parallel 3 -r 2 --no-bandwidth --json
    for key in prompt_tokens_per_s generate_tokens_per_s batch_tokens_per_s rss_bytes peak_rss_bytes weight_bytes; do
        prints "\"$key\":[1-9][0-9.]*[,}]"
    done
    prints '"device":"cpu:0"'
done
run 0 bench "$no_vocab" -p 8 -n 4 -r 1; prints '^prompt '; prints '^generation '
prints '^bandwidth .* GB/s can be read (.* to .*, measured 3 times beside the runs)$'; prints '^ *a token reads .* of weights: .* GB/s, .*%$'
# An embedding of its own: of its 292 rows of 68 bytes one is read. The bandwidth is measured before, after the prompt and
# beside each generation.
run 0 bench "$tiny" -p 8 -n 4 -r 2 --json; prints '"weight_bytes":73120,"token_bytes":53332,'
prints '"read_samples":\[[0-9]*,[0-9]*,[0-9]*,[0-9]*\]'
run 0 bench "$data/lm/llama31.gguf" -p 8 -n 4 -r 1 --no-bandwidth --json; prints '"weight_bytes":60064,"token_bytes":60064,' # tied
run 0 bench "$no_vocab" -p 0 -n 4 -r 1 --no-bandwidth --json
if grep -q prompt_tokens_per_s "$dir/out"; then fail "$what: a number that was not asked for"; else pass; fi
run 0 bench "$no_vocab" -p 8 -n 0 -r 1 --no-bandwidth
run 0 bench "$no_vocab" -p 8 -n 1 -r 1 --no-bandwidth --gpu-layers auto
run 0 bench "$no_vocab" -p 8 -n 4 -r 1 --no-bandwidth --profile; prints '^linear '
run 1 bench "$no_vocab" -p 100 --ctx 50; one_sentence

# ---- inspect, quantize, devices
run 0 inspect "$tiny"; prints 'general.architecture'; prints 'blk.0.attn_q.weight'
run 0 inspect "$tiny" --json; prints '"general.architecture"'
run 2 inspect "$tiny" "$tiny"; says 'one file'
run 0 devices; prints '^cpu:0'; prints 'No GPU can be used here\|the first choice'
run 0 devices --json; prints '"device":"cpu:0"'
[ -e /dev/kfd ] || [ -e /dev/nvidiactl ] || { run 0 devices; prints 'beeswax doctor'; }

# ---- doctor, on made-up systems: what is wrong, and what to type
run 2 doctor x; says 'one word too many'
system=$dir/system
card() { # PCI_ADDRESS VENDOR
    mkdir -p "$system/sys/bus/pci/devices/$1"
    echo "$2" >"$system/sys/bus/pci/devices/$1/vendor"
    echo 0x030000 >"$system/sys/bus/pci/devices/$1/class"
}
doctor() { # CODE ARGUMENTS...
    want=$1
    shift
    what="beeswax doctor $*"
    env FAKE_HIP_ARCH="$arch" BW_HIP_LIBRARY="$hip" "$program" doctor --root "$system" "$@" >"$dir/out" 2>"$dir/err"
    got=$?
    if [ $got -eq "$want" ]; then pass; else fail "$what: exit code $got, not $want"; fi
    same "$(cat "$dir/err")" '' "$what"
}
arch=gfx1030 hip=/nowhere/libamdhip64.so
mkdir -p "$system/proc/self" "$system/sys/fs/cgroup/box/inner"
doctor 1; prints 'note .*threads .* by default: it may run on [1-9][0-9]* processors\{0,1\}$'
echo '0::/box/inner' >"$system/proc/self/cgroup"
echo '30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw' >"$system/proc/self/mountinfo"
echo '50000 100000' >"$system/sys/fs/cgroup/box/cpu.max"
echo '4194304' >"$system/sys/fs/cgroup/box/inner/memory.max"
doctor 1; prints 'note .*threads .* 1 computes by default: .*/sys/fs/cgroup/box/cpu.max allows the time of 0.5$'
prints 'note .*memory .*box/inner/memory.max allows 4.0 MiB, of which 4.0 MiB are left'
if [ ! -e /proc/driver/nvidia ]; then
    doctor 1; prints 'AMD'; prints 'no sign of one'; prints 'No GPU can be used'
    doctor 1 --json; prints '"usable":false,"default_device":"cpu:0"'
    card 0000:03:00.0 0x1002
    doctor 1; prints 'bad .*kernel driver .*not loaded'; prints '-> sudo modprobe amdgpu'; prints 'bad .*/dev/kfd .*not there'
    mkdir -p "$system/sys/module/amdgpu" "$system/dev/dri" "$system/run"
    doctor 1; prints 'ok .*amdgpu in the kernel'; prints 'libamdhip64.so cannot be loaded'; prints '-> sudo apt install libamdhip64-5'
    touch "$system/run/.containerenv"
    doctor 1; prints '-> start the container with --device /dev/kfd --device /dev/dri'
    touch "$system/dev/kfd" "$system/dev/dri/renderD128"
    chmod 660 "$system/dev/kfd" "$system/dev/dri/renderD128"
    doctor 1; prints "ok .*/dev/kfd .*--group-add $(stat -c %g "$system/dev/kfd")"; prints 'ok .*renderD128'
    # without the rights, as another user
    if [ "$(id -u)" = 0 ] && chmod 755 "$dir" && setpriv --reuid=65534 --regid=65534 --clear-groups test -x "$program"; then
        chgrp 12345 "$system/dev/kfd"
        what='beeswax doctor as nobody'
        nobody='setpriv --reuid=65534 --regid=65534 --clear-groups env BW_HIP_LIBRARY=/nowhere'
        $nobody "$program" doctor --root "$system" >"$dir/out"
        prints 'bad .*/dev/kfd .*may not be opened'; prints '-> start the container with --group-add 12345'
        rm "$system/run/.containerenv"
        $nobody "$program" doctor --root "$system" >"$dir/out"
        prints '-> sudo groupadd -g 12345 render && sudo usermod -aG render '
        chmod 600 "$system/dev/kfd"
        $nobody "$program" doctor --root "$system" >"$dir/out"
        prints '-> its group may not open it either: sudo chmod g+rw /dev/kfd'
    else
        skip 'doctor without rights: this needs root, setpriv and a program that others may run'
    fi
    echo 'Linux version 5.15-microsoft-standard-WSL2' >"$system/proc/version"
    doctor 1; prints 'docs/troubleshooting.md'
    rm "$system/proc/version"
    if [ -n "$fake_hip" ]; then
        hip=$fake_hip
        doctor 1; prints 'ok .*HIP runtime .*version 6.0.32831'; prints 'bad .*rocm:0 .*gfx1030, 64.0 GiB'; prints '-> cmake .*-DBW_GFX=gfx1030'
        mkdir "$dir/kernels" && : >"$dir/kernels/affine.gfx1030.hsaco"
        export BW_KERNEL_DIR="$dir/kernels"
        doctor 0; prints 'ok .*rocm:0 .*gets the kernels for gfx1030'; prints '^rocm:0 can be used'
        arch=gfx1100
        doctor 1; prints 'bad .*rocm:0 .*BW_KERNEL_DIR (.*kernels) holds no kernels for it'; prints '-> unset BW_KERNEL_DIR'
        unset BW_KERNEL_DIR
        arch=gfx1030
        export BW_GPU_LIBRARIES=0 BW_CPU_LIBRARIES=0
        doctor 1; prints 'MIOpen .*is left out: BW_GPU_LIBRARIES is 0'; prints 'oneDNN .*is left out: BW_CPU_LIBRARIES is 0'
        unset BW_GPU_LIBRARIES BW_CPU_LIBRARIES
        doctor 1
        arch=$(sed -n 's/.*only for \(gfx[0-9a-f]*\).*/\1/p' "$dir/out" | head -1)
        if [ -n "$arch" ]; then
            doctor 0; prints "ok .*rocm:0 .*gets the kernels for $arch"; prints '^rocm:0 can be used'
            doctor 0 --json; prints '"usable":true,"default_device":"rocm:0"'
        else
            skip 'this build has no AMD kernels: no card can be one that it fits'
        fi
    else
        skip 'no fake HIP library was given'
    fi
else
    skip 'doctor without a GPU: this machine has one'
fi
# the real HIP runtime, or none, without a card
if [ ! -e /dev/kfd ]; then
    run 1 run "$tiny" abc --device rocm:0; one_sentence; says 'rocm:0\|AMD'
    run 1 bench "$tiny" --device rocm:0; one_sentence
else
    skip 'rocm:0 without a card: this machine has /dev/kfd'
fi

run 0 quantize "$tiny" "$dir/q.gguf" q4_0; says 'tensors converted'
run 0 inspect "$dir/q.gguf"; prints 'q4_0'
run 0 run "$dir/q.gguf" -p abc -n 4
run 1 quantize "$tiny" "$dir/q.gguf" q4_0; one_sentence; says '--force'
run 0 quantize "$tiny" "$dir/q.gguf" f16 --force --pure -t 1 --json; prints '"converted":[1-9]'
run 0 quantize "$tiny" "$dir/q2.gguf" Q5_1 --output-type q8_0 --embedding-type f32 -q
same "$(cat "$dir/err")" '' "$what"
run 2 quantize "$tiny" "$dir/x.gguf" q9_9; says 'no type "q9_9"'
run 2 quantize "$tiny" "$dir/x.gguf" iq2_xs; says 'not write'
run 2 quantize "$tiny" "$dir/x.gguf" q4_0 --output-type nonsense; says 'no type "nonsense"'
run 1 quantize "$tiny" "$dir" q4_0; one_sentence; says 'no regular file'
run 1 quantize "$tiny" "$dir/no/such/folder/x.gguf" q4_0 -q; one_sentence
run 1 quantize "$tiny" /dev/null q4_0; one_sentence
# A file that may not grow: a message, nothing half written.
what='beeswax quantize, file too large'
(
    ulimit -f 8
    "$program" quantize "$tiny" "$dir/limited.gguf" f32 >"$dir/out" 2>"$dir/err"
)
same $? 1 "$what"
sed -i '/^libgcov profiling error:/d' "$dir/err" # a coverage build's own files may not grow either
one_sentence
same "$(find "$dir" -name 'limited*')" '' "$what: left behind"

# ---- serve
run 1 serve "$tiny" --host 256.1.1.1 -q; one_sentence
run 1 serve "$dir/missing.gguf" -q; one_sentence
run 1 serve "$dir/text.gguf" --port 0 -q; says 'text.gguf'
serve() { # serve ARGUMENTS...: on a free port; sets url and server
    : >"$dir/err" # else the last server's address may be read
    "$program" serve "$@" --port 0 >"$dir/out" 2>"$dir/err" &
    server=$!
    url=
    for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
        url=$(sed -n 's/^\(http:[^ ]*\) .*/\1/p' "$dir/err")
        [ -z "$url" ] || break
        sleep 0.25
    done
}
stop() { # stop SIGNAL: the server ends in time, with 0
    begin=$(date +%s%3N)
    kill "-$1" "$server"
    wait "$server"
    same $? 0 "beeswax serve after SIG$1"
    server=
    if [ $(($(date +%s%3N) - begin)) -lt 2000 ]; then pass; else fail "beeswax serve: SIG$1 took too long"; fi
}
if command -v curl >/dev/null; then
    serve "$blob" --name bee
    what='beeswax serve'
    case $url in
    http://127.0.0.1:*) pass ;;
    *) fail "$what: no address" ;;
    esac
    same "$(curl -s -o /dev/null -w '%{http_code}' "$url/health")" 200 "$what: health"
    curl -s "$url/v1/completions" -H 'Content-Type: application/json' \
        -d '{"prompt":"abc","max_tokens":5,"temperature":0}' >"$dir/out"
    prints '"completion_tokens": *5'
    prints '"model": *"bee"'
    stop TERM
    serve "$tiny" --token secret --parallel 2 --gpu-layers auto --ctx 64 --queue 3 --kv-tokens 128
    what='beeswax serve --token'
    same "$(curl -s -o /dev/null -w '%{http_code}' "$url/v1/models")" 401 "$what: without it"
    same "$(curl -s -o /dev/null -w '%{http_code}' -H 'Authorization: Bearer secret' "$url/v1/models")" 200 "$what"
    port=${url##*:}
    stop INT
    serve "$tiny"
    port=${url##*:}
    run 1 serve "$tiny" --port "$port" -q; one_sentence
    stop TERM
else
    skip 'serve: there is no curl'
fi

# ---- a driver that hangs when it is opened: the port is open, and every program can be ended
if [ -n "$fake_hip" ]; then
    BW_HIP_LIBRARY=$fake_hip FAKE_HIP_HANG_MS=60000
    export BW_HIP_LIBRARY FAKE_HIP_HANG_MS
    for signal in TERM HUP; do
        serve "$tiny"
        if command -v curl >/dev/null; then
            same "$(curl -s -m 1 -o /dev/null -w '%{http_code}' "$url/health")" 200 "serve, a driver hangs: health"
        fi
        stop $signal
        "$program" run "$tiny" -p x >"$dir/out" 2>"$dir/err" &
        child=$!
        sleep 0.3
        begin=$(date +%s%3N)
        kill -$signal $child
        wait $child
        code=$? # of the signal itself
        if [ $code -gt 128 ] && [ $(($(date +%s%3N) - begin)) -lt 2000 ]; then pass
        else fail "beeswax run, a driver hangs: exit code $code after SIG$signal"; fi
    done
    unset BW_HIP_LIBRARY FAKE_HIP_HANG_MS
fi

# ---- a real model
if [ -n "${BW_TEST_MODEL:-}" ]; then
    run 0 run "$BW_TEST_MODEL" 'What is the capital of France?' -n 8 --temp 0; prints '[A-Za-z]'
    says 'prompt [2-9][0-9] tokens' # the template is in it
    run 0 run "$BW_TEST_MODEL" --raw -p 'The capital of France is' -n 4 --temp 0; prints 'Paris'
    chat 'My name is Alice.\nWhat is my name?\n' "$BW_TEST_MODEL" -n 8 --temp 0 -v
    same $got 0 "$what"
    says 'prompt [0-9]* tokens, [1-9][0-9]* of them cached'
    what='beeswax run, interrupted'
    : >"$dir/out" # else old text ends the waiting, and a signal sent before the program has begun may be lost
    "$program" run "$BW_TEST_MODEL" -p 'Tell a long story.' -n 4000 --ignore-eos >"$dir/out" 2>"$dir/err" &
    child=$!
    for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
        [ ! -s "$dir/out" ] || break
        sleep 0.25
    done
    kill -TERM "$child"
    wait "$child"
    same $? 130 "$what"
    says 'cancelled'
else
    skip 'the tests with a real model: BW_TEST_MODEL is not set'
fi

echo "cli_test: $passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
