"""What a cache of all keys and values would take of each token, which is told of models of every kind."""

import contextlib
import json

import pytest
from gateway_process import GatewayProcess
from server_process import GOLDEN, ServerProcess

FOLDERS = {"vq": "families/vq_standard_grouped", "linear": "families/linear_standard_grouped",
           "softmax": "families/softmax_standard_grouped", "llama": "hugging_face/llama_gqa",
           "converted": "hugging_face/converted_llama", "grown": "hugging_face/converted_grow"}
CACHES = ["softmax", "llama"]  # whose sessions are nothing else
STATES = {"float32": 4, "bfloat16": 2}  # bytes of a number
PAGE, LONGEST = 256, 2048  # a session's list of so few pages takes less than a byte of each token


def cached_numbers(kind):
    """Keys and values of all kv heads, by config.json."""
    config = json.loads((GOLDEN / FOLDERS[kind] / "config.json").read_text())
    if "d_k" in config:
        return config["n_layer"] * config["n_kv_head"] * (config["d_k"] + config["d_v"])
    return config["num_hidden_layers"] * config["num_key_value_heads"] * 2 * config["head_dim"]


@pytest.fixture(scope="module", params=STATES)
def served(request, api):
    """The dtype of states, and a server and its gateway."""
    models = [flag for kind, folder in FOLDERS.items() for flag in ("--model", f"{kind}={GOLDEN / folder}")]
    with contextlib.ExitStack() as started:
        server = started.enter_context(
            ServerProcess(api, *models, "--state-dtype", request.param, "--max-model-len", LONGEST))
        yield request.param, server, started.enter_context(GatewayProcess(server.address))


def expected(kind, state):
    of_numbers = STATES["float32" if kind == "linear" else state]  # docs/state.md: sums are float32 whatever --state-dtype says
    return cached_numbers(kind) * of_numbers


def quote(server, kind, tokens=0):
    return server.models.GetModel(server.api.model.GetModelRequest(name=kind, quoted_tokens=tokens)).model


def test_it_is_by_the_heads_of_the_model_and_the_dtype_of_its_state(served, tvq):
    state, server, gateway = served
    by_kind = {kind: expected(kind, state) for kind in FOLDERS}
    told = json.loads(tvq("--server", server.address, "info", "--json").stdout)["models"]
    assert {model["name"]: model["cache_bytes_per_token"] for model in told} == by_kind
    assert {kind: quote(server, kind).cache_bytes_per_token for kind in FOLDERS} == by_kind
    assert {kind: gateway.get(f"/v1/models/{kind}").json["cache_bytes_per_token"] for kind in FOLDERS} == by_kind


@pytest.mark.parametrize("kind", CACHES)
def test_a_session_that_is_a_cache_grows_by_it(served, kind):
    _, server, _ = served
    page, whole = quote(server, kind, PAGE), quote(server, kind, LONGEST)
    growth = (whole.bytes_per_session - page.bytes_per_session) // (LONGEST - PAGE)
    assert whole.cache_bytes_per_token == growth == whole.bytes_per_token


def test_a_session_that_does_not_grow_soon_takes_less(served):
    _, server, _ = served
    for kind in ["vq", "linear", "converted"]:
        model = quote(server, kind)
        assert not model.state_grows and model.bytes_per_token == 0 < model.cache_bytes_per_token
