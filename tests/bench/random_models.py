#!/usr/bin/env python3
"""Writes a Hugging Face directory of a family whose state is constant, with random weights in bfloat16.

    random_models.py rwkv7 rwkv7-190m
    random_models.py mamba2 mamba2-130m
    random_models.py qwen3_5 qwen3_5-310m

The sizes are those of published models: RWKV-7 of 12 layers of 768, Mamba-2 of 24 layers of 768, and 12 layers of
1,024 with the heads of Qwen3.5, three of the gated delta rule to one of attention. Speed does not depend on the
weights, as long as no number leaves its range: those that decide on decay have the ranges that they are trained from.

    random_models.py --gguf llama.cpp rwkv7-190m rwkv7-190m.gguf

Makes llama.cpp's file of such a directory by the convert_hf_to_gguf.py of its sources, without a tokenizer. That
script wants PyTorch and transformers.
"""

import argparse
import importlib
import json
import runpy
import struct
import sys
from pathlib import Path

import numpy as np

SPREAD = 0.1


def matrix(outputs, inputs):
    return (outputs, inputs), 0, inputs**-0.5


def near(mean, *shape, spread=SPREAD):
    return shape, mean, spread


def rwkv7(layers=12, width=768, vocab=65536, head=64):
    ranks = {"w": 64, "a": 64, "v": 32, "g": 128}
    tensors = {"model.embeddings.weight": near(0, vocab, width, spread=1)}
    for layer in range(layers):
        at = f"model.layers.{layer}."
        for norm in (["pre_norm"] if layer == 0 else []) + ["attn_norm", "ffn_norm"]:
            tensors |= {f"{at}{norm}.weight": near(1, width), f"{at}{norm}.bias": near(0, width)}
        mix = at + "attn."
        tensors |= {f"{mix}x_{x}": near(0.5, 1, 1, width) for x in "rwkvag"}
        tensors |= {f"{mix}{x}_proj.weight": matrix(width, width) for x in "rkvo"}
        for name, rank in ranks.items():
            if name == "v" and layer == 0:
                continue
            tensors |= {f"{mix}{name}_lora.lora.0.weight": matrix(rank, width),
                        f"{mix}{name}_lora.lora.2.weight": matrix(width, rank)}
            if name != "g":
                tensors[f"{mix}{name}_lora.lora.2.bias"] = near(-2 if name == "w" else 0, width, spread=1)
        tensors |= {f"{mix}k_k": near(0.85, width), f"{mix}k_a": near(1, width),
                    f"{mix}r_k": near(0, width // head, head), f"{mix}g_norm.weight": near(1, width),
                    f"{mix}g_norm.bias": near(0, width), f"{at}ffn.x_k": near(0.5, width),
                    f"{at}ffn.key.weight": matrix(4 * width, width),
                    f"{at}ffn.value.weight": matrix(width, 4 * width)}
    tensors |= {"model.norm.weight": near(1, width), "model.norm.bias": near(0, width),
                "lm_head.weight": matrix(vocab, width)}
    return {"model_type": "rwkv7", "architectures": ["RWKV7ForCausalLM"], "hidden_size": width,
            "num_hidden_layers": layers, "head_dim": head, "intermediate_size": 4 * width,
            **{f"{full}_low_rank_dim": ranks[name]
               for name, full in {"w": "decay", "a": "a", "v": "v", "g": "gate"}.items()},
            "norm_bias": True, "norm_first": True, "norm_eps": 1e-5, "vocab_size": vocab, "hidden_act": "sqrelu",
            "tie_word_embeddings": False}, tensors


def mamba2(layers=24, width=768, vocab=50288, head=64, state=128):
    inner = 2 * width
    heads = inner // head
    convolved = inner + 2 * state
    tensors = {"backbone.embeddings.weight": near(0, vocab, width, spread=1)}
    for layer in range(layers):
        at = f"backbone.layers.{layer}."
        mix = at + "mixer."
        tensors |= {f"{at}norm.weight": near(1, width), f"{mix}in_proj.weight": matrix(inner + convolved + heads, width),
                    f"{mix}conv1d.weight": near(0, convolved, 1, 4, spread=0.5), f"{mix}conv1d.bias": near(0, convolved),
                    f"{mix}A_log": near(1, heads, spread=0.7), f"{mix}D": near(1, heads),
                    f"{mix}dt_bias": near(-4, heads, spread=1), f"{mix}norm.weight": near(1, inner),
                    f"{mix}out_proj.weight": matrix(width, inner)}
    tensors["backbone.norm_f.weight"] = near(1, width)
    return {"model_type": "mamba2", "architectures": ["Mamba2ForCausalLM"], "hidden_size": width,
            "num_hidden_layers": layers, "num_heads": heads, "head_dim": head, "state_size": state, "n_groups": 1,
            "expand": 2, "conv_kernel": 4, "vocab_size": vocab, "layer_norm_epsilon": 1e-5,
            "tie_word_embeddings": True}, tensors


def qwen3_5(layers=12, width=1024, vocab=65536, heads=16, head=128, attention=8, kv=2, wide=256):
    inner = heads * head
    tensors = {"model.embed_tokens.weight": near(0, vocab, width, spread=1)}
    kinds = ["full_attention" if layer % 4 == 3 else "linear_attention" for layer in range(layers)]
    for layer, kind in enumerate(kinds):
        at = f"model.layers.{layer}."
        tensors |= {f"{at}{norm}.weight": near(0, width) for norm in ("input_layernorm", "post_attention_layernorm")}
        if kind == "full_attention":
            mix = at + "self_attn."
            tensors |= {f"{mix}q_proj.weight": matrix(2 * attention * wide, width),
                        f"{mix}k_proj.weight": matrix(kv * wide, width), f"{mix}v_proj.weight": matrix(kv * wide, width),
                        f"{mix}o_proj.weight": matrix(width, attention * wide),
                        f"{mix}q_norm.weight": near(0, wide), f"{mix}k_norm.weight": near(0, wide)}
        else:
            mix = at + "linear_attn."
            tensors |= {f"{mix}in_proj_qkv.weight": matrix(3 * inner, width),
                        f"{mix}in_proj_z.weight": matrix(inner, width), f"{mix}in_proj_a.weight": matrix(heads, width),
                        f"{mix}in_proj_b.weight": matrix(heads, width),
                        f"{mix}conv1d.weight": near(0, 3 * inner, 1, 4, spread=0.5),
                        f"{mix}A_log": near(1, heads, spread=0.7), f"{mix}dt_bias": near(-4, heads, spread=1),
                        f"{mix}norm.weight": near(1, head), f"{mix}out_proj.weight": matrix(width, inner)}
        tensors |= {f"{at}mlp.{name}_proj.weight": matrix(*shape)
                    for name, shape in {"gate": (3584, width), "up": (3584, width), "down": (width, 3584)}.items()}
    tensors["model.norm.weight"] = near(0, width)
    return {"model_type": "qwen3_5_text", "architectures": ["Qwen3_5ForCausalLM"], "hidden_size": width,
            "num_hidden_layers": layers, "layer_types": kinds, "num_attention_heads": attention,
            "num_key_value_heads": kv, "head_dim": wide, "intermediate_size": 3584, "hidden_act": "silu",
            "linear_num_key_heads": heads, "linear_num_value_heads": heads, "linear_key_head_dim": head,
            "linear_value_head_dim": head, "linear_conv_kernel_dim": 4, "max_position_embeddings": 262144,
            "rms_norm_eps": 1e-6, "vocab_size": vocab, "tie_word_embeddings": True,
            "rope_parameters": {"rope_type": "default", "rope_theta": 1e7, "partial_rotary_factor": 0.25}}, tensors


FAMILIES = {"rwkv7": rwkv7, "mamba2": mamba2, "qwen3_5": qwen3_5}


def bfloat16(values):
    bits = values.view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def write(folder, config, tensors):
    """The config and the weights, each drawn from a normal distribution; tensors: {name: (shape, mean, deviation)}."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=1))
    header, end = {}, 0
    for name, (shape, _, _) in tensors.items():
        begin, end = end, end + 2 * int(np.prod(shape))
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    random = np.random.default_rng(0)
    with open(folder / "model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for shape, mean, deviation in tensors.values():
            drawn = np.float32(mean) + np.float32(deviation) * random.standard_normal(shape, np.float32)
            file.write(bfloat16(drawn).tobytes())


def to_gguf(sources, folder, file):
    """By llama.cpp's script, but for the tokenizer, which the directory has not."""
    import torch

    def no_tokenizer(model):
        model.gguf_writer.add_tokenizer_model("none")
        model.gguf_writer.add_vocab_size(model.hparams["vocab_size"])

    for dtype in ("float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu", "uint16", "uint32", "uint64"):
        if not hasattr(torch, dtype):  # the script names types that older versions have not
            setattr(torch, dtype, object())
    sys.path[:0] = [str(sources), str(sources / "gguf-py")]
    for module in ("base", "rwkv", "mamba", "qwen"):
        for known in list(vars(importlib.import_module(f"conversion.{module}")).values()):
            if isinstance(known, type) and "set_vocab" in vars(known):
                known.set_vocab = no_tokenizer
    sys.argv = ["convert_hf_to_gguf.py", str(folder), "--outfile", str(file), "--outtype", "bf16"]
    if json.loads((folder / "config.json").read_text())["model_type"].startswith("qwen3_5"):
        sys.argv.append("--no-mtp")
    runpy.run_path(str(sources / "convert_hf_to_gguf.py"), run_name="__main__")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gguf", metavar="LLAMA_CPP", type=Path, help="folder of llama.cpp's sources")
    parser.add_argument("model", help=f"{', '.join(FAMILIES)}; with --gguf the directory")
    parser.add_argument("to", type=Path)
    args = parser.parse_args()
    if args.gguf is not None:
        to_gguf(args.gguf, Path(args.model), args.to)
    elif args.model in FAMILIES:
        write(args.to, *FAMILIES[args.model]())
    else:
        sys.exit(f"random_models.py: no family {args.model!r}; there are {', '.join(FAMILIES)}")


if __name__ == "__main__":
    main()
