"""What the gateway says to the server behind it: a stand-in that tells, and that can be as slow as it likes."""

import http.client
import itertools
import json
import signal
import socket
import threading
import time

import grpc
import pytest
from gateway_process import GatewayProcess, text_of
from server_process import wait_until


class Import:
    """An ImportSession of the fake that reads at most `messages` messages, then waits until it is cancelled."""

    def __init__(self, fake, messages):
        from tvq.v1 import session_pb2
        self.response = session_pb2.ImportSessionResponse()
        self.messages, self.begun, self.cancelled = messages, threading.Event(), threading.Event()
        fake.ImportSession = self

    def __call__(self, requests, context):
        context.add_callback(self.cancelled.set)
        try:
            for _ in range(self.messages):
                next(requests)
                self.begun.set()
        except Exception:  # the call was cancelled
            pass
        self.cancelled.wait()
        return self.response


IMPORT = b"POST /v1/sessions/import HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n"


def send_until_blocked(sock):
    """Sends an import's head and body until neither gateway nor kernel take more."""
    sock.sendall(IMPORT % 1_000_000_000)
    sock.settimeout(0.5)
    try:
        while True:
            sock.send(b"x" * 65536)
    except TimeoutError:
        pass


@pytest.mark.parametrize("half", [b"", b"x" * 1000])
def test_hang_up_in_an_import_cancels_it(fake, half):
    running = Import(fake, messages=1000)
    with GatewayProcess(fake.address) as gateway:
        with gateway.raw() as sock:
            sock.sendall(IMPORT % 2000 + half)
            assert running.begun.wait(60)
        assert running.cancelled.wait(60)


# The end of the connection lies behind bytes that the gateway does not read yet: the first piece is on its way to
# the server, of the second a part waits in the kernel. (With more, the kernel would not take the end.)
def test_hang_up_in_an_import_that_the_server_does_not_read(fake):
    stuck = Import(fake, messages=1)
    with GatewayProcess(fake.address) as gateway:
        with gateway.raw() as sock:
            sock.sendall(IMPORT % 1_000_000_000 + b"x" * (256 * 1024 + 30_000))
            assert stuck.begun.wait(60)
        assert stuck.cancelled.wait(60)
        wait_until(lambda: gateway.connections() == 1, "the connection ended")


def test_second_signal_ends_an_import_that_the_server_does_not_read(fake):
    stuck = Import(fake, messages=1)
    with GatewayProcess(fake.address) as gateway, gateway.raw() as sock:
        send_until_blocked(sock)
        gateway.process.send_signal(signal.SIGTERM)
        wait_until(lambda: "second signal" in gateway.stderr(), "the first signal was heard")
        gateway.process.send_signal(signal.SIGTERM)
        assert gateway.process.wait(60) == 0
        assert stuck.cancelled.wait(60)


# gRPC tells of the call's end when the loop has nothing else to do: again and again, as it is a race.
@pytest.mark.parametrize("_", range(10))
def test_signal_during_an_import(fake, _):
    running = Import(fake, messages=1000)
    with GatewayProcess(fake.address, "--shutdown-timeout", "0.05") as gateway, gateway.raw() as sock:
        sock.sendall(IMPORT % 2000 + b"x" * 1000)
        assert running.begun.wait(60)
        gateway.process.send_signal(signal.SIGTERM)
        assert gateway.process.wait(60) == 0


# A prompt of more than the server takes: it says so while the gateway still writes.
@pytest.mark.parametrize("_", range(6))
def test_ends_at_once_after_a_call_that_was_refused_midway(fake, _):
    with GatewayProcess(fake.address) as gateway:
        answer = gateway.post("/v1/completions", {"model": "fake", "prompt": "x" * 14_000_000})
        assert (answer.status, answer.error["code"]) == (413, "too_large")
        gateway.process.send_signal(signal.SIGTERM)
        wait_until(lambda: "stopped" in gateway.stderr(), "all requests have ended")
        gateway.process.wait(5)  # of gRPC's ten seconds


