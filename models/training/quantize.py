"""A model directory with int8 matrices from one without (docs/model-format.md); needs numpy alone.

    python3 -m models.training.quantize MODEL_DIR OUT_DIR

Loaded as int8, the new directory gives the bits that the old one does.
"""

import argparse
import pathlib
import re
import shutil

import numpy as np

from models.training import safetensors
from models.training.config import ModelConfig
from models.training.directory import write_model

# What position keys are computed from when a model is loaded stays as it is: it is not read afterwards.
MATRICES = re.compile(r"(embedding|lm_head|layers\.\d+\.[qkvgo]_proj)\.weight")


def quantize(matrix: np.ndarray):
    """[rows, width] float32 -> int8 of the same shape, float32 scales [rows]: kernels/int8.h, bit for bit."""
    largest = np.abs(matrix).max(axis=1, initial=0).astype(np.float32)
    tiny = largest < np.float32(127) * np.finfo(np.float32).tiny
    scales = np.where(tiny, np.float32(1), largest / np.float32(127)).astype(np.float32)
    return np.clip(np.rint(matrix / scales[:, None]), -127, 127).astype(np.int8), scales


def dequantized(tensors: dict) -> dict:
    """The tensors of a file with every int8 matrix as float32 and without the scales."""
    scales = {name for name in tensors if name.endswith("_scale") and name[:-len("_scale")] in tensors}
    result = {}
    for name, value in tensors.items():
        if value.dtype == np.int8:
            if f"{name}_scale" not in scales:
                raise ValueError(f"tensor {name} is int8 and the file lacks {name}_scale")
            value = tensors[f"{name}_scale"][:, None] * value.astype(np.float32)
        if name not in scales:
            result[name] = value
    return result


def quantized(tensors: dict) -> dict:
    """Float32 tensors with the matrices as int8; what fits bfloat16 becomes that, codebooks excepted."""
    result = {}
    for name, value in tensors.items():
        if MATRICES.fullmatch(name):
            result[name], result[f"{name}_scale"] = quantize(value)
        else:
            rounded = safetensors.BFloat16.rounded(value)
            keep = ".codebook." in name or not np.array_equal(rounded.to_float32(), value)
            result[name] = value if keep else rounded
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model_dir", type=pathlib.Path)
    parser.add_argument("out_dir", type=pathlib.Path)
    arguments = parser.parse_args()
    config = ModelConfig.load(arguments.model_dir)
    tensors = dequantized(safetensors.load(arguments.model_dir / "model.safetensors"))
    write_model(arguments.out_dir, config, quantized(tensors))
    for name in (config.tokenizer.get("file"), "generation_config.json"):
        if name and (arguments.model_dir / name).exists():
            shutil.copyfile(arguments.model_dir / name, arguments.out_dir / name)


if __name__ == "__main__":
    main()
