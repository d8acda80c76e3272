"""Writes and reads model directories (docs/model-format.md); needs no PyTorch."""

import json
import pathlib

from models.training.config import ModelConfig
from models.training.files import safetensors


def write_model(directory, config: ModelConfig, tensors: dict) -> None:
    directory = pathlib.Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "config.json").write_text(json.dumps(config.to_json(), indent=2) + "\n")
    safetensors.save(directory / "model.safetensors", tensors, {"format": "pt"})


def read_tensors(directory) -> dict:
    """The tensors of model.safetensors, or else of the shards that model.safetensors.index.json names."""
    directory = pathlib.Path(directory)
    whole, index = directory / "model.safetensors", directory / "model.safetensors.index.json"
    if whole.exists() or not index.exists():
        return safetensors.load(whole)
    shard_of = json.loads(index.read_text())["weight_map"]
    shards = {}
    for name, shard in sorted(shard_of.items()):
        if pathlib.PurePath(shard).name != shard:
            raise ValueError(f"{index}: shard of tensor {name} is {shard!r}, must be the name of a file beside it")
        if shard not in shards:
            shards[shard] = safetensors.load(directory / shard)
        if name not in shards[shard]:
            raise ValueError(f"{directory / shard}: lacks the tensor {name}, which {index.name} says is there")
    return {name: shards[shard][name] for name, shard in shard_of.items()}
