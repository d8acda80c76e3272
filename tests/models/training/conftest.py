import importlib.util
import pathlib
import sys

import pytest

if importlib.util.find_spec("torch") is None:
    print(f"{sys.executable} has no PyTorch", file=sys.stderr)
    sys.exit(77)  # to ctest, that this was skipped

import torch  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT))

from models.training.config import ModelConfig  # noqa: E402
from models.training.families import build, read_config  # noqa: E402
from models.training.model import Model  # noqa: E402


@pytest.fixture(autouse=True)
def one_thread_one_seed():
    """One thread: tiny products are slower with two, and sums then have one order."""
    torch.set_num_threads(1)
    torch.manual_seed(0)


@pytest.fixture
def golden():
    return ROOT / "tests" / "golden"


# What a small model of each kind that predicts has beside the shape that all have.
KINDS = {
    "transformer_vq": dict(n_code=7, block_len=8, mem_len=8),
    "softmax_transformer": dict(mem_len=8),
    "linear_transformer": dict(block_len=8),
    "soft_codebook": dict(n_code=7, sigma=0.7, block_len=8),
    "performer": dict(n_feature=9),
}
ENCODER = dict(model_type="vq_encoder", vocab_size=50, d_model=16, d_k=8, d_v=12, n_layer=2, n_code=7)
# Small models of the public families with recurrent layers.
SHARED = dict(vocab_size=50, hidden_size=16, num_hidden_layers=2)
PUBLIC = {
    "rwkv7": dict(SHARED, model_type="rwkv7", head_dim=8, intermediate_size=24, decay_low_rank_dim=4, a_low_rank_dim=3,
                  v_low_rank_dim=2, gate_low_rank_dim=5),
    "mamba2": dict(SHARED, model_type="mamba2", num_heads=4, head_dim=8, state_size=6, n_groups=2, tie_word_embeddings=True),
    "qwen3_5_text": dict(SHARED, model_type="qwen3_5_text", intermediate_size=24,
                         layer_types=["linear_attention", "full_attention"], linear_num_key_heads=2, linear_num_value_heads=4,
                         linear_key_head_dim=6, linear_value_head_dim=5, num_attention_heads=4, num_key_value_heads=2, head_dim=8,
                         rope_parameters={"rope_theta": 1e4, "partial_rotary_factor": 0.5}),
}
BLOCKS = {"gated": dict(), "standard": dict(block="standard", d_ff=24)}


def random_model(model_type="transformer_vq", **options) -> Model:
    """A small model in float64 with every parameter away from its initial zero."""
    shape = dict(vocab_size=50, d_model=16, d_k=8, d_v=12, n_layer=2, model_type=model_type, **KINDS.get(model_type, {}))
    model = Model(ModelConfig(**{**shape, **options})).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
        for layer in model.layers:
            if hasattr(layer, "codebook"):
                layer.codebook.count.uniform_(0.5, 20)
                layer.codebook.sum.normal_().mul_(layer.codebook.count[..., None] * 0.5)
    return model


def random_public_model(family: str, **options):
    """The same of a public family."""
    model = build(read_config({**PUBLIC[family], **options})).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return model
