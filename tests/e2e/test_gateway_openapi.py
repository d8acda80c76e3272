"""openapi.json against what the gateway answers. Needs python3-jsonschema."""

import json
import re
import shutil

import grpc
import jsonschema
import pytest
from gateway_process import Answer, GatewayProcess
from server_process import GOLDEN, ROOT, ServerProcess, dead_addresses
from test_gateway_chat import MESSAGES, TEMPLATE


@pytest.fixture(scope="module")
def gateway(api, tmp_path_factory):
    model = tmp_path_factory.mktemp("model") / "chat"
    shutil.copytree(GOLDEN / "bytes_untied", model)
    (model / "generation_config.json").write_text(
        json.dumps({"chat_template": TEMPLATE, "temperature": 0.7, "top_k": 50}))
    encoder = GOLDEN / "families" / "encoder_gated_multi_query"
    with ServerProcess(api, "--model", f"chat={model}", "--model", f"pixels={GOLDEN / 'pixels_abs'}",
                       "--model", f"encoder={encoder}",
                       "--session-dir", tmp_path_factory.mktemp("sessions")) as server, \
            GatewayProcess(server.address) as process:
        yield process


@pytest.fixture(scope="module")
def document(gateway):
    return gateway.get("/openapi.json").json


def validate(document, schema, instance):
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "components": document["components"]}
    jsonschema.Draft202012Validator(schema).validate(instance)


def check(document, name, instance):
    """That `instance` fits the schema of this name."""
    validate(document, {"$ref": f"#/components/schemas/{name}"}, instance)


def responses_of(document, method, path):
    """What the document says of the answers to a method at this path: by status."""
    path = path.split("?")[0]
    fits = [known for known in document["paths"] if re.fullmatch(re.sub("{[a-z]*}", "[^/]+", known), path)]
    known = path if path in fits else fits[0]
    responses = {}
    for status, response in document["paths"][known][method.lower()]["responses"].items():
        name = response.get("$ref", "").split("/")[-1]
        responses[status] = document["components"]["responses"][name] if name else response
    return responses


def check_answer(document, method, path, answer):
    """That the document has such an answer: its status, headers, type and body."""
    responses = responses_of(document, method, path)
    assert str(answer.status) in responses, (method, path, answer.status, answer.body)
    response = responses[str(answer.status)]
    for name, header in response.get("headers", {}).items():
        value = answer.headers[name]
        validate(document, header["schema"], int(value) if header["schema"]["type"] == "integer" else value)
    kind = answer.headers["Content-Type"].split(";")[0]
    assert kind in response["content"], (method, path, kind)
    if kind == "application/json":
        validate(document, response["content"][kind]["schema"], answer.json)


def test_document_is_whole(document):
    assert document["openapi"] == "3.1.0"
    names = set(document["components"]["schemas"])
    for name in names:
        jsonschema.Draft202012Validator.check_schema(document["components"]["schemas"][name])
    text = json.dumps(document)
    # What no path refers to: ChatChunk is the document of an event.
    for kind, elsewhere in [("schemas", {"ChatChunk"}), ("parameters", set()), ("responses", set())]:
        used = {part.split('"')[0] for part in text.split(f"#/components/{kind}/")[1:]}
        assert used | elsewhere == set(document["components"][kind])
    ids = [operation["operationId"] for path in document["paths"].values() for operation in path.values()]
    assert len(ids) == len(set(ids))
    for path, operations in document["paths"].items():
        for operation in operations.values():
            fields = {field["name"] for field in operation.get("parameters", []) if field.get("in") == "path"}
            assert fields == {part[1:-1] for part in path.split("/") if part.startswith("{")}


def test_paths_are_those_there_are(gateway, document):
    for path, operations in document["paths"].items():
        allow = gateway.call("OPTIONS", path.replace("{", "").replace("}", "")).headers["Allow"].split(", ")
        methods = {method.upper() for method in operations}
        assert set(allow) - {"OPTIONS", "HEAD"} == methods, path


def test_every_route_is_in_the_document(document):
    sources = ROOT / "client" / "gateway"
    text = "".join(path.read_text() for path in [*sources.glob("api/*.cc"), *sources.glob("*.cc")])
    routes = set(re.findall(r'"(/[a-z_1/{}]*)"', text)) - {"/", "/proc/self/statm"}
    assert len(routes) > 15 and routes <= set(document["paths"])


