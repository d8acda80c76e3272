"""The text tokenizer of a model directory: an object with encode(text), decode(ids) and `end`."""

import pathlib

from models.training.characters import Characters
from models.training.data import Pieces


def load_tokenizer(directory, config):
    kind = config.tokenizer["type"]
    readers = {"sentencepiece": Pieces, "characters": Characters.load}
    if kind not in readers:
        raise ValueError(f"{directory}: its tokenizer is {kind}, not one of text ({', '.join(sorted(readers))})")
    return readers[kind](pathlib.Path(directory) / config.tokenizer["file"])
