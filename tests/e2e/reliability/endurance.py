"""A million tokens, and ten thousand sessions that wait."""

import json
import statistics
import struct
import subprocess
import time
from dataclasses import dataclass

from metrics_endpoint import free_port, scrape
from reliability.crowd import all_at_once
from reliability.history import Call, perform
from reliability.world import TINY, Server, directory, workers
from server_process import BIN

DISK = 2
TOKENS_PER_CALL = 1000

# Buffers of the allocator and of gRPC still settle after the first fifth of a soak.
MEMORY_SLACK_BYTES = 4 << 20

# Of a session whose state lies on disk: its record, its places in the tables, its checkpoint.
RECORD_BYTES = 4096

# Between states that lie in memory others have left holes. The server gives them back when there is so much
# (ReturnRule::kWorthwhileBytes).
HOLES_BYTES = 32 << 20


def run_soak(api, tokens, seed, report=print):
    """One session generates `tokens` tokens; memory stays flat and every log-probability is right."""
    with directory() as data, Server(api, "--session-dir", data / "sessions") as server:
        session = server.sessions.CreateSession(
            api.session.CreateSessionRequest(keep_transcript=False)).session.id
        ids, logprobs, resident = [40], [], []
        while len(ids) <= tokens:
            prompt = () if logprobs else tuple(ids)
            call = Call(prompt, min(TOKENS_PER_CALL, tokens + 1 - len(ids)), seed + len(ids), 1.0)
            last = len(ids) % (50 * TOKENS_PER_CALL) == 1
            outcome = perform(server, session, call, durability=DISK if last else 0)
            ids += outcome.ids
            logprobs += [entry[0] for entry in outcome.logprobs]
            resident.append(server.resident_bytes())
        assert outcome.position == len(ids) == tokens + 1
        settled = resident[len(resident) // 5]
        growth = max(resident) - settled
        assert growth <= MEMORY_SLACK_BYTES, f"memory grew by {growth} bytes after the first fifth"
        expected = data / "soak.safetensors"
        write_safetensors(expected, {"soak.tokens": ("I32", ids), "soak.target_logprobs": ("F32", logprobs)})
        verify = subprocess.run([BIN / "tvq-verify", TINY, expected, "--device", "reference", "--mode", "step",
                                 "--codes-of", "cpu"], capture_output=True, text=True)
        assert verify.returncode == 0, verify.stdout + verify.stderr
        report(f"{tokens} tokens on one session: server at {settled / 2**20:.1f} MiB after a fifth, at most "
               f"{growth / 2**20:.2f} MiB more after it; against float64:\n{verify.stdout.strip()}")


def write_safetensors(path, tensors):
    header, body = {}, b""
    for name, (dtype, values) in tensors.items():
        data = struct.pack(f"<{len(values)}{'i' if dtype == 'I32' else 'f'}", *values)
        header[name] = {"dtype": dtype, "shape": [len(values)], "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)


def run_idle(api, idle, active, tokens, runs, device_bytes, host_bytes, seed, report=print):
    """`active` sessions generate beside `idle` ones that lie on disk, and without them, in turn.

    How fast is reported; how much memory that takes, at any moment, is bounded.
    """
    flags = ["--state-memory-bytes", device_bytes, "--session-host-bytes", host_bytes]
    port = free_port()
    with directory() as data, Server(api, "--session-dir", data / "none", *flags) as alone, \
            Server(api, "--session-dir", data / "many", "--metrics-port", port, *flags) as crowded:
        runners = {server: _Active(server, active, seed) for server in (alone, crowded)}
        for runner in runners.values():
            runner.run(tokens)  # warm
        before = crowded.resident_bytes()
        _make_idle(crowded, idle, seed)
        assert len(crowded.session_ids()) == idle + active
        state = crowded.sessions.ListSessions(api.session.ListSessionsRequest(page_size=1)).sessions[0].bytes
        pairs = []
        for turn in range(runs):
            order = (alone, crowded) if turn % 2 == 0 else (crowded, alone)
            took = {server: runners[server].run(tokens) for server in order}
            pairs.append((took[alone], took[crowded]))
            _check_tiers(scrape(port), device_bytes, host_bytes)
        grown = crowded.most_resident_bytes() - before
        bound = device_bytes + host_bytes + idle * RECORD_BYTES + HOLES_BYTES
        assert grown <= bound < idle * state, f"the server grew by {grown} bytes, more than {bound}"
        speed = statistics.median(one.seconds / other.seconds for one, other in pairs)
        effort = statistics.median(other.cpu_seconds / one.cpu_seconds for one, other in pairs)
        rate = active * tokens / statistics.median(other.seconds for _, other in pairs)
        report(f"{idle} idle sessions of {state} bytes each ({idle * state / 2**20:.0f} MiB), states limited to "
               f"{device_bytes / 2**20:.0f} MiB and {host_bytes / 2**20:.0f} MiB on the host: the server grew by at "
               f"most {grown / 2**20:.1f} MiB; {active} active ones at {rate:.0f} tokens/s beside them; medians of "
               f"{runs} pairs of runs: {speed:.3f} of the tokens per second alone, "
               f"{effort:.3f} of the processor time per token")


def _check_tiers(metrics, device_bytes, host_bytes):
    """The server says where its budgets stand, and keeps them."""
    for tier, limit in (("device", device_bytes), ("host", host_bytes)):
        assert metrics[f'tvq_state_budget_bytes{{tier="{tier}"}}'] <= limit
        assert metrics[f'tvq_state_bytes{{tier="{tier}"}}'] <= metrics[f'tvq_state_budget_bytes{{tier="{tier}"}}']
    assert metrics['tvq_sessions{tier="durable"}'] > 0


def _make_idle(server, count, seed):
    def make(random):
        api = server.api
        for _ in range(count // 8):
            session = server.sessions.CreateSession(api.session.CreateSessionRequest()).session.id
            perform(server, session, Call(tuple(random.choices(range(3, 259), k=4)), 0), durability=DISK)

    all_at_once(make, workers(8, seed))


@dataclass(frozen=True)
class Took:
    seconds: float
    cpu_seconds: float  # of the server's threads


class _Active:
    def __init__(self, server, count, seed):
        self.server, self.seed = server, seed
        api = server.api
        # Transcripts grow with what is generated, and it is what the idle ones take that is measured.
        self.sessions = [
            server.sessions.CreateSession(api.session.CreateSessionRequest(keep_transcript=False)).session.id
            for _ in range(count)]
        for session in self.sessions:
            perform(server, session, Call((40,), 0))

    def run(self, tokens):
        """What it takes to generate `tokens` tokens on each session, all at once."""
        api = self.server.api

        def generate(session):
            request = api.generation.GenerateRequest(
                session=api.session.SessionCall(session_id=session),
                sampling=api.generation.SamplingParams(max_tokens=tokens, seed=self.seed, ignore_eos=True))
            for response in self.server.generation.Generate(request):
                pass
            assert response.usage.completion_tokens == tokens

        begin, cpu = time.monotonic(), self.server.cpu_seconds()
        all_at_once(generate, self.sessions)
        return Took(time.monotonic() - begin, self.server.cpu_seconds() - cpu)