def test_answers_fit(gateway, document):
    def checked(method, path, body=None, status=200):
        answer = gateway.call(method, path, body)
        assert answer.status == status, answer.body
        check_answer(document, method, path, answer)
        return answer

    for path in ("/health", "/v1/health/live", "/v1/health/ready", "/version", "/metrics", "/openapi.json", "/v1/models",
                 "/v1/server", "/v1/server?include_history=true"):
        checked("GET", path)
    assert checked("GET", "/v1/models/pixels").json["image"] is not None
    session = checked("POST", "/v1/sessions", {"model": "chat", "keep_transcript": True}, 201).json["id"]
    path = f"/v1/sessions/{session}"
    checked("POST", f"{path}/append", {"text": "abc"})
    checked("POST", f"{path}/marks", {"name": "m"})
    checked("POST", f"{path}/fork", {"count": 2})
    checked("GET", "/v1/sessions?limit=1")
    checked("GET", f"{path}?include_transcript=true")
    checked("POST", f"{path}/save", {})
    checked("POST", f"{path}/rewind", {"mark": "m"})
    checked("DELETE", f"{path}/marks/m")
    snapshot = checked("GET", f"{path}/export").body
    checked("POST", "/v1/sessions/import?model=chat", snapshot, 201)
    body = {"model": "chat", "prompt": "a", "max_tokens": 3}
    checked("POST", "/v1/completions", body)
    checked("POST", "/v1/completions", {"session_id": session, "max_tokens": 2})
    checked("POST", "/v1/completions", {
        **body, "logprobs": 2, "echo": True, "prompt_logprobs": 1, "return_token_ids": True, "n": 2})
    checked("POST", "/v1/completions", {**body, "logprobs": 2, "echo": True, "max_tokens": 0})
    checked("POST", "/v1/completions", {**body, "stream": True})
    chat = {"model": "chat", "messages": MESSAGES, "max_tokens": 3}
    checked("POST", "/v1/chat/completions", {**chat, "logprobs": True, "top_logprobs": 1, "return_token_ids": True})
    checked("POST", "/v1/chat/completions", {**chat, "stream": True})
    checked("DELETE", path)
    for encoding in ("float", "base64"):
        checked("POST", "/v1/embeddings", {"model": "encoder", "input": [[1], [2, 3]], "encoding_format": encoding})
    checked("POST", "/tokenize", {"model": "chat", "prompt": "a"})
    checked("POST", "/detokenize", {"model": "chat", "tokens": [100]})


@pytest.mark.parametrize("path, schema, body", [
    ("/v1/completions", "Completion", {"prompt": "a"}), ("/v1/chat/completions", "ChatChunk", {"messages": MESSAGES}),
])
def test_events_fit(gateway, document, path, schema, body):
    session = gateway.post("/v1/sessions", {"model": "chat"}).json["id"]
    logprobs = {"logprobs": 1, "prompt_logprobs": 1} if schema == "Completion" else {"logprobs": True, "top_logprobs": 1}
    for fields in ({}, {"session_id": session}, {"return_token_ids": True, "n": 2, **logprobs}):
        stream = gateway.stream(path, model="chat", max_tokens=5, stream_options={"include_usage": True}, **body, **fields)
        events = list(stream)
        for event in events:
            check(document, schema, event)
        assert stream.done and events[-1]["usage"] is not None
        assert ("session" in events[-2]) == ("session_id" in fields)


# What a server says, by the status that a client gets.
REFUSALS = {400: (grpc.StatusCode.INVALID_ARGUMENT, "VALUE_INVALID"),
            401: (grpc.StatusCode.UNAUTHENTICATED, "API_KEY_UNKNOWN"),
            403: (grpc.StatusCode.PERMISSION_DENIED, "PERMISSION_MISSING"),
            404: (grpc.StatusCode.NOT_FOUND, "SESSION_UNKNOWN"),
            409: (grpc.StatusCode.ABORTED, "SESSION_MOVED"),
            412: (grpc.StatusCode.FAILED_PRECONDITION, "SNAPSHOT_FOREIGN"),
            413: (grpc.StatusCode.RESOURCE_EXHAUSTED, "REQUEST_TOO_LARGE"),
            429: (grpc.StatusCode.RESOURCE_EXHAUSTED, "QUEUE_FULL"),
            500: (grpc.StatusCode.DATA_LOSS, "STORED_DATA_DAMAGED"),
            501: (grpc.StatusCode.UNIMPLEMENTED, "METHOD_UNKNOWN"),
            503: (grpc.StatusCode.UNAVAILABLE, "STOPPING"),
            504: (grpc.StatusCode.DEADLINE_EXCEEDED, "DEADLINE_PASSED")}
BODIES = {"/v1/completions": {"prompt": "a"}, "/v1/chat/completions": {"messages": MESSAGES},
          "/v1/embeddings": {"input": "a"}, "/v1/sessions": {}, "/v1/sessions/import": "a snapshot",
          "/v1/sessions/{id}/append": {"text": "a"}, "/v1/sessions/{id}/fork": {},
          "/v1/sessions/{id}/marks": {"name": "m"}, "/v1/sessions/{id}/rewind": {"mark": "m"},
          "/v1/sessions/{id}/save": {}, "/tokenize": {"prompt": "a"}, "/detokenize": {"tokens": [1]}}


