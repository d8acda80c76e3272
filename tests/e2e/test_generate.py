"""What is generated and scored."""

import math

import numpy as np
import pytest
from golden_file import read
from reliability.crowd import all_at_once
from server_process import GOLDEN

STOP, LENGTH = 1, 2  # FinishReason


def test_greedy_continuation_is_the_references(server):
    golden = read(GOLDEN / "bytes_untied" / "expected.safetensors")
    samples, usage = server.generate(ids=golden["greedy.prompt_tokens"].tolist(), temperature=0, ignore_eos=True,
                                     max_tokens=len(golden["greedy.tokens"]), logprobs=2)
    assert samples[0].ids == golden["greedy.tokens"].tolist()
    assert samples[0].finish == LENGTH
    got = np.array([token.token.logprob for token in samples[0].logprobs])
    # The bound of float32 engines against the golden data.
    np.testing.assert_allclose(got, golden["greedy.logprobs"], atol=1e-4, rtol=0)
    for token in samples[0].logprobs:
        assert token.has_logprob and token.token.rank == 1
        assert len(token.top) == 2 and token.top[0].token_id == token.token.token_id
    assert usage.prompt_tokens == len(golden["greedy.prompt_tokens"])
    assert usage.completion_tokens == len(golden["greedy.tokens"])


@pytest.mark.parametrize("name", ["text", "random", "constant"])
def test_score_is_the_references(server, api, name):
    golden = read(GOLDEN / "bytes_untied" / "expected.safetensors")
    ids, rows = golden[f"{name}.tokens"].tolist(), golden[f"{name}.logprobs"]
    expected = np.array([rows[i][ids[i + 1]] for i in range(len(ids) - 1)])
    request = api.generation.ScoreRequest(model="bytes", logprobs=1)
    request.token_ids.ids.extend(ids)
    tokens, summary = [], None
    for response in server.generation.Score(request):
        tokens += response.tokens
        if response.HasField("summary"):
            summary = response.summary
    assert [t.token.token_id for t in tokens] == ids
    assert [t.has_logprob for t in tokens] == [False] + [True] * (len(ids) - 1)
    np.testing.assert_allclose([t.token.logprob for t in tokens[1:]], expected, atol=1e-4, rtol=0)
    assert summary.tokens == len(ids) and summary.scored_tokens == len(ids) - 1
    # A sum of as many terms, each within the bound.
    assert math.isclose(summary.total_logprob, expected.astype(float).sum(), abs_tol=1e-4 * len(ids))


def test_scored_bytes_are_those_of_the_scored_tokens(start, api):
    """Without the first token, the space of which is the tokenizer's."""
    text = "It was the best of times."
    server = start("--model", f"pieces={GOLDEN / 'pieces_tied'}")
    responses = list(server.generation.Score(api.generation.ScoreRequest(model="pieces", text=text)))
    first, *scored = [token.token.token for response in responses for token in response.tokens]
    summary = responses[-1].summary
    assert summary.scored_tokens == len(scored)
    assert summary.bytes == sum(map(len, scored)) == len(text) - len(first.lstrip())


def test_score_of_a_long_text_with_summary_only(server, api):
    text = "It was the best of times, it was the worst of times. " * 400
    request = api.generation.ScoreRequest(model="bytes", text=text, prepend_eos=True, summary_only=True)
    responses = list(server.generation.Score(request))
    assert all(not response.tokens for response in responses)
    done = [response.tokens_done for response in responses]
    assert done == sorted(done) and done[-1] == len(text)
    summary = responses[-1].summary
    assert (summary.tokens, summary.scored_tokens, summary.bytes) == (len(text), len(text), len(text))
    assert 0 < -summary.total_logprob / len(text) < math.log(259) * 2


def test_text_and_token_ids_are_one_prompt(server, api):
    ids = list(server.generation.Tokenize(api.generation.TokenizeRequest(model="bytes", text="Once")).token_ids)
    assert ids == [b + 3 for b in b"Once"]
    by_text, _ = server.generate("Once", seed=5, max_tokens=30)
    by_ids, _ = server.generate(ids=ids, seed=5, max_tokens=30)
    assert by_text == by_ids
    detokenized = server.generation.Detokenize(api.generation.DetokenizeRequest(model="bytes", token_ids=ids))
    assert detokenized.text == "Once"


