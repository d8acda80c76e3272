"""curl -N: events as they come, errors it can tell, and hanging up."""

import json
import subprocess

from gateway_process import text_of
from server_process import PATIENCE_SECONDS


def curl(gateway, body, *options):
    return ["curl", "-sSN", "--max-time", str(PATIENCE_SECONDS), *options, f"{gateway.url}/v1/completions",
            "-H", "content-type: application/json", "-d", json.dumps({"model": "bytes", "prompt": "Once", **body})]


def test_events_and_end(gateway):
    body = {"max_tokens": 30, "seed": 7, "ignore_eos": True}
    out = subprocess.run(curl(gateway, {**body, "stream": True}, "-i"), check=True, capture_output=True).stdout.decode()
    head, _, events = out.partition("\r\n\r\n")
    assert head.startswith("HTTP/1.1 200") and "content-type: text/event-stream" in head.lower()
    events = events.split("\n\n")
    assert events[-2:] == ["data: [DONE]", ""]
    assert text_of(json.loads(event.removeprefix("data: ")) for event in events[:-2]) == \
        gateway.complete(**body)["choices"][0]["text"]


def test_first_event_comes_before_the_end_and_hanging_up_frees_the_server(gateway, server):
    endless = {"stream": True, "max_tokens": 100_000_000, "ignore_eos": True}
    with subprocess.Popen(curl(gateway, endless), stdout=subprocess.PIPE) as process:
        event = process.stdout.readline()
        assert json.loads(event.removeprefix(b"data: "))["choices"][0]["finish_reason"] is None
        assert server.info().requests_running == 1
        process.kill()
    server.wait_idle()


def test_errors_have_an_exit_code(gateway):
    done = subprocess.run(curl(gateway, {"model": "none", "stream": True}, "--fail-with-body", "-w", "%{http_code}"),
                          capture_output=True, text=True)
    assert done.returncode == 22
    assert json.loads(done.stdout.removesuffix("404"))["error"]["code"] == "model_not_found"
