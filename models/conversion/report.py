"""Measures what a conversion costs by position, in the server: bits per byte of texts that were not used to convert.

    python3 -m models.conversion.report SOURCE OUT [--text FILE...] [--tokens N] [--json FILE]

SOURCE is the model from which OUT was made. Three models are compared: the original; the converted one; and one with the same
rings and sinks but nothing beyond them, which shows what the codes are worth. Prints Markdown; tests/bench/plot_conversion.py
draws FILE. Needs the built programs (served.py).
"""

import argparse
import contextlib
import json
import math
import pathlib
import shutil
import sys
import tempfile
from typing import Callable, Dict, Iterator, List, NamedTuple

import numpy as np

from models.conversion.served import Served
from models.conversion.texts import AGAIN, BEGINNING, TextError, names_of, read_ids
from models.conversion.write_directory import SHARD, link
from models.training.files import safetensors

TEXTS = pathlib.Path(__file__).parent / "report_texts"
TOKENS = 16384  # tokens of each text
NO_MASS = -60.0  # a bias with which codes have almost no weight, e^-60; scores stay as exact as others in float32
FIRST = 512  # positions of the first range; each further range ends at twice the position where it begins
PIECE = 64  # positions whose mean is one observation, since neighbouring positions depend on one another
SIZES = (1 << 10, 1 << 13, 1 << 16, 1 << 20)  # lengths of sessions, in tokens, whose bytes are reported
REPEATED, BETWEEN = 1200, 1400  # tokens of the repeated passage, and of the text between its two readings

ORIGINAL, CONVERTED, RINGS = "original", "converted", "rings and sinks alone"


def shipped_texts() -> List[pathlib.Path]:
    return sorted(TEXTS.glob("*.txt"))


class Passage(NamedTuple):
    name: str
    ids: List[int]
    bytes: int  # of the whole passage
    scored: int = 1  # the first token whose bits count

    def bits_per_byte(self, nats: np.ndarray) -> np.ndarray:
        """Bits per byte at each position; all tokens count with the same number of bytes, the mean."""
        return nats / math.log(2) * len(self.ids) / self.bytes


def passages(source: pathlib.Path, paths: List[pathlib.Path], tokens: int) -> List[Passage]:
    """The beginning of each text, and a repeated passage of the first text. TextError if a text is too short."""
    least = REPEATED + BETWEEN
    if tokens < least:
        raise TextError(f"a report of {tokens} tokens of each text is too short, must be of {least} at least")
    found = []
    for path, name, ids in zip(paths, names_of(paths), read_ids(source, paths)):
        if len(ids) <= least:
            raise TextError(f"{path}: {len(ids)} tokens are too few for a report, must be above {least}")
        part = ids[:tokens + 1]
        found.append(Passage(name, part.tolist(), round(path.stat().st_size * len(part) / len(ids))))
    first = found[0]
    again = first.ids[:REPEATED + BETWEEN] + first.ids[:REPEATED]
    return [*found, Passage(AGAIN, again, round(first.bytes * len(again) / len(first.ids)), REPEATED + BETWEEN + BEGINNING)]


@contextlib.contextmanager
def beside(out: pathlib.Path) -> Iterator[pathlib.Path]:
    """A temporary folder beside OUT, for directories that share files with it."""
    with tempfile.TemporaryDirectory(prefix=f".{out.name}-", dir=out.parent) as folder:
        yield pathlib.Path(folder)


def of_longer_context(source: pathlib.Path, target: pathlib.Path, longest: int) -> pathlib.Path:
    shared_copy(source, target, "config.json")
    fields = json.loads((source / "config.json").read_text(encoding="utf-8"))
    fields["max_position_embeddings"] = max(longest, fields.get("max_position_embeddings") or 0)
    (target / "config.json").write_text(json.dumps(fields), encoding="utf-8")
    return target


def without_codes(out: pathlib.Path, target: pathlib.Path) -> pathlib.Path:
    shared_copy(out, target, SHARD)
    tensors = {name: np.full_like(values, NO_MASS) if name.endswith(".bias") else values
               for name, values in safetensors.load(out / SHARD).items()}
    safetensors.save(target / SHARD, tensors, {"format": "pt"})
    return target


def shared_copy(source: pathlib.Path, target: pathlib.Path, without: str) -> pathlib.Path:
    target.mkdir()
    for file in source.iterdir():
        if file.is_file() and file.name != without:
            link(file, target / file.name)
    return target


