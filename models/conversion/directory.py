"""Reads the model of a directory in Hugging Face's form, converted or not."""

import pathlib
import re

import torch

from models.conversion.config import load_config
from models.conversion.model import Model
from models.training.files.directory import read_tensors

SPARE = re.compile(r".*rotary_emb\.inv_freq")  # which frequencies.py computes


def load_model(directory, state: torch.dtype = torch.float32, dtype: torch.dtype = torch.float64) -> Model:
    """In `dtype`. ValueError names what the directory lacks or has too much."""
    directory = pathlib.Path(directory)
    config = load_config(directory)
    tensors = {full_name(name): value for name, value in read_tensors(directory).items() if not SPARE.fullmatch(name)}
    if config.tied:
        tensors.pop("lm_head.weight", None)
    model = Model(config, state)
    for name, parameter in model.named_parameters():
        if name not in tensors:
            raise ValueError(f"{directory}: lacks the tensor {name}")
        if tensors[name].shape != tuple(parameter.shape):
            raise ValueError(f"{directory}: tensor {name} has shape {list(tensors[name].shape)}, must be {list(parameter.shape)}")
        parameter.data = torch.tensor(tensors.pop(name), dtype=dtype)  # what was read goes as it is copied
    if tensors:
        raise ValueError(f"{directory}: the model of config.json has no use for {len(tensors)} tensors, such as {min(tensors)}")
    return model.eval()


def full_name(name: str) -> str:
    """A model that was saved without its logits has no `model.` in its names."""
    return name if name.startswith(("model.", "lm_head.")) else f"model.{name}"
