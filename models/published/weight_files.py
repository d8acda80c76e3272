"""Writes a model's weights as Hugging Face does: one file, or several and model.safetensors.index.json."""

import json
import pathlib

from models.training.files import safetensors

LARGEST_FILE = 4 << 30  # bytes; about so much is in memory at a time


def write_weights(folder: pathlib.Path, tensors, sizes: dict, largest: int = LARGEST_FILE) -> None:
    """`tensors` yields (name, values) in the order of `sizes`, which has the bytes of each tensor by its name."""
    groups = grouped(sizes, largest)
    if len(groups) == 1:
        safetensors.save(folder / "model.safetensors", dict(tensors), {"format": "pt"})
        return
    places = {}
    tensors = iter(tensors)
    for number, names in enumerate(groups, 1):
        file = f"model-{number:05d}-of-{len(groups):05d}.safetensors"
        safetensors.save(folder / file, dict(next(tensors) for _ in names), {"format": "pt"})
        places.update({name: file for name in names})
    index = {"metadata": {"total_size": sum(sizes.values())}, "weight_map": dict(sorted(places.items()))}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=2) + "\n", encoding="utf-8")


def grouped(sizes: dict, largest: int) -> list:
    """The names of tensors in groups, one group for each file."""
    groups, room = [[]], largest
    for name, size in sizes.items():
        if size > room and groups[-1]:
            groups.append([])
            room = largest
        groups[-1].append(name)
        room -= size
    return groups
