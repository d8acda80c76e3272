"""The frequencies of rotary positions, as config.json describes them.

They are computed in float32, in the same order as in models/runtime/families/rotary/frequencies.cc, so that positions in the
millions have the same angles. Types: `default`, `linear` and `llama3` (transformers, modeling_rope_utils.py).
"""

import numpy as np

from models.conversion.config import ConfigError

FLOAT = np.float32


def frequencies(rope: dict, head_dim: int) -> np.ndarray:
    """-> float32 [R/2], the angle per position of each pair; R of the `head_dim` numbers of a head are turned"""
    theta, part = float(rope.get("rope_theta", 10000)), float(rope.get("partial_rotary_factor", 1))
    turned = int(head_dim * part)
    if turned == 0 or turned % 2:
        raise ConfigError(f"rotary positions turn {turned} numbers of each head of {head_dim}, must be an even number above 0 "
                          "(head_dim, partial_rotary_factor)")
    powers = [FLOAT(theta ** float(FLOAT(i) / FLOAT(turned))) for i in range(0, turned, 2)]
    kind = rope.get("rope_type", rope.get("type"))
    if kind is None and "factor" in rope:
        raise ConfigError("rope_scaling has a factor and no rope_type, must have both or neither")
    kind = kind or "default"
    if kind not in SCALINGS:
        raise ConfigError(f"the rope type is {kind!r}, must be one of {', '.join(SCALINGS)}")
    return np.array([SCALINGS[kind](FLOAT(1) / power, rope) for power in powers], FLOAT)


def linear(frequency, rope: dict):
    return frequency / FLOAT(rope["factor"])


def llama3(frequency, rope: dict):
    factor, original = FLOAT(rope["factor"]), FLOAT(rope["original_max_position_embeddings"])
    low, high = FLOAT(rope["low_freq_factor"]), FLOAT(rope["high_freq_factor"])
    wavelength = FLOAT(2) * FLOAT(np.pi) / frequency
    if wavelength > original / low:
        return frequency / factor
    if wavelength < original / high:
        return frequency
    smooth = (original / wavelength - low) / (high - low)
    return (FLOAT(1) - smooth) * frequency / factor + smooth * frequency


SCALINGS = {"default": lambda frequency, rope: frequency, "linear": linear, "llama3": llama3}
