#!/usr/bin/env python3
"""How far logits of quantised weights lie from those of the same weights in f32, for us and for llama.cpp.

usage: logit_noise.py BEESWAX LM_ARGMAX MODEL.gguf [TYPE...] [--prompts 200] [--chunk N] [--level avx2] [--keep FOLDER]
                      [--no-llama | --llama-f32]
LM_ARGMAX is build/tests/lm_argmax. Needs numpy and PyPI's llama-cpp-python (--no-llama: our
figures alone; its tokenizer is used all the same). For each TYPE (none:
the model as it is) the model is stored in TYPE, and that again in f32: the same values, exactly. Both programs read the
quantised file, ours the f32 one. The prompts are those of prompts.txt with ten different beginnings. Of the logits after
a prompt the ten largest by f32 count: mean |logit - f32 logit|, its 95% interval by prompt, and the difference between the
programs prompt by prompt, with its own interval. --chunk: our tokens of a step (1 = as text is generated).
"""
import argparse
import os
import subprocess
import tempfile

import numpy as np

CHATML = "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n"
BEGINNINGS = ["", "In one sentence: ", "Please help me. ", "For a child of ten: ", "I am in a hurry. ", "Be precise. ",
              "As a poet would say it: ", "Think first. ", "Answer in a list. ", "My teacher asks: "]
N_BEST = 10


def make_prompts(n):
    here = os.path.dirname(os.path.abspath(__file__))
    prompts = open(os.path.join(here, "prompts.txt"), encoding="utf-8").read().splitlines()
    return [CHATML.format(b + p) for b in BEGINNINGS for p in prompts][:n]


def ours(args, model, tokens, folder):
    """Logits after each prompt, f32 [prompts, vocabulary]."""
    rows = os.path.join(folder, "rows")
    command = [args.lm_argmax, model, "--rows", rows] + (["--chunk", str(args.chunk)] if args.chunk else [])
    text = "".join(f"{len(t)} {' '.join(map(str, t))} 0\n" for t in tokens)  # a token behind: what comes before it is asked
    env = dict(os.environ, BW_CPU_LEVEL=args.level) if args.level else None
    subprocess.run(command, input=text, stdout=subprocess.DEVNULL, text=True, check=True, env=env)
    return np.fromfile(rows, dtype=np.float32).reshape(len(tokens), -1)


def theirs(model, tokens):
    from llama_cpp import Llama
    llm = Llama(model, n_ctx=1024, n_threads=1, n_threads_batch=1, logits_all=False, verbose=False)
    out = []
    for t in tokens:
        llm.reset()
        llm.eval(t)
        out.append(np.ctypeslib.as_array(llm._ctx.get_logits_ith(-1), shape=(llm.n_vocab(),)).copy())
    return np.stack(out)


def interval(values):
    mean, half = np.mean(values), 1.96 * np.std(values, ddof=1) / np.sqrt(len(values))
    return f"{mean:.4f} +- {half:.4f}"


def main():
    a = argparse.ArgumentParser()
    a.add_argument("beeswax")
    a.add_argument("lm_argmax")
    a.add_argument("model")
    a.add_argument("types", nargs="*")
    a.add_argument("--prompts", type=int, default=200)
    a.add_argument("--chunk", type=int)
    a.add_argument("--level")
    a.add_argument("--no-llama", action="store_true")
    a.add_argument("--llama-f32", action="store_true", help="show that the programs agree in f32")
    a.add_argument("--keep")
    args = a.parse_args()
    folder = args.keep or tempfile.mkdtemp()
    os.makedirs(folder, exist_ok=True)
    from llama_cpp import Llama
    vocabulary = Llama(args.model, vocab_only=True, verbose=False)
    tokens = [vocabulary.tokenize(p.encode(), add_bos=False, special=True) for p in make_prompts(args.prompts)]
    for name in args.types or [None]:
        model = os.path.join(folder, f"{name}.gguf") if name else args.model
        exact = os.path.join(folder, f"{name}-f32.gguf")
        quantise = [args.beeswax, "quantize", "-q", "-t", "2", "--pure", "--force"]
        if name and not os.path.exists(model):
            subprocess.run(quantise + [args.model, model, name], check=True)
        if not os.path.exists(exact):
            subprocess.run(quantise + [model, exact, "f32"], check=True)
        reference = ours(args, exact, tokens, folder)
        best = np.argsort(-reference, axis=1)[:, :N_BEST]

        def noise(logits):
            return np.abs(np.take_along_axis(logits, best, 1) - np.take_along_axis(reference, best, 1)).mean(axis=1)

        mine = noise(ours(args, model, tokens, folder))
        line = f"{name or os.path.basename(model)}: ours {interval(mine)}"
        if not args.no_llama:
            other = noise(theirs(model, tokens))
            line += f", llama.cpp {interval(other)}, ours - llama.cpp {interval(mine - other)}"
        if args.llama_f32:
            line += f"; llama.cpp in f32 {interval(noise(theirs(exact, tokens)))}"
        print(line, flush=True)


if __name__ == "__main__":
    main()
