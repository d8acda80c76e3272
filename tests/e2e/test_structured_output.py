"""Samples that follow a schema, an expression or a grammar, at temperature 1. Needs python3-jsonschema."""

import json
import re
import shutil

import grpc
import jsonschema
import pytest
from gateway_process import GatewayProcess
from server_process import GOLDEN, ROOT, ServerProcess
from session_client import SessionClient
from test_gateway_chat import MESSAGES, TEMPLATE

ZOO = ROOT / "models" / "zoo"

PERSON = {
    "type": "object", "additionalProperties": False, "required": ["name", "age", "tags"],
    "properties": {"name": {"type": "string", "pattern": "^[A-Z][a-z]{1,8}$"},
                   "age": {"type": "integer", "minimum": 0, "maximum": 150},
                   "tags": {"type": "array", "items": {"enum": ["a", "b", "c"]}, "minItems": 1, "maxItems": 3}}}
POINT = {"type": "array", "prefixItems": [{"$ref": "#/$defs/digit"}, {"$ref": "#/$defs/digit"}], "items": False,
         "minItems": 2}
SCHEMAS = {  # whose values all end within some hundred characters
    "person": PERSON,
    "list": {"type": "array", "items": PERSON, "minItems": 2, "maxItems": 2},
    "tool": {"type": "object", "additionalProperties": False, "required": ["tool", "arguments"],
             "properties": {"tool": {"const": "weather"},
                            "arguments": {"type": "object", "additionalProperties": False, "required": ["place"],
                                          "properties": {"place": {"type": "string", "maxLength": 12},
                                                         "unit": {"enum": ["celsius", "fahrenheit"]}}}}},
    "union": {"anyOf": [{"type": "null"}, {"type": "boolean"}, {"type": "integer", "minimum": -5, "maximum": 5}]},
    "references": {"$defs": {"point": POINT, "digit": {"type": "integer", "minimum": 0, "maximum": 9}},
                   "type": "object", "properties": {"from": {"$ref": "#/$defs/point"}, "to": {"$ref": "#/$defs/point"}},
                   "required": ["from", "to"], "additionalProperties": False},
    "address": {"type": "string", "format": "ipv4"},
    "characters": {"type": "string", "minLength": 3, "maxLength": 8},
}


@pytest.fixture(scope="module")
def server(api, tmp_path_factory):
    chat = tmp_path_factory.mktemp("model") / "chat"
    shutil.copytree(GOLDEN / "bytes_untied", chat)
    (chat / "generation_config.json").write_text(json.dumps({"chat_template": TEMPLATE}))
    with ServerProcess(api, "--model", f"novels={ZOO / 'novels'}", "--model", f"bytes={GOLDEN / 'bytes_untied'}",
                       "--model", f"chat={chat}", "--model", f"couplets={ZOO / 'couplets'}",
                       "--model", f"pixels={GOLDEN / 'pixels_abs'}") as process:
        yield process


@pytest.fixture(scope="module")
def gateway(server):
    with GatewayProcess(server.address) as process:
        yield process


def response_format(schema):
    return {"type": "json_schema", "json_schema": {"name": "it", "strict": True, "schema": schema}}


def test_members_have_the_schema_s_order(gateway):
    schema = {"type": "object", "additionalProperties": False, "required": ["why", "answer"],
              "properties": {"why": {"type": "string", "maxLength": 5}, "answer": {"type": "boolean"}}}
    answer = gateway.post("/v1/completions", {
        "model": "novels", "prompt": "A", "seed": 1, "max_tokens": 200, "response_format": response_format(schema)})
    assert list(json.loads(answer.json["choices"][0]["text"])) == ["why", "answer"]


@pytest.mark.parametrize("model", ["novels", "bytes"])
@pytest.mark.parametrize("name", SCHEMAS)
def test_json_is_valid(gateway, model, name):
    answer = gateway.post("/v1/completions", {
        "model": model, "prompt": "Answer: ", "n": 4, "seed": 1, "max_tokens": 1000,
        "response_format": response_format(SCHEMAS[name])})
    assert answer.status == 200, answer.body
    validator = jsonschema.Draft202012Validator(SCHEMAS[name], format_checker=jsonschema.FormatChecker())
    for choice in answer.json["choices"]:
        assert choice["finish_reason"] == "stop", choice
        validator.validate(json.loads(choice["text"]))


def test_any_object(gateway):
    answer = gateway.post("/v1/completions", {
        "model": "bytes", "prompt": "a", "n": 8, "seed": 2, "max_tokens": 2000, "response_format": {"type": "json_object"}})
    ended = [choice["text"] for choice in answer.json["choices"] if choice["finish_reason"] == "stop"]
    assert ended and all(isinstance(json.loads(text), dict) for text in ended), answer.body


