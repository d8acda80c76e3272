"""HTTP through tvq-gateway: completions as OpenAI's clients ask for them."""

import contextlib
import json

import pytest
from gateway_process import GatewayProcess, text_of
from server_process import GOLDEN, ServerProcess


@pytest.fixture(scope="module")
def gateway(server):
    with GatewayProcess(server.address) as process:
        yield process


def test_health_and_version(gateway):
    for path in ["/health", "/v1/health/live", "/v1/health/ready"]:
        assert gateway.get(path).json == {"status": "ok"}
    assert gateway.get("/version").json["version"].count(".") == 2


def test_models(gateway, server):
    models = gateway.get("/v1/models").json
    assert models["object"] == "list"
    assert [model["id"] for model in models["data"]] == ["bytes", "pixels"]
    model = gateway.get("/v1/models/bytes").json
    told = server.models.GetModel(server.api.model.GetModelRequest(name="bytes")).model
    assert model["object"] == "model"
    for field in ["family", "parameters", "vocab_size", "bytes_per_session", "max_sessions", "fingerprint"]:
        assert model[field] == getattr(told, field)
    assert (model["eos_token_id"], model["bos_token_id"]) == (1, None)
    assert gateway.get("/v1/server").json["device"].startswith("cpu")


def test_completion_is_what_grpc_says(gateway, server):
    answer = gateway.complete("Once", max_tokens=12, temperature=0)
    samples, usage = server.generate("Once", max_tokens=12, temperature=0)
    assert answer["object"] == "text_completion" and answer["model"] == "bytes" and answer["id"].startswith("cmpl-")
    assert [choice["text"] for choice in answer["choices"]] == [samples[0].text]
    assert answer["choices"][0]["finish_reason"] == "length"
    assert answer["usage"] == {"prompt_tokens": 4, "completion_tokens": 12, "total_tokens": 16,
                               "prompt_tokens_details": {"cached_tokens": 0}}


def test_stream_is_the_same_text(gateway):
    whole = gateway.complete("Once", max_tokens=30, seed=7, n=2)
    stream = gateway.stream(prompt="Once", max_tokens=30, seed=7, n=2, stream_options={"include_usage": True})
    events = list(stream)
    assert stream.done
    assert stream.response.headers["Content-Type"] == "text/event-stream; charset=utf-8"
    assert [text_of(events, i) for i in (0, 1)] == [choice["text"] for choice in whole["choices"]]
    assert events[-1]["choices"] == [] and events[-1]["usage"] == whole["usage"]
    assert all(event["usage"] is None for event in events[:-1])
    assert {event["id"] for event in events} == {events[0]["id"]}
    finish = [choice["finish_reason"] for event in events for choice in event["choices"]]
    assert finish.count("length") == 2 and set(finish) <= {None, "length"}


@pytest.mark.parametrize("stream", [False, True])
def test_lines_end_where_every_client_says(gateway, stream):
    """Python's splitlines, by which some clients read events, ends a line at more than JSON does."""
    prompt = "a\x85b\u2028c\u2029d"
    answer = gateway.post("/v1/completions", {"model": "bytes", "prompt": prompt, "echo": True, "max_tokens": 1,
                                              "stream": stream})
    body = answer.body.decode()
    assert not set("\x85\u2028\u2029") & set(body)
    documents = [line.removeprefix("data: ") for line in body.splitlines() if line not in ("", "data: [DONE]")]
    text = "".join(choice["text"] for line in documents for choice in json.loads(line)["choices"])
    assert text.startswith(prompt)


def test_prompts_in_their_order(gateway):
    prompts = ["Once", "upon", "a time"]
    alone = [gateway.complete(prompt, max_tokens=5, temperature=0)["choices"][0]["text"] for prompt in prompts]
    together = gateway.complete(prompts, max_tokens=5, temperature=0)
    assert [choice["index"] for choice in together["choices"]] == [0, 1, 2]
    assert [choice["text"] for choice in together["choices"]] == alone
    assert together["usage"]["completion_tokens"] == 15
    ids = [[byte + 3 for byte in prompt.encode()] for prompt in prompts]
    for prompt, want in [(ids[0], alone[:1]), (ids, alone)]:
        answer = gateway.complete(prompt, max_tokens=5, temperature=0)
        assert [choice["text"] for choice in answer["choices"]] == want
    pairs = gateway.complete(prompts, max_tokens=5, seed=1, n=2)
    assert [choice["index"] for choice in pairs["choices"]] == list(range(6))
    samples = [gateway.complete(prompt, max_tokens=5, seed=1, n=2)["choices"] for prompt in prompts]
    assert [choice["text"] for choice in pairs["choices"]] == [one["text"] for two in samples for one in two]


