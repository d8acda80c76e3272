"""Sessions over HTTP: made, continued, forked, moved; also what OpenAI's fields do on one."""

import json
import subprocess
from concurrent import futures

import grpc
import pytest
from gateway_process import GatewayProcess, text_of
from server_process import GOLDEN, ServerProcess, wait_until


@pytest.fixture(scope="module")
def stored(api, tmp_path_factory):
    """A server that stores sessions."""
    with ServerProcess(api, "--model", f"bytes={GOLDEN / 'bytes_untied'}", "--session-dir",
                       tmp_path_factory.mktemp("sessions")) as process:
        yield process


@pytest.fixture(scope="module")
def gateway(stored):
    with GatewayProcess(stored.address) as process:
        yield process


@pytest.fixture
def session(gateway):
    answer = gateway.post("/v1/sessions", {"model": "bytes", "ttl": 3600.5, "label": "mine", "keep_transcript": True})
    assert answer.status == 201
    return answer.json


def test_new_session(gateway, session):
    assert session["object"] == "session" and session["model"] == "bytes" and session["label"] == "mine"
    assert (session["version"], session["position"], session["parent_id"], session["marks"]) == (1, 0, None, [])
    assert 3599 <= session["expires"] - session["created"] <= 3601
    assert gateway.get(f"/v1/sessions/{session['id']}").json["id"] == session["id"]


def test_completion_continues_a_session(gateway, session):
    path = f"/v1/sessions/{session['id']}"
    appended = gateway.post(f"{path}/append", {"text": "Once upon"}).json
    assert appended["tokens"] == 9 and appended["session"]["position"] == 9
    answer = gateway.complete(" a time", session_id=session["id"], max_tokens=5, temperature=0, ignore_eos=True,
                              return_token_ids=True)
    assert answer["session"]["position"] == 21 and answer["session"]["id"] == session["id"]
    whole = gateway.complete("Once upon a time", max_tokens=5, temperature=0, ignore_eos=True)
    assert answer["choices"][0]["text"] == whole["choices"][0]["text"]
    got = gateway.get(f"{path}?include_transcript=true&transcript_start=16").json
    assert got["transcript"] == answer["choices"][0]["token_ids"]
    assert got["position"] == 21


def test_stream_ends_with_the_position(gateway, session):
    stream = gateway.stream(prompt="Once", session_id=session["id"], max_tokens=5, ignore_eos=True, expected_version=session["version"])
    events = list(stream)
    with_session = [event for event in events if "session" in event]
    assert with_session == events[-1:]
    assert events[-1]["session"]["position"] == 9
    assert events[-1]["session"]["version"] == session["version"] + 1
    assert events[-1]["choices"][0]["finish_reason"] == "length"
    assert len(text_of(events)) > 0


def test_version_conflict(gateway, session):
    answer = gateway.post("/v1/completions", {"prompt": "a", "session_id": session["id"], "expected_version": 99})
    assert (answer.status, answer.error["type"]) == (409, "conflict_error")


def test_idempotency_key(gateway, session):
    def append():
        return gateway.post(f"/v1/sessions/{session['id']}/append", {"text": "abc"}, headers={"Idempotency-Key": "k1"})
    assert append().json == append().json
    assert gateway.get(f"/v1/sessions/{session['id']}").json["position"] == 3


def test_forks_marks_and_rewind(gateway, session):
    path = f"/v1/sessions/{session['id']}"
    gateway.post(f"{path}/append", {"token_ids": [100, 101]})
    mark = gateway.post(f"{path}/marks", {"name": "a/b c"}).json
    assert mark["position"] == 2
    gateway.post(f"{path}/append", {"text": "more"})
    got = gateway.get(path).json
    assert [mark["name"] for mark in got["marks"]] == ["a/b c"] and got["position"] == 6
    forks = gateway.post(f"{path}/fork", {"count": 2, "label": "fork", "mark": "a/b c"}).json
    assert forks["object"] == "list"
    assert [(fork["parent_id"], fork["position"], fork["label"]) for fork in forks["data"]] == \
        [(session["id"], 2, "fork")] * 2
    listed = gateway.get(f"/v1/sessions?parent_id={session['id']}&limit=1").json
    assert len(listed["data"]) == 1 and listed["has_more"]
    rest = gateway.get(f"/v1/sessions?parent_id={session['id']}&limit=5&after={listed['next']}").json
    assert len(rest["data"]) == 1 and not rest["has_more"] and rest["next"] is None
    assert gateway.post(f"{path}/rewind", {"mark": "a/b c"}).json["position"] == 2
    assert gateway.call("DELETE", f"{path}/marks/a%2Fb%20c").json["position"] == 2
    assert gateway.post(f"{path}/rewind", {"mark": "a/b c"}).status == 404
    saved = gateway.post(f"{path}/save", {}).json
    assert saved["persisted_version"] == saved["version"]
    assert gateway.call("DELETE", path).json == {"id": session["id"], "object": "session.deleted", "deleted": True}
    assert gateway.get(path).status == 404


