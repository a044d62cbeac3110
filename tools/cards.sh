# What the cards of this machine need, for scripts that source it: gfx and sm, values for -DBW_GFX and -DBW_SM; cards, names
# of NVIDIA's, empty where there is none.
gfx=none
# AMD: the kernel driver lists what can compute; its nodes without a target are processors
if grep -qs '^gfx_target_version [1-9]' /sys/class/kfd/kfd/topology/nodes/*/properties; then gfx=native; fi
# NVIDIA: nvcc compiles for it, and its driver has counted a card
sm=none
nvcc=$(command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null || true)
cards=$(ls /proc/driver/nvidia/gpus 2>/dev/null || true)
if [ -n "$nvcc" ] && [ -n "$cards" ]; then sm=auto; fi
