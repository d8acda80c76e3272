"""What the softmax kinds share: queries and keys of fixed length, and the positional bias within the reach M."""

import torch
from torch import nn

from models.training.config import ModelConfig
from models.training.units.position_bias import ByDistance, Rotated
from models.training.units.unit import Unit, heads, linear, rms, sinusoid


class RelativeUnit(Unit):
    def __init__(self, config: ModelConfig):
        super().__init__(config)
        self.q_proj = linear(config.d_model, config.n_head * config.d_k)
        self.k_proj = linear(config.d_model, config.n_kv_head * config.d_k)
        self.form = config.position_bias or "relative"
        if self.form == "relative":
            self.r_proj = linear(config.d_model, config.n_head * config.d_k)
            self.u = nn.Parameter(torch.zeros(config.n_head, config.d_k))
            self.w = nn.Parameter(torch.zeros(config.n_head, config.d_k))
            distances = torch.arange(config.mem_len, -1, -1)
            table = sinusoid(distances, config.d_model, config.pe_lam)
            self.register_buffer("distance_table", table, persistent=False)  # [M+1, D], distance M first
        elif self.form == "toeplitz":
            self.distance_bias = nn.Parameter(torch.zeros(config.n_head, config.mem_len + 1))  # by distance 0..M

    def project(self, normed):
        """-> queries for the keys of all positions [B, H, T, K]; the bias for positions within reach; keys [B, G, T, K]"""
        config = self.config
        scale = config.d_k ** -0.25
        query = rms(heads(self.q_proj(normed), config.n_head)) * scale
        keys = rms(heads(self.k_proj(normed), config.n_kv_head)) * scale
        if self.form == "toeplitz":
            return query, ByDistance(torch.ones_like(query[..., :1]), self.distance_bias.flip(-1)[..., None]), keys
        if self.form == "rerope":
            bias = Rotated(query, config.mem_len, config.pe_lam)
            return bias.far(), bias, keys
        positions = self.r_proj(self.distance_table.to(self.r_proj.weight.dtype)) * scale
        positions = positions.unflatten(-1, (config.n_head, config.d_k)).transpose(0, 1)
        return query + self.u[:, None] * scale, ByDistance(query + self.w[:, None] * scale, positions), keys
