"""tvq-loadtest against the real server."""

import json
import subprocess

import pytest

from server_process import BIN


@pytest.fixture
def load(server, tmp_path):
    """load(*flags) runs a load test for a second and returns its exit code, its JSON and its output."""

    def run(*flags, address=None, model="bytes", seconds="1"):
        out = tmp_path / "report.json"
        process = subprocess.run(
            [BIN / "tvq-loadtest", "--grpc", address or server.address, "--model", model, "--warm-up", "0",
             "--duration", seconds, "--json", out, *map(str, flags)],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
        report = json.loads(out.read_text()) if out.exists() else None
        return process.returncode, report, process.stdout + process.stderr

    return run


def test_closed_loop_over_grpc(load):
    code, report, output = load("--concurrency", "1,4", "--prompt-tokens", "8", "--output-tokens", "16")
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


def test_open_loop_over_grpc(load):
    code, report, output = load("--rate", "100", "--requests", "20", "--prompt-tokens", "uniform:1,9",
                                "--output-tokens", "lognormal:8,0.5,32", seconds="10")
    assert code == 0, output
    step = report["steps"][0]
    assert step["requests"] == step["ok"] == 20
    assert step["latency"]["ttft_from_sending"]["count"] == 20
    assert step["latency"]["send_lag"]["count"] == 20
    assert sum(step["series"]["arrived"]) == 20


def test_prompts_from_a_file(load, tmp_path):
    texts = tmp_path / "texts.txt"
    texts.write_text("Once upon a time\n\nThe captain said\n")
    code, report, output = load("--concurrency", "1", "--requests", "5", "--prompt-file", texts, "--output-tokens", "2")
    assert code == 0, output
    assert report["steps"][0]["prompt_tokens"] == 5 * 16  # both lines have 16 bytes, and a byte is a token
    code, report, output = load("--concurrency", "1", "--requests", "5", "--prompt-file", texts, "--output-tokens", "2",
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


def test_refusals_say_when_to_come_back(load, start):
    server = start("--max-num-seqs", "1", "--max-num-queued-reqs", "1")
    code, report, output = load("--rate", "200", "--output-tokens", "2000", "--max-errors", "100%", "--grace", "0",
                                address=server.address)
    assert code == 0, output
    refused = report["steps"][0]["failures"]["RESOURCE_EXHAUSTED"]
    assert refused["with_retry_after"] == refused["attempts"] > 0


def test_wrong_usage_is_named(load):
    code, _, output = load("--rate", "5", "--concurrency", "2")
    assert code == 2
    assert "one of --concurrency and --rate" in output
    code, _, output = load("--rate", "5", address="192.0.2.1:50051")
    assert code == 2
    assert "--allow-remote" in output
    code, _, output = load("--rate", "5", model="nothing")
    assert code == 1
    assert "nothing" in output


def test_no_server(load):
    code, _, output = load("--rate", "5", address="127.0.0.1:1")
    assert code == 1
    assert "127.0.0.1:1" in output
