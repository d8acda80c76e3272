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

from models.conversion.config import read_config  # noqa: E402
from models.conversion.model import Model  # noqa: E402


@pytest.fixture(autouse=True)
def one_thread_one_seed():
    """One thread: tiny products are slower with two, and sums then have one order."""
    torch.set_num_threads(1)
    torch.manual_seed(0)


@pytest.fixture
def golden():
    return ROOT / "tests" / "golden"


SHAPE = dict(model_type="llama", vocab_size=40, hidden_size=24, intermediate_size=32, num_hidden_layers=2, num_attention_heads=6,
             num_key_value_heads=2, head_dim=8, prefill_chunk=64)
CONVERSION = dict(version=1, codes=7, trained_context=128, ring=64, wide=[{"ring": 128, "heads": [[1, 0]]}])


def random_model(state=torch.float32, conversion=CONVERSION, **fields) -> Model:
    """A small model in float64, its codewords among its keys."""
    config = read_config({**SHAPE, **fields, **({"conversion": conversion} if conversion else {})})
    model = Model(config, state).double().eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" in name:
                parameter.copy_(1 + 0.3 * torch.randn_like(parameter))
            elif parameter.dim() == 2 and "embed" not in name:
                parameter.copy_(1.5 * torch.randn_like(parameter) * parameter.shape[-1] ** -0.5)
            else:
                parameter.copy_(0.5 * torch.randn_like(parameter))
        for name, parameter in model.named_parameters():
            if name.endswith(("assign", "score")):
                parameter.normal_()  # as long as keys are
            elif name.endswith("map"):
                parameter.add_(torch.eye(parameter.shape[-1]))
    return model
