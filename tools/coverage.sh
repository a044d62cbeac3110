#!/bin/bash
# Line coverage of a build made with -DBW_COVERAGE=ON whose tests have run. usage: tools/coverage.sh BUILD_DIRECTORY
# Prints covered and total lines per module of src/, by gcov.
set -eu
cd "$(dirname "$0")/.."
build=$(cd "$1" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
find "$build/src" -name '*.gcda' | while read -r data; do
    (cd "$work" && gcov -p -o "$(dirname "$data")" "$data" >/dev/null 2>&1 || true)
done
awk -F: '
    FNR == 1 { file = "" }
    $3 == "Source" || ($2 + 0 == 0 && $3 == "Source") { file = $4 }
    { if ($2 + 0 == 0) { if ($3 == "Source") file = $4; next } }
    file ~ /\/src\// || file ~ /^src\// {
        count = $1; gsub(/[ *]/, "", count)
        if (count == "-") next
        module = file; sub(/.*src\//, "", module); sub(/\/.*/, "", module)
        key = file ":" $2
        if (!(key in seen)) { seen[key] = module; total[module]++ }
        if (count !~ /^[#=]/ && !(key in hit)) { hit[key] = 1; covered[module]++ }
    }
    END {
        for (m in total) { printf "%-12s %6d of %6d lines  %5.1f%%\n", m, covered[m], total[m], 100 * covered[m] / total[m]
                           a += covered[m]; b += total[m] }
        if (b) printf "%-12s %6d of %6d lines  %5.1f%%\n", "all", a, b, 100 * a / b
    }' "$work"/*.gcov | sort
