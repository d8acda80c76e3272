#!/usr/bin/env python3
"""A softmax Transformer's decode step at the cases of a report of `tvq-bench decode`, timed beside it.

    softmax_decode.py REPORT.json [--device cuda] [--seconds 1] [--json OUT.json] [--no-graphs] [--most-gigabytes N]

The Transformer has the report's d_model and layers, heads of 128, a gated feed-forward layer that gives it as many
parameters, random weights, and a cache of keys and values; once with a key-value head for every head and once with a
single one. Attention is PyTorch's scaled_dot_product_attention, on a GPU by FlashAttention and the step in a CUDA graph.
First a small one is stepped in float64 and compared with softmax attention written out. The context of a case stays as
long as the report says: each step writes the same place. A cache that finds no memory is reported as that.
"""

import argparse
import contextlib
import json
import pathlib
import sys

import torch
from torch.nn import functional as F

from pytorch_decode import DTYPES, copy_bandwidth, recorded, time_steps

ROTATION = 10_000.0


def head_width(d_model):
    return next(width for width in (128, 64, 32, 16, 8, 4, 2) if d_model % width == 0)


def plain_attention(q, k, v):
    """q [B, G, R, W] against k, v [B, G, T, W], all of which are in the past."""
    return torch.softmax(q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5, -1) @ v


# PyTorch has it from 2.0 on.
attention = getattr(F, "scaled_dot_product_attention", plain_attention)


def flash(device):
    if device.type != "cuda":
        return contextlib.nullcontext()
    from torch.nn.attention import SDPBackend, sdpa_kernel
    return sdpa_kernel(SDPBackend.FLASH_ATTENTION)


def rms(x):
    return x * (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt()


def rotate(x, position):
    """Pairs of x's elements by angles of the position (rotary position embedding)."""
    half = x.shape[-1] // 2
    angle = position * ROTATION ** (-torch.arange(half, device=x.device, dtype=torch.float64) / half)
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * cos - b * sin, a * sin + b * cos], -1)


class Decoder:
    """B sessions at one position that generate together; `kv_heads` of the heads' number or 1."""

    def __init__(self, config, kv_heads, batch, length, dtype, cache_dtype, device):
        d, vocab = config["d_model"], config["vocab_size"]
        self.width, self.dtype, self.kv_heads = head_width(d), dtype, kv_heads
        self.heads = d // self.width
        hidden = feed_forward(config, kv_heads)

        def weight(rows, columns):
            return torch.randn(rows, columns, device=device, dtype=dtype) * columns ** -0.5

        self.embedding = weight(vocab, d)
        self.layers = [{"qkv": weight((self.heads + 2 * kv_heads) * self.width, d), "out": weight(d, d),
                        "up": weight(2 * hidden, d), "down": weight(d, hidden)} for _ in range(config["n_layer"])]
        shape = (2, batch, kv_heads, length, self.width)  # keys, values
        self.caches = [torch.zeros(shape, device=device, dtype=cache_dtype) for _ in self.layers]
        self.tokens = torch.zeros(batch, dtype=torch.long, device=device)
        self.position = length - 1

    def parameters(self):
        return self.embedding.numel() + sum(w.numel() for layer in self.layers for w in layer.values())

    def fill(self):
        for cache in self.caches:
            cache.uniform_(-1, 1)

    def logits(self):
        """Feeds `tokens` at `position`, which stays as it is."""
        batch, t = len(self.tokens), self.position
        x = self.embedding[self.tokens]
        for layer, cache in zip(self.layers, self.caches):
            q, k, v = F.linear(rms(x), layer["qkv"]).view(batch, -1, self.width).split(
                [self.heads, self.kv_heads, self.kv_heads], 1)
            cache[0, :, :, t] = rotate(k, t).to(cache.dtype)
            cache[1, :, :, t] = v.to(cache.dtype)
            # Heads that share keys are rows of one product: none of them sees a future.
            q = rotate(q, t).view(batch, self.kv_heads, -1, self.width).to(cache.dtype)
            o = attention(q, cache[0, :, :, :t + 1], cache[1, :, :, :t + 1])
            x = x + F.linear(o.reshape(batch, -1).to(self.dtype), layer["out"])
            up, gate = F.linear(rms(x), layer["up"]).chunk(2, -1)
            x = x + F.linear(F.silu(gate) * up, layer["down"])
        return F.linear(rms(x), self.embedding)

    def step(self):
        noise = torch.rand_like(logits := self.logits().float()).clamp_min(1e-20)
        self.tokens.copy_((logits - (-noise.log()).log()).argmax(-1))  # a draw, by Gumbel


