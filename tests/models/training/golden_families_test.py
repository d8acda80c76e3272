"""The golden models of every kind and block: their files belong together, and say something."""

import re

import numpy as np
import pytest
import torch

from conftest import ROOT
from models.training.export import load_model
from models.training.files import safetensors

FAMILIES = sorted(folder.name for folder in (ROOT / "tests" / "golden" / "families").iterdir())
# Rounding to float32 of values below 16; and what float32 implementations may differ by (tests/golden/README.md).
ROUNDING, FLOAT32 = 16 * 2.0 ** -24, 1e-4


def rows_of(model, ids, state=None):
    with torch.no_grad():
        return model(torch.from_numpy(ids.astype(np.int64))[None], state).logits[0].log_softmax(-1).numpy()


PREDICTING = [name for name in FAMILIES if not name.startswith("encoder")]
ENCODING = [name for name in FAMILIES if name.startswith("encoder")]


def test_every_kind_stands_in_both_blocks_and_in_every_form_of_heads():
    found = {re.fullmatch("(.+)_(gated|standard)_(.+)", name).groups() for name in FAMILIES}
    for kind in ("vq", "softmax", "linear"):
        forms = {(block, form) for k, block, form in found if k == kind}
        assert {block for block, _ in forms} == {"gated", "standard"}
        assert {form for _, form in forms} == {"single", "multi_query", "multi_head", "grouped"}
    assert {kind for kind, _, _ in found} == {"vq", "vq_toeplitz", "vq_rerope", "softmax", "softmax_toeplitz", "linear", "soft",
                                              "performer", "encoder"}
    for kind in {kind for kind, _, _ in found}:
        assert {block for k, block, _ in found if k == kind} == {"gated", "standard"}


@pytest.mark.parametrize("name", PREDICTING)
def test_expected_rows_are_the_models(golden, name):
    expected = safetensors.load(golden / "families" / name / "expected.safetensors")
    exact = load_model(golden / "families" / name).double()
    single = load_model(golden / "families" / name)
    for sequence in ("text", "constant", "short"):
        ids, rows = expected[f"{sequence}.tokens"], expected[f"{sequence}.logprobs"]
        assert np.abs(rows_of(exact, ids) - rows).max() < ROUNDING
        assert np.abs(rows_of(exact, ids, exact.initial_state(1)) - rows).max() < ROUNDING
        assert np.abs(rows_of(single, ids, single.initial_state(1)) - rows).max() < FLOAT32
    ids, last = expected["long.tokens"], expected["long.last_logprobs"]
    rows = rows_of(exact, ids, exact.initial_state(1))
    assert np.abs(rows[np.arange(len(ids) - 1), ids[1:]] - expected["long.target_logprobs"]).max() < ROUNDING
    assert np.abs(rows[-len(last):] - last).max() < ROUNDING
    prompt, greedy = expected["greedy.prompt_tokens"], expected["greedy.tokens"]
    rows = rows_of(single, np.concatenate([prompt, greedy]), single.initial_state(1))[len(prompt) - 1:-1]
    assert (rows.argmax(-1) == greedy).all()
    assert np.abs(rows.max(-1) - expected["greedy.logprobs"]).max() < FLOAT32


@pytest.mark.parametrize("name", PREDICTING)
def test_the_far_past_matters_more_than_rounding(golden, name):
    """Else an implementation that forgets it would pass."""
    ids = safetensors.load(golden / "families" / name / "expected.safetensors")["long.tokens"]
    model = load_model(golden / "families" / name).double()
    other = ids.copy()
    other[:300] = (ids[:300] + 1) % model.config.vocab_size
    assert np.abs(rows_of(model, ids)[-1] - rows_of(model, other)[-1]).max() > 10 * FLOAT32


@pytest.mark.parametrize("name", ENCODING)
def test_expected_vectors_are_the_encoders(golden, name):
    expected = safetensors.load(golden / "families" / name / "expected.safetensors")
    model = load_model(golden / "families" / name)
    names = [key[:-len(".tokens")] for key in expected if key.endswith(".tokens")]
    assert names == ["constant", "long", "short", "text"]
    for sequence in names:
        ids = torch.from_numpy(expected[f"{sequence}.tokens"].astype(np.int64))[None]
        with torch.no_grad():
            single, exact = model.float().encode(ids), model.double().encode(ids)
        assert np.abs(exact[0].numpy() - expected[f"{sequence}.vectors"]).max() < ROUNDING
        assert np.abs(single[0].numpy() - expected[f"{sequence}.vectors"]).max() < FLOAT32
