#!/usr/bin/env python3
"""bw-reduce-bench beside PyTorch on the same shapes, in turns, medians of each and of the ratio turn by turn.

usage: compare_torch_reduce.py BW_REDUCE_BENCH [--threads 2] [--rounds 11] [--filter TEXT]
A ratio above 1: beeswax is faster.
"""
import argparse
import os
import statistics
import subprocess
import sys
import time

import torch

TYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16, "i64": torch.int64}


def tensor(shape, dtype):
    return (torch.rand(shape) * 6e9 - 3e9).to(dtype) if dtype == torch.int64 else (torch.rand(shape) * 6 - 3).to(dtype)


def reductions(what, x, how):
    dim = {"rows": -1, "columns": 0, "all": None}[how]
    if what == "sum":
        return (lambda: torch.sum(x, dim)) if dim is not None else lambda: torch.sum(x)
    if what == "max":
        return (lambda: torch.amax(x, dim)) if dim is not None else lambda: torch.amax(x)
    return lambda: torch.argmax(x, dim)


def rope(x, c, s, interleaved):
    if interleaved:
        x1, x2 = x[..., 0::2], x[..., 1::2]
        return torch.stack((x1 * c - x2 * s, x1 * s + x2 * c), -1).flatten(-2)
    x1, x2 = x.chunk(2, -1)
    return torch.cat((x1 * c - x2 * s, x1 * s + x2 * c), -1)


def work(name):
    """What PyTorch does for a case, as a function."""
    f = torch.nn.functional
    what, dtype, *rest = name.split()
    dtype = TYPES[dtype]
    if what in ("read", "copy"):
        x = tensor((1 << 24,), dtype)
        y = torch.empty_like(x)
        return (lambda: torch.sum(x)) if what == "read" else lambda: y.copy_(x)
    if rest[0] in ("rows", "columns", "all"):
        x = tensor((2048 if dtype == torch.int64 else 4096, 4096), dtype)
        y = torch.empty_like(x)
        if what == "cumsum":
            return lambda: torch.cumsum(x, 1 if rest[0] == "rows" else 0, out=y)
        return reductions(what, x, rest[0])
    shape = (1 << 20,) if rest[0] == "1M" else tuple(int(n) for n in rest[0].split("x"))
    x = tensor(shape, dtype)
    y = torch.empty_like(x)
    if what in ("rope", "rope_i"):
        c, s = (tensor((shape[2], shape[3] // 2), dtype) for _ in range(2))
        return lambda: rope(x, c, s, what == "rope_i")
    channels = shape[1] if what == "group_norm" else shape[-1]
    w, b = tensor((channels,), dtype), tensor((channels,), dtype)
    index = torch.empty(shape, dtype=torch.int64)
    return {"softmax": lambda: torch.softmax(x, -1, out=y), "log_softmax": lambda: torch.log_softmax(x, -1, out=y),
            "rmsnorm": lambda: f.rms_norm(x, (channels,), w, 1e-5),
            "layernorm": lambda: f.layer_norm(x, (channels,), w, b, 1e-5),
            "group_norm": lambda: f.group_norm(x, 32, w, b, 1e-5),
            "sort": lambda: torch.sort(x, stable=True, out=(y, index)),
            "topk": lambda: torch.topk(x, int(rest[1][1:]))}[what]


def timed(call):
    begin = time.perf_counter()
    call()
    return (time.perf_counter() - begin) * 1e3


def turn(run):
    """The median of three runs in a row, after a pause in which the other program's threads, which wait for work in a
    loop for some milliseconds, have gone to sleep: else they would hold a processor during the first of these."""
    time.sleep(0.03)
    return statistics.median(run() for _ in range(3))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("bench")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--rounds", type=int, default=11)
    p.add_argument("--filter", default="")
    a = p.parse_args()
    if os.environ.get("MALLOC_MMAP_THRESHOLD_") is None:  # or PyTorch would fault in fresh pages at every call
        os.environ.update(MALLOC_MMAP_THRESHOLD_=str(1 << 30), MALLOC_TRIM_THRESHOLD_=str(1 << 34))
        os.execv(sys.executable, [sys.executable] + sys.argv)
    torch.set_num_threads(a.threads)
    torch.set_grad_enabled(False)
    ours = subprocess.Popen([a.bench, "--serve", "--threads", str(a.threads)], stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, text=True)

    def ask(line):
        ours.stdin.write(line + "\n")
        ours.stdin.flush()
        return ours.stdout.readline().strip()

    names = [ask("list")]
    while names[-1]:
        names.append(ours.stdout.readline().strip())
    print("| case | beeswax ms | PyTorch ms | ratio of medians | ratio of the least |\n|---|---|---|---|---|")
    for name in names[:-1]:
        if a.filter not in name:
            continue
        call, mine, theirs = work(name), [], []
        call()
        for _ in range(a.rounds):
            mine.append(turn(lambda: float(ask(name)) / 1e3))
            theirs.append(turn(lambda: timed(call)))
        m, t = statistics.median(mine), statistics.median(theirs)
        print(f"| {name} | {m:.2f} | {t:.2f} | {t / m:.2f} | {min(theirs) / min(mine):.2f} |", flush=True)
    ours.stdin.close()
    ours.wait()


main()
