"""SmolLM2-135M-Instruct, converted, as scripts/get-model makes it: what that costs, and how large a session is."""

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from server_process import BIN, ROOT, ServerProcess  # noqa: E402

sys.path.insert(0, str(ROOT))
from models.conversion.report import CONVERTED, RINGS, compare, passages, shipped_texts, summary  # noqa: E402

TOKENS = 2601
MOST = {"novel": 0.5, "code": 1.2}  # percent more bits than the original


@pytest.fixture(scope="module")
def measured(smollm2, smollm2_vq):
    """Percent more bits over all positions, by text and variant."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("TVQ_BIN_DIR", str(BIN))
        texts = passages(smollm2, [text for text in shipped_texts() if text.stem in MOST], TOKENS)
        return summary(texts, compare(smollm2, smollm2_vq, texts))


def percent(measured, text, variant):
    """Of all its positions, each range by its share of the bits."""
    rows = [row for row in measured["rows"] if row["text"] == text]
    bits = [row["original"] * (row["to"] - row["from"]) for row in rows]
    return sum(share * row[variant][0] for share, row in zip(bits, rows)) / sum(bits)


@pytest.mark.parametrize("text", MOST)
def test_costs_few_bits_and_fewer_than_rings_alone(measured, text):
    assert percent(measured, text, CONVERTED) < MOST[text]
    assert percent(measured, text, CONVERTED) < percent(measured, text, RINGS)


def test_its_report_tells_of_the_same_texts(smollm2_vq):
    told = (smollm2_vq / "report.md").read_text()
    for text in ("code", "markup", "novel"):
        assert f"\n| {text} | 0 to 512 | " in told


def test_a_session_never_grows(api, smollm2_vq):
    with ServerProcess(api, "--model", f"smollm2-vq={smollm2_vq}", "--dtype", "bfloat16") as server:
        model = server.models.GetModel(api.model.GetModelRequest(name="smollm2-vq")).model
        assert not model.state_grows and model.max_position == 0 and model.bytes_per_session < 62e6
        asked = api.generation.Conversation(messages=json.dumps([{"role": "user", "content": "What is the capital of France?"}]))
        request = api.generation.GenerateRequest(conversation=asked, sampling={"max_tokens": 20, "temperature": 0})
        deltas = [delta for message in server.generation.Generate(request) for delta in message.deltas]
        assert "Paris" in "".join(delta.text for delta in deltas)
