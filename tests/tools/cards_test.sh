#!/bin/sh
# What tools/cards.sh makes of NVIDIA's programs, here scripts of a made-up machine: which targets are built.
#   sh cards_test.sh SOURCE_FOLDER
set -u
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
failed=0
# cards CAPABILITIES KNOWN SOURCE_FOLDER WANTED: what nvidia-smi prints ("" = it fails), the targets that nvcc lists, what is wanted
cards() {
    printf '#!/bin/sh\n[ -n "%s" ] || exit 9\nprintf "%s\\n"\n' "$1" "$1" >"$dir/nvidia-smi"
    printf '#!/bin/sh\n[ "$1" = --list-gpu-code ] && printf "%s\\n"\n' "$2" >"$dir/nvcc"
    chmod +x "$dir/nvidia-smi" "$dir/nvcc"
    got=$(PATH=$dir:$PATH sh -eu -c '. "$1/tools/cards.sh"; echo "$sm $ptx"' sh "$3") || got="exit status $?"
    [ "$got" = "$4" ] || { failed=1; echo "FAIL: \"$1\" with nvcc's \"$2\": \"$got\" instead of \"$4\""; }
}
all='sm_75\nsm_80\nsm_86\nsm_89\nsm_90\nsm_100\nsm_120'
cards 9.0 "$all" "$1" '90 OFF'
cards '8.9\n8.9\n8.6' "$all" "$1" '86;89 OFF'
cards '12.0\n9.0' "$all" "$1" '90;120 OFF'
cards 7.5 "$all" "$1" 'none ON' # too old for the kernels
cards '7.5\n9.0' "$all" "$1" '90 OFF'
cards 12.0 'sm_80\nsm_90' "$1" 'auto ON'  # PTX serves a card that this nvcc does not know
cards 9.0 '' "$1" 'auto ON'                # an nvcc that lists nothing
if [ ! -e /proc/driver/nvidia/gpus ]; then
    cards '' "$all" "$1" 'none ON'
    cards '[N/A]' "$all" "$1" 'none ON'
else # the driver counts a card that nvidia-smi says nothing about
    cards '' "$all" "$1" 'auto ON'
fi
[ $failed -eq 0 ] && echo 'cards_test: all targets are the right ones'
exit $failed
