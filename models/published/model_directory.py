"""Writes an imported model's directory whole or not at all."""

import json
import os
import pathlib
import shutil
import tempfile

from models.published.weight_files import write_weights


def check_absent(directory: pathlib.Path) -> None:
    if directory.exists() or directory.is_symlink():
        raise FileExistsError(f"{directory}: is there already; name another directory, or remove it first")


def write_whole(directory: pathlib.Path, files: dict, tensors, sizes: dict) -> None:
    """Writes under another name first, in a folder that no server takes for a model, and renames it when all is written.

    `files` has by name bytes, or what becomes JSON."""
    directory.parent.mkdir(parents=True, exist_ok=True)
    staging = pathlib.Path(tempfile.mkdtemp(prefix=f".{directory.name}-", dir=directory.parent))
    try:
        model = staging / "model"
        model.mkdir()
        for name, content in files.items():
            (model / name).write_bytes(content if isinstance(content, bytes) else json_bytes(name, content))
        write_weights(model, tensors, sizes)
        os.rename(model, directory)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def json_bytes(name: str, content: dict) -> bytes:
    indent = None if name == "tokenizer.json" else 2
    return (json.dumps(content, ensure_ascii=False, indent=indent) + "\n").encode()
