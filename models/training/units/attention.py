"""Attention over quantized keys: the block-parallel linear form, and the quadratic form it must equal.

score(i, j) = q_i . k_j, causal; k_j is a codeword. Within the reach, i - j <= M, a score depends on the distance as well
(position_bias.py). Beyond it a score depends on j through its code alone. So older values enter as one mean for each code, with
the logarithm of their number as a bias (Transformer-VQ, Lingle 2023, theorem 3.7). Their keys get no gradient that way.
"""

import math
from typing import NamedTuple, Optional

import torch

from models.training.units.position_bias import at_least_float32, by_block


# The score of a position that may not be seen: its softmax weight is 0 in every precision. It is finite, since a softmax that
# reads a row piece by piece would compute exp(-inf - -inf) for a piece without any visible position.
NOT_THERE = -1e9


class LayerState(NamedTuple):
    """What a layer carries from one segment to the next. The recent part is P = ceil(M / L) * L positions long."""

    acc_sum: torch.Tensor  # [B, G, S, V] sum of retired values by code
    acc_count: torch.Tensor  # [B, G, S]
    code: torch.Tensor  # [B, G, P] codes of recent positions; S where there was no position yet
    value: torch.Tensor  # [B, G, P, V]


def initial_state(batch: int, config, dtype=torch.float32, device=None) -> LayerState:
    groups, codes, width = config.n_kv_head, config.n_code, config.d_v
    recent = recent_blocks(config) * config.block_len
    return LayerState(
        acc_sum=torch.zeros(batch, groups, codes, width, dtype=dtype, device=device),
        acc_count=torch.zeros(batch, groups, codes, dtype=dtype, device=device),
        code=torch.full((batch, groups, recent), codes, dtype=torch.long, device=device),
        value=torch.zeros(batch, groups, recent, width, dtype=dtype, device=device),
    )


def recent_blocks(config) -> int:
    """How many blocks before the current one its first position can reach."""
    return math.ceil(config.mem_len / config.block_len)


def block_attention(query, bias, codes, keys, values, codebook, state: LayerState, config, use_accumulator: bool = True):
    """Computes all blocks of a segment at once.

    query [B, H, T, K] is multiplied with all keys, bias is a class of position_bias.py, codes [B, G, T], keys [B, G, T, K] are
    quantized, values [B, G, T, V], codebook [G, S, K], T is a multiple of L. Returns ([B, H, T, V], the state after the segment).
    Without the accumulator, position i sees only i - M..i.
    """
    length, reach, n_code = config.block_len, config.mem_len, config.n_code
    batch, heads, tokens, _ = query.shape
    groups = config.n_kv_head
    blocks, before = tokens // length, recent_blocks(config)
    query = by_block(query, groups, length)
    group = torch.arange(groups, device=codes.device)[None, :, None]
    old_keys = codebook[group, state.code.clamp(max=n_code - 1)].to(keys.dtype)
    all_keys = torch.cat([old_keys, keys], 2).reshape(batch, groups, 1, before + blocks, length, -1)
    all_codes = torch.cat([state.code, codes], 2).reshape(batch, groups, before + blocks, length)
    all_values = torch.cat([state.value.to(values.dtype), values], 2)
    all_values = all_values.reshape(batch, groups, 1, before + blocks, length, -1)

    # Recent positions: the current block and those within reach. [B, G, Q, n, L, window]
    keys_at = [all_keys[:, :, :, o:o + blocks] for o in range(before + 1)]
    content = torch.cat([query @ part.transpose(-1, -2) for part in keys_at], -1)
    recent = bias.blocks(groups, length)(content, lambda: torch.cat(keys_at, -2))
    recent = recent + recent_mask(all_codes, blocks, before, length, reach, n_code, use_accumulator)[:, :, None]

    # All earlier positions, one row per code: sums and counts of what had left the recent part before each block.
    member = (all_codes[:, :, :blocks, :, None] == torch.arange(n_code, device=codes.device)).to(values.dtype)
    added = member.transpose(-1, -2) @ all_values[:, :, 0, :blocks]  # [B, G, n, S, V]
    sums = sums_before(added) + state.acc_sum[:, :, None].to(values.dtype)
    added_count = member.sum(-2, dtype=state.acc_count.dtype)  # [B, G, n, S]
    counts = added_count.cumsum(2) - added_count + state.acc_count[:, :, None]
    counts_seen = counts if use_accumulator else torch.zeros_like(counts)
    code_scores = at_least_float32(query @ codebook.to(query.dtype)[None, :, None, None].transpose(-1, -2))
    sizes = torch.where(counts_seen > 0, counts_seen.clamp(min=1).log(), torch.full_like(counts_seen, NOT_THERE))
    code_scores = code_scores + sizes[:, :, None, :, None, :]

    weights = torch.cat([code_scores, recent], -1).softmax(-1)
    mean_weights = weights[..., :n_code] / counts[:, :, None, :, None].clamp(min=1)
    output = mean_weights.to(values.dtype) @ sums[:, :, None]
    recent_weights = weights[..., n_code:].to(values.dtype)
    for o in range(before + 1):
        output = output + recent_weights[..., o * length:(o + 1) * length] @ all_values[:, :, :, o:o + blocks]
    new_state = LayerState(
        acc_sum=state.acc_sum + added.detach().sum(2, dtype=state.acc_sum.dtype),
        acc_count=state.acc_count + added_count.sum(2),
        code=all_codes[:, :, blocks:].flatten(2),
        value=all_values[:, :, 0, blocks:].flatten(2, 3).detach().to(state.value.dtype),
    )
    return output.reshape(batch, heads, tokens, -1), new_state


