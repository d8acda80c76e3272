"""Rotations of queries and keys: by a position, and by the mean of the rotations of all distances beyond a ring."""

from typing import NamedTuple

import torch


class Rotation(NamedTuple):
    """For each pair of numbers the cosine and sine of an angle, or means of these. [..., R/2]"""

    cos: torch.Tensor
    sin: torch.Tensor

    def __getitem__(self, rows) -> "Rotation":
        return Rotation(self.cos[rows], self.sin[rows])

    def of(self, x: torch.Tensor) -> torch.Tensor:
        """Rotates x [..., K], K at least R: pairs are (i, i + R/2); numbers from R on do not change."""
        half = self.cos.shape[-1]
        first, second, rest = x[..., :half], x[..., half:2 * half], x[..., 2 * half:]
        cos, sin = self.cos.to(x.dtype), self.sin.to(x.dtype)
        return torch.cat([first * cos - second * sin, second * cos + first * sin, rest], -1)


def by_position(frequencies: torch.Tensor, positions: torch.Tensor) -> Rotation:
    """The rotations by positions. Angles are in float64; their cosines and sines are rounded to float32."""
    angles = positions.double()[:, None] * frequencies.double()
    return Rotation(angles.cos().float(), angles.sin().float())


def mean_beyond(frequencies: torch.Tensor, ring: int, context: int) -> Rotation:
    """The rotations of queries that meet keys which their ring has dropped. The query at t takes row
    min(max(t, ring), t of the last row) - ring.

    A row is the mean of e^(i theta d) over the distances d from `ring` to min(t, context - 1), each with weight 1/d. Rows begin
    at t = ring; the last holds for all later t. Sums are in float64, rounded to float32.
    """
    distances = torch.arange(ring, max(context, ring + 1), dtype=torch.float64)[:, None]
    angles, weights = distances * frequencies.double(), 1 / distances
    total = weights.cumsum(0)
    return Rotation(((angles.cos() * weights).cumsum(0) / total).float(), ((angles.sin() * weights).cumsum(0) / total).float())


class Positions:
    """The rotations of the positions 0 .. length - 1 of a sequence."""

    def __init__(self, frequencies: torch.Tensor, length: int, context: int = 0):
        self.frequencies, self.length, self.context = frequencies, length, context
        self.own = by_position(frequencies, torch.arange(length))
        self._beyond = {}

    def at(self, distance: int) -> Rotation:
        """The rotation by one distance, [1, R/2]."""
        return by_position(self.frequencies, torch.tensor([distance]))

    def beyond(self, ring: int) -> Rotation:
        """For a query at each position the rotation with which it meets keys that its ring has dropped, [length, R/2]."""
        if ring not in self._beyond:
            table = mean_beyond(self.frequencies, ring, self.context)
            self._beyond[ring] = table[(torch.arange(self.length) - ring).clamp(0, len(table.cos) - 1)]
        return self._beyond[ring]
