"""Each reason of proto/README.md: over gRPC with its details, over HTTP, in the log and in the metrics."""

import re
import time

import grpc
import pytest
from gateway_process import GatewayProcess
from metrics_endpoint import Metrics
from server_process import GOLDEN, ROOT, wait_until
from session_client import SessionClient
from test_keys import bearer, line

ROW = re.compile(r"^\| `([A-Z_]+)` \| `([A-Z_]+)` \| (\d+) \| (now|after|never) \|", re.MULTILINE)
TABLE = {reason: (code, int(status), retry)
         for reason, code, status, retry in ROW.findall((ROOT / "proto" / "README.md").read_text())}
TEXT = "Once upon a time"
ENCODER = GOLDEN / "families" / "encoder_gated_multi_query"

# By gRPC's own words or the client's, by a fault that a test cannot make from outside, or seen in other tests: two servers with one Redis
# (test_shared_redis.py), a device that fails and logits that are not finite (tests/server/engine), a damaged file
# (tests/server/sessions), a server without sessions (tests/server/rpc).
ELSEWHERE = {"MESSAGE_TOO_LARGE", "SESSION_MOVED", "FIRST_CALL_RUNNING", "UNAVAILABLE", "NOT_FINITE", "INTERNAL",
             "STORED_DATA_DAMAGED", "CLIENT_STALLED", "STATE_TOO_LARGE", "MARKS_FULL", "CALLS_FULL", "MODEL_NOT_SERVED",
             "MEMORY_FULL", "STOPPING", "SESSIONS_OFF",
             "DEADLINE_PASSED"}


