"""Bad input: the status of proto/README.md, and a message that names the field."""

import grpc
import pytest

INVALID, NOT_FOUND = grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND


def fails(call, code, *words):
    """The call fails with this code before any response, and its message holds the words."""
    with pytest.raises(grpc.RpcError) as caught:
        list(call)
    error = caught.value
    assert error.code() == code, error
    for word in words:
        assert word in error.details(), error.details()
    # Trailers only: the refusal came before response headers.
    assert not any(key == "x-request-id" for key, _ in error.initial_metadata())
    return error


@pytest.mark.parametrize("sampling, words", [
    ({"temperature": -1}, ["temperature", "-1"]),
    ({"temperature": float("nan")}, ["temperature"]),
    ({"top_p": 0}, ["top_p", "(0, 1]"]),
    ({"top_p": 1.5}, ["top_p"]),
    ({"top_k": -2}, ["top_k"]),
    ({"min_p": 2}, ["min_p"]),
    ({"max_tokens": -1}, ["max_tokens", "-1"]),
    ({"min_tokens": 9, "max_tokens": 5}, ["min_tokens"]),
    ({"n": 0}, ["n:"]),
    ({"n": 1000}, ["n:"]),
    ({"stop": ["a", ""]}, ["stop[1]"]),
    ({"stop": ["x" * 2000]}, ["stop[0]"]),
    ({"stop_token_ids": [259]}, ["stop_token_ids[0]", "259"]),
    ({"allowed_token_ids": [-1]}, ["allowed_token_ids[0]"]),
    ({"logit_bias": {5: 1000.0}}, ["logit_bias"]),
    ({"logprobs": 21}, ["logprobs"]),
    ({"prompt_logprobs": -1}, ["prompt_logprobs"]),
    ({"presence_penalty": 3}, ["presence_penalty"]),
    ({"frequency_penalty": -3}, ["frequency_penalty"]),
    ({"repetition_penalty": 0}, ["repetition_penalty"]),
    ({"repetition_penalty": 1e-45}, ["repetition_penalty", "[1e-09, 1e+09]"]),
])
def test_sampling_out_of_range(server, sampling, words):
    fails(server.stream("Once", **sampling), INVALID, *words)


def test_unknown_model(server, api):
    fails(server.stream("Once", model="other"), NOT_FOUND, "model", "other", "bytes, pixels")
    fails(server.generation.Score(api.generation.ScoreRequest(model="other", text="a")), NOT_FOUND, "other")
    with pytest.raises(grpc.RpcError) as caught:
        server.models.GetModel(api.model.GetModelRequest(name="other"))
    assert caught.value.code() == NOT_FOUND


def test_long_model_name_is_shortened(server):
    fails(server.stream("Once", model="\n" + "x" * 50_000), NOT_FOUND, "\\nxxx", "bytes, pixels")


def test_messages_name_the_fields_of_the_call(server, api):
    error = fails(server.generation.Score(api.generation.ScoreRequest(model="bytes", text="ab", logprobs=21)), INVALID)
    assert error.details().startswith("logprobs: value is 21")


def test_echo_of_all_samples_is_bounded(server):
    fails(server.stream("x" * 300_000, n=60, echo=True, max_tokens=1), INVALID, "echo", "n is 60")


def test_prompt_that_no_queue_would_take(start):
    server = start("--max-num-queued-tokens", 10)
    assert server.generate("x" * 10, max_tokens=1)
    fails(server.stream("x" * 11, max_tokens=1), INVALID, "text: has 11 tokens", "10")


def test_without_a_model_it_is_the_first(server):
    texts = [server.generate("Once", model=model, seed=1, max_tokens=9)[0][0].text for model in ("", "bytes")]
    assert texts[0] == texts[1]


def test_empty_prompt_without_an_end_id(server):
    fails(server.stream(model="pixels"), INVALID, "empty", "end-of-sequence")


