"""Codewords that keys are assigned to: weighted k-means in the metric of the queries that meet far keys.

The metric is the root of those queries' second moments, so that a squared distance is the mean squared error of a score. The
weight of a key is the attention that it receives from queries for which it is beyond the ring. All query heads of a kv head count
together.
"""

from typing import NamedTuple

import torch

from models.conversion.attention import Heads
from models.conversion.codebook import nearest
from models.conversion.rotation import Positions

RIDGE = 1e-3  # times the mean eigenvalue: directions that no query has keep a little weight
FLOOR = 1e-2  # times the mean weight: keys that no query attends to have codes, too
ROUNDS = 8
QUERIES = 80  # queries of a text whose attention is measured for the weights of keys
KEYS = 1 << 14  # the most keys that are clustered; of more every second, or every third, and so on


class Words(NamedTuple):
    assign: torch.Tensor  # A [S, K]
    metric: torch.Tensor  # P [K, K]


def root(moments: torch.Tensor) -> torch.Tensor:
    """The symmetric square root of a matrix [K, K] with a ridge, in float64."""
    values, vectors = torch.linalg.eigh(moments.double())
    values = values.clamp(min=0)
    return (vectors * (values + RIDGE * values.mean()).sqrt()) @ vectors.T


def metric_of(texts: list, positions: list, ring: int) -> torch.Tensor:
    """The metric P of a kv head by its far queries; `texts` has its Heads for each text."""
    far = torch.cat([at.beyond(ring).of(heads.queries)[:, ring:].flatten(0, 1) for heads, at in zip(texts, positions)]).double()
    return root(far.T @ far / len(far))


def received(heads: Heads, positions: Positions, ring: int) -> torch.Tensor:
    """-> [T], the attention that each key gets from queries for which it is beyond the ring; 0 for the sink, which has its own
    code."""
    length = len(heads.keys)
    at = torch.linspace(ring, length - 1, QUERIES).long()
    scores = positions.own[at].of(heads.queries[:, at]) @ positions.own.of(heads.keys).T * heads.factor
    apart = at[:, None] - torch.arange(length)
    weights = scores.masked_fill(apart < 0, -torch.inf).softmax(-1) * (apart >= ring)
    weights = weights.sum((0, 1))
    weights[0] = 0
    return weights


def find(texts: list, positions: list, ring: int, codes: int, generator: torch.Generator) -> Words:
    """The codewords of a kv head. `texts` has its Heads for each text; each text must be longer than the ring."""
    metric = metric_of(texts, positions, ring)
    step = -(-sum(len(heads.keys) for heads in texts) // KEYS)
    keys = torch.cat([heads.keys[1::step] for heads in texts]).double()
    weights = torch.cat([received(heads, at, ring)[1::step] for heads, at in zip(texts, positions)]).double()
    weights = weights / weights.mean().clamp(min=1e-30) + FLOOR
    words = k_means(keys @ metric, weights, codes, generator)
    return Words((words @ torch.linalg.inv(metric)).float(), metric.float())


def spread(points: torch.Tensor, weights: torch.Tensor, count: int, generator: torch.Generator) -> torch.Tensor:
    """The first words: points, each drawn with a chance that grows with its squared distance to the nearest point drawn before
    (k-means++, Arthur and Vassilvitskii 2007)."""
    chosen = [int(torch.multinomial(weights, 1, generator=generator))]
    served = (points - points[chosen[0]]).square().sum(-1)
    while len(chosen) < count:
        badly = served * weights
        chosen.append(int(torch.multinomial(badly if badly.any() else weights, 1, generator=generator)))
        served = torch.minimum(served, (points - points[chosen[-1]]).square().sum(-1))
    return points[chosen].clone()


def k_means(points: torch.Tensor, weights: torch.Tensor, count: int, generator: torch.Generator) -> torch.Tensor:
    """points [N, K], N at least `count`, weights [N] -> words [count, K]. A word without points moves to a point that is far from
    its word."""
    words = spread(points, weights, count, generator)
    same = torch.eye(points.shape[-1], dtype=points.dtype)
    for left in reversed(range(ROUNDS)):
        codes = nearest(points, words, same)
        mass = torch.zeros(count, dtype=points.dtype).index_add_(0, codes, weights)
        sums = torch.zeros_like(words).index_add_(0, codes, points * weights[:, None])
        used = mass > 0
        words[used] = sums[used] / mass[used, None]
        empty = torch.nonzero(~used)[:, 0]
        if left and len(empty):  # in the last round no points would be assigned to them any more
            worst = ((points - words[codes]).square().sum(-1) * weights).topk(len(empty)).indices
            words[empty] = points[worst]
    return words
