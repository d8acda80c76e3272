"""Turns an RWKV-7 in its native form, a file of torch.save, into a model directory in the form of flash-linear-attention.

    scripts/import-rwkv FILE.pth DIR [--vocabulary FILE]

The vocabulary is RWKV's rwkv_vocab_v20230424.txt, which is copied into DIR. Without one the directory has no tokenizer, and the
model is served with token ids only. Weights stay as the file has them: float32, bfloat16 or float16. PyTorch is not needed, and
nothing in FILE is run. DIR must not exist yet; it is written whole or not at all.
"""

import argparse
import pathlib
import re
import signal
import sys

from models.published.model_directory import check_absent, write_whole
from models.published.rwkv_tensors import model_config, places
from models.published.tensor_pickle import TorchFileError
from models.published.torch_file import Tensor, read_torch_file
from models.training.files.safetensors import BFloat16

VOCABULARY = "rwkv_vocab_v20230424.txt"  # the name that the server looks for
LARGEST_VOCABULARY = 64 << 20  # bytes; RWKV's has 1 MB


def import_rwkv(path, directory, vocabulary=None) -> None:
    directory = pathlib.Path(directory)
    check_absent(directory)
    try:
        tensors = read_torch_file(path)
        config = model_config(tensors)
        found = places(tensors, config)
    except TorchFileError as error:
        raise TorchFileError(f"{path}: {error}") from None
    files = {"config.json": config}
    if vocabulary is not None:
        files[VOCABULARY] = read_vocabulary(pathlib.Path(vocabulary), config["vocab_size"])
    weights = ((place.name, written(place.change(tensors[place.source].values()), tensors[place.source])) for place in found)
    try:
        write_whole(directory, files, weights, {place.name: tensors[place.source].size() for place in found})
    except TorchFileError as error:
        raise TorchFileError(f"{path}: {error}") from None


def written(values, tensor: Tensor):
    return BFloat16(values) if tensor.dtype == "bfloat16" else values


def read_vocabulary(path: pathlib.Path, size: int) -> bytes:
    """The file, whose lines have an id, a literal and a length. The server checks the literals."""
    with open(path, "rb") as file:
        content = file.read(LARGEST_VOCABULARY + 1)
    if not content or len(content) > LARGEST_VOCABULARY:
        raise TorchFileError(f"{path}: is empty or has more than {LARGEST_VOCABULARY} bytes; RWKV's vocabulary is expected")
    for number, line in enumerate(content.splitlines(), 1):
        fields = re.fullmatch(rb"([0-9]{1,9}) .+ [0-9]+", line)
        if not fields:
            raise TorchFileError(f"{path}: line {number} is not an id, a literal and a length, as RWKV's vocabulary has them")
        if int(fields[1]) >= size:
            raise TorchFileError(f"{path}: line {number} has the id {int(fields[1])}, but the model has {size} ids: "
                                 "it was trained with another vocabulary")
    return content


def main():
    parser = argparse.ArgumentParser(prog="import-rwkv", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--vocabulary", type=pathlib.Path, metavar="FILE", help=f"RWKV's {VOCABULARY}")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that unfinished files are removed
    try:
        import_rwkv(arguments.file, arguments.directory, arguments.vocabulary)
    except (TorchFileError, OSError) as error:
        print(f"import-rwkv: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    print(f"{arguments.file} -> {arguments.directory}")
    if arguments.vocabulary is None:
        print(f"It has no tokenizer: the model is served with token ids only. To serve text, put {VOCABULARY} into it.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
