"""Texts as a model's token ids."""

import pathlib
import sys

import numpy as np


class TextError(ValueError):
    """A text cannot be used; the message names it and what would be right."""


def read_ids(directory: pathlib.Path, text: str) -> np.ndarray:
    file = directory / "tokenizer.json"
    if not file.exists():
        return np.array([int(word) for word in text.split()], np.int64)
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise SystemExit(f"{sys.executable} has no package `tokenizers`, which reads {file}; `pip install tokenizers` "
                         "in a virtual environment with --system-site-packages") from None
    return np.array(Tokenizer.from_file(str(file)).encode(text).ids, np.int64)
