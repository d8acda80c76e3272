"""The codebook of one layer, learned by exponential moving averages; gradients pass straight through to the keys.

Codes that no key uses are revived: they move onto random keys of the current batch. A new codebook has all counts at
zero, so the first batch places every code.
"""

import torch
from torch import nn

MIN_COUNT = 0.01  # from the definition C = c_sum / max(c_count, 0.01)


class Quantizer(nn.Module):
    """G codebooks of S codes of width K. Sums and counts are buffers: gradients never touch them."""

    def __init__(self, n_kv_head: int, n_code: int, d_k: int, decay: float = 0.99):
        super().__init__()
        self.decay = decay
        # A count approaches the tokens of its code per update; below this part of the mean count a code is dead.
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
    def update(self, keys: torch.Tensor, codes: torch.Tensor, generator=None) -> torch.Tensor:
        """One step of the moving averages with a batch, then revival. Returns how many codes were revived, int64 without
        axes. Nothing here waits for the device."""
        slots = torch.arange(self.sum.shape[1], device=codes.device)
        return self.update_shares(keys, codes[..., None] == slots, generator)

    @torch.no_grad()
    def update_shares(self, keys: torch.Tensor, shares: torch.Tensor, generator=None) -> torch.Tensor:
        """The same for keys that belong to several codes, by shares [B, G, T, S]."""
        keys = keys.detach().float()
        shares = shares.to(keys.dtype)
        self.sum.mul_(self.decay).add_((shares.transpose(-1, -2) @ keys).sum(0), alpha=1 - self.decay)
        self.count.mul_(self.decay).add_(shares.sum((0, 2)), alpha=1 - self.decay)
        return self._revive(keys, generator)

    def _revive(self, keys: torch.Tensor, generator) -> torch.Tensor:
        """Draws a key for every code but gives it only to dead ones, so that shapes do not depend on how many are dead."""
        batch, groups, tokens, _ = keys.shape
        mean_count = batch * tokens / self.sum.shape[1]
        dead = self.count < self.dead_below * mean_count  # [G, S]
        picks = torch.randint(batch * tokens, dead.shape, generator=generator, device=keys.device)
        picked = keys[picks // tokens, torch.arange(groups, device=keys.device)[:, None], picks % tokens]  # [G, S, K]
        self.count.masked_fill_(dead, self.revive_at * mean_count)
        self.sum.copy_(torch.where(dead[..., None], picked * (self.revive_at * mean_count), self.sum))
        return dead.sum()
