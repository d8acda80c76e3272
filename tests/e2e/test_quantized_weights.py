"""A server with --dtype int8 or int4: weights that it quantizes as it loads them, or that came as int8."""

import math
import re
import subprocess
import sys

import grpc
import pytest
from golden_file import read
from server_process import BIN, GOLDEN, PATIENCE_SECONDS, ROOT, ServerProcess
from session_client import SessionClient, refused

MODEL = GOLDEN / "bytes_untied"
PROMPT = "It was the best of times, it was the worst of times. "
GREEDY = dict(temperature=0, ignore_eos=True, max_tokens=60, logprobs=1)


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """The same model with matrices stored as int8."""
    folder = tmp_path_factory.mktemp("int8") / "stored"
    subprocess.run([sys.executable, "-m", "models.training.quantize", MODEL, folder], cwd=ROOT, check=True)
    return folder


def serve(api, stored, dtype):
    return ServerProcess(api, "--model", f"bytes={MODEL}", "--model", f"stored={stored}", "--dtype", dtype)


@pytest.fixture(scope="module")
def int8(api, stored):
    with serve(api, stored, "int8") as process:
        yield process


@pytest.fixture(scope="module")
def int4(api, stored):
    with serve(api, stored, "int4") as process:
        yield process


@pytest.fixture(params=["int8", "int4"])
def quantized(request):
    """A server, and the dtype of its weights."""
    return request.getfixturevalue(request.param), request.param


def model(server, name="bytes"):
    return server.models.GetModel(server.api.model.GetModelRequest(name=name)).model


def bits(sample):
    return [(t.token.token_id, t.token.logprob, t.token.rank) for t in sample.logprobs]


def test_quotes_its_bytes(quantized, server):
    process, dtype = quantized
    small, large = model(process), model(server)
    assert (small.dtype, small.state_dtype) == (dtype, "bfloat16")
    assert (large.dtype, large.state_dtype) == ("float32", "float32")
    assert small.parameters == large.parameters and small.fingerprint == large.fingerprint
    assert small.weight_bytes < large.weight_bytes / 2
    assert small.bytes_per_session < large.bytes_per_session
    for name in ("bytes", "stored"):
        assert re.search(rf"model {name}: .*{dtype}", process.stderr()), process.stderr()
    assert model(process, "stored").weight_bytes == small.weight_bytes


def test_int4_takes_fewer_bytes_than_int8(int4, int8):
    assert model(int4).weight_bytes < model(int8).weight_bytes


def test_takes_stored_int8_weights_as_int4(int4):
    made, _ = int4.generate(PROMPT, model="stored", **GREEDY)
    assert len(made[0].ids) == GREEDY["max_tokens"]


def test_generates_what_stored_int8_weights_do(int8):
    made, _ = int8.generate(PROMPT, **GREEDY)
    from_file, _ = int8.generate(PROMPT, model="stored", **GREEDY)
    assert len(made[0].ids) == GREEDY["max_tokens"] and all(t.token.rank == 1 for t in made[0].logprobs)
    assert made[0] == from_file[0] and bits(made[0]) == bits(from_file[0])


def test_a_session_generates_the_same(quantized):
    process, _ = quantized
    alone, _ = process.generate(PROMPT, **GREEDY)
    client = SessionClient(process)
    session = client.create()
    assert bits(client.generate(session.id, PROMPT, **GREEDY).sample) == bits(alone[0])


def test_scores_as_tvq_verify_does(quantized, tvq):
    """tvq-verify measures how many more bits a token the model needs than the reference; so does a call to Score."""
    process, dtype = quantized
    golden = read(MODEL / "expected.safetensors")
    ids, rows = golden["text.tokens"].tolist(), golden["text.logprobs"]
    expected = -sum(float(rows[i][ids[i + 1]]) for i in range(len(ids) - 1)) / math.log(2)
    request = process.api.generation.ScoreRequest(model="bytes", summary_only=True)
    request.token_ids.ids.extend(ids)
    summary = list(process.generation.Score(request))[-1].summary
    assert summary.scored_tokens == len(ids) - 1
    change = (-summary.total_logprob / math.log(2) - expected) / summary.scored_tokens

    verify = subprocess.run([BIN / "tvq-verify", MODEL, MODEL / "expected.safetensors", "--dtype", dtype, "--mode", "prefill"],
                            capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=True)
    measured = re.search(r"^text .* ([-+][0-9.]+) bits a token", verify.stdout, re.MULTILINE)
    assert f"{change:+.4f}" == measured[1], verify.stdout
    assert measured[1] not in ("+0.0000", "-0.0000"), "nothing was rounded"


def test_the_client_scores_the_same(int8, tvq):
    summary = list(int8.generation.Score(int8.api.generation.ScoreRequest(
        model="bytes", text=PROMPT, prepend_eos=True, summary_only=True)))[-1].summary
    done = tvq("score", "--server", int8.address, "--model", "bytes", input=PROMPT.encode())
    assert done.returncode == 0, done.stderr
    assert f"{-summary.total_logprob / math.log(2) / len(PROMPT):.4f} bits per byte" in done.stdout.decode(), done.stdout


def test_snapshots_stay_among_servers_of_the_dtype(int8, server, start):
    client = SessionClient(int8)
    session = client.create()
    client.append(session.id, PROMPT)
    snapshot = client.export(session.id)
    expected = bits(client.generate(session.id, **GREEDY).sample)
    other = SessionClient(start("--dtype", "int8"))
    assert bits(other.generate(other.import_(snapshot).id, **GREEDY).sample) == expected

    float32 = SessionClient(server)
    theirs = float32.create()
    float32.append(theirs.id, PROMPT)
    for here, content, words in [
            (float32, snapshot, ["int8", "float32"]),
            (SessionClient(start("--dtype", "bfloat16")), snapshot, ["int8", "bfloat16"]),
            (SessionClient(start("--dtype", "int4")), snapshot, ["int8", "int4"]),
            (SessionClient(start("--state-dtype", "bfloat16")), snapshot, ["int8", "float32"]),
            (client, float32.export(theirs.id), ["int8", "float32"])]:
        code, message = refused(lambda here=here, content=content: here.import_(content, model="bytes"))
        assert code == grpc.StatusCode.FAILED_PRECONDITION and all(word in message for word in words), message
    code, message = refused(lambda: client.import_(snapshot, model="stored"))
    assert code == grpc.StatusCode.FAILED_PRECONDITION and "another model" in message


def test_int4_is_refused_with_a_gpu():
    command = [BIN / "tvq-server", "--model", f"bytes={MODEL}", "--device", "cuda", "--dtype", "int4"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
    assert done.returncode == 2, done
    assert '--dtype: is "int4", must be float32, bfloat16 or int8 with --device cuda' in done.stderr, done.stderr
