"""Conversations over HTTP, with a template of the model's generation_config.json."""

import json
import shutil

import pytest
from gateway_process import GatewayProcess
from server_process import GOLDEN, ROOT, ServerProcess

ZOO = ROOT / "models" / "zoo"
TEMPLATE = {"system": {"suffix": "\n"}, "user": {"prefix": "User: ", "suffix": "\n"},
            "assistant": {"prefix": "Tutor:", "suffix": "\n"}, "stop": ["\nUser:"]}
MESSAGES = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hello"},
            {"role": "assistant", "content": " Hi"}, {"role": "user", "content": [{"type": "text", "text": "Who?"}]}]
TEXT = "Be kind.\nUser: Hello\nTutor: Hi\nUser: Who?\nTutor:"


@pytest.fixture(scope="module")
def gateway(api, tmp_path_factory):
    model = tmp_path_factory.mktemp("model") / "chat"
    shutil.copytree(GOLDEN / "bytes_untied", model)
    (model / "generation_config.json").write_text(json.dumps({"chat_template": TEMPLATE, "max_tokens": 8}))
    with ServerProcess(api, "--model", f"chat={model}", "--model", f"bytes={GOLDEN / 'bytes_untied'}") as server, \
            GatewayProcess(server.address) as process:
        yield process


def test_messages_as_the_template_has_them(gateway):
    assert [model["has_chat_template"] for model in gateway.get("/v1/models").json["data"]] == [True, False]
    answer = gateway.post("/v1/chat/completions", {"model": "chat", "messages": MESSAGES, "temperature": 0})
    assert answer.status == 200, answer.body
    plain = gateway.post("/v1/completions", {"model": "chat", "prompt": TEXT, "temperature": 0, "stop": ["\nUser:"]})
    choice = answer.json["choices"][0]
    assert choice["message"] == {"role": "assistant", "content": plain.json["choices"][0]["text"]}
    assert answer.json["object"] == "chat.completion" and answer.json["id"].startswith("chatcmpl-")
    assert answer.json["usage"] == plain.json["usage"]
    assert answer.json["usage"]["prompt_tokens"] == len(TEXT)


def test_stream(gateway):
    body = {"messages": MESSAGES, "seed": 3, "n": 2, "logprobs": True, "top_logprobs": 2, "ignore_eos": True}
    whole = gateway.post("/v1/chat/completions", {"model": "chat", **body}).json
    stream = gateway.stream("/v1/chat/completions", **{**body, "model": "chat"}, stream_options={"include_usage": True})
    events = list(stream)
    assert stream.done and {event["object"] for event in events} == {"chat.completion.chunk"}
    assert events[-1]["usage"] == whole["usage"]
    for index in (0, 1):
        choices = [choice for event in events for choice in event["choices"] if choice["index"] == index]
        assert [choice["delta"].get("role") for choice in choices] == ["assistant"] + [None] * (len(choices) - 1)
        want = whole["choices"][index]
        assert "".join(choice["delta"]["content"] for choice in choices) == want["message"]["content"]
        assert [token for choice in choices for token in choice["logprobs"]["content"]] == want["logprobs"]["content"]
        assert choices[-1]["finish_reason"] == want["finish_reason"]
    token = whole["choices"][0]["logprobs"]["content"][0]
    assert len(token["top_logprobs"]) == 2 and token["logprob"] <= 0 and len(token["bytes"]) <= 1


def test_a_default_length_is_cut_to_what_the_context_leaves(api, tmp_path):
    model = tmp_path / "m"
    shutil.copytree(GOLDEN / "bytes_untied", model)
    (model / "generation_config.json").write_text(json.dumps({"max_tokens": 256}))
    with ServerProcess(api, "--model", f"m={model}", "--max-model-len", 512) as server, GatewayProcess(server.address) as gateway:
        body = {"prompt": "a" * 402, "ignore_eos": True}
        answer = gateway.post("/v1/completions", body)
        assert answer.status == 200 and answer.json["usage"]["completion_tokens"] == 512 - 402, answer.body
        assert gateway.post("/v1/completions", {**body, "max_tokens": 256}).status == 400


@pytest.mark.parametrize("flags, context", [((), None), (("--max-model-len", 100), 100)])
def test_an_answer_goes_on_to_the_end_of_the_context(api, tmp_path, flags, context):
    """What conversation and session leave of it; 4096 tokens where it has no end."""
    model = tmp_path / "chat"
    shutil.copytree(GOLDEN / "bytes_untied", model)
    (model / "generation_config.json").write_text(json.dumps({"chat_template": TEMPLATE}))
    with ServerProcess(api, "--model", f"chat={model}", *flags) as server, GatewayProcess(server.address) as gateway:
        def ask(**fields):
            answer = gateway.post("/v1/chat/completions", {
                "messages": [{"role": "user", "content": "Who?"}], "ignore_eos": True, **fields})
            assert answer.status == 200, answer.body
            assert answer.json["choices"][0]["finish_reason"] == "length"
            return answer.json["usage"]["completion_tokens"]

        prompt = len("User: Who?\nTutor:")
        assert ask() == (4096 if context is None else context - prompt)
        assert ask(max_tokens=3) == 3
        session = gateway.post("/v1/sessions", {"model": "chat"}).json["id"]
        assert ask(session_id=session, max_tokens=5) == 5
        assert ask(session_id=session) == (4096 if context is None else context - 2 * prompt - 5 - len("\n"))
        retried = {"messages": [{"role": "user", "content": "Who?"}], "ignore_eos": True,
                   "session_id": gateway.post("/v1/sessions", {"model": "chat"}).json["id"]}
        first, again = (gateway.post("/v1/chat/completions", retried, headers={"Idempotency-Key": "k"}) for _ in "12")
        assert (first.status, again.status) == (200, 200), again.body
        assert (again.json["choices"], again.json["session"]) == (first.json["choices"], first.json["session"])
        if context is not None:
            assert ask(max_tokens=1000, limit_to_context=True) == context - prompt
            text = {"prompt": "Once", "max_tokens": 1000, "ignore_eos": True}
            assert gateway.post("/v1/completions", text).error["param"] == "prompt"
            for fields, tokens in [({}, context - 4), ({"max_tokens": 3}, 3), ({"max_tokens": None}, context - 4),
                                   ({"n": 2}, 2 * (context - 4)), ({"prompt": ["On", "ce"]}, 2 * (context - 2))]:
                answer = gateway.post("/v1/completions", {**text, "limit_to_context": True, **fields})
                assert answer.json["usage"]["completion_tokens"] == tokens, fields
            answer = gateway.post("/v1/chat/completions", {
                "messages": [{"role": "user", "content": "x" * 100}], "max_completion_tokens": 7})
            assert (answer.status, answer.error["param"]) == (400, "messages")
            assert answer.error["message"].startswith("messages: has 113 tokens, and max_completion_tokens is 7;")


