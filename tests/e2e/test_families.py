"""Every kind of attention in one server: states that never grow beside one that does."""

import contextlib
import json
import signal

import grpc
import pytest
from metrics_endpoint import Metrics
from server_process import GOLDEN, PATIENCE_SECONDS, ServerProcess, run_server
from session_client import SessionClient, refused

Code = grpc.StatusCode
KINDS = {"vq": "transformer_vq", "linear": "linear_transformer", "softmax": "softmax_transformer", "converted": "llama",
         "grown": "qwen2"}
FOLDERS = {kind: GOLDEN / "families" / f"{kind}_gated_single" for kind in KINDS} | {
    "converted": GOLDEN / "hugging_face" / "converted_llama", "grown": GOLDEN / "hugging_face" / "converted_grow"}
GROWING = ["softmax", "grown"]  # the latter beside a constant part
MODELS = [flag for kind in KINDS for flag in ("--model", f"{kind}={FOLDERS[kind]}")]
# Two pages of a cache, and a chunk of the prompt beyond the first.
TEXT = "Once upon a time there was a miller who had three sons. " * 5
SAMPLING = dict(seed=7, max_tokens=40, ignore_eos=True, logprobs=0)
# With these a converted model is beyond its rings, of at most 128 positions, and the 256 tokens that it was trained with.
LONG = dict(SAMPLING, max_tokens=600)


