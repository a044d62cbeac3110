#!/bin/sh
# From a fresh machine to generated text: installs what is missing, builds, gets a small real model, generates.
# GPU kernels are built for the cards that are here, and for none where there is none.
# usage: tools/quickstart.sh [PROMPT]
set -eu
CDPATH= cd -- "$(dirname -- "$0")/.."
begin=$(date +%s)
. tools/cards.sh
if [ $gfx = native ]; then tools/packages.sh run amd; else tools/packages.sh run; fi
cmake --preset release -DBW_TESTS=OFF -DBW_GFX=$gfx -DBW_SM="$sm" -DBW_PTX=$ptx >/dev/null
cmake --build build
if [ $gfx != none ] || [ -n "$cards" ]; then
    build/bin/beeswax doctor || echo "(the processor will do for now)"
fi
model=$(tools/get_model.sh)
prompt=${*:-What is the capital of France, and what is it known for?}
echo
echo "> build/bin/beeswax run $model -n 100 -- \"$prompt\""
echo
build/bin/beeswax run "$model" -n 100 --temp 0 -- "$prompt"
echo
echo "from start to text: $(($(date +%s) - begin)) s. Next: build/bin/beeswax chat $model"