def test_samples_of_one_prompt(server):
    samples, usage = server.generate("Once", seed=1, n=4, max_tokens=20, ignore_eos=True)
    assert len(samples) == 4
    assert len({tuple(s.ids) for s in samples}) == 4
    assert all(len(s.ids) == 20 and s.finish == LENGTH for s in samples)
    assert usage.prompt_tokens == 4 and usage.completion_tokens == 80


def test_stop_string_is_not_shown(server):
    free, _ = server.generate("Once", temperature=0, max_tokens=40, ignore_eos=True)
    stop = free[0].text[10:13]
    cut, _ = server.generate("Once", temperature=0, max_tokens=40, ignore_eos=True, stop=[stop])
    assert cut[0].text == free[0].text[:free[0].text.index(stop)]
    assert cut[0].finish == STOP and cut[0].stop == stop
    shown, _ = server.generate("Once", temperature=0, max_tokens=40, ignore_eos=True, stop=[stop],
                               include_stop_str_in_output=True)
    assert shown[0].text == cut[0].text + stop


def test_stop_id_is_named(server):
    free, _ = server.generate("Once", temperature=0, max_tokens=20, ignore_eos=True)
    stop = free[0].ids[8]
    cut, _ = server.generate("Once", temperature=0, max_tokens=20, ignore_eos=True, stop_token_ids=[stop])
    assert cut[0].ids == free[0].ids[:free[0].ids.index(stop)]
    assert cut[0].finish == STOP and cut[0].stop == stop


def test_echo_and_prompt_logprobs(server):
    samples, _ = server.generate("Once", max_tokens=5, temperature=0, echo=True)
    assert samples[0].text.startswith("Once") and len(samples[0].ids) == 5
    prompt = []
    for response in server.stream("Once", max_tokens=1, prompt_logprobs=3):
        prompt += response.prompt_logprobs
    assert [t.token.token for t in prompt] == [b"O", b"n", b"c", b"e"]
    assert [t.has_logprob for t in prompt] == [False, True, True, True]
    assert all(len(t.top) == 3 for t in prompt[1:])


def test_no_tokens_are_the_prompt_alone(server, api):
    golden = read(GOLDEN / "bytes_untied" / "expected.safetensors")
    ids = golden["text.tokens"].tolist()
    scored = [token for response in server.generation.Score(
        api.generation.ScoreRequest(model="bytes", token_ids=api.session.TokenIds(ids=ids), logprobs=2))
        for token in response.tokens]
    responses = list(server.stream(ids=ids, max_tokens=0, prompt_logprobs=2, echo=True))
    assert [token for response in responses for token in response.prompt_logprobs] == scored
    samples, usage = server.generate(ids=ids, max_tokens=0, echo=True, n=2)
    text = server.generation.Detokenize(api.generation.DetokenizeRequest(model="bytes", token_ids=ids)).text
    assert [(sample.text, sample.ids, sample.finish) for sample in samples] == [(text, [], LENGTH)] * 2
    assert (usage.prompt_tokens, usage.completion_tokens) == (len(ids), 0)


def test_empty_prompt_starts_from_the_end_id(server):
    samples, usage = server.generate(max_tokens=5, seed=3, ignore_eos=True)
    from_id, _ = server.generate(ids=[1], max_tokens=5, seed=3, ignore_eos=True)
    assert samples == from_id and usage.prompt_tokens == 1


def test_concurrent_streams_are_each_as_alone(server):
    def ask(i):
        return server.generate("Chapter %d. " % i * (1 + 40 * (i % 5)), seed=i, max_tokens=30 + i, top_p=0.95)[0]

    alone = [ask(i) for i in range(32)]
    together = [None] * 32

    def run(i):
        together[i] = ask(i)

    all_at_once(run, range(32))
    assert together == alone


def test_models_by_name(server, api):
    listed = server.models.ListModels(api.model.ListModelsRequest()).models
    assert [m.name for m in listed] == ["bytes", "pixels"]
    model = server.models.GetModel(api.model.GetModelRequest(name="bytes")).model
    assert model == listed[0]
    assert model.vocab_size == 259 and model.eos_token_id == 1 and model.dtype == "float32"
    assert model.bytes_per_session > 0 and model.max_sessions > 0 and model.tokenizer == "bytes"
    assert not listed[1].HasField("eos_token_id")
    info = server.info()
    assert info.version and info.device and not info.draining and info.uptime.ToNanoseconds() > 0
