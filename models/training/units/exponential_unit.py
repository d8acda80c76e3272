"""Two kinds of features that approximate softmax attention, in which a query and a key have the weight exp(q . k).

    soft codebook    f(q)_s = exp(q . C_s)    g(k)_s = softmax_s(-|k - C_s|^2 / (2 sigma^2))    F = S
    Performer        f(q)_s = exp(q . P_s)    g(k)_s = exp(k . P_s - |k|^2 / 2)

The first sees keys as a mixture of Gaussians around codes; hard quantization without a positional bias is its limit for
sigma -> 0. The second (Choromanski et al. 2021, lemma 1) is softmax attention in the limit of ever more rows P_s of
independent standard normal numbers; its error falls as their number to the power of -1/2.
"""

import torch

from models.training.config import ModelConfig
from models.training.units.feature_unit import FeatureUnit
from models.training.units.quantizer import Quantizer
from models.training.units.unit import rms


class ExponentialUnit(FeatureUnit):
    """Queries and keys have a fixed length, as in the softmax kinds, so that exp(q . k) is the weight of softmax attention."""

    def maps(self, query, keys, before):
        scale = self.config.d_k ** -0.25
        rows, features, seen = self.key_features(rms(keys) * scale)
        return exponentials(rms(query) * scale, rows, reached(features, before)), features, seen

    def key_features(self, keys):
        """-> the rows that queries are multiplied with [G, F, K], g(k) [B, G, T, F], what after_step takes"""
        raise NotImplementedError


class SoftCodebookUnit(ExponentialUnit):
    def __init__(self, config: ModelConfig):
        super().__init__(config)
        self.codebook = Quantizer(config.n_kv_head, config.n_code, config.d_k)

    def width(self) -> int:
        return self.config.n_code

    def key_features(self, keys):
        codebook = self.codebook.codebook().to(keys.dtype)
        shares = soft_assignment(keys, codebook, self.config.sigma)
        return codebook, shares, (keys.detach(), shares.detach())

    def after_step(self, seen, generator) -> torch.Tensor:
        return self.codebook.update_shares(*seen, generator)


class PerformerUnit(ExponentialUnit):
    def __init__(self, config: ModelConfig):
        super().__init__(config)
        self.register_buffer("features", torch.randn(config.n_kv_head, config.n_feature, config.d_k))

    def width(self) -> int:
        return self.config.n_feature

    def key_features(self, keys):
        directions = self.features.to(keys.dtype)
        return directions, positive_features(keys, directions), None


def reached(features: torch.Tensor, before=None) -> torch.Tensor:
    """Which features some key up to each position has: above 0, here or in `before` [B, G, F]. [B, G, T, F] -> the same, bool"""
    so_far = (features > 0).to(torch.uint8).cummax(2).values.bool()
    return so_far if before is None else so_far | (before > 0)[:, :, None]


def exponentials(query: torch.Tensor, rows: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
    """exp(q . row - m) for rows that are seen, and 0 for the others, which have no weight; m is the maximum of q . row over the
    rows that are seen. With the maximum over all rows, a row that no key is near could make all others 0.
    [B, H, T, K], [G, F, K], [B, G, T, F] -> [B, H, T, F]"""
    groups = rows.shape[0]
    scores = query.unflatten(1, (groups, -1)) @ rows[:, None].transpose(-1, -2)  # [B, G, Q, T, F]
    scores = scores.masked_fill(~seen[:, :, None], float("-inf"))
    return (scores - scores.amax(-1, keepdim=True)).exp().flatten(1, 2)


def soft_assignment(keys: torch.Tensor, codebook: torch.Tensor, sigma: float) -> torch.Tensor:
    """softmax_s(-|k - C_s|^2 / (2 sigma^2)). [B, G, T, K], [G, S, K] -> [B, G, T, S]"""
    distance = codebook.square().sum(-1)[:, None] - 2 * keys @ codebook.transpose(-1, -2)  # less |k|^2, which cancels
    return (-distance / (2 * sigma ** 2)).softmax(-1)


def positive_features(keys: torch.Tensor, directions: torch.Tensor) -> torch.Tensor:
    """exp(k . P_s - |k|^2 / 2). [B, G, T, K], [G, F, K] -> [B, G, T, F]"""
    return (keys @ directions.transpose(-1, -2) - keys.square().sum(-1, keepdim=True) / 2).exp()
