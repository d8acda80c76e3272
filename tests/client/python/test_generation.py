"""Client: generation, scoring, tokens, models."""

import math
import re
import threading
import time

import pytest


def test_deltas_and_text(client, fake, tvq):
    generation = client.generate("ab", max_tokens=3)
    deltas = list(generation)
    assert [d.text for d in deltas] == ["A", "B", "A"] and deltas[0].token_ids == (68,)
    assert [d.finish_reason for d in deltas] == [None, None, "length"]
    assert generation.usage == tvq.Usage(prompt_tokens=2, cached_tokens=1, completion_tokens=3, reread_tokens=0)
    assert generation.position is None
    assert generation.text() == "ABA"  # also after the deltas were taken
    assert client.generate([100, 101], max_tokens=2).text() == "AB"


def test_a_conversation_is_given_as_it_is(client, fake, tvq):
    messages = [{"role": "user", "content": "Grüße"}]
    conversation = tvq.Conversation(messages, tools=[{"b": 1, "a": 2}], template_kwargs={"enable_thinking": False},
                                    template_name="tool_use", add_generation_prompt=False)
    assert client.generate(conversation, max_tokens=2).text() == "GR"
    asked = fake.requests[-1].conversation
    assert asked.messages == '[{"role": "user", "content": "Grüße"}]' and asked.tools == '[{"b": 1, "a": 2}]'
    assert asked.template_kwargs == '{"enable_thinking": false}' and asked.template_name == "tool_use"
    assert asked.HasField("add_generation_prompt") and not asked.add_generation_prompt
    assert client.create_session().generate(tvq.Conversation(messages), max_tokens=1).text() == "G"
    assert not fake.requests[-1].conversation.HasField("add_generation_prompt") and not fake.requests[-1].conversation.tools
    assert client.tokenize(tvq.Conversation(messages)) == []
    for call in (client.score, client.encode):
        with pytest.raises(TypeError, match="must be a str or token ids"):
            call(conversation)
    with pytest.raises(TypeError, match="messages: cannot be written as JSON"):
        client.generate(tvq.Conversation([{"role": object()}]))


def test_bytes_are_neither_text_nor_ids(client):
    session = client.create_session()
    for call in (client.generate, client.score, client.encode, client.tokenize, session.append, session.generate):
        with pytest.raises(TypeError):
            call(b"Hi")


@pytest.mark.parametrize("arguments, error, words", [
    ({"max_tokens": "5"}, TypeError, "max_tokens: must be an int, not '5'"),
    ({"max_tokens": 1.5}, TypeError, "max_tokens: must be an int, not 1.5"),
    ({"max_tokens": 2**31}, ValueError, "max_tokens: is 2147483648, must be from -2147483648 to 2147483647"),
    ({"seed": 2**64}, ValueError, "seed: is 18446744073709551616, must be from 0 to"),
    ({"seed": True}, TypeError, "seed: must be an int, not True"),
    ({"temperature": "hot"}, TypeError, "temperature: must be a number, not 'hot'"),
    ({"echo": "yes"}, TypeError, "echo: must be True or False, not 'yes'"),
    ({"stop": 5}, TypeError, "stop: must be a sequence, not 5"),
    ({"stop": ["a", 5]}, TypeError, "stop[1]: must be a str, not 5"),
    ({"stop": b"x"}, TypeError, "stop: must be a sequence, not b'x'"),
    ({"stop_token_ids": 5}, TypeError, "stop_token_ids: must be a sequence, not 5"),
    ({"stop_token_ids": [1, "a"]}, TypeError, "stop_token_ids[1]: must be an int, not 'a'"),
    ({"allowed_token_ids": [2**31]}, ValueError, "allowed_token_ids[0]: is 2147483648"),
    ({"logit_bias": [5]}, TypeError, "logit_bias: must be a mapping, not [5]"),
    ({"logit_bias": {"5": 1}}, TypeError, "logit_bias: a key: must be an int, not '5'"),
    ({"logit_bias": {5: "x"}}, TypeError, "logit_bias[5]: must be a number, not 'x'"),
    ({"model": 5}, TypeError, "model: must be a str, not 5"),
    ({"priority": "x"}, TypeError, "priority: must be an int, not 'x'"),
    ({"add_special_tokens": "x"}, TypeError, "add_special_tokens: must be True or False, not 'x'"),
    ({"prompt": 5}, TypeError, "prompt: must be a str or token ids, not 5"),
    ({"prompt": None}, TypeError, "prompt: must be a str or token ids, not None"),
    ({"prompt": ["a"]}, TypeError, "prompt[0]: must be an int, not 'a'"),
    ({"prompt": [1, 2.5]}, TypeError, "prompt[1]: must be an int, not 2.5"),
    ({"prompt": {"a": 1}}, TypeError, "prompt: must be a str or token ids, not {'a': 1}"),
    ({"prompt": "ab\udcff"}, ValueError, "prompt: has half a surrogate pair at index 2"),
])
def test_an_argument_that_does_not_fit_is_named(client, arguments, error, words):
    with pytest.raises(error, match=f"^{re.escape(words)}"):
        client.generate(**{"prompt": "a", **arguments})


