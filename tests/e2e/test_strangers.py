"""Clients that connect and say nothing, or the wrong thing, when descriptors are few."""

import http.client
import json
import re
import socket
from pathlib import Path

import grpc
import pytest
from certificates import Authority
from gateway_process import GatewayProcess
from raw_http2 import ACK, DATA, END_STREAM, PREFACE, SETTINGS, frame
from reset_storm import requests
from server_process import GOLDEN, ServerProcess, wait_until
from test_keys import bearer, line

LIMIT = 256      # descriptors, both limits
STRANGERS = 400  # connections
FEW = ("prlimit", f"--nofile={LIMIT}:{LIMIT}")

SILENT = b""
HALF_A_PREFACE = PREFACE[:12]
NO_CALL = PREFACE + frame(SETTINGS, 0, 0) + frame(SETTINGS, ACK, 0)
NO_MESSAGE = NO_CALL + b"".join(requests(1, reset=False))
WATCH = (NO_CALL + b"".join(requests(1, "/grpc.health.v1.Health/Watch", reset=False))
         + frame(DATA, END_STREAM, 1, bytes(5)))
HALF_A_HANDSHAKE = b"\x16\x03\x01\x02\x00\x01"


def connections(port, first_bytes, count=STRANGERS):
    """Each has sent `first_bytes`; the other end may have closed it."""
    opened = []
    for _ in range(count):
        connection = socket.create_connection(("127.0.0.1", port))
        opened.append(connection)
        try:
            connection.sendall(first_bytes)
        except OSError:
            pass  # closed already
    return opened


def close(opened):
    for connection in opened:
        connection.close()


@pytest.fixture
def few(api):
    """A server that may have few descriptors."""
    with ServerProcess(api, "--model", f"bytes={GOLDEN / 'bytes_untied'}", inside=FEW) as server:
        yield server


def port_of(server):
    return int(server.address.rsplit(":", 1)[1])


def answers(server):
    samples, _ = server.generate("Once", max_tokens=4, ignore_eos=True)
    return len(samples[0].ids) == 4


@pytest.mark.parametrize("first_bytes", [SILENT, HALF_A_PREFACE, NO_CALL], ids=["silent", "half", "no_call"])
def test_strangers_make_room_for_callers(api, few, first_bytes):
    stream = few.endless()
    strangers = connections(port_of(few), first_bytes)
    with grpc.insecure_channel(few.address) as channel:  # a new connection
        models = api.model_grpc.ModelServiceStub(channel)
        models.GetServerInfo(api.model.GetServerInfoRequest(), timeout=60, wait_for_ready=True)
    next(stream)  # which has a call, so it stays
    close(strangers)
    with grpc.insecure_channel(few.address) as channel:
        models = api.model_grpc.ModelServiceStub(channel)
        models.GetServerInfo(api.model.GetServerInfoRequest(), timeout=60)
    stream.cancel()
    assert answers(few)
    assert f"of {LIMIT} descriptors" in few.stderr()


def test_idle_connections_make_room_for_callers_beyond_a_number(start):
    server = start("--max-connections", 100)
    strangers = connections(port_of(server), NO_CALL)
    with grpc.insecure_channel(server.address) as channel:  # a new connection
        models = server.api.model_grpc.ModelServiceStub(channel)
        models.GetServerInfo(server.api.model.GetServerInfoRequest(), timeout=60, wait_for_ready=True)
    assert sum(map(is_open, strangers)) < 150
    close(strangers)
    assert "about 100 connections are open (--max-connections)" in server.stderr()


@pytest.mark.parametrize("first_bytes", [NO_MESSAGE, WATCH], ids=["no_message", "watch"])
def test_calls_without_a_key_make_room_for_callers_with_one(api, tmp_path, first_bytes):
    file = tmp_path / "keys.txt"
    file.write_text(line("ana", "alpha"))
    flags = ["--model", f"bytes={GOLDEN / 'bytes_untied'}", "--api-key-file", file]
    with ServerProcess(api, *flags, inside=FEW) as server:
        request = server.request("Once", max_tokens=100_000_000, ignore_eos=True)
        stream = server.generation.Generate(request, metadata=bearer("alpha"))
        next(stream)
        strangers = connections(port_of(server), first_bytes)
        with grpc.insecure_channel(server.address) as channel:  # a new connection
            models = api.model_grpc.ModelServiceStub(channel)
            models.GetServerInfo(api.model.GetServerInfoRequest(), metadata=bearer("alpha"), timeout=60, wait_for_ready=True)
        next(stream)
        assert f"of {LIMIT} descriptors" in server.stderr()
        stream.cancel()
        close(strangers)


def test_handshakes_that_never_end_make_room(api, tmp_path):
    authority = Authority(tmp_path)
    certificate, key = authority.issue("server")
    flags = ["--model", f"bytes={GOLDEN / 'bytes_untied'}", "--ssl-certfile", certificate, "--ssl-keyfile", key]
    with ServerProcess(api, *flags, inside=FEW) as server:
        strangers = connections(port_of(server), HALF_A_HANDSHAKE)
        credentials = grpc.ssl_channel_credentials(authority.ca.read_bytes())
        with grpc.secure_channel(server.address, credentials) as channel:
            models = api.model_grpc.ModelServiceStub(channel)
            models.GetServerInfo(api.model.GetServerInfoRequest(), timeout=60, wait_for_ready=True)
        close(strangers)


def is_open(connection):
    """Reads what has come."""
    connection.setblocking(False)
    try:
        while connection.recv(1024):
            pass
        return False
    except BlockingIOError:
        return True
    except ConnectionError:
        return False


def test_strangers_are_closed_after_a_time(start):
    port = port_of(start())
    (caller,) = connections(port, NO_CALL, count=1)
    strangers = {first_bytes: connections(port, first_bytes, count=2) for first_bytes in (SILENT, HALF_A_PREFACE, PREFACE)}
    for first_bytes, opened in strangers.items():
        wait_until(lambda: not any(map(is_open, opened)), f"clients that sent {first_bytes} are closed")
    assert is_open(caller), "a client of HTTP/2 may be idle"
    caller.close()


def test_http_at_the_grpc_port_is_told_where_to_go(start):
    server = start()
    connection = http.client.HTTPConnection("127.0.0.1", port_of(server), timeout=60)
    connection.request("POST", "/v1/completions", body=b"x" * 10_000_000)
    response = connection.getresponse()
    assert response.status == 400
    assert "tvq-gateway" in json.loads(response.read())["error"]["message"]
    connection.close()


def test_the_soft_limit_is_raised_to_the_hard_one(api):
    low = ("prlimit", "--nofile=256:4096")
    with ServerProcess(api, "--model", f"bytes={GOLDEN / 'bytes_untied'}", inside=low) as server, \
            GatewayProcess(server.address, inside=low) as gateway:
        for process in (server.process, gateway.process):
            limits = Path(f"/proc/{process.pid}/limits").read_text()
            assert re.search(r"Max open files +4096 +4096 ", limits), limits


def test_the_gateway_says_that_clients_wait_and_makes_room(start):
    """Where one address may take all connections, as that of a proxy does."""
    with GatewayProcess(start().address, "--max-connections-per-address", 20_000, inside=FEW) as gateway:
        strangers = connections(gateway.port, SILENT)
        wait_until(lambda: "clients wait for a connection" in gateway.stderr(), "the gateway says so")
        assert gateway.get("/v1/models").status == 200
        close(strangers)
