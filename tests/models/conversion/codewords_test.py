"""Codewords, and what weighs keys."""

import torch

from models.conversion import attention, codewords
from models.conversion.attention import Heads
from models.conversion.rotation import Positions

READERS, LENGTH, DIM, RING, CONTEXT = 3, 400, 8, 64, 256
FREQUENCIES = torch.tensor([1.0, 0.1, 0.01, 0.001])


def seen(scale=2.0):
    heads = Heads(scale * torch.randn(READERS, LENGTH, DIM), torch.randn(LENGTH, DIM), torch.randn(LENGTH, DIM))
    return heads, Positions(FREQUENCIES, LENGTH, CONTEXT)


def test_a_distance_is_what_a_far_score_is_off():
    (heads, positions), (other, _) = seen(), seen()
    metric = codewords.metric_of([heads, other], [positions, positions], RING)
    assert torch.allclose(metric, metric.T)
    off = torch.randn(DIM).double()
    far = torch.cat([positions.beyond(RING).of(text.queries)[:, RING:].flatten(0, 1) for text in (heads, other)]).double()
    mean_square = (far @ off).square().mean()
    ridge = codewords.RIDGE * far.square().mean() * off.square().sum()
    assert torch.allclose((off @ metric).square().sum(), mean_square + ridge, rtol=1e-6)


def test_keys_weigh_what_far_queries_give_them():
    heads, positions = seen()
    weights = codewords.received(heads, positions, RING)
    scores = attention.all_exact(heads, positions, torch.float32)(0, LENGTH).softmax(-1)
    at = torch.linspace(RING, LENGTH - 1, codewords.QUERIES).long()
    far = at[:, None] - torch.arange(LENGTH) >= RING
    wanted = (scores[:, at] * far).sum((0, 1))
    wanted[0] = 0
    assert torch.allclose(weights, wanted, atol=1e-5) and weights[1:LENGTH - RING].min() > 0
    assert (weights[LENGTH - RING:] == 0).all()


def test_finds_the_centres_that_there_are():
    centres = torch.tensor([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0], [10.0, 10.0]]).double()
    points = (centres.repeat(50, 1) + 0.1 * torch.randn(200, 2)).double()
    for seed in range(5):
        words = codewords.k_means(points, torch.ones(200).double(), 4, torch.Generator().manual_seed(seed))
        nearest = torch.cdist(centres, words).min(1)
        assert len(nearest.indices.unique()) == 4 and nearest.values.max() < 0.1


def test_a_heavy_key_draws_its_word_nearer():
    points = torch.tensor([[0.0], [1.0], [2.0]]).double()
    words = codewords.k_means(points, torch.tensor([1.0, 1.0, 8.0]).double(), 1, torch.Generator().manual_seed(0))
    assert torch.allclose(words, torch.tensor([[1.7]]).double())


def test_words_are_keys_and_the_sink_is_none_of_them():
    heads, positions = seen()
    heads.keys[0] = 1000
    words = codewords.find([heads], [positions], RING, 16, torch.Generator().manual_seed(0))
    assert words.assign.shape == (16, DIM) and words.assign.abs().max() < 10
    again = codewords.find([heads], [positions], RING, 16, torch.Generator().manual_seed(0))
    assert torch.equal(words.assign, again.assign) and torch.equal(words.metric, again.metric)
