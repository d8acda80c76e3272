"""The block of Mamba-2 (Dao, Gu 2024), with the names of the transformers library.

    z, x B C, step = in_proj(RMSNorm(x))      x B C behind a causal convolution and silu
    dt = softplus(step + dt_bias), within time_step_limit
    log w = -exp(A_log) dt   a = b = 0   k = B   v = dt x   q = C
    out = RMSNorm((y + D x) silu(z)) out_proj
"""

from typing import NamedTuple

import torch
from torch import nn
from torch.nn import functional as F

from models.training.recurrent.config import Mamba2Config
from models.training.recurrent.parts import CausalConvolution, RmsNorm, decays, exact_dtype, shared, zeros
from models.training.recurrent.recurrence import Inputs, recur
from models.training.units.unit import heads, linear


class ConvolvedState(NamedTuple):
    matrix: torch.Tensor  # [B, H, V, K], never less than float32
    inputs: torch.Tensor  # [B, taps - 1, C] the last rows ahead of the convolution


class Mamba2Mixer(nn.Module):
    def __init__(self, config: Mamba2Config):
        super().__init__()
        self.config = config
        inner, self.keys = config.num_heads * config.head_dim, config.n_groups * config.state_size
        self.sizes = inner, inner + 2 * self.keys, config.num_heads
        self.in_proj = linear(config.hidden_size, sum(self.sizes), bias=config.use_bias)
        self.conv1d = CausalConvolution(self.sizes[1], config.conv_kernel, bias=config.use_conv_bias)
        self.A_log, self.dt_bias = decays(config.num_heads)
        self.D = nn.Parameter(torch.ones(config.num_heads))
        self.norm = RmsNorm(inner, config.layer_norm_epsilon)
        self.out_proj = linear(inner, config.hidden_size, bias=config.use_bias)

    def forward(self, x, state: ConvolvedState):
        config = self.config
        z, convolved, step = self.in_proj(x).split(self.sizes, -1)
        convolved, inputs = self.conv1d(convolved, state.inputs)
        with torch.autocast(x.device.type, enabled=False):
            exact = state.matrix.dtype
            x, k, q = convolved.to(exact).split((self.sizes[0], self.keys, self.keys), -1)
            x = heads(x, config.num_heads)
            k, q = (shared(heads(part, config.n_groups), config.num_heads) for part in (k, q))
            dt = F.softplus(step.to(exact) + self.dt_bias).clamp(*config.step_limits()).transpose(1, 2)[..., None]  # [B, H, T, 1]
            y, matrix = recur(Inputs(-self.A_log.exp()[:, None, None] * dt, k, dt * x, q), state.matrix)
            y = (y + self.D[:, None, None] * x).transpose(1, 2).flatten(2)
            y = self.norm(y * F.silu(z.to(exact)))
        return self.out_proj(y), ConvolvedState(matrix.detach(), inputs)


class Mamba2Block(nn.Module):
    def __init__(self, config: Mamba2Config, index: int):
        super().__init__()
        self.norm = RmsNorm(config.hidden_size, config.layer_norm_epsilon)
        self.mixer = Mamba2Mixer(config)
        self.dropout = nn.Dropout(0.0)

    def initial_state(self, batch: int, dtype, device) -> ConvolvedState:
        config = self.mixer.config
        shape = config.num_heads, config.head_dim, config.state_size
        return ConvolvedState(zeros(batch, *shape, dtype=exact_dtype(dtype), device=device),
                              zeros(batch, config.conv_kernel - 1, self.mixer.sizes[1], dtype=dtype, device=device))

    def forward(self, x, state, handed):
        y, state = self.mixer(self.norm(x), state)
        return x + self.dropout(y), state, handed
