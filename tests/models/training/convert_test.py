"""From a softmax Transformer to a Transformer-VQ by k-means, on tiny models."""

import json
import sys

import numpy as np
import pytest
import torch

from conftest import random_model
from models.training import convert, train
from models.training.convert import quantize_keys, vq_config
from models.training.data.batch import Batch
from models.training.export import load_model, tensors_of
from models.training.files.directory import write_model
from models.training.token_bits import token_bits
from models.training.units.kmeans import kmeans


def test_kmeans_finds_clusters_that_lie_apart():
    centres = torch.tensor([[0.0, 0], [10, 0], [0, 10], [10, 10]])
    keys = centres.repeat(50, 1) + 0.1 * torch.randn(200, 2)
    clusters = kmeans(keys, 4, 10, torch.Generator().manual_seed(1))
    assert sorted(clusters.sizes.tolist()) == [50] * 4
    found = torch.cdist(centres, clusters.centres).min(-1).values
    assert found.max() < 0.1  # 0.1 / sqrt(50) is one standard deviation
    assert abs(clusters.distance - 2 * 0.1 ** 2) < 0.005


def test_kmeans_comes_nearer_with_more_codes_and_more_rounds():
    keys, random = torch.randn(500, 3), torch.Generator().manual_seed(1)
    by_codes = [kmeans(keys, count, 20, random).distance for count in (1, 4, 16, 64)]
    assert by_codes == sorted(by_codes, reverse=True)
    assert abs(by_codes[0] - (keys - keys.mean(0)).square().sum(-1).mean()) < 1e-5
    by_rounds = [kmeans(keys, 16, rounds, torch.Generator().manual_seed(2)).distance for rounds in (0, 20)]
    assert by_rounds[1] < by_rounds[0]


def test_kmeans_with_a_code_for_every_distinct_key_is_exact():
    keys = torch.randn(20, 3, dtype=torch.float64).repeat(7, 1)
    assert kmeans(keys, 20, 3, torch.Generator()).distance < 1e-12
    assert kmeans(keys, 30, 3, torch.Generator()).distance < 1e-12  # some of them are for nothing


def test_kmeans_wants_enough_keys():
    with pytest.raises(ValueError, match="3 keys do not make 4 codes"):
        kmeans(torch.randn(3, 2), 4, 1, torch.Generator())


def test_only_a_softmax_model_can_be_converted():
    with pytest.raises(ValueError, match="only a softmax_transformer becomes a .* by its keys, not a linear_transformer"):
        vq_config(random_model("linear_transformer").config, 4)


@pytest.mark.parametrize("shape", [dict(), dict(n_head=4, n_kv_head=2), dict(position_bias="toeplitz"),
                                   dict(mem_len=21, block_len=8), dict(mem_len=0), dict(block="standard", d_ff=24)])
def test_with_a_code_for_every_key_nothing_changes(shape):
    """In the first layer a token's key is the same wherever it stands, so 50 codes hold them all; most positions lie beyond the
    reach of the bias."""
    softmax = random_model("softmax_transformer", n_layer=1, **shape).float().eval()
    ids = torch.arange(50).repeat(3)[None]
    model, remaining = quantize_keys(softmax, 50, [ids], 32.0, 3, seed=1)
    assert model.config.model_type == "transformer_vq" and model.config.mem_len == softmax.config.mem_len
    assert model.config.position_bias == softmax.config.position_bias
    assert max(remaining) < 1e-6
    assert abs(model.layers[0].codebook.count.sum(-1) - 32).max() < 1e-3
    # float32 of logits below 16, keys that went through a sum and a quotient
    assert (model(ids).logits - softmax(ids).logits).abs().max() < 16 * 2.0 ** -18
    with torch.no_grad():
        bits = [token_bits(m, ids[0].numpy()) for m in (model, softmax)]
    assert np.abs(bits[0] - bits[1]).max() < 1e-3


class Counting:
    """Tokens that count up by one or, rarely, by two, from anywhere."""

    unit, stages = "bits per token", (0.0,)

    def __init__(self, options=None):
        pass

    def config_fields(self):
        return dict(vocab_size=24, eos_token_id=1, tokenizer={"type": "ids"})

    def rows(self, seed, count):
        random = np.random.default_rng(seed)
        return 4 + np.cumsum(random.choice([1, 2], (count, 33), p=[0.9, 0.1]), 1) % 20

    def source(self, stage, seed):
        seeds = iter(range(10 ** 6 * seed, 10 ** 9))

        class Source:
            def next(source):
                return Batch(torch.from_numpy(self.rows(next(seeds), 8)))

        return Source()

    def prepare(self, model):
        raise AssertionError("the model has its weights")

    def validate(self, model):
        return float(np.mean([token_bits(model, row).mean() for row in self.rows(7, 12)]))


def test_fine_tuning_mends_what_kmeans_broke(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(train.TASKS, "text", Counting)
    task = Counting()
    shape = "--d-model 16 --d-k 8 --d-v 16 --n-layer 2 --mem-len 8 --block-len 8"
    options = f"text --data d --out o --model-type softmax_transformer {shape} --steps 120 --warmup 5 --float32"
    options = train.parser().parse_args(options.split())
    trainer = train.Trainer(train.config_of(options, task), convert.KeepWeights(task), options)
    while trainer.fraction() < 1:
        trainer.step()
    write_model(tmp_path / "softmax", trainer.model.config, tensors_of(trainer.model))
    arguments = f"convert text {tmp_path}/softmax {tmp_path}/out --data d --codes 2 12 --key-tokens 2000 --steps 60 --float32"
    monkeypatch.setattr(sys, "argv", arguments.split())
    convert.main()
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    few, many = report["sizes"]
    assert report["before"] < many["after_kmeans"] < few["after_kmeans"]
    assert few["after_tuning"] < few["after_kmeans"] and many["after_tuning"] < many["after_kmeans"]
    assert report["before_tuned"] < report["before"]
    assert many["after_tuning"] < report["before"] + 0.5 * (few["after_kmeans"] - report["before"])
    assert np.mean(many["remaining_variance"]) < np.mean(few["remaining_variance"]) < 1
    assert "12 codes: after k-means" in capsys.readouterr().out
    for count, row in ((2, few), (12, many)):
        model = load_model(tmp_path / "out" / f"codes-{count}")
        assert model.config.model_type == "transformer_vq" and model.config.n_code == count
        assert abs(task.validate(model) - row["after_tuning"]) < 1e-5
