"""The models that come with the project, all in one server."""

import json
import sys

import grpc
import numpy as np
import pytest

from gateway_process import GatewayProcess
from server_process import ROOT, ServerProcess

pytest.importorskip("torch")  # the trainer's measures
sys.path.insert(0, str(ROOT))
from models.training.data import couplets, images  # noqa: E402
from models.training.data.text import Bytes  # noqa: E402
from models.training.data.tokenizer import load_tokenizer  # noqa: E402
from models.training.export import load_model  # noqa: E402
from models.training.token_bits import token_bits  # noqa: E402
from test_draw import pixels  # noqa: E402

ZOO = ROOT / "models" / "zoo"
FIRST_LINES = ["风弦未拨心先乱", "春风", "几树梅花数竿竹", "路不拾遗，夜不闭户"]


@pytest.fixture(scope="module")
def zoo(api):
    with ServerProcess(api, "--model-dir", ZOO) as process:
        yield process


@pytest.fixture(scope="module")
def call(zoo, tvq):
    return lambda *arguments: tvq("--server", zoo.address, *arguments)


def test_all_load_at_once_and_are_small(call):
    found = {model["name"] for model in json.loads(call("info", "--json").stdout)["models"]}
    assert found == {path.parent.name for path in ZOO.glob("*/config.json")} >= {"novels", "couplets", "digits", "wiki"}
    assert sum(path.stat().st_size for path in ZOO.rglob("*")) < 60e6
    for model in found:
        card = (ZOO / model / "README.md").read_text(encoding="utf-8")
        for part in ("## Shape", "## Data", "## Recipe", "## Measured", "## Limits", "licence"):
            assert part in card, f"{model}'s card lacks {part}"


@pytest.mark.parametrize("first", FIRST_LINES)
def test_couplets_answer_as_long_as_they_are_asked(zoo, first):
    tokenizer = load_tokenizer(ZOO / "couplets", load_model(ZOO / "couplets").config)
    allowed = [number for character, number in tokenizer.ids.items() if character.isalpha()]
    [sample], _ = zoo.generate(model="couplets", text=first + "\n", min_tokens=len(first), max_tokens=len(first),
                               allowed_token_ids=allowed, seed=1)
    second = "".join(tokenizer.decode([number]) for number in sample.ids)
    assert len(second) == len(first) and second.isalpha()


def test_a_couplet_ends_by_itself(call):
    done = call("generate", "--model", "couplets", "--prompt", FIRST_LINES[0] + "\n", "--temperature", 0)
    second = done.stdout.decode().strip()
    assert done.returncode == 0 and len(second) == len(FIRST_LINES[0])


def test_perplexity_of_couplets_is_the_trainers(call, tmp_path):
    pairs = [(first, first[::-1]) for first in FIRST_LINES] + [("一句相思吟岁月", "千杯美酒醉风情")]
    (tmp_path / "pairs.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in pairs), encoding="utf-8")
    got = json.loads(call("score", "--model", "couplets", "--pairs", tmp_path / "pairs.tsv", "--json").stdout.splitlines()[-1])
    model = load_model(ZOO / "couplets")
    expected = couplets.second_lines(model, load_tokenizer(ZOO / "couplets", model.config), pairs)
    assert got["perplexity"] == pytest.approx(np.exp(expected["nats"]), rel=1e-3)


def test_a_character_that_couplets_lacks_is_named(zoo, api, call, tmp_path):
    """Wherever text is read; it can be measured and given as the unknown token, and then it is counted."""
    with pytest.raises(grpc.RpcError) as caught:
        zoo.generate(model="couplets", text="春☃风\n", max_tokens=2)
    assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert "text: the character \"☃\" (U+2603) at byte offset 3 is not in the model's vocabulary" in caught.value.details()

    (tmp_path / "pairs.tsv").write_text("春风\t秋雨\n春☃\t秋☃\n", encoding="utf-8")
    score = ["score", "--model", "couplets", "--pairs", tmp_path / "pairs.tsv"]
    refused = call(*score)
    assert refused.returncode == 1 and "pairs.tsv: line 2: first text: the character \"☃\"" in refused.stderr.decode()
    assert "4 tokens scored, 1 of them unknown" in call(*score, "--allow-unknown").stdout.decode()

    tokenize = ["tokenize", "--model", "couplets", "--text", "春☃", "--json"]
    assert call(*tokenize).returncode == 1
    read = json.loads(call(*tokenize, "--allow-unknown").stdout)
    unknown = load_model(ZOO / "couplets").config.unk_token_id
    assert read["count"] == 2 and read["token_ids"][1] == unknown and read["unknown_tokens"] == 1
    assert zoo.generate(model="couplets", ids=read["token_ids"], max_tokens=2)

    (tmp_path / "text").write_text("春☃\n", encoding="utf-8")
    score = ["score", "--model", "couplets", "--file", tmp_path / "text"]
    assert call(*score).returncode == 1
    assert json.loads(call(*score, "--allow-unknown", "--json").stdout)["unknown_tokens"] == 1


def test_a_character_that_couplets_lacks_over_http(zoo):
    with GatewayProcess(zoo.address) as gateway:
        body = {"model": "couplets", "prompt": "春☃"}
        for path in ["/v1/completions", "/tokenize"]:
            refused = gateway.post(path, body)
            assert (refused.status, refused.error["param"]) == (400, "prompt") and "U+2603" in refused.error["message"]
        read = gateway.post("/tokenize", body | {"allow_unknown": True}).json
        assert (read["count"], read["unknown_tokens"]) == (2, 1)
        assert gateway.post("/v1/completions", body | {"prompt": read["tokens"], "max_tokens": 1}).status == 200


def test_a_digit_is_drawn_and_its_bits_are_the_trainers(call, tmp_path):
    done = call("draw", "--model", "digits", "--out", tmp_path / "digit.png", "--seed", 1)
    assert done.returncode == 0, done.stderr
    rows = np.array(pixels((tmp_path / "digit.png").read_bytes()))
    assert rows.shape == (28, 28) and 0.02 < (rows > 127).mean() < 0.5 and (rows[0] == 0).mean() > 0.5
    got = json.loads(call("score", "--model", "digits", "--images", tmp_path / "digit.png", "--json").stdout.splitlines()[-1])
    expected = images.image_bits(load_model(ZOO / "digits"), images.sequences_of(rows[None].astype(np.uint8), 256))
    assert got["scored_tokens"] == 784
    assert got["bits_per_token"] == pytest.approx(expected[0], rel=1e-3)

def test_bits_of_a_page_are_the_trainers(call, tmp_path):
    """Longer than a block and a prefill chunk; characters of several bytes."""
    page = "'''Łódź''' is a [[city]] in [[Poland]].&lt;ref&gt;{{cite web|title=Łódź|year=2006}}&lt;/ref&gt; " * 6
    (tmp_path / "page.txt").write_text(page, encoding="utf-8")
    got = json.loads(call("score", "--model", "wiki", "--file", tmp_path / "page.txt", "--json").stdout)
    ids = np.concatenate([[Bytes.end], Bytes().encode(page)])
    assert got["scored_tokens"] == len(page.encode()) > 512
    assert got["bits_per_token"] == pytest.approx(token_bits(load_model(ZOO / "wiki"), ids).mean(), rel=1e-3)
