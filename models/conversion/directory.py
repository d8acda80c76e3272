"""Reads the model of a directory in Hugging Face's form, converted or not."""

import pathlib
import re

import torch

from models.conversion.config import load_config
from models.conversion.model import Model
from models.training.files.directory import read_tensors

SPARE = re.compile(r".*rotary_emb\.inv_freq")  # which frequencies.py computes


def load_model(directory, state: torch.dtype = torch.float32) -> Model:
    """In float64. ValueError names what the directory lacks or has too much."""
    directory = pathlib.Path(directory)
    model = Model(load_config(directory), state)
    tensors = {full_name(name): value for name, value in read_tensors(directory).items() if not SPARE.fullmatch(name)}
    if model.config.tied:
        tensors.pop("lm_head.weight", None)
    for name, value in model.state_dict().items():
        if name not in tensors:
            raise ValueError(f"{directory}: lacks the tensor {name}")
        if tensors[name].shape != tuple(value.shape):
            raise ValueError(f"{directory}: tensor {name} has shape {list(tensors[name].shape)}, must be {list(value.shape)}")
    if surplus := sorted(set(tensors) - set(model.state_dict())):
        raise ValueError(f"{directory}: the model of config.json has no use for {len(surplus)} tensors, such as {surplus[0]}")
    model.load_state_dict({name: torch.from_numpy(value) for name, value in tensors.items()})
    return model.double().eval()


def full_name(name: str) -> str:
    """A model that was saved without its logits has no `model.` in its names."""
    return name if name.startswith(("model.", "lm_head.")) else f"model.{name}"
