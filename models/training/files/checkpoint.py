"""Checkpoints of a training run, written atomically: everything that is needed to continue as if it had not stopped."""

import os
import pathlib

import torch


def save(path, content: dict) -> None:
    """Writes so that after a crash at any moment `path` holds either all of the old content or all of the new."""
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    with open(partial, "wb") as file:
        torch.save(content, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(partial, path)


def load(path) -> dict:
    """Reads a checkpoint. Our files hold Python objects (random states) beside tensors: newer PyTorch must be told to allow
    that."""
    try:
        return torch.load(path, map_location="cpu", weights_only=False)
    except TypeError:  # PyTorch 1.12 and older do not have weights_only
        return torch.load(path, map_location="cpu")
