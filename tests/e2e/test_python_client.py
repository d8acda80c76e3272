"""Programs with the Python package against the server, each in a process of its own."""

import os
import subprocess
import sys

import pytest
from server_process import GOLDEN, ServerProcess

SESSION = """
import tvq

TEXT = "It was late in the evening when the carriage stopped before the old house."
SAMPLING = dict(seed=5, max_tokens=30, ignore_eos=True)

with tvq.Client("127.0.0.1:50051") as client:
    session = client.create_session(label="kept")
    assert session.append(TEXT).position == len(TEXT) == session.position
    snapshot = b"".join(session.export())
    fork = session.fork()
    again = client.import_session(snapshot)
    assert again.position == session.position

    # An import and a fork go on as the session does.
    expected = session.generate(" Nobody", **SAMPLING).samples()
    assert fork.generate(" Nobody", **SAMPLING).samples() == expected
    assert again.generate(" Nobody", **SAMPLING).samples() == expected

    with session.generate("x", max_tokens=100_000_000, ignore_eos=True) as output:
        next(output)
    for call, error in [(lambda: client.import_session(snapshot[:-1]), tvq.InvalidArgument),
                        (lambda: fork.append("y", expected_version=fork.version - 1), tvq.Aborted),
                        (lambda: fork.rewind("nowhere"), tvq.NotFound)]:
        try:
            call()
        except error:
            continue
        raise AssertionError(f"no {error}")
    assert client.score(TEXT, prepend_eos=True).bits_per_byte > 0
    assert sorted(info.label for info in client.sessions()) == ["", "", "kept"]
    assert client.model().fingerprint
"""

STATE = """
import tvq

TEXT = "It was late in the evening when the carriage stopped before the old house."
SAMPLING = dict(seed=5, max_tokens=30, ignore_eos=True)

with tvq.Client("127.0.0.1:50051") as client:
    session = client.create_session()
    session.append(TEXT)
    state = b"".join(session.export())
    expected = session.generate(" Nobody", **SAMPLING).samples()
    generation = client.generate_with_state(" Nobody", state, **SAMPLING)
    assert generation.samples() == expected
    again = client.import_session(generation.state())
    assert again.position == session.position
    assert again.generate(**SAMPLING).samples() == session.generate(**SAMPLING).samples()
"""


@pytest.mark.parametrize("program", [SESSION, STATE], ids=["session", "state"])
def test_program_runs(api, package, tmp_path, program):
    with ServerProcess(api, "--model", f"model={GOLDEN / 'bytes_untied'}") as server:
        program = program.replace("127.0.0.1:50051", server.address)
        done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True,
                              timeout=300, env={**os.environ, "PYTHONPATH": str(package)})
    assert done.returncode == 0, done.stdout + done.stderr
