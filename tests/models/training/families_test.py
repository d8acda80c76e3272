"""Every kind in every block: the quadratic form, the block form and the form step by step are one function."""

import numpy as np
import pytest
import torch

from conftest import BLOCKS, KINDS, random_model
from models.training.export import load_model, tensors_of
from models.training.files.directory import write_model
from models.training.generate import generate
from models.training.token_bits import token_bits
from models.training.units import softmax_unit
from models.training.units.feature_unit import elu_plus_one

HEADS = [dict(), dict(n_head=4, n_kv_head=2), dict(n_head=3, n_kv_head=1)]
# The same float64 numbers added in another order: a few roundings (1e-16) of sums below 1,000.
TOLERANCE = 1e-10
every_model = pytest.mark.parametrize("kind, block, heads", [
    (kind, block, heads) for kind in KINDS for block in BLOCKS for heads in HEADS])


@pytest.fixture(autouse=True)
def few_queries_at_a_time(monkeypatch):
    """So that short texts take the path of long ones."""
    monkeypatch.setattr(softmax_unit, "QUERIES", 16)


def made(kind, block, heads, **options):
    return random_model(kind, **BLOCKS[block], **heads, pe_abs=True, output_norm=True, **options)


@every_model
@pytest.mark.parametrize("tokens", [1, 7, 40, 101])
def test_quadratic_form_block_form_and_step_by_step(kind, block, heads, tokens):
    model = made(kind, block, heads)
    ids = torch.randint(50, (2, tokens))
    quadratic = model(ids).logits
    assert (model(ids, model.initial_state(2)).logits - quadratic).abs().max() < TOLERANCE
    state, begun = model.initial_state(2), 0
    for i in range(tokens):
        output = model(ids[:, begun:i + 1], state)  # a kind with a granule runs what is begun again
        assert (output.logits[:, -1] - quadratic[:, i]).abs().max() < TOLERANCE
        if output.state is not None:
            state, begun = output.state, i + 1
    assert begun == tokens // model.granule * model.granule


@every_model
def test_carrying_the_state_over_segments_changes_nothing(kind, block, heads):
    model = made(kind, block, heads)
    ids, sizes = torch.randint(50, (2, 88)), (8, 24, 16, 32, 5, 3)
    state, parts, begin = model.initial_state(2), [], 0
    for size in sizes:
        output = model(ids[:, begin:begin + size], state)
        parts.append(output.logits)
        begin, state = begin + size, output.state
        if state is None:
            break
    whole = model(ids[:, :begin]).logits
    assert begin == (85 if model.granule > 1 else 88)
    assert (whole - torch.cat(parts, 1)).abs().max() < TOLERANCE


@every_model
def test_gradients_of_both_forms_are_equal(kind, block, heads):
    """The block form of vq gives far keys no gradient (attention_test.py); here all is within reach."""
    model = made(kind, block, heads, **({"mem_len": 24} if kind == "transformer_vq" else {}))
    ids, found = torch.randint(50, (2, 24 if kind == "transformer_vq" else 29)), []
    for state in (None, model.initial_state(2)):
        model.zero_grad()
        output = model(ids, state)
        output.logits.square().mean().backward()
        found.append({name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None})
    assert found[0].keys() == found[1].keys() >= {"layers.0.q_proj.weight", "layers.1.k_proj.weight"}
    for name in found[0]:
        assert torch.allclose(found[0][name], found[1][name], rtol=1e-8, atol=1e-11), name


@every_model
def test_a_model_directory_gives_the_model_back_and_generates(tmp_path, kind, block, heads):
    model = made(kind, block, heads).float()
    write_model(tmp_path, model.config, tensors_of(model))
    again = load_model(tmp_path)
    assert again.config == model.config
    ids = torch.randint(50, (1, 40))
    assert torch.equal(again(ids, again.initial_state(1)).logits, model(ids, model.initial_state(1)).logits)
    model = again.double()
    prompt = [3, 1, 4]
    chosen = generate(model, prompt, 30, temperature=0)
    assert model(torch.tensor([prompt + chosen])).logits[0, 2:-1].argmax(-1).tolist() == chosen


@every_model
def test_evaluation_does_not_depend_on_segments(kind, block, heads):
    model, ids = made(kind, block, heads), np.random.default_rng(1).integers(0, 50, 90)
    rows = model(torch.from_numpy(ids)[None]).logits[0].log_softmax(-1) / -np.log(2)
    expected = rows[torch.arange(89), torch.from_numpy(ids[1:])].detach().numpy()
    # float64 model, float32 cross entropy: 24 bits of values below 64
    assert np.abs(token_bits(model, ids, segment=16) - expected).max() < 64 * 2.0 ** -22


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("kind", KINDS)
def test_names_of_tensors(kind, block):
    names = {name[len("layers.0."):] for name in tensors_of(random_model(kind, **BLOCKS[block], n_layer=1))
             if name.startswith("layers.")}
    shared = {"norm.weight", "norm.bias", "q_proj.weight", "k_proj.weight", "v_proj.weight", "o_proj.weight"}
    of_block = {"gated": {"g_proj.weight"},
                "standard": {"mlp_norm.weight", "mlp_norm.bias", "mlp_up.weight", "mlp_up.bias", "mlp_down.weight",
                             "mlp_down.bias"}}
    relative = {"r_proj.weight", "u", "w"}
    of_kind = {"transformer_vq": relative | {"codebook.sum", "codebook.count"}, "softmax_transformer": relative,
               "linear_transformer": set(), "soft_codebook": {"codebook.sum", "codebook.count"}, "performer": {"features"}}
    assert names == shared | of_block[block] | of_kind[kind]


