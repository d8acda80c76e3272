"""Texts as a model's token ids."""

import pathlib
from typing import List

import numpy as np

from models.conversion.served import Served

TOKENIZERS = ("tokenizer.json", "tokenizer.model")


class TextError(ValueError):
    """A text cannot be used; the message names it and what would be right."""


def read_ids(directory: pathlib.Path, paths: List[pathlib.Path]) -> List[np.ndarray]:
    """Of files, by the built programs (served.py); of a directory without a tokenizer files hold ids, separated by spaces."""
    texts = [read(path) for path in paths]
    if not any((directory / name).exists() for name in TOKENIZERS):
        return [ids_of(directory, path, text) for path, text in zip(paths, texts)]
    with Served(directory) as served:
        return [np.array(served.tokenize(text), np.int64) for text in texts]


def read(path: pathlib.Path) -> str:
    try:
        return path.read_bytes().decode()
    except UnicodeDecodeError as error:
        raise TextError(f"{path}: is not UTF-8 from byte {error.start} on") from None


def ids_of(directory: pathlib.Path, path: pathlib.Path, text: str) -> np.ndarray:
    words = text.split()
    if other := next((word for word in words if not word.isdecimal()), None):
        raise TextError(f"{path}: has {other!r}, must hold ids separated by spaces, for {directory} has no tokenizer")
    return np.array([int(word) for word in words], np.int64)
