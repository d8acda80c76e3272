"""A converted model token by token, from the formulas of models/conversion/README.md: a count and a sum for each code, a ring."""

import collections

import numpy as np
import torch

from models.conversion.model import NO_CODES


def turn(x, factors):
    """x [..., K] with its pairs as complex numbers times `factors` [R/2]"""
    half = len(factors)
    pairs = (x[..., :half] + 1j * x[..., half:2 * half]) * factors
    return np.concatenate([pairs.real, pairs.imag, x[..., 2 * half:]], -1)


class KvHead:
    """One kv head of a layer and its state. `round` is what the state does to numbers."""

    def __init__(self, attention, number, frequencies, round):
        self.config, self.number, self.round = attention.config, number, round
        conversion, head = self.config.conversion, (attention.layer, number)
        self.ring, self.context, self.grows = conversion.ring_of(head), conversion.context, head in conversion.grow
        self.frequencies = frequencies.astype(np.float64)
        tensors = {name: value.detach().numpy() for name, value in attention.conversion.named_parameters()}
        readers = self.config.heads // self.config.kv_heads
        own = slice(number * readers, (number + 1) * readers)
        self.assign, self.metric, self.score = (tensors[name][number] for name in ("assign", "metric", "score"))
        self.map, self.bias = tensors["map"][own], tensors["bias"][own]
        self.position, self.kept, self.means = 0, collections.deque(), {}
        self.counts = np.zeros(conversion.codes + 1)
        self.sums = np.zeros((conversion.codes + 1, self.config.head_dim))

    def rotation(self, t):
        turned = np.exp(1j * t * self.frequencies)
        return turned.real.astype(np.float32) + 1j * turned.imag.astype(np.float32).astype(np.float64)

    def mean_rotation(self, t):
        last = max(self.ring, min(t, self.context - 1))
        if last not in self.means:
            self.means[last] = self.mean_of(range(self.ring, last + 1))
        return self.means[last]

    def mean_of(self, distances):
        mean = sum(np.exp(1j * self.frequencies * d) / d for d in distances) / sum(1 / d for d in distances)
        return mean.real.astype(np.float32) + 1j * mean.imag.astype(np.float32).astype(np.float64)

    def step(self, queries, key, value):
        """queries [r, K], key and value [K] -> (output [r, K], the key's code)"""
        return self.grow_step(queries, key, value) if self.grows else self.code_step(queries, key, value)

    def code_step(self, queries, key, value):
        t, factor = self.position, len(key) ** -0.5
        self.position += 1
        if t == 0:
            self.sink, code = key, len(self.assign)
        else:
            code = int((((key - self.assign) @ self.metric) ** 2).sum(-1).argmin())
        if len(self.kept) == self.ring:
            _, old_value, old_code = self.kept.popleft()
            self.counts[old_code] += 1
            self.sums[old_code] += old_value
        self.kept.append((self.round(turn(key, self.rotation(t))), self.round(value), code))
        keys, values = (np.stack(kept) for kept in list(zip(*self.kept))[:2])
        mean, own, at_ring, outputs = self.mean_rotation(t), self.rotation(t), self.rotation(self.ring), []
        for query, mapping, bias in zip(queries, self.map, self.bias):
            far = turn(query, mean) @ mapping
            by_code = np.append(factor * self.score @ far + bias, factor * turn(query, at_ring) @ self.sink)
            near = np.exp(factor * keys @ turn(query, own))
            mass = self.counts @ np.exp(by_code) + near.sum()
            outputs.append((np.exp(by_code) @ self.sums + near @ values) / mass)
        return np.array(outputs), code

    def grow_step(self, queries, key, value):
        t, factor = self.position, len(key) ** -0.5
        self.position += 1
        self.kept.append((self.round(key), self.round(turn(key, self.rotation(t))), self.round(value)))
        values = np.stack([other for _, _, other in self.kept])
        mean, own, outputs = self.mean_rotation(t), self.rotation(t), []
        for query in queries:
            far, turned = turn(query, mean), turn(query, own)
            scores = [far @ as_kept if t >= self.context and t - u >= self.ring else turned @ at_its_place
                      for u, (as_kept, at_its_place, _) in enumerate(self.kept)]
            weights = np.exp(factor * np.array(scores))
            outputs.append(weights @ values / weights.sum())
        return np.array(outputs), NO_CODES


@torch.no_grad()
def log_probabilities(model, tokens):
    """-> (float64 [T, vocab], codes [T, layers, G])"""
    frequencies = model.frequencies.numpy()

    def rounded(x):
        return torch.from_numpy(x).float().to(model.state).double().numpy()

    states = [[KvHead(layer.self_attn, head, frequencies, rounded) for head in range(model.config.kv_heads)]
              for layer in model.model.layers]
    rows, codes = [], []
    for token in tokens:
        x, chosen = model.model.embed_tokens(token[None]), []
        for layer, heads in zip(model.model.layers, states):
            projected = layer.self_attn.heads(layer.input_layernorm(x))
            steps = [state.step(own.queries[:, 0].numpy(), own.keys[0].numpy(), own.values[0].numpy())
                     for state, own in zip(heads, projected)]
            mixed = torch.from_numpy(np.concatenate([output for output, _ in steps]).reshape(1, -1))
            x = x + layer.self_attn.o_proj(mixed)
            x = x + layer.mlp(layer.post_attention_layernorm(x))
            chosen.append([code for _, code in steps])
        rows.append(model.logits(model.model.norm(x)).log_softmax(-1)[0])
        codes.append(chosen)
    return torch.stack(rows), np.array(codes)