def test_snapshot_moves(gateway, session):
    gateway.post(f"/v1/sessions/{session['id']}/append", {"text": "Once upon a time"})
    exported = gateway.get(f"/v1/sessions/{session['id']}/export")
    assert exported.status == 200 and exported.headers["Content-Type"] == "application/octet-stream"
    assert int(exported.headers["Content-Length"]) == len(exported.body) > 1000
    assert "attachment" in exported.headers["Content-Disposition"]
    made = gateway.post("/v1/sessions/import?model=bytes&label=copy+of+it&ttl=60", exported.body)
    assert made.status == 201 and made.json["label"] == "copy of it" and made.json["position"] == 16
    texts = [gateway.complete("", session_id=id, max_tokens=8, temperature=0)["choices"][0]["text"]
             for id in (session["id"], made.json["id"])]
    assert texts[0] == texts[1]
    # In chunks, as a client sends what it reads from somewhere.
    out = subprocess.run(["curl", "-sS", "--max-time", "60", "-T", "-", "-X", "POST",
                          f"{gateway.url}/v1/sessions/import?model=bytes"], input=exported.body, capture_output=True,
                         check=True).stdout
    assert json.loads(out)["position"] == 16
    damaged = gateway.post("/v1/sessions/import?model=bytes", exported.body[:-1])
    assert damaged.status == 400, damaged.body
    assert gateway.post("/v1/sessions/import?model=bytes", b"").status == 400


def test_errors_of_sessions(gateway, session):
    path = f"/v1/sessions/{session['id']}"
    for method, target, body, status, param in [
        ("GET", "/v1/sessions/none", None, 404, "session_id"),
        ("GET", "/v1/sessions/none/export", None, 404, "session_id"),
        ("POST", "/v1/sessions", {"model": "none"}, 404, "model"),
        ("POST", "/v1/sessions", {"ttl": "long"}, 400, "ttl"),
        ("POST", "/v1/sessions", {"ttl": -1}, 400, "ttl"),
        ("POST", f"{path}/append", {}, 400, "text"),
        ("POST", f"{path}/append", {"text": "a", "token_ids": [1]}, 400, "text"),
        ("POST", f"{path}/append", {"token_ids": ["a"]}, 400, "token_ids[0]"),
        ("POST", f"{path}/marks", {}, 400, "name"),
        ("POST", f"{path}/fork", {"count": 0}, 400, "count"),
        ("GET", "/v1/sessions?limit=many", None, 400, "limit"),
        ("GET", "/v1/sessions?limit=-1", None, 400, "limit"),
        ("GET", "/v1/sessions?after=none", None, 400, "after"),
        ("DELETE", f"{path}?expected_version=77", None, 409, None),
    ]:
        answer = gateway.call(method, target, body)
        assert answer.status == status, (method, target, answer.body)
        assert answer.error["param"] == param or param is None, (method, target, answer.body)
        assert "page_" not in answer.error["message"]


def test_nothing_is_saved_where_sessions_are_in_memory_alone(server):
    with GatewayProcess(server.address) as gateway:
        session = gateway.post("/v1/sessions", {"model": "bytes"}).json["id"]
        saved = gateway.post(f"/v1/sessions/{session}/save", {})
        assert (saved.status, saved.error["param"]) == (412, None)
        assert "must be started with --session-dir or --redis" in saved.error["message"]
        asked = gateway.post(f"/v1/sessions/{session}/append", {"text": "a", "durability": "disk"})
        assert (asked.status, asked.error["param"]) == (412, "durability")
        assert asked.error["message"].startswith("durability: must be memory or left out")


def test_a_snapshot_beyond_the_limit_is_not_sent_again(api, gateway, session):
    snapshot = gateway.get(f"/v1/sessions/{session['id']}/export").body
    limit = len(snapshot) - 1
    with ServerProcess(api, "--model", f"bytes={GOLDEN / 'bytes_untied'}", "--max-snapshot-bytes", limit) as server, \
            GatewayProcess(server.address) as other:
        answer = other.post("/v1/sessions/import?model=bytes", snapshot)
        assert (answer.status, answer.error["code"]) == (413, "too_large"), answer.body
        assert answer.headers["Retry-After"] is None and str(limit) in answer.error["message"]


