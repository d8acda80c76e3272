"""How scores of positions within the reach M depend on the distance d = i - j (docs/mathematics.md).

A class here adds the bias to scores. It is called with content [..., R, W], the scores of the window's last R positions without
the bias, as they are beyond the reach, and with a function that gives the keys of the W positions [..., W, K].
"""

from typing import NamedTuple

import torch
from torch.nn import functional as F


def at_least_float32(x: torch.Tensor) -> torch.Tensor:
    return x.float() if x.dtype == torch.bfloat16 else x


def by_block(x: torch.Tensor, groups: int, length: int) -> torch.Tensor:
    """[B, H, T, X] -> [B, G, H/G, n, L, X]"""
    return x.unflatten(2, (-1, length)).unflatten(1, (groups, -1))


def relative_scores(x: torch.Tensor, window: int) -> torch.Tensor:
    """Moves scores by distance to their positions in a window.

    x [..., R, M+1], where x[i, e] belongs to the distance M - e. Result [..., R, window]: entry (i, j) belongs to the
    distance (window - R) + i - j and is 0 where that is outside 0..M. Padding and reshaping shifts row i by i; a gather
    would do the same with a slow backward pass.
    """
    *leading, rows, reach = x.shape
    x = F.pad(x, (window - rows - (reach - 1), rows))  # [..., R, window + 1]
    return x.flatten(-2)[..., : rows * window].reshape(*leading, rows, window)


class NoBias:
    """Leaves scores as they are."""

    def rows(self, begin: int, end: int) -> "NoBias":
        return self

    def __call__(self, content: torch.Tensor, keys) -> torch.Tensor:
        return at_least_float32(content)


class ByDistance(NamedTuple):
    """Adds query_i . keys[d]."""

    query: torch.Tensor  # [B, H, R, X] or, by block, [B, G, H/G, n, L, X]
    keys: torch.Tensor  # [H, M+1, X] or [G, H/G, 1, M+1, X], by distance M..0

    def rows(self, begin: int, end: int) -> "ByDistance":
        return self._replace(query=self.query[:, :, begin:end])

    def blocks(self, groups: int, length: int) -> "ByDistance":
        return ByDistance(by_block(self.query, groups, length), self.keys.unflatten(0, (groups, -1))[:, :, None])

    def __call__(self, content: torch.Tensor, keys) -> torch.Tensor:
        rows, window = content.shape[-2:]
        reach = min(self.keys.shape[-2], window) - 1
        before = max(0, rows + reach - window)  # so many positions ahead of the window are within a row's reach
        scores = at_least_float32(self.query @ self.keys[..., -1 - reach:, :].transpose(-1, -2))
        return at_least_float32(content) + relative_scores(scores, before + window)[..., before:]


class Rotated(NamedTuple):
    """query_i . Rot(d) k_j in place of query_i . Rot(M) k_j."""

    query: torch.Tensor  # [B, H, R, K] or, by block, [B, G, H/G, n, L, K]
    reach: int
    wavelength: float

    def rows(self, begin: int, end: int) -> "Rotated":
        return self._replace(query=self.query[:, :, begin:end])

    def blocks(self, groups: int, length: int) -> "Rotated":
        return self._replace(query=by_block(self.query, groups, length))

    def far(self) -> torch.Tensor:
        """The queries turned by -M: multiplied with keys that are not turned, they give the scores beyond the reach."""
        return rotated(self.query, torch.full((1,), -self.reach, device=self.query.device), self.wavelength)

    def __call__(self, content: torch.Tensor, keys) -> torch.Tensor:
        rows, window = content.shape[-2:]
        place = torch.arange(window, device=content.device)
        query = rotated(self.query, -place[window - rows:], self.wavelength)
        near = query @ rotated(keys(), -place, self.wavelength).transpose(-1, -2)
        distance = place[window - rows:, None] - place
        within = (distance >= 0) & (distance <= self.reach)
        return torch.where(within, at_least_float32(near), at_least_float32(content))


def rotated(x: torch.Tensor, turns: torch.Tensor, wavelength: float) -> torch.Tensor:
    """Rot(turns) x, x [..., T, K], turns [T]: entries c and K/2 + c are turned by turns / wavelength^(2c/K)."""
    half = x.shape[-1] // 2
    frequency = wavelength ** -(torch.arange(half, dtype=torch.float64, device=x.device) / half)
    angle = turns.double()[:, None] * frequency
    cos, sin = angle.cos().to(x), angle.sin().to(x)
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * cos - b * sin, a * sin + b * cos], -1)
