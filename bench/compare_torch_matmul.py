#!/usr/bin/env python3
"""Products, convolutions and attention against PyTorch's CPU, alternated run by run on the same number of threads.

    bench/compare_torch_matmul.py build/bin/matmul-conv-bench [--threads 2] [--rounds 15] [--filter TEXT] [--clock wall|cpu]

One line per case: medians in milliseconds, GFLOP/s, and PyTorch's time divided by ours (above 1: we are faster).
"""
import argparse
import statistics
import subprocess
import time

import torch
import torch.nn.functional as F

TYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}
CASES = ["matmul f32 1024 1024 1024", "matmul bf16 1024 1024 1024", "matmul f16 1024 1024 1024",
         "matmul f32 1024 1024 1024 t", "matmul f32 64 2048 2048", "matmul f32 1 4096 4096", "matmul f32 1 4096 4096 t",
         "conv2d f32 1 320 64 64 320 3 1 1 1", "conv2d f32 1 320 64 64 320 1 1 0 1", "conv2d f32 1 64 64 64 128 3 2 1 1",
         "conv2d f32 1 320 64 64 320 3 1 1 320", "conv2d bf16 1 64 32 32 64 3 1 1 1", "sdpa f32 1 8 512 512 64",
         "sdpa f32 1 8 1024 77 40"]


def torch_case(words):
    op, dtype, sizes = words[0], TYPES[words[1]], [int(w) for w in words[2:] if w != "t"]
    if op == "matmul":
        m, n, k = sizes
        a, b = torch.rand(m, k).sub(0.5).to(dtype), torch.rand(k, n).sub(0.5).to(dtype)
        if words[-1] == "t":
            b = torch.rand(n, k).sub(0.5).to(dtype).t()
        return (lambda: torch.matmul(a, b)), 2.0 * m * n * k
    if op == "conv2d":
        n, c, h, w, o, k, stride, padding, groups = sizes
        x, weight = torch.rand(n, c, h, w).sub(0.5).to(dtype), torch.rand(o, c // groups, k, k).sub(0.5).to(dtype)
        y = F.conv2d(x, weight, None, stride, padding, 1, groups)
        return (lambda: F.conv2d(x, weight, None, stride, padding, 1, groups)), 2.0 * y.numel() * (c // groups) * k * k
    b, heads, t, s, d = sizes
    q, key = torch.rand(b, heads, t, d).sub(0.5).to(dtype), torch.rand(b, heads, s, d).sub(0.5).to(dtype)
    return (lambda: F.scaled_dot_product_attention(q, key, key, scale=0.125)), 4.0 * b * heads * t * s * d


def compare(bench, case, threads, rounds, clock):
    run, flops = torch_case(case.split())
    ours = subprocess.Popen([bench, str(threads)] + case.split(), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                            stderr=subprocess.DEVNULL, text=True)

    def run_ours():
        ours.stdin.write("\n")
        ours.stdin.flush()
        return float(ours.stdout.readline().split()[clock == "cpu"])

    def run_theirs():
        now = time.process_time if clock == "cpu" else time.perf_counter
        begin = now()
        run()
        return now() - begin

    times = [[], []]
    for i in range(rounds + 2):
        for k, fn in enumerate((run_ours, run_theirs)):
            # After a pause in which the other program's threads, which wait for work in a loop for some milliseconds,
            # have gone to sleep; then three runs in a row.
            time.sleep(0.03)
            t = statistics.median(fn() for _ in range(3))
            if i >= 2:
                times[k].append(t)
    ours.stdin.close()
    ours.wait()
    a, b = (statistics.median(t) for t in times)
    best = [min(t) for t in times]
    print(f"{case:42s} ours {a * 1e3:9.3f} ms {flops / a * 1e-9:7.1f} GFLOP/s   PyTorch {b * 1e3:9.3f} ms "
          f"{flops / b * 1e-9:7.1f}   ratio {b / a:5.2f} (best of each {best[1] / best[0]:5.2f})", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bench")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--filter", default="")
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall", help="cpu: processor time, for a busy machine")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(1)
    print(f"PyTorch {torch.__version__}, {args.threads} threads")
    with torch.inference_mode():
        for case in CASES:
            if args.filter in case:
                compare(args.bench, case, args.threads, args.rounds, args.clock)


main()
