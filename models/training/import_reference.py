"""Turns a checkpoint of the reference implementation of Transformer-VQ (JAX, Flax) into a model directory.

    scripts/import-reference CHECKPOINT_DIR OUT_DIR [--config FILE] [--tokenizer bytes|ids|FILE.model | --pixels H,W,C,LEVELS]

The latest step of CHECKPOINT_DIR is taken. The config holds the reference's argument names.
"""

import argparse
import json
import pathlib
import shutil
import sys

import numpy as np

from models.training.config import ModelConfig
from models.training.data import sentencepiece_model
from models.training.files.directory import write_model
from models.training.files.flax_checkpoint import CheckpointError, find_checkpoint, load_checkpoint

BYTE_VOCABULARY = 259  # 256 bytes after pad, end of sequence, unknown


class Parameters:
    """Access to nested parameters by path. Each is checked against the shape that the config asks for."""

    def __init__(self, tree: dict, file):
        self.tree, self.file, self.used = tree, file, set()

    def take(self, path: str, *shape: int) -> np.ndarray:
        value = self.tree
        for name in path.split("/"):
            value = value.get(name) if isinstance(value, dict) else None
        if value is None:
            raise CheckpointError(f"{self.file}: lacks the parameter {path}, of shape {list(shape)} by the config")
        if isinstance(value, str):
            raise CheckpointError(f"{self.file}: the parameter {path} lies in files of its own ({value!r}); "
                                  "only checkpoints that hold all arrays in one file can be read")
        if not isinstance(value, np.ndarray) or value.dtype.kind != "f":
            raise CheckpointError(f"{self.file}: the parameter {path} is not an array of floating-point numbers")
        if value.shape != shape:
            raise CheckpointError(f"{self.file}: the parameter {path} has the shape {list(value.shape)}, "
                                  f"by the config it would be {list(shape)}")
        if not np.isfinite(value).all():
            raise CheckpointError(f"{self.file}: the parameter {path} holds values that are not finite")
        self.used.add(path)
        return value.astype(np.float32)

    def all_paths(self, tree=None, prefix=""):
        for name, value in (self.tree if tree is None else tree).items():
            path = f"{prefix}{name}"
            if isinstance(value, dict):
                yield from self.all_paths(value, path + "/")
            else:
                yield path


def read_reference_config(file) -> dict:
    file = pathlib.Path(file)
    try:
        fields = json.loads(file.read_text())
    except OSError as error:
        raise CheckpointError(f"{file}: {error.strerror}; name the config with --config") from None
    except ValueError as error:
        raise CheckpointError(f"{file}: not JSON: {error}") from None
    if not isinstance(fields, dict):
        raise CheckpointError(f"{file}: must be a JSON object")
    config = {"n_head": 1, "pe_abs": 0, "pe_lam": 100000, "agg_cache": 1, "no_emb": 0, "e_scale": 1.0, **fields}
    for name in ("n_vocab", "d_model", "d_k", "d_v", "n_head", "n_code", "n_layer", "block_len", "mem_len"):
        value = config.get(name)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise CheckpointError(f"{file}: {name} must be a positive integer, not {value!r}")
    for name in ("pe_abs", "e_tie", "e_preln", "agg_cache", "no_emb"):
        if config.get(name) not in (0, 1):
            raise CheckpointError(f"{file}: {name} must be 0 or 1, not {config.get(name)!r}")
    for name in ("pe_lam", "e_scale"):
        try:
            config[name] = float(config[name])
        except (TypeError, ValueError):
            raise CheckpointError(f"{file}: {name} must be a number, not {config[name]!r}") from None
        if not 0 < abs(config[name]) < float("inf"):
            raise CheckpointError(f"{file}: {name} must be finite and not 0, not {config[name]!r}")
    if not config["agg_cache"]:
        raise CheckpointError(f"{file}: agg_cache is 0: models without the aggregated cache cannot be served")
    if config["no_emb"]:
        raise CheckpointError(f"{file}: no_emb is 1: models without a token embedding cannot be served")
    return config


