"""What tvq-gateway lets nobody take too much of: memory, connections, the loop's time."""

import contextlib
import json
import socket
import threading
import time
from concurrent import futures

import grpc
import pytest
from gateway_process import GatewayProcess
from server_process import wait_until


BODY = {"model": "fake", "prompt": "a", "max_tokens": 2}


def say(fake, size, count):
    """Every answer is `count` messages of `size` characters."""
    from tvq.v1 import generation_pb2
    fake.said = 0

    def generate(request, context):
        for i in range(count):
            fake.said += 1
            yield generation_pb2.GenerateResponse(deltas=[generation_pb2.SampleDelta(text="x" * size)])

    fake.Generate = generate


def test_answer_in_one_piece_has_a_limit(fake):
    with GatewayProcess(fake.address) as gateway:
        say(fake, 4 << 20, 3)
        assert len(gateway.post("/v1/completions", BODY).json["choices"][0]["text"]) == 12 << 20
        say(fake, 4 << 20, 5)
        answer = gateway.post("/v1/completions", BODY)
        assert (answer.status, answer.error["code"]) == (413, "too_large") and "stream" in answer.error["message"]
        with_stream = gateway.post("/v1/completions", {**BODY, "stream": True})
        assert with_stream.status == 200 and len(with_stream.body) > 20 << 20


def test_answers_in_one_piece_have_a_limit_together(fake):
    with GatewayProcess(fake.address, "--max-buffered-bytes", "1MB") as gateway:
        for size, status in [(1000, 200), (2_000_000, 429), (900_000, 200)]:
            say(fake, size, 1)
            answer = gateway.post("/v1/completions", BODY)
            assert answer.status == status, answer.body[:200]
            assert (answer.headers["Retry-After"] is not None) == (status == 429)
            assert status == 200 or answer.error["type"] == "rate_limit_error"
            assert status == 200 or "of them this address's; try again when some have ended, or stream" in str(answer.error)


def test_ids_count_by_their_memory(fake):
    """Twelve bytes for each of the message, while they become JSON."""
    with GatewayProcess(fake.address, "--max-buffered-bytes", "1MB") as gateway:
        for size, status in [(1000, 200), (100_000, 429), (50_000, 200)]:
            answer = gateway.post("/tokenize", {"model": "fake", "prompt": "x" * size})
            assert answer.status == status, answer.body[:200]
            assert status != 200 or answer.json["count"] == len(answer.json["tokens"]) == size


def wide(fake):
    """The vector of a text that is a number has so many numbers."""
    from tvq.v1 import generation_pb2

    def encode(request, context):
        return generation_pb2.EncodeResponse(vectors=[0.123] * int(request.text), tokens=1, width=int(request.text))

    fake.Encode = encode


def test_vectors_count_by_their_memory(fake):
    """Six bytes for each of the messages, while they become JSON; as the texts do until then."""
    wide(fake)
    with GatewayProcess(fake.address, "--max-buffered-bytes", "1MB") as gateway:
        for given, status in [(["1000"] * 20, 200), (["50000"], 429), (["1000"] * 50, 429), (["30000"], 200),
                              (["1"] * 2000, 200)]:
            answer = gateway.post("/v1/embeddings", {"model": "fake", "input": given})
            assert answer.status == status, answer.body[:200]
            assert status != 200 or [len(one["embedding"]) for one in answer.json["data"]] == list(map(int, given))


def test_vectors_in_one_answer_have_a_limit(fake):
    wide(fake)
    with GatewayProcess(fake.address) as gateway:
        for count, status in [(3, 200), (5, 413)]:
            answer = gateway.post("/v1/embeddings", {"model": "fake", "input": ["1000000"] * count,
                                                     "encoding_format": "base64"})
            assert answer.status == status, answer.body[:200]
        assert answer.error["code"] == "too_large" and answer.error["param"] is None


