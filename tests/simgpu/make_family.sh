#!/bin/sh
# A family's C++ for the simulation: its .hip source and a row for each of its kernels.
# usage: make_family.sh FAMILY SOURCE.hip OUTPUT.cpp PREPROCESSOR...
# PREPROCESSOR: the compiler with its flags; -E and the source are added.
set -eu
family=$1 source=$2 output=$3
shift 3
"$@" -E -P "$source" -o "$output.i"
{
    echo "/* Made by tests/simgpu/make_family.sh. */"
    echo "#include \"$source\""
    echo "#include \"sim_call.h\""
    echo "static const sim_kernel kernels[] = {"
    # extern "C" typename sim_void<BLOCK>::type NAME
    tr '\n' ' ' <"$output.i" |
        grep -o 'extern "C" typename sim_void< *[^;{}]*>::type *[A-Za-z_0-9]*' |
        sed 's/.*sim_void< *\(.*\) *>::type *\([A-Za-z_0-9]*\)$/    SIM_KERNEL(\2, \1)/'
    echo "};"
    echo "extern \"C\" const sim_family sim_family_$family;"
    echo "const sim_family sim_family_$family = {\"$family\", kernels, (int)(sizeof kernels / sizeof *kernels)};"
} >"$output"
rm "$output.i"
grep -q SIM_KERNEL "$output" || { echo "$source has no kernel" >&2; exit 1; }
