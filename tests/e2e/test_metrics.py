"""The Prometheus endpoint."""

import json
import re
import socket
import urllib.error
import urllib.request

import grpc
import pytest
from gateway_process import GatewayProcess
from metrics_endpoint import Metrics, free_port, scrape
from server_process import GOLDEN, PATIENCE_SECONDS, ROOT, run_server, wait_until
from test_keys import bearer, line


def test_counts_what_was_done(start):
    metrics = Metrics(start)
    server = metrics.server
    before = metrics.scrape()
    assert before["tvq_num_requests_running"] == 0
    assert before["tvq_generation_tokens_total"] == 0
    assert before['tvq_model_max_sessions{model="bytes"}'] > 0
    assert not any(name.startswith("tvq_grpc_calls_total") for name in before)

    server.generate("Once", max_tokens=7, ignore_eos=True)
    server.generate("Twice", max_tokens=3, ignore_eos=True)
    with pytest.raises(grpc.RpcError):
        server.generate("Once", temperature=-1)
    wait_until(lambda: metrics['tvq_requests_total{outcome="finished"}'] == 2, "both requests are counted")
    after = metrics.scrape()
    assert after["tvq_generation_tokens_total"] == 10
    assert after["tvq_prompt_tokens_total"] == after["tvq_prefill_tokens_computed_total"] == len("OnceTwice")
    assert after['tvq_grpc_calls_total{method="GenerationService/Generate",code="OK"}'] == 2
    assert after['tvq_grpc_calls_total{method="GenerationService/Generate",code="INVALID_ARGUMENT"}'] == 1
    assert after['tvq_requests_rejected_total{reason="VALUE_INVALID"}'] == 1
    for distribution, count in [("time_to_first_token", 2), ("request_queue_time", 2), ("e2e_request_latency", 2),
                                ("inter_token_latency", 8)]:
        assert after[f"tvq_{distribution}_seconds_count"] == count
        assert after[f'tvq_{distribution}_seconds_bucket{{le="+Inf"}}'] == count


LEFT_OUT = ("queries", "skipped_mass", "rows", "rows_read")


def test_tells_what_decode_left_out(start):
    whole = Metrics(start)
    whole.server.generate("Once", max_tokens=30, ignore_eos=True)
    values = whole.scrape()
    assert not any(values[f'tvq_attention_{name}_total{{model="bytes"}}'] for name in LEFT_OUT)
    part = Metrics(start, "--state-read-dtype", "int8", "--attention-skip-mass", "0.3")
    part.server.generate("Once", max_tokens=30, ignore_eos=True)
    wait_until(lambda: part['tvq_attention_skipped_mass_total{model="bytes"}'] > 0, "a step was counted")
    values = part.scrape()
    queries, mass, rows, read = (values[f'tvq_attention_{name}_total{{model="bytes"}}'] for name in LEFT_OUT)
    # float32 sums shares that are held against the mass
    assert 0 < mass <= 0.3 * queries * (1 + 1e-5)
    assert 0 < read < rows
    bytes_per_session = 'tvq_model_bytes_per_session{model="bytes"}'
    assert values[bytes_per_session] > whole.scrape()[bytes_per_session]


def test_shows_what_runs(start):
    metrics = Metrics(start)
    call = metrics.server.endless()
    running = metrics.scrape()
    assert running["tvq_num_requests_running"] == 1
    assert running["tvq_running_state_bytes"] > 0
    call.cancel()
    wait_until(lambda: metrics["tvq_num_requests_running"] == 0, "the request ended")
    assert metrics['tvq_requests_total{outcome="cancelled"}'] == 1


def test_refusals_by_reason(start, tmp_path):
    keys = tmp_path / "keys.txt"
    keys.write_text(line("ana", "alpha") + line("ops", "beta", "admin"))
    metrics = Metrics(start, "--api-key-file", keys, "--max-requests-per-second", "0.01")
    for key in ["alpha", "alpha", "wrong", "beta"]:
        call = metrics.server.generation.Generate(metrics.server.request("a", max_tokens=1), metadata=bearer(key))
        try:
            list(call)
        except grpc.RpcError:
            pass
    values = metrics.scrape()
    for reason in ["RATE_EXCEEDED", "API_KEY_UNKNOWN", "PERMISSION_MISSING"]:
        assert values[f'tvq_requests_rejected_total{{reason="{reason}"}}'] == 1
    with pytest.raises(urllib.error.HTTPError):
        urllib.request.urlopen(f"http://127.0.0.1:{metrics.port}/other", timeout=PATIENCE_SECONDS)


