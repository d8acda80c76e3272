"""Prompts that begin alike: what is computed once is not computed again, and changes no bit."""

import hashlib

import pytest
from metrics_endpoint import free_port, scrape
from server_process import GOLDEN, run_server
from session_client import SessionClient

CHUNK_TEXT = "It was the best of times, it was the worst of times, it was the age of wisdom. "
BIG = 64 << 20


class Counted:
    """A server with a cache of so many bytes, and what its metrics say."""

    def __init__(self, start, cache_bytes):
        self.port = free_port()
        self.server = start("--prefix-cache-bytes", cache_bytes, "--metrics-port", self.port)

    def __getitem__(self, name):
        return scrape(self.port)[f"tvq_{name}"]

    def ask(self, prompt):
        """The answer, cached_tokens of its usage, and the tokens that were computed for it."""
        before = self["prefill_tokens_computed_total"], self["prefill_tokens_reused_total"]
        sample, usage = ask(self.server, prompt)
        assert usage.prompt_tokens == len(prompt)
        assert self["prefill_tokens_reused_total"] - before[1] == usage.cached_tokens
        return sample, usage.cached_tokens, self["prefill_tokens_computed_total"] - before[0]


def same(sample, expected):
    return sample == expected and ([t.token.logprob for t in sample.logprobs] ==
                                   [t.token.logprob for t in expected.logprobs])


@pytest.fixture
def chunk(api, start):
    return start().models.GetModel(api.model.GetModelRequest()).model.prefill_chunk


def prompt_of(tokens):
    return (CHUNK_TEXT * (tokens // len(CHUNK_TEXT) + 1))[:tokens]


def ask(server, prompt, **kwargs):
    (sample,), usage = server.generate(prompt, seed=1, max_tokens=20, ignore_eos=True, logprobs=0, **kwargs)
    return sample, usage


def test_a_prompt_that_comes_again_is_not_computed_again(start, chunk):
    prompt = prompt_of(5 * chunk + 3)
    expected, _ = ask(start(), prompt)
    counted, seen = Counted(start, BIG), []
    for _ in range(4):
        sample, cached, computed = counted.ask(prompt)
        assert same(sample, expected)
        assert cached + computed == len(prompt)
        seen.append(cached)
    assert seen[0] == 0
    assert seen[-1] == 5 * chunk


def test_without_a_cache_all_is_computed(start, chunk):
    counted, prompt = Counted(start, 0), prompt_of(5 * chunk + 3)
    for _ in range(3):
        _, cached, computed = counted.ask(prompt)
        assert (cached, computed) == (0, len(prompt))
    assert counted["prefixes"] == 0


def test_only_what_is_alike_is_reused(start, chunk):
    server = start("--prefix-cache-bytes", BIG)
    prompt = prompt_of(4 * chunk)
    for _ in range(3):
        ask(server, prompt)
    other = prompt[:2 * chunk + 1] + "?" + prompt[2 * chunk + 2:]
    expected, _ = ask(start(), other)
    sample, usage = ask(server, other)
    assert sample == expected
    assert usage.cached_tokens <= 2 * chunk


def test_prompt_logprobs_are_all_there(start, chunk):
    server = start("--prefix-cache-bytes", BIG)
    prompt = prompt_of(3 * chunk)
    for _ in range(3):
        ask(server, prompt)
    responses = list(server.stream(prompt, max_tokens=1, prompt_logprobs=0))
    assert sum(len(r.prompt_logprobs) for r in responses) == len(prompt)


def test_keys_do_not_share_unless_the_operator_does(start, chunk, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("".join(f"{name} {hashlib.sha256(name.encode()).hexdigest()}\n" for name in ["ann", "bob"]))
    shared = prompt_of(3 * chunk) + "Shared."
    (tmp_path / "shared").write_text(shared)
    server = start("--api-key-file", keys, "--prefix-cache-bytes", BIG, "--shared-prompt-file", tmp_path / "shared")

    def cached(name, prompt):
        request = server.request(prompt, max_tokens=1)
        metadata = [("authorization", f"Bearer {name}")]
        return list(server.generation.Generate(request, metadata=metadata))[-1].usage.cached_tokens

    private = "Mine. " + prompt_of(3 * chunk)
    counts = [cached("ann", private) for _ in range(3)]
    assert counts[0] == 0 and counts[-1] > 0
    assert cached("bob", private) == 0
    for _ in range(3):
        cached("ann", shared)
    assert cached("bob", shared) > 0


def test_the_budget_holds(start, chunk):
    server = start()
    bytes_each = server.models.GetModel(server.api.model.GetModelRequest()).model.bytes_per_session
    counted = Counted(start, 3 * bytes_each - 1)  # two fit
    prompts = [f"{i}. " + prompt_of(2 * chunk) for i in range(6)]
    expected = [ask(server, prompt)[0] for prompt in prompts]
    for _ in range(2):
        for prompt, sample in zip(prompts, expected):
            assert same(counted.ask(prompt)[0], sample)
            assert counted["prefixes"] <= 2
            kept = scrape(counted.port)
            assert sum(kept[f'tvq_state_bytes{{tier="{tier}"}}'] for tier in ("device", "host")) <= 2 * bytes_each
    # What is kept is used: the last prompt's beginning is still there.
    assert counted["prefixes"] == 2
    assert counted.ask(prompts[-1])[1] == 2 * chunk


def test_a_session_may_begin_with_a_prefix_and_its_bits_are_the_same(start, chunk):
    prompt, answers = prompt_of(3 * chunk) + "x", []
    for size, cached in [(0, 0), (BIG, 3 * chunk)]:
        server = start("--prefix-cache-bytes", size)
        client = SessionClient(server)
        for _ in range(3):
            ask(server, prompt)
        appended, generated = client.create(), client.create()
        client.append(appended.id, prompt)
        first = client.generate(generated.id, prompt, max_tokens=5, ignore_eos=True, seed=1, logprobs=0)
        assert first.usage.cached_tokens == cached
        seconds = [client.generate(session.id, prompt, max_tokens=5, ignore_eos=True, seed=1, logprobs=0)
                   for session in (appended, generated)]
        # Only what begins a context can.
        assert [second.usage.cached_tokens for second in seconds] == [0, 0]
        answers.append([(one.ids, [t.token.logprob for t in one.sample.logprobs]) for one in [first, *seconds]])
    assert answers[0] == answers[1]


def test_a_shared_prompt_that_cannot_be_kept_is_told_of_by_its_flag(tmp_path):
    (tmp_path / "text").write_text("Once")
    (tmp_path / "bytes").write_bytes(b"Once \xff")
    model = ["--model", f"bytes={GOLDEN / 'bytes_untied'}", "--model", f"pixels={GOLDEN / 'pixels_abs'}"]
    nowhere = run_server(*model, "--shared-prompt-file", tmp_path / "text")
    assert nowhere.returncode == 1
    assert "--prefix-cache-bytes: is 0, must be above it with --shared-prompt-file\n" in nowhere.stderr
    for file, why in [("text", 'model "pixels" cannot read number 1, which every model must: "Once" at byte'),
                      ("bytes", 'model "bytes" cannot read number 1, which every model must: text is not')]:
        refused = run_server(*model, "--prefix-cache-bytes", BIG, "--shared-prompt-file", tmp_path / file)
        assert refused.returncode == 1 and f"--shared-prompt-file: the {why}" in refused.stderr, refused.stderr
