"""The code of each key: the nearest of S codewords in a metric that belongs to the kv head."""

import torch

ROWS = 1024  # keys at a time


@torch.no_grad()
def nearest(keys: torch.Tensor, assign: torch.Tensor, metric: torch.Tensor) -> torch.Tensor:
    """argmin over j of |(k - A_j) P|^2, the first on ties. keys [T, K], A [S, K], P [K, K] -> int64 [T]; in float64."""
    words = assign.double() @ metric.double()
    squares = words.square().sum(-1)
    return torch.cat([(squares - 2 * (part.double() @ metric.double()) @ words.T).argmin(-1) for part in keys.split(ROWS)])


def codes_of(keys: torch.Tensor, assign: torch.Tensor, metric: torch.Tensor) -> torch.Tensor:
    """The codes of a sequence from position 0 on. Position 0, the sink, has code S."""
    codes = nearest(keys, assign, metric)
    codes[0] = len(assign)
    return codes
