"""SmolLM2-135M-Instruct, converted, as scripts/get-model makes it: what that costs, and how large a session is."""

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from server_process import BIN, ROOT, ServerProcess  # noqa: E402

sys.path.insert(0, str(ROOT))
from models.conversion.report import CONVERTED, RINGS, compare, passages, shipped_texts, summary  # noqa: E402

TEXTS = ("code", "novel")
TOKENS = 2600
SAME = 3  # ranges of positions, to 2,048, that the report has as well
# Other instruction sets sum in another order, and a key between two codes may then have the other one.
BITS, PERCENT = 0.002, 0.1


@pytest.fixture(scope="module")
def measured(smollm2, smollm2_vq):
    """Rows of a report on the beginning of two of its texts."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("TVQ_BIN_DIR", str(BIN))
        texts = passages(smollm2, [text for text in shipped_texts() if text.stem in TEXTS], TOKENS)
        return summary(texts, compare(smollm2, smollm2_vq, texts))["rows"]


@pytest.mark.parametrize("text", TEXTS)
def test_costs_what_its_report_says(smollm2_vq, measured, text):
    told = [line.split(" | ") for line in (smollm2_vq / "report.md").read_text().splitlines() if line.startswith(f"| {text} | ")]
    found = [row for row in measured if row["text"] == text]
    for (_, positions, original, converted, rings), row in list(zip(told, found))[:SAME]:
        assert positions == f"{row['from']:,} to {row['to']:,}"
        assert row["original"] == pytest.approx(float(original), abs=BITS)
        assert row[CONVERTED][0] == pytest.approx(float(converted.split()[0]), abs=PERCENT)
        assert row[RINGS][0] == pytest.approx(float(rings.split()[0]), abs=PERCENT)
    assert found[SAME - 1][CONVERTED][0] < found[SAME - 1][RINGS][0]


def test_a_session_never_grows(api, smollm2_vq):
    with ServerProcess(api, "--model", f"smollm2-vq={smollm2_vq}", "--dtype", "bfloat16") as server:
        model = server.models.GetModel(api.model.GetModelRequest(name="smollm2-vq")).model
        assert not model.state_grows and model.max_position == 0 and model.bytes_per_session < 62e6
        asked = api.generation.Conversation(messages=json.dumps([{"role": "user", "content": "What is the capital of France?"}]))
        request = api.generation.GenerateRequest(conversation=asked, sampling={"max_tokens": 20, "temperature": 0})
        deltas = [delta for message in server.generation.Generate(request) for delta in message.deltas]
        assert "Paris" in "".join(delta.text for delta in deltas)
