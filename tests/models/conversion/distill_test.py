"""Training what codes score towards the original's predictions."""

import copy

import numpy as np
import pytest
import torch

from conftest import CONVERSION, SHAPE, random_model
from models.conversion import distill
from models.conversion.head_costs import Text
from models.training.progress import Progress

RING, LENGTH = CONVERSION["ring"], 230
WIDE, GROWING = (1, 0), (0, 1)


@pytest.fixture
def models(monkeypatch):
    """The original; the converted one, of the same weights."""
    monkeypatch.setattr(distill, "SHORTEST", 150)
    random = random_model(conversion={**CONVERSION, "trained_context": 256, "grow": [list(GROWING)]})
    codes = {f"layers.{number}.{name}": parameter.detach().numpy() for number, layer in enumerate(random.model.layers)
             for name, parameter in layer.self_attn.conversion.named_parameters()}
    original = random_model(conversion=None)
    original.load_state_dict({name: value for name, value in random.state_dict().items() if ".conversion." not in name})
    converted = distill.trainable_copy(original, random.config.conversion, codes).double()
    return original, converted


def texts(count):
    return [torch.randint(0, SHAPE["vocab_size"], (LENGTH,)) for _ in range(count)]


def values(model):
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters()}


def trained_on(models, folder, steps, **settings):
    copied = copy.deepcopy(models)
    folder.mkdir(exist_ok=True)
    return distill.distill(*copied, steps, folder, settings, Progress(open("/dev/null", "w", encoding="utf-8"))), copied[1]


def test_gradients_are_those_of_the_whole_model(models):
    original, converted = models
    tokens = texts(1)[0]
    found, gradients = distill.gradients(original, converted, tokens)
    with torch.no_grad():
        wanted = original.log_probabilities(tokens)[RING:]
    apart = (wanted.exp() * (wanted - converted.log_probabilities(tokens)[RING:])).sum() / (LENGTH - RING)
    assert found == pytest.approx(apart.item(), rel=1e-9) and found > 0.01
    trained = distill.trained(converted)
    assert len(gradients) == len(trained) == 3 * SHAPE["num_hidden_layers"]
    for gradient, expected in zip(gradients, torch.autograd.grad(apart, list(trained.values()))):
        assert (gradient - expected).abs().max() < 1e-11


def test_only_scores_of_narrow_heads_change(models, tmp_path):
    readers = SHAPE["num_attention_heads"] // SHAPE["num_key_value_heads"]
    before = values(models[1])
    _, trained = trained_on(models, tmp_path / "kept", [texts(2)])
    after = values(trained)
    changed = {name for name in after if not torch.equal(after[name], before[name])}
    assert changed == {f"model.layers.{layer}.self_attn.conversion.{name}" for layer in (0, 1) for name in ("score", "map", "bias")}
    for name in changed:
        share = readers if not name.endswith("score") else 1
        for head in (0, 1):
            part = slice(head * share, (head + 1) * share)
            exact = (int(name.split(".")[2]), head) in (WIDE, GROWING)
            assert torch.equal(after[name][part], before[name][part]) == exact, name


def test_predictions_come_nearer_to_the_original(models, tmp_path, monkeypatch):
    monkeypatch.setattr(distill, "RATES", {name: 10 * rate for name, rate in distill.RATES.items()})  # few steps, short texts
    text = Text("text", texts(1)[0], slice(RING, None))
    before = distill.gaps(*models, [text])["text"]
    _, trained = trained_on(models, tmp_path / "kept", [[text.tokens] * 2] * 20)
    after = distill.gaps(models[0], trained, [text])["text"]
    assert 0 < after.divergence < 0.9 * before.divergence


def test_a_gap_is_of_the_tokens_that_are_scored(models):
    original, converted = models
    tokens = texts(1)[0]
    gap = distill.gaps(original, converted, [Text("text", tokens, slice(100, 200))])["text"]
    with torch.no_grad():
        own, found = (model.log_probabilities(tokens)[99:199] for model in (original, converted))
    at = torch.arange(100)
    assert gap.nats == pytest.approx(float((own - found)[at, tokens[100:200]].mean()), abs=1e-9)
    assert gap.divergence == pytest.approx(float((own.exp() * (own - found)).sum(-1).mean()), abs=1e-9)


def test_goes_on_where_it_was_stopped(models, tmp_path, monkeypatch):
    monkeypatch.setattr(distill, "KEPT_EVERY", 2)
    steps = [texts(2) for _ in range(5)]
    whole, _ = trained_on(models, tmp_path / "whole", steps)
    step = distill.Training.step

    def stopped(training, *arguments):
        if training.steps == 3:
            raise KeyboardInterrupt
        step(training, *arguments)

    with monkeypatch.context() as killed:
        killed.setattr(distill.Training, "step", stopped)
        with pytest.raises(KeyboardInterrupt):
            trained_on(models, tmp_path / "kept", steps)
    gone_on = []
    monkeypatch.setattr(distill.Training, "step", lambda training, *arguments: (gone_on.append(training.steps),
                                                                               step(training, *arguments)))
    found, _ = trained_on(models, tmp_path / "kept", steps)
    assert gone_on == [2, 3, 4]
    assert all(np.array_equal(found[name], whole[name]) for name in whole)


def test_what_was_kept_of_other_settings_is_not_taken(models, tmp_path):
    steps = [texts(2)]
    trained_on(models, tmp_path / "kept", [texts(2)], tokens=1)
    found, _ = trained_on(models, tmp_path / "kept", steps, tokens=2)
    fresh, _ = trained_on(models, tmp_path / "other", steps, tokens=2)
    assert all(np.array_equal(found[name], fresh[name]) for name in fresh)


def test_pieces_are_of_the_texts_and_as_many_tokens_as_asked(models):
    long, short = torch.arange(1000), torch.arange(1000, 1140)
    steps = distill.pieces([long, short], 20_000, RING, torch.Generator().manual_seed(0))
    drawn = [piece for step in steps for piece in step]
    assert 20_000 <= sum(map(len, drawn)) < 20_000 + 2 * 1000 and all(len(step) == distill.TEXTS for step in steps)
    again = [piece for piece in drawn if not torch.equal(piece, torch.arange(int(piece[0]), int(piece[0]) + len(piece)))]
    assert 0.1 < len(again) / len(drawn) < 0.4
    for piece in again:
        third = len(piece) // 3
        assert torch.equal(piece[:-third], torch.arange(int(piece[0]), int(piece[0]) + len(piece) - third))
        assert torch.equal(piece[-third:], piece[:third])
    lengths = [len(piece) for piece in drawn if piece[0] < 1000]
    assert min(lengths) >= 149 and max(lengths) > 400
    assert all(len(piece) >= 139 for piece in drawn if piece[0] >= 1000)  # nearly all there is
