#!/usr/bin/env python3
"""beeswax beside llama.cpp on the same files, in turns, medians: prompt, generation, several sequences at once, memory.

usage: compare_llama.py BEESWAX LLAMA_BIN_DIRECTORY MODEL.gguf... [--threads 2] [--rounds 5] [--prompt 512] [--new 64]
LLAMA_BIN_DIRECTORY holds llama-bench and llama-batched-bench. Both programs run alone, one after the other, in every round.
"""
import argparse
import csv
import io
import json
import os
import statistics
import subprocess


def run(command):
    """(standard output, peak resident bytes) of a program that must succeed."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as p:
        out = p.stdout.read()
        _, status, usage = os.wait4(p.pid, 0)
        p.returncode = os.waitstatus_to_exitcode(status)
    if p.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {p.returncode}")
    return out.decode(), usage.ru_maxrss * 1024


def ours(a, model):
    base = [a.beeswax, "bench", model, "-t", str(a.threads), "-n", str(a.new), "-r", "1", "--json"]
    one = json.loads(run(base + ["-p", str(a.prompt)])[0])
    several = json.loads(run(base + ["-p", "16", "--parallel", str(a.parallel)])[0])
    # its own figure: the program's maximum would count the buffer that the memory bandwidth is measured with afterwards
    return (one["prompt_tokens_per_s"], one["generate_tokens_per_s"], several["batch_tokens_per_s"],
            one["peak_rss_bytes"])


def theirs(a, model):
    t = str(a.threads)
    text, rss = run([f"{a.llama}/llama-bench", "-m", model, "-t", t, "-fa", "1", "-p", str(a.prompt), "-n", str(a.new),
                     "-r", "1", "-o", "csv"])
    rows = list(csv.DictReader(io.StringIO(text)))
    speed = {(int(r["n_prompt"]), int(r["n_gen"])): float(r["avg_ts"]) for r in rows}
    text, _ = run([f"{a.llama}/llama-batched-bench", "-m", model, "-t", t, "-tb", t, "-fa", "1", "-c", "4096", "-npp", "16",
                   "-ntg", str(a.new), "-npl", str(a.parallel), "--output-format", "jsonl"])
    batch = [json.loads(line) for line in text.splitlines() if line.startswith("{")][-1]
    return speed[(a.prompt, 0)], speed[(0, a.new)], batch["speed_tg"], rss


def main():
    p = argparse.ArgumentParser()
    p.add_argument("beeswax")
    p.add_argument("llama")
    p.add_argument("models", nargs="+")
    for name, value in (("threads", 2), ("rounds", 5), ("prompt", 512), ("new", 64), ("parallel", 8)):
        p.add_argument(f"--{name}", type=int, default=value)
    a = p.parse_args()
    print("| model | what | beeswax | llama.cpp | ratio |\n|---|---|---|---|---|")
    for model in a.models:
        rounds = [(ours(a, model), theirs(a, model)) for _ in range(a.rounds)]
        names = (f"prompt {a.prompt}, tokens/s", f"generation {a.new}, tokens/s", f"{a.parallel} sequences, tokens/s in total",
                 "peak resident, MiB")
        for i, what in enumerate(names):
            scale = 1 / 2**20 if i == 3 else 1
            x, y = (statistics.median(r[side][i] for r in rounds) * scale for side in (0, 1))
            print(f"| {os.path.basename(model)} | {what} | {x:.1f} | {y:.1f} | {x / y:.2f} |", flush=True)


if __name__ == "__main__":
    main()