def test_arguments_of_other_calls_are_named(client):
    for call, words in [(lambda: client.score(5), "text: must be a str or token ids"),
                        (lambda: client.score("a", logprobs="x"), "logprobs: must be an int"),
                        (lambda: client.encode(None), "text: must be a str or token ids"),
                        (lambda: client.encode("a", pooling=[]), "pooling: must be \"per_token\" or \"mean\", not []"),
                        (lambda: client.tokenize(5), "text: must be a str, not 5"),
                        (lambda: client.detokenize("12"), "token_ids: must be a sequence, not '12'"),
                        (lambda: client.detokenize([1, "2"]), "token_ids[1]: must be an int, not '2'"),
                        (lambda: client.model(5), "name: must be a str, not 5"),
                        (lambda: client.sessions(page_size="x"), "page_size: must be an int, not 'x'"),
                        (lambda: client.session(None), "session_id: must be a str, not None"),
                        (lambda: client.create_session(label=5), "label: must be a str, not 5"),
                        (lambda: client.create_session(ttl="5"), "ttl: must be a number of seconds or a timedelta, not '5'"),
                        (lambda: client.create_session(ttl=-1), "ttl: is -1.0 seconds, must be from 0 to"),
                        (lambda: client.create_session(ttl=1e300), "ttl: is 1e+300 seconds, must be from 0 to"),
                        (lambda: client.create_session(durability="tape"), "durability: must be \"memory\" or \"disk\", not 'tape'"),
                        (lambda: client.admin.drain(timeout=-1), "timeout: is -1.0 seconds"),
                        (lambda: client.import_session("a.snapshot"), "snapshot: must be bytes, pieces of them, or a pathlib.Path"),
                        (lambda: client.import_session(None), "snapshot: must be bytes"),
                        (lambda: client.import_session(["a"]), "snapshot: a piece must be bytes, not 'a'")]:
        with pytest.raises((TypeError, ValueError), match=f"^{re.escape(words)}"):
            call()


def test_numbers_of_numpy_are_numbers(client, fake):
    numpy = pytest.importorskip("numpy")
    ids = numpy.array([100, 101], dtype=numpy.int64)
    assert client.generate(ids, max_tokens=numpy.int32(2), temperature=numpy.float32(0.5), echo=numpy.bool_(False)).text() == "AB"
    assert fake.requests[-1].sampling.temperature == 0.5


