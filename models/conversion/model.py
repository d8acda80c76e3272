"""A transformer with rotary positions whose kv heads have a constant state; without a conversion it is the softmax model.

Parameters have the names of the directory's tensors. It computes one sequence at a time, in the quadratic form (attention.py).
"""

import dataclasses
from typing import Dict, List, NamedTuple, Optional

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from models.conversion import attention
from models.conversion.codebook import codes_of
from models.conversion.config import Config, Conversion
from models.conversion.frequencies import frequencies
from models.conversion.rotation import Positions

NO_CODES = -1  # in place of the codes of a head that has none


class Output(NamedTuple):
    hidden: torch.Tensor  # [T, D], from which logits are computed
    codes: List[torch.Tensor]  # per layer, int64 [G, T]; NO_CODES for heads without codes


class RmsNorm(nn.Module):
    def __init__(self, width: int, epsilon: float):
        super().__init__()
        self.weight, self.epsilon = nn.Parameter(torch.ones(width)), epsilon

    def forward(self, x):
        return x * (x.square().mean(-1, keepdim=True) + self.epsilon).rsqrt() * self.weight


class Codebooks(nn.Module):
    """The tensors of a layer's `conversion` (README.md)."""

    def __init__(self, config: Config):
        super().__init__()
        kv_heads, codes, dim = config.kv_heads, config.conversion.codes, config.head_dim
        self.assign = nn.Parameter(torch.zeros(kv_heads, codes, dim))
        self.metric = nn.Parameter(torch.zeros(kv_heads, dim, dim))
        self.score = nn.Parameter(torch.zeros(kv_heads, codes, dim))
        self.map = nn.Parameter(torch.zeros(config.heads, dim, dim))
        self.bias = nn.Parameter(torch.zeros(config.heads))

    def scorer(self, head: int) -> attention.Scorer:
        """The Scorer of a kv head."""
        readers = len(self.bias) // len(self.score)
        own = slice(head * readers, (head + 1) * readers)
        return attention.Scorer(self.score[head], self.map[own], self.bias[own])


class Attention(nn.Module):
    by_sums = False  # whether heads with codes are computed in linear time, for training

    def __init__(self, config: Config, layer: int):
        super().__init__()
        self.config, self.layer = config, layer
        queries, keys = config.heads * config.head_dim, config.kv_heads * config.head_dim
        self.q_proj = nn.Linear(config.width, queries, bias=config.qkv_biases)
        self.k_proj = nn.Linear(config.width, keys, bias=config.qkv_biases)
        self.v_proj = nn.Linear(config.width, keys, bias=config.qkv_biases)
        self.o_proj = nn.Linear(queries, config.width, bias=config.output_bias)
        if config.head_norms:
            self.q_norm = RmsNorm(config.head_dim, config.epsilon)
            self.k_norm = RmsNorm(config.head_dim, config.epsilon)
        if config.conversion:
            self.conversion = Codebooks(config)

    def forward(self, x, positions: Positions, state: torch.dtype, codes=None):
        """x [T, D] after the norm -> ([T, D], codes int64 [G, T])"""
        mixed, used = [], []
        for number, heads in enumerate(self.heads(x)):
            found = None if codes is None else codes[number]
            if found is None and self.has_codes(number):
                found = codes_of(heads.keys, self.conversion.assign[number], self.conversion.metric[number])
            mixed.append(self.attend(number, heads, positions, state, found))
            used.append(torch.full((len(x),), NO_CODES) if found is None else found)
        return self.o_proj(torch.cat(mixed).transpose(0, 1).reshape(len(x), -1)), torch.stack(used)

    def heads(self, x) -> List[attention.Heads]:
        """The kv heads of x [T, D], each with the query heads that read it."""
        dim, kv_heads = self.config.head_dim, self.config.kv_heads
        queries = self.q_proj(x).unflatten(-1, (kv_heads, -1, dim))  # [T, G, r, K]
        keys = self.k_proj(x).unflatten(-1, (kv_heads, dim))
        values = self.v_proj(x).unflatten(-1, (kv_heads, dim))
        if self.config.head_norms:
            queries, keys = self.q_norm(queries), self.k_norm(keys)
        return [attention.Heads(queries[:, head].transpose(0, 1), keys[:, head], values[:, head]) for head in range(kv_heads)]

    def has_codes(self, head: int) -> bool:
        conversion = self.config.conversion
        return conversion is not None and (self.layer, head) not in conversion.grow

    def attend(self, head: int, heads: attention.Heads, positions: Positions, state: torch.dtype, codes) -> torch.Tensor:
        values = attention.rounded(heads.values, state)
        if self.by_sums and self.has_codes(head):
            ring, scorer = self.config.conversion.ring_of((self.layer, head)), self.conversion.scorer(head)
            return attention.attend_by_sums(heads, values, positions, state, ring, scorer, codes)
        return attention.attend(values, self.scores(head, heads, positions, state, codes))

    def scores(self, head: int, heads: attention.Heads, positions: Positions, state: torch.dtype, codes):
        conversion = self.config.conversion
        if conversion is None:
            return attention.all_exact(heads, positions, state)
        ring = conversion.ring_of((self.layer, head))
        if not self.has_codes(head):
            return attention.all_kept(heads, positions, state, ring)
        return attention.coded_beyond_ring(heads, positions, state, ring, self.conversion.scorer(head), codes)