def test_embeddings_ask_for_a_few_texts_at_once_until_the_client_hangs_up(fake):
    begun, cancelled = threading.Semaphore(0), threading.Semaphore(0)

    def encode(request, context):
        gone = threading.Event()
        context.add_callback(gone.set)
        begun.release()
        gone.wait(60)
        cancelled.release()
        context.abort(grpc.StatusCode.CANCELLED, "")

    fake.Encode = encode
    with GatewayProcess(fake.address) as gateway:
        body = json.dumps({"model": "fake", "input": ["a"] * 100}).encode()
        with gateway.raw() as client:
            client.sendall(b"POST /v1/embeddings HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n%s" % (
                len(body), body))
            for _ in range(8):
                assert begun.acquire(timeout=60)
            assert not begun.acquire(timeout=0.3)
        for _ in range(8):
            assert cancelled.acquire(timeout=60)
        assert not begun.acquire(timeout=0.3)


def test_an_error_of_one_text_ends_the_calls_of_the_others(fake):
    from fake_server import Refused
    begun, cancelled = threading.Semaphore(0), threading.Event()

    def encode(request, context):
        if request.text == "bad":
            for _ in range(7):
                begun.acquire(timeout=60)
            raise Refused(grpc.StatusCode.INVALID_ARGUMENT, "text: is bad", "VALUE_INVALID", "text")
        context.add_callback(cancelled.set)
        begun.release()
        cancelled.wait(60)
        context.abort(grpc.StatusCode.CANCELLED, "")

    fake.Encode = encode
    with GatewayProcess(fake.address) as gateway:
        answer = gateway.post("/v1/embeddings", {"model": "fake", "input": ["a", "b", "bad"] + ["c"] * 10})
        assert (answer.status, answer.error["param"], answer.error["message"]) == (400, "input[2]", "input[2]: is bad")
        assert cancelled.wait(60)
        assert len(fake.requests) == 8


def test_an_error_of_one_prompt_ends_the_calls_of_the_others(fake):
    """At once, though the client is slow to read what came before."""
    from tvq.v1 import generation_pb2
    go, said, cancelled = threading.Event(), threading.Event(), threading.Event()
    message = generation_pb2.GenerateResponse(deltas=[generation_pb2.SampleDelta(text="x" * (4 << 20))])

    def generate(request, context):
        if request.text == "bad":
            said.wait(60)
            context.abort(grpc.StatusCode.INTERNAL, "it failed")
        context.add_callback(cancelled.set)
        yield message
        go.wait(60)
        yield message  # which waits in the gateway while the client reads the one before
        said.set()
        cancelled.wait(60)

    fake.Generate = generate
    with GatewayProcess(fake.address) as gateway, gateway.raw() as client:
        body = json.dumps({**BODY, "prompt": ["a", "bad"], "stream": True}).encode()
        client.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        assert client.recv(1000).startswith(b"HTTP/1.1 200")
        go.set()
        assert said.wait(60)
        time.sleep(0.3)  # for the error
        left = 5 << 20
        while left > 0:
            left -= len(client.recv(left))
        assert cancelled.wait(20)


def test_text_counts_as_it_comes(fake):
    """Eight answers of 400 kB at once fit into 4 MB; only probabilities count for more than they have on the wire."""
    from tvq.v1 import generation_pb2
    go, begun = threading.Event(), threading.Semaphore(0)

    def generate(request, context):
        yield generation_pb2.GenerateResponse(deltas=[generation_pb2.SampleDelta(text="x" * 400_000)])
        begun.release()
        go.wait(60)

    fake.Generate = generate
    with GatewayProcess(fake.address, "--max-buffered-bytes", "4MB") as gateway:
        with futures.ThreadPoolExecutor(8) as clients:
            answers = [clients.submit(gateway.post, "/v1/completions", BODY) for _ in range(8)]
            for _ in answers:
                assert begun.acquire(timeout=60)
            go.set()
            assert [answer.result().status for answer in answers] == [200] * 8


def test_probabilities_of_a_prompt_have_the_same_limit(fake):
    """They are kept until the first event of a stream, which shows them."""
    from tvq.v1 import generation_pb2
    token = generation_pb2.TokenLogprobs(token=generation_pb2.TokenLogprob(token=b"a", logprob=-1), has_logprob=True)

    def generate(request, context):
        for _ in range(100):
            yield generation_pb2.GenerateResponse(prompt_logprobs=[token] * request.sampling.max_tokens)
        yield generation_pb2.GenerateResponse(deltas=[generation_pb2.SampleDelta(text="x")])

    fake.Generate = generate
    with GatewayProcess(fake.address, "--max-buffered-bytes", "1MB") as gateway:
        for tokens, fits in [(2, True), (1000, False), (2, True)]:
            body = {**BODY, "max_tokens": tokens, "stream": True, "prompt_logprobs": 1}
            events = gateway.post("/v1/completions", body).body
            assert (b'"text":"x"' in events) == fits and (b"rate_limit_error" in events) != fits
            assert events.endswith(b"data: [DONE]\n\n")


