"""Fits what codes score from end to end: the converted model learns to predict what the original predicts.

Only scores, maps and biases of heads with narrow rings change; the weights stay. The loss is the Kullback-Leibler divergence
from the original's predictions, not the nats of the text, so that adapting to a kind of text gains nothing. Both are measured on
texts that are not trained on: if nats fall but the divergence does not, the model has still adapted to the texts.
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

TEXTS = 2  # texts of a step; its gradient is the same on any number of cores
SHORTEST, LONGEST = 768, 3072  # tokens of each text
AGAIN = 0.25  # share of texts whose first third is repeated at their end: heads that find it are hardest to code
ROWS = 128  # rows of logits at a time
BETAS = (0.9, 0.98)
RATES = {"map": 1e-3, "score": 4e-3, "bias": 8e-3}  # that of scores is times the standard deviation of codewords; rates fall to 0
KEPT_EVERY = 8  # steps after which the training is saved
TRAINED = tuple(RATES)
MOMENTS = ("exp_avg", "exp_avg_sq")  # what Adam keeps for each parameter


class Gap(NamedTuple):
    """How much a converted model differs from the original, per token of a text."""

    nats: float  # the converted model's nats less the original's
    divergence: float  # the Kullback-Leibler divergence of its predictions from the original's, nats


def narrow(conversion: Conversion, layer: int, kv_heads: int) -> torch.Tensor:
    """Which kv heads are trained, bool [G]."""
    return torch.tensor([(layer, head) not in conversion.wide and (layer, head) not in conversion.grow for head in range(kv_heads)])


def trainable_copy(original: Model, conversion: Conversion, codes: Dict[str, np.ndarray]) -> Model:
    """A converted model with the original's weights. Weights require no gradients; only the parameters of trained() do."""
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
    """The parameters that are trained, by the names of a codes file, layer by layer."""
    return {f"layers.{number}.{name}": getattr(layer.self_attn.conversion, name)
            for number, layer in enumerate(model.model.layers) for name in TRAINED}


def positions_of(model: Model, length: int) -> Positions:
    conversion = model.config.conversion
    return Positions(model.frequencies, length, conversion.context if conversion else 0)


@torch.no_grad()
def rows_ahead(model: Model, tokens: torch.Tensor) -> List[torch.Tensor]:
    """The rows [T, D] before each layer, and before the last norm."""
    positions, rows = positions_of(model, len(tokens)), [model.model.embed_tokens(tokens)]
    for layer in model.model.layers:
        rows.append(layer(rows[-1], positions, model.state)[0])
    return rows


def divergence(original: torch.Tensor, converted: torch.Tensor) -> torch.Tensor:
    """The sum of the Kullback-Leibler divergences of rows of logits, nats."""
    return F.kl_div(converted.log_softmax(-1), original.log_softmax(-1), reduction="sum", log_target=True)


def gradients(original: Model, converted: Model, tokens: torch.Tensor) -> tuple:
    """-> (the divergence per token behind the ring, its gradients for the parameters of trained())"""
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
    """Gradients for the parameters of trained(). Layers are computed again one after the other, so that only one layer's graph
    is in memory."""
    positions, found = positions_of(model, len(upstream)), []
    for layer, ahead in zip(reversed(model.model.layers), reversed(rows[:-1])):
        own = [getattr(layer.self_attn.conversion, name) for name in TRAINED]
        ahead = ahead.detach().requires_grad_()
        upstream, *by_own = torch.autograd.grad(layer(ahead, positions, model.state)[0], [ahead, *own], upstream)
        found = by_own + found
    return found


def piece(texts: List[torch.Tensor], ring: int, generator: torch.Generator) -> torch.Tensor:
    """A context to train on: a passage of one of the texts; a share AGAIN of them repeat their first third at their end."""
    drawn = passage(texts, ring, generator)
    if float(torch.rand((), generator=generator)) >= AGAIN:
        return drawn
    repeated = drawn[:len(drawn) // 3]
    return torch.cat([drawn[:-len(repeated)], repeated])


def passage(texts: List[torch.Tensor], ring: int, generator: torch.Generator) -> torch.Tensor:
    """A passage from anywhere in one of the texts. The logarithm of its length is uniform."""
    text = texts[int(torch.randint(len(texts), (), generator=generator))]
    longest = min(LONGEST, len(text))
    shortest = min(longest, max(SHORTEST, 2 * ring))
    power = float(torch.rand((), generator=generator))
    length = int(math.exp(math.log(shortest) + power * math.log(longest / shortest)))
    begin = int(torch.randint(len(text) - length + 1, (), generator=generator))
    return text[begin:begin + length]


def pieces(texts: List[torch.Tensor], tokens: int, ring: int, generator: torch.Generator) -> List[List[torch.Tensor]]:
    """The pieces of each step, with at least `tokens` tokens together."""
    steps, drawn = [], 0
    while drawn < tokens:
        steps.append([piece(texts, ring, generator) for _ in range(TEXTS)])
        drawn += sum(map(len, steps[-1]))
    return steps


class Training:
    """Steps of Adam on the parameters of trained(). The state is saved in a file of `folder`, one for each set of settings."""

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
        """One step; `share` of all steps are done before it."""
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
    @torch.no_grad()  # holds only for the thread in which it runs
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
    """-> tensors by the names of a codes file. Resumes a distillation of the same settings that was stopped in this folder."""
    training = Training(original, converted, folder, {**settings, "steps": len(steps)})
    while training.steps < len(steps):
        training.step(steps[training.steps], training.steps / len(steps))
        if training.steps % KEPT_EVERY == 0 or training.steps == len(steps):
            training.keep()
        progress.show(training.steps / len(steps), "distillation", {"divergence": training.loss})
    return {name: parameter.detach().numpy() for name, parameter in training.parameters.items()}
