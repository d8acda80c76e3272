"""The gateway's end, and what it says while the server is away."""

import contextlib
import http.client
import json
import signal
import socket
import subprocess
import threading
from pathlib import Path

from gateway_process import Answer, GatewayProcess
from server_process import BIN, GOLDEN, PATIENCE_SECONDS, ServerProcess, dead_addresses, wait_until

ENDLESS = {"prompt": "Once", "max_tokens": 100_000_000, "ignore_eos": True}


def test_server_away_and_back(api, tmp_path):
    model = ["--model", f"bytes={GOLDEN / 'bytes_untied'}", "--session-dir", tmp_path]
    server = ServerProcess(api, *model).__enter__()
    port = int(server.address.rsplit(":", 1)[1])
    with GatewayProcess(server.address) as gateway:
        session = gateway.post("/v1/sessions", {"durability": "disk"}).json["id"]
        gateway.post(f"/v1/sessions/{session}/append", {"text": "Once", "durability": "disk"})
        stream = gateway.stream(**ENDLESS)
        next(stream)
        server.process.kill()
        server.process.wait()
        server.process.returncode = 0  # as wanted
        server.__exit__()
        # What has begun ends with an event that says so.
        events = list(stream)
        assert events[-1]["error"]["type"] == "server_error" and stream.done
        assert events[-1]["error"]["message"] == "The connection to the server broke: the server ended or closed it, or is out of reach."
        answer = gateway.post("/v1/completions", {"model": "bytes", "prompt": "a"})
        assert (answer.status, answer.error["code"]) == (503, "unavailable")
        assert int(answer.headers["Retry-After"]) >= 1
        assert gateway.get("/v1/health/ready").status == 503
        assert gateway.get("/v1/health/live").status == 200
        with ServerProcess(api, *model, port=port):
            wait_until(lambda: gateway.get("/v1/health/ready").status == 200, "the gateway found the server")
            assert gateway.complete("Once", max_tokens=2)["usage"]["completion_tokens"] == 2
            assert gateway.get(f"/v1/sessions/{session}").json["position"] == 4


def test_no_server_is_told_at_the_start_and_with_each_answer(server):
    with dead_addresses(1) as [address], GatewayProcess(address) as gateway:
        nobody = f"No server at {address}. Is tvq-server running?"
        wait_until(lambda: nobody in gateway.stderr(), "the gateway warns")
        assert f"{nobody} (--server, TVQ_SERVER) Until it is there, requests are answered with 503\n" in gateway.stderr()
        answer = gateway.post("/v1/completions", {"prompt": "a"})
        assert (answer.status, answer.error["message"]) == (503, nobody)
        answer = gateway.get("/v1/models")
        assert (answer.status, answer.error["message"]) == (503, nobody)
        gateway.process.send_signal(signal.SIGTERM)
        assert gateway.process.wait(PATIENCE_SECONDS) == 0 and gateway.stderr().count(nobody) == 1
    with GatewayProcess(server.address) as gateway:
        assert gateway.complete("Once", max_tokens=2)
    assert "No server" not in gateway.stderr()


def test_the_server_is_called_past_proxies(server):
    elsewhere = "10.254.254.254:1234"
    nobody = {name: "http://127.0.0.1:1" for name in ("http_proxy", "https_proxy")}
    with GatewayProcess(server.address, environment=nobody) as gateway:
        assert gateway.complete("Once", max_tokens=2)
    with GatewayProcess(elsewhere, environment={**nobody, "no_proxy": ""}) as gateway:
        told = "No server at 127.0.0.1:1. It is the proxy of https_proxy;"
        wait_until(lambda: told in gateway.stderr(), "the gateway warns")
        answer = gateway.get("/v1/models")
        assert answer.status == 503 and answer.error["message"].startswith(told)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        silent = {"https_proxy": f"http://127.0.0.1:{listener.getsockname()[1]}", "no_proxy": ""}
        with GatewayProcess(elsewhere, environment=silent) as gateway:
            wait_until(lambda: "the proxy of https_proxy" in gateway.stderr(), "the gateway warns")


def test_a_server_that_comes_later_is_told_of(api):
    model = ["--model", f"bytes={GOLDEN / 'bytes_untied'}"]
    with ServerProcess(api, *model) as server:
        port = int(server.address.rsplit(":", 1)[1])
    with GatewayProcess(server.address) as gateway:
        wait_until(lambda: "No server" in gateway.stderr(), "the gateway warns")
        assert "answers now" not in gateway.stderr()
        with ServerProcess(api, *model, port=port):
            wait_until(lambda: "[info] the server answers now\n" in gateway.stderr(), "the gateway tells of it")
            assert gateway.complete("Once", max_tokens=1)