def recent_mask(all_codes, blocks, before, length, reach, n_code, use_accumulator):
    """0 where the window holds a position that may be seen, NOT_THERE elsewhere. [B, G, n, L, window] or broadcastable."""
    window = (before + 1) * length
    place = torch.arange(window, device=all_codes.device)
    distance = place[window - length:, None] - place
    allowed = distance >= 0 if use_accumulator else (distance >= 0) & (distance <= reach)
    exists = torch.cat([all_codes[:, :, o:o + blocks] for o in range(before + 1)], -1) < n_code  # [B, G, n, window]
    mask = torch.zeros((), device=all_codes.device).expand(*exists.shape[:3], length, window)
    return mask.masked_fill(~(allowed & exists[..., None, :]), NOT_THERE)


def sums_before(added: torch.Tensor) -> torch.Tensor:
    """Exclusive prefix sum over blocks, [B, G, n, S, V], as a product with a triangle of ones (fast in both passes)."""
    blocks = added.shape[2]
    triangle = torch.ones(blocks, blocks, dtype=added.dtype, device=added.device).tril(-1)
    return (triangle @ added.flatten(3)).unflatten(3, added.shape[3:])


def dense_attention(query, bias, keys, values, rows: int, reach: Optional[int] = None):
    """The definition, with a score for every pair of positions. The last T of n positions attend to themselves and all before
    them; `rows` rows of scores are computed at a time.

    query [B, H, T, K] is multiplied with all keys, bias is a class of position_bias.py, keys [B, G, n, K], values [B, G, n, V].
    Returns [B, H, T, V]. With a reach, position i sees only i - reach..i.
    """
    share = query.shape[1] // keys.shape[1]
    keys, values = keys.repeat_interleave(share, 1), values.repeat_interleave(share, 1)
    tokens, before = query.shape[2], keys.shape[2] - query.shape[2]
    outputs = []
    for begin in range(0, tokens, rows):
        end = min(begin + rows, tokens)
        seen = keys[:, :, :before + end]  # positions up to the last row's own
        content = query[:, :, begin:end] @ seen.transpose(-1, -2)
        scores = bias.rows(begin, end)(content, lambda seen=seen: seen)
        hidden = mask(before + begin, before + end, before + end, reach, scores.device)
        weights = scores.masked_fill(hidden, float("-inf")).softmax(-1).to(values.dtype)
        outputs.append(weights @ values[:, :, :before + end])
    return torch.cat(outputs, 2) if len(outputs) > 1 else outputs[0]


def mask(begin: int, end: int, seen: int, reach: Optional[int], device) -> torch.Tensor:
    """Which of the positions 0..seen-1 each of the positions begin..end-1 may not see. [end - begin, seen]"""
    distance = torch.arange(begin, end, device=device)[:, None] - torch.arange(seen, device=device)
    return (distance < 0) if reach is None else (distance < 0) | (distance > reach)
