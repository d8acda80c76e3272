"""A GGUF file of the architecture `llama` as a Hugging Face model: config.json and tensors by their names there."""

import numpy as np

from models.published.gguf_fields import Fields
from models.published.gguf_file import GgufError

# By their names in GGUF: the name in a layer, and the shape in words of the config.
LAYER = {
    "attn_norm": ("input_layernorm", ("width",)),
    "attn_q": ("self_attn.q_proj", ("queries", "width")),
    "attn_k": ("self_attn.k_proj", ("keys", "width")),
    "attn_v": ("self_attn.v_proj", ("keys", "width")),
    "attn_output": ("self_attn.o_proj", ("width", "queries")),
    "ffn_norm": ("post_attention_layernorm", ("width",)),
    "ffn_gate": ("mlp.gate_proj", ("inner", "width")),
    "ffn_up": ("mlp.up_proj", ("inner", "width")),
    "ffn_down": ("mlp.down_proj", ("width", "inner")),
}


def llama_config(fields: Fields, vocabulary: int, tied: bool) -> dict:
    """What config.json says of the shape. Refuses fields that would change what is computed."""
    width, heads = fields.count("llama.embedding_length"), fields.count("llama.attention.head_count")
    kv_heads = fields.count("llama.attention.head_count_kv", heads)
    if heads % kv_heads:
        raise GgufError(f"llama.attention.head_count is {heads}, must be a multiple of head_count_kv, {kv_heads}")
    if "llama.attention.key_length" not in fields.values and width % heads:
        raise GgufError(f"llama.embedding_length is {width}, must be a multiple of head_count, {heads}")
    head = fields.count("llama.attention.key_length", width // heads or 1)
    if head % 2:
        raise GgufError(f"heads of {head} numbers cannot be rotated in pairs")
    fields.must_be("llama.attention.value_length", head, head)
    fields.must_be("llama.rope.dimension_count", head, head)
    fields.must_be("llama.rope.scaling.type", "none", "none")
    fields.must_be("llama.vocab_size", vocabulary, vocabulary)
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": vocabulary, "hidden_size": width,
        "intermediate_size": fields.count("llama.feed_forward_length"), "num_hidden_layers": fields.count("llama.block_count"),
        "num_attention_heads": heads, "num_key_value_heads": kv_heads, "head_dim": head, "hidden_act": "silu",
        "max_position_embeddings": fields.count("llama.context_length"),
        "rms_norm_eps": shortest(fields.positive("llama.attention.layer_norm_rms_epsilon")),
        "rope_theta": shortest(fields.positive("llama.rope.freq_base", 10000.0)), "rope_scaling": None,
        "attention_bias": False, "mlp_bias": False, "tie_word_embeddings": tied,
    }
    fields.refuse_others("llama.")
    return config


def shortest(value: float) -> float:
    """GGUF's numbers are float32: 9.999999747378752e-06 was 1e-05."""
    return float(str(np.float32(value)))


def llama_tensors(tensors: dict, config: dict):
    """Yields (name, float32 values)."""
    for theirs, ours, shape, heads in places(tensors, config):
        if theirs not in tensors:
            raise GgufError(f"lacks the tensor {theirs}, of shape {list(shape)} by its fields")
        if tensors[theirs].shape != shape:
            raise GgufError(f"tensor {theirs} has the shape {list(tensors[theirs].shape)}, by its fields it would be {list(shape)}")
        values = tensors[theirs].to_float32()
        yield ours, turned_back(values, heads) if heads else values


def places(tensors: dict, config: dict) -> list:
    """Of every tensor there must be: its name there and here, its shape, and the heads of rows to turn back or 0."""
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    sizes = {"width": config["hidden_size"], "inner": config["intermediate_size"],
             "queries": heads * config["head_dim"], "keys": kv_heads * config["head_dim"]}
    turned = {"attn_q": heads, "attn_k": kv_heads}
    layers, ends = config["num_hidden_layers"], 2 if config["tie_word_embeddings"] else 3
    if len(tensors) < ends + layers * len(LAYER):
        raise GgufError(f"has {len(tensors)} tensors; a model of {layers} layers has {ends + layers * len(LAYER)}")
    embedding = (config["vocab_size"], config["hidden_size"])
    found = [("token_embd.weight", "model.embed_tokens.weight", embedding, 0),
             ("output_norm.weight", "model.norm.weight", (config["hidden_size"],), 0)]
    if not config["tie_word_embeddings"]:
        found.append(("output.weight", "lm_head.weight", embedding, 0))
    for layer in range(layers):
        found += [(f"blk.{layer}.{theirs}.weight", f"model.layers.{layer}.{ours}.weight",
                   tuple(sizes[word] for word in shape), turned.get(theirs, 0)) for theirs, (ours, shape) in LAYER.items()]
    unknown = sorted(set(tensors) - {theirs for theirs, *_ in found})
    if unknown:
        raise GgufError(f"has the tensor {unknown[0]}, which has no place in the model ({len(unknown)} such)")
    return found


def turned_back(values: np.ndarray, heads: int) -> np.ndarray:
    """GGUF's llama files have a head's rows in the order of rotated pairs; Hugging Face has first halves, then second ones."""
    rows, width = values.shape
    return values.reshape(heads, rows // heads // 2, 2, width).swapaxes(1, 2).reshape(rows, width)
