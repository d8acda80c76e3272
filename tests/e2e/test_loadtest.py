"""tvq-loadtest against the real server."""

import hashlib
import json
import os
import re
import shutil
import subprocess

import pytest

from certificates import Authority
from gateway_process import GatewayProcess
from server_process import BIN, ROOT, wait_until


@pytest.fixture(scope="module")
def gateway(server):
    with GatewayProcess(server.address) as process:
        yield process


@pytest.fixture
def load(server, tmp_path):
    """load(*flags) runs a load test for a second and returns its exit code, its JSON and its output."""

    def run(*flags, address=None, http=None, model="bytes", seconds="1"):
        out = tmp_path / "report.json"
        target = ["--http", http] if http else ["--grpc", address or server.address]
        process = subprocess.run(
            [BIN / "tvq-loadtest", *target, "--model", model, "--warm-up", "0", "--duration", seconds,
             *([] if "--json" in flags else ["--json", out]), *map(str, flags)],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
        report = json.loads(out.read_text()) if out.exists() else None
        return process.returncode, report, process.stdout + process.stderr

    return run


@pytest.fixture(params=["grpc", "http", "http, a connection each"])
def load_over(request, load):
    """load over each transport."""

    def run(*flags, **kwargs):
        if request.param == "grpc":
            return load(*flags, **kwargs)
        keep = [] if request.param == "http" else ["--no-keep-alive"]
        return load(*flags, *keep, http=request.getfixturevalue("gateway").url, **kwargs)

    return run


def test_closed_loop(load_over):
    code, report, output = load_over("--concurrency", "1,4", "--prompt-tokens", "8", "--output-tokens", "16")
    assert code == 0, output
    assert [step["label"] for step in report["steps"]] == ["concurrency 1", "concurrency 4"]
    for step in report["steps"]:
        assert step["ok"] == step["requests"] > 0
        assert step["failed"] == 0
        assert step["prompt_tokens"] == 8 * step["requests"]
        assert step["output_tokens"] == 16 * step["requests"]
        latency = step["latency"]
        assert latency["ttft"]["count"] == latency["e2e"]["count"] == step["ok"]
        assert latency["itl"]["count"] == 15 * step["ok"]
        assert 0 < latency["ttft"]["p50"] <= latency["e2e"]["p50"] <= latency["e2e"]["max"]
    assert "concurrency 4" in output


def test_open_loop(load_over):
    code, report, output = load_over("--rate", "100", "--requests", "20", "--prompt-tokens", "uniform:1,9",
                                     "--output-tokens", "lognormal:8,0.5,32", seconds="10")
    assert code == 0, output
    step = report["steps"][0]
    assert step["requests"] == step["ok"] == 20
    assert step["latency"]["ttft_from_sending"]["count"] == 20
    assert step["latency"]["send_lag"]["count"] == 20
    assert sum(step["series"]["arrived"]) == 20


def test_prompts_from_a_file(load_over, tmp_path):
    texts = tmp_path / "texts.txt"
    texts.write_text("Once upon a time\n\nThe captain said\n")
    code, report, output = load_over("--concurrency", "1", "--requests", "5", "--prompt-file", texts, "--output-tokens", "2")
    assert code == 0, output
    assert report["steps"][0]["prompt_tokens"] == 5 * 16  # both lines have 16 bytes, and a byte is a token
    code, report, output = load_over("--concurrency", "1", "--requests", "5", "--prompt-file", texts, "--output-tokens", "2",
                                     "--prompt-tokens", "5")
    assert code == 0, output
    assert report["steps"][0]["prompt_tokens"] == 5 * 5


def test_failures_are_counted_and_end_with_code_1(load):
    code, report, output = load("--concurrency", "1", "--requests", "3", "--output-tokens", "100000000", "--timeout", "0.1",
                                seconds="5")
    assert code == 1, output
    assert report["steps"][0]["failures"]["TIMEOUT"]["requests"] == 3
    assert "3 of 3 requests failed" in output
    assert load("--concurrency", "1", "--requests", "3", "--output-tokens", "100000000", "--timeout", "0.1",
                "--max-errors", "100%", seconds="5")[0] == 0


@pytest.mark.parametrize("http", [False, True])
def test_refusals_say_when_to_come_back(load, start, http):
    server = start("--max-num-admitted-seqs", "1", "--max-num-queued-reqs", "1")
    flags = ["--rate", "200", "--output-tokens", "2000", "--max-errors", "100%", "--grace", "0"]
    if http:
        with GatewayProcess(server.address) as gateway:
            code, report, output = load(*flags, http=gateway.url)
    else:
        code, report, output = load(*flags, address=server.address)
    assert code == 0, output
    refused = report["steps"][0]["failures"]["429" if http else "RESOURCE_EXHAUSTED"]
    assert refused["with_retry_after"] == refused["attempts"] > 0


def test_retries_end_well(load, start):
    server = start("--max-num-admitted-seqs", "1", "--max-num-queued-reqs", "1")
    code, report, output = load("--rate", "50", "--requests", "20", "--output-tokens", "50", "--retries", "1000",
                                address=server.address, seconds="20")
    assert code == 0, output
    step = report["steps"][0]
    assert step["ok"] == step["requests"] == 20
    assert step["failures"].get("RESOURCE_EXHAUSTED", {"attempts": 0})["attempts"] == step["retries"]


def test_conversations_on_sessions(load_over, server):
    code, report, output = load_over("--concurrency", "2", "--requests", "4", "--turns", "3", "--prompt-tokens", "4",
                                     "--output-tokens", "5", "--think", "0.01", seconds="20")
    assert code == 0, output
    step = report["steps"][0]
    assert step["ok"] == step["requests"] == 4 * 3
    assert step["operations"]["create session"]["count"] == 4
    assert step["operations"]["delete session"]["count"] == 4
    sessions = server.api.session_grpc.SessionServiceStub(server.channel)
    assert not sessions.ListSessions(server.api.session.ListSessionsRequest()).sessions


def test_cancels_and_slow_readers(load_over, server):
    code, report, output = load_over("--concurrency", "4", "--requests", "40", "--output-tokens", "500", "--cancels", "0.5",
                                     "--slow-readers", "0.2", "--read-pause", "0.001", seconds="60")
    assert code == 0, output
    step = report["steps"][0]
    assert step["requests"] == 40
    assert step["ok"] + step["cancelled"] == 40
    assert step["cancelled"] == step["latency"]["cancel"]["count"] > 0
    assert step["slow_readers"] > 0
    assert step["latency"]["e2e"]["count"] == step["ok"] - step["slow_readers"]
    server.wait_idle()


def test_a_page_that_needs_nothing_from_outside(load, tmp_path):
    page = tmp_path / "page.html"
    code, _, output = load("--concurrency", "1,2", "--requests", "5", "--output-tokens", "8", "--html", page)
    assert code == 0, output
    html = page.read_text()
    assert html.count("<svg") == 5 + 3 + 2 * 2  # over the load, distributions, series of two steps
    assert not re.search(r"(src|href)=|url\(|@import|<script", html)


@pytest.mark.parametrize("report", ["--json", "--html"])
def test_a_report_that_cannot_be_written(load, report):
    code, _, output = load("--concurrency", "1", "--requests", "2", "--output-tokens", "2", report, "/dev/full")
    assert code == 2 and "tvq-loadtest: cannot write /dev/full: No space left on device\n" in output, output


def test_wrong_usage_is_named(load):
    code, _, output = load("--rate", "5", "--concurrency", "2")
    assert code == 2
    assert "one of --concurrency and --rate" in output
    code, _, output = load("--rate", "5", address="192.0.2.1:50051")
    assert code == 2
    assert "--allow-remote" in output
    code, _, output = load("--rate", "5", http="http://192.0.2.1:80")
    assert code == 2
    assert "--allow-remote" in output


def test_an_unknown_model_is_named(load, gateway):
    for http in [None, gateway.url]:
        code, _, output = load("--rate", "5", model="nothing", http=http)
        assert code == 1
        assert '"nothing"' in output


def test_no_server(load):
    code, _, output = load("--rate", "5", address="127.0.0.1:1")
    assert code == 1 and "No server at 127.0.0.1:1. Is tvq-server running?" in output
    code, _, output = load("--rate", "5", http="http://127.0.0.1:1")
    assert code == 1 and "127.0.0.1:1" in output


def test_a_server_that_dies_meanwhile(start, tmp_path):
    server = start()
    out = tmp_path / "report.json"
    process = subprocess.Popen(
        [BIN / "tvq-loadtest", "--grpc", server.address, "--concurrency", "2", "--warm-up", "0", "--duration", "3",
         "--json", out],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    wait_until(lambda: server.info().requests_running > 0, "requests came")
    server.process.kill()
    server.process.wait()
    server.process.returncode = 0  # as was wanted
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 1, output
    step = json.loads(out.read_text())["steps"][0]
    assert step["failed"] == step["failures"]["UNAVAILABLE"]["requests"] > 0
    # A user who was refused does not hammer on: at most one request in 0.1 s.
    assert step["failed"] <= 2 * (3 / 0.1 + 1)


def test_keys(load, start, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text(f"ana {hashlib.sha256(b'secret').hexdigest()}\n")
    server = start("--api-key-file", keys)
    flags = ["--concurrency", "2", "--requests", "6", "--output-tokens", "4"]
    with GatewayProcess(server.address) as gateway:
        for target in [{"address": server.address}, {"http": gateway.url}]:
            code, report, output = load(*flags, "--api-key", "secret", **target)
            assert code == 0, output
            assert report["steps"][0]["ok"] == 6
            assert "secret" not in json.dumps(report)
            code, _, output = load(*flags, "--api-key", "wrong", **target)
            assert code == 1
            assert "key" in output
        code, _, output = load(*flags, address=server.address)
        assert code == 1 and "This server needs a key: --api-key @FILE or TVQ_API_KEY" in output


def test_tls(load, server, start, tmp_path):
    authority = Authority(tmp_path / "authority")
    certificate, key = authority.issue("server")
    tls = ["--ssl-certfile", certificate, "--ssl-keyfile", key]
    flags = ["--concurrency", "2", "--requests", "6", "--output-tokens", "4"]
    with GatewayProcess(server.address, *tls) as gateway:
        for target in [{"address": start(*tls).address}, {"http": gateway.url}]:
            code, report, output = load(*flags, "--ssl-ca-certs", authority.ca, **target)
            assert code == 0, output
            assert report["steps"][0]["ok"] == 6
            assert load(*flags, "--tls", **target)[0] == 1  # signed by nobody it knows


def test_the_capacity_script(tmp_path):
    redis = shutil.which("redis-server")
    process = subprocess.run(
        [ROOT / "scripts" / "capacity", "--only", f"curve,offered,overload,streams,idle{',moves' if redis else ''}",
         "--out", tmp_path, "--rounds", "1", "--seconds", "1", "--warm-up", "0", "--concurrency", "1,3", "--offered", "5",
         "--loads", "3", "--streams", "20",
         "--connections", "200", "--sessions", "4"],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=240, env={**os.environ, "TVQ_BIN_DIR": str(BIN)})
    assert process.returncode == 0, process.stderr
    report = json.loads((tmp_path / "capacity.json").read_text())
    for transport in ["grpc", "http"]:
        assert set(report["curve"][transport]) == {"1", "3"}
        assert all(step["ok"] > 0 for steps in report["curve"][transport].values() for step in steps)
    assert process.stdout.count("| HTTP |") == 2 + 1 + 2 + 1
    assert all(steps[0]["failed"] == 0 for steps in (report["offered"][transport]["5"] for transport in ["grpc", "http"]))
    for loads in report["overload"].values():
        assert set(loads) == {"closed", "3.0"}
        refused = [one for step in loads["3.0"] for one in step["failures"].values() if one["with_retry_after"]]
        assert all(one["with_retry_after"] == one["attempts"] for one in refused)
    assert all(steps[0]["ok"] > 0 and steps[0]["failed"] == 0 for steps in report["streams"]["steps"].values())
    assert report["idle"]["connections"] == 200 and report["idle"]["opened_again"] == 0
    assert not redis or set(report["moves"]["per_second"]) == {"stored", "moved", "in memory"}
    assert (tmp_path / "capacity.svg").read_text().count("<polyline") == 2 + 4 + 4
