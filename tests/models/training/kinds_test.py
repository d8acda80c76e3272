"""The seam for other kinds of attention: one that is defined here trains, is carried, and keeps its state's size."""

from typing import NamedTuple

import pytest
import torch

from models.training import config as config_module
from models.training import model as model_module
from models.training.config import KindFields, ModelConfig
from models.training.model import Model
from models.training.units.unit import Mixed, Unit


class Sums(NamedTuple):
    total: torch.Tensor  # [B, G, V]
    count: torch.Tensor  # [B]


class MeanUnit(Unit):
    """The mean of all values so far."""

    def initial_state(self, batch, dtype=torch.float32, device=None):
        return Sums(torch.zeros(batch, self.config.n_kv_head, self.config.d_v, dtype=dtype), torch.zeros(batch, dtype=dtype))

    def mix(self, normed, values, state, codes, use_accumulator):
        before = state or self.initial_state(len(values), values.dtype)
        index = torch.arange(1, values.shape[2] + 1, dtype=values.dtype)
        sums = before.total[:, :, None] + values.cumsum(2)
        mean = sums / (before.count[:, None] + index)[:, None, :, None]
        after = Sums(sums[:, :, -1].detach(), before.count + values.shape[2])
        return Mixed(mean, after if state else None)


@pytest.fixture
def mean_model(monkeypatch):
    monkeypatch.setitem(model_module.UNITS, "mean", MeanUnit)
    monkeypatch.setitem(config_module.KINDS, "mean", KindFields(required=()))
    shape = dict(vocab_size=20, d_model=16, d_k=8, d_v=12, n_layer=2, model_type="mean")
    return Model(ModelConfig(**shape)).double()


def test_another_kind_is_carried_from_segment_to_segment(mean_model):
    tokens = torch.randint(20, (2, 24))
    whole = mean_model(tokens).logits
    state, parts = mean_model.initial_state(2), []
    sizes = [tensor.numel() for layer in state.layers for tensor in layer]
    for begin in (0, 8, 12):
        output = mean_model(tokens[:, begin:{0: 8, 8: 12, 12: 24}[begin]], state)
        state = output.state
        parts.append(output.logits)
    assert (whole - torch.cat(parts, 1)).abs().max() < 1e-12  # the same float64 sums in another order
    assert [tensor.numel() for layer in state.layers for tensor in layer] == sizes


def test_another_kind_has_its_own_parameters_and_learns(mean_model):
    names = {name for name, _ in mean_model.named_parameters() if name.startswith("layers.0.")}
    assert names == {"layers.0.norm.weight", "layers.0.norm.bias", "layers.0.v_proj.weight", "layers.0.g_proj.weight",
                     "layers.0.o_proj.weight"}
    output = mean_model(torch.randint(20, (2, 24)))
    (output.logits.square().mean() + output.auxiliary).backward()
    assert mean_model.layers[0].v_proj.weight.grad.abs().sum() > 0
    assert mean_model.after_step(output.seen) == 0


def test_every_kind_that_a_config_may_name_exists():
    assert set(model_module.UNITS) == set(config_module.KINDS)
