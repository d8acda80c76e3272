"""Muon in batches, and rates as numbers or as tensors."""

import copy

import pytest
import torch

from models.training import optimizer
from models.training.optimizer import Muon, build_optimizers, load_optimizer, orthogonalize, rate_factor, set_rates

RATE, MOMENTUM, DECAY = 0.02, 0.95, 0.1
STEPS = 3
# Of what the steps add, in float32; nothing in them divides.
ROUNDING = 64 * 2.0 ** -24


def polar(matrices):
    """What Newton-Schulz comes near to, and without its rounding in bfloat16, which it may blow up."""
    u, _, v = torch.linalg.svd(matrices.double(), full_matrices=False)
    return (u @ v).float()


def by_definition(matrix, gradients):
    """The steps of one matrix, from the paper's formulas."""
    momentum = torch.zeros_like(matrix)
    for gradient in gradients:
        momentum = MOMENTUM * momentum + gradient
        direction = polar(gradient + MOMENTUM * momentum)
        factor = max(1.0, matrix.shape[0] / matrix.shape[1]) ** 0.5
        matrix = matrix * (1 - RATE * DECAY) - RATE * factor * direction
    return matrix


@pytest.mark.parametrize("tensor_rate", [False, True])
def test_matrices_stepped_together_are_those_stepped_one_by_one(monkeypatch, tensor_rate):
    monkeypatch.setattr(optimizer, "orthogonalize", polar)
    shapes = [(6, 24), (24, 6), (6, 24), (12, 12), (24, 24), (12, 12)]
    matrices = [torch.nn.Parameter(torch.randn(shape)) for shape in shapes]
    gradients = [[torch.randn(shape) for shape in shapes] for _ in range(STEPS)]
    expected = [by_definition(matrix.detach().clone(), [step[n] for step in gradients]) for n, matrix in enumerate(matrices)]
    before = [matrix.detach().clone() for matrix in matrices]
    rate = torch.tensor(RATE) if tensor_rate else RATE
    muon = Muon(matrices, lr=rate, momentum=MOMENTUM, weight_decay=DECAY)
    for step in gradients:
        for matrix, gradient in zip(matrices, step):
            matrix.grad = gradient.clone()
        muon.step()
    for matrix, was, wanted in zip(matrices, before, expected):
        assert (matrix - wanted).abs().max() < ROUNDING
        assert (matrix - was).abs().max() > 1000 * ROUNDING, "the matrix has moved"


def test_a_matrix_without_a_gradient_stays():
    matrices = [torch.nn.Parameter(torch.ones(4, 8)) for _ in range(2)]
    matrices[0].grad = torch.randn(4, 8)
    Muon(matrices).step()
    assert torch.equal(matrices[1], torch.ones(4, 8)) and not torch.equal(matrices[0], torch.ones(4, 8))


class Tiny(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList([torch.nn.Module()])
        self.layers[0].q_proj = torch.nn.Linear(4, 4, bias=False)
        self.norm = torch.nn.Parameter(torch.ones(4))

    def learn(self):
        (self.layers[0].q_proj(torch.ones(4)) * self.norm).square().sum().backward()


def test_rates_follow_the_factor():
    optimizers = build_optimizers(Tiny(), 0.02, 4e-3, 0.0)
    set_rates(optimizers, 0.5)
    assert [each.param_groups[0]["lr"] for each in optimizers] == [0.01, 2e-3]
    optimizers[0].param_groups[0]["lr"] = kept = torch.tensor(0.02)
    set_rates(optimizers, 0.25)
    assert optimizers[0].param_groups[0]["lr"] is kept, "a step captured with this tensor reads it again"
    assert kept.item() == pytest.approx(0.005)


def test_a_state_saved_with_rates_as_tensors_goes_on_where_they_are_numbers():
    model = Tiny()
    optimizers = build_optimizers(model, 0.02, 4e-3, 0.0)
    model.learn()
    for each in optimizers:
        each.step()
    saved = [copy.deepcopy(each.state_dict()) for each in optimizers]
    for state in saved:
        state["param_groups"][0]["lr"] = torch.tensor(state["param_groups"][0]["lr"])
        if "capturable" in state["param_groups"][0]:
            state["param_groups"][0]["capturable"] = True
    again = build_optimizers(model, 0.02, 4e-3, 0.0)
    for each, state, first in zip(again, saved, optimizers):
        load_optimizer(each, state)
        group = each.param_groups[0]
        assert not isinstance(group["lr"], torch.Tensor) and not group.get("capturable")
        for parameter in group["params"]:
            for name, value in first.state[parameter].items():
                assert torch.equal(torch.as_tensor(each.state[parameter][name]), torch.as_tensor(value))
        each.step()


def test_rate_schedule():
    def at(fraction, step=1000):
        return rate_factor(fraction, step, 100, 0.4, 0.02)

    assert at(0.0, 0) == pytest.approx(0.01)
    assert at(0.0, 49) == pytest.approx(0.5)
    assert at(0.1) == at(0.4) == 1
    assert at(0.7) == pytest.approx(0.51)
    assert at(1.0) == at(1.1) == pytest.approx(0.02)


@pytest.mark.parametrize("cooldown_from", [1, 1.5])
def test_a_schedule_may_have_no_cooldown(cooldown_from):
    rates = [rate_factor(fraction, step, 100, cooldown_from, 0.02) for fraction, step in [(0, 49), (0.5, 1000), (1, 2000)]]
    assert rates == [0.5, 1, 1]


@pytest.mark.parametrize("shape", [(2, 8, 24), (1, 24, 8)])
def test_orthogonalize(shape):
    values = torch.linalg.svdvals(orthogonalize(torch.randn(shape), steps=10).float())
    assert values.min() > 0.6 and values.max() < 1.3  # what the quintic's coefficients converge to
