"""What the server writes to stderr."""

import json

import grpc
import pytest


def test_json_lines_name_calls_and_no_prompt(start):
    server = start("--log-format", "json", "--log-level", "trace")
    metadata = [("x-request-id", 'my-"id"')]
    secret = "the prompt of nobody's business"
    call = server.generation.Generate(server.request(secret, max_tokens=3), metadata=metadata)
    list(call)
    assert dict(call.initial_metadata())["x-request-id"] == 'my-"id"'
    _, unary = server.generation.Tokenize.with_call(server.api.generation.TokenizeRequest(text="a"), metadata=metadata)
    assert dict(unary.initial_metadata())["x-request-id"] == 'my-"id"'
    with pytest.raises(grpc.RpcError):
        list(server.generation.Generate(server.request(secret, temperature=-1), metadata=metadata))
    with pytest.raises(grpc.RpcError):
        server.generation.Tokenize(server.api.generation.TokenizeRequest(model=secret))

    text = server.stderr()
    assert secret not in text
    lines = [json.loads(line) for line in text.splitlines()]
    assert all(line["level"] and line["time"] for line in lines)
    calls = [line for line in lines if line["message"] == "call"]
    assert [(line["method"], line["code"]) for line in calls] == [
        ("GenerationService/Generate", "OK"),
        ("GenerationService/Tokenize", "OK"),
        ("GenerationService/Generate", "INVALID_ARGUMENT"),
        ("GenerationService/Tokenize", "NOT_FOUND"),
    ]
    assert calls[0]["request_id"] == 'my-"id"'
    assert calls[0]["owner"] == ""
    assert calls[0]["ms"] > 0