def resident(gateway):
    """Bytes of memory."""
    with open(f"/proc/{gateway.process.pid}/statm") as file:
        return int(file.read().split()[1]) * 4096


@pytest.mark.parametrize("said", [
    b"", b"G", b"POST /v1/completions HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\n\r\n{"])
def test_connections_that_say_little_hold_little(fake, said):
    count = 300
    with GatewayProcess(fake.address) as gateway:
        before = resident(gateway)
        connections = [gateway.raw() for _ in range(count)]
        for connection in connections:
            connection.sendall(said)
        wait_until(lambda: gateway.connections() == count + 1, "all are open")
        # A buffer of 2 KiB, the parser with its header, the coroutines. With a large buffer it would be 70 kB.
        assert (resident(gateway) - before) / count < 25_000
        for connection in connections:
            connection.close()


def test_values_of_a_body_count_by_their_memory(fake):
    """An empty object has three bytes of a body and more than a hundred of memory."""
    body = b'{"model":"fake","prompt":"a","x":[' + b"{}," * 1_900_000 + b"{}]}"
    with GatewayProcess(fake.address, "--max-buffered-bytes", "32MB") as gateway:
        before = resident(gateway)
        answer = gateway.post("/v1/completions", body)
        assert answer.status == 429 and "fewer values" in answer.error["message"], answer.body
        assert resident(gateway) - before < 40 << 20
        assert gateway.post("/v1/completions", BODY).status == 200
    with GatewayProcess(fake.address) as gateway:
        assert gateway.post("/v1/completions", body).status == 200


def test_conversations_that_wait_for_their_model_count(fake):
    go, begun = threading.Event(), threading.Event()

    def get_model(request, context):
        begun.set()
        go.wait(60)
        context.abort(grpc.StatusCode.NOT_FOUND, "model: is unknown")

    fake.GetModel = get_model
    chat = {"model": "fake", "messages": [{"role": "user", "content": "x" * 500_000}]}
    with GatewayProcess(fake.address, "--max-buffered-bytes", "2200kB") as gateway, \
            futures.ThreadPoolExecutor(1) as clients:
        first = clients.submit(gateway.post, "/v1/chat/completions", chat)
        assert begun.wait(60)
        assert gateway.post("/v1/chat/completions", chat).status == 429
        go.set()
        assert first.result().status == 404
        assert gateway.post("/v1/chat/completions", chat).status == 404


@pytest.mark.parametrize("endless", [b"\r\n1;" + b"x" * (64 << 10), b"\r\n0;" + b"x" * (64 << 10),
                                     b"\r\n0\r\n" + b"Trailer: t\r\n" * 5000], ids=["header", "last", "trailers"])
@pytest.mark.parametrize("path", [b"/v1/completions", b"/v1/nothing"], ids=["read", "skipped"])
def test_headers_of_chunks_have_a_limit(fake, path, endless):
    """A body of 64 KiB, then what comes with a chunk, for ever. A path that is unknown skips its body."""
    with GatewayProcess(fake.address) as gateway, gateway.raw() as client:
        before = resident(gateway)
        client.sendall(b"POST %s HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n10000\r\n" % path +
                       b"x" * (64 << 10) + endless)
        sent = 0
        while sent < 12 << 20:
            sent += client.send(endless[-(60 << 10):])
            assert resident(gateway) - before < 6 << 20
        answer = client.recv(10_000)
        if path == b"/v1/nothing":
            assert answer.startswith(b"HTTP/1.1 404")
        else:
            assert answer.startswith(b"HTTP/1.1 400") and b"the trailers are longer than 16384 bytes" in answer


