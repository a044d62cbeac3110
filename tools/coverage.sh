#!/bin/bash
# Line coverage of a build made with -DBW_COVERAGE=ON whose tests have run. usage: tools/coverage.sh BUILD_DIRECTORY
# Prints covered and total lines per module of src/, by gcov; with --files also each file's and its first missed lines.
# Fails when base, tensor, device, ops or plan is not there or below 90% of its lines.
set -eu -o pipefail
CDPATH= cd -- "$(dirname -- "$0")/.."
build=$(cd "$1" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
find "$build/src" $(ls -d "$build/tests/emulated/CMakeFiles/bw_emulated.dir" 2>/dev/null || true) -name '*.gcda' | while read -r data; do
    # a folder for each object: what several objects compile, a header, has a file of one name from each
    folder=$(mktemp -d "$work/XXXXXX")
    (cd "$folder" && gcov -p -o "$(dirname "$data")" "$data" >/dev/null 2>&1 || true)
done
find "$work" -name '*.gcov' -exec cat {} + | awk -F: -v files="${2:-}" '
    { if ($2 + 0 == 0) { if ($3 == "Source") file = $4; next } }
    file ~ /\/src\// || file ~ /^src\// {
        count = $1; gsub(/[ *]/, "", count)
        if (count == "-") next
        module = file; sub(/.*src\//, "", module); sub(/\/.*/, "", module)
        key = file ":" $2
        if (!(key in seen)) { seen[key] = module; total[module]++; in_file[key] = file; file_total[file]++; line[key] = $2 + 0 }
        if (count !~ /^[#=]/ && !(key in hit)) { hit[key] = 1; covered[module]++; file_covered[file]++ }
    }
    END {
        for (m in total) { printf "%-12s %6d of %6d lines  %5.1f%%\n", m, covered[m], total[m], 100 * covered[m] / total[m]
                           a += covered[m]; b += total[m] }
        if (files == "--files") {
            for (k in seen) if (!(k in hit)) missed[in_file[k]] = missed[in_file[k]] " " line[k]
            for (f in file_total) { name = f; sub(/.*src\//, "src/", name)
                printf "%-44s %5d of %5d%s\n", name, file_covered[f], file_total[f], substr(missed[f], 1, 300) }
        }
        if (b) printf "%-12s %6d of %6d lines  %5.1f%%\n", "all", a, b, 100 * a / b
        n = split("base tensor device ops plan", wanted, " ")
        for (i = 1; i <= n; i++)
            if (covered[wanted[i]] < 0.9 * total[wanted[i]] || !total[wanted[i]]) {
                print "FAILED: less than 90% of the lines of " wanted[i] " are covered"
                bad = 1
            }
        exit bad
    }' | sort
