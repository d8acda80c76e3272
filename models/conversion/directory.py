"""Reads the model of a directory in Hugging Face's form, converted or not."""

import pathlib
import re

import torch

from models.conversion.config import load_config
from models.conversion.model import Model
from models.training.files.directory import read_tensors

SPARE = re.compile(r".*rotary_emb\.inv_freq")  # not needed: frequencies.py computes them


def load_model(directory, state: torch.dtype = torch.float32, dtype: torch.dtype = torch.float64) -> Model:
    """The model, with weights in `dtype`. ValueError names a tensor that the directory lacks or that has no use."""
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
        parameter.data = torch.tensor(tensors.pop(name), dtype=dtype)  # pop: frees what was read as it is copied
    if tensors:
        raise ValueError(f"{directory}: the model of config.json has no use for {len(tensors)} tensors, such as {min(tensors)}")
    return model.eval()


def full_name(name: str) -> str:
    """The name with `model.` in front, which the names of a model that was saved without its logits lack."""
    return name if name.startswith(("model.", "lm_head.")) else f"model.{name}"
