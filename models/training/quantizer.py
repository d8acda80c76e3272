"""The codebook of one layer: straight-through keys, learned by exponential moving averages.

Codes nobody uses are revived: they move onto random keys of the current batch. A new codebook has all counts at
zero, so the first batch places every code.
"""

import torch
from torch import nn

MIN_COUNT = 0.01  # of the definition C = c_sum / max(c_count, 0.01)


class Quantizer(nn.Module):
    """G codebooks of S codes of width K. Sums and counts are buffers: gradients never touch them."""

    def __init__(self, n_kv_head: int, n_code: int, d_k: int, decay: float = 0.99):
        super().__init__()
        self.decay = decay
        # Counts are tokens per update in the long run; a code is dead below this part of the mean count.
        self.dead_below = 1.0 / 64
        self.revive_at = 1.0 / 8
        scale = MIN_COUNT * d_k ** -0.25
        self.register_buffer("sum", torch.randn(n_kv_head, n_code, d_k) * scale)
        self.register_buffer("count", torch.zeros(n_kv_head, n_code))

    def codebook(self) -> torch.Tensor:
        """[G, S, K]"""
        return self.sum / self.count.clamp(min=MIN_COUNT)[..., None]

    def assign(self, keys: torch.Tensor, codebook: torch.Tensor) -> torch.Tensor:
        """Nearest code of each key, the first on a tie. keys [B, G, T, K] -> [B, G, T] int64."""
        distance = codebook.square().sum(-1)[None, :, None, :] - 2 * keys @ codebook.transpose(-1, -2)
        return distance.argmin(-1)

    def forward(self, keys: torch.Tensor, codes=None):
        """keys [B, G, T, K] -> (codes [B, G, T], quantized keys with the gradient of keys, commitment loss).

        The loss is the mean over tokens of |k - C_z|^2, summed over heads. `codes` forces the assignment.
        """
        codebook = self.codebook()
        if codes is None:
            codes = self.assign(keys.detach(), codebook)
        group = torch.arange(codebook.shape[0], device=keys.device)[None, :, None]
        nearest = codebook[group, codes]  # [B, G, T, K]
        loss = (keys - nearest).square().sum(-1).mean((0, 2)).sum()
        return codes, keys + (nearest - keys).detach(), loss

    @torch.no_grad()
    def update(self, keys: torch.Tensor, codes: torch.Tensor, generator=None) -> int:
        """One step of the moving averages with a batch, then revival. Returns how many codes were revived."""
        return self.update_shares(keys, nn.functional.one_hot(codes, self.sum.shape[1]), generator)

    @torch.no_grad()
    def update_shares(self, keys: torch.Tensor, shares: torch.Tensor, generator=None) -> int:
        """The same where a key belongs to several codes: shares [B, G, T, S]."""
        keys = keys.detach().float().transpose(0, 1).flatten(1, 2)  # [G, B*T, K]
        shares = shares.transpose(0, 1).flatten(1, 2).to(keys.dtype)  # [G, B*T, S]
        self.sum.mul_(self.decay).add_(shares.transpose(1, 2) @ keys, alpha=1 - self.decay)
        self.count.mul_(self.decay).add_(shares.sum(1), alpha=1 - self.decay)
        return self._revive(keys, generator)

    def _revive(self, keys: torch.Tensor, generator) -> int:
        mean_count = keys.shape[1] / self.sum.shape[1]
        group, slot = (self.count < self.dead_below * mean_count).nonzero(as_tuple=True)
        if len(slot) == 0:
            return 0
        picks = torch.randint(keys.shape[1], (len(slot),), generator=generator).to(keys.device)
        self.count[group, slot] = self.revive_at * mean_count
        self.sum[group, slot] = keys[group, picks] * (self.revive_at * mean_count)
        return len(slot)
