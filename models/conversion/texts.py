"""Texts as a model's token ids."""

import pathlib
from typing import List

import numpy as np

from models.conversion.config import load_config
from models.conversion.served import Served

TOKENIZERS = ("tokenizer.json", "tokenizer.model")
AGAIN = "a passage again"  # the name of the repeated passage
BEGINNING = 10  # tokens at the beginning of its second reading that are not scored: they cannot be known yet


class TextError(ValueError):
    """A text cannot be used; the message names it and what would be right."""


def names_of(paths: List[pathlib.Path]) -> List[str]:
    """The names of texts in reports. TextError if two have the same name."""
    names = [path.stem for path in paths]
    for path, name in zip(paths, names):
        if names.count(name) > 1 or name == AGAIN:
            raise TextError(f"{path}: another text is called {name!r}, too; give them different names")
    return names


def read_ids(directory: pathlib.Path, paths: List[pathlib.Path]) -> List[np.ndarray]:
    """The token ids of files, by the built programs (served.py). For a directory without a tokenizer the files hold ids,
    separated by spaces."""
    texts = [read(path) for path in paths]
    if not any((directory / name).exists() for name in TOKENIZERS):
        vocab = load_config(directory).vocab
        return [ids_of(path, text, vocab) for path, text in zip(paths, texts)]
    with Served(directory) as served:
        return [np.array(served.tokenize(text), np.int64) for text in texts]


def read(path: pathlib.Path) -> str:
    try:
        return path.read_bytes().decode()
    except UnicodeDecodeError as error:
        raise TextError(f"{path}: is not UTF-8 from byte {error.start} on") from None


def ids_of(path: pathlib.Path, text: str, vocab: int) -> np.ndarray:
    words = text.split()
    if other := next((word for word in words if not word.isdecimal() or int(word) >= vocab), None):
        raise TextError(f"{path}: has {other!r}, must hold ids below {vocab} separated by spaces, for the model has no tokenizer")
    return np.array([int(word) for word in words], np.int64)