@pytest.mark.parametrize("kind, form, own", [
    ("transformer_vq", "relative", {"r_proj.weight", "u", "w"}), ("softmax_transformer", "relative", {"r_proj.weight", "u", "w"}),
    ("transformer_vq", "toeplitz", {"distance_bias"}), ("softmax_transformer", "toeplitz", {"distance_bias"}),
    ("transformer_vq", "rerope", set())])
def test_names_of_tensors_of_each_bias(kind, form, own):
    names = {name.split(".", 2)[2] for name in tensors_of(random_model(kind, position_bias=form, n_layer=1))
             if name.startswith("layers.")}
    assert names & {"r_proj.weight", "u", "w", "distance_bias"} == own


def sizes(state):
    return [tensor[0].numel() for layer in state.layers for tensor in layer]


@pytest.mark.parametrize("kind", KINDS)
def test_the_state_of_softmax_alone_grows(kind):
    model = random_model(kind)
    state = model.initial_state(1)
    begin = sizes(state)
    for _ in range(3):
        state = model(torch.randint(50, (1, 16)), state).state
    expected = [48 * model.config.d_k, 48 * model.config.d_v] * 2 if kind == "softmax_transformer" else begin
    assert sizes(state) == expected


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("block", BLOCKS)
def test_far_tokens_matter(kind, block):
    model = random_model(kind, **BLOCKS[block], n_layer=1)
    ids = torch.randint(50, (1, 40))
    other = ids.clone()
    other[0, 3] = (ids[0, 3] + 1) % 50
    last = [model(x, model.initial_state(1)).logits[0, -1] for x in (ids, other)]
    assert (last[0] - last[1]).abs().max() > 1e6 * TOLERANCE  # far beyond what rounding does


def test_a_softmax_model_whose_keys_are_codewords_is_the_vq_model():
    vq = random_model("transformer_vq", n_layer=1)
    softmax = random_model("softmax_transformer", n_layer=1)
    softmax.load_state_dict(vq.state_dict(), strict=False)
    ids = torch.randint(50, (1, 40))
    project = softmax.layers[0].project

    def quantized(normed):
        query, bias, keys = project(normed)
        return query, bias, vq.layers[0].codebook(keys)[1]

    softmax.layers[0].project = quantized
    assert (softmax(ids).logits - vq(ids).logits).abs().max() < TOLERANCE


@pytest.mark.parametrize("kind", ["softmax_transformer", "linear_transformer", "soft_codebook", "performer"])
def test_a_carried_state_gets_no_gradient(kind):
    model = random_model(kind)
    state = model(torch.randint(50, (1, 16)), model.initial_state(1)).state
    assert not any(tensor.requires_grad for layer in state.layers for tensor in layer)


def test_features_of_very_negative_numbers_are_above_zero():
    x = torch.tensor([-80.0, -17.5, -1e-3, 0.0, 2.0])
    features = elu_plus_one(x)
    assert (features > 0).all()
    assert torch.allclose(features, torch.tensor([-80.0, -17.5, -1e-3, 0.0, 1.0986123]).exp(), rtol=1e-6)
    assert torch.autograd.functional.jacobian(elu_plus_one, x).diag().isfinite().all()


def test_the_standard_block_is_what_its_formula_says():
    model = random_model("linear_transformer", block="standard", d_ff=24, n_layer=1)
    layer, x = model.layers[0], torch.randn(1, 9, 16, dtype=torch.float64)

    def norm(x, part):
        centred = x - x.mean(-1, keepdim=True)
        return centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt() * part.weight + part.bias

    normed = norm(x, layer.norm)[0]
    query, keys, values = (normed @ part.weight.T for part in (layer.q_proj, layer.k_proj, layer.v_proj))
    phi = lambda z: torch.nn.functional.elu(z) + 1
    rows = []
    for i in range(9):
        weights = phi(query[i]) @ phi(keys[:i + 1]).T
        rows.append(weights @ values[:i + 1] / weights.sum())
    y = x[0] + torch.stack(rows) @ layer.o_proj.weight.T
    hidden = norm(y, layer.mlp_norm) @ layer.mlp_up.weight.T + layer.mlp_up.bias
    hidden = 0.5 * hidden * (1 + torch.tanh((2 / np.pi) ** 0.5 * (hidden + 0.044715 * hidden ** 3)))
    expected = y + hidden @ layer.mlp_down.weight.T + layer.mlp_down.bias
    assert (layer(x, None)[0][0] - expected).abs().max() < TOLERANCE
