"""Codewords that keys are assigned to: weighted k-means in the metric of the queries that meet far keys.

The metric is the root of those queries' second moments, so that a distance is the mean square of what a score is off. A key
weighs as much as the attention that it receives from beyond the ring. For all query heads of one kv head together.
"""

from typing import NamedTuple

import torch

from models.conversion.attention import Heads
from models.conversion.codebook import nearest
from models.conversion.rotation import Positions

RIDGE = 1e-3  # of the mean eigenvalue: directions that no query has keep a little weight
FLOOR = 1e-2  # of the mean weight: keys that nobody attends to have codes, too
ROUNDS = 8
QUERIES = 80  # of a text, at which it is seen what keys receive
KEYS = 1 << 14  # that words are found for at most: every other, or every third, of more


class Words(NamedTuple):
    assign: torch.Tensor  # A [S, K]
    metric: torch.Tensor  # P [K, K]


def root(moments: torch.Tensor) -> torch.Tensor:
    """The symmetric root of [K, K] with a ridge, in float64."""
    values, vectors = torch.linalg.eigh(moments.double())
    values = values.clamp(min=0)
    return (vectors * (values + RIDGE * values.mean()).sqrt()) @ vectors.T


def metric_of(texts: list, positions: list, ring: int) -> torch.Tensor:
    """Of Heads of some texts: the metric of their far queries."""
    far = torch.cat([at.beyond(ring).of(heads.queries)[:, ring:].flatten(0, 1) for heads, at in zip(texts, positions)]).double()
    return root(far.T @ far / len(far))


def received(heads: Heads, positions: Positions, ring: int) -> torch.Tensor:
    """-> [T], attention that each key gets from queries to which it is far; the sink, which has its own code, gets none."""
    length = len(heads.keys)
    at = torch.linspace(ring, length - 1, QUERIES).long()
    scores = positions.own[at].of(heads.queries[:, at]) @ positions.own.of(heads.keys).T * heads.factor
    apart = at[:, None] - torch.arange(length)
    weights = scores.masked_fill(apart < 0, -torch.inf).softmax(-1) * (apart >= ring)
    weights = weights.sum((0, 1))
    weights[0] = 0
    return weights


def find(texts: list, positions: list, ring: int, codes: int, generator: torch.Generator) -> Words:
    """The codewords of a kv head, of what it saw of some texts, each longer than the ring."""
    metric = metric_of(texts, positions, ring)
    step = -(-sum(len(heads.keys) for heads in texts) // KEYS)
    keys = torch.cat([heads.keys[1::step] for heads in texts]).double()
    weights = torch.cat([received(heads, at, ring)[1::step] for heads, at in zip(texts, positions)]).double()
    weights = weights / weights.mean().clamp(min=1e-30) + FLOOR
    words = k_means(keys @ metric, weights, codes, generator)
    return Words((words @ torch.linalg.inv(metric)).float(), metric.float())


def spread(points: torch.Tensor, weights: torch.Tensor, count: int, generator: torch.Generator) -> torch.Tensor:
    """Points to begin with, each drawn by how badly those before serve it (k-means++, Arthur and Vassilvitskii 2007)."""
    chosen = [int(torch.multinomial(weights, 1, generator=generator))]
    served = (points - points[chosen[0]]).square().sum(-1)
    while len(chosen) < count:
        badly = served * weights
        chosen.append(int(torch.multinomial(badly if badly.any() else weights, 1, generator=generator)))
        served = torch.minimum(served, (points - points[chosen[-1]]).square().sum(-1))
    return points[chosen].clone()


def k_means(points: torch.Tensor, weights: torch.Tensor, count: int, generator: torch.Generator) -> torch.Tensor:
    """points [N, K], N at least `count`, weights [N] -> [count, K]. Words without points move to the worst served ones."""
    words = spread(points, weights, count, generator)
    same = torch.eye(points.shape[-1], dtype=points.dtype)
    for left in reversed(range(ROUNDS)):
        codes = nearest(points, words, same)
        mass = torch.zeros(count, dtype=points.dtype).index_add_(0, codes, weights)
        sums = torch.zeros_like(words).index_add_(0, codes, points * weights[:, None])
        used = mass > 0
        words[used] = sums[used] / mass[used, None]
        empty = torch.nonzero(~used)[:, 0]
        if left and len(empty):  # after the last round they would have no points
            worst = ((points - words[codes]).square().sum(-1) * weights).topk(len(empty)).indices
            words[empty] = points[worst]
    return words
