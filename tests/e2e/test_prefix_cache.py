"""Prompts that begin alike: what is computed once is not computed again, and changes no bit."""

import hashlib

import pytest
from session_client import SessionClient

CHUNK_TEXT = "It was the best of times, it was the worst of times, it was the age of wisdom. "
BIG = 64 << 20


def prefilled(server, metadata=None):
    info = server.info(metadata)
    return info.prefill_tokens_computed, info.prefill_tokens_reused


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
    without = start()
    expected, usage = ask(without, prompt)
    assert usage.cached_tokens == 0
    server = start("--prefix-cache-bytes", BIG)
    seen = []
    for _ in range(4):
        before = prefilled(server)
        sample, usage = ask(server, prompt)
        assert sample == expected
        assert [t.token.logprob for t in sample.logprobs] == [t.token.logprob for t in expected.logprobs]
        after = prefilled(server)
        computed, reused = after[0] - before[0], after[1] - before[1]
        assert usage.prompt_tokens == len(prompt)
        assert reused == usage.cached_tokens == len(prompt) - computed
        seen.append(usage.cached_tokens)
    assert seen[0] == 0
    assert seen[-1] == 5 * chunk


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
    server = start("--prefix-cache-bytes", 2 * bytes_each)
    prompts = [f"{i}. " + prompt_of(2 * chunk) for i in range(6)]
    expected = [ask(server, prompt)[0] for prompt in prompts]
    for _ in range(2):
        for prompt, sample in zip(prompts, expected):
            assert ask(server, prompt)[0] == sample


def test_sessions_and_prefixes_do_not_mix(start, chunk):
    """A session never starts from a prefix: its own calls alone decide its bits."""
    server = start("--prefix-cache-bytes", BIG)
    client = SessionClient(server)
    prompt = prompt_of(3 * chunk)
    for _ in range(3):
        ask(server, prompt)
    session = client.create()
    assert client.generate(session.id, prompt, max_tokens=1).usage.cached_tokens == 0
