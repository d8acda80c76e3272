"""Fits the scores of a layer's codes: maps, codewords and biases with which its output is close to that with all keys.

Uses gradients of this layer alone, at random positions of texts of random length up to the trained context.
"""

import math
from typing import List, NamedTuple

import torch

from models.conversion.attention import Heads
from models.conversion.codebook import codes_of
from models.conversion.codewords import Words
from models.conversion.rotation import Positions

QUERIES = 32  # query positions of a step
BETAS = (0.9, 0.98)
MAP_RATE, WORD_RATE, BIAS_RATE = 3e-3, 0.01, 2e-2  # that of words is times the standard deviation of keys; rates fall to 0


class Scores(NamedTuple):
    """How a layer scores codes (README.md)."""

    score: torch.Tensor  # C [G, S, K]
    map: torch.Tensor  # M [H, K, K]
    bias: torch.Tensor  # b [H]


class Fitted(NamedTuple):
    scores: Scores
    before: float  # the mean relative error of the first fifth of the steps
    after: float  # the same of the last fifth


def fit(texts: List[List[Heads]], positions: List[Positions], words: List[Words], o_proj: torch.Tensor, ring: int, steps: int,
        generator: torch.Generator) -> Fitted:
    """`texts`: for each text the Heads of all kv heads; `words`: those of each kv head; o_proj [D, H K]."""
    readers, dim = len(texts[0][0].queries), texts[0][0].keys.shape[-1]
    score = torch.stack([word.assign for word in words]).clone().requires_grad_()
    maps = torch.eye(dim).repeat(len(words) * readers, 1, 1).requires_grad_()
    bias = torch.zeros(len(words) * readers, requires_grad=True)
    codes = [[codes_of(heads.keys, word.assign, word.metric) for heads, word in zip(text, words)] for text in texts]
    deviation = float(torch.cat([heads.keys.flatten() for heads in texts[0]]).std())
    rates = (MAP_RATE, WORD_RATE * deviation, BIAS_RATE)
    optimizer = torch.optim.Adam([{"params": [of], "lr": rate} for of, rate in zip((maps, score, bias), rates)], betas=BETAS)
    errors = []
    for step in range(steps):
        for group, rate in zip(optimizer.param_groups, rates):
            group["lr"] = rate * (1 - step / steps)
        text = step % len(texts)
        at, length = places(len(texts[text][0].keys), ring, generator)
        given = Scores(score, maps, bias)
        error = relative_error(texts[text], positions[text], codes[text], given, o_proj, ring, at, length)
        optimizer.zero_grad()
        error.backward()
        optimizer.step()
        errors.append(error.item())
    part = max(1, steps // 5)
    return Fitted(Scores(score.detach(), maps.detach(), bias.detach()), mean(errors[:part]), mean(errors[-part:]))


def mean(values: list) -> float:
    return sum(values) / len(values) if values else math.nan


def places(longest: int, ring: int, generator: torch.Generator) -> tuple:
    """-> (random positions of queries that have far keys, ascending; the text's length). The length's logarithm is uniform."""
    least = ring + QUERIES
    power = float(torch.rand((), generator=generator))
    length = min(longest, int(math.exp(math.log(least) + power * (math.log(longest + 1) - math.log(least)))))
    at = torch.randint(min(ring + 1, length - 1), length, (QUERIES,), generator=generator)
    return at.sort().values, length


def relative_error(text: List[Heads], positions: Positions, codes: list, scores: Scores, o_proj: torch.Tensor, ring: int,
                   at: torch.Tensor, length: int) -> torch.Tensor:
    """The squared error of the layer's output at the positions `at`, divided by the square of that output."""
    wanted, found = [], []
    for head, heads in enumerate(text):
        readers = slice(head * len(heads.queries), (head + 1) * len(heads.queries))
        own = Scores(scores.score[head], scores.map[readers], scores.bias[readers])
        exact, mixed = attended(heads, positions, codes[head], own, ring, at, length)
        wanted.append(exact)
        found.append(mixed)

    def output(mixed):
        return torch.cat(mixed).transpose(0, 1).flatten(1) @ o_proj.T

    with torch.no_grad():
        target = output(wanted)
    return (output(found) - target).square().sum() / target.square().sum()


def attended(heads: Heads, positions: Positions, codes: torch.Tensor, scores: Scores, ring: int, at: torch.Tensor,
             length: int) -> tuple:
    """-> (attention's output with all keys, and with codes beyond the ring), [r, n, K] each"""
    queries, keys, values = heads.queries[:, at], heads.keys[:length], heads.values[:length]
    apart = at[:, None] - torch.arange(length)
    with torch.no_grad():
        exact = positions.own[at].of(queries) @ positions.own[:length].of(keys).T * heads.factor
        exact = exact.masked_fill(apart < 0, -torch.inf)
        wanted = exact.softmax(-1) @ values
        sink = positions.at(ring).of(queries) @ keys[:1].T * heads.factor
    far = positions.beyond(ring)[at].of(queries) @ scores.map * heads.factor
    by_code = torch.cat([far @ scores.score.T + scores.bias[:, None, None], sink], -1)
    coded = by_code.gather(-1, codes[:length].expand(*by_code.shape[:2], -1))
    return wanted, torch.where(apart >= ring, coded, exact).softmax(-1) @ values
