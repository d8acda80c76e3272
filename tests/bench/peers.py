#!/usr/bin/env python3
"""tvq-bench and llama-bench of llama.cpp (or of what is made from it) in turns, on the same cores.

    peers.py --tvq-bench build/release/bin/tvq-bench --rounds 5 --contexts 0,4096,16384 \\
        --peer "llama.cpp bf16=llama.cpp/build/bin/llama-bench,190m-bf16.gguf" \\
        --peer "llama.cpp Q8_0, cache Q8_0=llama.cpp/build/bin/llama-bench,190m-q8_0.gguf,-fa,1,-ctk,q8_0,-ctv,q8_0"

A side is an engine with a model in one form. Every round runs every side once, so that what else the machine
does hits all of them; a ratio is the median of the rounds' ratios, for each of our forms (--ours). The read
ceiling is what tvq-bench measured in the same round. A peer's context is depth (-d), which it computes first:
long ones take long, so --peer-contexts may be fewer, or llama_depth.py stands in for llama-bench. Flags change a
peer much (-fa 0 decodes 2.4 times as fast as -fa 1 at a depth of 1,024 on a Xeon): give it the ones that serve it
best. --model is a model directory of any family, in the place of a preset. --batches are sessions that decode
together near an empty context, of a peer by the llama-batched-bench beside its llama-bench. --busy N keeps the
last N of the cores occupied meanwhile, by a process each.
"""

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path


