"""A llama-server with one slot, and slot files of contexts that were never read."""

import json
import os
import struct
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

MAGIC, VERSION = 0x67677371, 3  # "ggsq", LLAMA_STATE_SEQ_VERSION


class Server:
    """One llama-server with one slot and nothing else that remembers a prompt."""

    def __init__(self, program, model, folder: Path, context: int, threads: int, port: int, flags=()):
        self.folder = folder
        self.url = f"http://127.0.0.1:{port}"
        self.log = open(folder / "llama-server.log", "w")
        # Cells are padded to 256.
        command = [program, "-m", model, "-c", str(context + 256), "-np", "1"]
        command += ["-t", str(threads), "--port", str(port), "--slots", "--no-webui"]
        command += ["--cache-ram", "0", "--slot-save-path", str(folder) + "/", *flags]
        # OpenMP threads that wait park soon: an idle team that spins for long takes the cores from the one at work.
        # At once (0) would cost a wake-up per operation, half of the speed of two cores.
        environment = {"GOMP_SPINCOUNT": "10000"} | os.environ
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log, env=environment)
        for _ in range(600):
            try:
                self.call("/health")
                return
            except (urllib.error.URLError, ConnectionError):
                if self.process.poll() is not None:
                    break
                time.sleep(0.1)
        self.close()
        sys.exit(f"llama-server did not start: {(self.folder / 'llama-server.log').read_text()[-2000:]}")

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

    def complete(self, prompt: list[int], tokens: int = 1) -> dict:
        """The answer's timings: how many tokens of the prompt were computed (prompt_n), milliseconds and counts."""
        body = {"prompt": prompt, "n_predict": tokens, "cache_prompt": True, "ignore_eos": True}
        return self.call("/completion", body | {"temperature": 0, "id_slot": 0})["timings"]


def repeat(source: Path, target: Path, tokens: list[int]):
    """Writes the slot file of `source`, a shorter prompt's, as if its cells were those of `tokens`.

    Bytes and cells are those of a real one though its keys belong to other positions.
    """
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
        if streams != 1:
            sys.exit(f"{source}: a cache of {streams} streams; start the server with one slot")
        put("II", transposed, layers)
        for values in [False, True]:  # the keys of every layer, then the values
            for _ in range(layers):
                if values and transposed:  # without flash attention: a row for each column
                    kind, size, columns = take("iII")
                    put("iII", kind, size, columns)
                    for _ in range(columns):
                        stretch(size)
                else:
                    kind, row = take("iQ")
                    put("iQ", kind, row)
                    stretch(row)
