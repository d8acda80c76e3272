"""What a source of training data hands to the trainer."""

from typing import NamedTuple, Optional

import torch


class Batch(NamedTuple):
    """One step's rows. Token t of a row is the input at t and, but for the first, the target at t - 1."""

    tokens: torch.Tensor  # int64 [B, T+1]
    context: Optional[int] = None  # which carried context the rows continue; None: every row is a whole sequence
    fresh: bool = True  # the context begins here
    asked: slice = slice(None)  # of the targets, those that count in the loss
