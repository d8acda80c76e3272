"""Extracts the codes from a converted directory into a file, from which write_directory makes the same tensors again.

    python3 -m models.conversion.take_codes DIR CODES.safetensors
"""

import argparse
import pathlib
import re
import sys

from models.conversion.codes_file import NAMES, save_codes
from models.conversion.write_directory import SHARD
from models.training.files import safetensors

TENSOR = re.compile(rf"(?:model\.)?(layers\.\d+)\.self_attn\.conversion\.({'|'.join(NAMES)})")


def take_codes(directory: pathlib.Path) -> dict:
    """-> tensors by the names of a codes file"""
    found = {TENSOR.fullmatch(name): values for name, values in safetensors.load(directory / SHARD).items()}
    return {f"{match[1]}.{match[2]}": values for match, values in found.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("codes", type=pathlib.Path)
    arguments = parser.parse_args()
    try:
        save_codes(arguments.codes, take_codes(arguments.directory))
    except (ValueError, OSError) as error:
        sys.exit(f"take_codes: {error}")


if __name__ == "__main__":
    main()
