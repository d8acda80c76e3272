"""A GGUF file's tensors by their names in a Hugging Face model."""

import numpy as np

from models.published.gguf_architectures import Architecture
from models.published.gguf_file import GgufError
from models.published.gguf_rope import FREQUENCIES

# By their names in GGUF: the name in a layer, and the shape in words of the config.
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


def model_tensors(tensors: dict, known: Architecture, config: dict):
    """Yields (name, float32 values)."""
    for theirs, ours, shape, heads in places(tensors, known, config):
        if theirs not in tensors:
            raise GgufError(f"lacks the tensor {theirs}, of shape {list(shape)} by its fields")
        if tensors[theirs].shape != shape:
            raise GgufError(f"tensor {theirs} has the shape {list(tensors[theirs].shape)}, by its fields it would be {list(shape)}")
        values = tensors[theirs].to_float32()
        yield ours, turned_back(values, heads) if heads else values


def in_each_layer(known: Architecture, config: dict) -> dict:
    return {**LAYER, **(QKV_BIASES if known.biases else {}), **(ATTENTION_BIASES if config.get("attention_bias") else {}),
            **(MLP_BIASES if config.get("mlp_bias") else {}), **(HEAD_NORMS if known.head_norms else {})}


def places(tensors: dict, known: Architecture, config: dict) -> list:
    """Of every tensor there must be: its name there and here, its shape, and the heads of rows to turn back or 0."""
    heads, kv_heads, head = config["num_attention_heads"], config["num_key_value_heads"], config["head_dim"]
    sizes = {"width": config["hidden_size"], "inner": config["intermediate_size"], "queries": heads * head,
             "keys": kv_heads * head, "head": head}
    turned = {"attn_q": heads, "attn_k": kv_heads} if known.turned else {}
    own = set(tensors) - {FREQUENCIES}
    layer, layers = in_each_layer(known, config), config["num_hidden_layers"]
    if len(own) < layers:
        raise GgufError(f"has {len(own)} tensors, which are too few for the {layers} layers that its fields say")
    embedding = (config["vocab_size"], config["hidden_size"])
    found = [("token_embd.weight", "model.embed_tokens.weight", embedding, 0),
             ("output_norm.weight", "model.norm.weight", (config["hidden_size"],), 0)]
    if not config["tie_word_embeddings"]:
        found.append(("output.weight", "lm_head.weight", embedding, 0))
    for number in range(layers):
        found += [(f"blk.{number}.{theirs}", f"model.layers.{number}.{ours}", tuple(sizes[word] for word in shape),
                   turned.get(theirs.partition(".")[0], 0)) for theirs, (ours, shape) in layer.items()]
    unknown = sorted(own - {theirs for theirs, *_ in found})
    if unknown:
        raise GgufError(f"has the tensor {unknown[0]}, which has no place in the model ({len(unknown)} such)")
    return found


def turned_back(values: np.ndarray, heads: int) -> np.ndarray:
    """GGUF's llama files have a head's rows in the order of rotated pairs; Hugging Face has first halves, then second ones."""
    return values.reshape(heads, len(values) // heads // 2, 2, *values.shape[1:]).swapaxes(1, 2).reshape(values.shape)
