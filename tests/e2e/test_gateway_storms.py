"""What one client without a key can make the gateway hold, and what becomes of others meanwhile."""

import contextlib
import json
import socket
import struct
import threading

import pytest
from gateway_process import GatewayProcess
from server_process import wait_until
from test_gateway_pieces import unread

MIB = 1 << 20


@pytest.fixture
def gateway(server):
    with GatewayProcess(server.address, "--header-timeout", "600") as process:
        yield process


def resident(gateway, figure="VmRSS"):
    """Bytes of the process in memory; VmHWM: the most there were."""
    status = open(f"/proc/{gateway.process.pid}/status").read()
    return int(status.split(f"{figure}:")[1].split()[0]) * 1024


def completion(**fields):
    body = json.dumps({"model": "bytes", "prompt": "Once", **fields}).encode()
    return b"POST /v1/completions HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n" % len(body) + body


def reset(sock):
    """Closes it such that the other side sees an error."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


def hold(gateway, count, data):
    """Sends the same over so many connections, and lets them go when the gateway has read it all."""
    with contextlib.ExitStack() as opened:
        for _ in range(count):
            opened.enter_context(gateway.raw()).sendall(data)
        wait_until(lambda: unread(gateway.port) == 0, "the gateway has read all")
        assert gateway.get("/health").status == 200


def test_memory_is_given_back_after_a_peak(gateway):
    gateway.complete(max_tokens=1)
    before = resident(gateway)
    hold(gateway, 2000, b"GET / HTTP/1.1\r\nHost: h\r\nX: " + b"x" * 16_000)
    assert resident(gateway, "VmHWM") > before + 32 * MIB, "what the test needs"
    wait_until(lambda: resident(gateway) < before + 16 * MIB, "the memory is given back")


@pytest.mark.parametrize("line", [b"a:\r\n", b"X: " + b"y" * 900 + b"\r\n"], ids=["many lines", "long lines"])
def test_long_headers_have_a_budget(server, line):
    """Those of requests that have been read, whose bodies are awaited."""
    with GatewayProcess(server.address, "--max-buffered-bytes", "8MB", "--body-timeout", "600") as gateway:
        gateway.complete(max_tokens=1)
        before = resident(gateway)
        header = b"POST /v1/completions HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n"
        hold(gateway, 1000, header + line * (16_000 // len(line)) + b"\r\n")
        assert resident(gateway, "VmHWM") < before + 48 * MIB
        assert gateway.complete(max_tokens=1)["choices"]


def test_requests_that_are_reset_do_not_disturb_others(gateway, server):
    gateway.complete(max_tokens=1)
    before = resident(gateway)
    # A stream, and calls for 128 prompts each.
    requests = [completion(max_tokens=1_000_000, stream=True, ignore_eos=True),
                completion(max_tokens=1_000_000, prompt=["Once"] * 128)]

    def storm(request):
        for _ in range(1500):
            sock = gateway.raw()
            sock.sendall(request)
            reset(sock)

    threads = [threading.Thread(target=storm, args=[request]) for request in requests]
    for thread in threads:
        thread.start()
    answers = [gateway.post("/v1/completions", {"model": "bytes", "prompt": "Once", "max_tokens": 3})]
    while any(thread.is_alive() for thread in threads):
        answers.append(gateway.post("/v1/completions", {"model": "bytes", "prompt": "Once", "max_tokens": 3}))
    assert {answer.status for answer in answers} <= {200, 429}, [answer.body for answer in answers]
    server.wait_idle()
    wait_until(lambda: resident(gateway) < before + 64 * MIB, "the memory is given back")
    wait_until(lambda: gateway.post("/v1/completions", {"model": "bytes", "max_tokens": 1}).status == 200,
               "who gave up too many may call again")
