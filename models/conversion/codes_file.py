"""The codes that a conversion has found: a safetensors file, float16 or float32, with these tensors for each layer N

    layers.N.assign  [G, S, K]    layers.N.metric  [G, K, K]    layers.N.score  [G, S, K]
    layers.N.map     [H, K, K]    layers.N.bias    [H]

README.md says what they mean.
"""

import pathlib

import numpy as np

from models.conversion.config import Config
from models.training.files import safetensors

NAMES = ("assign", "metric", "score", "map", "bias")


class CodesError(ValueError):
    """The file does not fit the model; the message names the tensor and what would be right."""


def save_codes(path, tensors: dict) -> None:
    """Writes float32 arrays by name. They are rounded to float16, except those with numbers too large for float16."""
    with np.errstate(over="ignore"):
        halves = {name: values.astype(np.float16) for name, values in tensors.items()}
    safetensors.save(path, {name: half if np.isfinite(half).all() else tensors[name] for name, half in halves.items()})


def read_codes(path, config: Config) -> list:
    """-> per layer, float32 arrays by NAMES. S is that of the first layer."""
    path = pathlib.Path(path)
    try:
        tensors = safetensors.load(path)
    except ValueError as error:
        raise CodesError(str(error)) from None
    wanted = {f"layers.{layer}.{name}" for layer in range(config.layers) for name in NAMES}
    if missing := sorted(wanted - set(tensors)):
        raise CodesError(f"{path}: lacks {len(missing)} tensors of {config.layers} layers, such as {missing[0]}")
    if surplus := sorted(set(tensors) - wanted):
        raise CodesError(f"{path}: a model of {config.layers} layers has no use for {len(surplus)} tensors, such as {surplus[0]}")
    first = tensors["layers.0.assign"]
    shapes = shapes_of(config, first.shape[1] if first.ndim == 3 else 0)
    for name in sorted(wanted):
        check(path, name, tensors[name], shapes[name.split(".")[-1]])
    return [{name: tensors[f"layers.{layer}.{name}"].astype(np.float32) for name in NAMES} for layer in range(config.layers)]


def shapes_of(config: Config, codes: int) -> dict:
    kv_heads, heads, dim = config.kv_heads, config.heads, config.head_dim
    words, square = (kv_heads, codes, dim), (dim, dim)
    return {"assign": words, "metric": (kv_heads, *square), "score": words, "map": (heads, *square), "bias": (heads,)}


def check(path, name: str, values: np.ndarray, shape: tuple) -> None:
    if values.shape != shape or 0 in shape:
        raise CodesError(f"{path}: tensor {name} has shape {list(values.shape)}, must be {list(shape)} with at least one code")
    if values.dtype not in (np.float32, np.float16):
        raise CodesError(f"{path}: tensor {name} is {values.dtype}, must be float16 or float32")
    if not np.isfinite(values).all():
        raise CodesError(f"{path}: tensor {name} has values that are not finite")
