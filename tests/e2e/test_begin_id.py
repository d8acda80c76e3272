"""A model whose texts begin with an id of their own (add_bos_token), through every client."""

import json
import math
import os
import shutil
import subprocess
import sys

import grpc
import pytest
from gateway_process import GatewayProcess
from server_process import GOLDEN, ServerProcess, run_server
from session_client import SessionClient, refused
from test_gateway_chat import MESSAGES, TEMPLATE
from test_gateway_chat import TEXT as CONVERSATION
from test_stateless import stateless

BOS = 0
TEXT = "Once upon a time"
IDS = [byte + 3 for byte in TEXT.encode()]
SAMPLING = dict(seed=5, max_tokens=20, ignore_eos=True)


def begun_model(folder):
    """tests/golden/bytes_untied, whose config.json and fingerprint know nothing of such an id."""
    shutil.copytree(GOLDEN / "bytes_untied", folder)
    (folder / "generation_config.json").write_text(
        json.dumps({"bos_token_id": BOS, "add_bos_token": True, "chat_template": TEMPLATE}))
    return folder


@pytest.fixture(scope="module")
def server(api, tmp_path_factory):
    folder = tmp_path_factory.mktemp("model") / "bytes"
    with ServerProcess(api, "--model", f"bytes={begun_model(folder)}", "--model", f"plain={GOLDEN / 'bytes_untied'}",
                       "--session-dir", tmp_path_factory.mktemp("sessions")) as process:
        yield process


@pytest.fixture(scope="module")
def client(server):
    return SessionClient(server)


@pytest.fixture(scope="module")
def gateway(server):
    with GatewayProcess(server.address) as process:
        yield process


def generated(server, ids):
    return server.generate(ids=ids, **SAMPLING)[0]


def asks(server, text, **fields):
    request = server.request(text, **SAMPLING)
    for name, value in fields.items():
        setattr(request, name, value)
    ids = []
    for response in server.generation.Generate(request):
        ids += [token for delta in response.deltas for token in delta.token_ids]
    return ids


def test_fingerprint_does_not_know_of_it(server):
    begun, plain = server.models.ListModels(server.api.model.ListModelsRequest()).models
    assert begun.add_bos_token and begun.bos_token_id == BOS
    assert not plain.add_bos_token and not plain.HasField("bos_token_id")
    assert begun.fingerprint == plain.fingerprint


def test_text_is_what_the_ids_behind_it_are(server):
    [begun], usage = server.generate(TEXT, **SAMPLING)
    assert [begun] == generated(server, [BOS] + IDS) != generated(server, IDS)
    assert usage.prompt_tokens == 1 + len(TEXT)
    assert asks(server, TEXT, add_special_tokens=False) == generated(server, IDS)[0].ids
    assert asks(server, TEXT, add_special_tokens=True) == begun.ids
    # A model that adds none has none to add.
    assert asks(server, TEXT, add_special_tokens=True, model="plain") == generated(server, IDS)[0].ids
    assert server.generate("", **SAMPLING)[0] == generated(server, [BOS])


def test_echo_and_probabilities_of_the_prompt(server):
    [sample], _ = server.generate(TEXT, echo=True, max_tokens=0)
    assert sample.text == TEXT
    tokens = [token for response in server.stream(TEXT, max_tokens=0, prompt_logprobs=0)
              for token in response.prompt_logprobs]
    assert [token.token.token_id for token in tokens] == [BOS] + IDS
    assert [token.has_logprob for token in tokens] == [False] + [True] * len(IDS)


def test_score_is_of_the_text(server, api):
    def score(**fields):
        return list(server.generation.Score(api.generation.ScoreRequest(model="bytes", **fields)))

    responses = score(text=TEXT)
    tokens, summary = [token for response in responses for token in response.tokens], responses[-1].summary
    assert [token.token.token_id for token in tokens] == IDS and all(token.has_logprob for token in tokens)
    assert (summary.tokens, summary.scored_tokens, summary.bytes) == (len(IDS), len(IDS), len(TEXT))
    assert responses[-1].tokens_done == len(IDS)
    of_ids = score(token_ids=api.session.TokenIds(ids=[BOS] + IDS), summary_only=True)[-1].summary
    assert of_ids.total_logprob == pytest.approx(summary.total_logprob)
    without = score(text=TEXT, add_special_tokens=False, summary_only=True)[-1].summary
    assert (without.tokens, without.scored_tokens, without.bytes) == (len(IDS), len(IDS) - 1, len(TEXT) - 1)
    eos = score(text=TEXT, prepend_eos=True, summary_only=True)[-1].summary
    assert eos.scored_tokens == len(IDS) and eos.total_logprob != pytest.approx(summary.total_logprob)


