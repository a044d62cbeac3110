#!/bin/sh
# Runs one libFuzzer target for some seconds from its seeds. What it finds stays in fuzz-findings/NAME.
# usage: tools/fuzz.sh TARGET SECONDS
set -eu
target=$1 seconds=$2
name=$(basename "$target" | sed 's/^fuzz_//')
seeds=$(dirname "$0")/../tests/fuzz/seeds/$name
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
findings=fuzz-findings/$name
mkdir -p "$findings"
[ -d "$seeds" ] || seeds=
# shellcheck disable=SC2086
"$target" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 -artifact_prefix="$findings/" "$work" $seeds
