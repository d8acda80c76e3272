"""The fit of what codes score."""

import pytest
import torch

from models.conversion import attention, codewords, layer_fit
from models.conversion.attention import Heads, Scorer
from models.conversion.codebook import codes_of
from models.conversion.layer_fit import Scores
from models.conversion.rotation import Positions

KV_HEADS, READERS, LENGTH, DIM, RING, CONTEXT, CODES = 2, 3, 300, 8, 64, 256, 12
FREQUENCIES = torch.tensor([1.0, 0.1, 0.01, 0.001])


@pytest.fixture
def text():
    """Kv heads whose queries prefer some keys."""
    return [Heads(3 * torch.randn(READERS, LENGTH, DIM), torch.randn(LENGTH, DIM), torch.randn(LENGTH, DIM))
            for _ in range(KV_HEADS)]


def positions():
    return Positions(FREQUENCIES, LENGTH, CONTEXT)


def words_of(text):
    return [codewords.find([heads], [positions()], RING, CODES, torch.Generator().manual_seed(head))
            for head, heads in enumerate(text)]


def test_attends_as_the_model_does(text):
    heads, word = text[0], words_of(text)[0]
    codes = codes_of(heads.keys, word.assign, word.metric)
    scores = Scores(word.assign, torch.eye(DIM) + 0.1 * torch.randn(READERS, DIM, DIM), torch.randn(READERS))
    at = torch.tensor([RING + 1, 100, 199, LENGTH - 1])
    wanted, found = layer_fit.attended(heads, positions(), codes, scores, RING, at, LENGTH)
    exact = attention.attend(heads.values, attention.all_exact(heads, positions(), torch.float32))
    coded = attention.attend(heads.values, attention.coded_beyond_ring(
        heads, positions(), torch.float32, RING, Scorer(*scores), codes))
    assert torch.allclose(wanted, exact[:, at], atol=1e-5)
    assert torch.allclose(found, coded[:, at], atol=1e-5)
    assert (found - wanted).abs().max() > 0.01


def test_queries_have_far_keys_in_texts_of_all_lengths():
    lengths = []
    for seed in range(200):
        at, length = layer_fit.places(LENGTH, RING, torch.Generator().manual_seed(seed))
        assert RING < at.min() and at.max() < length <= LENGTH and (at.diff() >= 0).all()
        lengths.append(length)
    assert min(lengths) < 120 and max(lengths) > 280


def test_brings_the_layers_output_nearer(text):
    o_proj = torch.randn(24, KV_HEADS * READERS * DIM)
    words = words_of(text)
    fitted = layer_fit.fit([text], [positions()], words, o_proj, RING, 150, torch.Generator().manual_seed(0))
    codes = [codes_of(heads.keys, word.assign, word.metric) for heads, word in zip(text, words)]
    unfitted = Scores(torch.stack([word.assign for word in words]), torch.eye(DIM).repeat(KV_HEADS * READERS, 1, 1),
                      torch.zeros(KV_HEADS * READERS))
    at = torch.arange(RING + 1, LENGTH)
    errors = [layer_fit.relative_error(text, positions(), codes, scores, o_proj, RING, at, LENGTH)
              for scores in (unfitted, fitted.scores)]
    assert errors[1] < 0.9 * errors[0]


def test_without_steps_codes_score_as_what_assigns(text):
    words = words_of(text)
    fitted = layer_fit.fit([text], [positions()], words, torch.randn(24, KV_HEADS * READERS * DIM), RING, 0,
                           torch.Generator().manual_seed(0))
    assert torch.equal(fitted.scores.score[1], words[1].assign) and not fitted.scores.bias.any()
    assert torch.equal(fitted.scores.map[4], torch.eye(DIM))
