#!/bin/sh
# From a fresh machine to generated text: installs what is missing, builds, gets a small real model, generates.
# usage: tools/quickstart.sh [PROMPT]
set -eu
cd "$(dirname "$0")/.."
begin=$(date +%s)
tools/packages.sh run
cmake --preset release -DBW_TESTS=OFF >/dev/null
cmake --build build
model=$(tools/get_model.sh)
prompt=${1:-What is the capital of France, and what is it known for?}
echo
echo "> build/bin/beeswax run $model -n 100 \"$prompt\""
echo
build/bin/beeswax run "$model" -n 100 --temp 0 "$prompt"
echo
echo "from start to text: $(($(date +%s) - begin)) s. Next: build/bin/beeswax chat $model"