def ranges(length: int) -> List[tuple]:
    """Ranges of positions: 0 to 512, to 1,024, to 2,048 and so on; the last ends at `length`. None is shorter than the first."""
    ends = [0, FIRST]
    while 2 * ends[-1] <= length:
        ends.append(2 * ends[-1])
    if length - ends[-1] < FIRST:
        ends.pop()
    return list(zip(ends, [*ends[1:], length]))


def difference(found: np.ndarray, base: np.ndarray) -> tuple:
    """-> (percent by which `found` is above `base`, its standard error), paired by position"""
    more = found - base
    pieces = [piece.mean() for piece in np.array_split(more, max(1, len(more) // PIECE))]
    error = np.std(pieces, ddof=1) / math.sqrt(len(pieces)) if len(pieces) > 1 else math.nan
    return 100 * more.mean() / base.mean(), 100 * error / base.mean()


def compare(source: pathlib.Path, out: pathlib.Path, texts: List[Passage], note: Callable = lambda _: None) -> dict:
    """-> measure() of the original, of OUT, and of OUT without codes"""
    with beside(out) as folder:
        return measure({ORIGINAL: of_longer_context(source, folder / "original", longest_of(texts)), CONVERTED: out,
                        RINGS: without_codes(out, folder / "rings")}, texts, note)


def longest_of(texts: List[Passage]) -> int:
    return max(len(text.ids) for text in texts)


def measure(variants: Dict[str, pathlib.Path], texts: List[Passage], note: Callable = lambda _: None) -> dict:
    """-> "bits": for each passage, bits per byte by variant; "bytes": for each variant, bytes of a session at SIZES"""
    bits, sizes = {text.name: {} for text in texts}, {}
    for variant, directory in variants.items():
        with Served(directory, longest_of(texts)) as served:
            sizes[variant] = served.session_bytes(SIZES)
            for text in texts:
                bits[text.name][variant] = text.bits_per_byte(served.nats(text.ids))
                note(f"{variant}: {text.name}")
    return {"bits": bits, "bytes": sizes}


def summary(texts: List[Passage], compared: dict) -> dict:
    """The results of compare() by ranges of positions: bits of the original, and [percent more, standard error] of the others."""
    rows = []
    for text in texts:
        bits = compared["bits"][text.name]
        for begin, end in [(text.scored - 1, len(text.ids) - 1)] if text.scored > 1 else ranges(len(text.ids) - 1):
            base = bits[ORIGINAL][begin:end]
            more = {variant: difference(bits[variant][begin:end], base) for variant in (CONVERTED, RINGS)}
            rows.append({"text": text.name, "from": begin, "to": end, ORIGINAL: base.mean(), **more})
    return {"rows": rows, "tokens": list(SIZES), "bytes": compared["bytes"]}


def markdown(summed: dict) -> str:
    """A summary() as tables in Markdown."""
    lines = ["## Bits per byte", "", "Of the original; then percent more than it, with standard errors of the paired differences.", "",
             f"| text | positions | {ORIGINAL} | {CONVERTED} | {RINGS} |", "|---|---|---:|---:|---:|"]
    for row in summed["rows"]:
        more = " | ".join(f"{row[variant][0]:+.2f} ± {row[variant][1]:.2f}" for variant in (CONVERTED, RINGS))
        lines.append(f"| {row['text']} | {row['from']:,} to {row['to']:,} | {row[ORIGINAL]:.4f} | {more} |")
    lines += ["", "## Bytes of a session's state", "", "| tokens | " + " | ".join(f"{size:,}" for size in summed["tokens"]) + " |",
              "|---|" + "---:|" * len(summed["tokens"])]
    for variant in (ORIGINAL, CONVERTED):
        lines.append(f"| {variant} | " + " | ".join(f"{size / 1e6:,.1f} MB" for size in summed["bytes"][variant]) + " |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(prog="report", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--text", type=pathlib.Path, nargs="+", metavar="FILE")
    parser.add_argument("--tokens", type=int, default=TOKENS, help="of each text at most whose bits are measured (default: %(default)s)")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE")
    arguments = parser.parse_args()
    try:
        texts = passages(arguments.source, arguments.text or shipped_texts(), arguments.tokens)
        found = summary(texts, compare(arguments.source, arguments.out, texts, lambda line: print(line, file=sys.stderr)))
        if arguments.json:
            arguments.json.write_text(json.dumps(found), encoding="utf-8")
        print(markdown(found), end="")
    except (ValueError, OSError) as error:
        sys.exit(f"report: {error}")


if __name__ == "__main__":
    main()
