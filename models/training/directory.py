"""Writes model directories (docs/model-format.md); needs no PyTorch."""

import json
import pathlib

from models.training import safetensors
from models.training.config import ModelConfig


def write_model(directory, config: ModelConfig, tensors: dict) -> None:
    directory = pathlib.Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "config.json").write_text(json.dumps(config.to_json(), indent=2) + "\n")
    safetensors.save(directory / "model.safetensors", tensors, {"format": "pt"})
