#!/bin/bash
# The house rules that a machine can check: formatting, file lengths, no unfinished work, no paths of a machine.
set -u
CDPATH= cd -- "$(dirname -- "$0")/.." || exit 1
bad=0
c_files=$(git ls-files '*.c' '*.h')
tables='unicode_tables|iq_tables' # generated
format=$(command -v clang-format-14 || command -v clang-format)
for f in $(printf '%s\n' $c_files | grep -Ev "$tables"); do
    "$format" --dry-run -Werror "$f" >/dev/null 2>&1 || { echo "not formatted: $f"; bad=1; }
    n=$(wc -l <"$f")
    [ "$n" -le 800 ] || { echo "$f has $n lines; 800 are allowed"; bad=1; }
done
# a function: from a { to a } in the first column
for f in $(printf '%s\n' $c_files); do
    awk -v f="$f" '/^\{/ {s = NR} /^\}/ {if (s && NR - s - 1 > 80) {print f ":" s ": a function of " NR - s - 1 " lines; 80 are allowed"; bad = 1} s = 0} END {exit bad}' "$f" || bad=1
done
if git grep -nE '(^|[^A-Za-z_])(TODO|FIXME|XXX)[^A-Za-z_(]' -- '*.c' '*.h' '*.def' '*.sh' '*.py' ':!tools/check_sources.sh'; then
    echo "unfinished work is marked above"; bad=1
fi
if git grep -nE '(^|[^A-Za-z0-9_./-])/(work|root|farm)/' -- . ':!tools/check_sources.sh'; then
    echo "paths of a machine are above"; bad=1
fi
# every folder of tests is built, and so run
for f in tests/*/CMakeLists.txt; do
    folder=$(basename "$(dirname "$f")")
    grep -qw "$folder" tests/CMakeLists.txt || { echo "$f is nowhere added"; bad=1; }
done
exit $bad
