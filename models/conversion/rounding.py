"""Rounds keys and values as the state does, which keeps them as float32 or bfloat16."""

import torch


class _Rounded(torch.autograd.Function):
    """Gradients pass through as if nothing were rounded."""

    @staticmethod
    def forward(_, x, dtype):
        return x.float().to(dtype).to(x.dtype)

    @staticmethod
    def backward(_, gradient):
        return gradient, None


def rounded(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return _Rounded.apply(x, dtype)
