"""The copy and the recall task: what they ask for is what was there before, and a model can learn it."""

import json
import os
import pathlib
import subprocess
import sys
import types

import numpy as np
import pytest
import torch

from models.training.config import ModelConfig
from conftest import random_model
from models.training import memory_report
from models.training.data import memory_tasks
from models.training.data.memory_tasks import Copy, Made, Recall, wrong
from models.training.files import checkpoint
from models.training.train import Trainer

ROOT = pathlib.Path(__file__).resolve().parents[3]


class Knows:
    """Answers each position with a given token, as a model's logits."""

    training = False

    def __init__(self, answers, vocabulary):
        self.answers, self.vocabulary = answers, vocabulary
        self.rows = 0  # of which have been answered

    def parameters(self):
        return iter([torch.zeros(1)])

    def initial_state(self, batch):
        self.rows += batch
        return 0

    def eval(self):
        return self

    def train(self, _):
        return self

    def __call__(self, tokens, state):
        end = state + tokens.shape[1]
        answers = self.answers[self.rows - len(tokens):self.rows, state:end]
        logits = torch.nn.functional.one_hot(torch.from_numpy(answers), self.vocabulary)
        return types.SimpleNamespace(logits=logits, state=end)


def test_copy_asks_for_the_same_symbols():
    task = Copy(4096, symbols=10, longest=128)
    for _ in range(5):
        asked = task.make(np.random.default_rng(3), 4096)
        length = (asked.tokens.shape[1] - 2) // 2
        assert 64 <= length <= 128 and abs(asked.tokens.size - 4096) < 2 * asked.tokens.shape[1]
        assert (asked.tokens[:, 1:][:, asked.targets] == asked.tokens[:, 1:1 + length]).all()
        assert asked.tokens.max() < task.vocab_size


@pytest.mark.parametrize("distance", [10, 777])
def test_recall_asks_for_the_value_of_each_key(distance):
    task = Recall(4096, pairs=5, keys=9, values=4, noise=3)
    asked = task.rows(np.random.default_rng(3), 20, distance)
    assert asked.tokens.shape == (20, 1 + 10 + distance + 10) and asked.tokens.max() < task.vocab_size
    for row in asked.tokens:
        given = dict(zip(row[1:11:2], row[2:11:2]))
        assert len(given) == 5
        assert all(1 + 9 + 4 <= token for token in row[11:11 + distance])
        keys = row[11 + distance::2]
        assert sorted(keys) == sorted(given)
        assert list(row[1:][asked.targets]) == [given[key] for key in keys]


@pytest.mark.parametrize("segment, rows", [(1024, 16), (4, 16), (4, 2), (1, 1)])
def test_wrong_counts_what_is_asked_for_alone(monkeypatch, segment, rows):
    monkeypatch.setattr(memory_tasks, "SEGMENT", segment)
    monkeypatch.setattr(memory_tasks, "ROWS", rows)
    task = Copy(4096, symbols=3, longest=4)
    asked = task.rows(np.random.default_rng(0), 3, 4)
    answers = np.zeros_like(asked.tokens[:, 1:])
    answers[:, asked.targets] = asked.tokens[:, 1:][:, asked.targets]
    assert wrong(Knows(answers, task.vocab_size), asked) == 0
    answers[0, -1] = (answers[0, -1] + 1) % task.vocab_size
    assert wrong(Knows(answers, task.vocab_size), asked) == pytest.approx(1 / 12)


def test_an_evaluation_in_segments_is_that_of_the_whole(monkeypatch):
    task = Recall(0, pairs=3)
    model = random_model(vocab_size=task.vocab_size).eval()
    whole = task.wrong_at(model, 50)
    monkeypatch.setattr(memory_tasks, "SEGMENT", 16)
    assert 0 < whole == task.wrong_at(model, 50)


def test_only_what_is_asked_for_counts_in_the_loss():
    """The loss of a step is that of the values behind keys asked for again."""
    task = Recall(300, pairs=3)
    options = types.SimpleNamespace(device="cpu", seed=1, muon_rate=0.02, adam_rate=4e-3, weight_decay=0.0, minutes=0, steps=1,
                                    warmup=10, cooldown_from=0.5, commitment=0, dropout=0.0, bfloat16=False, compile=False, graph=False)
    trainer = Trainer(random_model("softmax_transformer", vocab_size=task.vocab_size).config, task, options)
    batch = task.source(0, 1).next()
    tokens = batch.tokens.numpy()
    logits = trainer.model(batch.tokens[:, :-1]).logits.log_softmax(-1).detach().numpy()
    values = [(row, at + 1) for row, ids in enumerate(tokens) for at in range(len(ids) - 1)
              if 1 <= ids[at] <= task.keys and ids[at] in ids[1:at]]
    expected = -np.mean([logits[row, at - 1, tokens[row, at]] for row, at in values])
    assert trainer.step()["loss"] == pytest.approx(expected, rel=1e-5)  # float32 means of some dozen values


