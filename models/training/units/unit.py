"""A layer around any kind of attention, in one of two blocks, and the parts that all kinds share.

    gated      x~ = norm(x)    y = x + (attention(x~, silu(x~ Wv)) * silu(x~ Wg)) Wo
    standard   x~ = LayerNorm(x)    y = x + attention(x~, x~ Wv) Wo    z = y + gelu(LayerNorm(y) W1 + b1) W2 + b2

A kind of attention is a subclass (such as `vq_unit.py`). It registers its own parameters, under the names of
docs/model-format.md, and defines its state, which no other code looks into.
"""

from typing import Any, NamedTuple, Optional, Union

import torch
from torch import nn
from torch.nn import functional as F

from models.training.config import ModelConfig

EPSILON = 1e-6
LAYER_NORM_EPSILON = 1e-5


def rms(x: torch.Tensor, epsilon: float = EPSILON) -> torch.Tensor:
    """x / sqrt(mean(x^2) + epsilon) over the last axis, never in less than float32."""
    x = x if x.dtype == torch.float64 else x.float()
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + epsilon)


def sinusoid(positions: torch.Tensor, width: int, wavelength: float) -> torch.Tensor:
    """[n] -> [n, width]: sines of all frequencies, then cosines."""
    frequency = wavelength ** -(torch.arange(0, width, 2, dtype=torch.float64, device=positions.device) / width)
    angle = positions.double()[:, None] * frequency
    return torch.cat([angle.sin(), angle.cos()], -1)


def linear(inputs: int, outputs: int, bias: bool = False) -> nn.Linear:
    layer = nn.Linear(inputs, outputs, bias=bias)
    nn.init.normal_(layer.weight, std=inputs ** -0.5)
    if bias:
        nn.init.zeros_(layer.bias)
    return layer


def heads(x: torch.Tensor, count: int) -> torch.Tensor:
    """[B, T, n * c] -> [B, n, T, c]"""
    return x.unflatten(-1, (count, x.shape[-1] // count)).transpose(1, 2)


class Norm(nn.Module):
    """Root mean square norm with gain and bias."""

    def __init__(self, width: int):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, x):
        return rms(x) * self.weight + self.bias


def norm_of(config: ModelConfig) -> nn.Module:
    """The block's norm: root mean square, or LayerNorm."""
    return Norm(config.d_model) if config.block == "gated" else nn.LayerNorm(config.d_model, eps=LAYER_NORM_EPSILON)


class Mixed(NamedTuple):
    """What attention returns."""

    output: torch.Tensor  # [B, H, T, V]
    state: Optional[Any]  # a NamedTuple of tensors, first axis B; None in the quadratic form
    auxiliary: Union[torch.Tensor, float] = 0.0  # the kind's own loss
    seen: Any = None  # what after_step takes; without gradient


class Unit(nn.Module):
    """One layer, pre-norm, residual. A kind of attention implements initial_state, mix and optionally after_step."""

    causal = True  # no position sees later ones

    def __init__(self, config: ModelConfig):
        super().__init__()
        self.config = config
        width = config.d_model
        self.gated = config.block == "gated"
        self.dropout = nn.Dropout(0.0)  # applied to what a branch adds to x; training sets the chance
        self.norm = norm_of(config)
        self.v_proj = linear(width, config.n_kv_head * config.d_v)
        if self.gated:
            self.g_proj = linear(width, config.n_head * config.d_v)
        self.o_proj = linear(config.n_head * config.d_v, width)
        if not self.gated:
            self.mlp_norm = norm_of(config)
            self.mlp_up = linear(width, config.d_ff, bias=True)
            self.mlp_down = linear(config.d_ff, width, bias=True)

    @staticmethod
    def granule(config: ModelConfig) -> int:
        """After a segment whose length is a multiple of the granule there is a state; others are padded and give none."""
        return 1

    def initial_state(self, batch: int, dtype=torch.float32, device=None):
        """The state before the first token."""
        raise NotImplementedError

    def mix(self, normed, values, state, codes, use_accumulator) -> Mixed:
        """Attention. normed [B, T, D], values [B, G, T, V]; without a state the context begins here."""
        raise NotImplementedError

    def after_step(self, seen, generator) -> Union[torch.Tensor, int]:
        """Called after each optimizer step with Mixed.seen. Returns how many codes were revived, without waiting for the device
        to count them."""
        return 0

    def forward(self, x, state, codes=None, use_accumulator=True):
        """x [B, T, D] -> (y, Mixed)"""
        normed = self.norm(x)
        values = self.v_proj(normed)
        values = heads(F.silu(values) if self.gated else values, self.config.n_kv_head)
        gate = F.silu(self.g_proj(normed)) if self.gated else None
        mixed = self.mix(normed, values, state, codes, use_accumulator)
        attended = mixed.output.transpose(1, 2).flatten(2)
        if self.gated:
            return x + self.dropout(self.o_proj(attended * gate)), mixed
        x = x + self.dropout(self.o_proj(attended))
        hidden = F.gelu(self.mlp_up(self.mlp_norm(x)), approximate="tanh")
        return x + self.dropout(self.mlp_down(hidden)), mixed