def test_prompt_alone_with_its_logprobs(server, gateway):
    """As evaluation harnesses ask for the likelihood of a text."""
    score = server.generation.Score(server.api.generation.ScoreRequest(model="bytes", text="Once upon", logprobs=2))
    scored = [token for response in score for token in response.tokens]
    ids = [byte + 3 for byte in b"Once upon"]
    for prompt in ("Once upon", ids):
        fields = {"prompt": prompt, "max_tokens": 0, "echo": True, "logprobs": 2}
        whole = gateway.complete(**fields)
        choice, = whole["choices"]
        assert (choice["text"], choice["finish_reason"]) == ("Once upon", "length")
        logprobs = choice["logprobs"]
        assert logprobs["tokens"] == list("Once upon") and logprobs["text_offset"] == list(range(9))
        assert logprobs["token_logprobs"][0] is None and logprobs["top_logprobs"][0] is None
        assert logprobs["token_logprobs"][1:] == pytest.approx([token.token.logprob for token in scored[1:]])
        assert [max(top.values()) for top in logprobs["top_logprobs"][1:]] == pytest.approx(
            [token.top[0].logprob for token in scored[1:]])
        assert (whole["usage"]["prompt_tokens"], whole["usage"]["completion_tokens"]) == (9, 0)
        events = list(gateway.stream(**fields))
        assert text_of(events) == "Once upon" and events[-1]["choices"][0]["finish_reason"] == "length"
        parts = [event["choices"][0]["logprobs"] for event in events]
        assert {name: sum((part[name] for part in parts), []) for name in logprobs} == logprobs
    # Several prompts, without probabilities, and without even the text.
    answer = gateway.complete(["a", "bc"], max_tokens=0, echo=True)
    assert [(choice["text"], choice["logprobs"]) for choice in answer["choices"]] == [("a", None), ("bc", None)]
    assert gateway.complete("a", max_tokens=0)["choices"][0]["text"] == ""
    # On a session it is an append.
    session = gateway.post("/v1/sessions", {"model": "bytes"}).json["id"]
    answer = gateway.complete("Once", session_id=session, max_tokens=0)
    assert answer["session"]["position"] == 4


@pytest.mark.parametrize("max_tokens", [0, 3])
def test_stream_of_a_long_prompt_has_all_its_logprobs(gateway, max_tokens):
    """The text is echoed before the prompt has been computed."""
    prompt = ("It was the best of times, it was the worst of times. " * 40)[:2000]
    fields = {"prompt": prompt, "max_tokens": max_tokens, "temperature": 0, "ignore_eos": True, "echo": True,
              "logprobs": 1}
    whole, = gateway.complete(**fields)["choices"]
    assert whole["logprobs"]["text_offset"][:2000] == list(range(2000))
    events = list(gateway.stream(**fields))
    assert text_of(events) == whole["text"]
    parts = [choice["logprobs"] for event in events for choice in event["choices"]]
    joined = {name: sum((part[name] for part in parts), []) for name in whole["logprobs"]}
    for name in ("tokens", "text_offset"):
        assert joined[name] == whole["logprobs"][name]
    assert len(joined["tokens"]) == 2000 + max_tokens
    assert joined["token_logprobs"][0] is None
    assert joined["token_logprobs"][1:] == pytest.approx(whole["logprobs"]["token_logprobs"][1:])
    assert len(joined["top_logprobs"]) == len(joined["tokens"])


def test_logit_bias_decides_and_forbids(gateway):
    # "a" is the id 100 of this model.
    forced = gateway.complete("Once", max_tokens=6, temperature=0, ignore_eos=True, logit_bias={"100": 100})
    assert forced["choices"][0]["text"] == "aaaaaa"
    first, = gateway.complete("Once", max_tokens=1, temperature=0, ignore_eos=True, return_token_ids=True)["choices"]
    token, = first["token_ids"]
    other, = gateway.complete("Once", max_tokens=1, temperature=0, ignore_eos=True, return_token_ids=True,
                              logit_bias={str(token): -100})["choices"]
    assert other["token_ids"] != [token]


