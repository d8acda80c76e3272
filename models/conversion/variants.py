"""Compares what several conversions of a model cost: percent more bits than the original on whole texts.

    python3 -m models.conversion.variants SOURCE DIR... [--text FILE...] [--tokens 8192]

Prints Markdown: bits per byte of the original, for each DIR how many percent more with the standard errors of the paired
differences, and the bytes of a session. Needs the built programs (served.py).
"""

import argparse
import pathlib
import sys
from typing import List

from models.conversion.report import (ORIGINAL, SIZES, Passage, beside, difference, longest_of, measure, of_longer_context, passages,
                                      shipped_texts)
from models.conversion.texts import TextError


def table(texts: List[Passage], measured: dict) -> str:
    names = [name for name in measured["bytes"] if name != ORIGINAL]
    lines = [f"| | {' | '.join(text.name for text in texts)} | bytes of {SIZES[-1]:,} tokens |", f"|---|{'---:|' * (len(texts) + 1)}"]

    def row(name: str, cells: List[str]) -> str:
        return f"| {name} | {' | '.join(cells)} | {measured['bytes'][name][-1] / 1e6:,.1f} MB |"

    def scored(text: Passage, name: str):
        return measured["bits"][text.name][name][text.scored - 1:]

    lines.append(row(ORIGINAL, [f"{scored(text, ORIGINAL).mean():.4f}" for text in texts]))
    for name in names:
        more = [difference(scored(text, name), scored(text, ORIGINAL)) for text in texts]
        lines.append(row(name, [f"{percent:+.2f} ± {error:.2f}" for percent, error in more]))
    return "\n".join(lines) + "\n"


def variants(source: pathlib.Path, directories: List[pathlib.Path], texts: List[Passage], note) -> dict:
    named = {directory.name: directory for directory in directories}
    if len(named) < len(directories) or ORIGINAL in named:
        raise TextError(f"directories must have names of their own, none of them {ORIGINAL!r}")
    with beside(directories[0]) as folder:
        return measure({ORIGINAL: of_longer_context(source, folder / ORIGINAL, longest_of(texts)), **named}, texts, note)


def main():
    parser = argparse.ArgumentParser(prog="variants", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=pathlib.Path)
    parser.add_argument("directories", type=pathlib.Path, nargs="+", metavar="DIR")
    parser.add_argument("--text", type=pathlib.Path, nargs="+", metavar="FILE")
    parser.add_argument("--tokens", type=int, default=8192, help="of each text at most whose bits are measured (default: %(default)s)")
    arguments = parser.parse_args()
    try:
        texts = passages(arguments.source, arguments.text or shipped_texts(), arguments.tokens)
        print(table(texts, variants(arguments.source, arguments.directories, texts, lambda line: print(line, file=sys.stderr))), end="")
    except (ValueError, OSError) as error:
        sys.exit(f"variants: {error}")


if __name__ == "__main__":
    main()
