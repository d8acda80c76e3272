"""The block of RWKV-7 (Peng et al. 2025), with the names of the flash-linear-attention library.

    time mixing       log w = -e^(-1/2) sigmoid(w_lora(x_w))   a = k^   b = k^ rate   k = k (1 + (rate - 1) k_a)   q = r
                      k^ = k k_k / |k k_k|   rate = sigmoid(a_lora(x_a))   v = v + (v_first - v) sigmoid(v_lora(x_v))
                      out = (GroupNorm(y) + (r . (k r_k)) v) g_lora(x_g) Wo
    channel mixing    out = relu(x_k Wk)^2 Wv

Each x_c is x_n + (x_(n-1) - x_n) c, of the normed rows. v_first are the values of the first block.
"""

import math
from typing import NamedTuple

import torch
from torch import nn
from torch.nn import functional as F

from models.training.recurrent.config import Rwkv7Config
from models.training.recurrent.parts import carried_rows, exact_dtype, zeros
from models.training.recurrent.recurrence import Inputs, recur
from models.training.units.unit import heads, linear

DECAY_SCALE = -math.exp(-0.5)
LEAST_NORM = 1e-12


class Rwkv7State(NamedTuple):
    matrix: torch.Tensor  # [B, H, K, K], never less than float32
    attn_input: torch.Tensor  # [B, 1, D] the last row that was mixed
    ffn_input: torch.Tensor  # [B, 1, D]


def layer_norm(config: Rwkv7Config) -> nn.LayerNorm:
    norm = nn.LayerNorm(config.hidden_size, eps=config.norm_eps)
    if not config.norm_bias:
        norm.register_parameter("bias", None)
    return norm


def rising(width: int) -> torch.Tensor:
    """[D] from 0 on, below 1"""
    return torch.arange(width) / width


class LowRank(nn.Module):
    """x -> inside(x W1) W2 + bias. With a bias, it is the bias alone at first."""

    def __init__(self, width: int, rank: int, inside: nn.Module, bias=None):
        super().__init__()
        self.lora = nn.Sequential(nn.Linear(width, rank, bias=False), inside, nn.Linear(rank, width, bias=bias is not None))
        if bias is not None:
            nn.init.zeros_(self.lora[0].weight)
            self.lora[2].bias = nn.Parameter(bias)

    def forward(self, x):
        return self.lora(x)


class TimeMix(nn.Module):
    def __init__(self, config: Rwkv7Config, index: int):
        super().__init__()
        width = config.hidden_size
        self.heads = width // config.head_dim
        place = rising(width)
        for name, power in dict(r=0.2, w=0.9, k=0.7, v=0.7, a=0.9, g=0.2).items():
            mix = 1 - place ** (power * (1 - index / config.num_hidden_layers))
            setattr(self, f"x_{name}", nn.Parameter(mix[None, None]))
        self.r_proj, self.k_proj, self.v_proj, self.o_proj = (linear(width, width) for _ in range(4))
        self.w_lora = LowRank(width, config.decay_low_rank_dim, nn.Tanh(), 5 * place ** 0.85 - 6.5)  # slow and fast channels
        self.a_lora = LowRank(width, config.a_low_rank_dim, nn.Identity(), torch.zeros(width))
        self.g_lora = LowRank(width, config.gate_low_rank_dim, nn.Sigmoid())
        if index > 0:
            self.v_lora = LowRank(width, config.v_low_rank_dim, nn.Identity(), torch.full((width,), 0.73))
        self.k_k, self.k_a = nn.Parameter(torch.full((width,), 0.85)), nn.Parameter(torch.ones(width))
        self.r_k = nn.Parameter(torch.zeros(self.heads, config.head_dim))
        self.g_norm = nn.GroupNorm(self.heads, width, eps=config.head_dim * config.norm_eps)

    def forward(self, x, matrix, inputs, v_first):
        """x [B, T, D] -> (y [B, T, D], the state after, v_first)"""
        rows = torch.cat([inputs.to(x.dtype), x], 1)
        back = rows[:, :-1] - x
        x_r, x_w, x_k, x_v, x_a, x_g = (x + back * getattr(self, f"x_{name}") for name in "rwkvag")
        r, k, v = self.r_proj(x_r), self.k_proj(x_k), self.v_proj(x_v)
        decay, rate, gate = self.w_lora(x_w), self.a_lora(x_a), self.g_lora(x_g)
        if v_first is None:
            v_first = v
        else:
            v = v + (v_first - v) * self.v_lora(x_v).sigmoid()
        with torch.autocast(x.device.type, enabled=False):
            r, k, v, decay, rate = (part.to(matrix.dtype) for part in (r, k, v, decay, rate))
            rate = rate.sigmoid()
            removed = F.normalize(heads(k * self.k_k, self.heads), dim=-1, eps=LEAST_NORM)
            k = k * (1 + (rate - 1) * self.k_a)
            r, k, v, decay, rate = (heads(part, self.heads) for part in (r, k, v, decay, rate))
            y, matrix = recur(Inputs(DECAY_SCALE * decay.sigmoid(), k, v, r, removed, removed * rate), matrix)
            bonus = (r * k * self.r_k[:, None]).sum(-1, keepdim=True) * v
            y, bonus = y.transpose(1, 2).flatten(2), bonus.transpose(1, 2).flatten(2)
            y = self.g_norm(y.flatten(0, 1)).view_as(y) + bonus
        return self.o_proj(y * gate), (matrix.detach(), carried_rows(rows, inputs)), v_first


class ChannelMix(nn.Module):
    def __init__(self, config: Rwkv7Config, index: int):
        super().__init__()
        width = config.hidden_size
        self.x_k = nn.Parameter(1 - rising(width) ** ((1 - index / config.num_hidden_layers) ** 4))
        self.key, self.value = linear(width, config.intermediate_size), linear(config.intermediate_size, width)

    def forward(self, x, inputs):
        rows = torch.cat([inputs.to(x.dtype), x], 1)
        mixed = x + (rows[:, :-1] - x) * self.x_k
        return self.value(F.relu(self.key(mixed)).square()), carried_rows(rows, inputs)


class Rwkv7Block(nn.Module):
    def __init__(self, config: Rwkv7Config, index: int):
        super().__init__()
        self.config = config
        if index == 0 and config.norm_first:
            self.pre_norm = layer_norm(config)
        self.attn_norm, self.ffn_norm = layer_norm(config), layer_norm(config)
        self.attn, self.ffn = TimeMix(config, index), ChannelMix(config, index)
        self.dropout = nn.Dropout(0.0)

    def initial_state(self, batch: int, dtype, device) -> Rwkv7State:
        width, head = self.config.hidden_size, self.config.head_dim
        row = zeros(batch, 1, width, dtype=dtype, device=device)
        return Rwkv7State(zeros(batch, width // head, head, head, dtype=exact_dtype(dtype), device=device), row, row.clone())

    def forward(self, x, state, v_first):
        if hasattr(self, "pre_norm"):
            x = self.pre_norm(x)
        y, (matrix, attn_input), v_first = self.attn(self.attn_norm(x), state.matrix, state.attn_input, v_first)
        x = x + self.dropout(y)
        y, ffn_input = self.ffn(self.ffn_norm(x), state.ffn_input)
        return x + self.dropout(y), Rwkv7State(matrix, attn_input, ffn_input), v_first
