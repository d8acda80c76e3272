"""Measures whether models, run by the server, find a pass key in a long text.

    python3 -m models.conversion.recall DIR... [--text FILE] [--places 125]

For each length, 1,024 to 8,064 tokens, it takes --places pieces of the text. Each piece has a pass key of five digits somewhere,
and the question for it at the end. Prints, by the distance of the key, how often models find all its digits, and nats per digit.
Needs the built programs (served.py).
"""

import argparse
import pathlib
import random
import sys
from typing import List, NamedTuple

import numpy as np

from models.conversion.report import shipped_texts
from models.conversion.served import Served
from models.conversion.texts import TextError

LENGTHS = (1024, 2048, 4096, 8064)  # in tokens; with the question all fit into 8,192
DIGITS = 5
TOLD = " The pass key is {key}. Remember it. {key} is the pass key. "
ASKED = "\n\nWhat is the pass key? The pass key is"
BOUNDS = (0, 256, 2048, 4096, 8192)  # of distances in tokens
SEED = 0


class Asked(NamedTuple):
    distance: int  # tokens from where the key is told to the question
    found: bool  # whether each token of its digits is the most likely one
    nats: float  # per token of its digits


def recall(served: Served, text: str, places: int, note=lambda _: None) -> List[Asked]:
    """The same texts, keys and places for every model. TextError for a text that is too short."""
    chance, ids, found = random.Random(SEED), served.tokenize(text), []
    if len(ids) < LENGTHS[-1]:
        raise TextError(f"the text has {len(ids)} tokens, must have at least {LENGTHS[-1]}")
    for length in LENGTHS:
        for _ in range(places):
            key = "".join(chance.choices("0123456789", k=DIGITS))
            told, asked = served.tokenize(TOLD.format(key=key)), served.tokenize(ASKED) + served.tokenize(f" {key}")
            around = length - len(told)
            begin, at = chance.randrange(len(ids) - around), chance.randrange(around)
            context = ids[begin:begin + at] + told + ids[begin + at:begin + around]
            digits = served.against_best(context + asked)[-len(served.tokenize(key)):]
            found.append(Asked(length - at, all(nats <= best for nats, best in digits), float(np.mean([nats for nats, _ in digits]))))
        note(f"{served.directory}: {length} tokens")
    return found


def table(by_model: dict) -> str:
    lines = ["| tokens back | keys | " + " | ".join(f"{name}: found | nats a digit" for name in by_model) + " |",
             "|---|---:|" + "---:|---:|" * len(by_model)]
    for low, high in zip(BOUNDS, BOUNDS[1:]):
        cells, count = [], 0
        for found in by_model.values():
            part = [asked for asked in found if low < asked.distance <= high]
            count = len(part)
            cells.append(f"{100 * np.mean([asked.found for asked in part]):.0f}% | {np.mean([asked.nats for asked in part]):.2f}"
                         if part else "| ")
        lines.append(f"| {low:,} to {high:,} | {count} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(prog="recall", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directories", type=pathlib.Path, nargs="+", metavar="DIR")
    parser.add_argument("--text", type=pathlib.Path, help="that keys stand in (default: the novel of reports)")
    parser.add_argument("--places", type=int, default=125, help="for each length (default: %(default)s)")
    arguments = parser.parse_args()
    novel = next(path for path in shipped_texts() if path.stem == "novel")
    text, by_model = (arguments.text or novel).read_text(encoding="utf-8"), {}
    try:
        for directory in arguments.directories:
            with Served(directory, 2 * LENGTHS[-1]) as served:
                by_model[directory.name] = recall(served, text, arguments.places,
                                                  lambda line: print(line, file=sys.stderr))
    except (ValueError, OSError) as error:
        sys.exit(f"recall: {error}")
    print(table(by_model), end="")


if __name__ == "__main__":
    main()