def feed_forward(config, kv_heads):
    """Its width, so that a layer has the parameters of the report's: (H+G)(K+V) D + H V D."""
    d, h, g, k, v = (config[name] for name in ("d_model", "n_head", "n_kv_head", "d_k", "d_v"))
    left = (h + g) * (k + v) * d + h * v * d - 2 * d * d - 2 * kv_heads * head_width(d) * d
    return max(8, left // (3 * d) // 8 * 8)


def cache_bytes(config, kv_heads, batch, length, dtype):
    element = torch.empty(0, dtype=dtype).element_size()
    return 2 * config["n_layer"] * batch * kv_heads * length * head_width(config["d_model"]) * element


def check():
    """Steps in float64 against attention over all positions, written out; the largest error."""
    torch.manual_seed(0)
    config = {"d_model": 32, "vocab_size": 30, "n_layer": 2, "n_head": 1, "n_kv_head": 1, "d_k": 8, "d_v": 48}
    length, worst = 20, 0.0
    for kv_heads in (1, 32 // head_width(32)):
        decoder = Decoder(config, kv_heads, 3, length, torch.float64, torch.float64, torch.device("cpu"))
        tokens = torch.randint(30, (3, length))
        found = []
        for decoder.position in range(length):
            decoder.tokens.copy_(tokens[:, decoder.position])
            found.append(decoder.logits())
        x, heads = decoder.embedding[tokens], decoder.heads
        for layer in decoder.layers:
            y = F.linear(rms(x), layer["qkv"]).view(3, length, -1, decoder.width)
            y = y.transpose(1, 2)  # [B, heads and key-value heads twice, T, W]
            turned = torch.stack([rotate(y[:, :, t], t) for t in range(length)], 2)
            o = []
            for head in range(heads):
                shared = heads + head * kv_heads // heads
                scores = turned[:, head] @ turned[:, shared].transpose(1, 2) * decoder.width ** -0.5
                scores = scores.masked_fill(torch.ones(length, length).triu(1).bool(), -torch.inf)
                o.append(torch.softmax(scores, -1) @ y[:, shared + kv_heads])
            x = x + F.linear(torch.cat(o, -1), layer["out"])
            up, gate = F.linear(rms(x), layer["up"]).chunk(2, -1)
            x = x + F.linear(F.silu(gate) * up, layer["down"])
        expected = F.linear(rms(x), decoder.embedding)
        worst = max(worst, (torch.stack(found, 1) - expected).abs().max().item())
    # float64 throughout, sums of a few dozen terms of size 1.
    assert worst < 1e-10, f"the step differs from softmax attention by {worst}"
    return worst


@torch.no_grad()
def measure(config, kv_heads, case, dtypes, device, seconds, graphs):
    decoder = Decoder(config, kv_heads, case["batch"], case["context"] + 1, *dtypes, device)
    decoder.fill()
    with flash(device):
        step = recorded(decoder) if graphs else decoder.step
        return time_steps(step, decoder.tokens, seconds), decoder.parameters()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("report")
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--json")
    parser.add_argument("--no-graphs", action="store_true")
    parser.add_argument("--most-gigabytes", type=float, default=4, help="of a cache on the CPU")
    arguments = parser.parse_args()
    report = json.loads(pathlib.Path(arguments.report).read_text())
    if arguments.device == "cuda" and not torch.cuda.is_available():
        sys.exit("softmax_decode.py: this PyTorch sees no GPU; --device cpu runs without one")
    device = torch.device(arguments.device)
    graphs = device.type == "cuda" and not arguments.no_graphs
    print(f"check: the step differs from softmax attention by {check():.1e}")

    dtype = DTYPES.get(report["model"]["dtype"], torch.bfloat16)  # int8 has no counterpart here
    config = report["model"]["config"]
    name = torch.cuda.get_device_name() if device.type == "cuda" else f"cpu, {torch.get_num_threads()} threads"
    ceiling = copy_bandwidth(device)
    print(f"PyTorch {torch.__version__} on {name}, {'CUDA graphs' if graphs else 'no graphs'}; copies {ceiling:.0f} GB/s")
    print(f"{'batch':>5} {'context':>9} {'tvq ms':>9} {'kv heads':>8} {'cache MB':>10} {'softmax ms':>11} {'ratio':>7}")
    results = []
    heads = config["d_model"] // head_width(config["d_model"])
    for case in report["cases"]:
        for kv_heads in sorted({1, heads}):
            size = cache_bytes(config, kv_heads, case["batch"], case["context"] + 1, dtype)
            result = {"batch": case["batch"], "context": case["context"], "kv_heads": kv_heads, "cache_bytes": size,
                      "tvq_ms": case["ms_median"]}
            results.append(result)
            row = f"{case['batch']:>5} {case['context']:>9} {case['ms_median']:>9.3f} {kv_heads:>8} {size / 1e6:>10.1f}"
            if device.type == "cuda":
                torch.cuda.empty_cache()
            most = torch.cuda.mem_get_info()[0] if device.type == "cuda" else arguments.most_gigabytes * 1e9
            try:
                if size > most:
                    raise MemoryError
                ms, parameters = measure(config, kv_heads, case, (dtype, dtype), device, arguments.seconds, graphs)
            except (MemoryError, getattr(torch.cuda, "OutOfMemoryError", MemoryError)):
                result["too_little_memory"] = True
                print(f"{row}   too little memory", flush=True)
                continue
            result.update(softmax_ms=ms, softmax_over_tvq=ms / case["ms_median"], parameters=parameters)
            print(f"{row} {ms:>11.3f} {ms / case['ms_median']:>7.2f}", flush=True)
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps(
            {"pytorch": torch.__version__, "device": name, "graphs": graphs, "copy_gigabytes_per_second": ceiling,
             "attention": attention.__name__, "model": report["model"], "cases": results}, indent=2) + "\n")


if __name__ == "__main__":
    main()
