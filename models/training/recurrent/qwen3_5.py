"""The blocks of Qwen3.5, with the names of the transformers library: the gated delta rule (Yang et al. 2024, Gated DeltaNet), or
softmax attention with a gate, each before a gated MLP. Norms multiply by 1 + weight, but the one behind the delta rule.

    q, k, v = in_proj_qkv(x) behind a causal convolution and silu; q and k divided by their length, q also by sqrt(K)
    alpha = exp(-exp(A_log) softplus(in_proj_a(x) + dt_bias))      beta = sigmoid(in_proj_b(x))
    w = alpha   a = k   b = alpha beta k   v = beta v
    out = RMSNorm(y) silu(in_proj_z(x)) out_proj
"""

import torch
from torch import nn
from torch.nn import functional as F

from models.training.recurrent.config import Qwen35Config
from models.training.recurrent.mamba2 import ConvolvedState
from models.training.recurrent.parts import CausalConvolution, RmsNorm, decays, exact_dtype, shared, zeros
from models.training.recurrent.recurrence import Inputs, recur
from models.training.units.attention import dense_attention
from models.training.units.position_bias import NoBias, rotated
from models.training.units.softmax_unit import QUERIES, KeyValueState
from models.training.units.unit import heads, linear

DELTA_NORM_EPSILON = 1e-6


def of_length_one(x: torch.Tensor) -> torch.Tensor:
    return x * torch.rsqrt(x.square().sum(-1, keepdim=True) + DELTA_NORM_EPSILON)


class GatedDelta(nn.Module):
    def __init__(self, config: Qwen35Config):
        super().__init__()
        self.config = config
        width, self.heads = config.hidden_size, config.linear_num_value_heads
        keys, values = config.linear_num_key_heads * config.linear_key_head_dim, self.heads * config.linear_value_head_dim
        self.sizes = keys, keys, values
        self.in_proj_qkv, self.in_proj_z = linear(width, sum(self.sizes)), linear(width, values)
        self.in_proj_b, self.in_proj_a = linear(width, self.heads), linear(width, self.heads)
        self.conv1d = CausalConvolution(sum(self.sizes), config.linear_conv_kernel_dim, bias=False)
        self.A_log, self.dt_bias = decays(self.heads)
        self.norm = RmsNorm(config.linear_value_head_dim, config.rms_norm_eps)
        self.out_proj = linear(values, width)

    def initial_state(self, batch: int, dtype, device) -> ConvolvedState:
        config = self.config
        shape = self.heads, config.linear_value_head_dim, config.linear_key_head_dim
        return ConvolvedState(zeros(batch, *shape, dtype=exact_dtype(dtype), device=device),
                              zeros(batch, config.linear_conv_kernel_dim - 1, sum(self.sizes), dtype=dtype, device=device))

    def forward(self, x, state: ConvolvedState):
        config = self.config
        convolved, inputs = self.conv1d(self.in_proj_qkv(x), state.inputs)
        z, strength, decay = self.in_proj_z(x), self.in_proj_b(x), self.in_proj_a(x)
        with torch.autocast(x.device.type, enabled=False):
            exact = state.matrix.dtype
            q, k, v = convolved.to(exact).split(self.sizes, -1)
            q, k = (shared(of_length_one(heads(part, config.linear_num_key_heads)), self.heads) for part in (q, k))
            log_alpha = -self.A_log.exp() * F.softplus(decay.to(exact) + self.dt_bias)
            beta = strength.to(exact).sigmoid()
            log_alpha, beta = (part.transpose(1, 2)[..., None] for part in (log_alpha, beta))  # [B, H, T, 1]
            y, matrix = recur(Inputs(log_alpha, k, beta * heads(v, self.heads), q * config.linear_key_head_dim ** -0.5,
                                     k, log_alpha.exp() * beta * k), state.matrix)
            y = (self.norm(y) * F.silu(heads(z.to(exact), self.heads))).transpose(1, 2).flatten(2)
        return self.out_proj(y), ConvolvedState(matrix.detach(), inputs)


class GatedAttention(nn.Module):
    """Softmax attention over all keys, some channels of each head rotary; the state grows."""

    def __init__(self, config: Qwen35Config):
        super().__init__()
        self.config = config
        width, head, bias = config.hidden_size, config.head_dim, config.attention_bias
        self.q_proj = linear(width, 2 * config.num_attention_heads * head, bias)  # per head the query, then its gate
        self.k_proj, self.v_proj = (linear(width, config.num_key_value_heads * head, bias) for _ in range(2))
        self.o_proj = linear(config.num_attention_heads * head, width, bias)
        self.q_norm, self.k_norm = (RmsNorm(head, config.rms_norm_eps, offset=1.0) for _ in range(2))

    def initial_state(self, batch: int, dtype, device) -> KeyValueState:
        nothing = zeros(batch, self.config.num_key_value_heads, 0, self.config.head_dim, dtype=dtype, device=device)
        return KeyValueState(nothing, nothing.clone())

    def turned(self, x, first: int):
        """x [B, H, T, K], whose position 0 is `first`"""
        turning = self.config.rotary_width()
        places = torch.arange(first, first + x.shape[2], device=x.device)
        return torch.cat([rotated(x[..., :turning], places, self.config.rope_theta()), x[..., turning:]], -1)

    def forward(self, x, state: KeyValueState):
        config, first = self.config, state.key.shape[2]
        query, gate = heads(self.q_proj(x), config.num_attention_heads).chunk(2, -1)
        query = self.turned(self.q_norm(query), first) * config.head_dim ** -0.5
        keys = self.turned(self.k_norm(heads(self.k_proj(x), config.num_key_value_heads)), first)
        values = heads(self.v_proj(x), config.num_key_value_heads)
        keys = torch.cat([state.key.to(keys.dtype), keys], 2)
        values = torch.cat([state.value.to(values.dtype), values], 2)
        attended = dense_attention(query, NoBias(), keys, values, QUERIES) * gate.sigmoid()
        return self.o_proj(attended.transpose(1, 2).flatten(2)), KeyValueState(
            keys.detach().to(state.key.dtype), values.detach().to(state.value.dtype))


class GatedMlp(nn.Module):
    def __init__(self, config: Qwen35Config):
        super().__init__()
        width, inner = config.hidden_size, config.intermediate_size
        self.gate_proj, self.up_proj, self.down_proj = linear(width, inner), linear(width, inner), linear(inner, width)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Qwen35Block(nn.Module):
    def __init__(self, config: Qwen35Config, index: int):
        super().__init__()
        self.input_layernorm, self.post_attention_layernorm = (
            RmsNorm(config.hidden_size, config.rms_norm_eps, offset=1.0) for _ in range(2))
        self.is_delta = config.layer_types[index] == "linear_attention"
        if self.is_delta:
            self.linear_attn = GatedDelta(config)
        else:
            self.self_attn = GatedAttention(config)
        self.mlp = GatedMlp(config)
        self.dropout = nn.Dropout(0.0)

    @property
    def mixer(self):
        return self.linear_attn if self.is_delta else self.self_attn

    def initial_state(self, batch: int, dtype, device):
        return self.mixer.initial_state(batch, dtype, device)

    def forward(self, x, state, handed):
        y, state = self.mixer(self.input_layernorm(x), state)
        x = x + self.dropout(y)
        return x + self.dropout(self.mlp(self.post_attention_layernorm(x))), state, handed
