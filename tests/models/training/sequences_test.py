import types

import numpy as np
import pytest
import torch

from conftest import random_model
from models.training.config import ModelConfig
from models.training.data.sequences import Sequences, begin_at_frequencies
from models.training.files import checkpoint
from models.training.train import Trainer


def groups():
    """Rows that say who they are: length and number."""
    return [np.array([[100 * length + number] * length for number in range(count)], np.uint16)
            for length, count in ((4, 7), (6, 10), (9, 1))]


def rows(source, count):
    return [row.tolist() for _ in range(count) for row in source.next().tokens]


def test_every_sequence_comes_once_a_pass_and_passes_differ():
    source = Sequences(groups(), tokens=12, seed=3)
    whole = sorted(row.tolist() for group in groups() for row in group)
    first, second = rows(source, 2 + 5 + 1), rows(source, 2 + 5 + 1)
    assert sorted(first) == sorted(second) == whole
    assert first != second
    batch = Sequences(groups(), tokens=12, seed=3).next()
    assert batch.context is None and batch.fresh, "nothing is carried from one sequence to another"


def test_a_batch_has_sequences_of_one_length_and_no_padding():
    source = Sequences(groups(), tokens=12, seed=3)
    for _ in range(40):
        tokens = source.next().tokens
        assert set((tokens // 100).flatten().tolist()) == {tokens.shape[1]}
        assert len(tokens) <= {4: 4, 6: 2, 9: 1}[tokens.shape[1]]


def test_half_of_the_batches_drop_the_first_token():
    source = Sequences([np.tile(np.arange(5, dtype=np.uint16), (400, 1))], tokens=4, seed=1, drop_first=True)
    begins = [source.next().tokens[0].tolist() for _ in range(400)]
    assert {tuple(row) for row in begins} == {(0, 1, 2, 3, 4), (1, 2, 3, 4)}
    assert 150 < sum(len(row) == 5 for row in begins) < 250


@pytest.mark.parametrize("before", [0, 3, 8, 13])
def test_state_is_restored_within_and_between_passes(before):
    source, other = Sequences(groups(), 12, seed=3, drop_first=True), Sequences(groups(), 12, seed=3, drop_first=True)
    rows(source, before)
    other.load_state_dict(source.state_dict())
    assert rows(other, 20) == rows(source, 20)


def test_nothing_to_train_on_is_refused():
    with pytest.raises(ValueError, match="no sequences"):
        Sequences([np.zeros((0, 5), np.uint16)], 12, 1)


def test_begins_at_the_frequencies():
    model = random_model(logit_scale=0.25)
    with torch.no_grad():
        model.lm_head.weight.zero_()
    counts = np.arange(50)
    begin_at_frequencies(model, counts)
    chances = model(torch.tensor([[1, 2, 3]])).logits.softmax(-1)
    assert np.allclose(chances.detach().numpy(), (counts + 0.5) / (counts + 0.5).sum())


class Counting:
    """A task of short sequences that count up, and of some longer than the quadratic form is used for."""

    stages = (0.0,)

    def __init__(self, lengths):
        random = np.random.default_rng(0)
        self.groups = [((random.integers(0, 20, (60, 1)) + np.arange(length + 1)) % 20).astype(np.uint16)
                       for length in lengths]

    def source(self, stage, seed):
        return Sequences(self.groups, 64, seed)

    def prepare(self, model):
        pass


def trainer(lengths=(6, 13), steps=60):
    config = ModelConfig(vocab_size=24, d_model=16, d_k=8, d_v=16, n_code=8, n_layer=2, block_len=8, mem_len=8,
                         tie_word_embeddings=True, output_norm=True, logit_scale=0.25)
    options = types.SimpleNamespace(device="cpu", seed=1, muon_rate=0.02, adam_rate=4e-3, weight_decay=0.1, minutes=0,
                                    steps=steps, warmup=3, cooldown_from=0.4, commitment=1e-4, dropout=0.0,
                                    bfloat16=False, compile=False, graph=False)
    return Trainer(config, Counting(lengths), options)


@pytest.mark.parametrize("lengths", [(6, 13), (160,)])
def test_training_on_sequences_lowers_the_loss(lengths):
    run = trainer(lengths)
    seen = [run.step()["loss"] for _ in range(60)]
    assert np.mean(seen[-10:]) < 0.5 * np.mean(seen[:3])


def test_resumed_run_equals_uninterrupted_run(tmp_path):
    run = trainer(steps=24)
    whole = [run.step()["loss"] for _ in range(24)]
    first = trainer(steps=24)
    start = [first.step()["loss"] for _ in range(15)]
    checkpoint.save(tmp_path / "checkpoint.pt", first.state_dict())
    second = trainer(steps=24)
    second.load_state_dict(checkpoint.load(tmp_path / "checkpoint.pt"))
    assert start + [second.step()["loss"] for _ in range(9)] == whole