def test_readers_that_take_nothing_hold_little(fake):
    """Tokens for them stay with the server."""
    say(fake, 20_000, 1_000_000)
    with GatewayProcess(fake.address) as gateway:
        before, readers = resident(gateway), []
        for _ in range(12):
            readers.append(gateway.raw())
            body = b'{"model":"fake","prompt":"a","stream":true}'
            readers[-1].sendall(b"POST /v1/completions HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n%s" % (
                len(body), body))
        seen = [0]

        def stopped():
            time.sleep(0.3)
            seen.append(fake.said)
            return seen[-1] == seen[-2] > 0

        wait_until(stopped, "the server may say no more")
        # 64 KiB of messages for each call, those before them on their way out, and what gRPC takes ahead.
        assert resident(gateway) - before < 12 * (3 << 19)
        for reader in readers:
            reader.close()


def test_exports_count_while_their_readers_take_nothing(start):
    server = start()
    with GatewayProcess(server.address) as gateway:
        session = gateway.post("/v1/sessions", {"model": "bytes"}).json["id"]
        appended = gateway.post(f"/v1/sessions/{session}/append", {"text": "x" * 400_000})
        assert appended.status == 200, appended.body
        size = len(gateway.get(f"/v1/sessions/{session}/export").body)
        assert size > 1 << 20, "larger than a chunk"
    for limit, status in [("1MB", 429), ("8MB", 200)]:
        with GatewayProcess(server.address, "--max-buffered-bytes", limit) as gateway:
            answer = gateway.get(f"/v1/sessions/{session}/export")
            assert answer.status == status, answer.body[:200]
            assert (answer.headers["Retry-After"] is not None) == (status == 429)
            assert status == 429 or len(answer.body) == size


def test_connections_beyond_the_limit_wait(fake):
    with GatewayProcess(fake.address, "--max-connections", "2") as gateway:
        held = [gateway.connect() for _ in range(2)]
        for connection in held:
            connection.request("GET", "/health")
            assert connection.getresponse().read()
        with gateway.raw() as third:
            third.sendall(b"GET /health HTTP/1.1\r\nHost: h\r\n\r\n")
            third.settimeout(0.3)
            with pytest.raises(socket.timeout):
                third.recv(1000)
            held[0].close()
            third.settimeout(60)
            assert third.recv(1000).startswith(b"HTTP/1.1 200")
        held[1].close()


def test_one_address_takes_not_all_connections_where_descriptors_are_few(fake):
    with GatewayProcess(fake.address, inside=("prlimit", "--nofile=256:256")) as gateway:
        held = []
        for i in range(400):
            connection = gateway.raw()
            held.append(connection)
            with contextlib.suppress(ConnectionError):
                if i % 2:
                    connection.sendall(b"GET /health HTTP/1.1\r\nHost: h\r\n\r\n")
        with socket.create_connection((gateway.host, gateway.port), timeout=60, source_address=("127.0.0.2", 0)) as other:
            other.sendall(b"GET /health HTTP/1.1\r\nHost: h\r\n\r\n")
            assert other.recv(1000).startswith(b"HTTP/1.1 200")
        assert "at most 128 connections, 64 of one address" in gateway.stderr()
        assert "clients wait for a connection" not in gateway.stderr()
        for connection in held:
            connection.close()


PATHS = ["/v1/completions", "/v1/chat/completions", "/v1/embeddings", "/tokenize", "/detokenize", "/v1/sessions",
         "/v1/sessions/s1/append", "/v1/sessions/s1/fork"]


@pytest.mark.parametrize("path", PATHS)
def test_long_bodies_do_not_stop_others(fake, path):
    """A body that takes long to read: meanwhile others have their answers."""
    body = b'{"x":[' + b"[]," * 1_000_000 + b"[]]}"
    with GatewayProcess(fake.address) as gateway, gateway.raw() as slow:
        other = gateway.connect()
        slow.sendall(b"POST %s HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n" % (path.encode(), len(body)) +
                     body)
        slow.setblocking(False)
        others, answered = 0, False
        while not answered:
            other.request("GET", "/health")
            assert other.getresponse().read()
            others += 1
            try:
                answered = bool(slow.recv(1000))
            except BlockingIOError:
                pass
        # Read on the loop it would let pass what came before it and what is asked once it has been read.
        assert others > 2
        other.close()