def model_config(reference: dict, tokenizer: dict, special: dict) -> ModelConfig:
    return ModelConfig(
        vocab_size=reference["n_vocab"], d_model=reference["d_model"], d_k=reference["d_k"], d_v=reference["d_v"],
        n_code=reference["n_code"], n_layer=2 * reference["n_layer"], n_head=reference["n_head"],
        n_kv_head=reference["n_head"], block_len=reference["block_len"], mem_len=reference["mem_len"],
        pe_lam=reference["pe_lam"], pe_abs=bool(reference["pe_abs"]), logit_scale=reference["e_scale"],
        tie_word_embeddings=bool(reference["e_tie"]), output_norm=bool(reference["e_preln"]),
        tokenizer=tokenizer, **special)


def convert(parameters: Parameters, config: ModelConfig) -> dict:
    """Tensors by their names in the format. The reference's kernels are [in, out]; ours are [out, in]."""
    take, width, vocabulary = parameters.take, config.d_model, config.vocab_size
    tensors = {"embedding.weight": take("token_embedder/embs", vocabulary, width)}
    if config.pe_abs:
        tensors["position.scale"] = take("position_embedder/scale").reshape(1)
    for number in range(config.n_layer):
        unit = f"transformer_layers_{number // 2}/scanned_attn{number % 2 + 1}"
        for name, tensor in convert_unit(take, unit, config).items():
            tensors[f"layers.{number}.{name}"] = tensor
    if config.output_norm:
        tensors["norm.weight"] = take("out_ln/g", width)
        tensors["norm.bias"] = take("out_ln/b", width)
    if config.tie_word_embeddings:
        tensors["lm_head.bias"] = take("token_embedder/bias_out", vocabulary)
    else:
        tensors["lm_head.weight"] = take("out_proj/kernel", width, vocabulary).T
        tensors["lm_head.bias"] = take("out_proj/bias", vocabulary)
        parameters.used.add("token_embedder/bias_out")  # there, but unused without tying
    unknown = sorted(set(parameters.all_paths()) - parameters.used)
    if unknown:
        raise CheckpointError(f"{parameters.file}: the parameter {unknown[0]} has no place in the model of the config "
                              f"({len(unknown)} such)")
    return tensors


def convert_unit(take, unit: str, config: ModelConfig) -> dict:
    """The tensors of one gated attention unit. Its kvg kernel has the columns [k | v | g], each of all heads."""
    width, heads, codes = config.d_model, config.n_head, config.n_code
    keys, values = heads * config.d_k, heads * config.d_v
    k, v, g = np.split(take(f"{unit}/kvg_proj/kernel", width, keys + 2 * values), [keys, keys + values], axis=1)
    return {
        "norm.weight": take(f"{unit}/input_ln/g", width), "norm.bias": take(f"{unit}/input_ln/b", width),
        "q_proj.weight": take(f"{unit}/q_proj/kernel", width, keys).T,
        "k_proj.weight": k.T, "v_proj.weight": v.T, "g_proj.weight": g.T,
        "r_proj.weight": take(f"{unit}/r_proj/kernel", width, keys).T,
        "o_proj.weight": take(f"{unit}/res_proj/kernel", values, width).T,
        "u": take(f"{unit}/u", keys).reshape(heads, -1), "w": take(f"{unit}/v", keys).reshape(heads, -1),
        "codebook.sum": take(f"{unit}/quantizer/c_sum", heads, codes, config.d_k),
        "codebook.count": take(f"{unit}/quantizer/c_count", heads, codes),
    }