def test_samples(client, fake):
    from tvq.v1 import generation_pb2

    def two(request, context):
        for index, text in ((1, "x"), (0, "y"), (1, "z")):
            yield generation_pb2.GenerateResponse(deltas=[{"index": index, "text": text}])
        last = generation_pb2.SampleDelta(index=0, finish_reason=generation_pb2.FINISH_REASON_STOP, stop_string="end")
        yield generation_pb2.GenerateResponse(deltas=[last], usage={"completion_tokens": 3})

    fake.Generate = two
    first, second = client.generate("a", n=2).samples()
    assert (first.text, first.finish_reason, first.stop_reason) == ("y", "stop", "end")
    assert (second.text, second.finish_reason) == ("xz", None)


def test_logprobs(client, fake):
    from tvq.v1 import generation_pb2
    none = generation_pb2.TokenLogprobs(token={"token_id": 5})
    some = generation_pb2.TokenLogprobs(token={"token_id": 6, "token": b"x", "logprob": -0.5, "rank": 2},
                                        has_logprob=True, top=[{"token_id": 7, "logprob": -0.25, "rank": 1}])

    def answer(request, context):
        yield generation_pb2.GenerateResponse(prompt_logprobs=[none, some])
        yield generation_pb2.GenerateResponse(deltas=[{"text": "x", "logprobs": [some]}])

    fake.Generate = answer
    generation = client.generate("a", logprobs=1, prompt_logprobs=0)
    delta = next(generation)
    assert (delta.logprobs[0].logprob, delta.logprobs[0].rank, delta.logprobs[0].top[0].token_id) == (-0.5, 2, 7)
    assert [t.logprob for t in generation.prompt_logprobs] == [None, -0.5]


def test_sampling_parameters(client, fake, tvq):
    client.generate("a", max_tokens=1, temperature=0, stop="x", logit_bias={5: -1.5}, seed=7, stop_token_ids=[1, 2],
                    priority=3, model="fake").text()
    request = fake.requests[-1]
    params = request.sampling
    assert params.HasField("temperature") and params.temperature == 0 and not params.HasField("top_p")
    assert list(params.stop) == ["x"] and params.logit_bias[5] == -1.5 and list(params.stop_token_ids) == [1, 2]
    assert (request.priority, request.model, params.seed) == (3, "fake", 7)
    with pytest.raises(TypeError, match="temprature"):
        client.generate("a", temprature=1)
    assert {f.name for f in type(params).DESCRIPTOR.fields} == tvq.Sampling.__annotations__.keys()


def test_seeds_may_be_negative(client, fake):
    for seed, bits in ((-1, 2**64 - 1), (-2**63, 2**63), (2**64 - 1, 2**64 - 1)):
        client.generate("a", max_tokens=1, seed=seed).text()
        assert fake.requests[-1].sampling.seed == bits
    with pytest.raises(ValueError):
        client.generate("a", max_tokens=1, seed=-2**63 - 1)


def test_cancel_ends_the_iteration(client, fake):
    fake.token_seconds = 0.005
    generation = client.generate("ab", max_tokens=1_000_000)
    taken = ""
    for delta in generation:
        taken += delta.text
        if len(taken) == 5:
            generation.cancel()
    assert taken.startswith("ABABA")
    with client.generate("ab", max_tokens=1_000_000) as abandoned:
        next(abandoned)
    list(abandoned)  # what had come already may still be read, then it ends
    other = client.generate("ab", max_tokens=1_000_000)
    threading.Timer(0.1, other.cancel).start()
    other.text()


def test_score(client, fake):
    score = client.score("abcd")
    assert (score.tokens, score.bytes, score.total_logprob, score.position) == (4, 4, -4, None)
    assert abs(score.bits_per_byte - 1.4426950408889634) < 1e-12 and score.bits_per_token == score.bits_per_byte
    assert score.token_logprobs == () and fake.requests[-1].summary_only and not fake.requests[-1].prepend_eos
    tokens = client.score("abcd", logprobs=0, prepend_eos=True).token_logprobs
    assert [t.token for t in tokens] == [b"a", b"b", b"c", b"d"] and tokens[0].logprob == -1
    assert fake.requests[-1].prepend_eos and not fake.requests[-1].allow_unknown
    client.score("abcd", allow_unknown=True)
    assert fake.requests[-1].allow_unknown


