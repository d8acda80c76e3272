"""Vectors of a text through every client: all give what the call of gRPC gives."""

import base64
import json
import os
import subprocess
import sys

import numpy as np
import pytest
from gateway_process import GatewayProcess
from server_process import GOLDEN, ServerProcess

FAMILIES = GOLDEN / "families"
WIDTH = 26  # d_model of the encoder
LONGEST = 3000
TEXT = "5 7 12 60"  # what the tokenizer `ids` reads
IDS = [5, 7, 12, 60]


@pytest.fixture(scope="module")
def served(api):
    with ServerProcess(api, "--model", f"vq={FAMILIES / 'vq_gated_single'}",
                       "--model", f"encoder={FAMILIES / 'encoder_gated_multi_query'}",
                       "--max-model-len", LONGEST) as process:
        yield process


@pytest.fixture(scope="module")
def gateway(served):
    with GatewayProcess(served.address) as process:
        yield process


@pytest.fixture(scope="module")
def expected(served):
    """expected(ids): the vectors of gRPC's Encode, one a row, and their mean."""
    generation, session = served.api.generation, served.api.session

    def vectors(ids, pooling):
        reply = served.generation.Encode(generation.EncodeRequest(
            model="encoder", token_ids=session.TokenIds(ids=ids), pooling=pooling))
        assert reply.tokens == len(ids)
        return np.array(reply.vectors, np.float32).reshape(-1, WIDTH)

    return lambda ids: (vectors(ids, generation.POOLING_UNSPECIFIED), vectors(ids, generation.POOLING_MEAN)[0])


@pytest.fixture(scope="module")
def embed(gateway):
    """embed(input, ...): the parsed answer of /v1/embeddings, which must be 200."""

    def call(given, **fields):
        answer = gateway.post("/v1/embeddings", {"model": "encoder", "input": given, **fields})
        assert answer.status == 200, answer.body
        return answer.json

    return call


@pytest.fixture
def refused(gateway):
    """refused(status, ...): the error of /v1/embeddings."""

    def call(status, **body):
        answer = gateway.post("/v1/embeddings", {"model": "encoder", **body})
        assert answer.status == status, answer.body
        return answer.error

    return call


def test_a_mean_is_that_of_the_vectors(expected):
    vectors, mean = expected(IDS * 100)
    assert vectors.shape == (400, WIDTH)
    assert np.allclose(mean, vectors.mean(0, dtype=np.float64), atol=1e-6)


@pytest.mark.parametrize("given", [TEXT, IDS, [TEXT], [IDS]], ids=["text", "ids", "texts", "lists"])
def test_gateway_gives_the_mean(embed, expected, given):
    answer = embed(given)
    assert answer["object"] == "list" and answer["model"] == "encoder"
    assert answer["usage"] == {"prompt_tokens": 4, "total_tokens": 4}
    (one,) = answer["data"]
    assert (one["object"], one["index"]) == ("embedding", 0)
    assert (np.array(one["embedding"], np.float32) == expected(IDS)[1]).all()


def test_gateway_takes_many_texts(embed, expected):
    texts = [[i % 61] * (1 + i % 7) for i in range(100)]
    answer = embed(texts)
    assert [one["index"] for one in answer["data"]] == list(range(100))
    assert answer["usage"]["prompt_tokens"] == sum(map(len, texts))
    for i in (0, 1, 50, 99):
        assert (np.array(answer["data"][i]["embedding"], np.float32) == expected(texts[i])[1]).all()


def test_base64_is_the_same(embed, expected):
    (one,) = embed(IDS, encoding_format="base64", dimensions=WIDTH, user="somebody")["data"]
    assert (np.frombuffer(base64.b64decode(one["embedding"]), "<f4") == expected(IDS)[1]).all()


