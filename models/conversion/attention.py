"""Attention of one kv head in its quadratic form: every query meets every key before it, in blocks of queries.

Three kinds of scores, each a callable (begin, end) -> [r, end - begin, end], of the queries of a block and all keys before
its end, -infinity of keys ahead of a query. README.md has the formulas.
"""

from typing import Callable, NamedTuple

import torch

from models.conversion.rotation import Positions
from models.conversion.rounding import rounded

BLOCK = 128  # queries at a time: at 12,000 keys the scores of three query heads take 37 MB


class Heads(NamedTuple):
    """A kv head and the r query heads that read it, after biases and norms, before rotation."""

    queries: torch.Tensor  # [r, T, K]
    keys: torch.Tensor  # [T, K]
    values: torch.Tensor  # [T, K]

    @property
    def factor(self) -> float:
        return self.keys.shape[-1] ** -0.5


class Scorer(NamedTuple):
    """How a kv head scores keys by their codes; map and bias are of the query heads that read it."""

    words: torch.Tensor  # C [S, K]
    map: torch.Tensor  # M [r, K, K]
    bias: torch.Tensor  # b [r]


def attend(values: torch.Tensor, scores: Callable) -> torch.Tensor:
    """values [T, K], as the state has them -> [r, T, K]"""
    length = len(values)
    blocks = []
    for begin in range(0, length, BLOCK):
        end = min(begin + BLOCK, length)
        blocks.append(scores(begin, end).softmax(-1) @ values[:end])
    return torch.cat(blocks, 1)


def distances(begin: int, end: int, first_key: int, last_key: int) -> torch.Tensor:
    """t - u of the queries t from begin to end and the keys u from first_key to last_key."""
    return torch.arange(begin, end)[:, None] - torch.arange(first_key, last_key)


def without_ahead(scores: torch.Tensor, begin: int, end: int) -> torch.Tensor:
    """Scores of queries from begin to end, whose last key is that of the last query."""
    return scores.masked_fill(distances(begin, end, end - scores.shape[-1], end) < 0, -torch.inf)


def all_exact(heads: Heads, positions: Positions, state: torch.dtype) -> Callable:
    """Softmax attention: every key is scored exactly."""
    queries = positions.own.of(heads.queries) * heads.factor
    keys = rounded(positions.own.of(heads.keys), state)
    return lambda begin, end, first_key=0: without_ahead(queries[:, begin:end] @ keys[first_key:end].T, begin, end)


def coded_beyond_ring(heads: Heads, positions: Positions, state: torch.dtype, ring: int, scorer: Scorer,
                      codes: torch.Tensor) -> Callable:
    """The last `ring` keys exactly, those before by their codes [T]."""
    exact = all_exact(heads, positions, state)
    far = positions.beyond(ring).of(heads.queries) @ scorer.map * heads.factor
    sink = positions.at(ring).of(heads.queries) @ heads.keys[0] * heads.factor  # [r, T]

    def scores(begin: int, end: int) -> torch.Tensor:
        first, dropped = max(0, begin - ring + 1), max(0, end - ring)  # the first query's oldest key, the last one's
        near = exact(begin, end, first)
        by_code = torch.cat([far[:, begin:end] @ scorer.words.T + scorer.bias[:, None, None], sink[:, begin:end, None]], -1)
        coded = by_code.index_select(-1, codes[:dropped])
        some_have = dropped - first  # keys that some of the queries have in their ring
        beyond = distances(begin, end, first, dropped) >= ring
        mixed = torch.where(beyond, coded[..., first:], near[..., :some_have])
        return torch.cat([coded[..., :first], mixed, near[..., some_have:]], -1)

    return scores


def all_kept(heads: Heads, positions: Positions, state: torch.dtype, ring: int) -> Callable:
    """Keys are kept for ever, rotated and not. Queries from the trained context on meet those beyond the ring by the mean."""
    exact, kept = all_exact(heads, positions, state), rounded(heads.keys, state)
    far = positions.beyond(ring).of(heads.queries) * heads.factor

    def scores(begin: int, end: int) -> torch.Tensor:
        turned = exact(begin, end)
        if end <= positions.context:
            return turned
        late = (torch.arange(begin, end) >= positions.context)[:, None]
        return torch.where(late & (distances(begin, end, 0, end) >= ring), far[:, begin:end] @ kept[:end].T, turned)

    return scores
