#!/usr/bin/env python3
"""Token by token against llama.cpp: both programs see llama.cpp's own greedy tokens; how often do they choose alike?

usage: teacher_forced.py LM_ARGMAX MODEL.gguf [--kv f16] [--variant V] [--cache FILE]
LM_ARGMAX is build/tests/lm_argmax. Needs PyPI's llama-cpp-python and numpy. Prompts: prompts.txt beside this file, in the
model's chat template, or ChatML where it has none. llama.cpp runs with its defaults (f16 KV cache), 2 threads.
"""
import argparse
import json
import os
import subprocess

import numpy as np
N_NEW = 64
CHATML = "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n"


def ask_llama(model):
    """For each prompt: (length of the prompt, all tokens), [(llama.cpp's token, its distance to the second)]."""
    from llama_cpp import Llama
    here = os.path.dirname(os.path.abspath(__file__))
    prompts = open(os.path.join(here, "prompts.txt"), encoding="utf-8").read().splitlines()
    llm = Llama(model, n_ctx=1024, n_threads=2, n_threads_batch=2, logits_all=True, verbose=False)
    lines, theirs = [], []
    for prompt in prompts:
        tokens = llm.tokenize(CHATML.format(prompt).encode(), add_bos=True, special=True)
        llm.reset()
        llm.eval(tokens)
        row = []
        for _ in range(N_NEW):
            logits = np.array(llm.scores[llm.n_tokens - 1], dtype=np.float64)
            order = np.argpartition(logits, -2)[-2:]
            best, second = order[np.argmax(logits[order])], order[np.argmin(logits[order])]
            row.append((int(best), float(logits[best] - logits[second])))
            llm.eval([int(best)])
        lines.append((len(tokens), tokens + [t for t, _ in row]))
        theirs.append(row)
    return lines, theirs


def main():
    a = argparse.ArgumentParser()
    a.add_argument("lm_argmax")
    a.add_argument("model")
    a.add_argument("--kv", default="f16")
    a.add_argument("--variant")
    a.add_argument("--cache", help="keep llama.cpp's answers in this file, and take them from it when it is there")
    args = a.parse_args()
    if args.cache and os.path.exists(args.cache):
        lines, theirs = json.load(open(args.cache))
    else:
        lines, theirs = ask_llama(args.model)
        if args.cache:
            json.dump((lines, theirs), open(args.cache, "w"))
    command = [args.lm_argmax, args.model, "--kv", args.kv]
    if args.variant:
        command += ["--variant", args.variant]
    text = "".join(f"{n} {' '.join(map(str, t))}\n" for n, t in lines)
    out = subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout.splitlines()
    same = total = sure = sure_same = 0
    worst = 0.0
    for row, line in zip(theirs, out):
        fields = line.split()
        ours = list(zip(map(int, fields[::2]), map(float, fields[1::2])))
        assert len(ours) == len(row), (len(ours), len(row))
        for (t, gap), (o, _) in zip(row, ours):
            total += 1
            same += t == o
            if t != o:
                worst = max(worst, gap)
            if gap > 1.0:
                sure += 1
                sure_same += t == o
    print(f"{os.path.basename(args.model)}: {same} of {total} the same ({100 * same / total:.2f}%); "
          f"of the {sure} with a gap above 1.0: {sure_same}; largest gap that differs: {worst:.3f}")
    return 0 if sure == sure_same and same >= 0.97 * total else 1


if __name__ == "__main__":
    raise SystemExit(main())
