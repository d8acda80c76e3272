"""openapi.json against what the gateway answers. Needs python3-jsonschema."""

import json
import re
import shutil

import jsonschema
import pytest
from gateway_process import GatewayProcess
from server_process import GOLDEN, ROOT, ServerProcess
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


def check(document, name, instance):
    """That `instance` fits the schema of this name."""
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$ref": f"#/components/schemas/{name}",
              "components": document["components"]}
    jsonschema.Draft202012Validator(schema).validate(instance)


def test_document_is_whole(document):
    assert document["openapi"] == "3.1.0"
    names = set(document["components"]["schemas"])
    for name in names:
        jsonschema.Draft202012Validator.check_schema(document["components"]["schemas"][name])
    text = json.dumps(document)
    for kind, elsewhere in [("schemas", {"ChatChunk"}), ("parameters", set())]:  # that one is an event's document
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
    routes = set(re.findall(r'"(/[a-z_1/{}]*)"', text)) - {"/"}
    assert len(routes) > 15 and routes <= set(document["paths"])


def test_answers_fit(gateway, document):
    def checked(name, method, path, body=None, status=200):
        answer = gateway.call(method, path, body)
        assert answer.status == status, answer.body
        check(document, name, answer.json)
        return answer.json

    checked("Status", "GET", "/health")
    checked("Status", "GET", "/v1/health/ready")
    checked("Version", "GET", "/version")
    checked("ModelList", "GET", "/v1/models")
    assert checked("Model", "GET", "/v1/models/pixels")["image"] is not None
    checked("Server", "GET", "/v1/server")
    session = checked("Session", "POST", "/v1/sessions", {"model": "chat", "keep_transcript": True}, 201)["id"]
    path = f"/v1/sessions/{session}"
    checked("Appended", "POST", f"{path}/append", {"text": "abc"})
    checked("Position", "POST", f"{path}/marks", {"name": "m"})
    checked("SessionList", "POST", f"{path}/fork", {"count": 2})
    checked("SessionPage", "GET", "/v1/sessions?limit=1")
    checked("Session", "GET", f"{path}?include_transcript=true")
    checked("Position", "POST", f"{path}/save", {})
    checked("Position", "POST", f"{path}/rewind", {"mark": "m"})
    checked("Position", "DELETE", f"{path}/marks/m")
    body = {"model": "chat", "prompt": "a", "max_tokens": 3}
    checked("Completion", "POST", "/v1/completions", body)
    checked("Completion", "POST", "/v1/completions", {"session_id": session, "max_tokens": 2})
    checked("Completion", "POST", "/v1/completions", {
        **body, "logprobs": 2, "echo": True, "prompt_logprobs": 1, "return_token_ids": True, "n": 2})
    checked("ChatCompletion", "POST", "/v1/chat/completions", {
        "model": "chat", "messages": MESSAGES, "logprobs": True, "top_logprobs": 1, "return_token_ids": True})
    checked("SessionDeleted", "DELETE", path)
    for encoding in ("float", "base64"):
        checked("Embeddings", "POST", "/v1/embeddings",
                {"model": "encoder", "input": [[1], [2, 3]], "encoding_format": encoding})
    checked("Tokens", "POST", "/tokenize", {"model": "chat", "prompt": "a"})
    checked("Text", "POST", "/detokenize", {"model": "chat", "tokens": [100]})


def test_events_fit(gateway, document):
    session = gateway.post("/v1/sessions", {"model": "chat"}).json["id"]
    for fields in ({}, {"session_id": session}, {"logprobs": 1, "return_token_ids": True, "prompt_logprobs": 1}):
        stream = gateway.stream(**{"model": "chat", "prompt": "a", "stream_options": {"include_usage": True}, **fields})
        for event in stream:
            check(document, "Completion", event)
        assert stream.done
    for event in gateway.stream("/v1/chat/completions", model="chat", messages=MESSAGES, max_tokens=5):
        check(document, "ChatChunk", event)


def test_errors_fit(gateway, document):
    for method, path, body in [("GET", "/nothing", None), ("GET", "/v1/sessions/none", None), ("PUT", "/v1/models", None),
                               ("POST", "/v1/completions", b"{"), ("POST", "/v1/completions", {"model": "none"}),
                               ("GET", "/v1/models/none", None)]:
        answer = gateway.call(method, path, body)
        assert answer.status >= 400
        check(document, "Error", answer.json)


# The schemas of requests accept what the gateway does, and refuse what it refuses.
@pytest.mark.parametrize("body", [
    {"prompt": "a"}, {"prompt": ["a", "b"]}, {"prompt": [1, 2]}, {"prompt": [[1], [2]]}, {"max_tokens": None},
    {"max_tokens": 0}, {"max_tokens": -1},
    {"stop": "a"}, {"stop": ["a"]}, {"unknown": {"x": 1}}, {"logit_bias": {"1": 2}}, {"max_tokens": "1"},
    {"prompt": 1}, {"stop": 1}, {"seed": "a"}, {"stream": 1}, {"durability": "paper"}, {"logit_bias": [1]},
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
