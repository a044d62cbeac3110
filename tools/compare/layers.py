#!/usr/bin/env python3
"""Layer by layer against transformers: a model folder (safetensors) is computed by beeswax, by transformers in bf16 and
by transformers with the same weights in f32 arithmetic; relative errors of what each layer leaves, against the f32 run.

usage: layers.py LM_LAYERS MODEL_FOLDER DEVICE [N_TOKENS]
LM_LAYERS is build/tests/lm_layers. Needs torch, transformers and a GPU with room for the model in f32. Passes when no
layer of ours is further from f32 than 1.5 times what transformers in bf16 is.
"""
import subprocess
import sys
import tempfile

import numpy as np
import torch
from transformers import AutoModelForCausalLM


def ours(program, folder, device, tokens):
    with tempfile.NamedTemporaryFile() as f:
        subprocess.run([program, folder, device, f.name], input=" ".join(map(str, tokens)), text=True, check=True)
        result = {}
        while line := f.readline():
            name, rows, columns = line.decode().split()
            n = int(rows) * int(columns)
            result[name] = np.frombuffer(f.read(4 * n), np.float32).reshape(int(rows), int(columns))
        return result


def theirs(folder, tokens, dtype):
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16).to(dtype).to("cuda").eval()
    result = {}

    def keep(name):
        def hook(module, args, output):
            value = output[0] if isinstance(output, tuple) else output
            result[name] = value.detach().float().reshape(-1, value.shape[-1]).cpu().numpy()
        return hook

    model.model.embed_tokens.register_forward_hook(keep("embedding"))
    for i, layer in enumerate(model.model.layers):
        layer.register_forward_hook(keep(f"layer.{i}"))
    model.model.norm.register_forward_hook(keep("norm"))
    with torch.no_grad():
        result["logits"] = model(torch.tensor([tokens], device="cuda")).logits[0].float().cpu().numpy()
    del model
    torch.cuda.empty_cache()
    return result


def main():
    program, folder, device = sys.argv[1:4]
    n = int(sys.argv[4]) if len(sys.argv) > 4 else 64
    torch.backends.cuda.matmul.allow_tf32 = False
    rng = np.random.default_rng(1)
    mine = ours(program, folder, device, tokens := rng.integers(0, 30000, n).tolist())
    exact, half = theirs(folder, tokens, torch.float32), theirs(folder, tokens, torch.bfloat16)
    worst, bad = 0.0, []
    for name, want in exact.items():
        size = np.linalg.norm(want)
        a, b = np.linalg.norm(mine[name] - want) / size, np.linalg.norm(half[name] - want) / size
        worst = max(worst, a)
        if not a <= max(1.5 * b, 1e-3):
            bad.append(name)
        if name in ("embedding", "norm", "logits") or int(name.split(".")[1]) % 4 == 3:
            print(f"{name:10s} beeswax {a:.2e}  transformers bf16 {b:.2e}")
    same = np.mean(mine["logits"].argmax(1) == exact["logits"].argmax(1))
    print(f"worst {worst:.2e} over {len(exact)} values; argmax as in f32 {100 * same:.1f}%; beyond the bound: {bad or 'none'}")
    sys.exit(bool(bad))


main()
