"""When steps are captured, and what the trainer does around them. Stand-ins play the device's part: a captured step here
is the step itself."""

import contextlib
import math
import types

import numpy as np
import pytest
import torch

from models.training import graph, train
from train_test import losses, trainer


class Recorded:
    """Stands for a graph: says what it was captured with, and does the step each time, on inputs it keeps."""

    made = []

    def __init__(self, step, stream, tokens, context, asked):
        self.step, self.tokens, self.asked, self.calls = step, tokens.clone(), asked, 0
        Recorded.made.append(self)

    def __call__(self, tokens, context_parts):
        self.calls += 1
        self.tokens.copy_(tokens)
        return self.step(self.tokens, None, self.asked)


class Stream:
    """Stands for a stream: keeps what it waited for, and whether it was the current one by then."""

    def __init__(self, device):
        self.device, self.waited, self.is_current = device, [], False

    def wait_stream(self, other):
        self.waited.append((other, self.is_current))


@pytest.fixture
def device(monkeypatch):
    """A device of type cuda that is not there."""
    stances = []

    @contextlib.contextmanager
    def set_stance(stance):
        stances.append(stance)
        yield
        stances.append(None)

    monkeypatch.setattr(torch, "compiler", types.SimpleNamespace(set_stance=set_stance), raising=False)
    monkeypatch.setattr(torch.cuda, "Stream", Stream)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: "the stream before")
    monkeypatch.setattr(torch.cuda, "set_stream", lambda stream: setattr(stream, "is_current", True))
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda tensor: tensor)
    monkeypatch.setattr(torch.Tensor, "to", lambda tensor, *_, **__: tensor)
    monkeypatch.setattr(graph, "Captured", Recorded)
    Recorded.made = []
    return types.SimpleNamespace(type="cuda", stances=stances)


def test_its_stream_waits_for_what_made_the_model(device):
    steps = graph.CapturedSteps(lambda *_: None, device)
    assert steps.stream.is_current and steps.stream.waited == [("the stream before", False)]


def test_the_fourth_step_of_one_shape_is_captured_and_a_shape_seen_once_is_not(device):
    seen = []

    def step(tokens, context, asked):
        seen.append((tuple(tokens.shape), device.stances[-1] if device.stances else None))
        return len(seen)

    steps = graph.CapturedSteps(step, device)
    for _ in range(5):
        steps(torch.zeros(4, 9, dtype=torch.long), None, slice(None))
    assert len(Recorded.made) == 1 and Recorded.made[0].calls == 2
    assert [stance for _, stance in seen] == ["force_eager", None, None, None, None], "compiled from the second in a row on"
    steps(torch.zeros(3, 9, dtype=torch.long), None, slice(None))
    assert steps(torch.zeros(4, 9, dtype=torch.long), None, slice(None)) == 7 and Recorded.made[0].calls == 3
    for _ in range(2):
        steps(torch.zeros(3, 9, dtype=torch.long), None, slice(None))
        steps(torch.zeros(4, 9, dtype=torch.long), None, slice(5, None))
    assert len(Recorded.made) == 1, "never three in a row"
    assert seen[-1] == ((4, 9), "force_eager")


def test_a_step_that_fails_does_not_count(device):
    def step(tokens, context, asked):
        raise MemoryError

    steps = graph.CapturedSteps(step, device)
    for _ in range(5):
        with pytest.raises(MemoryError):
            steps(torch.zeros(1, 3, dtype=torch.long), None, slice(None))
    assert not Recorded.made


def test_what_cannot_capture_says_so():
    with pytest.raises(ValueError, match="captured on a CUDA device by PyTorch 2.6 or later, not on cpu"):
        trainer(graph=True)


def captured(run):
    """The trainer as on a GPU, with the step itself in place of its graph."""
    run.captured = run._learn
    return run


def test_losses_of_captured_steps_are_read_now_and_then_and_are_means():
    every = losses(trainer(steps=40), 2 * train.READ_EVERY)
    run = captured(trainer(steps=40))
    seen = [run.step() for _ in range(2 * train.READ_EVERY)]
    first, second = seen[train.READ_EVERY - 1], seen[-1]
    assert first["loss"] == pytest.approx(np.mean(every[:train.READ_EVERY]), rel=1e-9)
    assert second["loss"] == pytest.approx(np.mean(every[train.READ_EVERY:]), rel=1e-9)
    assert all(numbers["loss"] == first["loss"] for numbers in seen[train.READ_EVERY:-1]), "not read between"
    assert "loss" not in seen[0] and first["revived"] > 0, "the first batch places every code"


def test_reading_takes_what_was_not_read_yet_and_only_that():
    every = losses(trainer(), 5)
    run = captured(trainer())
    for _ in range(5):
        run.step()
    run.read()
    assert run.numbers["loss"] == pytest.approx(np.mean(every), rel=1e-9)
    run.read()
    assert run.numbers["loss"] == pytest.approx(np.mean(every), rel=1e-9), "nothing new"


def test_a_loss_that_is_no_number_stops_the_run_and_is_never_saved():
    run = captured(trainer())
    run.step()
    run.state_dict()
    with torch.no_grad():
        run.model.embedding.weight.fill_(math.nan)
    run.step()
    with pytest.raises(FloatingPointError, match="the loss became nan by step 2"):
        run.state_dict()


def test_a_resumed_run_counts_its_own_steps_only():
    whole = captured(trainer())
    for _ in range(6):
        whole.step()
    saved = whole.state_dict()
    resumed = captured(trainer())
    resumed.load_state_dict(saved)
    captured(resumed).step()
    resumed.read()
    whole.step()
    whole.read()
    assert resumed.numbers == whole.numbers


def test_training_goes_through_the_compiled_layers_and_evaluation_does_not():
    run = trainer()
    calls = []

    def compiled(layer):
        return lambda *inputs: calls.append(layer) or layer(*inputs)

    run.model.compiled = [compiled(layer) for layer in run.model.layers]
    run.step()
    assert calls == list(run.model.layers)
    run.model.eval()
    run.model(torch.zeros(1, 8, dtype=torch.long))
    assert len(calls) == len(run.model.layers)