def test_models_without_template(gateway):
    answer = gateway.post("/v1/chat/completions", {"model": "bytes", "messages": MESSAGES})
    assert (answer.status, answer.error["param"]) == (400, "model")
    assert "/v1/completions" in answer.error["message"]


@pytest.mark.parametrize("fields, param", [
    ({"messages": []}, "messages"),
    ({"messages": "Hello"}, "messages"),
    ({"messages": [1]}, "messages[0]"),
    ({"messages": [{"role": "robot", "content": "a"}]}, "messages[0].role"),
    ({"messages": [{"role": "user"}]}, "messages[0].content"),
    ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages[0].content"),
    ({"messages": MESSAGES, "tools": [{"type": "function"}]}, "tools"),
    ({"messages": MESSAGES, "response_format": {"type": "xml"}}, "response_format.type"),
    ({"messages": MESSAGES, "top_logprobs": 2}, "top_logprobs"),
    ({"messages": MESSAGES, "max_completion_tokens": 0}, "max_completion_tokens"),
    ({"messages": MESSAGES, "max_tokens": 0}, "max_tokens"),
    ({"messages": MESSAGES, "logprobs": True, "top_logprobs": 25}, "top_logprobs"),
    ({"messages": MESSAGES, "session_id": "none"}, "session_id"),
    ({"messages": MESSAGES, "session_id": "x" * 1000}, "session_id"),
])
def test_errors_name_the_field(gateway, fields, param):
    answer = gateway.post("/v1/chat/completions", {"model": "chat", **fields})
    assert (answer.status in (400, 404), answer.error["param"]) == (True, param), answer.body
    assert answer.error["message"].startswith(param + ":")


def test_an_unknown_character_is_named_by_its_message(api, tvq, tmp_path):
    """By its place there, not by that in the prompt, which the template writes; also where a session is continued."""
    model = tmp_path / "chat"
    shutil.copytree(ZOO / "couplets", model)
    template = {"user": {"prefix": "春风", "suffix": "\n"}, "assistant": {"suffix": "\n"}}
    (model / "generation_config.json").write_text(json.dumps({"chat_template": template, "max_tokens": 2}))

    def messages(*contents):
        return [{"role": role, "content": content} for role, content in zip(["user", "assistant"] * 2, contents)]

    with ServerProcess(api, "--model", f"chat={model}") as server, GatewayProcess(server.address) as gateway:
        def refusal(**fields):
            answer = gateway.post("/v1/chat/completions", {"model": "chat", **fields})
            assert answer.status == 400, answer.body
            place, _, offset = answer.error["message"].partition(": the character \"☃\" (U+2603) at byte offset ")
            assert place == answer.error["param"], answer.error
            return place, int(offset.split()[0])

        assert refusal(messages=messages("春", "风", "秋雨☃")) == ("messages[2].content", 6)
        assert refusal(messages=messages("☃")) == ("messages[0].content", 0)
        session = gateway.post("/v1/sessions", {"model": "chat"}).json["id"]
        for contents, place in [("秋☃", 3), ("秋雨", None), ("☃", 0), ("秋雨☃", 6)]:
            fields = {"session_id": session, "messages": messages(contents)}
            if place is None:
                assert gateway.post("/v1/chat/completions", fields).status == 200
            else:
                assert refusal(**fields) == ("messages[0].content", place)
        line = tvq("--server", server.address, "session", "chat", input="秋☃\n".encode())
        assert line.returncode == 1 and "text: the character \"☃\" (U+2603) at byte offset 3 " in line.stderr.decode()


def test_errors_name_the_limit_as_the_body_does(gateway):
    answer = gateway.post("/v1/chat/completions", {"model": "chat", "messages": MESSAGES, "max_completion_tokens": 2,
                                                   "min_tokens": 3})
    assert answer.error["message"] == "min_tokens: value is 3, must be in [0, max_completion_tokens = 2]"


@pytest.mark.parametrize("template", ["{{ messages }}", {"user": {}}, {"user": {}, "assistant": {"prefix": 1}},
                                      {"user": {}, "assistant": {}, "stop": [""]}])
def test_templates_that_are_none_end_the_start(template, tmp_path):
    from server_process import run_server
    shutil.copytree(GOLDEN / "bytes_untied", tmp_path / "m")
    (tmp_path / "m" / "generation_config.json").write_text(json.dumps({"chat_template": template}))
    finished = run_server("--model", f"m={tmp_path / 'm'}")
    assert finished.returncode == 1 and "chat_template" in finished.stderr
