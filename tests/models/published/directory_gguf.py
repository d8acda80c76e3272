"""Writes a Hugging Face directory as a GGUF file, as llama.cpp's converter does: the way back of the import.

    directory_gguf.py DIR FILE.gguf [TYPE]    with the packages of scripts/gguf-python

Tensors' names come from the gguf package. A directory without a tokenizer is given one that has no texts.
"""

import json
import pathlib
import sys

import gguf
import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
from models.training.files import safetensors  # noqa: E402

ARCHITECTURES = {"llama": "llama", "mistral": "llama", "qwen2": "qwen2", "qwen2_vl": "qwen2", "qwen3": "qwen3"}
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)


def text_config(directory: pathlib.Path) -> dict:
    config = json.loads((directory / "config.json").read_text())
    return config.get("text_config", config)


def text_tensors(directory: pathlib.Path) -> dict:
    found = {}
    for path in sorted(directory.glob("model*.safetensors")):
        found.update(safetensors.load(path))
    names = {name: name.removeprefix("language_model.") for name in found}
    return {short: found[name] for name, short in names.items() if short.startswith(("model.", "lm_head."))}


def permuted(values: np.ndarray, heads: int) -> np.ndarray:
    """Rows of a head in the order of rotated pairs."""
    half = len(values) // heads // 2
    return values.reshape(heads, 2, half, *values.shape[1:]).swapaxes(1, 2).reshape(values.shape)


def gguf_tensors(config: dict, tensors: dict, architecture: str) -> dict:
    kinds = {name: kind for kind, name in gguf.MODEL_ARCH_NAMES.items()}
    names = gguf.get_tensor_name_map(kinds[architecture], config["num_hidden_layers"])
    heads = {"q_proj": config["num_attention_heads"], "k_proj": config["num_key_value_heads"]}
    found = {}
    for name, values in tensors.items():
        projection = name.split(".")[-2]
        if architecture == "llama" and projection in heads:
            values = permuted(values, heads[projection])
        found[names.get_name(name, (".weight", ".bias"))] = values
    return found


def shape_fields(config: dict, architecture: str) -> dict:
    head = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    rope = config.get("rope_parameters") or {}
    u32, f32 = "add_uint32", "add_float32"
    fields = {
        "block_count": (u32, config["num_hidden_layers"]), "context_length": (u32, config["max_position_embeddings"]),
        "embedding_length": (u32, config["hidden_size"]), "feed_forward_length": (u32, config["intermediate_size"]),
        "attention.head_count": (u32, config["num_attention_heads"]),
        "attention.head_count_kv": (u32, config["num_key_value_heads"]),
        "attention.layer_norm_rms_epsilon": (f32, config["rms_norm_eps"]),
        "rope.freq_base": (f32, rope.get("rope_theta", config.get("rope_theta", 10000.0))),
    }
    if "head_dim" in config:
        fields.update({"attention.key_length": (u32, head), "attention.value_length": (u32, head)})
    if architecture == "llama":
        fields.update({"vocab_size": (u32, config["vocab_size"]), "rope.dimension_count": (u32, head)})
    return {f"{architecture}.{name}": value for name, value in fields.items()}


def tokenizer_fields(directory: pathlib.Path, size: int) -> dict:
    path = directory / "tokenizer.json"
    if not path.exists():
        return fields_of_pieces(["<unk>", "<s>", "</s>"], [UNKNOWN, CONTROL, CONTROL], [0.0] * 3, size)
    tokenizer = json.loads(path.read_text(encoding="utf-8"))
    config = json.loads((directory / "tokenizer_config.json").read_text())
    ids = tokenizer["model"]["vocab"] | {token["content"]: token["id"] for token in tokenizer["added_tokens"]}
    tokens = [f"[PAD{number}]" for number in range(size)]
    types = [UNUSED] * size
    for token, number in ids.items():
        tokens[number], types[number] = token, NORMAL
    for token in tokenizer["added_tokens"]:
        types[token["id"]] = CONTROL if token["special"] else USER_DEFINED
    merges = [merge if isinstance(merge, list) else merge.split(" ") for merge in tokenizer["model"]["merges"]]
    if tokenizer["model"]["byte_fallback"]:
        ranks = {}
        for rank, merge in enumerate(merges):
            ranks.setdefault("".join(merge), rank)
        types[ids[tokenizer["model"]["unk_token"]]] = UNKNOWN
        types = [BYTE if token.startswith("<0x") else kind for token, kind in zip(tokens, types)]
        fields = fields_of_pieces(tokens, types, [-float(ranks.get(token, 0)) for token in tokens], size)
    else:
        fields = {"tokenizer.ggml.model": ("add_string", "gpt2"), "tokenizer.ggml.pre": ("add_string", "qwen2"),
                  "tokenizer.ggml.tokens": ("add_array", tokens), "tokenizer.ggml.token_type": ("add_array", types),
                  "tokenizer.ggml.merges": ("add_array", [" ".join(merge) for merge in merges])}
    for name in ("bos", "eos"):
        if config.get(f"{name}_token"):
            fields[f"tokenizer.ggml.{name}_token_id"] = ("add_uint32", ids[config[f"{name}_token"]])
    fields["tokenizer.ggml.add_bos_token"] = ("add_bool", bool(config.get("bos_token")))
    fields["tokenizer.chat_template"] = ("add_string", (directory / "chat_template.jinja").read_text())
    return fields


def fields_of_pieces(tokens: list, types: list, scores: list, size: int) -> dict:
    missing = size - len(tokens)
    tokens = tokens + [f"[PAD{number}]" for number in range(len(tokens), size)]
    return {"tokenizer.ggml.model": ("add_string", "llama"), "tokenizer.ggml.pre": ("add_string", "default"),
            "tokenizer.ggml.tokens": ("add_array", tokens), "tokenizer.ggml.scores": ("add_array", scores + [-1000.0] * missing),
            "tokenizer.ggml.token_type": ("add_array", types + [UNUSED] * missing)}


def write(directory, path, kind: str = "F32", change=lambda fields, tensors: None, **options) -> dict:
    """`kind`: the type of all matrices. Returns the tensors that were written, as float32."""
    directory, kind = pathlib.Path(directory), gguf.GGMLQuantizationType[kind]
    config = text_config(directory)
    architecture = ARCHITECTURES[config["model_type"]]
    tensors = gguf_tensors(config, text_tensors(directory), architecture)
    fields = shape_fields(config, architecture) | tokenizer_fields(directory, config["vocab_size"])
    change(fields, tensors)
    writer = gguf.GGUFWriter(path, architecture, **options)
    for name, (method, value) in fields.items():
        getattr(writer, method)(name, value)
    for name, values in tensors.items():
        of_this = kind if values.ndim > 1 and values.shape[-1] % gguf.GGML_QUANT_SIZES[kind][0] == 0 else gguf.GGMLQuantizationType.F32
        written = values.astype(np.float32) if of_this == gguf.GGMLQuantizationType.F32 else gguf.quantize(values, of_this)
        writer.add_tensor(name, written, raw_dtype=of_this)
        tensors[name] = gguf.dequantize(written, of_this)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return tensors


if __name__ == "__main__":
    write(*sys.argv[1:])
