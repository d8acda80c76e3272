"""Bits per token by position in the context, with the accumulators and without, as Markdown and as JSON.

    python3 -m models.training.context_report MODEL_DIR TEXT... [--length N] [--every N] [--json FILE]

Every text gives contexts of `length` tokens; one begins every so many tokens, with the end-of-sequence id before it. So the mean
at a position is over many places of the texts, and depends on the position more than on any one place.
"""

import argparse
import itertools
import json
import pathlib

import numpy as np

from models.training.data.tokenizer import load_tokenizer
from models.training.export import load_model
from models.training.token_bits import token_bits


def contexts(ids: np.ndarray, length: int, every: int, end: int):
    """-> [length + 1] each: the end-of-sequence id, and `length` tokens. ValueError if the text has fewer."""
    if len(ids) < length:
        raise ValueError(f"a text of {len(ids)} tokens holds no context of {length}")
    return [np.concatenate([[end], ids[begin:begin + length]]) for begin in range(0, len(ids) - length + 1, every)]


def bounds(length: int):
    """0, 50, 100, 200, 500 and so on up to the length."""
    steps = (step * 10 ** power for power in range(1, 10) for step in (5, 10, 20))
    return [0, *itertools.takewhile(lambda bound: bound < length, steps), length]


def by_bounds(bits: np.ndarray, at) -> np.ndarray:
    """Means of [contexts, length] between bounds, [contexts, len(at) - 1]."""
    return np.stack([bits[:, low:high].mean(1) for low, high in zip(at, at[1:])], 1)


def report_of(model, rows) -> dict:
    at = bounds(len(rows[0]) - 1)
    on, off = (by_bounds(np.stack([token_bits(model, row, use) for row in rows]), at) for use in (True, False))
    error = (off - on).std(0, ddof=1) / len(rows) ** 0.5 if len(rows) > 1 else np.full(len(at) - 1, np.nan)
    return {"contexts": len(rows), "bounds": at, "on": on.mean(0).tolist(), "off": off.mean(0).tolist(),
            "error_of_difference": error.tolist()}


def table(report: dict) -> str:
    lines = ["| positions | accumulator on | off | off less on |", "|---|---:|---:|---:|"]
    places = zip(report["bounds"], report["bounds"][1:], report["on"], report["off"], report["error_of_difference"])
    for low, high, on, off, error in places:
        lines.append(f"| {low:,} to {high:,} | {on:.3f} | {off:.3f} | {off - on:.3f} ± {error:.3f} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model_dir", type=pathlib.Path)
    parser.add_argument("files", nargs="+", type=pathlib.Path)
    parser.add_argument("--length", type=int, default=32000, help="tokens of a context")
    parser.add_argument("--every", type=int, default=16000, help="a context begins every so many tokens")
    parser.add_argument("--json", type=pathlib.Path, help="write the report here, too")
    arguments = parser.parse_args()
    model = load_model(arguments.model_dir)
    tokenizer = load_tokenizer(arguments.model_dir, model.config)
    rows = []
    for file in arguments.files:
        rows += contexts(tokenizer.encode(file.read_bytes().decode("utf-8")), arguments.length, arguments.every, tokenizer.end)
    report = report_of(model, rows)
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=2) + "\n")
    print(table(report))


if __name__ == "__main__":
    main()