def page_bytes(longest):
    """docs/state.md: 2 layers, a head of keys of 10 and values of 14, float32, and a list of pages."""
    return 256 * 2 * (10 + 14) * 4 + (min(-(-longest // 256), 128) * 8 + 63) // 64 * 64


def converted_bytes(codes, groups):
    """docs/state.md: heads of 16 in float32, of each group (key/value heads, ring); `codes` with the sink's."""
    def parts(heads, ring):
        return [4 * heads * codes * 16, 4 * heads * codes * 16, 8 * heads * codes, 4 * heads * ring, 4 * heads * ring * 16,
                4 * heads * ring * 16, 4 * heads * 16]
    return sum(-(-part // 64) * 64 for heads, ring in groups for part in parts(heads, ring))


def grown_page_bytes(longest):
    """docs/state.md: two heads of 16 whose keys lie in both forms, float32, and a list of pages."""
    return 256 * 4 * 3 * 16 * 2 + (min(-(-longest // 256), 128) * 8 + 63) // 64 * 64


@pytest.fixture(scope="module")
def families(api):
    with ServerProcess(api, *MODELS, "--max-model-len", 5000) as process:
        yield process


@pytest.fixture
def launch(api):
    """launch(*flags) starts a server of all kinds, stopped at the end of the test."""
    with contextlib.ExitStack() as started:
        yield lambda *flags: started.enter_context(ServerProcess(api, *MODELS, *flags))


def quote(server, model, tokens=0):
    return server.models.GetModel(server.api.model.GetModelRequest(name=model, quoted_tokens=tokens)).model


def bits(sample):
    return sample.ids, [token.token.logprob for token in sample.logprobs]


def outcome(generated):
    return bits(generated.sample)


def complete(server, kind, **sampling):
    (sample,), _ = server.generate(TEXT, model=kind, **sampling)
    return bits(sample)


def test_the_server_says_what_it_serves(families):
    listed = families.models.ListModels(families.api.model.ListModelsRequest()).models
    assert {model.name: model.family for model in listed} == KINDS
    assert {model.name: model.state_grows for model in listed} == {kind: kind in GROWING for kind in KINDS}
    assert all(model.max_position == 5000 for model in listed)


@pytest.mark.parametrize("kind", ["vq", "linear", "converted"])
def test_a_constant_state_is_quoted_alike_for_every_length(families, kind):
    quoted = {quote(families, kind, tokens).bytes_per_session for tokens in [0, 1, 256, 257, 5000]}
    assert len(quoted) == 1 and quoted.pop() > 0
    assert not quote(families, kind).session_sizes and quote(families, kind).bytes_per_token == 0


def test_a_converted_state_is_quoted_by_its_formula(families):
    # A layer with both heads alike, one with others, and one with a head of each kind.
    assert quote(families, "converted").bytes_per_session == converted_bytes(13, [(2, 64), (2, 128), (1, 64), (1, 128)])


def test_a_converted_state_that_grows_is_quoted_by_its_parts(families):
    constant = converted_bytes(10, [(1, 64), (1, 128)])
    for tokens, pages in [(1, 1), (256, 1), (257, 2), (5000, 20)]:
        assert quote(families, "grown", tokens).bytes_per_session == constant + pages * grown_page_bytes(5000)
    assert quote(families, "grown").bytes_per_token == grown_page_bytes(5000) // 256


def test_a_growing_state_is_quoted_by_its_formula(families):
    for tokens, pages in [(1, 1), (256, 1), (257, 2), (5000, 20), (0, 20)]:
        model = quote(families, "softmax", tokens)
        assert model.bytes_per_session == pages * page_bytes(5000)
        assert model.quoted_tokens == (tokens or 5000)
        assert model.max_sessions > 0
        assert model.bytes_per_token == page_bytes(5000) // 256
        assert [(size.tokens, size.bytes) for size in model.session_sizes] == [(1024, 4 * page_bytes(5000))]
    assert quote(families, "softmax", 1).max_sessions > 19 * quote(families, "softmax").max_sessions
    code, message = refused(lambda: quote(families, "softmax", 5001))
    assert code == Code.INVALID_ARGUMENT and "quoted_tokens: is 5001, must be 0 to 5000" in message


def list_pages(pages, page):
    """Pages that a list of more than 128 takes (docs/state.md)."""
    return 1 << (-(-8 * pages // page) - 1).bit_length()


def test_a_quote_grows_with_the_tokens_however_long_the_context_may_be(launch):
    server = launch("--max-model-len", 100_000_000)
    page = quote(server, "softmax", 1).bytes_per_session
    assert page == page_bytes(32_768)
    assert quote(server, "softmax", 100_000_000).bytes_per_session == (390_625 + list_pages(390_625, page)) * page


def test_a_context_of_more_bytes_than_there_are_is_refused(api, tmp_path):
    folder = GOLDEN / "families" / "softmax_gated_single"
    pages = 2**56 // page_bytes(32_768)
    most = (pages - list_pages(pages, page_bytes(32_768))) * 256
    for longest, allowed in [(2**62, False), (most + 1, False), (most, True)]:
        for file in folder.iterdir():
            (tmp_path / file.name).write_bytes(file.read_bytes())
        config = json.loads((folder / "config.json").read_text())
        (tmp_path / "config.json").write_text(json.dumps({**config, "max_position": longest}))
        if allowed:
            with ServerProcess(api, "--model", f"softmax={tmp_path}") as server:
                assert quote(server, "softmax").bytes_per_session == pages * page_bytes(32_768)
                (sample,), _ = server.generate("Once", model="softmax", max_tokens=3, ignore_eos=True)
                assert len(sample.ids) == 3
            continue
        refused_start = run_server("--model", f"softmax={tmp_path}")
        wanted = f'config.json: field "max_position" is {longest}; it must be an integer from 0 to {most}'
        assert refused_start.returncode != 0 and wanted in refused_start.stderr


def test_a_session_takes_what_was_quoted(families):
    client = SessionClient(families)
    for kind in KINDS:
        session = client.create(model=kind)
        for _ in range(3):
            client.append(session.id, TEXT[:200])
            held = client.get(session.id)
            assert held.bytes == quote(families, kind, held.position).bytes_per_session


def test_several_kinds_compute_side_by_side_as_alone(families):
    client = SessionClient(families)
    alone = {kind: outcome(client.generate(client.create(model=kind).id, TEXT, **SAMPLING)) for kind in KINDS}
    streams = {kind: client.stream(client.create(model=kind).id, TEXT, **SAMPLING) for kind in KINDS}
    for kind, stream in streams.items():
        responses = list(stream)
        ids = [i for response in responses for delta in response.deltas for i in delta.token_ids]
        logprobs = [token.token.logprob for response in responses for delta in response.deltas for token in delta.logprobs]
        assert (ids, logprobs) == alone[kind]


@pytest.mark.parametrize("kind", KINDS)
def test_a_long_generation_is_the_same_again_and_beside_others(families, kind):
    expected = complete(families, kind, **LONG)
    assert len(expected[0]) == LONG["max_tokens"]
    assert complete(families, kind, **LONG) == expected
    others = [families.stream(TEXT[i:], model=kind, max_tokens=4000, ignore_eos=True) for i in range(4)]
    for call in others:
        next(call)
    assert complete(families, kind, **LONG) == expected
    for call in others:
        call.cancel()
    families.wait_idle()


@pytest.mark.parametrize("kind", KINDS)
def test_a_text_in_pieces_is_followed_alike(families, kind):
    """docs/state.md, within a bound: what was generated token by token, fed as prompts of several lengths."""
    client = SessionClient(families)
    generated = client.create(model=kind)
    client.generate(generated.id, TEXT, **LONG)
    _, ids = client.get(generated.id, transcript=True)
    assert len(ids) == len(TEXT) + LONG["max_tokens"]

    def following(session):
        return [token.token.logprob for response in client.score(session.id, " and then") for token in response.tokens]

    expected = following(generated)
    for size in [7, 100, len(ids)]:
        fed = client.create(model=kind)
        for begin in range(0, len(ids), size):
            client.append(fed.id, ids=ids[begin:begin + size])
        assert following(fed) == pytest.approx(expected, abs=1e-4)


def test_drafts_change_no_bit(families, launch):
    metrics = Metrics(launch, "--draft-tokens", 3)
    greedy = dict(LONG, temperature=0)  # which repeats itself
    accepted = 0
    for kind in KINDS:
        assert complete(metrics.server, kind, **greedy) == complete(families, kind, **greedy)
        before, accepted = accepted, metrics["tvq_draft_tokens_accepted_total"]
        assert (accepted > before) == (kind != "linear"), "a linear Transformer cannot take tokens back"


def test_a_beginning_that_is_kept_changes_no_bit(families, launch):
    server = launch("--prefix-cache-bytes", 64 << 20)
    for kind in KINDS:
        for _ in range(3):
            server.generate(TEXT, model=kind, max_tokens=1)
        (sample,), usage = server.generate(TEXT, model=kind, **LONG)
        chunk = quote(server, kind).prefill_chunk
        assert usage.cached_tokens == (len(TEXT) - 1) // chunk * chunk > 0
        assert bits(sample) == complete(families, kind, **LONG)


@pytest.mark.parametrize("reads", [[], ["--state-read-dtype", "int8", "--attention-skip-mass", "0.05"], ["--dtype", "int8"]])
def test_sessions_of_every_kind_go_on_after_a_restart(launch, tmp_path, reads):
    flags = ["--session-dir", tmp_path / "sessions", *reads]
    server = launch(*flags)
    client = SessionClient(server)
    sessions, expected = {}, {}
    for kind in KINDS:
        sessions[kind] = client.create(model=kind).id
        client.append(sessions[kind], TEXT)
        client.generate(sessions[kind], seed=1, max_tokens=5, ignore_eos=True)
        copy = client.import_(client.export(sessions[kind]))
        expected[kind] = outcome(client.generate(copy.id, " and", **SAMPLING))
        fork, = client.fork(sessions[kind])
        assert outcome(client.generate(fork.id, " and", **SAMPLING)) == expected[kind]
        client.mark(sessions[kind], "here")
        client.append(sessions[kind], TEXT)
        client.rewind(sessions[kind], "here")
        client.save(sessions[kind])
    server.signal(signal.SIGTERM)
    assert server.process.wait(PATIENCE_SECONDS) == 0
    client = SessionClient(launch(*flags))
    for kind in KINDS:
        assert outcome(client.generate(sessions[kind], " and", **SAMPLING)) == expected[kind]
        client.rewind(sessions[kind], "here")
        assert outcome(client.generate(sessions[kind], " and", **SAMPLING)) == expected[kind]


def test_a_request_is_admitted_by_the_most_it_may_take(launch):
    page = page_bytes(100_000)
    server = launch("--state-memory-bytes", 8 * page, "--max-model-len", 100_000)
    assert quote(server, "softmax").max_sessions == 0
    assert quote(server, "softmax", 2048).max_sessions == 1
    fitting = dict(model="softmax", temperature=0, ignore_eos=True)
    (sample,), _ = server.generate("Once", max_tokens=8 * 256 - 4, **fitting)
    assert len(sample.ids) == 8 * 256 - 4
    code, message = refused(lambda: server.generate("Once", max_tokens=8 * 256 - 3, **fitting))
    assert code == Code.RESOURCE_EXHAUSTED
    assert f"needs 1 x {9 * page} bytes of state for {8 * 256 + 1} tokens" in message
    assert f"the whole budget is {8 * page} bytes" in message
    code, message = refused(lambda: server.generate("Once", max_tokens=100_000, **fitting))
    assert code == Code.INVALID_ARGUMENT and "at most 100000, the model's context length" in message
    # Of a model whose sessions do not grow any length fits.
    call = server.stream("Once", model="linear", max_tokens=90_000, ignore_eos=True)
    next(call)
    call.cancel()


def test_requests_share_the_budget_by_their_most(launch):
    """Three of four pages each find room for two in eight: the third waits, and all are served."""
    server = launch("--state-memory-bytes", 8 * page_bytes(32768))
    asked = dict(model="softmax", max_tokens=1000, temperature=0, ignore_eos=True)
    calls = [server.stream(f"Once {i}", **asked) for i in range(3)]
    for call in calls:
        tokens = [i for response in call for delta in response.deltas for i in delta.token_ids]
        assert len(tokens) == 1000


def test_the_context_has_a_limit_where_states_grow(launch):
    server = launch()
    assert {quote(server, kind).max_position for kind in GROWING} == {32768}
    assert {quote(server, kind).max_position for kind in ["linear", "vq", "converted"]} == {0}
    code, message = refused(lambda: server.generate("Once", model="softmax", max_tokens=32768))
    assert code == Code.INVALID_ARGUMENT and "32768" in message