def test_command_line_gives_the_same(served, tvq, expected, tmp_path):
    def encode(*arguments, **kwargs):
        done = tvq("--server", served.address, "encode", "--model", "encoder", *arguments, **kwargs)
        assert done.returncode == 0, done.stderr
        return done.stdout

    vectors, mean = expected(IDS)
    (tmp_path / "text").write_text(TEXT)
    for given in (["--text", TEXT], ["--file", tmp_path / "text"], ["--ids", ",".join(map(str, IDS))]):
        assert (np.loadtxt(encode(*given).splitlines(), np.float32) == vectors).all()
    assert (np.loadtxt(encode(input=TEXT.encode()).splitlines(), np.float32) == vectors).all()
    assert (np.loadtxt(encode("--text", TEXT, "--pooling", "mean").splitlines(), np.float32) == mean).all()
    document = json.loads(encode("--text", TEXT, "--json"))
    assert (document["tokens"], document["width"]) == (4, WIDTH)
    assert (np.array(document["vectors"], np.float32) == vectors).all()
    document = json.loads(encode("--text", TEXT, "--json", "--pooling", "mean"))
    assert document["tokens"] == 4 and (np.array(document["vectors"], np.float32) == [mean]).all()
    refused = tvq("--server", served.address, "encode", "--model", "vq", "--text", TEXT)
    assert refused.returncode == 1 and b"UNIMPLEMENTED" in refused.stderr and b"has no encoder" in refused.stderr


PROGRAM = """
import json, sys, tvq
with tvq.Client(sys.argv[1]) as client:
    assert [model.name for model in client.models() if model.can_encode] == ["encoder"]
    both = [client.encode(text, model="encoder", pooling=pooling) for text in ("5 7 12 60", [5, 7, 12, 60])
            for pooling in ("per_token", "mean")]
    assert all((e.tokens, e.width) == (4, 26) for e in both)
    for error, arguments in [(tvq.Unimplemented, ("1 2", "vq")), (tvq.InvalidArgument, ([61], "encoder")),
                             (tvq.InvalidArgument, ("", "encoder")), (tvq.NotFound, ("1", "nobody"))]:
        try:
            client.encode(arguments[0], model=arguments[1])
        except error:
            continue
        raise AssertionError(f"no {error}")
print(json.dumps([e.vectors for e in both]))
"""


def test_python_client_gives_the_same(served, package, expected):
    done = subprocess.run([sys.executable, "-c", PROGRAM, served.address], capture_output=True, text=True, timeout=300,
                          env={**os.environ, "PYTHONPATH": str(package)})
    assert done.returncode == 0, done.stderr
    vectors, mean = expected(IDS)
    of_text, mean_of_text, of_ids, mean_of_ids = (np.array(one, np.float32) for one in json.loads(done.stdout))
    assert (of_text == vectors).all() and (of_ids == vectors).all()
    assert (mean_of_text == [mean]).all() and (mean_of_ids == [mean]).all()


def test_a_model_that_does_not_encode_is_named(refused):
    error = refused(400, model="vq", input="1 2")
    assert (error["type"], error["param"]) == ("invalid_request_error", "model")
    assert error["message"] == 'model: "vq" has no encoder; it generates and scores'
    error = refused(404, model="nobody", input="1 2")
    assert (error["code"], error["param"]) == ("model_not_found", "model")
    # Left out, it is the server's first.
    assert refused(400, model=None, input="1 2")["message"] == 'model: "vq" has no encoder; it generates and scores'


@pytest.mark.parametrize("body, param, message", [
    ({}, "input", "must be given"),
    ({"input": ""}, "input", "input: is empty, must have at least one token"),
    ({"input": ["1", ""]}, "input[1]", "input[1]: is empty"),
    ({"input": [[1], []]}, "input[1]", "input[1]: is empty"),
    ({"input": []}, "input", "input: is an empty list"),
    ({"input": [[]]}, "input[0]", "input[0]: is empty"),
    ({"input": 5}, "input", "must be a string, a list of strings"),
    ({"input": ["1", 2]}, "input", "must be a string, a list of strings"),
    ({"input": [1.5]}, "input", "token ids of 32 bits"),
    ({"input": [1, 61]}, "input[1]", "is 61"),
    ({"input": [[1], [1, 2, -1]]}, "input[1][2]", "is -1"),
    ({"input": [1] * (LONGEST + 1)}, "input", f"has {LONGEST + 1} tokens, must be at most {LONGEST}"),
    ({"input": ["1"] * 2049}, "input", "has 2049 inputs, may have 2048"),
    ({"input": "1", "dimensions": 8}, "dimensions", "is 8, must be left out or 26, the width of the model's vectors"),
    ({"input": "1", "dimensions": "26"}, "dimensions", "must be an integer"),
    ({"input": "1", "encoding_format": "int8"}, "encoding_format", "must be float or base64"),
    ({"input": "1", "model": 5}, "model", "must be a string"),
], ids=str)
def test_bad_requests_are_named(refused, body, param, message):
    error = refused(400, **body)
    assert (error["type"], error["param"]) == ("invalid_request_error", param)
    assert message in error["message"]