def transcript(client, session):
    return client.get(session.id, transcript=True)[1]


def test_session_begins_with_it_and_goes_on_without(server, client):
    sessions = [client.create() for _ in range(4)]
    by_text, by_ids, by_append, empty = sessions
    answer = client.generate(by_text.id, text=TEXT, **SAMPLING)
    assert answer.position.position == 1 + len(TEXT) + 20 and answer.usage.prompt_tokens == 1 + len(TEXT)
    client.generate(by_ids.id, ids=[BOS] + IDS, **SAMPLING)
    appended = client.do("AppendSession", session=client.call(by_append.id), text=TEXT)
    assert (appended.tokens, appended.session.position) == (1 + len(TEXT), 1 + len(TEXT))
    client.generate(by_append.id, **SAMPLING)
    # An empty text is the id alone, once.
    assert client.do("AppendSession", session=client.call(empty.id), text="").tokens == 1
    code, message = refused(lambda: client.append(empty.id, ""))
    assert code == grpc.StatusCode.INVALID_ARGUMENT and "text: is empty" in message
    client.generate(empty.id, text=TEXT, **SAMPLING)
    held = [transcript(client, session) for session in sessions]
    assert held[0][:1 + len(IDS)] == [BOS] + IDS and held.count(held[0]) == 4
    text = server.generation.Detokenize(server.api.generation.DetokenizeRequest(token_ids=held[0])).text
    assert text.startswith(TEXT)
    # Forks, what is saved, exported and read again go on alike.
    fork, = client.fork(by_text.id)
    copy = client.import_(client.export(by_text.id))
    again = [client.generate(one.id, text=" and", **SAMPLING).ids for one in (by_text, fork, copy)]
    assert again[0] == again[1] == again[2]


def test_empty_session_begins_without_a_prompt(server, client):
    session = client.create()
    answer = client.generate(session.id, **SAMPLING)
    assert answer.ids == generated(server, [BOS])[0].ids and answer.position.position == 21


def test_rewound_to_nothing_it_begins_again(client):
    session = client.create()
    client.mark(session.id, "empty")
    for _ in range(2):
        client.append(session.id, TEXT)
        assert transcript(client, session) == [BOS] + IDS
        client.rewind(session.id, "empty")


def test_session_that_is_created_without(server, client):
    session = client.create(add_special_tokens=False)
    assert not session.add_special_tokens and client.create().add_special_tokens
    fork, = client.fork(session.id)
    code, message = refused(lambda: client.generate(session.id, **SAMPLING))
    assert code == grpc.StatusCode.INVALID_ARGUMENT and "text: is empty" in message
    assert client.generate(session.id, text=TEXT, **SAMPLING).ids == generated(server, IDS)[0].ids
    appended = client.do("AppendSession", session=client.call(fork.id), text=TEXT, add_special_tokens=True)
    assert appended.tokens == 1 + len(TEXT)


def test_state_of_the_clients_own(server, client):
    first, state = stateless(server, text=TEXT, **SAMPLING)
    assert first.usage.prompt_tokens == 1 + len(TEXT)
    second, _ = stateless(server, state, text=" and", **SAMPLING)
    session = client.create()
    assert first.ids == client.generate(session.id, text=TEXT, **SAMPLING).ids
    assert second.ids == client.generate(session.id, text=" and", **SAMPLING).ids


def test_tokenize(server, api):
    def ids(**fields):
        return list(server.generation.Tokenize(api.generation.TokenizeRequest(**fields)).token_ids)

    assert ids(text=TEXT) == [BOS] + IDS and ids(text="") == [BOS]
    assert ids(text=TEXT, add_special_tokens=False) == IDS == ids(text=TEXT, model="plain")