def test_a_full_key_and_unknown_sessions_are_refusals(start):
    metrics = Metrics(start, "--max-sessions-per-key", 1)
    server = metrics.server
    sessions = server.api.session_grpc.SessionServiceStub(server.channel)
    create = server.api.session.CreateSessionRequest(model="bytes")
    sessions.CreateSession(create)
    with pytest.raises(grpc.RpcError):
        sessions.CreateSession(create)
    with pytest.raises(grpc.RpcError):
        sessions.GetSession(server.api.session.GetSessionRequest(session_id="0" * 32))
    with pytest.raises(grpc.RpcError):
        sessions.ImportSession(iter([server.api.session.ImportSessionRequest(chunk=b"no snapshot")]))
    assert metrics['tvq_requests_rejected_total{reason="SESSIONS_FULL"}'] == 1
    assert metrics['tvq_requests_rejected_total{reason="SESSION_UNKNOWN"}'] == 1
    assert metrics['tvq_requests_rejected_total{reason="VALUE_MISSING"}'] == 1


def test_port_in_use_is_an_error_at_start():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        # On this machine alone, whatever the server itself listens on.
        done = run_server("--model", f"bytes={GOLDEN / 'bytes_untied'}", "--metrics-port", port, "--host", "0.0.0.0")
    assert done.returncode == 1
    assert f"metrics: cannot listen on 127.0.0.1:{port}: the port is in use\n" in done.stderr
    assert "listening" not in done.stdout


def test_a_host_of_metrics_that_is_none_is_named():
    model = ["--model", f"bytes={GOLDEN / 'bytes_untied'}", "--metrics-port", 9]
    done = run_server(*model, "--metrics-host", "203.0.113.1")
    assert done.returncode == 1
    assert "metrics: cannot listen on 203.0.113.1:9: the host is no address of this machine\n" in done.stderr


def test_figures_of_sessions(start):
    metrics = Metrics(start)
    server = metrics.server
    sessions = server.api.session_grpc.SessionServiceStub(server.channel)
    sessions.CreateSession(server.api.session.CreateSessionRequest(model="bytes"))
    assert metrics["tvq_sessions_created_total"] == 1
    assert sum(value for name, value in metrics.scrape().items() if name.startswith("tvq_sessions{")) == 1


def test_the_dashboard_shows_metrics_that_there_are(start, tmp_path):
    metrics = Metrics(start, "--session-dir", tmp_path / "sessions")
    with pytest.raises(grpc.RpcError):
        metrics.server.generate("Once", temperature=-1)
    with GatewayProcess(metrics.server.address) as gateway:
        gateway.complete(max_tokens=2)
        wait_until(lambda: metrics['tvq_requests_total{outcome="finished"}'] == 1, "the request is counted")
        wait_until(lambda: "tvq_gateway_requests_total{" in " ".join(scrape(gateway.port)), "the gateway counts it")
        samples = [*metrics.scrape(), *scrape(gateway.port)]
    known = {}  # name -> its labels
    for sample in samples:
        name, _, labels = sample.partition("{")
        known.setdefault(name, set()).update(re.findall(r'(\w+)="', labels))
    board = json.loads((ROOT / "server/deploy/grafana/dashboards/tvq.json").read_text())
    asked = [target["expr"] for panel in board["panels"] for target in panel.get("targets", [])]
    assert len(asked) > 40 and any("tvq_gateway_" in expression for expression in asked)
    for expression in asked:
        names = re.findall(r"\btvq_\w+", expression)
        assert names and set(names) <= set(known), expression
        for labels in re.findall(r"by \(([^)]*)\)", expression):
            assert set(labels.split(", ")) <= set().union(*(known[name] for name in names)), expression
