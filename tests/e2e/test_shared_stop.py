"""How a server that shares a Redis stops, when something is in its way."""

import signal
import socket
import subprocess
import threading

import grpc
from server_process import PATIENCE_SECONDS, wait_until
from session_client import SessionClient
from test_admin import drain
from test_keys import bearer, line
from test_lifecycle import NOT_SERVING, SERVING
from test_shared_redis import redis  # noqa: F401
from test_snapshots import TEXT


def process_of(url):
    """The id of the Redis there."""
    port = url.rsplit(":", 1)[1]
    told = subprocess.run(["redis-cli", "-p", port, "info", "server"], capture_output=True, text=True, check=True).stdout
    return int(next(row.split(":")[1] for row in told.splitlines() if row.startswith("process_id:")))


def listens(server):
    try:
        socket.create_connection(tuple(server.address.rsplit(":", 1)), timeout=1).close()
    except ConnectionRefusedError:
        return False
    return True


def test_an_order_to_drain_sends_clients_elsewhere(redis, start, tmp_path):  # noqa: F811
    keys = tmp_path / "keys"
    keys.write_text(line("user", "user-key") + line("ops", "admin-key", "admin"))
    flags = ["--redis", redis, "--api-key-file", keys, "--shutdown-timeout", PATIENCE_SECONDS]
    stopping, other = start(*flags), start(*flags)
    stopping.admin = stopping.api.admin_grpc.AdminServiceStub(stopping.channel)
    one, two = SessionClient(stopping, "user-key"), SessionClient(other, "user-key")
    idle, busy = one.create(), one.create()
    newest = one.append(idle.id, TEXT)
    stream = one.stream(busy.id, TEXT, max_tokens=100_000_000, ignore_eos=True)
    next(stream)
    assert drain(stopping, metadata=bearer("admin-key")).requests_running == 1
    wait_until(lambda: not listens(stopping), "the port closes")
    assert two.append(idle.id, "x").version == newest.version + 1
    next(stream)  # goes on
    stream.cancel()
    assert stopping.process.wait(PATIENCE_SECONDS) == 0


def test_a_watch_of_its_health_is_told_and_ends(redis, start):  # noqa: F811
    server = start("--redis", redis)
    watch = server.channel.unary_stream("/grpc.health.v1.Health/Watch")(b"\x0a\x00")
    assert next(watch) == bytes([8, SERVING])
    server.signal(signal.SIGTERM)
    assert next(watch) == bytes([8, NOT_SERVING])
    assert server.process.wait(PATIENCE_SECONDS) == 0
    try:
        assert not list(watch)
    except grpc.RpcError as ended:
        assert ended.code() in (grpc.StatusCode.CANCELLED, grpc.StatusCode.UNAVAILABLE)


def test_without_redis_it_stops_and_names_what_is_lost(redis, start):  # noqa: F811
    server = start("--redis", redis, "--shutdown-timeout", 1)
    client = SessionClient(server)
    stored, lost = client.create(durable=True), client.create(durable=True)
    subprocess.run(["redis-cli", "-p", redis.rsplit(":", 1)[1], "shutdown", "nosave"], capture_output=True)
    client.append(lost.id, TEXT)
    server.signal(signal.SIGTERM)
    assert server.process.wait(PATIENCE_SECONDS) == 0
    assert f"session {lost.id} is lost" in server.stderr() and stored.id not in server.stderr()


def test_a_second_signal_ends_the_wait_for_a_redis_that_hangs(redis, start):  # noqa: F811
    server = start("--redis", redis, "--shutdown-timeout", 36_000)
    client = SessionClient(server)
    session = client.create()
    client.append(session.id, TEXT)
    stream = server.endless()
    paused = process_of(redis)
    subprocess.run(["kill", "-STOP", str(paused)], check=True)
    thaw = threading.Timer(PATIENCE_SECONDS, subprocess.run, [["kill", "-CONT", str(paused)]])
    thaw.start()
    try:
        server.signal(signal.SIGTERM)
        next(stream)
        server.signal(signal.SIGINT)  # another than before: of two alike that wait, one gets lost
        assert server.process.wait(PATIENCE_SECONDS) == 0
        assert f"session {session.id} is lost" in server.stderr()
    finally:
        thaw.cancel()
        subprocess.run(["kill", "-CONT", str(paused)], check=True)