def test_calls_on_a_session_name_it(fake):
    """By the header tvq-session-id a proxy before several servers finds the one that has the session."""
    with GatewayProcess(fake.address) as gateway:
        id = gateway.post("/v1/sessions", {}).json["id"]
        path = f"/v1/sessions/{id}"
        completion = {"prompt": "ab", "session_id": id, "max_tokens": 2}
        chat = {"messages": [{"role": "user", "content": "a"}], "session_id": id}
        for method, target, body, names in [
            ("GET", path, None, ["GetSession"]), ("POST", f"{path}/append", {"text": "a"}, ["AppendSession"]),
            ("POST", f"{path}/fork", {}, ["ForkSession"]), ("POST", f"{path}/marks", {"name": "m"}, ["MarkSession"]),
            ("POST", f"{path}/rewind", {"mark": "m"}, ["RewindSession"]),
            ("POST", f"{path}/save", {}, ["SaveSession"]), ("GET", f"{path}/export", None, ["ExportSession"]),
            ("DELETE", f"{path}/marks/m", None, ["UnmarkSession"]),
            ("POST", "/v1/completions", completion, ["GetSession", "Generate"]),
            ("POST", "/v1/completions", {**completion, "stream": True}, ["GetSession", "Generate"]),
            ("POST", "/v1/chat/completions", chat, ["GetSession", "GetModel"]),
            ("DELETE", path, None, ["DeleteSession"]),
        ]:
            fake.calls.clear()
            fake.routes.clear()
            gateway.call(method, target, body)
            assert fake.calls == names, target
            assert fake.routes == [None if name == "GetModel" else id for name in names], target
        for target, body in [("/v1/sessions", {}), ("/v1/completions", {"model": "fake", "prompt": "a"}),
                             ("/v1/completions", {"model": "fake", "prompt": "a", "session_id": "\u00e4"}),
                             ("/v1/completions", {"model": "fake", "prompt": "a", "session_id": "x" * 200})]:
            fake.routes.clear()
            gateway.post(target, body)
            assert fake.routes == [None], body


def refuse_prompt(fake, wanted, after, seconds=0):
    """The prompt `wanted` fails after so many tokens and seconds; others go on until they are cancelled."""
    answer, events = fake.Generate, threading.Event()

    def generate(request, context):
        context.add_callback(events.set)
        replies = answer(request, context)
        if request.text == wanted:
            yield from itertools.islice(replies, after)
            time.sleep(seconds)
            context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "there is no place")
        request.sampling.max_tokens = 1_000_000
        fake.token_seconds = 0.01
        yield from answer(request, context)

    fake.Generate = generate
    return events


def test_one_of_several_prompts_fails(fake):
    with GatewayProcess(fake.address) as gateway:
        body = {"model": "fake", "prompt": ["a", "b", "c"], "max_tokens": 4}
        for stream, after, status in [(False, 0, 429), (False, 2, 429), (True, 0, 429), (True, 2, 200)]:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(fake, "Generate", fake.Generate)
                # The stream has begun after --refusal-timeout, a second, even if another prompt is late.
                cancelled = refuse_prompt(fake, "b", after, seconds=3 if status == 200 else 0)
                answer = gateway.post("/v1/completions", {**body, "stream": stream})
                assert answer.status == status, answer.body
                assert b"there is no place" in answer.body
                assert (answer.body.endswith(b"data: [DONE]\n\n")) == (status == 200)
                assert cancelled.wait(60)


def test_stream_begins_when_all_its_calls_have_been_accepted(fake):
    """One that is refused after another has begun is an HTTP error all the same."""
    from fake_server import Refused
    begun, cancelled = threading.Event(), threading.Event()
    answer = fake.Generate

    def generate(request, context):
        if request.text == "b":
            begun.wait(60)
            time.sleep(0.2)  # so that the gateway has what the other one said
            raise Refused(grpc.StatusCode.INVALID_ARGUMENT, "text: is bad", "VALUE_INVALID", "text")
        context.add_callback(cancelled.set)
        for reply in answer(request, context):
            yield reply
            begun.set()
        cancelled.wait(60)

    fake.Generate = generate
    with GatewayProcess(fake.address, "--refusal-timeout", 60) as gateway:
        refused = gateway.post("/v1/completions", {"model": "fake", "prompt": ["a", "b"], "stream": True})
        assert (refused.status, refused.error["param"], refused.error["message"]) == (400, "prompt[1]", "prompt[1]: is bad")
        assert cancelled.wait(60)


def test_stream_does_not_wait_for_calls_in_the_queue(fake):
    """What has not been refused soon waits for a place, which perhaps the first call of the same request has."""
    go, answer = threading.Event(), fake.Generate

    def generate(request, context):
        if request.text == "b":
            go.wait(60)
        request.sampling.max_tokens = 100  # more than wait in the gateway for a reader
        yield from answer(request, context)

    fake.Generate = generate
    with GatewayProcess(fake.address) as gateway:
        stream = gateway.stream(model="fake", prompt=["a", "b"])
        assert next(stream)["choices"][0]["index"] == 0
        go.set()
        events = list(stream)
        assert stream.done and len(text_of(events, 1)) == 100