@pytest.mark.parametrize("id", [-1, 259, 2**31 - 1])
def test_token_id_out_of_range(server, api, id):
    fails(server.stream(ids=[5, id]), INVALID, "token_ids[1]", str(id), "[0, 259)")
    with pytest.raises(grpc.RpcError) as caught:
        server.generation.Detokenize(api.generation.DetokenizeRequest(model="bytes", token_ids=[id]))
    assert caught.value.code() == INVALID and "token_ids" in caught.value.details()


def test_prompt_above_the_limit(start):
    server = start("--max-prompt-tokens", 10)
    assert server.generate("x" * 10, max_tokens=1)
    fails(server.stream("x" * 11, max_tokens=1), INVALID, "text", "11", "10")


def test_tokenize_above_the_limit(start, api):
    server = start("--max-prompt-tokens", 10)
    for call, request in [
        (server.generation.Tokenize, api.generation.TokenizeRequest(text="x" * 100)),
        (server.generation.Detokenize, api.generation.DetokenizeRequest(token_ids=[5] * 11)),
    ]:
        with pytest.raises(grpc.RpcError) as caught:
            call(request)
        assert caught.value.code() == INVALID and "10" in caught.value.details()


def test_message_above_the_limit(start):
    server = start("--max-message-bytes", "100KB")
    fails(server.stream("x" * 200_000, max_tokens=1), grpc.StatusCode.RESOURCE_EXHAUSTED)


def test_state_above_the_budget(start):
    server = start("--state-memory-bytes", "1MB")
    fitting = server.models.GetModel(server.api.model.GetModelRequest()).model.max_sessions
    assert 0 < fitting < 64
    error = fails(server.stream("a", n=fitting + 1, max_tokens=1), grpc.StatusCode.RESOURCE_EXHAUSTED, "bytes")
    assert ("grpc-retry-pushback-ms", "-1") in [tuple(pair) for pair in error.trailing_metadata()]


def raw_field(number, value):
    return bytes([number << 3 | 2, len(value)]) + value


@pytest.mark.parametrize("method, fields, name", [
    ("Generate", raw_field(1, b"bytes") + raw_field(2, b"ab\xff"), "text: text is not valid UTF-8 at byte offset 2"),
    ("Generate", raw_field(1, b"\xc0\x80"), "model: text is not valid UTF-8 at byte offset 0"),
    ("Generate", raw_field(1, b"bytes") + raw_field(4, raw_field(9, b"\xed\xa0\x80")), "sampling.stop"),
    ("Score", raw_field(1, b"bytes") + raw_field(2, b"\xff"), "text: text is not valid UTF-8 at byte offset 0"),
])
def test_text_that_is_not_utf8(server, method, fields, name):
    """Python's protobuf refuses to send such text, so it is encoded by hand."""
    call = server.channel.unary_stream(f"/tvq.v1.GenerationService/{method}")
    fails(call(fields), INVALID, name)


def test_tokenize_text_that_is_not_utf8(server):
    call = server.channel.unary_unary("/tvq.v1.GenerationService/Tokenize")
    with pytest.raises(grpc.RpcError) as caught:
        call(raw_field(1, b"bytes") + raw_field(2, b"ab\xff"))
    assert caught.value.code() == INVALID and "text: text is not valid UTF-8 at byte offset 2" in caught.value.details()


def test_bytes_that_are_no_message(server):
    fails(server.channel.unary_stream("/tvq.v1.GenerationService/Generate")(b"\xff\xff\xff"), INVALID,
          "tvq.v1.GenerateRequest")


def test_encode_without_an_encoder(server, api):
    with pytest.raises(grpc.RpcError) as caught:
        server.generation.Encode(api.generation.EncodeRequest(model="bytes", text="a"))
    assert caught.value.code() == grpc.StatusCode.UNIMPLEMENTED and "encoder" in caught.value.details()


def test_empty_score(server, api):
    fails(server.generation.Score(api.generation.ScoreRequest(model="bytes")), INVALID, "text: is empty")
    request = api.generation.ScoreRequest(model="pixels", prepend_eos=True)
    request.token_ids.ids.extend([1, 2])
    fails(server.generation.Score(request), INVALID, "prepend_eos")
