#!/bin/sh
# Two devices, token by token: the first chooses tokens greedily, the second sees those same tokens; how often would it
# have chosen alike, and above which distance of the two highest logits always?
# usage: devices.sh LM_ARGMAX MODEL CHOOSING_DEVICE JUDGING_DEVICE [N_NEW] [CHUNK] [SHARE]
# LM_ARGMAX is build/tests/lm_argmax. PROMPTS in the environment: a file with one on each line, else prompts.txt beside this. CHUNK: tokens in a step of the judge (255).
# Ends with 0 where every token is alike whose two highest logits are more than 1.0 apart, and SHARE percent (97) of all.
set -eu
argmax=$1 model=$2 chooser=$3 judge=$4 n_new=${5:-64} chunk=${6:-255} share=${7:-97}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"$argmax" "$model" --device "$chooser" --threads 16 --greedy "$n_new" <"${PROMPTS:-$(dirname "$0")/prompts.txt}" >"$dir/lines"
"$argmax" "$model" --device "$judge" --threads 16 --chunk "$chunk" <"$dir/lines" >"$dir/judged"
paste -d '|' "$dir/lines" "$dir/judged" | awk -F '|' -v share="$share" '
    { n = split($1, t, " "); split($2, a, " "); p = t[1]
      for (i = p + 2; i <= n; i++) { # t[1] is the length, t[p + 2] the first chosen token
          k = i - p - 2; got = a[2 * k + 1]; gap = a[2 * k + 2]; total++; same += got == t[i]
          if (gap > 1) { sure++; sure_same += got == t[i] } } }
    END { printf "same %d of %d (%.2f%%); gap above 1.0: %d of %d\n", same, total, 100 * same / total, sure_same, sure
          exit !(total > 0 && sure_same == sure && 100 * same >= share * total) }'