def test_recall_is_asked_at_distances_up_to_the_farthest():
    assert Recall(1).distances(10_000) == [10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000]
    assert Recall(1, farthest=90).distances() == [10, 20, 50]
    with pytest.raises(ValueError, match="20 pairs need as many keys, there are 10"):
        Recall(1, pairs=20, keys=10)


def test_a_source_goes_on_where_it_was():
    task = Recall(500, pairs=3)
    first = Made(task.make, 500, seed=1)
    first.next()
    state = first.state_dict()
    expected = [first.next().tokens for _ in range(3)]
    second = Made(task.make, 500, seed=2)
    second.load_state_dict(state)
    assert all(torch.equal(second.next().tokens, tokens) for tokens in expected)


def test_a_model_learns_to_recall():
    torch.manual_seed(0)
    task = Recall(1000, pairs=2, farthest=20, keys=3, values=2, noise=2)
    config = ModelConfig(d_model=32, d_k=16, d_v=32, n_layer=2, n_head=2, tie_word_embeddings=True, output_norm=True,
                         logit_scale=32 ** -0.5, model_type="softmax_transformer", mem_len=8, pe_abs=True, **task.config_fields())
    options = types.SimpleNamespace(device="cpu", seed=1, muon_rate=0.02, adam_rate=4e-3, weight_decay=0.0, minutes=0, steps=200,
                                    warmup=10, cooldown_from=0.5, commitment=1e-4, dropout=0.0,
                                    bfloat16=False, compile=False, graph=False)
    trainer = Trainer(config, task, options)
    for _ in range(200):
        trainer.step()
    assert task.validate(trainer.model) < 0.2  # half of the values are right by chance


def test_the_report_asks_beyond_the_training(tmp_path):
    run = tmp_path / "a linear one"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    shape = ["--d-model", "16", "--d-k", "8", "--d-v", "8", "--n-layer", "1", "--threads", "1"]
    for command in (["train", "recall", "--model-type", "linear_transformer", "--out", run, "--steps", "4", "--validate-every", "2",
                     "--pairs", "3", "--farthest", "20", "--batch-tokens", "100", *shape],
                    ["memory_report", "recall", run, "--farthest", "100", "--pairs", "2", "3", "--json", tmp_path / "report.json"]):
        done = subprocess.run([sys.executable, "-m", f"models.training.{command[0]}", *map(str, command[1:])], env=environment,
                              capture_output=True, text=True, timeout=200)
        assert done.returncode == 0, done.stderr
    tables = done.stdout.strip().split("\n\n")
    assert [table.splitlines()[0] for table in tables] == [
        "| right after step | 2 | 4 |", "| 8 pairs, right at distance | 10 | 20 | 50 | 100 |",
        "| right at distance 100, pairs | 2 | 3 |"]
    assert all(table.splitlines()[2].startswith("| a linear one | ") and table.count("%") == table.splitlines()[0].count("|") - 2
               for table in tables)
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["task"] == "recall" and [one["kind"] for one in report["runs"]] == ["linear_transformer"]
    assert all(0 <= share < 1 for part in ("by_step", "by_distance", "by_pairs") for share in report["runs"][0][part].values())


def test_the_report_names_what_a_run_lacks(tmp_path):
    runs = [{"name": "whole", "by_step": {50: 0.5, 1000: 0.7}}, {"name": "ended early", "by_step": {50: 0.4}}]
    assert memory_report.table("right after step", runs[:1], "by_step").splitlines()[2] == "| whole | 50.0% | 70.0% |"
    with pytest.raises(ValueError, match="^ended early has no share of what is right after step 1,000, other runs have"):
        memory_report.table("right after step", runs, "by_step")
    with pytest.raises(ValueError, match="no run has a share of what is right after step"):
        memory_report.table("right after step", [{"name": "empty", "by_step": {}}], "by_step")


def test_the_report_asks_only_models_of_its_task(tmp_path):
    model = random_model(vocab_size=Recall(0, keys=9).vocab_size)
    checkpoint.save(tmp_path / "best.pt", {"config": model.config.to_json(), "model": model.state_dict()})
    (tmp_path / "validations.jsonl").write_text('{"step": 50, "value": 0.5}\n')
    with pytest.raises(ValueError, match="has 22 tokens, must have the 29 of the recall task: 1, 16 keys, 8 values and 4 of noise"):
        memory_report.report_of(tmp_path, "recall", 10, [1])
