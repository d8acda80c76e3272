"""Makes a model directory with int8 matrices from one without (docs/model-format.md); needs only numpy.

    python3 -m models.training.quantize MODEL_DIR OUT_DIR

Loaded as int8, the new directory gives the same bits as the old one.
"""

import argparse
import pathlib
import re
import shutil

import numpy as np

from models.training.config import ModelConfig
from models.training.files import safetensors
from models.training.files.directory import read_tensors, write_model

# r_proj, from which position keys are computed when a model is loaded, is not quantized: it is not read afterwards.
MATRICES = re.compile(r"(embedding|lm_head|layers\.\d+\.([qkvgo]_proj|mlp_up|mlp_down))\.weight")

EXACT = re.compile(r"\.codebook\.|\.features$|\.distance_bias$")  # always float32


def quantize(matrix: np.ndarray):
    """[rows, width] float32 -> (int8 of the same shape, float32 scales [rows]), as kernels/numbers/int8.h, bit for bit."""
    largest = np.abs(matrix).max(axis=1, initial=0).astype(np.float32)
    tiny = largest < np.float32(127) * np.finfo(np.float32).tiny
    scales = np.where(tiny, np.float32(1), largest / np.float32(127)).astype(np.float32)
    return np.clip(np.rint(matrix / scales[:, None]), -127, 127).astype(np.int8), scales


def scales_of(tensors: dict) -> dict:
    """The names of the scales of the int8 matrices of a file, by the names of the matrices."""
    scales = {name: f"{name}_scale" for name, value in tensors.items() if value.dtype == np.int8}
    for name, scale in scales.items():
        if scale not in tensors:
            raise ValueError(f"tensor {name} is int8 and the file lacks {scale}")
    return scales


def dequantized(tensors: dict) -> dict:
    """The tensors of a file with every int8 matrix as float32 and without the scales."""
    scales = scales_of(tensors)
    result = {name: value for name, value in tensors.items() if name not in scales.values()}
    for name, scale in scales.items():
        result[name] = tensors[scale][:, None] * tensors[name].astype(np.float32)
    return result


def quantized(tensors: dict) -> dict:
    """Matrices become int8 unless they are already. Other tensors become bfloat16 if that holds the same values, else float32;
    codebooks, random features and distance biases always float32."""
    scales = scales_of(tensors)
    result = {}
    for name, value in tensors.items():
        if name in scales or name in scales.values():
            result[name] = value
        elif MATRICES.fullmatch(name):
            result[name], result[f"{name}_scale"] = quantize(value.astype(np.float32))
        else:
            value = value.astype(np.float32)
            rounded = safetensors.BFloat16.rounded(value)
            keep = EXACT.search(name) or not np.array_equal(rounded.to_float32(), value)
            result[name] = value if keep else rounded
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model_dir", type=pathlib.Path)
    parser.add_argument("out_dir", type=pathlib.Path)
    arguments = parser.parse_args()
    config = ModelConfig.load(arguments.model_dir)
    write_model(arguments.out_dir, config, quantized(read_tensors(arguments.model_dir)))
    for name in (config.tokenizer.get("file"), "generation_config.json"):
        if name and (arguments.model_dir / name).exists():
            shutil.copyfile(arguments.model_dir / name, arguments.out_dir / name)


if __name__ == "__main__":
    main()