def test_bits_of_nothing_are_no_number(client, fake):
    from tvq.v1 import generation_pb2
    fake.Score = lambda request, context: iter([generation_pb2.ScoreResponse(summary={"tokens": 1})])
    score = client.score("a")
    assert math.isnan(score.bits_per_byte) and math.isnan(score.bits_per_token)


def test_special_tokens_are_asked_for_as_the_caller_says(client, fake):
    session = client.create_session()
    calls = [lambda **said: client.generate("a", max_tokens=1, **said).text(),
             lambda **said: client.score("a", **said), lambda **said: client.tokenize("a", **said),
             lambda **said: session.append("a", **said), lambda **said: session.score("a", **said),
             lambda **said: session.generate("a", max_tokens=1, **said).text(),
             lambda **said: client.create_session(**said)]
    for call in calls:
        call()
        assert not fake.requests[-1].HasField("add_special_tokens")
        for said in (False, True):
            call(add_special_tokens=said)
            asked = fake.requests[-1]
            assert asked.HasField("add_special_tokens") and asked.add_special_tokens is said


def test_encode(client, fake):
    encoding = client.encode("ab", model="fake")
    assert (encoding.tokens, encoding.width, encoding.vectors) == (2, 2, [[97, 48.5], [98, 49]])
    assert fake.requests[-1].model == "fake"
    with memoryview(encoding.values) as values:
        assert (values.format, list(values)) == ("f", [97, 48.5, 98, 49])
    mean = client.encode([100, 101], pooling="mean")
    assert (mean.tokens, mean.width, mean.vectors) == (2, 2, [[97.5, 48.75]])
    with pytest.raises(ValueError, match="per_token"):
        client.encode("ab", pooling="max")


def test_tokens_and_models(client, tvq):
    assert client.tokenize("aé") == [100, 198, 172]
    assert client.detokenize([100, 101]) == "ab"
    assert [m.name for m in client.models()] == ["fake"]
    model = client.model()
    assert (model.fingerprint, model.eos_token_id, model.bos_token_id) == ("f1ngerpr1nt", 1, None)
    assert client.server_info().device == "none"
    with pytest.raises(tvq.NotFound):
        client.model("other")


def test_state_stays_with_the_client(client, fake, tvq):
    first = client.generate_with_state("ab", max_tokens=3)
    assert first.text() == "ABA" and first.usage is not None
    state = first.state()
    second = client.generate_with_state("c", state, max_tokens=1)
    assert next(second).text == "C"
    third = client.generate_with_state("", iter([state[:9], b"", state[9:]]), max_tokens=1)
    assert third.state() != state and fake.sessions == {}
    with pytest.raises(tvq.InvalidArgument, match="snapshot"):
        client.generate_with_state("c", b"no snapshot").text()


def test_state_that_fails_to_be_read(client, tvq):
    def broken():
        yield b"fake snapshot "
        raise OSError("disk on fire")

    with pytest.raises(OSError, match="disk on fire"):
        client.generate_with_state("c", broken()).text()


def test_timeout(tvq, fake):
    fake.token_seconds = 0.05
    with tvq.Client(fake.address, timeout=0.3) as client, pytest.raises(tvq.DeadlineExceeded):
        client.generate("a", max_tokens=1_000_000).text()
    with tvq.Client(fake.address) as client, pytest.raises(tvq.DeadlineExceeded):
        client.generate("a", max_tokens=1_000_000, timeout=0.3).text()


def test_slow_reader_is_no_problem(client):
    generation = client.generate("ab", max_tokens=50)
    next(generation)
    time.sleep(0.05)
    assert len(generation.text()) == 50
