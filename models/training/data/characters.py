"""The character list tokenizer of docs/model-format.md."""

import collections
import pathlib
from typing import Dict, Iterable, List

import numpy as np

from models.training.data.token_ids import id_type

PAD, END, UNKNOWN, FIRST_ID = 0, 1, 2, 3
RARE = 10  # a character that occurs fewer times in the training data is unknown


class Characters:
    """Characters have ids from `first_id` on, in the order of the list; every other character is UNKNOWN. ValueError if a
    character would have the id of UNKNOWN."""

    def __init__(self, characters: List[str], first_id: int = FIRST_ID):
        if first_id < FIRST_ID:
            raise ValueError(f"characters begin with id {first_id}, must begin with {FIRST_ID} or more: "
                             f"{PAD}, {END} and {UNKNOWN} are pad, end and unknown")
        self.characters, self.first_id = characters, first_id
        self.ids: Dict[str, int] = {character: first_id + n for n, character in enumerate(characters)}
        self.end = END
        self.dtype = id_type(len(self))

    @classmethod
    def of(cls, texts: Iterable[str], begin: List[str], rare: int = RARE) -> "Characters":
        """`begin`, then the characters of the texts that are not rare, most frequent first."""
        counts = collections.Counter()
        for text in texts:
            counts.update(text)
        known = (c for c in counts if counts[c] >= rare and c not in begin)
        return cls(begin + sorted(known, key=lambda c: (-counts[c], c)))

    @classmethod
    def load(cls, path, first_id: int = FIRST_ID) -> "Characters":
        lines = pathlib.Path(path).read_bytes().decode("utf-8").split("\n")
        if not lines[-1]:  # behind the last newline, which a list may lack
            lines.pop()
        return cls(["\n" if line == "\\n" else line for line in lines], first_id)

    def save(self, path) -> None:
        lines = ["\\n" if character == "\n" else character for character in self.characters]
        pathlib.Path(path).write_bytes("".join(line + "\n" for line in lines).encode("utf-8"))

    def __len__(self):
        return self.first_id + len(self.characters)

    def encode(self, text: str) -> np.ndarray:
        return np.array([self.ids.get(character, UNKNOWN) for character in text], dtype=self.dtype)

    def decode(self, ids) -> str:
        """The text of ids. Ids before that of the first character have no text."""
        return "".join(self.characters[number - self.first_id] for number in map(int, ids) if number >= self.first_id)
