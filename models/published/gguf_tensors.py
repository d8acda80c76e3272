"""A GGUF file's tensors by their names in a Hugging Face model."""

import dataclasses

import numpy as np

from models.published.gguf_architectures import Architecture
from models.published.gguf_file import GgufError
from models.published.gguf_rope import FREQUENCIES

# By the name in GGUF: the name in a layer of Hugging Face's model, and the shape by names of config fields.
LAYER = {
    "attn_norm.weight": ("input_layernorm.weight", ("width",)),
    "attn_q.weight": ("self_attn.q_proj.weight", ("queries", "width")),
    "attn_k.weight": ("self_attn.k_proj.weight", ("keys", "width")),
    "attn_v.weight": ("self_attn.v_proj.weight", ("keys", "width")),
    "attn_output.weight": ("self_attn.o_proj.weight", ("width", "queries")),
    "ffn_norm.weight": ("post_attention_layernorm.weight", ("width",)),
    "ffn_gate.weight": ("mlp.gate_proj.weight", ("inner", "width")),
    "ffn_up.weight": ("mlp.up_proj.weight", ("inner", "width")),
    "ffn_down.weight": ("mlp.down_proj.weight", ("width", "inner")),
}
QKV_BIASES = {
    "attn_q.bias": ("self_attn.q_proj.bias", ("queries",)),
    "attn_k.bias": ("self_attn.k_proj.bias", ("keys",)),
    "attn_v.bias": ("self_attn.v_proj.bias", ("keys",)),
}
ATTENTION_BIASES = {**QKV_BIASES, "attn_output.bias": ("self_attn.o_proj.bias", ("width",))}
MLP_BIASES = {
    "ffn_gate.bias": ("mlp.gate_proj.bias", ("inner",)),
    "ffn_up.bias": ("mlp.up_proj.bias", ("inner",)),
    "ffn_down.bias": ("mlp.down_proj.bias", ("width",)),
}
HEAD_NORMS = {
    "attn_q_norm.weight": ("self_attn.q_norm.weight", ("head",)),
    "attn_k_norm.weight": ("self_attn.k_norm.weight", ("head",)),
}


@dataclasses.dataclass(frozen=True)
class Place:
    theirs: str  # the tensor's name in GGUF
    name: str
    shape: tuple
    heads: int = 0  # if not 0, rows of so many heads are reordered (turned_back)


def model_tensors(tensors: dict, found: list):
    """Yields (place, float32 values)."""
    for place in found:
        values = tensors[place.theirs].to_float32()
        yield place, turned_back(values, place.heads) if place.heads else values


def in_each_layer(known: Architecture, config: dict) -> dict:
    return {**LAYER, **(QKV_BIASES if known.biases else {}), **(ATTENTION_BIASES if config.get("attention_bias") else {}),
            **(MLP_BIASES if config.get("mlp_bias") else {}), **(HEAD_NORMS if known.head_norms else {})}


def places(tensors: dict, known: Architecture, config: dict) -> list:
    """The places of all tensors. GgufError if one is missing or has another shape, or if there is a tensor without a place."""
    found = wanted_places(tensors, known, config)
    unknown = sorted(set(tensors) - {place.theirs for place in found} - {FREQUENCIES})
    if unknown:
        raise GgufError(f"has the tensor {unknown[0]}, which has no place in the model ({len(unknown)} such)")
    for place in found:
        if place.theirs not in tensors:
            raise GgufError(f"lacks the tensor {place.theirs}, of shape {list(place.shape)} by its fields")
        if tensors[place.theirs].shape != place.shape:
            raise GgufError(f"tensor {place.theirs} has the shape {list(tensors[place.theirs].shape)}, by its fields it would be "
                            f"{list(place.shape)}")
    return found


def wanted_places(tensors: dict, known: Architecture, config: dict) -> list:
    heads, kv_heads, head = config["num_attention_heads"], config["num_key_value_heads"], config["head_dim"]
    sizes = {"width": config["hidden_size"], "inner": config["intermediate_size"], "queries": heads * head,
             "keys": kv_heads * head, "head": head}
    turned = {"attn_q": heads, "attn_k": kv_heads} if known.turned else {}
    layer, layers = in_each_layer(known, config), config["num_hidden_layers"]
    if len(tensors) < layers:
        raise GgufError(f"has {len(tensors)} tensors, which are too few for the {layers} layers that its fields say")
    embedding = (config["vocab_size"], config["hidden_size"])
    found = [Place("token_embd.weight", "model.embed_tokens.weight", embedding),
             Place("output_norm.weight", "model.norm.weight", (config["hidden_size"],))]
    if not config["tie_word_embeddings"]:
        found.append(Place("output.weight", "lm_head.weight", embedding))
    for number in range(layers):
        found += [Place(f"blk.{number}.{theirs}", f"model.layers.{number}.{ours}", tuple(sizes[word] for word in shape),
                        turned.get(theirs.partition(".")[0], 0)) for theirs, (ours, shape) in layer.items()]
    return found


def turned_back(values: np.ndarray, heads: int) -> np.ndarray:
    """Reorders a head's rows: in GGUF's llama files rotated pairs are adjacent; Hugging Face has first, then second halves."""
    return values.reshape(heads, len(values) // heads // 2, 2, *values.shape[1:]).swapaxes(1, 2).reshape(values.shape)