def test_a_server_without_tls_is_told_of_in_the_gateway_s_own_words(server):
    with GatewayProcess(f"https://{server.address}") as gateway:
        wrong = f"Cannot connect to {server.address}: it closes the connection. Does the server speak TLS, or not"
        wait_until(lambda: wrong in gateway.stderr(), "the gateway warns")
        for _ in range(3):
            answer = gateway.get("/v1/models")
            assert answer.status == 503 and answer.error["message"].startswith(wrong), answer.json
        assert ".cc:" not in gateway.stderr()


def test_a_line_that_cannot_be_written_is_in_the_log(tmp_path):
    log = tmp_path / "log"
    with open("/dev/full", "wb") as full, open(log, "wb") as stderr:
        gateway = subprocess.Popen([BIN / "tvq-gateway", "--port", "0", "--server", "127.0.0.1:1"],
                                   stdin=subprocess.DEVNULL, stdout=full, stderr=stderr)
    wait_until(lambda: "but cannot write stdout: No space left" in log.read_text(), "the gateway warns")
    gateway.send_signal(signal.SIGTERM)
    assert gateway.wait(PATIENCE_SECONDS) == 0 and "listening on http://127.0.0.1:" in log.read_text()


def test_server_that_stops_is_not_ready(start):
    server = start("--shutdown-timeout", "60")
    with GatewayProcess(server.address) as gateway:
        stream = gateway.stream(**ENDLESS)
        next(stream)
        server.signal(signal.SIGTERM)
        wait_until(lambda: gateway.get("/v1/health/ready").status == 503, "the server said that it stops")
        assert gateway.post("/v1/completions", {"model": "bytes", "prompt": "a"}).status == 503
        assert next(stream)["choices"]
        stream.hang_up()


def test_first_signal_lets_requests_finish(server):
    with GatewayProcess(server.address) as gateway:
        idle = gateway.connect()
        idle.request("GET", "/health")
        idle.getresponse().read()
        stream = gateway.stream(prompt="Once", max_tokens=20_000, ignore_eos=True)
        next(stream)
        gateway.process.send_signal(signal.SIGTERM)
        events = list(stream)
        assert stream.done and events[-1]["choices"][0]["finish_reason"] == "length"
        assert gateway.process.wait(60) == 0
        try:
            gateway.get("/health")
            raise AssertionError("the gateway still listens")
        except ConnectionError:
            pass


def read(stream):
    """The events of a stream, up to its end or the connection's."""
    with contextlib.suppress(http.client.HTTPException, ConnectionError):
        yield from stream


def test_second_signal_ends_them(server):
    with GatewayProcess(server.address) as gateway:
        stream = gateway.stream(**ENDLESS)
        next(stream)
        seen = []
        reader = threading.Thread(target=lambda: seen.extend(read(stream)))
        reader.start()
        gateway.process.send_signal(signal.SIGTERM)
        wait_until(lambda: "second signal" in gateway.stderr(), "the first signal was heard")
        told = len(seen)
        wait_until(lambda: len(seen) > told, "the stream goes on")
        gateway.process.send_signal(signal.SIGTERM)
        assert gateway.process.wait(60) == 0
        reader.join()
        assert not stream.done
        server.wait_idle()


def test_shutdown_timeout(server):
    with GatewayProcess(server.address, "--shutdown-timeout", "0.1") as gateway:
        stream = gateway.stream(**ENDLESS)
        next(stream)
        gateway.process.send_signal(signal.SIGINT)
        assert gateway.process.wait(60) == 0
    server.wait_idle()


def test_a_request_without_an_answer_hears_that_the_gateway_stops(server):
    with GatewayProcess(server.address, "--shutdown-timeout", "0.1") as gateway:
        connection = gateway.connect()
        connection.request("POST", "/v1/completions", json.dumps({"model": "bytes", **ENDLESS}))
        wait_until(lambda: server.info().requests_running == 1, "the request runs")
        gateway.process.send_signal(signal.SIGTERM)
        answer = Answer(connection.getresponse())
        assert (answer.status, answer.error["type"]) == (503, "server_error")
        message = answer.error["message"]
        assert message.startswith("the gateway stops") and message.endswith("may be done"), message
        assert int(answer.headers["Retry-After"]) >= 1
        assert gateway.process.wait(60) == 0
    server.wait_idle()


def test_killed_gateway_frees_its_requests(server):
    with GatewayProcess(server.address) as gateway:
        stream = gateway.stream(**ENDLESS)
        next(stream)
        gateway.process.kill()
        gateway.process.wait()
        gateway.process.returncode = 0  # as wanted
    server.wait_idle()


def test_no_thread_of_the_gateway_falls_asleep(server):
    """gRPC's threads for callbacks would, for 100 ms after a second without a call; one call of that kind starts them."""
    with GatewayProcess(server.address) as gateway:
        assert gateway.get("/v1/health/ready").status == 200
        assert gateway.complete("Once", max_tokens=2)
        threads = Path(f"/proc/{gateway.process.pid}/task").glob("*/comm")
        assert "nexting_thread" not in {name.read_text().strip() for name in threads}
