"""Attention of one kv head, in blocks of queries.

In the quadratic form every query is multiplied with every key up to its own position. There are three kinds of scores. Each is a
callable (begin, end) -> [r, end - begin, end], for the queries begin..end-1 of a block and all keys before `end`; the score of a
key at a later position than its query is -infinity. README.md has the formulas. attend_by_sums() takes linear time.
"""

from typing import Callable, NamedTuple

import torch

from models.conversion.rotation import Positions
from models.conversion.rounding import rounded

BLOCK = 128  # queries at a time: with 12,000 keys the scores of three query heads take 37 MB


class Heads(NamedTuple):
    """Queries, keys and values of a kv head and the r query heads that read it, after biases and norms, before rotation."""

    queries: torch.Tensor  # [r, T, K]
    keys: torch.Tensor  # [T, K]
    values: torch.Tensor  # [T, K]

    @property
    def factor(self) -> float:
        return self.keys.shape[-1] ** -0.5


class Scorer(NamedTuple):
    """How keys of a kv head are scored by their codes. map and bias are for the query heads that read it."""

    words: torch.Tensor  # C [S, K]
    map: torch.Tensor  # M [r, K, K]
    bias: torch.Tensor  # b [r]


def attend(values: torch.Tensor, scores: Callable) -> torch.Tensor:
    """values [T, K], rounded as in the state; scores: see above -> [r, T, K]"""
    length = len(values)
    blocks = []
    for begin in range(0, length, BLOCK):
        end = min(begin + BLOCK, length)
        blocks.append(scores(begin, end).softmax(-1) @ values[:end])
    return torch.cat(blocks, 1)


def attend_by_sums(heads: Heads, values: torch.Tensor, positions: Positions, state: torch.dtype, ring: int, scorer: Scorer,
                   codes: torch.Tensor) -> torch.Tensor:
    """attend() with coded_beyond_ring() in linear time: positions that no query of a block has in its ring enter as one sum of
    values for each code."""
    exact, by_code = all_exact(heads, positions, state), scores_by_code(heads, positions, ring, scorer)
    words = len(scorer.words) + 1
    counts, sums, summed = values.new_zeros(words), values.new_zeros(words, values.shape[-1]), 0
    blocks = []
    for begin in range(0, len(values), BLOCK):
        end = min(begin + BLOCK, len(values))
        first, dropped = kept_by(begin, end, ring)
        leaving = slice(summed, first)
        counts = counts.index_add(0, codes[leaving], values.new_ones(first - summed))
        sums, summed = sums.index_add(0, codes[leaving], values[leaving]), first
        coded, near = by_code(begin, end), exact(begin, end, first)
        mixed = mixed_scores(coded, near, codes[first:dropped], begin, end, first, ring)
        weights = torch.cat([coded + counts.log(), mixed], -1).softmax(-1)
        blocks.append(weights[..., :words] @ (sums / counts.clamp(min=1)[:, None]) + weights[..., words:] @ values[first:end])
    return torch.cat(blocks, 1)


def distances(begin: int, end: int, first_key: int, last_key: int) -> torch.Tensor:
    """t - u of the queries t from begin to end and the keys u from first_key to last_key."""
    return torch.arange(begin, end)[:, None] - torch.arange(first_key, last_key)


def without_ahead(scores: torch.Tensor, begin: int, end: int) -> torch.Tensor:
    """scores [..., n, keys] of the queries begin..end-1; the last key is that of the last query. Keys at later positions than a
    query get -infinity."""
    return scores.masked_fill(distances(begin, end, end - scores.shape[-1], end) < 0, -torch.inf)


def all_exact(heads: Heads, positions: Positions, state: torch.dtype) -> Callable:
    """Softmax attention: every key is scored exactly."""
    queries = positions.own.of(heads.queries) * heads.factor
    keys = rounded(positions.own.of(heads.keys), state)
    return lambda begin, end, first_key=0: without_ahead(queries[:, begin:end] @ keys[first_key:end].T, begin, end)


def coded_beyond_ring(heads: Heads, positions: Positions, state: torch.dtype, ring: int, scorer: Scorer,
                      codes: torch.Tensor) -> Callable:
    """The last `ring` keys are scored exactly, those before by their codes [T]."""
    exact, by_code = all_exact(heads, positions, state), scores_by_code(heads, positions, ring, scorer)

    def scores(begin: int, end: int) -> torch.Tensor:
        first, dropped = kept_by(begin, end, ring)
        coded = by_code(begin, end)
        mixed = mixed_scores(coded, exact(begin, end, first), codes[first:dropped], begin, end, first, ring)
        return torch.cat([coded.index_select(-1, codes[:first]), mixed], -1)

    return scores


def scores_by_code(heads: Heads, positions: Positions, ring: int, scorer: Scorer) -> Callable:
    """-> a callable (begin, end) -> [r, end - begin, S + 1], the scores of codes; the last is that of the sink."""
    far = positions.beyond(ring).of(heads.queries) @ scorer.map * heads.factor
    sink = positions.at(ring).of(heads.queries) @ heads.keys[0] * heads.factor  # [r, T]
    return lambda begin, end: torch.cat([far[:, begin:end] @ scorer.words.T + scorer.bias[:, None, None],
                                         sink[:, begin:end, None]], -1)


def kept_by(begin: int, end: int, ring: int) -> tuple:
    """-> (the oldest key in the ring of a block's first query, the oldest key in the ring of its last query)"""
    return max(0, begin - ring + 1), max(0, end - ring)


def mixed_scores(by_code: torch.Tensor, near: torch.Tensor, codes: torch.Tensor, begin: int, end: int, first: int,
                 ring: int) -> torch.Tensor:
    """The scores of keys from `first` on: exact within a query's ring, by code beyond it. near [r, n, end - first] has the exact
    ones; `codes` are those of the first keys, which not all queries have in their ring."""
    beyond = distances(begin, end, first, first + len(codes)) >= ring
    return torch.cat([torch.where(beyond, by_code.index_select(-1, codes), near[..., :len(codes)]), near[..., len(codes):]], -1)


def all_kept(heads: Heads, positions: Positions, state: torch.dtype, ring: int) -> Callable:
    """All keys are kept, rotated and not rotated. Queries from the trained context on meet keys beyond the ring by the mean of
    rotations (rotation.py)."""
    exact, kept = all_exact(heads, positions, state), rounded(heads.keys, state)
    far = positions.beyond(ring).of(heads.queries) * heads.factor

    def scores(begin: int, end: int) -> torch.Tensor:
        turned = exact(begin, end)
        if end <= positions.context:
            return turned
        late = (torch.arange(begin, end) >= positions.context)[:, None]
        return torch.where(late & (distances(begin, end, 0, end) >= ring), far[:, begin:end] @ kept[:end].T, turned)

    return scores
