"""What heads cost, and which are chosen."""

import pytest
import torch

from conftest import CONVERSION, SHAPE, random_model
from models.conversion import head_choice, head_costs
from models.conversion.head_costs import Costs, Text

LENGTH = 120  # within the trained context, past the ring


@pytest.fixture
def texts():
    return [Text("a", torch.randint(0, SHAPE["vocab_size"], (LENGTH,)), slice(70, None)),
            Text("b", torch.randint(0, SHAPE["vocab_size"], (LENGTH,)), slice(1, 100))]


def nats(model, text):
    rows = model.log_probabilities(text.tokens)[:-1]
    return float(-rows[torch.arange(LENGTH - 1), text.tokens[1:]][text.scored.start - 1:(text.scored.stop or LENGTH) - 1].mean())


def test_a_cost_is_what_the_model_loses_with_that_head_coded(texts):
    model = random_model()
    costs = head_costs.measure(model, texts)
    every = {(layer, head) for layer in range(2) for head in range(2)}
    assert set(costs.more) == every and model.config.conversion.wide and not model.config.conversion.grow
    exact = random_model_with(model, every)
    for text in texts:
        assert costs.base[text.name] == pytest.approx(nats(exact, text), rel=1e-9)
    for head in every:
        coded = random_model_with(model, every - {head})
        for text in texts:
            assert costs.more[head][text.name] == pytest.approx(nats(coded, text) - costs.base[text.name], abs=1e-9)
            assert abs(costs.more[head][text.name]) > 1e-6


def random_model_with(model, grow):
    other = random_model(conversion={**CONVERSION, "wide": [], "grow": [list(head) for head in grow]})
    other.load_state_dict(model.state_dict())
    return other


COSTS = Costs({"code": 1.0, "prose": 2.0}, {
    (0, 0): {"code": 0.001, "prose": 0.0}, (0, 1): {"code": 0.03, "prose": 0.004}, (1, 0): {"code": -0.02, "prose": 0.02},
    (1, 1): {"code": 0.003, "prose": 0.003}, **{(2, head): {"code": 0.0, "prose": -0.001} for head in range(14)}})


def test_the_dearest_come_first():
    assert head_choice.order(COSTS)[:4] == [(0, 1), (1, 0), (1, 1), (0, 0)]


def test_what_helps_is_no_help_for_others():
    assert head_choice.estimate(COSTS, set()) == pytest.approx({"code": 0.034, "prose": 0.027})
    assert head_choice.estimate(COSTS, {(0, 1)}) == pytest.approx({"code": 0.004, "prose": 0.023})


def test_of_a_text_that_is_nearly_known_shares_are_nothing():
    more = {(0, 0): {"code": 0.004, "again": 0.0}, (0, 1): {"code": 0.0, "again": 0.07}, (0, 2): {"code": 0.0, "again": 0.09}}
    costs = Costs({"code": 1.0, "again": 0.1}, more)
    assert head_choice.order(costs) == [(0, 2), (0, 0), (0, 1)]
    assert not head_choice.is_bearable(costs, set()) and head_choice.is_bearable(costs, {(0, 2)})


def test_as_few_are_chosen_as_suffice(monkeypatch):
    assert head_choice.choose(COSTS) == [(0, 1), (1, 0)]
    assert head_choice.choose(COSTS, 1) == [(0, 1)] and head_choice.choose(COSTS, 0) == []
    cheap = Costs(COSTS.base, {head: {name: value / 100 for name, value in more.items()} for head, more in COSTS.more.items()})
    assert head_choice.choose(cheap) == []
    monkeypatch.setattr(head_choice, "BEARABLE", 1e-9)
    assert len(head_choice.choose(COSTS)) == 3  # of eighteen
