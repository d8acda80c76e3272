import pathlib
import sys

import pytest
import torch

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


def random_model(**options) -> Model:
    """A small model in float64 with every parameter away from its initial zero."""
    shape = dict(vocab_size=50, d_model=16, d_k=8, d_v=12, n_code=7, n_layer=2, block_len=8, mem_len=8)
    model = Model(ModelConfig(**{**shape, **options})).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
        for layer in model.layers:
            layer.codebook.count.uniform_(0.5, 20)
            layer.codebook.sum.normal_().mul_(layer.codebook.count[..., None] * 0.5)
    return model
