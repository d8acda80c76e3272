"""k-means of keys into codes, with spread-out first centres (k-means++, Arthur and Vassilvitskii 2007)."""

from typing import NamedTuple

import torch

ROWS = 8192  # keys whose distances are computed at a time


class Clusters(NamedTuple):
    centres: torch.Tensor  # [S, K]
    sizes: torch.Tensor  # [S], the number of keys of each centre
    distance: float  # mean squared distance of a key to its centre


def kmeans(keys: torch.Tensor, n_code: int, rounds: int, generator) -> Clusters:
    """keys [N, K], N >= n_code. ValueError where there are fewer keys than codes."""
    if len(keys) < n_code:
        raise ValueError(f"{len(keys)} keys do not make {n_code} codes")
    centres = spread_out(keys, n_code, generator)
    for _ in range(rounds):
        nearest, distance = assign(keys, centres)
        sizes = torch.bincount(nearest, minlength=n_code)
        sums = torch.zeros_like(centres).index_add_(0, nearest, keys)
        centres = sums / sizes.clamp(min=1)[:, None].to(keys.dtype)
        empty = (sizes == 0).nonzero()[:, 0]
        centres[empty] = keys[distance.argsort(descending=True)[:len(empty)]]  # they move to the worst served keys
    nearest, distance = assign(keys, centres)
    return Clusters(centres, torch.bincount(nearest, minlength=n_code), float(distance.mean()))


def spread_out(keys: torch.Tensor, n_code: int, generator) -> torch.Tensor:
    """Picks keys one by one, each with a chance proportional to its squared distance to the nearest key picked before."""
    picks = [int(torch.randint(len(keys), (), generator=generator))]
    distance = (keys - keys[picks[0]]).square().sum(-1)
    while len(picks) < n_code:
        edges = distance.double().cumsum(0).cpu()
        at = torch.rand((), generator=generator, dtype=torch.float64) * edges[-1]
        picks.append(min(int(torch.searchsorted(edges, at, right=True)), len(keys) - 1))
        distance = torch.minimum(distance, (keys - keys[picks[-1]]).square().sum(-1))
    return keys[picks].clone()


def assign(keys: torch.Tensor, centres: torch.Tensor):
    """-> (nearest centre of each key [N], squared distance to it [N])"""
    nearest, distance = [], []
    for rows in keys.split(ROWS):
        found = (centres.square().sum(-1) - 2 * rows @ centres.T).min(-1)
        nearest.append(found.indices)
        distance.append((found.values + rows.square().sum(-1)).clamp(min=0))
    return torch.cat(nearest), torch.cat(distance)
