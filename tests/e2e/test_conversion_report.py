"""What the report of a conversion compares, as server and gateway compute it."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from server_process import BIN, GOLDEN, ROOT, ServerProcess, wait_until
from session_client import SessionClient

sys.path.insert(0, str(ROOT))
from models.conversion.codes_file import save_codes  # noqa: E402
from models.conversion.report import CONVERTED, ORIGINAL, RINGS, SIZES, Passage, compare  # noqa: E402
from models.conversion.served import Served, ServeError, programs  # noqa: E402
from models.conversion.texts import read_ids  # noqa: E402
from models.conversion.write_directory import write_directory  # noqa: E402

SOURCE = GOLDEN / "hugging_face" / "llama_gqa"
LAYERS, KV_HEADS, HEADS, DIM, VOCABULARY = 3, 2, 6, 16, 1024
CODES, RING, WIDE = 7, 64, 128
CHANGED, LENGTH = 50, 600
EXACT = 1e-4  # as tvq-verify takes float32
REACH = CHANGED + LAYERS * WIDE  # of tokens that are changed, through rings alone


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    """Two texts that differ in tokens behind the first."""
    folder, random = tmp_path_factory.mktemp("conversion"), np.random.default_rng(0)
    shapes = {"assign": (KV_HEADS, CODES, DIM), "metric": (KV_HEADS, DIM, DIM), "score": (KV_HEADS, CODES, DIM),
              "map": (HEADS, DIM, DIM), "bias": (HEADS,)}
    save_codes(folder / "codes", {f"layers.{layer}.{name}": random.standard_normal(shape).astype(np.float32)
                                  for layer in range(LAYERS) for name, shape in shapes.items()})
    write_directory(SOURCE, folder / "codes", folder / "out", RING, {(1, 0): WIDE})
    ids = random.integers(3, VOCABULARY, LENGTH).tolist()
    other = ids[:1] + random.integers(3, VOCABULARY, CHANGED - 1).tolist() + ids[CHANGED:]
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("TVQ_BIN_DIR", str(BIN))
        found = compare(SOURCE, folder / "out", [Passage("one", ids, LENGTH), Passage("other", other, LENGTH)])
    assert sorted(path.name for path in folder.iterdir()) == ["codes", "out"]
    return found


def test_within_its_ring_a_converted_model_is_the_original(compared):
    bits = compared["bits"]["one"]
    for variant in (CONVERTED, RINGS):
        np.testing.assert_allclose(bits[variant][:RING - 1], bits[ORIGINAL][:RING - 1], atol=EXACT)
        assert np.abs(bits[variant][RING:] - bits[ORIGINAL][RING:]).max() > 0.01


def test_rings_alone_know_nothing_of_what_is_beyond(compared):
    one, other = compared["bits"]["one"], compared["bits"]["other"]
    np.testing.assert_allclose(one[RINGS][REACH:], other[RINGS][REACH:], atol=EXACT)
    for variant in (ORIGINAL, CONVERTED):
        assert np.abs(one[variant][REACH:] - other[variant][REACH:]).max() > 0.01


def test_bytes_of_sessions(compared):
    original, converted = compared["bytes"][ORIGINAL], compared["bytes"][CONVERTED]
    assert len(set(converted)) == 1 and len(converted) == len(SIZES)
    per_token = 2 * LAYERS * KV_HEADS * DIM * 2  # keys and values of two bytes
    assert (original[-1] - original[-2]) / (SIZES[-1] - SIZES[-2]) == pytest.approx(per_token, rel=0.01)


def test_tokens_are_told_against_the_likeliest_ones(api, monkeypatch):
    monkeypatch.setenv("TVQ_BIN_DIR", str(BIN))
    prompt = np.random.default_rng(1).integers(3, VOCABULARY, 50).tolist()
    with ServerProcess(api, "--model", f"model={SOURCE}", "--state-dtype", "bfloat16") as server:
        client = SessionClient(server)
        greedy = client.generate(client.create(model="model").id, ids=prompt, temperature=0, max_tokens=10, ignore_eos=True).ids
    ids = prompt + greedy
    with Served(SOURCE) as served:
        told, nats = served.against_best(ids), served.nats(ids)
    assert [of_token for of_token, _ in told] == nats.tolist() and len(told) == len(ids) - 1
    assert all(of_token == best for of_token, best in told[-len(greedy):])
    assert all(of_token > best for of_token, best in told[:-len(greedy)])  # no token of chance is the likeliest


def test_texts_become_the_models_tokens(tmp_path, monkeypatch):
    monkeypatch.setenv("TVQ_BIN_DIR", str(BIN))
    cases = json.loads((SOURCE / "tokenize.json").read_text())
    paths = [tmp_path / f"{number}" for number in range(len(cases))]
    for path, case in zip(paths, cases):
        path.write_bytes(case["text"].encode())
    assert [ids.tolist() for ids in read_ids(SOURCE, paths)] == [case["ids"] for case in cases]


def test_the_command_puts_it_into_the_directory(tmp_path):
    pytest.importorskip("torch")
    text = ROOT / "models" / "conversion" / "report_texts" / "code.txt"
    done = subprocess.run([ROOT / "scripts" / "convert-to-vq", SOURCE, tmp_path / "out", "--text", text, "--report-text", text,
                           "--report-tokens", "2600", "--tokens", "300", "--cost-tokens", "260", "--ring", "64", "--codes", "8",
                           "--fit-steps", "2", "--wide-heads", "1", "--wide-ring", "128"],
                          env={**os.environ, "TVQ_BIN_DIR": str(BIN), "TVQ_PYTHON": sys.executable}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    told = (tmp_path / "out" / "report.md").read_text()
    assert "\n| code | 2,048 to 2,600 | " in told and "\n| a passage again | 2,609 to 3,799 | " in told
    assert json.loads((tmp_path / "out" / "report.json").read_text())["rows"][0]["text"] == "code"
    for what in ("bits", "bytes"):
        assert (tmp_path / "out" / f"report-{what}.svg").read_text().startswith("<svg")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_programs_end_with_whom_they_serve():
    """Who is killed ends nothing itself."""
    code = f"import pathlib, time; from models.conversion.served import Served; served = Served(pathlib.Path({str(SOURCE)!r}));" \
           "served.__enter__(); print(*(process.pid for process in served.processes), flush=True); time.sleep(600)"
    with subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, env={**os.environ, "TVQ_BIN_DIR": str(BIN)}, text=True,
                          stdout=subprocess.PIPE) as owner:
        programs_of = [int(pid) for pid in owner.stdout.readline().split()]
        owner.kill()
    assert len(programs_of) == 2
    for pid in programs_of:
        wait_until(lambda: has_ended(pid), f"process {pid} ends")


def has_ended(pid):
    """Perhaps nobody has waited for it yet, for its parent is gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_without_programs_it_says_where_they_should_be(tmp_path, monkeypatch):
    monkeypatch.setenv("TVQ_BIN_DIR", str(tmp_path))
    with pytest.raises(ServeError, match="has no tvq-server: build it, or set TVQ_BIN_DIR"):
        programs()