def test_every_route_has_the_errors_that_the_document_gives_it(fake, document):
    from fake_server import Refused
    methods = [name for name in dir(fake) if name[0].isupper()]
    with GatewayProcess(fake.address, "--body-timeout", "0.1") as gateway, dead_addresses(1) as (dead,), \
            GatewayProcess(dead) as alone:
        for known, operations in document["paths"].items():
            path = known.replace("{", "").replace("}", "")
            for method in operations:
                method = method.upper()
                body = BODIES.get(known) if method == "POST" else None

                def answers(status):
                    """The answers that have this status."""
                    fake.refuse = {}
                    calls = known not in ("/health", "/v1/health/live", "/v1/health/ready", "/version", "/metrics",
                                          "/openapi.json")
                    if calls and status in REFUSALS:
                        code, reason = REFUSALS[status]
                        refused = Refused(code, "text: is refused", reason, "text", 1500 if status in (429, 503) else None)
                        fake.refuse = dict.fromkeys(methods, refused)
                        yield gateway.call(method, path, body)
                        if path.endswith("completions"):
                            yield gateway.call(method, path, {**body, "stream": True})
                    if status == 400:
                        yield gateway.call(method, f"{path}?a=%zz", body)
                        yield gateway.call(method, path, body, {"X-Request-Timeout": "soon"})
                    if status == 403:
                        yield gateway.call(method, path, body, {"Host": "elsewhere.example"})
                    if status == 415:
                        yield gateway.call(method, path, body, {"Content-Encoding": "gzip"})
                    if status == 408:
                        connection = gateway.connect()
                        connection.request(method, path, b"", {"Content-Length": "10"})
                        yield Answer(connection.getresponse())
                        connection.close()
                    if status == 503:
                        yield alone.call(method, path, body)

                for status in responses_of(document, method, path):
                    if not status.isdigit() or int(status) < 400:
                        continue
                    got = list(answers(int(status)))
                    assert got, f"{method} {path}: no way to {status}"
                    for answer in got:
                        assert str(answer.status) == status, (method, path, answer.body)
                        check_answer(document, method, path, answer)


def test_errors_without_a_route_fit(gateway, document):
    for method, path in [("GET", "/nothing"), ("PUT", "/v1/models")]:
        answer = gateway.call(method, path)
        assert answer.status in (404, 405)
        check(document, "Error", answer.json)


# The schemas of requests accept what the gateway does, and refuse what it refuses.
@pytest.mark.parametrize("body", [
    {"prompt": "a"}, {"prompt": ["a", "b"]}, {"prompt": [1, 2]}, {"prompt": [[1], [2]]}, {"max_tokens": None},
    {"max_tokens": 0}, {"max_tokens": -1},
    {"stop": "a"}, {"stop": ["a"]}, {"unknown": {"x": 1}}, {"logit_bias": {"1": 2}}, {"max_tokens": "1"},
    {"response_format": {"type": "text"}}, {"response_format": {"type": "json_object"}}, {"response_format": None},
    {"response_format": {}}, {"response_format": {"type": "xml"}}, {"response_format": {"type": "json_schema"}},
    {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "null"}}}},
    {"guided_json": {"enum": [1]}}, {"guided_json": "true"}, {"guided_json": 1}, {"guided_regex": "a"}, {"guided_regex": 1},
    {"guided_choice": ["a"]}, {"guided_choice": [1]}, {"guided_grammar": "start: \"a\""}, {"guided_grammar": {}},
    {"structured_outputs": {"regex": "a"}}, {"structured_outputs": {"regex": 1}}, {"structured_outputs": {"choice": "a"}},
    {"structured_outputs": {"json": True}}, {"json_schema": "{}"}, {"json_schema": {}}, {"choice": ["a", "b"]},
    {"prompt": 1}, {"stop": 1}, {"seed": "a"}, {"stream": 1}, {"durability": "paper"}, {"logit_bias": [1]},
    {"logit_bias": {" 5": 1}}, {"logit_bias": {"05": 1}}, {"limit_to_context": True}, {"limit_to_context": 1},
])
def test_requests_fit(gateway, document, body):
    check_request(gateway, document, "CompletionRequest", "/v1/completions", {"model": "chat", "max_tokens": 1, **body})


@pytest.mark.parametrize("body", [
    {}, {"input": "1"}, {"input": ["1", "2"]}, {"input": [1, 2]}, {"input": [[1], [2]]}, {"input": "1", "user": "u"},
    {"input": "1", "dimensions": None, "encoding_format": None}, {"input": []}, {"input": {}}, {"input": [[1], "2"]},
    {"input": "1", "encoding_format": "int8"}, {"input": "1", "dimensions": "26"}, {"input": ["1"] * 2049},
], ids=lambda body: str(body)[:40])
def test_embeddings_requests_fit(gateway, document, body):
    check_request(gateway, document, "EmbeddingsRequest", "/v1/embeddings", {"model": "encoder", **body})


def check_request(gateway, document, schema, path, body):
    """That the gateway accepts `body` if the schema does, and else refuses it."""
    answer = gateway.post(path, body)
    try:
        check(document, schema, body)
        assert answer.status == 200, answer.body
    except jsonschema.ValidationError:
        assert answer.status == 400, answer.body
