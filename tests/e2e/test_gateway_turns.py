"""Conversations on sessions: what a session holds is what the template would write of the whole conversation, whatever
ended the answers, and so what it answers is what the whole conversation, sent at once, would be answered."""

import json
import shutil

import pytest
from gateway_process import GatewayProcess
from server_process import GOLDEN, ServerProcess, wait_until

# The models write few characters here, so that their stop strings come up by themselves.
TEMPLATES = {
    # The stop string has the suffix and the beginning of the next message.
    "beyond": {"user": {"prefix": "#Q:", "suffix": "\n"}, "assistant": {"prefix": "A:", "suffix": "#"}, "stop": ["##"]},
    # It is the suffix.
    "suffix": {"user": {"prefix": "<", "suffix": ">"}, "assistant": {"prefix": "", "suffix": "##"}, "stop": ["##"]},
    # It is a part of the suffix.
    "part": {"user": {"prefix": "Q:", "suffix": "#\n"}, "assistant": {"prefix": "A:", "suffix": "#\n"}, "stop": ["#"]},
    # The next message alone parts two answers.
    "none": {"user": {"prefix": "##", "suffix": ":"}, "assistant": {"prefix": ""}, "stop": ["##"]},
}


def ids(text):
    return [byte + 3 for byte in text.encode()]


def user(content):
    return {"role": "user", "content": content}


def written(model, messages):
    """The conversation as its template has it, up to where the next answer begins."""
    template = TEMPLATES[model]
    roles = [(template[message["role"]], message["content"]) for message in messages]
    return "".join(role.get("prefix", "") + content + role.get("suffix", "") for role, content in roles) \
        + template["assistant"]["prefix"]


@pytest.fixture(scope="module")
def server(api, tmp_path_factory):
    models = []
    for name, template in TEMPLATES.items():
        folder = tmp_path_factory.mktemp("model") / name
        shutil.copytree(GOLDEN / "bytes_untied", folder)
        (folder / "generation_config.json").write_text(json.dumps({"chat_template": template}))
        models += ["--model", f"{name}={folder}"]
    with ServerProcess(api, *models, "--session-dir", tmp_path_factory.mktemp("sessions")) as process:
        yield process


@pytest.fixture(scope="module")
def gateway(server):
    with GatewayProcess(server.address) as process:
        yield process


class Conversation:
    """On a session of the model: what was said, as a client knows it."""

    def __init__(self, gateway, model, session=None, messages=()):
        self.gateway, self.model, self.messages = gateway, model, list(messages)
        self.id = session or gateway.post("/v1/sessions", {"model": model, "keep_transcript": True}).json["id"]

    def ask(self, content, headers=None, **fields):
        """Sends the message alone; the answer's choice."""
        answer = self.gateway.post("/v1/chat/completions", {
            "session_id": self.id, "messages": [user(content)], "seed": 7, "max_tokens": 200, "temperature": 50,
            "allowed_token_ids": ids("ab#"), **fields}, headers=headers)
        assert answer.status == 200, answer.body
        choice = answer.json["choices"][0]
        self.messages += [user(content), choice["message"]]
        return choice

    def get(self, query=""):
        return self.gateway.get(f"/v1/sessions/{self.id}{query}").json

    def post(self, call, **body):
        answer = self.gateway.post(f"/v1/sessions/{self.id}/{call}", body)
        assert answer.status in (200, 201), answer.body
        return answer.json

    def text(self):
        """All that the session holds."""
        got = self.get("?include_transcript=true")
        return bytes(token - 3 for token in got["transcript"]).decode()

    def check(self):
        """Asks once more: the session was told what the whole conversation would be, and answers as if it had."""
        greedy = {"temperature": 0, "max_tokens": 5, "ignore_eos": True, "logprobs": True, "return_token_ids": True,
                  "allowed_token_ids": ids("abcdefghijklmnopqrstuvwxyz ")}
        said = self.messages + [user("And?")]
        on_session = self.ask("And?", **greedy)
        assert self.text() == written(self.model, said) + on_session["message"]["content"]
        at_once = self.gateway.post("/v1/chat/completions", {"model": self.model, "messages": said, **greedy})
        assert at_once.status == 200, at_once.body
        whole = at_once.json["choices"][0]
        assert on_session["token_ids"] == whole["token_ids"] and on_session["message"] == whole["message"]
        got, wanted = ([token["logprob"] for token in choice["logprobs"]["content"]] for choice in (on_session, whole))
        assert got == pytest.approx(wanted, abs=1e-4)  # prefill and decode agree within a bound (docs/state.md)


@pytest.fixture(params=TEMPLATES)
def talk(gateway, request):
    return Conversation(gateway, request.param)


ENDS = {
    "stop string": ("stop", {}),
    "end of sequence": ("stop", {"allowed_token_ids": [1, *ids("ab")], "logit_bias": {"1": 100}, "min_tokens": 3}),
    "stop id": ("stop", {"allowed_token_ids": ids("ab"), "stop_token_ids": ids("b")}),
    "max_tokens": ("length", {"allowed_token_ids": ids("ab"), "max_tokens": 3}),
}