def test_hang_up_keeps_what_was_generated_if_asked(gateway, session):
    stream = gateway.stream(prompt="Once", session_id=session["id"], max_tokens=100_000_000, ignore_eos=True,
                            commit_on_cancel=True)
    next(stream)
    stream.hang_up()
    from server_process import wait_until
    wait_until(lambda: gateway.get(f"/v1/sessions/{session['id']}").json["position"] > 4, "the session kept its text")


def test_tokens(gateway):
    assert gateway.post("/tokenize", {"model": "bytes", "prompt": "aä"}).json == {
        "count": 3, "max_model_len": None, "tokens": [100, 198, 167], "unknown_tokens": 0}
    assert gateway.post("/detokenize", {"model": "bytes", "tokens": [100, 198, 167]}).json == {"prompt": "aä"}
    assert gateway.post("/tokenize", {"model": "bytes"}).error["param"] == "prompt"
    assert gateway.post("/detokenize", {"model": "bytes", "tokens": [-1]}).error["param"].startswith("tokens")


def test_server_figures(gateway, session):
    figures = gateway.get("/v1/server").json
    assert set(figures["sessions"]) == {"device", "host", "durable"} == set(figures["state_bytes"])
    assert sum(figures["sessions"].values()) >= 1
    assert figures["generation_tokens"] > 0 and figures["uptime"] > 0
    assert figures["draining"] is False


def test_server_tells_what_was_since_its_start(gateway, session):
    def told():
        return gateway.get("/v1/server?include_history=true").json

    wait_until(lambda: len(told()["history"]) >= 2, "the server has samples")
    figures = told()
    first, last = figures["history"][0], figures["history"][-1]
    assert first["uptime"] < 1 and first["generation_tokens"] == 0
    times = [sample["uptime"] for sample in figures["history"]]
    assert times == sorted(times) and last["uptime"] <= figures["uptime"]
    assert set(last["sessions"]) == set(last["state_bytes"]) == {"device", "host", "durable"}
    assert "history" not in gateway.get("/v1/server").json
    assert gateway.get("/v1/server?include_history=yes").error["param"] == "include_history"


def test_sessions_outlive_the_gateway(gateway, stored, session):
    with GatewayProcess(stored.address) as second:
        second.post(f"/v1/sessions/{session['id']}/append", {"text": "abc"})
        second.process.kill()
        second.process.wait()
        second.process.returncode = 0  # as wanted
    assert gateway.get(f"/v1/sessions/{session['id']}").json["position"] == 3


class Recorder(grpc.GenericRpcHandler):
    """Knows no method; remembers which session each call says it is on."""

    def __init__(self):
        self.seen = {}

    def service(self, details):
        method = details.method.rsplit("/", 1)[1]
        self.seen[method] = dict(details.invocation_metadata).get("tvq-session-id")


# A proxy before several servers finds a session's server by this header.
def test_calls_say_which_session_they_are_on():
    recorder = Recorder()
    server = grpc.server(futures.ThreadPoolExecutor(2), handlers=[recorder])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    with GatewayProcess(f"127.0.0.1:{port}") as gateway:
        for method, path, body in [
            ("GET", "/v1/sessions/s1", None), ("DELETE", "/v1/sessions/s1", None),
            ("POST", "/v1/sessions/s1/append", {"text": "a"}), ("POST", "/v1/sessions/s1/fork", {}),
            ("POST", "/v1/sessions/s1/marks", {"name": "m"}), ("DELETE", "/v1/sessions/s1/marks/m", None),
            ("POST", "/v1/sessions/s1/rewind", {"mark": "m"}), ("POST", "/v1/sessions/s1/save", {}),
            ("GET", "/v1/sessions/s1/export", None),
            ("POST", "/v1/completions", {"model": "m", "prompt": "a", "session_id": "s1"}),
            ("GET", "/v1/sessions", None), ("GET", "/v1/models", None),
            ("GET", "/v1/sessions/%C3%A4%20", None),
        ]:
            assert gateway.call(method, path, body).status == 501
            if path == "/v1/sessions/s1" and method == "GET":
                assert recorder.seen.pop("GetSession") == "s1"
    server.stop(None)
    # What no header can carry is no session's id. Check is the gateway's own, at its start.
    unnamed = {"ListSessions", "ListModels", "GetSession", "Check"}
    assert {method for method, session in recorder.seen.items() if session is None} == unnamed
    assert {session for method, session in recorder.seen.items() if method not in unnamed} == {"s1"}
    assert len(recorder.seen) == 13