class Mlp(nn.Module):
    def __init__(self, config: Config):
        super().__init__()
        self.gate_proj = nn.Linear(config.width, config.inner, bias=config.mlp_biases)
        self.up_proj = nn.Linear(config.width, config.inner, bias=config.mlp_biases)
        self.down_proj = nn.Linear(config.inner, config.width, bias=config.mlp_biases)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self, config: Config, number: int):
        super().__init__()
        self.input_layernorm = RmsNorm(config.width, config.epsilon)
        self.self_attn = Attention(config, number)
        self.post_attention_layernorm = RmsNorm(config.width, config.epsilon)
        self.mlp = Mlp(config)

    def forward(self, x, positions: Positions, state: torch.dtype, codes=None):
        attended, used = self.self_attn(self.input_layernorm(x), positions, state, codes)
        x = x + attended
        return x + self.mlp(self.post_attention_layernorm(x)), used


class Stack(nn.Module):
    def __init__(self, config: Config):
        super().__init__()
        self.embed_tokens = nn.Embedding(config.vocab, config.width)
        self.layers = nn.ModuleList([Layer(config, number) for number in range(config.layers)])
        self.norm = RmsNorm(config.width, config.epsilon)


class Model(nn.Module):
    """`state`: the dtype in which keys and values are kept, torch.float32 or torch.bfloat16."""

    def __init__(self, config: Config, state: torch.dtype = torch.float32):
        super().__init__()
        self.config, self.state = config, state
        self.frequencies = torch.from_numpy(frequencies(config.rope, config.head_dim))
        self.model = Stack(config)
        if not config.tied:
            self.lm_head = nn.Linear(config.width, config.vocab, bias=False)

    def convert(self, conversion: Conversion, codes: Dict[str, np.ndarray]) -> None:
        """Makes this a converted model with the same weights and with `codes`, tensors by the names of a codes file."""
        self.config = dataclasses.replace(self.config, conversion=conversion)
        for number, layer in enumerate(self.model.layers):
            layer.self_attn.config, layer.self_attn.conversion = self.config, Codebooks(self.config)
            for name, parameter in layer.self_attn.conversion.named_parameters():
                parameter.data = torch.from_numpy(codes[f"layers.{number}.{name}"])

    def forward(self, tokens: torch.Tensor, codes: Optional[List[torch.Tensor]] = None) -> Output:
        """tokens [T] begin a context. If `codes` are given, as in Output, they replace the codes of the keys."""
        conversion = self.config.conversion
        positions = Positions(self.frequencies, len(tokens), conversion.context if conversion else 0)
        x, used = self.model.embed_tokens(tokens), []
        for number, layer in enumerate(self.model.layers):
            x, found = layer(x, positions, self.state, None if codes is None else codes[number])
            used.append(found)
        return Output(self.model.norm(x), used)

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """The logits of rows of Output.hidden: row i is for the token after token i. [..., D] -> [..., vocab]"""
        return F.linear(hidden, self.model.embed_tokens.weight if self.config.tied else self.lm_head.weight)

    def log_probabilities(self, tokens: torch.Tensor, codes: Optional[List[torch.Tensor]] = None) -> torch.Tensor:
        """The log-probabilities of all rows, [T, vocab]."""
        return self.logits(self(tokens, codes).hidden).log_softmax(-1)