def test_usage_says_what_was_not_computed(start):
    converted = GOLDEN / "hugging_face" / "converted_llama"  # which 300 tokens take beyond what it was trained with
    server = start("--model", f"converted={converted}", "--prefix-cache-bytes", 64 << 20)
    with GatewayProcess(server.address) as gateway:
        for model in ["bytes", "converted"]:
            chunk = server.models.GetModel(server.api.model.GetModelRequest(name=model)).model.prefill_chunk
            prompt = ("It was the best of times, it was the worst of times. " * chunk)[:3 * chunk + 5]
            asked = dict(model=model, prompt=prompt, max_tokens=300, seed=1, ignore_eos=True)
            answers = [gateway.complete(**asked) for _ in range(4)]
            stream = list(gateway.stream(**asked, stream_options={"include_usage": True}))
            usages = [answer["usage"] for answer in answers]
            cached = [usage["prompt_tokens_details"]["cached_tokens"] for usage in usages]
            assert cached[0] == 0 and cached[-1] == 3 * chunk
            assert {usage["prompt_tokens"] for usage in usages} == {len(prompt)}
            assert stream[-1]["usage"] == usages[-1]
            assert {answer["choices"][0]["text"] for answer in answers} == {text_of(stream)}


def test_what_a_server_is_not_made_for_is_412(gateway):
    session = gateway.post("/v1/sessions", {"model": "bytes"}).json["id"]
    path = f"/v1/sessions/{session}"
    snapshot = gateway.get(f"{path}/export").body
    for method, target, body in [("POST", "/v1/sessions/import?model=pixels", snapshot),  # of another model
                                 ("POST", f"{path}/save", {}),  # with nowhere to store
                                 ("POST", f"{path}/append", {"text": "a", "durability": "disk"})]:
        answer = gateway.call(method, target, body)
        assert answer.status == 412, (target, answer.body)
        assert set(answer.error) == {"message", "type", "param", "code", "reason"}
    assert gateway.get(path).json["version"] == 1


@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_of_100_mb_is_refused(gateway, chunked):
    """With the default limits. A client that sends on all the same may find the connection closed."""
    piece, left = b"x" * 1_000_000, 100
    length = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {left * len(piece)}"
    with gateway.raw() as sock:
        sock.sendall(f"POST /v1/completions HTTP/1.1\r\nHost: h\r\n{length}\r\n\r\n".encode())
        with contextlib.suppress(OSError):
            for _ in range(left):
                sock.sendall(b"%x\r\n%s\r\n" % (len(piece), piece) if chunked else piece)
        answer = sock.recv(10_000)
    assert answer.startswith(b"HTTP/1.1 413 ") and b'"code":"too_large"' in answer
    assert gateway.complete(max_tokens=1)["choices"]


def test_errors_are_openais(gateway):
    for body, status, param in [
        ({"model": "none", "prompt": "a"}, 404, "model"),
        ({"model": "bytes", "prompt": "a", "max_tokens": -1}, 400, "max_tokens"),
        ({"model": "bytes", "prompt": "a", "n": 1000}, 400, "n"),
        ({"model": "bytes", "prompt": [999]}, 400, "prompt[0]"),
        ({"model": "bytes", "prompt": "a", "logprobs": 25, "echo": True}, 400, "logprobs"),
        ({"model": "bytes", "prompt": "a", "prompt_logprobs": 25}, 400, "prompt_logprobs"),
        ({"model": "bytes", "prompt": "a", "logit_bias": {"7": 1, "200": 200}}, 400, "logit_bias.200"),
        ({"model": "bytes", "prompt": "a", "logit_bias": {"-7": 1}}, 400, "logit_bias.-7"),
        ({"model": "pixels", "prompt": ""}, 400, "prompt"),
        ({"model": "bytes", "prompt": "a", "temperature": "hot"}, 400, "temperature"),
    ]:
        for stream in (False, True):
            answer = gateway.post("/v1/completions", {**body, "stream": stream})
            assert (answer.status, answer.error["param"]) == (status, param), answer.body
            assert "token_ids" not in answer.error["message"] and "text:" not in answer.error["message"]
            assert set(answer.error) == {"message", "type", "param", "code", "reason"}
            assert answer.headers["Content-Type"] == "application/json"


