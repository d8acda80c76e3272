"""Vectors of a text by a model that looks both ways, served beside one that predicts."""

import contextlib

import golden_file
import grpc
import numpy as np
import pytest
from metrics_endpoint import Metrics
from raw_http2 import unread_call
from server_process import GOLDEN, ServerProcess, wait_until
from session_client import refused

Code = grpc.StatusCode
FAMILIES = GOLDEN / "families"
ENCODERS = {"gated": FAMILIES / "encoder_gated_multi_query", "standard": FAMILIES / "encoder_standard_grouped"}
LONGEST = 120_000
WIDTH = 26  # d_model of both


@pytest.fixture(scope="module")
def served(api):
    models = [("vq", FAMILIES / "vq_gated_single"), *ENCODERS.items()]
    flags = [part for name, path in models for part in ("--model", f"{name}={path}")]
    with ServerProcess(api, *flags, "--max-model-len", LONGEST) as process:
        yield process


def encode(server, model, ids, **fields):
    generation = server.api.generation
    request = generation.EncodeRequest(model=model, token_ids=server.api.session.TokenIds(ids=ids), **fields)
    response = server.generation.Encode(request)
    return np.array(response.vectors, np.float32).reshape(-1, response.width), response


@pytest.mark.parametrize("name", ENCODERS)
def test_vectors_are_those_of_the_training_code(served, name):
    golden = golden_file.read(ENCODERS[name] / "expected.safetensors")
    for text in ("short", "text", "long"):
        tokens, expected = golden[f"{text}.tokens"], golden[f"{text}.vectors"]
        vectors, response = encode(served, name, tokens)
        assert (response.tokens, response.width) == (len(tokens), WIDTH)
        assert np.abs(vectors - expected).max() < 1e-4
        mean, response = encode(served, name, tokens, pooling=served.api.generation.POOLING_MEAN)
        assert mean.shape == (1, WIDTH) and response.tokens == len(tokens)
        assert np.allclose(mean[0], vectors.mean(0, dtype=np.float64), atol=1e-6)


def test_a_hundred_thousand_tokens_are_one_request(served):
    ids = np.random.default_rng(0).integers(0, 61, 100_000)
    mean, response = encode(served, "gated", ids, pooling=served.api.generation.POOLING_MEAN)
    assert response.tokens == 100_000
    assert np.isfinite(mean).all()
    vectors, _ = encode(served, "gated", ids)
    assert vectors.shape == (100_000, WIDTH)
    assert np.allclose(mean[0], vectors.mean(0, dtype=np.float64), atol=1e-6)


def test_an_encoder_computes_beside_a_model_that_predicts(served, api):
    ids = np.random.default_rng(1).integers(0, 61, 50_000)
    request = api.generation.EncodeRequest(model="standard", token_ids=api.session.TokenIds(ids=ids),
                                           pooling=api.generation.POOLING_MEAN)
    encoding = served.generation.Encode.future(request)
    generated = list(served.generation.Generate(api.generation.GenerateRequest(
        model="vq", text="1 2 3", sampling=api.generation.SamplingParams(max_tokens=20, ignore_eos=True))))
    assert generated[-1].usage.completion_tokens == 20
    assert len(encoding.result().vectors) == WIDTH


def test_a_call_that_is_cancelled_leaves_room(served, api):
    ids = np.random.default_rng(2).integers(0, 61, 100_000)
    request = api.generation.EncodeRequest(model="gated", token_ids=api.session.TokenIds(ids=ids))
    calls = [served.generation.Encode.future(request) for _ in range(3)]
    for call in calls:
        call.cancel()
    assert encode(served, "gated", [1, 2, 3])[0].shape == (3, WIDTH)


def test_an_answer_that_nobody_takes_is_in_memory_once(start, api):
    metrics = Metrics(start, "--model", f"standard={ENCODERS['standard']}", "--max-model-len", LONGEST,
                      "--paused-timeout", 600)
    server, tokens, calls = metrics.server, 60_000, 16
    encode(server, "standard", [1] * tokens)
    request = api.generation.EncodeRequest(model="standard", token_ids=api.session.TokenIds(ids=[1] * tokens))
    answers, before = calls * tokens * WIDTH * 4, server.resident_bytes()
    with contextlib.ExitStack() as held:
        for _ in range(calls):
            call = unread_call(server.address, "/tvq.v1.GenerationService/Encode", request.SerializeToString())
            held.enter_context(contextlib.closing(call))
        wait_until(lambda: metrics.calls("GenerationService/Encode") == {"OK": calls + 1}, "the calls were answered")
        wait_until(lambda: server.resident_bytes() < before + 1.5 * answers, "the rest was given back")
        assert server.resident_bytes() > before + 0.5 * answers, "what the test needs"


def test_uploads_are_as_large_as_states_of_sessions(served, api):
    """Those of an encoder, which grow to 12 MB here, are never sent."""
    sessions = api.session_grpc.SessionServiceStub(served.channel)
    first = api.session.ImportSessionRequest(create=api.session.CreateSessionRequest())
    messages = [first] + [api.session.ImportSessionRequest(chunk=bytes(1 << 20))] * 70
    code, message = refused(lambda: sessions.ImportSession(iter(messages)))
    assert code == Code.RESOURCE_EXHAUSTED and "has more than" in message


def test_the_server_says_which_models_encode(served, api):
    models = served.models.ListModels(api.model.ListModelsRequest()).models
    assert {model.name: model.can_encode for model in models} == {"vq": False, "gated": True, "standard": True}
    assert {model.name: model.max_position for model in models}["gated"] == LONGEST


def test_bad_requests_are_named(served, api):
    generation = api.generation

    def problem(code, model="gated", **fields):
        found, message = refused(lambda: served.generation.Encode(generation.EncodeRequest(model=model, **fields)))
        assert found == code
        return message

    assert "has no encoder" in problem(Code.UNIMPLEMENTED, "vq", text="1 2")
    assert "nobody" in problem(Code.NOT_FOUND, "nobody", text="1 2")
    assert "is empty" in problem(Code.INVALID_ARGUMENT)
    assert "token_ids[1]" in problem(Code.INVALID_ARGUMENT, token_ids=api.session.TokenIds(ids=[1, 61]))
    assert "pooling: is 7" in problem(Code.INVALID_ARGUMENT, text="1 2", pooling=7)
    too_long = api.session.TokenIds(ids=[1] * (LONGEST + 1))
    assert f"must be at most {LONGEST}" in problem(Code.INVALID_ARGUMENT, token_ids=too_long)


def test_an_encoder_predicts_nothing(served, api):
    generation = api.generation
    sessions = api.session_grpc.SessionServiceStub(served.channel)
    code, message = refused(lambda: sessions.CreateSession(api.session.CreateSessionRequest(model="gated")))
    assert code == Code.UNIMPLEMENTED and "keeps no sessions" in message
    for call in (lambda: served.generation.Generate(generation.GenerateRequest(model="gated", text="1 2")),
                 lambda: served.generation.Score(generation.ScoreRequest(model="gated", text="1 2"))):
        code, message = refused(call)
        assert code == Code.UNIMPLEMENTED and "predicts no tokens" in message