class Refusals:
    """A server, its gateway and what they have refused so far."""

    def __init__(self, start, *flags):
        self.metrics = Metrics(start, "--log-level", "debug", *flags)
        self.server, self.api = self.metrics.server, self.metrics.server.api
        self.client = SessionClient(self.server)
        self.seen = {}

    def expect(self, reason, call, field=""):
        """The call is refused for this reason and to blame on this field."""
        before = self.metrics[f'tvq_requests_rejected_total{{reason="{reason}"}}']
        with pytest.raises(grpc.RpcError) as caught:
            result = call()
            if hasattr(result, "__next__"):
                list(result)
        error = caught.value
        code, _, retry = TABLE[reason]
        told = self.details(error)
        assert error.code().name == code, error
        assert (told["reason"], told.get("field", ""), told["retry"]) == (reason, field, retry), error
        assert ("delay" in told) == (retry == "after")
        if field:
            assert error.details() == f"{field}: {told['description']}"
        if error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED:
            pushback = int(dict(error.trailing_metadata())["grpc-retry-pushback-ms"])
            assert pushback == (-1 if retry == "never" else told["delay"])
        self.metrics_have(reason, before + 1)
        assert re.search(rf"{code} after [\d.]+ ms, {reason}" + (f" of {re.escape(field)}" if field else ""),
                         self.server.stderr())
        self.seen[reason] = error

    def metrics_have(self, reason, count):
        wait_until(lambda: self.metrics[f'tvq_requests_rejected_total{{reason="{reason}"}}'] == count, f"{reason} is counted")

    def details(self, error):
        module = self.api.refusal
        status = module.StatusDetails.FromString(dict(error.trailing_metadata())["grpc-status-details-bin"])
        assert (status.code, status.message) == (error.code().value[0], error.details())
        told = {}
        for detail in status.details:
            kind = detail.type_url.rpartition("/")[2]
            if kind == "google.rpc.ErrorInfo":
                info = module.ErrorInfo.FromString(detail.value)
                assert info.domain == "tvq"
                told.update(reason=info.reason, retry=info.metadata["retry"])
            elif kind == "google.rpc.BadRequest":
                violation, = module.BadRequest.FromString(detail.value).field_violations
                told.update(field=violation.field, description=violation.description)
            else:
                assert kind == "google.rpc.RetryInfo"
                delay = module.RetryInfo.FromString(detail.value).retry_delay
                told.update(delay=delay.seconds * 1000 + delay.nanos // 1_000_000)
        return told


def refused_requests(refusals):
    server, generation = refusals.server, refusals.api.generation
    refusals.expect("VALUE_INVALID", lambda: server.stream(TEXT, top_p=1.5), "top_p")
    refusals.expect("VALUE_INVALID", lambda: server.stream(TEXT, stop=["a", ""]), "stop[1]")
    refusals.expect("VALUE_MISSING", lambda: server.generation.Score(generation.ScoreRequest()), "text")
    refusals.expect("CONTEXT_TOO_LONG", lambda: server.stream("x" * 5000, max_tokens=1), "text")
    refusals.expect("MODEL_UNKNOWN", lambda: server.stream(TEXT, model="other"), "model")
    refusals.expect("MODEL_UNFIT", lambda: server.generation.Encode(generation.EncodeRequest(text="a")), "model")
    refusals.expect("REQUEST_TOO_LARGE", lambda: server.stream(TEXT, n=30, max_tokens=1))
    call = server.channel.unary_stream("/tvq.v1.GenerationService/Generate")
    refusals.expect("TEXT_INVALID", lambda: call(b"\x12\x03ab\xff"), "text")
    refusals.expect("MESSAGE_INVALID", lambda: call(b"\xff\xff\xff"))


def refused_sessions(refusals):
    client, session = refusals.client, refusals.client.create()
    refusals.expect("SESSION_UNKNOWN", lambda: client.get("0" * 32), "session_id")
    refusals.expect("MARK_UNKNOWN", lambda: client.rewind(session.id, "m"), "mark")
    refusals.expect("VERSION_CONFLICT", lambda: client.append(session.id, "a", version=7), "expected_version")
    client.append(session.id, "a", key="k")
    refusals.expect("IDEMPOTENCY_KEY_TAKEN", lambda: client.append(session.id, "b", key="k"), "idempotency_key")
    refusals.expect("DURABILITY_MISSING", lambda: client.append(session.id, "b", durable=True), "durability")
    refusals.expect("VALUES_CONFLICT", lambda: client.stream(session.id, "a", model="encoder"), "model")
    call = client.stream(session.id, "So", max_tokens=100_000_000, ignore_eos=True)
    next(call)
    refusals.expect("SESSION_BUSY", lambda: client.append(session.id, "a"), "session_id")
    call.cancel()
    refusals.metrics_have("CANCELLED", 1)
    refusals.seen["CANCELLED"] = None
    arguments = dict(key="reply", max_tokens=4000, ignore_eos=True, logprobs=20)
    client.when_free(lambda: client.generate(session.id, "So", **arguments))
    refusals.expect("REPLY_NOT_KEPT", lambda: client.stream(session.id, "So", **arguments), "session.idempotency_key")
    snapshot = client.export(session.id)
    refusals.expect("SNAPSHOT_INVALID", lambda: client.import_(snapshot[:-3] + b"abc"))
    refusals.expect("SNAPSHOT_FOREIGN", lambda: client.import_(snapshot, model="pixels"))
    refusals.expect("SNAPSHOT_TOO_LARGE", lambda: client.import_(snapshot + bytes(80 << 20)), "snapshot")
    refusals.expect("SESSIONS_FULL", lambda: [client.create() for _ in range(9)])


def test_each_reason_is_told_in_details_logs_and_metrics(start, tmp_path):
    refusals = Refusals(start, "--model", f"pixels={GOLDEN / 'pixels_abs'}", "--model", f"encoder={ENCODER}",
                        "--max-prompt-tokens", 4000, "--state-memory-bytes", "1MB", "--max-sessions-per-key", 8)
    refused_requests(refusals)
    refused_sessions(refusals)
    seen = set(refusals.seen)

    refusals = Refusals(start, "--max-num-seqs", 1, "--max-num-admitted-seqs", 1, "--max-num-queued-reqs", 1)
    running, waiting = refusals.server.endless(), refusals.server.stream(TEXT, max_tokens=1)
    wait_until(lambda: refusals.server.info().requests_waiting == 1, "one waits")
    refusals.expect("QUEUE_FULL", lambda: refusals.server.stream(TEXT, max_tokens=1))
    running.cancel()
    list(waiting)
    seen |= set(refusals.seen)

    keys = tmp_path / "keys.txt"
    keys.write_text(line("ana", "alpha") + line("ops", "beta", "admin"))
    refusals = Refusals(start, "--api-key-file", keys, "--max-requests-per-second", "0.01")
    server, admin = refusals.server, refusals.api.admin_grpc.AdminServiceStub(refusals.server.channel)

    def generate(key):
        return server.generation.Generate(server.request("a", max_tokens=1), metadata=bearer(key))

    refusals.expect("API_KEY_UNKNOWN", lambda: generate("wrong"), "authorization")
    refusals.expect("PERMISSION_MISSING", lambda: generate("beta"), "authorization")
    list(generate("alpha"))
    with pytest.raises(grpc.RpcError) as caught:
        list(generate("alpha"))
    told = refusals.details(caught.value)
    assert (told["reason"], told["retry"]) == ("RATE_EXCEEDED", "after") and told["delay"] > 1000
    keys.write_text("no key")
    reload = refusals.api.admin.ReloadCredentialsRequest()
    refusals.expect("CREDENTIALS_INVALID", lambda: [admin.ReloadCredentials(reload, metadata=bearer("beta"))])
    adopt = refusals.api.admin.AdoptSessionRequest
    refusals.expect("METHOD_UNKNOWN", lambda: [admin.AdoptSession(iter([adopt()]), metadata=bearer("beta"))])
    seen |= {*refusals.seen, "RATE_EXCEEDED"}

    refusals = Refusals(start)
    session = refusals.client.create(keep_transcript=False)
    refusals.client.append(session.id, "a")
    asked = refusals.server.request(max_tokens=1)
    asked.conversation.messages = '[{"role": "user", "content": "a"}]'
    asked.session.session_id = session.id
    refusals.expect("MODEL_UNFIT", lambda: refusals.server.generation.Generate(asked), "model")
    assert set(TABLE) - seen == ELSEWHERE | {"TRANSCRIPT_MISSING"}


def test_over_http_they_have_reason_param_and_status(server):
    with GatewayProcess(server.address) as gateway:
        session = gateway.post("/v1/sessions", {"model": "bytes"}).json["id"]
        for path, body, reason, param in [
            ("/v1/completions", {"model": "bytes", "prompt": TEXT, "top_p": 2}, "VALUE_INVALID", "top_p"),
            ("/v1/completions", {"model": "bytes", "prompt": "x" * 6_000_000}, "CONTEXT_TOO_LONG", "prompt"),
            ("/v1/completions", {"model": "other", "prompt": TEXT}, "MODEL_UNKNOWN", "model"),
            ("/v1/completions", {"prompt": TEXT, "session_id": "0" * 32}, "SESSION_UNKNOWN", "session_id"),
            ("/v1/embeddings", {"model": "bytes", "input": TEXT}, "MODEL_UNFIT", "model"),
            (f"/v1/sessions/{session}/rewind", {"mark": "m"}, "MARK_UNKNOWN", "mark"),
            (f"/v1/sessions/{session}/append", {"text": "a", "expected_version": 7}, "VERSION_CONFLICT", "expected_version"),
            (f"/v1/sessions/{session}/save", {}, "DURABILITY_MISSING", None),
            ("/v1/completions", b"", "MESSAGE_INVALID", None),
        ]:
            answer = gateway.post(path, body)
            assert (answer.status, answer.error["reason"], answer.error["param"]) == (TABLE[reason][1], reason, param), answer.body


def test_the_command_line_tells_the_message_and_the_code(tvq, server):
    for arguments, words in [
        (("generate", "--model", "bytes", "--top-p", "2", "--prompt", TEXT), "INVALID_ARGUMENT: top_p: "),
        (("generate", "--model", "other", "--prompt", TEXT), "NOT_FOUND: model: "),
        (("session", "show", "0" * 32), "NOT_FOUND: session_id: "),
    ]:
        done = tvq(*arguments, "--server", server.address)
        assert done.returncode != 0 and words in done.stderr.decode(), done.stderr


def test_a_refused_commit_is_one_line_at_the_usual_level(start):
    client = SessionClient(start())
    session = client.create()
    with pytest.raises(grpc.RpcError):
        client.append(session.id, "a secret", version=7)
    wait_until(lambda: "VERSION_CONFLICT" in client.server.stderr(), "the refusal is logged")
    lines = [text for text in client.server.stderr().splitlines() if "VERSION_CONFLICT" in text]
    assert len(lines) == 1 and session.id in lines[0] and "expected_version" in lines[0] and "AppendSession" in lines[0]
    time.sleep(0.1)
    assert "a secret" not in client.server.stderr()