def test_what_http_refuses_by_itself_is_named(gateway):
    for method, path, status, message in [
        ("GET", "/v1/nothing", 404, 'there is nothing at the path "/v1/nothing"; /openapi.json describes all paths'),
        ("GET", "/v1/completions", 405, 'the path "/v1/completions" does not take "GET", only OPTIONS, POST'),
        ("DELETE", "/v1/models", 405, 'the path "/v1/models" does not take "DELETE", only GET, HEAD, OPTIONS'),
    ]:
        answer = gateway.call(method, path)
        assert (answer.status, answer.error["message"]) == (status, message)
    for name, value, message in [
        ("Host", "evil.example", 'host: "evil.example" is no name of this gateway; --allowed-origins can name it'),
        ("Origin", "https://evil.example",
         'origin: pages of "https://evil.example" may not call; --allowed-origins names those that may'),
    ]:
        answer = gateway.post("/v1/completions", {"prompt": "a"}, headers={name: value})
        assert (answer.status, answer.error["message"]) == (403, message)


def test_errors_have_openais_words(api):
    answer = None

    def word():
        return answer.status, answer.error["type"], answer.error["code"], answer.error["param"]

    limits = ["--max-prompt-tokens", "100"]
    softmax = GOLDEN / "families" / "softmax_gated_single"  # whose context ends
    with ServerProcess(api, "--model", f"bytes={GOLDEN / 'bytes_untied'}", "--model", f"softmax={softmax}",
                       *limits) as server, GatewayProcess(server.address) as gateway:
        for path, body in [("/v1/completions", {"prompt": "a"}), ("/v1/completions", {"prompt": "a", "stream": True}),
                           ("/v1/chat/completions", {"messages": [{"role": "user", "content": "a"}]}),
                           ("/v1/embeddings", {"input": "a"}), ("/tokenize", {"prompt": "a"})]:
            answer = gateway.post(path, {"model": "none", **body})
            assert word() == (404, "invalid_request_error", "model_not_found", "model"), (path, answer.body)
        answer = gateway.get("/v1/models/none")
        assert word() == (404, "invalid_request_error", "model_not_found", "model")
        answer = gateway.get("/v1/sessions/none")
        assert word() == (404, "invalid_request_error", "not_found", "session_id")
        most = gateway.get("/v1/models/softmax").json["max_position"]
        for model, prompt, max_tokens in [("bytes", "a" * 101, 1), ("bytes", [5] * 101, 1), ("bytes", "a" * 9999, 1),
                                          ("softmax", [5], most)]:
            for stream in (False, True):
                answer = gateway.post("/v1/completions", {"model": model, "prompt": prompt, "max_tokens": max_tokens,
                                                          "stream": stream})
                assert word() == (400, "invalid_request_error", "context_length_exceeded", "prompt"), answer.body


def test_an_error_names_the_prompt(gateway):
    body = {"model": "bytes", "prompt": [[1], [2, 999]], "max_tokens": 1}
    answer = gateway.post("/v1/completions", body)
    assert (answer.status, answer.error["param"]) == (400, "prompt[1][1]")
    assert answer.error["message"].startswith("prompt[1][1]: token id is 999")


def test_request_id_comes_back(gateway):
    assert gateway.get("/health", headers={"X-Request-Id": "mine"}).headers["X-Request-Id"] == "mine"
    assert gateway.get("/health").headers["X-Request-Id"]
    assert gateway.get("/health", headers={"X-Request-Id": "\x7f"}).headers["X-Request-Id"] != "\x7f"
    answer = gateway.post("/v1/completions", {"model": "bytes", "prompt": "a", "max_tokens": 1},
                          headers={"X-Request-Id": "mine"})
    assert answer.json["id"] == "cmpl-mine"


def test_only_model_needs_no_name(api):
    with ServerProcess(api, "--model", f"bytes={GOLDEN / 'bytes_untied'}") as server, \
            GatewayProcess(server.address) as gateway:
        answer = gateway.post("/v1/completions", {"prompt": "a", "max_tokens": 1})
        assert answer.status == 200 and answer.json["model"] == "bytes"