def run(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\n{done.stderr[-2000:]}")
    return done.stdout


def tvq(args, flags):
    def report(*arguments):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "report.json"
            model = ["--model", args.model] if args.model else ["--preset", args.preset]
            run([args.tvq_bench, arguments[0], *model, *flags, "--rounds", "1",
                 "--threads", str(args.threads), "--json", str(path), *arguments[1:]])
            return json.loads(path.read_text())

    def ask(contexts):
        """{context: tokens/s}, and the read ceiling in GB/s or None."""
        found = report("decode", "--context", ",".join(map(str, contexts)), "--seconds", str(args.seconds))
        ceiling = statistics.mean(c["ceiling_n_threads"]["median"] for c in found["cases"])
        return {c["context"]: c["tokens_per_second"] for c in found["cases"]}, ceiling

    def prompt(length):
        found = report("prefill", "--prompt-tokens", str(length), "--context", "0", "--seconds", str(args.seconds))
        return found["cases"][0]["tokens_per_second"]

    def together(sessions):
        found = report("decode", "--context", "0", "--batch", str(sessions), "--seconds", str(args.seconds))
        return found["cases"][0]["tokens_per_second"]

    return ask, prompt, together


def llama(args, bench, model, *flags):
    def report(*arguments):
        command = [bench, "-m", model, "-t", str(args.threads), "-r", "1", "-o", "json", *flags, *arguments]
        return json.loads(run(command))

    def ask(contexts):
        found = report("-p", "0", "-n", str(args.tokens), "-d", ",".join(map(str, contexts)))
        return {c["n_depth"]: c["avg_ts"] for c in found}, None

    def prompt(length):
        return report("-p", str(length), "-n", "0")[0]["avg_ts"]

    def together(sessions):
        batched = Path(bench).with_name("llama-batched-bench")
        words = ["on" if before == "-fa" and word == "1" else "off" if before == "-fa" else word
                 for before, word in zip(("", *flags), flags)]
        lines = run([str(batched), "-m", model, "-t", str(args.threads), "-c", str(sessions * (args.tokens + 256)),
                     "-npp", "1", "-ntg", str(args.tokens), "-npl", str(sessions), "--output-format", "jsonl", *words])
        [found] = [json.loads(line) for line in lines.splitlines() if line.startswith("{")]
        return found["speed_tg"]

    return ask, prompt, together


@contextlib.contextmanager
def occupied(count):
    """The last `count` cores this process may use, each kept busy."""
    cores = sorted(os.sched_getaffinity(0))[-count:] if count else []
    busy = [subprocess.Popen(["taskset", "-c", str(core), sys.executable, "-c", "while True: pass"]) for core in cores]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def ask_all(args, sides):
    """A round: {side: {"decode": {context: tokens/s}, "prompt": {length: ...}, "batch": {sessions: ...}}}, and its ceiling."""
    found, ceilings = {}, []
    for name, (ask, prompt, together, contexts) in sides.items():
        with occupied(args.busy):
            decode, ceiling = ask(contexts)
            found[name] = {"decode": decode, "prompt": {length: prompt(length) for length in args.prompts},
                           "batch": {sessions: together(sessions) for sessions in args.batches}}
        ceilings += [ceiling] if ceiling else []
    return found, statistics.median(ceilings)


def spread(values):
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def compare(rounds, ours):
    """[{what, at, side, tokens_per_second, faster}]: the last says of each of `ours` how many times as fast it was."""
    rows = []
    for what in ("decode", "prompt", "batch"):
        for name in rounds[0]:
            for at in rounds[0][name][what]:
                both = [side for side in ours if at in rounds[0][side][what]]
                rows.append({"what": what, "at": at, "side": name,
                             "tokens_per_second": spread([r[name][what][at] for r in rounds]),
                             "faster": {side: spread([r[side][what][at] / r[name][what][at] for r in rounds])
                                        for side in both}})
    return sorted(rows, key=lambda row: (row["what"], row["at"]))


def show(rows, ceilings, ours):
    ceiling = spread(ceilings)
    print(f"read ceiling {ceiling['median']:.1f} GB/s ({ceiling['min']:.1f} to {ceiling['max']:.1f}); "
          "on the right how many times as fast ours is, least to most")
    print(f"{'':7} {'at':>7}  {'side':28} {'tokens/s':>9} {'least to most':>16}"
          + "".join(f"  {side:>20}" for side in ours))
    for row in rows:
        speed = row["tokens_per_second"]
        line = (f"{row['what']:7} {row['at']:7}  {row['side']:28} {speed['median']:9.1f} "
                f"{speed['min']:7.1f} to {speed['max']:5.1f}")
        for side in ours:
            times = row["faster"].get(side)
            line += f"  {times['median']:6.2f} {times['min']:5.2f} to {times['max']:5.2f}" if times else " " * 22
        print(line)


def numbers(text):
    return [int(word) for word in text.split(",") if word]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tvq-bench", required=True)
    parser.add_argument("--preset", default="enwik8")
    parser.add_argument("--model", help="a model directory, instead of a preset")
    parser.add_argument("--ours", action="append", metavar="FLAGS", help="of tvq-bench; may be repeated; "
                        "default --dtype bfloat16 and --dtype int8")
    parser.add_argument("--peer", action="append", default=[], metavar="NAME=LLAMA_BENCH,GGUF[,FLAG...]")
    parser.add_argument("--contexts", type=numbers, default=[0, 4096], help="tokens before those that are timed")
    parser.add_argument("--peer-contexts", type=numbers, help="the peers'; like --contexts")
    parser.add_argument("--prompts", type=numbers, default=[], help="lengths of prompts whose reading is timed")
    parser.add_argument("--batches", type=numbers, default=[], help="sessions that decode together")
    parser.add_argument("--tokens", type=int, default=32, help="that a peer generates at each context")
    parser.add_argument("--seconds", type=float, default=0.7, help="that we generate at each")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--busy", type=int, default=0, help="cores that another process occupies")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", help="write what was measured to this file")
    args = parser.parse_args()

    sides = {"tvq " + flags.removeprefix("--dtype "): (*tvq(args, flags.split()), args.contexts)
             for flags in args.ours or ["--dtype bfloat16", "--dtype int8"]}
    ours = list(sides)
    for peer in args.peer:
        name, _, words = peer.partition("=")
        bench, model, *flags = words.split(",")
        sides[name] = (*llama(args, bench, model, *flags), args.peer_contexts or args.contexts)

    rounds, ceilings = [], []
    for number in range(args.rounds):
        found, ceiling = ask_all(args, sides)
        rounds.append(found)
        ceilings.append(ceiling)
        print(f"round {number + 1} of {args.rounds}: {json.dumps(found)}", file=sys.stderr, flush=True)
        if args.json:  # after every round: a run may take hours
            report = {"command": sys.argv, "rows": compare(rounds, ours), "rounds": rounds, "ceilings": ceilings}
            Path(args.json).write_text(json.dumps(report, indent=2))
    show(compare(rounds, ours), ceilings, ours)


if __name__ == "__main__":
    main()
