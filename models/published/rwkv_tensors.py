"""The tensors of an RWKV-7 in its native form, and what flash-linear-attention calls them."""

import dataclasses
import re
from typing import Callable

import numpy as np

from models.published.tensor_pickle import TorchFileError

# The epsilon of the norm behind the heads is 64e-5; flash-linear-attention has head_dim times norm_eps in its place.
HEAD, EPSILON = 64, 1e-5
UNUSED = {f"blocks.0.att.{name}" for name in ("v0", "v1", "v2")}  # the first layer mixes no other layer's values in
PROJECTIONS = {"receptance": "r_proj", "key": "k_proj", "value": "v_proj", "output": "o_proj"}
RANKS = {"w": "decay_low_rank_dim", "a": "a_low_rank_dim", "v": "v_low_rank_dim", "g": "gate_low_rank_dim"}


def same(values: np.ndarray) -> np.ndarray:
    return values


@dataclasses.dataclass(frozen=True)
class Place:
    name: str
    source: str  # the name in the native form
    shape: tuple  # there
    change: Callable = same


def model_config(tensors: dict) -> dict:
    vocabulary, hidden = matrix(tensors, "emb.weight")
    layers = len({found[1] for found in (re.match(r"blocks\.([0-9]+)\.", name) for name in tensors) if found})
    if hidden % HEAD:
        raise TorchFileError(f"tensor emb.weight has rows of {hidden} numbers, must have a multiple of {HEAD}")
    ranks = {field: matrix(tensors, f"blocks.{1 if kind == 'v' else 0}.att.{kind}1")[1] for kind, field in RANKS.items()}
    inner = matrix(tensors, "blocks.0.ffn.key.weight")[0]
    return {
        "architectures": ["RWKV7ForCausalLM"], "model_type": "rwkv7", "hidden_size": hidden, "num_hidden_layers": layers,
        "head_dim": HEAD, "intermediate_size": inner, "hidden_ratio": inner / hidden, **ranks, "norm_first": True, "norm_bias": True,
        "norm_eps": EPSILON, "hidden_act": "sqrelu", "value_dim": [hidden] * layers, "vocab_size": vocabulary, "attn": None,
        "tie_word_embeddings": False, "bos_token_id": 0, "eos_token_id": 0, "torch_dtype": tensors["emb.weight"].dtype,
    }


def matrix(tensors: dict, name: str) -> tuple:
    """Its shape."""
    if name not in tensors:
        raise TorchFileError(f"lacks the tensor {name}, which an RWKV-7 in its native form has; other versions are not imported")
    shape = tensors[name].shape
    if len(shape) != 2:
        raise TorchFileError(f"tensor {name} has the shape {list(shape)}, must have two dimensions")
    return shape


def places(tensors: dict, config: dict) -> list:
    """Where each tensor of the model comes from, when all are there and have their shapes."""
    hidden, vocabulary = config["hidden_size"], config["vocab_size"]
    found = [Place("model.embeddings.weight", "emb.weight", (vocabulary, hidden)),
             Place("lm_head.weight", "head.weight", (vocabulary, hidden)), *norm("model.norm", "ln_out", hidden)]
    for layer in range(config["num_hidden_layers"]):
        found += layer_places(f"model.layers.{layer}.", f"blocks.{layer}.", config, layer == 0)
    for place in found:
        if place.source not in tensors:
            raise TorchFileError(f"lacks the tensor {place.source}, of shape {list(place.shape)} by its other tensors")
        if tensors[place.source].shape != place.shape:
            raise TorchFileError(f"tensor {place.source} has the shape {list(tensors[place.source].shape)}, by its other tensors "
                                 f"it would be {list(place.shape)}")
    surplus = sorted(tensors.keys() - {place.source for place in found} - UNUSED)
    if surplus:
        raise TorchFileError(f"has the tensor {surplus[0]}, which has no place in an RWKV-7 ({len(surplus)} such)")
    return found


def layer_places(ours: str, theirs: str, config: dict, first: bool) -> list:
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    found = norm(f"{ours}pre_norm", f"{theirs}ln0", hidden) if first else []
    found += norm(f"{ours}attn_norm", f"{theirs}ln1", hidden) + norm(f"{ours}ffn_norm", f"{theirs}ln2", hidden)
    found += [Place(f"{ours}attn.x_{kind}", f"{theirs}att.x_{kind}", (1, 1, hidden)) for kind in "rwkvag"]
    for kind, field in RANKS.items():
        if kind == "v" and first:
            continue
        lora, source = f"{ours}attn.{kind}_lora.lora.", f"{theirs}att.{kind}"
        found += [Place(f"{lora}0.weight", f"{source}1", (hidden, config[field]), np.transpose),
                  Place(f"{lora}2.weight", f"{source}2", (config[field], hidden), np.transpose)]
        if kind != "g":
            found.append(Place(f"{lora}2.bias", f"{source}0", (1, 1, hidden), np.ravel))
    found += [Place(f"{ours}attn.{name}", f"{theirs}att.{name}", (1, 1, hidden), np.ravel) for name in ("k_k", "k_a")]
    found.append(Place(f"{ours}attn.r_k", f"{theirs}att.r_k", (hidden // HEAD, HEAD)))
    found += [Place(f"{ours}attn.{name}.weight", f"{theirs}att.{source}.weight", (hidden, hidden))
              for source, name in PROJECTIONS.items()]
    return found + norm(f"{ours}attn.g_norm", f"{theirs}att.ln_x", hidden) + [
        Place(f"{ours}ffn.x_k", f"{theirs}ffn.x_k", (1, 1, hidden), np.ravel),
        Place(f"{ours}ffn.key.weight", f"{theirs}ffn.key.weight", (inner, hidden)),
        Place(f"{ours}ffn.value.weight", f"{theirs}ffn.value.weight", (hidden, inner))]


def norm(name: str, source: str, size: int) -> list:
    return [Place(f"{name}.{part}", f"{source}.{part}", (size,)) for part in ("weight", "bias")]
