"""The rotary positions of a GGUF file as fields of config.json: rope_theta and rope_scaling."""

import math

import numpy as np

from models.published.gguf_fields import Fields
from models.published.gguf_file import GgufError

FREQUENCIES = "rope_freqs.weight"  # the divisors of the frequencies
SCALING = ("none", "linear")
# Llama 3.1's low_freq_factor, high_freq_factor and original_max_position_embeddings.
LLAMA3 = (1.0, 4.0, 8192)
LARGEST_ORIGINAL = 1 << 40
# How far the inverse of a divisor, 0 to 1, may be from that by the parameters. The tensor was computed in float32: a power,
# two divisions and a product, some 4 roundings of 2^-24 each, on a number that is at most high_freq_factor and is then divided by
# high_freq_factor - low_freq_factor; then two more. With Llama 3.1's factors that is 4.4e-7.
CLOSE = 1e-6


def shortest(value: float) -> float:
    """The shortest decimal number for a float32 of GGUF: 9.999999747378752e-06 was 1e-05."""
    return float(str(np.float32(value)))


def rope(fields: Fields, prefix: str, head: int, tensors: dict) -> dict:
    fields.must_be(prefix + "rope.dimension_count", head, head)
    theta = shortest(fields.positive(prefix + "rope.freq_base", 10000.0))
    factor = linear_factor(fields, prefix)
    scaling = None
    if FREQUENCIES in tensors:
        scaling = llama3(divisors(tensors[FREQUENCIES], head), theta)
    if factor != 1.0 and scaling:
        raise GgufError(f"has both {prefix}rope.scaling.factor and the tensor {FREQUENCIES}, must have one of them at most")
    if factor != 1.0:
        scaling = {"rope_type": "linear", "factor": factor}
    return {"rope_theta": theta, "rope_scaling": scaling}


def linear_factor(fields: Fields, prefix: str) -> float:
    """The factor of linear scaling; 1: no scaling. A factor without a type is linear."""
    kind = fields.one_of(prefix + "rope.scaling.type", SCALING, "linear")
    fields.flag(prefix + "rope.scaling.finetuned", False)
    fields.take(prefix + "rope.scaling.original_context_length", (int,), "an integer", 0)  # only other types use it
    name = prefix + "rope.scaling.factor"
    if name not in fields.values and prefix + "rope.scale_linear" in fields.values:
        name = prefix + "rope.scale_linear"  # its first name
    factor = shortest(fields.positive(name, 1.0))
    if factor < 1.0:
        raise GgufError(f"{name} is {factor}, must be at least 1")
    return factor if kind == "linear" else 1.0


def divisors(tensor, head: int) -> np.ndarray:
    if tensor.shape != (head // 2,):
        raise GgufError(f"tensor {FREQUENCIES} has the shape {list(tensor.shape)}, by the size of a head it would be [{head // 2}]")
    values = tensor.to_float32()
    if (values < 1).any():
        raise GgufError(f"tensor {FREQUENCIES} divides frequencies by {values.min()}, must be by 1 or more")
    return values


def llama3(found: np.ndarray, theta: float) -> dict:
    """The parameters of rope_type llama3 that give the divisors `found`; None if all are 1."""
    if (found == 1).all():
        return None
    factor = shortest(found.max())
    for low, high, original in [LLAMA3, *fitted(found, theta, factor)]:
        if agree(found, expected(theta, len(found), factor, low, high, original)):
            return {"rope_type": "llama3", "factor": factor, "low_freq_factor": low, "high_freq_factor": high,
                    "original_max_position_embeddings": original}
    raise GgufError(f"tensor {FREQUENCIES} divides frequencies in a way that rope_type llama3 does not (by 1 where they are high, "
                    "by one factor where they are low, smoothly between); no other can be imported")


def wavelengths(theta: float, count: int) -> np.ndarray:
    powers = np.float32(theta) ** (np.arange(0, 2 * count, 2, dtype=np.float32) / np.float32(2 * count))
    return 2 * math.pi / (1 / powers).astype(np.float64)


def expected(theta: float, count: int, factor: float, low: float, high: float, original: int) -> np.ndarray:
    """The divisors that these parameters give (transformers, modeling_rope_utils.py)."""
    length = wavelengths(theta, count)
    smooth = (original / length - low) / (high - low)
    between = 1 / ((1 - smooth) / factor + smooth)
    return np.where(length < original / high, 1.0, np.where(length > original / low, factor, between))


def agree(found: np.ndarray, wanted: np.ndarray) -> bool:
    return bool((np.abs(1 / found.astype(np.float64) - 1 / wanted) <= CLOSE).all())


def fitted(found: np.ndarray, theta: float, factor: float):
    """Yields the parameters (low, high, original) that follow from two divisors between 1 and the factor. Divisors determine
    high_freq_factor and the original length only relative to low_freq_factor, which is 1 in every published model."""
    between = np.flatnonzero((found > 1) & (found < np.float32(factor)))
    if len(between) < 2:
        return
    first, last = between[0], between[-1]
    turns = 1 / wavelengths(theta, len(found))
    smooth = (1 / found.astype(np.float64) - 1 / factor) / (1 - 1 / factor)
    slope = (smooth[first] - smooth[last]) / (turns[first] - turns[last])
    at_zero = smooth[first] - slope * turns[first]  # -low / (high - low)
    if not at_zero < 0 < slope:
        return
    original = slope / -at_zero
    if 0.5 < original < LARGEST_ORIGINAL:
        yield 1.0, round(1 - 1 / at_zero, 3), round(original)
