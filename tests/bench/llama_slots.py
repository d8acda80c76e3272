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
import struct
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

MAGIC, VERSION = 0x67677371, 3  # "ggsq", LLAMA_STATE_SEQ_VERSION


class Server:
    """One llama-server with one slot and nothing else that remembers a prompt."""

    def __init__(self, args, folder: Path, context: int):
        self.url = f"http://127.0.0.1:{args.port}"
        self.log = open(folder / "llama-server.log", "w")
        # A token beyond the context and one generated, and the padding to 256 cells.
        command = [args.server, "-m", args.model, "-c", str(context + 256), "-np", "1"]
        command += ["-t", str(args.threads), "--port", str(args.port), "--slots", "--no-webui"]
        command += ["--cache-ram", "0", "--slot-save-path", str(folder) + "/"]
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log)
        for _ in range(600):
            try:
                self.call("/health")
                return
            except (urllib.error.URLError, ConnectionError):
                if self.process.poll() is not None:
                    break
                time.sleep(0.1)
        self.close()
        sys.exit(f"llama-server did not start: {(folder / 'llama-server.log').read_text()[-2000:]}")

    def close(self):
        self.process.terminate()
        self.process.wait()
        self.log.close()

    def call(self, path: str, body: dict | None = None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            self.url + path, data=data, headers={"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=7200) as answer:
            return json.load(answer)

    def slot(self, action: str) -> dict:
        return self.call(f"/slots/0?action={action}", {"filename": "slot.bin"})

    def first_token(self, prompt: list[int]) -> tuple[float, int]:
        """Seconds to one token, and how many tokens of the prompt were computed for it."""
        body = {"prompt": prompt, "n_predict": 1, "cache_prompt": True, "ignore_eos": True}
        body |= {"temperature": 0, "id_slot": 0}
        start = time.perf_counter()
        answer = self.call("/completion", body)
        return time.perf_counter() - start, answer["timings"]["prompt_n"]


def drop_cache(path: Path):
    with open(path, "rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def repeat(source: Path, target: Path, tokens: list[int]):
    """Writes the slot file of `source`, a shorter prompt's, as if its cells were those of `tokens`."""
    with open(source, "rb") as read, open(target, "wb") as write:

        def take(layout: str):
            return struct.unpack("<" + layout, read.read(struct.calcsize("<" + layout)))

        def put(layout: str, *values):
            write.write(struct.pack("<" + layout, *values))

        def stretch(row: int):
            block, left = read.read(row * cells), row * len(tokens)
            for _ in range(left // len(block)):
                write.write(block)
            write.write(block[: left % len(block)])

        magic, version, words = take("III")
        packed = take(f"{words}i")
        # Packed tokens: -1, a version, how many, the tokens, no media.
        if (magic, version) != (MAGIC, VERSION) or packed[0] != -1 or packed[-1] != 0:
            sys.exit(f"{source}: not a slot file as this script knows it")
        packed = (*packed[:2], len(tokens), *tokens, 0)
        put("III", magic, version, len(packed))
        put(f"{len(packed)}i", *packed)
        streams, cells = take("II")
        put("II", streams, len(tokens))
        read.seek(12 * cells, os.SEEK_CUR)
        for position in range(len(tokens)):
            put("iIi", position, 1, 0)  # of one sequence, the slot's
        transposed, layers = take("II")
        if streams != 1 or transposed:
            sys.exit(f"{source}: values are transposed; run the server with flash attention")
        put("II", transposed, layers)
        for _ in range(2 * layers):  # the keys of every layer, then the values
            kind, row = take("iQ")
            put("iQ", kind, row)
            stretch(row)


def measure(args, folder: Path, context: int) -> dict:
    file = folder / "slot.bin"
    rng = random.Random(1)
    tokens = [rng.randrange(1, args.vocab) for _ in range(context)]
    times: dict[str, list[float]] = {}

    def note(name: str, seconds: float):
        times.setdefault(name, []).append(seconds * 1e3)

    def reads(count: int) -> list[int]:
        seconds, computed = server.first_token(tokens[:count])
        if computed != count:
            sys.exit(f"{computed} of {count} tokens were computed; the slot was not empty")
        if count == context:
            note("ms_prefill", seconds)

    server = Server(args, folder, context)
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
                _, computed = server.first_token(tokens + [1])
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
