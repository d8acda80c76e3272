"""Checkpoints of a training run: everything needed to go on as if nothing had happened, written atomically."""

import os
import pathlib

import torch


def save(path, content: dict) -> None:
    """After a crash at any moment `path` holds the old content or the new, whole."""
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    with open(partial, "wb") as file:
        torch.save(content, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(partial, path)


def load(path) -> dict:
    """Our own files hold Python objects (random states) beside tensors; newer PyTorch must be told to allow that."""
    try:
        return torch.load(path, map_location="cpu", weights_only=False)
    except TypeError:  # PyTorch 1.12 and older know no weights_only
        return torch.load(path, map_location="cpu")
