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
