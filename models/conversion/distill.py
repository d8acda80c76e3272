"""Fits what codes score from end to end: the converted model learns to predict what the original predicts.

Only scores, maps and biases of heads with narrow rings change; the weights stay. The loss is the Kullback-Leibler divergence
from the original's predictions, and not the nats of the text, so that nothing is gained by adapting to a kind of text. Both
are measured on texts that are not trained on: where nats fall and the divergence does not, the model has adapted all the same.
"""

import hashlib
import json
import math
import pathlib
from typing import Dict, List, NamedTuple

import numpy as np
import torch
from torch.nn import functional as F

from models.conversion import cores
from models.conversion.config import Conversion
from models.conversion.head_costs import Text, twin
from models.conversion.model import Model
from models.conversion.rotation import Positions
from models.training.files import safetensors
from models.training.progress import Progress

TEXTS = 2  # of a step: its gradient is the same on any number of cores
SHORTEST, LONGEST = 768, 3072  # tokens of each
AGAIN = 0.25  # share of texts whose first third comes again at their end: heads that find it are hardest to code
ROWS = 128  # of logits at a time
BETAS = (0.9, 0.98)
RATES = {"map": 1e-3, "score": 4e-3, "bias": 8e-3}  # of scores times the deviation of codewords; they fall to zero
KEPT_EVERY = 8  # steps
TRAINED = tuple(RATES)
MOMENTS = ("exp_avg", "exp_avg_sq")  # that Adam keeps of each


class Gap(NamedTuple):
    """Between a converted model and the original, of a token of a text."""

    nats: float  # more than the original's
    divergence: float  # of what it predicts from what the original predicts, nats


def narrow(conversion: Conversion, layer: int, kv_heads: int) -> torch.Tensor:
    """Which kv heads are trained, bool [G]."""
    return torch.tensor([(layer, head) not in conversion.wide and (layer, head) not in conversion.grow for head in range(kv_heads)])


def trainable_copy(original: Model, conversion: Conversion, codes: Dict[str, np.ndarray]) -> Model:
    """Of the same weights, neither model's to be trained; only what trained() names."""
    original.requires_grad_(False)
    converted = twin(original)
    converted.convert(conversion, {name: values.astype(np.float32) for name, values in codes.items()})
    for layer in converted.model.layers:
        layer.self_attn.by_sums = True
        layer.self_attn.conversion.requires_grad_(False)
    for parameter in trained(converted).values():
        parameter.requires_grad_()
    return converted


def trained(model: Model) -> Dict[str, torch.nn.Parameter]:
    """By the names of a codes file, layer by layer."""
    return {f"layers.{number}.{name}": getattr(layer.self_attn.conversion, name)
            for number, layer in enumerate(model.model.layers) for name in TRAINED}


def positions_of(model: Model, length: int) -> Positions:
    conversion = model.config.conversion
    return Positions(model.frequencies, length, conversion.context if conversion else 0)


@torch.no_grad()
def rows_ahead(model: Model, tokens: torch.Tensor) -> List[torch.Tensor]:
    """Of each layer and of the last norm, [T, D]."""
    positions, rows = positions_of(model, len(tokens)), [model.model.embed_tokens(tokens)]
    for layer in model.model.layers:
        rows.append(layer(rows[-1], positions, model.state)[0])
    return rows


def divergence(original: torch.Tensor, converted: torch.Tensor) -> torch.Tensor:
    """Of rows of logits: the sum of their Kullback-Leibler divergences, nats."""
    return F.kl_div(converted.log_softmax(-1), original.log_softmax(-1), reduction="sum", log_target=True)


def gradients(original: Model, converted: Model, tokens: torch.Tensor) -> tuple:
    """-> (the divergence per token behind the ring, its gradient by each of trained())"""
    ring = converted.config.conversion.ring
    wanted, rows = rows_ahead(original, tokens)[-1][ring:], rows_ahead(converted, tokens)
    total, upstream = 0.0, torch.zeros_like(rows[-1])
    for begin in range(0, len(wanted), ROWS):
        part = rows[-1][ring + begin:ring + begin + ROWS].detach().requires_grad_()
        with torch.no_grad():
            target = original.logits(original.model.norm(wanted[begin:begin + ROWS]))
        apart = divergence(target, converted.logits(converted.model.norm(part))) / len(wanted)
        total += apart.item()
        upstream[ring + begin:ring + begin + len(part)] = torch.autograd.grad(apart, part)[0]
    return total, back(converted, rows, upstream)


def back(model: Model, rows: List[torch.Tensor], upstream: torch.Tensor) -> List[torch.Tensor]:
    """Gradients by each of trained(). Layers are computed again, one after the other: no more than one's is in memory."""
    positions, found = positions_of(model, len(upstream)), []
    for layer, ahead in zip(reversed(model.model.layers), reversed(rows[:-1])):
        own = [getattr(layer.self_attn.conversion, name) for name in TRAINED]
        ahead = ahead.detach().requires_grad_()
        upstream, *by_own = torch.autograd.grad(layer(ahead, positions, model.state)[0], [ahead, *own], upstream)
        found = by_own + found
    return found