def choose_tokenizer(vocabulary: int, tokenizer: str, pixels: str):
    """-> (the config's tokenizer object, special ids, a file to copy or None)"""
    if pixels:
        return pixel_tokenizer(vocabulary, pixels), {}, None
    if tokenizer is None:
        tokenizer = "bytes" if vocabulary == BYTE_VOCABULARY else "ids"
    if tokenizer == "ids":
        return {"type": "ids"}, {}, None
    if tokenizer == "bytes":
        if vocabulary != BYTE_VOCABULARY:
            raise CheckpointError(f"--tokenizer bytes needs a vocabulary of {BYTE_VOCABULARY}, this has {vocabulary}")
        return {"type": "bytes"}, {"pad_token_id": 0, "eos_token_id": 1, "unk_token_id": 2}, None
    try:
        pieces = sentencepiece_model.read_pieces(tokenizer)
    except OSError as error:
        raise CheckpointError(f"--tokenizer {tokenizer}: {error.strerror}") from None
    if not 0 < len(pieces) <= vocabulary:
        raise CheckpointError(f"{tokenizer}: has {len(pieces)} pieces, the model's vocabulary is {vocabulary}")
    names = {piece.text: number for number, piece in enumerate(pieces) if piece.type == sentencepiece_model.CONTROL}
    unknown = [number for number, piece in enumerate(pieces) if piece.type == sentencepiece_model.UNKNOWN]
    special = {"pad_token_id": names.get("<pad>"), "bos_token_id": names.get("<s>"),
               "eos_token_id": names.get("</s>"), "unk_token_id": unknown[0] if unknown else None}
    return {"type": "sentencepiece", "file": "tokenizer.model"}, special, tokenizer


def pixel_tokenizer(vocabulary: int, text: str) -> dict:
    try:
        height, width, channels, levels = (int(word) for word in text.split(","))
    except ValueError:
        raise CheckpointError(f"--pixels must be H,W,C,LEVELS, not {text!r}") from None
    if min(height, width, channels, levels) < 1:
        raise CheckpointError(f"--pixels must be four positive integers, not {text!r}")
    if levels != vocabulary:
        raise CheckpointError(f"--pixels: {levels} levels do not fit the model's vocabulary of {vocabulary}")
    return {"type": "pixels", "height": height, "width": width, "channels": channels, "levels": levels}


def import_reference(checkpoint_dir, out_dir, config=None, tokenizer=None, pixels=None) -> pathlib.Path:
    """Returns the checkpoint file that was imported. CheckpointError says what does not fit."""
    file = find_checkpoint(checkpoint_dir)
    folder = pathlib.Path(checkpoint_dir)
    folder = folder if folder.is_dir() else folder.parent
    reference = read_reference_config(config or folder / "reference_config.json")
    kind, special, copied = choose_tokenizer(reference["n_vocab"], tokenizer, pixels)
    try:
        shape = model_config(reference, kind, special)
    except ValueError as error:
        raise CheckpointError(f"{config or folder / 'reference_config.json'}: {error}") from None
    tensors = convert(Parameters(load_checkpoint(file)["params"], file), shape)
    write_model(out_dir, shape, tensors)
    if copied:
        shutil.copyfile(copied, pathlib.Path(out_dir) / kind["file"])
    return file


def main():
    parser = argparse.ArgumentParser(prog="import-reference", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint_dir", type=pathlib.Path)
    parser.add_argument("out_dir", type=pathlib.Path)
    parser.add_argument("--config", type=pathlib.Path, help="default: reference_config.json in the folder")
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--tokenizer", metavar="bytes|ids|FILE.model",
                       help="default: bytes for 259 ids, else ids (text is decimal ids)")
    group.add_argument("--pixels", metavar="H,W,C,LEVELS", help="the model's tokens are pixel values")
    arguments = parser.parse_args()
    try:
        file = import_reference(arguments.checkpoint_dir, arguments.out_dir, arguments.config, arguments.tokenizer,
                                arguments.pixels)
    except (CheckpointError, OSError) as error:
        print(f"import-reference: {error}", file=sys.stderr)
        return 1
    print(f"{file} -> {arguments.out_dir}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