def test_counts_where_the_context_ends(api, tmp_path):
    model = begun_model(tmp_path / "model")
    with ServerProcess(api, "--model", f"bytes={model}", "--max-model-len", 20, "--max-prompt-tokens", 17) as server:
        [sample], usage = server.generate(TEXT, limit_to_context=True, ignore_eos=True, seed=1)
        assert (usage.prompt_tokens, len(sample.ids)) == (17, 3)
        assert "text: has 18 tokens, must have at most 17" in refused(lambda: server.stream(TEXT + "!", max_tokens=1))[1]


def test_gateway(server, gateway):
    fields = {"temperature": 0, "max_tokens": 5, "ignore_eos": True, "return_token_ids": True}

    def ids(prompt, **more):
        return gateway.complete(prompt, **fields, **more)["choices"][0]["token_ids"]

    assert ids(TEXT) == ids([BOS] + IDS) and ids(TEXT, add_special_tokens=False) == ids(IDS)
    answer = gateway.complete(TEXT, echo=True, logprobs=0, max_tokens=0)
    choice, = answer["choices"]
    assert choice["text"] == TEXT and answer["usage"]["prompt_tokens"] == 1 + len(TEXT)
    assert choice["logprobs"]["tokens"] == [f"token_id:{BOS}", *TEXT]
    assert choice["logprobs"]["text_offset"] == [0, *range(len(TEXT))]
    probabilities = choice["logprobs"]["token_logprobs"]
    assert probabilities[0] is None and None not in probabilities[1:]

    tokenized = gateway.post("/tokenize", {"prompt": TEXT}).json
    assert (tokenized["tokens"], tokenized["count"]) == ([BOS] + IDS, 1 + len(TEXT))
    assert gateway.post("/tokenize", {"prompt": TEXT, "add_special_tokens": False}).json["tokens"] == IDS
    models = {model["id"]: model for model in gateway.get("/v1/models").json["data"]}
    assert (models["bytes"]["add_bos_token"], models["bytes"]["bos_token_id"]) == (True, BOS)
    assert models["plain"]["add_bos_token"] is False
    assert gateway.post("/tokenize", {"prompt": TEXT, "add_special_tokens": 1}).error["param"] == "add_special_tokens"


def test_gateway_chat(gateway):
    chat = {"model": "bytes", "messages": MESSAGES, "max_tokens": 5}
    answer = gateway.post("/v1/chat/completions", chat).json
    assert answer["usage"]["prompt_tokens"] == 1 + len(CONVERSATION)
    answer = gateway.post("/v1/chat/completions", {**chat, "add_special_tokens": False}).json
    assert answer["usage"]["prompt_tokens"] == len(CONVERSATION)


def test_gateway_sessions(gateway):
    def position(create, append):
        session = gateway.post("/v1/sessions", create).json
        assert session["add_special_tokens"] is create.get("add_special_tokens", True)
        path = f"/v1/sessions/{session['id']}"
        appended = gateway.post(f"{path}/append", {"text": TEXT, **append}).json
        return appended["session"]["position"], path

    assert position({}, {})[0] == 1 + len(TEXT) == position({"add_special_tokens": False}, {"add_special_tokens": True})[0]
    assert position({"add_special_tokens": False}, {})[0] == len(TEXT) == position({}, {"add_special_tokens": False})[0]
    _, path = position({}, {})
    snapshot = gateway.get(f"{path}/export").body
    made = gateway.post("/v1/sessions/import?add_special_tokens=false", snapshot)
    assert made.status == 201 and made.json["add_special_tokens"] is False