@pytest.mark.parametrize("end", ENDS)
def test_a_turn_follows_an_answer_however_that_ended(talk, end):
    finish_reason, fields = ENDS[end]
    for content in ("Who?", "Why?"):
        choice = talk.ask(content, **fields)
        assert choice["finish_reason"] == finish_reason
        assert TEMPLATES[talk.model]["stop"][0] not in choice["message"]["content"]
    assert any(message["content"] for message in talk.messages[1::2])
    talk.check()


def test_what_looks_like_half_a_stop_string_is_text(gateway):
    talk = Conversation(gateway, "beyond")
    choice = talk.ask("Who?", allowed_token_ids=ids("#"), max_tokens=1)
    assert (choice["finish_reason"], choice["message"]["content"]) == ("length", "#")
    talk.check()


def test_a_turn_follows_an_answer_that_the_client_stopped(talk):
    # The first answer is no part of a conversation that the client knows.
    stream = talk.gateway.stream("/v1/chat/completions", model=talk.model, session_id=talk.id, messages=[user("Who?")],
                                 max_tokens=100_000_000, allowed_token_ids=ids("ab"), commit_on_cancel=True)
    next(stream)
    stream.hang_up()
    wait_until(lambda: talk.get()["version"] == 2, "the session kept what came")
    begin = written(talk.model, [user("Who?")])
    assert talk.text().startswith(begin)
    talk.messages = [user("Who?"), {"role": "assistant", "content": talk.text()[len(begin):]}]
    talk.check()


def test_an_answer_that_was_not_kept_leaves_no_trace(talk):
    talk.ask("Who?")
    stream = talk.gateway.stream("/v1/chat/completions", model=talk.model, session_id=talk.id, messages=[user("Hm?")],
                                 max_tokens=100_000_000, allowed_token_ids=ids("ab"))
    next(stream)
    stream.hang_up()
    wait_until(lambda: talk.gateway.post(f"/v1/sessions/{talk.id}/marks", {"name": "free"}).status < 300,
               "the session is free")
    talk.check()


def test_what_was_appended_is_closed_once(talk):
    suffix = TEMPLATES[talk.model]["assistant"].get("suffix", "")
    talk.ask("Who?", allowed_token_ids=ids("ab"), max_tokens=3)
    talk.post("append", text=" and")
    talk.messages[-1]["content"] += " and"
    talk.post("append", text=f" more{suffix}")
    talk.messages[-1]["content"] += " more"
    talk.check()


def test_a_text_without_an_answer_is_not_closed(talk):
    talk.post("append", text="Be kind. ")
    talk.ask("Who?")
    assert talk.text().startswith("Be kind. " + written(talk.model, talk.messages[:1]) + talk.messages[1]["content"])


@pytest.mark.parametrize("end", ENDS)
def test_forks_and_marks_know_how_their_answers_ended(talk, end):
    talk.ask("Who?", **ENDS[end][1])
    talk.post("marks", name="here")
    here = list(talk.messages)
    fork = Conversation(talk.gateway, talk.model, talk.post("fork")["data"][0]["id"], here)
    # Each goes on differently from what was there.
    talk.ask("Why?", allowed_token_ids=ids("ab"), max_tokens=2)
    fork.check()
    marked = Conversation(talk.gateway, talk.model, talk.post("fork", mark="here")["data"][0]["id"], here)
    marked.check()
    talk.check()
    talk.post("rewind", mark="here")
    talk.messages = here
    talk.check()


def test_a_snapshot_knows_how_its_answer_ended(talk):
    talk.ask("Who?")
    snapshot = talk.gateway.get(f"/v1/sessions/{talk.id}/export").body
    made = talk.gateway.post(f"/v1/sessions/import?model={talk.model}", snapshot).json["id"]
    Conversation(talk.gateway, talk.model, made, talk.messages).check()


def test_a_message_that_is_sent_again_is_answered_once(talk):
    talk.ask("Who?")
    first = talk.ask("Why?", headers={"Idempotency-Key": "k"})
    position = talk.get()["position"]
    again = Conversation(talk.gateway, talk.model, talk.id).ask("Why?", headers={"Idempotency-Key": "k"})
    assert again == first and talk.get()["position"] == position
    talk.check()


def test_the_command_line_takes_turns_alike(talk, tvq):
    """Its lines are messages, on a session that the gateway began and goes on with."""
    talk.ask("Who?")
    done = tvq("--server", talk.gateway.server, "session", "chat", talk.id, "--json", "--max-tokens", 3,
               "--allowed-token-ids", ",".join(map(str, ids("ab"))), input=b"Why?\n")
    assert done.returncode == 0, done.stderr
    talk.messages += [user("Why?"), {"role": "assistant", "content": json.loads(done.stdout)["text"]}]
    talk.check()
