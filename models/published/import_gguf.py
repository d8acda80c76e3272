"""Turns a GGUF file into a model directory in Hugging Face's form: config.json, model.safetensors, tokenizer.json and so on.

    scripts/import-gguf FILE DIR [--dtype bfloat16|float32] [--pre-tokenizer NAME]

Reads the architectures llama (Mistral's models, too), qwen2 and qwen3, every tensor type that the gguf package can read, and
tokenizers of the kinds gpt2 and llama. models/published/README.md has more. Anything else in a file is refused by name. If a file
is split into parts, FILE is the first. DIR must not exist yet; it is written whole or not at all.
"""

import argparse
import math
import pathlib
import signal
import sys

import numpy as np

from models.published.gguf_config import architecture, model_config
from models.published.gguf_fields import Fields
from models.published.gguf_file import GgufError
from models.published.gguf_pre_tokenizers import PRE_TOKENIZERS
from models.published.gguf_shards import read_parts
from models.published.gguf_tensors import model_tensors, places
from models.published.gguf_tokenizer import Tokenizer
from models.published.model_directory import check_absent, write_whole
from models.training.files import safetensors

BYTES = {"bfloat16": 2, "float32": 4}  # bytes of a number


def import_gguf(path, directory, dtype: str = "bfloat16", pre_tokenizer: str = None) -> None:
    directory = pathlib.Path(directory)
    check_absent(directory)
    file = read_parts(path)
    try:
        files, tensors, sizes = converted(file, dtype, pre_tokenizer)
        write_whole(directory, files, tensors, sizes)
    except GgufError as error:
        raise GgufError(f"{path}: {error}") from None


def converted(file, dtype: str, pre_tokenizer: str = None):
    """-> (JSON files by name; an iterator of tensors as (name, values); the bytes of each tensor by its name)"""
    fields = Fields(file.fields)
    known = architecture(fields)
    tokenizer = Tokenizer(fields, pre_tokenizer)
    config = model_config(fields, known, len(tokenizer.vocabulary.tokens), file.tensors)
    special = tokenizer.special_config()
    files = {
        "config.json": {**config, **special, "torch_dtype": dtype},
        "generation_config.json": special,
        "tokenizer.json": tokenizer.tokenizer_json(),
        "tokenizer_config.json": tokenizer.tokenizer_config(config["max_position_embeddings"]),
    }
    found = places(file.tensors, known, config)
    tensors = ((place.name, rounded(place.name, values) if dtype == "bfloat16" else values)
               for place, values in model_tensors(file.tensors, found))
    return files, tensors, {place.name: math.prod(place.shape) * BYTES[dtype] for place in found}


def rounded(name: str, values: np.ndarray) -> safetensors.BFloat16:
    found = safetensors.BFloat16.rounded(values)
    if ((found.bits & 0x7F80) == 0x7F80).any():
        raise GgufError(f"tensor {name} holds values beyond bfloat16's range; --dtype float32 keeps them")
    return found


def main():
    parser = argparse.ArgumentParser(prog="import-gguf", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--dtype", choices=list(BYTES), default="bfloat16",
                        help="of the weights: rounded to nearest, ties to even, or as the file has them (default: %(default)s)")
    parser.add_argument("--pre-tokenizer", choices=list(PRE_TOKENIZERS), metavar="NAME",
                        help="what cuts a text before merges, of a file that does not name it: " + ", ".join(PRE_TOKENIZERS))
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that unfinished files are removed
    try:
        import_gguf(arguments.file, arguments.directory, arguments.dtype, arguments.pre_tokenizer)
    except (GgufError, OSError) as error:
        print(f"import-gguf: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    print(f"{arguments.file} -> {arguments.directory}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
