"""The text tokenizer of a model directory: an object with encode(text), decode(ids) and `end`."""

import pathlib

from models.training.data.characters import FIRST_ID, Characters
from models.training.data.text import Bytes, Pieces


def load_tokenizer(directory, config):
    kind = config.tokenizer["type"]
    if kind == "bytes":
        return Bytes()
    if kind not in ("characters", "sentencepiece"):
        raise ValueError(f"{directory}: its tokenizer is {kind}, not one of text (bytes, characters, sentencepiece)")
    file = pathlib.Path(directory) / config.tokenizer["file"]
    if kind == "sentencepiece":
        return Pieces(file)
    return Characters.load(file, config.tokenizer.get("first_id", FIRST_ID))