def test_time_of_a_request_becomes_the_deadline_of_its_calls(fake):
    left = []

    def generate(request, context):
        left.append(context.time_remaining())
        yield from answer(request, context)

    answer, fake.Generate = fake.Generate, generate
    body = {"model": "fake", "prompt": ["a", "b"], "max_tokens": 1}
    with GatewayProcess(fake.address) as gateway:
        for value in ("600", "600.5", " 6e2 "):
            assert gateway.post("/v1/completions", body, headers={"X-Request-Timeout": value}).status == 200
        # gRPC gives the server a deadline in the unit that has eight digits at most, rounded up.
        assert len(left) == 6 and all(500 < seconds < 602 for seconds in left)
        left.clear()
        for headers in ({}, {"X-Request-Timeout": ""}, {"X-Request-Timeout": "1e300"}):
            assert gateway.post("/v1/completions", body, headers=headers).status == 200
        assert all(seconds is None or seconds > 1e6 for seconds in left)
        for value in ("0", "-1", "soon", "5s", "nan"):
            refused = gateway.get("/v1/models", headers={"X-Request-Timeout": value})
            assert (refused.status, refused.error["param"]) == (400, "x-request-timeout")


def test_request_whose_time_has_passed(fake):
    """The server hears of it, and the client gets the status of the table."""
    cancelled, said = threading.Semaphore(0), threading.Event()

    def generate(request, context):
        context.add_callback(cancelled.release)
        if request.text == "says":
            yield from itertools.islice(answer(request, context), 1)
            said.set()
        while context.is_active():
            time.sleep(0.01)

    answer, fake.Generate = fake.Generate, generate
    headers = {"X-Request-Timeout": "0.5"}
    body = {"model": "fake", "prompt": "a"}
    with GatewayProcess(fake.address) as gateway:
        for stream in (False, True):
            late = gateway.post("/v1/completions", {**body, "stream": stream}, headers=headers)
            assert (late.status, late.error["type"], late.error["code"]) == (504, "server_error", "deadline_exceeded")
            assert late.error["message"] == "the time that the client gave this request has passed"
            assert cancelled.acquire(timeout=60)
        # A stream that has begun ends with an event. The time is that of the whole request, not between events.
        events = list(gateway.stream(model="fake", prompt="says", headers={"X-Request-Timeout": "10"}))
        assert said.is_set() and events[0]["choices"] and events[-1]["error"]["code"] == "deadline_exceeded"
        assert cancelled.acquire(timeout=60)
        # A body that takes longer leaves nothing.
        text = json.dumps(body).encode()
        with gateway.raw() as sock:
            sock.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: h\r\nX-Request-Timeout: 0.01\r\n"
                         b"Content-Length: %d\r\n\r\n%s" % (len(text), text[:5]))
            time.sleep(0.1)
            sock.sendall(text[5:])
            assert sock.recv(1000).startswith(b"HTTP/1.1 504")


def test_export_that_fails_midway_is_no_whole_file(fake):
    export = fake.ExportSession

    def fail(request, context):
        yield from itertools.islice(export(request, context), 1)
        context.abort(grpc.StatusCode.DATA_LOSS, "a page is damaged")

    with GatewayProcess(fake.address) as gateway:
        id = gateway.post("/v1/sessions", {}).json["id"]
        assert gateway.get(f"/v1/sessions/{id}/export").status == 200
        fake.ExportSession = fail
        with pytest.raises((http.client.IncompleteRead, ConnectionResetError)):
            gateway.get(f"/v1/sessions/{id}/export")


def test_hang_up_before_the_last_of_several_calls(fake):
    asked, cancelled = threading.Event(), threading.Event()

    def get_model(request, context):
        context.add_callback(cancelled.set)
        asked.set()
        cancelled.wait()
        context.abort(grpc.StatusCode.CANCELLED, "")

    fake.GetModel = get_model
    with GatewayProcess(fake.address) as gateway:
        with gateway.raw() as sock:
            sock.sendall(b'POST /v1/completions HTTP/1.1\r\nHost: h\r\nContent-Length: 14\r\n\r\n{"prompt":"a"}')
            assert asked.wait(60)
        assert cancelled.wait(60)
    assert "Generate" not in fake.calls


def test_silent_stream_says_that_it_lives(fake):
    """Proxies and clients give up on a connection without a byte: there is a comment after 15 s."""
    said = threading.Event()

    def generate(request, context):
        from tvq.v1 import generation_pb2
        yield generation_pb2.GenerateResponse(deltas=[generation_pb2.SampleDelta(text="a")])
        context.add_callback(said.set)
        said.wait(60)

    fake.Generate = generate
    with GatewayProcess(fake.address) as gateway:
        stream = gateway.stream(model="fake", prompt="a")
        assert next(stream)["choices"][0]["text"] == "a"
        lines = itertools.takewhile(lambda line: line, iter(stream.response.readline, b""))
        assert next(line for line in lines if line.startswith(b":")) == b": waiting\n"
        said.set()
        assert b"data: [DONE]\n" in list(lines)
