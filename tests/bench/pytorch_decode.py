#!/usr/bin/env python3
"""The decode step of a report of `tvq-bench decode` in PyTorch, timed beside it.

    pytorch_decode.py REPORT.json [--device cuda] [--seconds 1] [--json OUT.json] [--no-graphs]

The model of the report's shape is that of models/training, with random weights; its step is written here, one token of
every session from a state of constant size, as PyTorch users would: matrix products, gathers and scatters, on a GPU in
a CUDA graph. First a small model is stepped in float64 and compared with the training model's quadratic attention. Then
every case of the report (sessions, context) is timed, states synthetic as there, and both are printed side by side.
Needs PyTorch, for --device cuda one with CUDA.
"""

import argparse
import json
import pathlib
import statistics
import sys
import time

import torch
from torch.nn import functional as F

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))

from models.training.config import ModelConfig  # noqa: E402
from models.training.model import Model  # noqa: E402
from models.training.units.unit import rms  # noqa: E402

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float64": torch.float64}
WARM_UP_STEPS = 3
MOST_STEPS = 2000


class Layer:
    """A unit's weights as decode wants them, and the states of B sessions. G key/value heads, R = H / G of them share one."""

    def __init__(self, unit, config, batch, dtype, state_dtype, score_dtype):
        self.config, self.dtype, self.scores = config, dtype, score_dtype
        scale = config.d_k ** -0.25
        device = unit.u.device
        weights = [unit.q_proj.weight, unit.k_proj.weight, unit.v_proj.weight, unit.g_proj.weight]
        self.widths = [weight.shape[0] for weight in weights]
        self.qkvg = torch.cat(weights).to(dtype)
        self.out = unit.o_proj.weight.to(dtype)
        self.norm = unit.norm
        self.u, self.w = unit.u.to(score_dtype) * scale, unit.w.to(score_dtype) * scale
        self.codebook = unit.codebook.codebook().to(score_dtype)  # [G, S, K]
        self.half_norm = self.codebook.square().sum(-1) / 2
        positions = unit.r_proj(unit.distance_table.to(unit.r_proj.weight)) * scale
        # By distance 0..M: [G, R, W, K]
        positions = positions.flip(0).unflatten(-1, (config.n_head, config.d_k)).transpose(0, 1)
        groups, window = config.n_kv_head, config.mem_len + 1
        self.positions = positions.unflatten(0, (groups, config.n_head // groups)).to(score_dtype).contiguous()
        self.sums = torch.zeros(batch, groups, config.n_code, config.d_v, dtype=score_dtype, device=device)
        self.counts = torch.zeros(batch, groups, config.n_code, dtype=score_dtype, device=device)
        self.code = torch.zeros(batch, groups, window, dtype=torch.long, device=device)
        self.value = torch.zeros(batch, groups, window, config.d_v, dtype=state_dtype, device=device)

    def synthesize(self, context):
        window = self.code.shape[-1]
        self.counts.fill_(max(0, context - window) / self.config.n_code)
        self.sums.uniform_(-0.5, 0.5).mul_(self.counts[..., None])
        self.code.random_(self.config.n_code)
        self.value.uniform_(-0.5, 0.5)

    def step(self, x, position):
        """x [B, D], position an int64 tensor without axes -> x after the layer."""
        config, batch = self.config, len(x)
        groups, shared = config.n_kv_head, config.n_head // config.n_kv_head
        window, scale = config.mem_len + 1, config.d_k ** -0.25
        q, k, v, g = F.linear(self.norm(x).to(self.dtype), self.qkvg).split(self.widths, -1)
        q = rms(q.reshape(batch, config.n_head, -1).to(self.scores)) * scale
        k = rms(k.reshape(batch, groups, -1).to(self.scores)) * scale
        v = F.silu(v).reshape(batch, groups, -1).to(self.value.dtype)
        code = (torch.einsum("bgk,gsk->bgs", k, self.codebook) - self.half_norm).argmax(-1)

        # The position that leaves the window enters the sums; the new one takes its slot.
        slot = (position % window).reshape(1)
        leaving_code = self.code.index_select(2, slot)
        full = (position >= window).to(self.scores)
        leaving = self.value.index_select(2, slot).to(self.scores) * full
        self.sums.scatter_add_(2, leaving_code[..., None].expand_as(leaving), leaving)
        self.counts.scatter_add_(2, leaving_code, full.expand_as(leaving_code))
        self.code.index_copy_(2, slot, code[..., None])
        self.value.index_copy_(2, slot, v[:, :, None])

        heads = (batch, groups, shared, config.d_k)
        by_code = torch.einsum("bgrk,gsk->bgrs", (q + self.u).view(heads), self.codebook)
        by_distance = torch.einsum("bgrk,grwk->bgrw", (q + self.w).view(heads), self.positions)
        distance = torch.arange(window, device=x.device)
        slots = (position - distance) % window
        recent_code = self.code.index_select(2, slots)[:, :, None].expand(-1, -1, shared, -1)
        recent = by_distance + by_code.gather(3, recent_code)
        recent = recent.masked_fill(distance > position, -torch.inf)
        by_code = by_code.masked_fill(self.counts[:, :, None] == 0, -torch.inf)
        largest = torch.maximum(by_code.amax(-1), recent.amax(-1))[..., None]
        code_weight, recent_weight = (by_code - largest).exp(), (recent - largest).exp()
        slot_weight = torch.zeros_like(recent_weight).index_copy_(3, slots, recent_weight)
        total = code_weight @ self.sums + (slot_weight.to(self.value.dtype) @ self.value).to(self.scores)
        weight = (code_weight * self.counts[:, :, None]).sum(-1) + recent_weight.sum(-1)
        o = (total / weight[..., None]).reshape(batch, -1)
        return x + F.linear((o * F.silu(g)).to(self.dtype), self.out)


class Decoder:
    """B sessions at one position that generate together."""

    def __init__(self, model, batch, dtype, state_dtype, score_dtype=torch.float32):
        self.model, self.config, self.dtype = model, model.config, dtype
        self.layers = [Layer(unit, model.config, batch, dtype, state_dtype, score_dtype) for unit in model.layers]
        head = model.embedding.weight if model.config.tie_word_embeddings else model.lm_head.weight
        self.head, self.bias = head.to(dtype), model.lm_head.bias
        device = head.device
        self.tokens = torch.zeros(batch, dtype=torch.long, device=device)
        self.position = torch.zeros((), dtype=torch.long, device=device)

    def synthesize(self, context):
        self.position.fill_(context)
        for layer in self.layers:
            layer.synthesize(context)

    def logits(self):
        """Feeds `tokens`. Absolute positions are left out: they are a table's row, and no kernel."""
        x = self.model.embedding(self.tokens).to(self.layers[0].scores)
        for layer in self.layers:
            x = layer.step(x, self.position)
        self.position += 1
        if self.config.output_norm:
            x = self.model.norm(x)
        return (F.linear(x.to(self.dtype), self.head) + self.bias) * self.config.logit_scale

    def step(self):
        noise = torch.rand_like(logits := self.logits().float()).clamp_min(1e-20)
        self.tokens.copy_((logits - (-noise.log()).log()).argmax(-1))  # a draw, by Gumbel


def check():
    """The step in float64 against the training model's quadratic attention, positions retiring; the largest error."""
    torch.manual_seed(0)
    config = ModelConfig(vocab_size=30, d_model=16, d_k=8, d_v=12, n_code=7, n_layer=2, block_len=8, mem_len=5, n_head=4,
                         n_kv_head=2, output_norm=True, logit_scale=0.7)
    model = Model(config).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
        for layer in model.layers:
            layer.codebook.sum.normal_().mul_(0.01)
    tokens = torch.randint(30, (3, 40))
    with torch.no_grad():
        expected = model(tokens).logits
        decoder = Decoder(model, 3, torch.float64, torch.float64, torch.float64)
        worst = 0.0
        for i in range(tokens.shape[1]):
            decoder.tokens.copy_(tokens[:, i])
            worst = max(worst, (decoder.logits() - expected[:, i]).abs().max().item())
    # rms and the norms of the training model are float64 here, sums of a few hundred terms of size 1.
    assert worst < 1e-10, f"the step differs from the training model by {worst}"
    return worst


def copy_bandwidth(device):
    """GB/s, read and written, of copies within the device's memory."""
    size = (1 << 30) if device.type == "cuda" else (1 << 27)
    source, target = (torch.zeros(size // 4, device=device) for _ in range(2))
    target.copy_(source)
    wait(device)
    began = time.perf_counter()
    for _ in range(10):
        target.copy_(source)
    wait(device)
    return 2 * 10 * size / (time.perf_counter() - began) / 1e9


def wait(device):
    if device.type == "cuda":
        torch.cuda.synchronize()


def recorded(decoder):
    """The step as a CUDA graph."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(WARM_UP_STEPS):
            decoder.step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        decoder.step()
    return graph.replay


def time_steps(step, tokens, seconds):
    """Milliseconds a step, each waited for as tvq-bench does, which needs the token."""
    times = []
    for i in range(WARM_UP_STEPS + MOST_STEPS):
        began = time.perf_counter()
        step()
        tokens.tolist()
        if i >= WARM_UP_STEPS:
            times.append((time.perf_counter() - began) * 1e3)
        if sum(times) > seconds * 1e3 and len(times) >= 5:
            break
    return statistics.median(times)


@torch.no_grad()
def measure(model, case, dtypes, device, seconds, graphs):
    decoder = Decoder(model, case["batch"], *dtypes)
    decoder.synthesize(case["context"])
    return time_steps(recorded(decoder) if graphs else decoder.step, decoder.tokens, seconds)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("report")
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--json")
    parser.add_argument("--no-graphs", action="store_true")
    arguments = parser.parse_args()
    report = json.loads(pathlib.Path(arguments.report).read_text())
    if arguments.device == "cuda" and not torch.cuda.is_available():
        sys.exit("pytorch_decode.py: this PyTorch sees no GPU; --device cpu runs without one")
    device = torch.device(arguments.device)
    graphs = device.type == "cuda" and not arguments.no_graphs
    print(f"check: the step differs from the training model by {check():.1e}")

    dtype = report["model"]["dtype"]
    if dtype not in DTYPES:
        sys.exit(f"pytorch_decode.py: the report's weights are {dtype}; float32 and bfloat16 have a counterpart here")
    dtypes = DTYPES[dtype], DTYPES[report["model"]["state_dtype"]]
    torch.manual_seed(1)
    with torch.device(device) if hasattr(torch.device, "__enter__") else torch.no_grad():
        model = Model(ModelConfig.from_json(report["model"]["config"])).to(device).eval()
    name = torch.cuda.get_device_name() if device.type == "cuda" else f"cpu, {torch.get_num_threads()} threads"
    ceiling = copy_bandwidth(device)
    print(f"PyTorch {torch.__version__} on {name}, {'CUDA graphs' if graphs else 'no graphs'}; copies {ceiling:.0f} GB/s")
    print(f"{'batch':>5} {'context':>9} {'tvq ms':>9} {'PyTorch ms':>11} {'ratio':>6} {'PyTorch GB/s':>13}")
    results = []
    for case in report["cases"]:
        try:
            ms = measure(model, case, dtypes, device, arguments.seconds, graphs)
        except torch.cuda.OutOfMemoryError if hasattr(torch.cuda, "OutOfMemoryError") else MemoryError:
            print(f"{case['batch']:>5} {case['context']:>9} {case['ms_median']:>9.3f}   too little memory for PyTorch")
            continue
        speed = case["bytes_per_step"] / ms / 1e6
        results.append({"batch": case["batch"], "context": case["context"], "tvq_ms": case["ms_median"], "pytorch_ms": ms,
                        "pytorch_over_tvq": ms / case["ms_median"], "pytorch_gigabytes_per_second": speed})
        print(f"{case['batch']:>5} {case['context']:>9} {case['ms_median']:>9.3f} {ms:>11.3f} "
              f"{ms / case['ms_median']:>6.2f} {speed:>13.1f}", flush=True)
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps(
            {"pytorch": torch.__version__, "device": name, "graphs": graphs, "copy_gigabytes_per_second": ceiling,
             "model": report["model"], "cases": results}, indent=2) + "\n")


if __name__ == "__main__":
    main()
