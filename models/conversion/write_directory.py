"""Makes a converted directory from a model and the codes that were found for it.

    python3 -m models.conversion.write_directory SOURCE CODES OUT --ring 512 --wide 8192:18.2,17.1 [--grow 20.2] [--context 8192]

SOURCE is a directory in Hugging Face's form, CODES a file as models/conversion/codes_file.py describes it. A kv head is written
as LAYER.HEAD. OUT must not exist yet and is written whole or not at all. It shares the files of weights with SOURCE if the file
system has hard links.
"""

import argparse
import json
import os
import pathlib
import shutil
import struct
import sys
import tempfile

import numpy as np

from models.conversion.codes_file import CodesError, read_codes
from models.conversion.config import ConfigError, Conversion, check_conversion, load_config
from models.training.files import safetensors

SHARD = "conversion.safetensors"
WHOLE, INDEX = "model.safetensors", "model.safetensors.index.json"
LINKED_WHOLE = "model-00001-of-00001.safetensors"  # a file of the name WHOLE would be taken for all weights
ALONG = ("*.json", "*.jinja", "*.txt", "*.md", "*.model", "LICENSE*", "NOTICE*")  # tokenizer, templates, licence, card
FOLDER_ALONG = "additional_chat_templates"


class SourceError(ValueError):
    """SOURCE or OUT cannot be used; the message names the file."""


def write_directory(source, codes_path, out, ring: int, wide: dict, grow=frozenset(), context: int = None) -> None:
    """`wide`: rings by (layer, kv head). `context`: the context that the model was trained with, by default as in config.json."""
    source, out = pathlib.Path(source), pathlib.Path(out)
    if out.exists() or out.is_symlink():
        raise SourceError(f"{out}: is there already; name another directory, or remove it first")
    config = load_config(source)
    if config.conversion:
        raise SourceError(f"{source}: is a converted directory, must be the model that it was made of")
    fields = json.loads((source / "config.json").read_text(encoding="utf-8"))
    context = context or fields.get("max_position_embeddings")
    if context is None:
        raise ConfigError(f"{source / 'config.json'} has no max_position_embeddings: --context must say what the model was "
                          "trained with")
    layers = read_codes(codes_path, config)
    conversion = Conversion(codes=layers[0]["assign"].shape[1], context=context, ring=ring, wide=dict(wide), grow=frozenset(grow))
    check_conversion(conversion, config)
    shards = weight_shards(source)
    tensors = conversion_tensors(layers, conversion, prefix_of(shards))
    out.parent.mkdir(parents=True, exist_ok=True)
    staging = pathlib.Path(tempfile.mkdtemp(prefix=f".{out.name}-", dir=out.parent))
    try:
        model = staging / "model"
        model.mkdir()
        copy_along(source, model)
        write_json(model / "config.json", {**fields, "conversion": conversion.to_json()})
        write_weights(source, model, shards, tensors)
        os.rename(model, out)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def conversion_tensors(layers: list, conversion: Conversion, prefix: str) -> dict:
    """The tensors of `conversion` by name. Heads in `wide` and `grow` score codes by the codewords of `assign`, with the identity
    as map and no bias, in place of what was fitted."""
    tensors = {}
    for number, layer in enumerate(layers):
        layer = {name: values.copy() for name, values in layer.items()}
        kv_heads = len(layer["assign"])
        readers = len(layer["bias"]) // kv_heads
        for head in range(kv_heads):
            if (number, head) in conversion.wide or (number, head) in conversion.grow:
                layer["score"][head] = layer["assign"][head]
                layer["map"][head * readers:(head + 1) * readers] = np.eye(layer["map"].shape[-1])
                layer["bias"][head * readers:(head + 1) * readers] = 0
        tensors.update({f"{prefix}layers.{number}.self_attn.conversion.{name}": values for name, values in layer.items()})
    return tensors


