# What the cards of this machine need, for scripts that source it: gfx, sm and ptx, values for -DBW_GFX, -DBW_SM and
# -DBW_PTX; cards, what is known of NVIDIA's, empty where there is none.
gfx=none
# AMD: the kernel driver lists what can compute; its nodes without a target are processors
if grep -qs '^gfx_target_version [1-9]' /sys/class/kfd/kfd/topology/nodes/*/properties; then gfx=native; fi
# NVIDIA: nvcc compiles for it, and its driver has counted a card. Which, nvidia-smi says ("9.0"): only those are built,
# and no PTX, where nvcc knows them all. Cards before 8.0 lack what the kernels need: they do not count
sm=none ptx=ON
nvcc=$(command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null || true)
cards=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | grep -x '[0-9][0-9]*\.[0-9]' | tr -d . | sort -nu || true)
if [ -n "$nvcc" ] && [ -n "$cards" ]; then
    usable=$(echo "$cards" | awk '$1 >= 80')
    sm=$(echo "${usable:-none}" | paste -s -d ';')
    [ -z "$usable" ] || ptx=OFF
    known=$("$nvcc" --list-gpu-code 2>/dev/null || true)
    for card in $usable; do
        echo "$known" | grep -qx "sm_$card" || sm=auto ptx=ON
    done
else
    cards=$(ls /proc/driver/nvidia/gpus 2>/dev/null || true)
    if [ -n "$nvcc" ] && [ -n "$cards" ]; then sm=auto; fi
fi
