#!/bin/sh
# Installs a build into an empty place and compiles the C example against nothing but what was installed there.
# usage: tools/check_install.sh BUILD_DIRECTORY
set -eu
CDPATH= cd -- "$(dirname -- "$0")/.."
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cmake --install "$1" --prefix "$place" >/dev/null
for f in bin/beeswax bin/llm-worker-rbee bin/llm-worker-rbee-cpu bin/llm-worker-rbee-rocm bin/llm-worker-rbee-cuda include/beeswax.h; do
    [ -e "$place/$f" ] || { echo "not installed: $f"; exit 1; }
done
lib=$(dirname "$(find "$place" -name 'libbeeswax.so' | head -1)")
cc -std=c17 -Wall -Wextra -Werror -I"$place/include" examples/generate.c -o "$place/generate" -L"$lib" -lbeeswax -Wl,-rpath,"$lib"
if "$place/generate" /nonexistent.gguf hello 2>"$place/err"; then echo "the example succeeded without a model"; exit 1; fi
grep -q nonexistent "$place/err"
cc -std=c17 -Wall -Wextra -Werror -I"$place/include" examples/arrays.c -o "$place/arrays" -L"$lib" -lbeeswax -Wl,-rpath,"$lib"
"$place/arrays" "$place/arrays.safetensors" >/dev/null
"$place/bin/beeswax" --version
[ "$("$place/bin/llm-worker-rbee-cpu" --build-info)" = release ]
