"""The rules of couplets, as shares of pairs that keep them, for a model's answers as well as for people's.

Length: both lines have the same number of characters. Repetition: if one line has the same character at two places, so has the
other at these places. No echo: no character of the first line comes again in the second, except punctuation. Tones: in modern
Mandarin the first and second tone are level, the third and fourth oblique. The first line ends oblique and the second level; at
the second, fourth and every further even place, and at the end, the lines have opposite tones.
"""

import bz2
import pathlib
import unicodedata
from typing import Dict, List, NamedTuple, Optional, Tuple

import numpy as np

LEVEL, OBLIQUE = True, False
TONE_OF_MARK = {"\u0304": LEVEL, "\u0301": LEVEL, "\u030c": OBLIQUE, "\u0300": OBLIQUE}

Tones = Dict[str, bool]


def read_tones(path) -> Tones:
    """Reads Unicode's Unihan_Readings.txt, also as .bz2 (Debian: unicode-data). The first kMandarin reading of a character
    counts; if it has no tone mark, the character has no entry. ValueError if the file has no such readings."""
    path, tones = pathlib.Path(path), {}
    with bz2.open(path, "rt", encoding="utf-8") if path.suffix == ".bz2" else open(path, encoding="utf-8") as file:
        for line in file:
            fields = line.rstrip("\n").split("\t")
            if len(fields) == 3 and fields[1] == "kMandarin":
                marks = [TONE_OF_MARK[c] for c in unicodedata.normalize("NFD", fields[2].split()[0]) if c in TONE_OF_MARK]
                if marks:
                    tones[chr(int(fields[0][2:], 16))] = marks[0]
    if not tones:
        raise ValueError(f"{path} has no kMandarin readings; Unicode's Unihan_Readings.txt has them")
    return tones


def keeps_repetition(first: str, second: str) -> bool:
    """Whether two lines of equal length have repeated characters at the same places."""
    return [first.index(c) for c in first] == [second.index(c) for c in second]


def echoes(first: str, second: str) -> bool:
    return any(c.isalpha() and c in first for c in second)


def ends_in_tone(first: str, second: str, tones: Tones) -> Optional[bool]:
    """Whether the first line ends oblique and the second level. None if a tone is not known."""
    last = tones.get(first[-1:]), tones.get(second[-1:])
    return None if None in last else last == (OBLIQUE, LEVEL)


def opposite_tones(first: str, second: str, tones: Tones) -> Optional[float]:
    """The share of even places, and of the end, where two lines of equal length have opposite tones. None if no tone is known."""
    places = sorted({*range(1, len(first), 2), len(first) - 1})
    pairs = [(tones.get(first[n]), tones.get(second[n])) for n in places]
    known = [a != b for a, b in pairs if a is not None and b is not None]
    return float(np.mean(known)) if known else None


class Kept(NamedTuple):
    """Shares, 0 to 1. Repetition and opposite tones count only pairs of equal length. None: there was nothing to count."""

    length: float
    repetition: Optional[float]
    no_echo: float
    end_tones: Optional[float]
    opposite_tones: Optional[float]


def share(values: list) -> Optional[float]:
    values = [value for value in values if value is not None]
    return float(np.mean(values)) if values else None


def rules_kept(pairs: List[Tuple[str, str]], tones: Tones) -> Kept:
    equal = [(a, b) for a, b in pairs if len(a) == len(b) > 0]
    return Kept(
        length=len(equal) / len(pairs),
        repetition=share([keeps_repetition(a, b) for a, b in equal]),
        no_echo=share([not echoes(a, b) for a, b in pairs]),
        end_tones=share([ends_in_tone(a, b, tones) for a, b in pairs]),
        opposite_tones=share([opposite_tones(a, b, tones) for a, b in equal]))