def test_command_line(server, tvq):
    def call(*arguments, **kwargs):
        done = tvq("--server", server.address, "--json", *arguments, **kwargs)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    sampling = ["--seed", 5, "--max-tokens", 20, "--ignore-eos"]
    begun = call("generate", "--prompt", TEXT, *sampling)["token_ids"]
    assert begun == generated(server, [BOS] + IDS)[0].ids
    without = call("generate", "--prompt", TEXT, "--no-add-special-tokens", *sampling)["token_ids"]
    assert without == generated(server, IDS)[0].ids
    assert call("tokenize", "--text", TEXT)["token_ids"] == [BOS] + IDS
    assert call("tokenize", "--text", TEXT, "--no-add-special-tokens")["token_ids"] == IDS

    scores = [call("score", *flags, input=TEXT.encode())
              for flags in ([], ["--no-eos"], ["--no-add-special-tokens"])]
    assert [score["scored_tokens"] for score in scores] == [len(IDS), len(IDS) - 1, len(IDS) - 1]
    request = server.api.generation.ScoreRequest(text=TEXT, summary_only=True)
    nats = list(server.generation.Score(request))[-1].summary.total_logprob
    assert scores[0]["total_bits"] == pytest.approx(-nats / math.log(2))

    session = call("session", "create", "--no-add-special-tokens")
    assert session["add_special_tokens"] is False
    appended = call("session", "append", session["id"], "--text", TEXT, "--add-special-tokens")
    assert appended["position"] == 1 + len(TEXT)
    assert call("info")["models"][0]["add_bos_token"] is True


def test_pairs_are_scored_behind_it(server, tvq, tmp_path):
    (tmp_path / "pairs.tsv").write_text("ab\tcd\n")
    done = tvq("--server", server.address, "--json", "score", "--pairs", tmp_path / "pairs.tsv")
    score = json.loads(done.stdout.splitlines()[-1])
    request = server.api.generation.ScoreRequest()
    request.token_ids.ids.extend([BOS] + [byte + 3 for byte in b"ab\ncd"])
    tokens = [token for response in server.generation.Score(request) for token in response.tokens]
    assert score["scored_tokens"] == 2
    assert score["bits_per_token"] * 2 * math.log(2) == pytest.approx(
        -sum(token.token.logprob for token in tokens[-2:]))


PYTHON = """
import sys
import tvq

TEXT = "Once upon a time"
IDS = [byte + 3 for byte in TEXT.encode()]
SAMPLING = dict(seed=5, max_tokens=20, ignore_eos=True)

with tvq.Client(sys.argv[1]) as client:
    assert client.model().add_bos_token and client.model().bos_token_id == 0
    assert client.tokenize(TEXT) == [0, *IDS]
    assert client.tokenize(TEXT, add_special_tokens=False) == IDS

    def text(prompt, **more):
        return client.generate(prompt, **more, **SAMPLING).text()

    assert text(TEXT) == text([0, *IDS]) != text(IDS) == text(TEXT, add_special_tokens=False)
    kept = client.generate_with_state(TEXT, add_special_tokens=False, **SAMPLING)
    assert kept.text() == text(IDS)
    assert client.score(TEXT).scored_tokens == len(IDS)
    assert client.score(TEXT, add_special_tokens=False).scored_tokens == len(IDS) - 1

    begun, without = client.create_session(), client.create_session(add_special_tokens=False)
    assert (begun.info().add_special_tokens, without.info().add_special_tokens) == (True, False)
    assert begun.append(TEXT).position == 1 + len(IDS) and without.append(TEXT).position == len(IDS)
    for call in (lambda session: session.append(TEXT, add_special_tokens=False).position,
                 lambda session: session.score(TEXT, add_special_tokens=False).position.position,
                 lambda session: session.generate(TEXT, add_special_tokens=False, max_tokens=0).text() or session.position):
        assert call(client.create_session()) == len(IDS)
    snapshot = b"".join(client.create_session().export())
    assert not client.import_session(snapshot, add_special_tokens=False).info().add_special_tokens
"""


def test_python_package(server, package):
    done = subprocess.run([sys.executable, "-c", PYTHON, server.address], capture_output=True, text=True, timeout=120,
                          env={**os.environ, "PYTHONPATH": str(package)})
    assert done.returncode == 0, done.stderr


def test_an_id_that_is_not_there_is_refused(tmp_path):
    model = begun_model(tmp_path / "model")
    for fields, message in [({"add_bos_token": True}, 'field "add_bos_token" is true'),
                            ({"bos_token_id": 259}, 'field "bos_token_id" is 259; it must be an integer from 0 to 258')]:
        (model / "generation_config.json").write_text(json.dumps(fields))
        done = run_server("--model", f"bytes={model}")
        assert done.returncode != 0 and message in done.stderr