def piece(texts: List[torch.Tensor], ring: int, generator: torch.Generator) -> torch.Tensor:
    """The beginning of a context: tokens from anywhere in one of the texts, or some that come again behind others."""
    drawn = passage(texts, ring, generator)
    if float(torch.rand((), generator=generator)) >= AGAIN:
        return drawn
    repeated = drawn[:len(drawn) // 3]
    return torch.cat([drawn[:-len(repeated)], repeated])


def passage(texts: List[torch.Tensor], ring: int, generator: torch.Generator) -> torch.Tensor:
    """Short ones are as likely as long ones."""
    text = texts[int(torch.randint(len(texts), (), generator=generator))]
    longest = min(LONGEST, len(text))
    shortest = min(longest, max(SHORTEST, 2 * ring))
    power = float(torch.rand((), generator=generator))
    length = int(math.exp(math.log(shortest) + power * math.log(longest / shortest)))
    begin = int(torch.randint(len(text) - length + 1, (), generator=generator))
    return text[begin:begin + length]


def pieces(texts: List[torch.Tensor], tokens: int, ring: int, generator: torch.Generator) -> List[List[torch.Tensor]]:
    """Of each step, of so many tokens together at least."""
    steps, drawn = [], 0
    while drawn < tokens:
        steps.append([piece(texts, ring, generator) for _ in range(TEXTS)])
        drawn += sum(map(len, steps[-1]))
    return steps


class Training:
    """Steps of Adam on the parameters of trained(). What there is so far is kept in a file of `folder`, of these settings alone."""

    def __init__(self, original: Model, converted: Model, folder: pathlib.Path, settings: dict):
        self.original, self.converted, self.steps, self.loss = original, converted, 0, math.nan
        self.file = folder / f"distilling-{hashlib.sha256(json.dumps(settings).encode()).hexdigest()[:16]}.safetensors"
        self.parameters = trained(converted)
        config = converted.config
        self.masks = {name: narrow(config.conversion, int(name.split(".")[1]), config.kv_heads).repeat_interleave(
            len(parameter) // config.kv_heads).view(-1, *[1] * (parameter.ndim - 1)) for name, parameter in self.parameters.items()}
        deviation = {name: float(parameter.detach().std()) for name, parameter in self.parameters.items()}
        self.rates = [RATES[name.split(".")[-1]] * (deviation[name] if name.endswith("score") else 1) for name in self.parameters]
        self.optimizer = torch.optim.Adam([{"params": [parameter], "lr": rate}
                                           for parameter, rate in zip(self.parameters.values(), self.rates)], betas=BETAS)
        if self.file.exists():
            self.resume()

    def keep(self) -> None:
        kept = {"steps": np.array(self.steps), "loss": np.array(self.loss)}
        for name, parameter in self.parameters.items():
            kept[name] = parameter.detach().numpy()
            kept.update({f"{name}.{moment}": self.optimizer.state[parameter][moment].numpy() for moment in MOMENTS})
        safetensors.save(self.file, kept)

    def resume(self) -> None:
        kept = {name: torch.from_numpy(values) for name, values in safetensors.load(self.file).items()}
        self.steps, self.loss = int(kept["steps"]), float(kept["loss"])
        moments = {number: {"step": torch.tensor(float(self.steps)), **{moment: kept[f"{name}.{moment}"] for moment in MOMENTS}}
                   for number, name in enumerate(self.parameters)}
        self.optimizer.load_state_dict({**self.optimizer.state_dict(), "state": moments})
        with torch.no_grad():
            for name, parameter in self.parameters.items():
                parameter.copy_(kept[name])

    def step(self, pieces: List[torch.Tensor], share: float) -> None:
        """`share` of the steps are done."""
        found = cores.each(lambda tokens: gradients(self.original, self.converted, tokens), pieces)
        for index, (name, parameter) in enumerate(self.parameters.items()):
            gradient = sum(gradients[index] for _, gradients in found) / len(found)
            parameter.grad = gradient * self.masks[name]
        for group, rate in zip(self.optimizer.param_groups, self.rates):
            group["lr"] = rate * (1 - share)
        self.optimizer.step()
        self.loss = sum(loss for loss, _ in found) / len(found)
        self.steps += 1


def gaps(original: Model, converted: Model, texts: List[Text]) -> Dict[str, Gap]:
    @torch.no_grad()  # of the thread that it runs in
    def gap(text: Text) -> Gap:
        rows = [model.model.norm(rows_ahead(model, text.tokens)[-1]) for model in (original, converted)]
        begin, end, _ = text.scored.indices(len(text.tokens))
        nats = apart = 0.0
        for first in range(begin, end, ROWS):
            targets = text.tokens[first:min(first + ROWS, end)]
            own, found = (model.logits(of[first - 1:first - 1 + len(targets)]) for model, of in zip((original, converted), rows))
            nats += float(F.cross_entropy(found, targets, reduction="sum") - F.cross_entropy(own, targets, reduction="sum"))
            apart += float(divergence(own, found))
        return Gap(nats / (end - begin), apart / (end - begin))

    return dict(zip([text.name for text in texts], cores.each(gap, texts)))


def distill(original: Model, converted: Model, steps: List[List[torch.Tensor]], folder: pathlib.Path, settings: dict,
            progress: Progress) -> Dict[str, np.ndarray]:
    """-> tensors by the names of a codes file. Goes on where one of the same settings was stopped in this folder."""
    training = Training(original, converted, folder, {**settings, "steps": len(steps)})
    while training.steps < len(steps):
        training.step(steps[training.steps], training.steps / len(steps))
        if training.steps % KEPT_EVERY == 0 or training.steps == len(steps):
            training.keep()
        progress.show(training.steps / len(steps), "distillation", {"divergence": training.loss})
    return {name: parameter.detach().numpy() for name, parameter in training.parameters.items()}
