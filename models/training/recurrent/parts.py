"""What the blocks of several families share."""

import math

import torch
from torch import nn
from torch.nn import functional as F

from models.training.units.unit import rms


class RmsNorm(nn.Module):
    """Root mean square norm that multiplies by offset + weight."""

    def __init__(self, width: int, epsilon: float, offset: float = 0.0):
        super().__init__()
        self.epsilon, self.offset = epsilon, offset
        self.weight = nn.Parameter(torch.full((width,), 1 - offset))

    def forward(self, x):
        return rms(x, self.epsilon) * (self.offset + self.weight)


class CausalConvolution(nn.Conv1d):
    """Of each channel by itself, with its last positions, then silu."""

    def __init__(self, channels: int, taps: int, bias: bool):
        super().__init__(channels, channels, taps, groups=channels, bias=bias)

    def forward(self, x, inputs):
        """x [B, T, C], inputs [B, taps - 1, C]: the positions ahead of x -> (y [B, T, C], the inputs after)"""
        taps, tokens = self.kernel_size[0], x.shape[1]
        rows = torch.cat([inputs.to(x.dtype), x], 1)
        y = sum(rows[:, j:j + tokens] * self.weight[:, 0, j] for j in range(taps))
        return F.silu(y if self.bias is None else y + self.bias), carried_rows(rows, inputs)


def carried_rows(rows, inputs) -> torch.Tensor:
    """The last rows of [B, n, C], as many as the inputs before, for the next segment. They carry no gradient."""
    return rows[:, rows.shape[1] - inputs.shape[1]:].detach().to(inputs.dtype)


def exact_dtype(dtype) -> torch.dtype:
    """Of states and their recurrence: never less than float32."""
    return torch.float64 if dtype == torch.float64 else torch.float32


def zeros(batch: int, *shape: int, dtype, device) -> torch.Tensor:
    return torch.zeros(batch, *shape, dtype=dtype, device=device)


def decays(heads: int):
    """-> (A_log, dt_bias): w = exp(-exp(A_log) softplus(x + dt_bias)). At first exp(A_log) is 1 to 16, and the softplus of dt_bias
    is 0.001 to 0.1, evenly in its logarithm (Dao, Gu 2024, Mamba-2)."""
    step = torch.empty(heads).uniform_(math.log(1e-3), math.log(0.1)).exp()
    return nn.Parameter(torch.empty(heads).uniform_(1, 16).log()), nn.Parameter(step.expm1().log())


def shared(x: torch.Tensor, heads: int) -> torch.Tensor:
    """[B, G, T, K] -> [B, H, T, K]: heads h share group h / (H / G)"""
    return x.repeat_interleave(heads // x.shape[1], 1)
