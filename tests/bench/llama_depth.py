#!/usr/bin/env python3
"""llama-bench's decode at a depth (-d), by a llama-server, without reading that many tokens first.

A slot of 256 tokens is saved, its cells repeated up to the depth (llama_server.py) and restored, so that a depth of
65,536 takes seconds where reading it takes half an hour or more. Takes llama-bench's options and prints the
fields of its JSON that peers.py reads:

    peers.py --peer "llama.cpp bf16=tests/bench/llama_depth.py,190m-bf16.gguf,--server,llama-server,-fa,0" ...
"""

import argparse
import json
import os
import random
import statistics
import sys
import tempfile
from pathlib import Path

from llama_server import Server, repeat
from peers import numbers

READ = 256  # tokens of the slot that is repeated


def decode(server, folder: Path, depth: int, tokens: int, rng) -> float:
    """Tokens/s after `depth` tokens."""
    prompt = [rng.randrange(1, 256) for _ in range(depth)]
    if depth:
        repeat(folder / "read.bin", folder / "slot.bin", prompt)
        server.slot("restore")
    else:
        server.slot("erase")
    timings = server.complete(prompt + [1], tokens + 1)
    if timings["prompt_n"] > 2:
        sys.exit(f"{timings['prompt_n']} tokens were computed after a restore of {depth}")
    # The first token is that of the prompt's end: its clock starts when it is there.
    return 1e3 * (timings["predicted_n"] - 1) / timings["predicted_ms"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-m", dest="model", required=True, help="a GGUF file")
    parser.add_argument("--server", required=True, help="llama-server")
    parser.add_argument("-t", dest="threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("-r", dest="repetitions", type=int, default=3)
    parser.add_argument("-o", dest="output", choices=["json"], default="json")
    parser.add_argument("-fa", dest="flash_attention", choices=["0", "1"], default="1")
    parser.add_argument("-ctk", default="f16", help="type of the keys' cache")
    parser.add_argument("-ctv", default="f16", help="type of the values' cache")
    parser.add_argument("-p", dest="prompt", choices=["0"], default="0", help="prompts are llama-bench's")
    parser.add_argument("-n", dest="tokens", type=int, default=32)
    parser.add_argument("-d", dest="depths", type=numbers, default=[0])
    parser.add_argument("--port", type=int, default=8899)
    args = parser.parse_args()

    flags = ["-fa", "on" if args.flash_attention == "1" else "off", "-ctk", args.ctk, "-ctv", args.ctv]
    rng = random.Random(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        server = Server(args.server, args.model, folder, max(args.depths) + args.tokens + 2, args.threads, args.port, flags)
        try:
            server.complete([rng.randrange(1, 256) for _ in range(READ)])
            server.slot("save")
            (folder / "slot.bin").rename(folder / "read.bin")
            found = [{"n_depth": depth,
                      "avg_ts": statistics.mean(decode(server, folder, depth, args.tokens, rng)
                                                for _ in range(args.repetitions))}
                     for depth in args.depths]
        finally:
            server.close()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
