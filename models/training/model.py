"""Transformer-VQ: gated attention units over quantized keys. Parameter names are those of docs/model-format.md."""

from typing import List, NamedTuple, Optional

import torch
from torch import nn
from torch.nn import functional as F

from models.training.attention import LayerState, block_attention, initial_state, quadratic_attention
from models.training.config import ModelConfig
from models.training.quantizer import Quantizer

EPSILON = 1e-6


def rms(x: torch.Tensor) -> torch.Tensor:
    """x / sqrt(mean(x^2) + 1e-6) over the last axis, never in less than float32."""
    x = x if x.dtype == torch.float64 else x.float()
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + EPSILON)


def sinusoid(positions: torch.Tensor, width: int, wavelength: float) -> torch.Tensor:
    """[n] -> [n, width]: sines of all frequencies, then cosines."""
    frequency = wavelength ** -(torch.arange(0, width, 2, dtype=torch.float64) / width)
    angle = positions.to("cpu", torch.float64)[:, None] * frequency
    return torch.cat([angle.sin(), angle.cos()], -1)


class Norm(nn.Module):
    """Root mean square norm with gain and bias."""

    def __init__(self, width: int):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, x):
        return rms(x) * self.weight + self.bias


class Layer(nn.Module):
    """One gated attention unit, pre-norm, residual."""

    def __init__(self, config: ModelConfig):
        super().__init__()
        self.config = config
        width, heads, groups = config.d_model, config.n_head, config.n_kv_head
        self.norm = Norm(width)
        self.q_proj = linear(width, heads * config.d_k)
        self.k_proj = linear(width, groups * config.d_k)
        self.v_proj = linear(width, groups * config.d_v)
        self.g_proj = linear(width, heads * config.d_v)
        self.r_proj = linear(width, heads * config.d_k)
        self.o_proj = linear(heads * config.d_v, width)
        self.u = nn.Parameter(torch.zeros(heads, config.d_k))
        self.w = nn.Parameter(torch.zeros(heads, config.d_k))
        self.codebook = Quantizer(groups, config.n_code, config.d_k)
        distances = torch.arange(config.mem_len, -1, -1)
        table = sinusoid(distances, width, config.pe_lam)
        self.register_buffer("distance_table", table, persistent=False)  # [M+1, D], distance M first

    def forward(self, x, state: Optional[LayerState], codes=None, use_accumulator=True):
        """x [B, T, D] -> (y, state after, commitment loss, (keys, codes)). Without a state: the quadratic form."""
        config = self.config
        scale = config.d_k ** -0.25
        normed = self.norm(x)
        heads = lambda y, n: y.unflatten(-1, (n, y.shape[-1] // n)).transpose(1, 2)  # [B, T, n*c] -> [B, n, T, c]
        query = rms(heads(self.q_proj(normed), config.n_head)) * scale
        keys = rms(heads(self.k_proj(normed), config.n_kv_head)) * scale
        values = heads(F.silu(self.v_proj(normed)), config.n_kv_head)
        gate = F.silu(self.g_proj(normed))
        positions = self.r_proj(self.distance_table.to(self.r_proj.weight.dtype)) * scale
        positions = positions.unflatten(-1, (config.n_head, config.d_k)).transpose(0, 1)  # [H, M+1, K]
        query_u = query + self.u[:, None] * scale
        query_w = query + self.w[:, None] * scale
        with torch.autocast(x.device.type, enabled=False):  # bfloat16 would flip codes
            codes, quantized, commitment = self.codebook(keys, codes)
        if state is None:
            mixed = quadratic_attention(query_u, query_w, codes, quantized, values, positions, config, use_accumulator)
        else:
            mixed, state = block_attention(query_u, query_w, codes, quantized, values, self.codebook.codebook(),
                                           positions, state, config, use_accumulator)
        y = x + self.o_proj(mixed.transpose(1, 2).flatten(2) * gate)
        return y, state, commitment, (keys.detach(), codes)


class State(NamedTuple):
    """A batch of sequences between two segments. All of them are at the same position."""

    position: torch.Tensor  # int64, no axes
    layers: List[LayerState]


class Output(NamedTuple):
    logits: torch.Tensor  # [B, T, vocab]
    state: Optional[State]
    commitment: torch.Tensor  # summed over layers
    keys_and_codes: list  # per layer, for the codebook update


class TransformerVQ(nn.Module):
    def __init__(self, config: ModelConfig):
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocab_size, config.d_model)
        if config.pe_abs:
            self.position = nn.Module()
            self.position.scale = nn.Parameter(torch.zeros(1))
        self.layers = nn.ModuleList([Layer(config) for _ in range(config.n_layer)])
        if config.output_norm:
            self.norm = Norm(config.d_model)
        self.lm_head = nn.Module()
        if not config.tie_word_embeddings:
            self.lm_head.weight = nn.Parameter(torch.randn(config.vocab_size, config.d_model) * config.d_model ** -0.5)
        self.lm_head.bias = nn.Parameter(torch.zeros(config.vocab_size))

    def initial_state(self, batch: int) -> State:
        weight = self.embedding.weight
        layers = [initial_state(batch, self.config, weight.dtype, weight.device) for _ in self.layers]
        return State(torch.zeros((), dtype=torch.long), layers)

    def forward(self, tokens, state: Optional[State] = None, codes=None, use_accumulator=True) -> Output:
        """tokens [B, T] follow the state; logits of row i are for the token after tokens[:, i].

        With a state T may be any number, but unless it is a multiple of block_len the state returned is None, and
        commitment and keys are those of the padded segment. Without a state the context begins here and is computed in
        the quadratic form. `codes`, a tensor [B, G, T] per layer, forces the quantization.
        """
        length = tokens.shape[1]
        padding = -length % self.config.block_len if state is not None else 0
        x = self.embedding(F.pad(tokens, (0, padding)))
        start = state.position if state is not None else 0
        if self.config.pe_abs:
            index = start + torch.arange(length + padding)
            x = x + self.position.scale * sinusoid(index, self.config.d_model, self.config.pe_lam).to(x)
        layer_states, commitment, keys_and_codes = [], 0.0, []
        for number, layer in enumerate(self.layers):
            forced = None if codes is None else F.pad(codes[number], (0, padding))
            before = None if state is None else state.layers[number]
            x, after, loss, pair = layer(x, before, forced, use_accumulator)
            layer_states.append(after)
            keys_and_codes.append(pair)
            commitment = commitment + loss
        x = x[:, :length]
        if self.config.output_norm:
            x = self.norm(x)
        weight = self.embedding.weight if self.config.tie_word_embeddings else self.lm_head.weight
        scale = self.config.logit_scale  # applied before the product: x is the smaller matrix
        logits = F.linear(x * scale, weight, self.lm_head.bias * scale)
        after = State(start + length, layer_states) if state is not None and padding == 0 else None
        return Output(logits, after, commitment, keys_and_codes)

    def update_codebooks(self, keys_and_codes, generator=None) -> int:
        """The moving averages of all layers; returns how many codes were revived."""
        pairs = zip(self.layers, keys_and_codes)
        return sum(layer.codebook.update(keys, codes, generator) for layer, (keys, codes) in pairs)


def linear(inputs: int, outputs: int) -> nn.Linear:
    layer = nn.Linear(inputs, outputs, bias=False)
    nn.init.normal_(layer.weight, std=inputs ** -0.5)
    return layer
