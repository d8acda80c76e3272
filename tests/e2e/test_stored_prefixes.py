"""Common prompts whose states outlive the server: the next one, and others of the same Redis, do not compute them again."""

import hashlib
import signal

import pytest
from metrics_endpoint import Metrics
from server_process import PATIENCE_SECONDS, wait_until
from test_prefix_cache import BIG, ask, chunk, prompt_of, same  # noqa: F401
from test_shared_redis import redis  # noqa: F401
from test_snapshots import kill


class Kept(Metrics):
    """A server that keeps common prompts, and what its metrics say."""

    def __init__(self, start, *flags):
        super().__init__(start, "--prefix-cache-bytes", BIG, *flags)

    def wait_stored(self, count):
        wait_until(lambda: self["tvq_stored_prefixes"] == count, f"{count} prefixes are stored")

    def stop(self):
        self.server.signal(signal.SIGTERM)
        assert self.server.process.wait(PATIENCE_SECONDS) == 0

    def wait_kept(self):
        wait_until(lambda: self["tvq_prefixes"] > 0, "a prefix is kept")


@pytest.fixture
def prompt(chunk):  # noqa: F811
    return prompt_of(5 * chunk + 3)


@pytest.fixture
def expected(start, prompt):
    return ask(start(), prompt)[0]


def ask_twice(kept, prompt, expected, first=0):
    for cached in (first, len(prompt) - 3):
        sample, usage = ask(kept.server, prompt)
        assert same(sample, expected)
        assert usage.cached_tokens == cached
        kept.wait_kept()


def test_the_next_server_begins_where_the_last_one_read(start, prompt, expected, tmp_path):
    last = Kept(start, "--session-dir", tmp_path)
    ask_twice(last, prompt, expected)
    last.stop()
    after_stop = Kept(start, "--session-dir", tmp_path)
    ask_twice(after_stop, prompt, expected, first=len(prompt) - 3)
    assert after_stop["tvq_stored_prefix_hits_total"] == 1  # then memory has it
    kill(after_stop.server)
    after_kill = Kept(start, "--session-dir", tmp_path)
    ask_twice(after_kill, prompt, expected, first=len(prompt) - 3)


def test_what_was_stored_survives_a_kill(start, prompt, expected, tmp_path):
    last = Kept(start, "--session-dir", tmp_path)
    ask_twice(last, prompt, expected)
    last.wait_stored(1)
    assert 0 < last["tvq_stored_prefix_bytes"] <= last["tvq_stored_prefix_budget_bytes"]
    kill(last.server)
    ask_twice(Kept(start, "--session-dir", tmp_path), prompt, expected, first=len(prompt) - 3)


def test_a_part_that_is_alike_is_read_to_the_last_boundary(start, chunk, tmp_path):  # noqa: F811
    system = prompt_of(3 * chunk + 5)
    last = Kept(start, "--session-dir", tmp_path)
    for question in ("first", "second"):
        ask(last.server, system + question * chunk)
    last.stop()
    other = system + "third" * chunk
    sample, usage = ask(Kept(start, "--session-dir", tmp_path).server, other)
    assert usage.cached_tokens == 3 * chunk
    assert same(sample, ask(start(), other)[0])


def test_nothing_is_stored_without_bytes_for_it(start, prompt, expected, tmp_path):
    last = Kept(start, "--session-dir", tmp_path, "--prefix-disk-bytes", 0)
    ask_twice(last, prompt, expected)
    last.stop()
    assert not (tmp_path / "prefixes").exists()
    assert ask(Kept(start, "--session-dir", tmp_path).server, prompt)[1].cached_tokens == 0


@pytest.mark.parametrize("damage", ["changed", "cut", "empty"])
def test_a_damaged_file_is_not_served(start, prompt, expected, tmp_path, damage):
    last = Kept(start, "--session-dir", tmp_path)
    ask_twice(last, prompt, expected)
    last.stop()
    file, = (tmp_path / "prefixes").glob("*/v1.snap")
    data = bytearray(file.read_bytes())
    data[len(data) * 2 // 3] ^= 1
    file.write_bytes({"changed": data, "cut": data[:-100], "empty": b""}[damage])
    kept = Kept(start, "--session-dir", tmp_path)
    sample, usage = ask(kept.server, prompt)
    assert same(sample, expected)
    assert usage.cached_tokens == 0
    assert kept["tvq_stored_prefix_refused_total"] == 1
    assert kept["tvq_stored_prefix_hits_total"] == 0
    assert "v1.snap" in kept.server.stderr() or "a stored prefix is not used, and removed" in kept.server.stderr()
    ask(kept.server, prompt)
    kept.wait_kept()
    sample, usage = ask(kept.server, prompt)
    assert same(sample, expected)
    assert usage.cached_tokens == len(prompt) - 3
    kept.wait_stored(1)  # anew
    assert not list((tmp_path / "prefixes").glob("*/*.corrupt"))


def test_keys_do_not_share_what_is_stored(start, prompt, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("".join(f"{name} {hashlib.sha256(name.encode()).hexdigest()}\n" for name in ["ann", "bob"]))
    flags = ["--session-dir", tmp_path / "sessions", "--api-key-file", keys]

    def cached(server, name):
        request = server.request(prompt, max_tokens=1)
        metadata = [("authorization", f"Bearer {name}")]
        return list(server.generation.Generate(request, metadata=metadata))[-1].usage.cached_tokens

    last = Kept(start, *flags)
    assert cached(last.server, "ann") == 0
    last.wait_kept()
    assert cached(last.server, "ann") == len(prompt) - 3
    last.stop()
    server = Kept(start, *flags).server
    assert cached(server, "bob") == 0
    assert cached(server, "ann") == len(prompt) - 3
    names = [path.name for path in (tmp_path / "sessions" / "prefixes").iterdir()]
    assert all(len(name) == 32 or name == "lock" for name in names)


def test_what_a_server_without_keys_stored_is_no_key_s(start, prompt, expected, tmp_path):
    last = Kept(start, "--session-dir", tmp_path / "sessions")
    ask_twice(last, prompt, expected)
    last.stop()
    keys = tmp_path / "keys"
    keys.write_text(f"ann {hashlib.sha256(b'ann').hexdigest()}\n")
    server = Kept(start, "--session-dir", tmp_path / "sessions", "--api-key-file", keys).server
    request, metadata = server.request(prompt, max_tokens=1), [("authorization", "Bearer ann")]
    assert list(server.generation.Generate(request, metadata=metadata))[-1].usage.cached_tokens == 0


def test_another_dtype_of_the_state_finds_nothing(start, prompt, expected, tmp_path):
    last = Kept(start, "--session-dir", tmp_path)
    ask_twice(last, prompt, expected)
    last.stop()
    other = Kept(start, "--session-dir", tmp_path, "--state-dtype", "bfloat16")
    assert ask(other.server, prompt)[1].cached_tokens == 0
    assert other["tvq_stored_prefixes"] == 1


def test_another_server_of_the_redis_begins_there(start, prompt, expected, redis):  # noqa: F811
    one, early = (Kept(start, "--redis", redis) for _ in range(2))
    ask_twice(one, prompt, expected)
    one.wait_stored(1)
    late = Kept(start, "--redis", redis)
    early.wait_stored(1)  # it looks every few seconds
    for other in (early, late):
        ask_twice(other, prompt, expected, first=len(prompt) - 3)
        assert other["tvq_stored_prefix_hits_total"] == 1
    kill(one.server)
    ask_twice(Kept(start, "--redis", redis), prompt, expected, first=len(prompt) - 3)
