"""The text tokenizer of a model directory: an object with encode(text), decode(ids) and `end`."""

import pathlib

from models.training.characters import Characters
from models.training.data import Bytes, Pieces


def load_tokenizer(directory, config):
    kind = config.tokenizer["type"]
    if kind == "bytes":
        return Bytes()
    readers = {"sentencepiece": Pieces, "characters": Characters.load}
    if kind not in readers:
        raise ValueError(f"{directory}: its tokenizer is {kind}, not one of text (bytes, {', '.join(sorted(readers))})")
    return readers[kind](pathlib.Path(directory) / config.tokenizer["file"])
