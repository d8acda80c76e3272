"""grpcurl, which knows nothing of this repository and learns the interface by reflection."""

import json
import re
import shutil
import subprocess

import pytest
from packages import go_program
from reliability.replicas import Proxy
from server_process import PATIENCE_SECONDS, dead_addresses

GENERATE = "tvq.v1.GenerationService/Generate"


@pytest.fixture(scope="module")
def call(server):
    """call(arguments..., body=document) runs grpcurl on the server."""
    program = go_program("grpcurl")

    def run(*arguments, body=None):
        data = [] if body is None else ["-d", json.dumps(body)]
        return subprocess.run([program, "-plaintext", "-max-time", str(PATIENCE_SECONDS), *data, server.address,
                               *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True)

    return run


def documents(text):
    """The JSON documents that stand one after the other in a text."""
    decoder, text = json.JSONDecoder(), text.strip()
    while text:
        document, end = decoder.raw_decode(text)
        yield document
        text = text[end:].strip()


def test_grpcurl_learns_the_interface(call):
    services = call("list").stdout.split()
    assert {"tvq.v1.GenerationService", "tvq.v1.ModelService", "tvq.v1.SessionService"} <= set(services)
    described = call("describe", "tvq.v1.GenerationService.Generate").stdout
    assert re.search(r"rpc Generate *\( *\.tvq\.v1\.GenerateRequest *\) *returns *\( *stream", described), described


def test_grpcurl_streams(call, server):
    sampling = {"max_tokens": 12, "temperature": 0, "ignore_eos": True}
    done = call(GENERATE, body={"model": "bytes", "text": "Once", "sampling": sampling})
    assert done.returncode == 0, done.stderr
    messages = list(documents(done.stdout))
    text = "".join(delta.get("text", "") for message in messages for delta in message.get("deltas", []))
    samples, _ = server.generate("Once", max_tokens=12, temperature=0, ignore_eos=True)
    assert text == samples[0].text
    assert messages[-1]["usage"] == {"prompt_tokens": "4", "completion_tokens": "12"}


def test_grpcurl_calls_sessions(call):
    session = json.loads(call("tvq.v1.SessionService/CreateSession", body={"model": "bytes"}).stdout)["session"]["id"]
    done = call(GENERATE, body={"text": "Once", "session": {"session_id": session}, "sampling": {"max_tokens": 3}})
    assert int(list(documents(done.stdout))[-1]["session"]["position"]) >= 4
    assert call("tvq.v1.SessionService/DeleteSession", body={"session": {"session_id": session}}).returncode == 0


def test_grpcurl_shows_errors(call):
    done = call(GENERATE, body={"model": "none", "text": "Once"})
    assert done.returncode != 0 and "NotFound" in done.stderr and "none" in done.stderr


@pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx is not installed")
def test_grpcurl_understands_a_proxy_without_servers(api, tmp_path):
    with dead_addresses(3) as servers, Proxy(api, tmp_path, servers) as proxy:
        done = subprocess.run([go_program("grpcurl"), "-plaintext", proxy.address, "list"], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=PATIENCE_SECONDS)
    assert done.returncode != 0 and "Unavailable" in done.stderr and "no server answers" in done.stderr, done.stderr