@pytest.mark.parametrize("form, expression", [
    ({"regex": r"[0-9]{3}-[0-9]{4}"}, r"\d{3}-\d{4}"),
    ({"choice": ["yes", "no", "perhaps"]}, "yes|no|perhaps"),
    ({"lark": 'start: "(" NUMBER ")" | NUMBER\nNUMBER: /[0-9]{1,4}/'}, r"\(\d{1,4}\)|\d{1,4}"),
])
def test_text_fits(server, form, expression):
    for seed in range(6):
        [sample], _ = server.generate("Say: ", model="novels", seed=seed, max_tokens=200, **form)
        assert re.fullmatch(expression, sample.text), sample


def test_the_same_seed_has_the_same_tokens(gateway):
    body = {"model": "novels", "prompt": "A", "seed": 7, "n": 3, "max_tokens": 300, "guided_json": PERSON}
    first, again = (gateway.post("/v1/completions", body).json["choices"] for _ in range(2))
    assert first == again
    texts = ["", "", ""]
    for event in gateway.stream("/v1/completions", **body):
        for choice in event["choices"]:
            texts[choice["index"]] += choice["text"]
    assert texts == [choice["text"] for choice in first]


def test_conversations(gateway):
    answer = gateway.post("/v1/chat/completions", {
        "model": "chat", "messages": MESSAGES, "seed": 1, "max_tokens": 400, "response_format": response_format(PERSON)})
    assert answer.status == 200, answer.body
    choice = answer.json["choices"][0]
    assert choice["finish_reason"] == "stop"
    jsonschema.validate(json.loads(choice["message"]["content"]), PERSON)


def test_the_form_is_the_request_s_and_not_the_session_s(server):
    client = SessionClient(server)
    session = client.create(model="novels").id

    def say(text, **sampling):
        return client.generate(session, text, seed=1, max_tokens=20, **sampling).sample.text

    assert say("Is it? ", choice=["yes", "no"]) in ("yes", "no")
    assert len(say(". ", ignore_eos=True)) > len("yes")
    assert re.fullmatch("[0-9]{5}", say(" ", regex="[0-9]{5}"))


def test_the_command_line(server, tvq):
    def say(*flags):
        done = tvq("--server", server.address, "generate", "--model", "novels", "--prompt", "Say: ", *flags)
        assert done.returncode == 0, done.stderr
        return done.stdout.decode().strip()

    assert re.fullmatch("[ab]{4}", say("--regex", "[ab]{4}"))
    assert say("--choice", "yes", "--choice", "no") in ("yes", "no")
    twice = tvq("--server", server.address, "generate", "--prompt", "a", "--regex", "a", "--lark", "start: \"a\"")
    assert twice.returncode == 2 and b"cannot be given together" in twice.stderr, twice.stderr


@pytest.mark.parametrize("model, fields, message", [
    ("novels", {"response_format": response_format({"type": "nothing"})}, "json_schema: "),
    ("novels", {"guided_regex": "("}, "regex: "),
    ("novels", {"guided_regex": "a", "ignore_eos": True}, "ignore_eos: must be false where regex is given"),
    ("pixels", {"guided_regex": "a"}, "regex: must be left out"),
    ("couplets", {"guided_regex": "[a-z]+"}, "regex: the text must go on, and no token"),
])
def test_what_cannot_be_followed_is_refused(gateway, model, fields, message):
    prompt = {"pixels": [1], "couplets": "春"}.get(model, "a")
    answer = gateway.post("/v1/completions", {"model": model, "prompt": prompt, **fields})
    assert answer.status == 400, answer.body
    assert answer.error["message"].startswith(message), answer.error


def test_hostile_forms_leave_the_server_as_it_was(server, gateway):
    deep = '{"items":' * 3000 + "true" + "}" * 3000
    for schema in [deep, '{"type":"string","pattern":"((a{1000}){1000}){1000}"}', '{"$ref":"#"}',
                   '{"type":"string","minLength":1000000000}', json.dumps({"enum": list(range(50_000))})]:
        answer = gateway.post("/v1/completions", {"model": "bytes", "prompt": "a", "max_tokens": 5, "guided_json": schema})
        assert answer.status in (200, 400), answer.body
    with pytest.raises(grpc.RpcError) as refused:
        server.generate("a", lark="start: missing")
    assert refused.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert gateway.post("/v1/completions", {"model": "bytes", "prompt": "a", "max_tokens": 1}).status == 200
