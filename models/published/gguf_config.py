"""Makes config.json from a GGUF file's fields."""

from models.published.gguf_architectures import ARCHITECTURES, Architecture
from models.published.gguf_fields import Fields
from models.published.gguf_file import GgufError
from models.published.gguf_rope import rope, shortest

# Fields that would change what is computed, with the values that do not.
UNCHANGED = {"expert_count": 0, "expert_used_count": 0, "attention.causal": True, "attention.clamp_kqv": 0.0,
             "attention.max_alibi_bias": 0.0, "use_parallel_residual": False, "pooling_type": 0}
HARMLESS = ("tensor_data_layout",)  # in files made from Meta's own files; their rows have the same order as in all others


def architecture(fields: Fields) -> Architecture:
    fields.must_be("general.type", "model", "model")
    fields.must_be("general.quantization_version", 2, 2)
    return ARCHITECTURES[fields.one_of("general.architecture", ARCHITECTURES)]


def model_config(fields: Fields, known: Architecture, vocabulary: int, tensors: dict) -> dict:
    """-> the fields of config.json. Refuses fields that would change what is computed."""
    prefix = known.name + "."
    width, heads = fields.count(prefix + "embedding_length"), fields.count(prefix + "attention.head_count")
    kv_heads = fields.count(prefix + "attention.head_count_kv", heads)
    if heads % kv_heads:
        raise GgufError(f"{prefix}attention.head_count is {heads}, must be a multiple of head_count_kv, {kv_heads}")
    if prefix + "attention.key_length" not in fields.values and width % heads:
        raise GgufError(f"{prefix}embedding_length is {width}, must be a multiple of head_count, {heads}")
    head = fields.count(prefix + "attention.key_length", width // heads or 1)
    if head % 2:
        raise GgufError(f"heads of {head} numbers cannot be rotated in pairs")
    fields.must_be(prefix + "attention.value_length", head, head)
    fields.must_be(prefix + "vocab_size", vocabulary, vocabulary)
    for name, value in UNCHANGED.items():
        fields.must_be(prefix + name, value, value)
    context = fields.count(prefix + "context_length")
    refuse_windows(fields, prefix + "attention.sliding_window", context)
    config = {
        "architectures": [known.transformers], "model_type": known.name, "vocab_size": vocabulary, "hidden_size": width,
        "intermediate_size": fields.count(prefix + "feed_forward_length"),
        "num_hidden_layers": fields.count(prefix + "block_count"),
        "num_attention_heads": heads, "num_key_value_heads": kv_heads, "head_dim": head, "hidden_act": "silu",
        "max_position_embeddings": context,
        "rms_norm_eps": shortest(fields.positive(prefix + "attention.layer_norm_rms_epsilon")),
        **rope(fields, prefix, head, tensors), **biases(known, tensors),
        "tie_word_embeddings": "output.weight" not in tensors,
    }
    fields.refuse_others(prefix, [prefix + name for name in HARMLESS])
    return config


def refuse_windows(fields: Fields, name: str, context: int) -> None:
    """Refuses a sliding window that is shorter than the longest context. 0 stands for no window."""
    window = fields.take(name, (int,), "an integer", 0)
    if 0 != window < context:
        raise GgufError(f"{name} is {window}, and contexts have up to {context} tokens; layers that look back no further than a "
                        "window cannot be imported")


def biases(known: Architecture, tensors: dict) -> dict:
    if known.biases_by_field:
        return {"attention_bias": "blk.0.attn_q.bias" in tensors, "mlp_bias": "blk.0.ffn_gate.bias" in tensors}
    return {} if known.biases else {"attention_bias": False}
