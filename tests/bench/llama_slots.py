#!/usr/bin/env python3
"""How soon llama.cpp speaks again from a saved slot: the other side of `tvq-bench restore`.

Starts the llama-server it is given, feeds it contexts of random tokens, saves and restores its
slot, and asks for one token: after reading the whole context, and after a restore whose file is in
the page cache, or on the disk alone. Contexts above --read-up-to are not read: their slot file is
the one of that length repeated, every cell with a position of its own, so that bytes and cells are
those of a real one though its keys belong to other positions.

    tests/bench/llama_slots.py --server llama.cpp/build/bin/llama-server --model model.gguf \
        --folder /var/tmp --contexts 1024,16384,131072 --read-up-to 16384 --rounds 5
"""

import argparse
import json
import os
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path

from llama_server import Server, repeat


def drop_cache(path: Path):
    with open(path, "rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def measure(args, folder: Path, context: int) -> dict:
    file = folder / "slot.bin"
    rng = random.Random(1)
    tokens = [rng.randrange(1, args.vocab) for _ in range(context)]
    times: dict[str, list[float]] = {}

    def note(name: str, seconds: float):
        times.setdefault(name, []).append(seconds * 1e3)

    def reads(count: int) -> list[int]:
        start = time.perf_counter()
        computed = server.complete(tokens[:count])["prompt_n"]
        seconds = time.perf_counter() - start
        if computed != count:
            sys.exit(f"{computed} of {count} tokens were computed; the slot was not empty")
        if count == context:
            note("ms_prefill", seconds)

    server = Server(args.server, args.model, folder, context, args.threads, args.port)
    try:
        if context > args.read_up_to:
            reads(args.read_up_to)
            server.slot("save")
            shorter = file.rename(folder / "shorter.bin")
            repeat(shorter, file, tokens)
            shorter.unlink()
            server.slot("restore")
        for _ in range(args.rounds):
            if context <= args.read_up_to and len(times.get("ms_prefill", [])) < args.prefills:
                server.slot("erase")
                reads(context)
            start = time.perf_counter()
            server.slot("save")
            note("ms_save", time.perf_counter() - start)
            drop_cache(file)
            note("ms_save_synced", time.perf_counter() - start)
            for name in ("disk", "page_cache"):
                server.slot("erase")
                if name == "disk":
                    drop_cache(file)
                start = time.perf_counter()
                restored = server.slot("restore")
                note(f"ms_restore_{name}", time.perf_counter() - start)
                # The token that the saved slot had sampled, and one more.
                computed = server.complete(tokens + [1])["prompt_n"]
                note(f"ms_first_token_{name}", time.perf_counter() - start)
                if computed > 2:
                    sys.exit(f"{computed} tokens were computed after a restore of {restored}")
                server.slot("restore")  # without the token that was just added
        result = {"context": context, "slot_bytes": file.stat().st_size, "rounds": times}
    finally:
        server.close()
    return result | {name: statistics.median(values) for name, values in times.items()}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--server", required=True, help="llama-server")
    parser.add_argument("--model", required=True, help="a GGUF file")
    parser.add_argument("--vocab", type=int, default=256, help="tokens are below this")
    parser.add_argument("--contexts", default="1024,16384", help="tokens, separated by commas")
    parser.add_argument("--read-up-to", type=int, default=1 << 30, help="longest context to read")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--prefills", type=int, default=1 << 30, help="rounds that read it")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--port", type=int, default=8899)
    parser.add_argument("--folder", help="where slot files go; needs the room")
    parser.add_argument("--json", help="write what was measured to this file")
    args = parser.parse_args()

    cases = []
    columns = ["prefill", "save", "save_synced", "restore_page_cache", "first_token_page_cache"]
    columns += ["restore_disk", "first_token_disk"]
    print("milliseconds, medians; a first token's time includes the restore", flush=True)
    print(f"{'context':>9} {'MB':>8} " + " ".join(f"{c:>{max(9, len(c))}}" for c in columns))
    for context in map(int, args.contexts.split(",")):
        with tempfile.TemporaryDirectory(dir=args.folder) as folder:
            case = measure(args, Path(folder), context)
        cases.append(case)
        cells = [f"{context:>9} {case['slot_bytes'] / 1e6:>8.1f}"]
        for c in columns:
            value = case.get(f"ms_{c}")
            cells.append(f"{'-' if value is None else format(value, '.1f'):>{max(9, len(c))}}")
        print(" ".join(cells), flush=True)
    if args.json:
        Path(args.json).write_text(json.dumps({"model": args.model, "cases": cases}, indent=2))


if __name__ == "__main__":
    main()