def weight_shards(source: pathlib.Path) -> dict:
    """For each file with tensors of the model, the sizes of these tensors in bytes, by name."""
    if (source / WHOLE).exists():
        return {WHOLE: tensor_sizes(source / WHOLE)}
    index = source / INDEX
    if not index.exists():
        raise SourceError(f"{source}: has neither {WHOLE} nor {INDEX}")
    shard_of = json.loads(index.read_text(encoding="utf-8"))["weight_map"]
    shards = {}
    for name, shard in sorted(shard_of.items()):
        if pathlib.PurePath(shard).name != shard or shard == SHARD:
            raise SourceError(f"{index}: shard of tensor {name} is {shard!r}, must be the name of a file beside it, not {SHARD}")
        if shard not in shards:
            shards[shard] = tensor_sizes(source / shard)
        if name not in shards[shard]:
            raise SourceError(f"{source / shard}: lacks the tensor {name}, which {INDEX} says is there")
    return {shard: {name: size for name, size in sizes.items() if shard_of.get(name) == shard} for shard, sizes in shards.items()}


def tensor_sizes(path: pathlib.Path) -> dict:
    """The sizes in bytes of a safetensors file's tensors, by name, without reading the tensors."""
    with open(path, "rb") as file:
        try:
            header = json.loads(file.read(*struct.unpack("<Q", file.read(8))))
        except (struct.error, ValueError):
            raise SourceError(f"{path}: is no safetensors file") from None
    return {name: entry["data_offsets"][1] - entry["data_offsets"][0] for name, entry in header.items() if name != "__metadata__"}


def prefix_of(shards: dict) -> str:
    """The prefix of the names of a model's tensors; empty if it was saved without its logits."""
    return "" if any("embed_tokens.weight" in sizes for sizes in shards.values()) else "model."


def write_weights(source: pathlib.Path, model: pathlib.Path, shards: dict, tensors: dict) -> None:
    places, total = {name: SHARD for name in tensors}, sum(values.nbytes for values in tensors.values())
    for shard, sizes in shards.items():
        name = LINKED_WHOLE if shard == WHOLE else shard
        link(source / shard, model / name)
        places.update({tensor: name for tensor in sizes})
        total += sum(sizes.values())
    safetensors.save(model / SHARD, tensors, {"format": "pt"})
    write_json(model / INDEX, {"metadata": {"total_size": total}, "weight_map": dict(sorted(places.items()))})


def link(source: pathlib.Path, target: pathlib.Path) -> None:
    """Makes a hard link, or a copy if the file system has no hard links."""
    try:
        os.link(source.resolve(), target)
    except OSError:
        shutil.copyfile(source, target)


def copy_along(source: pathlib.Path, model: pathlib.Path) -> None:
    for pattern in ALONG:
        for file in source.glob(pattern):
            if file.name not in ("config.json", INDEX):
                shutil.copyfile(file, model / file.name)
    if (source / FOLDER_ALONG).is_dir():
        shutil.copytree(source / FOLDER_ALONG, model / FOLDER_ALONG)


def write_json(path: pathlib.Path, content: dict) -> None:
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def heads_of(text: str) -> list:
    """`18.2,17.1` -> [(18, 2), (17, 1)]"""
    heads = []
    for entry in text.split(","):
        layer, dot, head = entry.partition(".")
        if not (layer.isdecimal() and dot and head.isdecimal()):
            raise argparse.ArgumentTypeError(f"{entry!r} is no LAYER.HEAD")
        heads.append((int(layer), int(head)))
    return heads


def wide_of(text: str) -> dict:
    """`8192:18.2,17.1` -> {(18, 2): 8192, (17, 1): 8192}"""
    ring, _, heads = text.partition(":")
    if not ring.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no RING:LAYER.HEAD,...")
    return {head: int(ring) for head in heads_of(heads)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=pathlib.Path)
    parser.add_argument("codes", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--ring", type=int, default=512, help="recent keys that a head keeps exactly (default: %(default)s)")
    parser.add_argument("--wide", type=wide_of, action="append", default=[], metavar="RING:HEADS", help="heads with a longer ring")
    parser.add_argument("--grow", type=heads_of, default=[], metavar="HEADS", help="heads that keep all keys")
    parser.add_argument("--context", type=int, help="tokens that the model was trained with (default: max_position_embeddings)")
    arguments = parser.parse_args()
    wide = {}
    for entry in arguments.wide:
        if both := sorted(set(wide) & set(entry)):
            parser.error(f"--wide has head {both[0][0]}.{both[0][1]} twice")
        wide.update(entry)
    try:
        write_directory(arguments.source, arguments.codes, arguments.out, arguments.ring, wide, arguments.grow, arguments.context)
    except (CodesError, ConfigError, SourceError, OSError) as error:
        print(f"write_directory: {error}", file=sys.stderr)
        return 1
    print(f"{arguments.source} -> {arguments.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
