"""What the trainer's options say of a public family: the fields of its config.json but those of the tokenizer."""

from models.training.recurrent.config import Rwkv7Config


def rwkv7(options, heads: int, key_heads: int, inner: int) -> dict:
    return dict(head_dim=options.d_k, intermediate_size=inner, **Rwkv7Config.usual_ranks(options.d_model))


def mamba2(options, heads: int, key_heads: int, inner: int) -> dict:
    return dict(num_heads=heads, head_dim=options.d_v, state_size=options.d_k, n_groups=options.n_kv_head or 1,
                expand=max(1, heads * options.d_v // options.d_model))


def qwen3_5_text(options, heads: int, key_heads: int, inner: int) -> dict:
    every = options.attention_every
    return dict(
        intermediate_size=inner, linear_num_key_heads=key_heads, linear_num_value_heads=heads,
        linear_key_head_dim=options.d_k, linear_value_head_dim=options.d_v,
        num_attention_heads=heads, num_key_value_heads=key_heads, head_dim=options.d_k,
        rope_parameters={"rope_type": "default", "rope_theta": 10_000_000.0, "partial_rotary_factor": 0.25},
        layer_types=["full_attention" if every and layer % every == 0 else "linear_attention"
                     for layer in range(1, options.n_layer + 1)])


def fields_of(options) -> dict:
    shape = {"rwkv7": rwkv7, "mamba2": mamba2, "qwen3_5_text": qwen3_5_text}[options.model_type]
    return {"model_type": options.model_type, "hidden_size": options.d_model, "num_hidden_layers": options.n_layer,
            "tie_word_embeddings": True,
            **shape(options, options.n_head, options.n_kv_head or options.n_head, options.d_ff or 4 * options.d_model)}
