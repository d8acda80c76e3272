"""A GGUF file of a tiny llama, written by the gguf package itself."""

import json

import gguf
import numpy as np
import pytest

from models.published.gguf_file import GgufError
from models.published.import_gguf import import_gguf

VOCABULARY, WIDTH, HEADS, KV_HEADS, INNER, LAYERS = 264, 32, 4, 2, 64, 2
HEAD = WIDTH // HEADS


def byte_characters() -> list:
    """The character that byte-level BPE has for each byte."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 512))
    return [chr(byte if byte in plain else next(others)) for byte in range(256)]


SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
MERGES = ["a b", "ab c", "Ġ a", "Ġa b"]
TOKENS = SPECIAL + byte_characters() + ["ab", "abc", "Ġa", "Ġab", "<tool>"]
TYPES = [3] * 3 + [1] * 260 + [4]


def fields() -> dict:
    """By name: (method of the writer, value)."""
    u32, text, flag, f32 = "add_uint32", "add_string", "add_bool", "add_float32"
    return {
        "llama.block_count": (u32, LAYERS), "llama.context_length": (u32, 128), "llama.embedding_length": (u32, WIDTH),
        "llama.feed_forward_length": (u32, INNER), "llama.attention.head_count": (u32, HEADS),
        "llama.attention.head_count_kv": (u32, KV_HEADS), "llama.rope.freq_base": (f32, 100000.0),
        "llama.attention.layer_norm_rms_epsilon": (f32, 1e-5), "llama.vocab_size": (u32, VOCABULARY),
        "llama.rope.dimension_count": (u32, HEAD), "tokenizer.ggml.model": (text, "gpt2"),
        "tokenizer.ggml.pre": (text, "smollm"), "tokenizer.ggml.tokens": ("add_array", TOKENS),
        "tokenizer.ggml.token_type": ("add_array", TYPES), "tokenizer.ggml.merges": ("add_array", MERGES),
        "tokenizer.ggml.bos_token_id": (u32, 1), "tokenizer.ggml.eos_token_id": (u32, 2),
        "tokenizer.ggml.padding_token_id": (u32, 2), "tokenizer.ggml.unknown_token_id": (u32, 0),
        "tokenizer.ggml.add_bos_token": (flag, False), "tokenizer.ggml.add_space_prefix": (flag, False),
        "tokenizer.chat_template": (text, "{{ messages[0].content }}<|im_end|>"),
    }


def tensors(tied: bool = True) -> dict:
    random = np.random.default_rng(0)
    shapes = {"token_embd": (VOCABULARY, WIDTH), "output_norm": (WIDTH,)}
    if not tied:
        shapes["output"] = (VOCABULARY, WIDTH)
    for layer in range(LAYERS):
        for name, shape in {"attn_norm": (WIDTH,), "attn_q": (WIDTH, WIDTH), "attn_k": (KV_HEADS * HEAD, WIDTH),
                            "attn_v": (KV_HEADS * HEAD, WIDTH), "attn_output": (WIDTH, WIDTH), "ffn_norm": (WIDTH,),
                            "ffn_gate": (INNER, WIDTH), "ffn_up": (INNER, WIDTH), "ffn_down": (WIDTH, INNER)}.items():
            shapes[f"blk.{layer}.{name}"] = shape
    return {name + ".weight": random.standard_normal(shape, np.float32) for name, shape in shapes.items()}


def write(path, fields: dict, tensors: dict, architecture="llama", types=None):
    """`types`: of tensors that are not float32, by name. Those of bytes are in their types already."""
    writer = gguf.GGUFWriter(path, architecture)
    for name, (method, value) in fields.items():
        getattr(writer, method)(name, value)
    for name, values in tensors.items():
        kind = (types or {}).get(name, gguf.GGMLQuantizationType.F32)
        if kind == gguf.GGMLQuantizationType.F32:
            writer.add_tensor(name, values)
        else:
            writer.add_tensor(name, values if values.dtype == np.uint8 else gguf.quantize(values, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def made(tmp_path, change=lambda fields, tensors: None, tied=True, **options):
    """A file whose fields and tensors `change` may alter."""
    given, values = fields(), tensors(tied)
    change(given, values)
    return write(tmp_path / "model.gguf", given, values, **options)


def refused(tmp_path, words, change=lambda fields, tensors: None, **options):
    with pytest.raises(GgufError) as error:
        import_gguf(made(tmp_path, change, **options), tmp_path / "out")
    assert words in str(error.value) and str(error.value).startswith(f"{tmp_path / 'model.gguf'}: ")
    assert [path.name for path in tmp_path.iterdir()] == ["model.gguf"]


def read(path):
    return json.loads(path.read_text())
