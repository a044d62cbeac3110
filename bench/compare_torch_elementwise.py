#!/usr/bin/env python3
"""Elementwise calls beside PyTorch's on the CPU, in turns, medians: 16M elements, contiguous, outputs allocated before.

usage: compare_torch_elementwise.py BW_ELEMENTWISE_BENCH [--threads 2] [--rounds 5] [--elements 16777216] [--filter TEXT]
In every round our program runs alone, then PyTorch in this process. Ratio: PyTorch's time over ours (above 1: we are
faster).
"""
import argparse
import statistics
import subprocess
import time

import torch


def cases(n):
    """name -> function that computes into a tensor made before."""
    def rand(dtype):
        return torch.randint(0, 2, (n,), dtype=dtype) if dtype == torch.uint8 else torch.randn(n).to(dtype)

    aten, f32, bf16 = torch.ops.aten, torch.float32, torch.bfloat16
    x, y, out = rand(f32), rand(f32), torch.zeros(n)
    xb, yb, outb = rand(bf16), rand(bf16), torch.zeros(n, dtype=bf16)
    mask = rand(torch.uint8).to(torch.bool)
    is_less = torch.zeros(n, dtype=torch.bool)
    return {
        "copy f32": lambda: out.copy_(x), "fill f32": lambda: out.fill_(1.5),
        "add f32": lambda: torch.add(x, y, out=out), "mul f32": lambda: torch.mul(x, y, out=out),
        "exp f32": lambda: torch.exp(x, out=out),
        "gelu f32": lambda: aten.gelu.out(x, approximate="tanh", out=out),
        "gelu_erf f32": lambda: aten.gelu.out(x, out=out), "silu f32": lambda: aten.silu.out(x, out=out),
        "cast f32 bf16": lambda: outb.copy_(x), "cast bf16 f32": lambda: out.copy_(xb),
        "where u8 f32": lambda: torch.where(mask, x, y, out=out), "log f32": lambda: torch.log(x, out=out),
        "sin f32": lambda: torch.sin(x, out=out), "tanh f32": lambda: torch.tanh(x, out=out),
        "erf f32": lambda: torch.erf(x, out=out), "pow f32": lambda: torch.pow(x, 2.5, out=out),
        "lt f32": lambda: torch.lt(x, y, out=is_less), "add bf16": lambda: torch.add(xb, yb, out=outb),
        "silu bf16": lambda: aten.silu.out(xb, out=outb),
    }


def theirs(function, calls=5):
    function()
    times = []
    for _ in range(calls):
        begin = time.perf_counter()
        function()
        times.append((time.perf_counter() - begin) * 1e3)
    return statistics.median(times)


def ours(a, name):
    text = subprocess.run([a.bench, "--threads", str(a.threads), "--elements", str(a.elements), "--filter", name],
                          check=True, capture_output=True, text=True).stdout
    line = next(line for line in text.splitlines() if line[:16].strip() == name)
    fields = line[16:].split()
    return float(fields[1]), float(fields[3])


def main():
    p = argparse.ArgumentParser()
    p.add_argument("bench")
    p.add_argument("--filter", default="")
    for name, value in (("threads", 2), ("rounds", 5), ("elements", 1 << 24)):
        p.add_argument(f"--{name}", type=int, default=value)
    a = p.parse_args()
    torch.set_num_threads(a.threads)
    print("| what | beeswax, ms | GB/s | PyTorch, ms | ratio |\n|---|---|---|---|---|")
    for name, function in cases(a.elements).items():
        if a.filter not in name:
            continue
        rounds = [(ours(a, name), theirs(function)) for _ in range(a.rounds)]
        mine, rate = (statistics.median(r[0][i] for r in rounds) for i in (0, 1))
        other = statistics.median(r[1] for r in rounds)
        print(f"| {name} | {mine:.2f} | {rate:.1f} | {other:.2f} | {other / mine:.2f} |", flush=True)


if __name__ == "__main__":
    main()
