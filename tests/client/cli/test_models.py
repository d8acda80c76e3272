"""info, tokens and scores: what they say where there is little to say."""

import json

import pytest


def test_info_of_a_model_that_encodes_speaks_of_texts(cli, fake):
    from tvq.v1 import model_pb2
    fake.model = lambda: model_pb2.Model(name="enc", family="vq_encoder", bytes_per_session=64, can_encode=True, state_grows=True,
                                         quoted_tokens=9, max_sessions=3)
    told = cli.ok("info")
    assert "  texts     64 bytes each at 9 tokens, less before, 3 fit, 0 in use" in told and "sessions" not in told


def test_info_tells_how_sessions_grow(cli, fake):
    from tvq.v1 import model_pb2
    sizes = [{"tokens": 1024, "bytes": 23592960}, {"tokens": 8192, "bytes": 188743680}]
    fake.model = lambda: model_pb2.Model(name="m", bytes_per_session=188743680, state_grows=True, quoted_tokens=8192,
                                         bytes_per_token=23040, session_sizes=sizes, cache_bytes_per_token=23041)
    assert "\n  growth    23040 bytes a token: 23.6 MB at 1024 tokens, 188.7 MB at 8192 tokens\n" in cli.run("info").stdout.decode()
    model = cli.json("info")["models"][0]
    assert model["cache_bytes_per_token"] == 23041
    assert model["bytes_per_token"] == 23040 and model["session_sizes"] == sizes
    fake.model = lambda: model_pb2.Model(name="m", bytes_per_session=64)
    assert "growth" not in cli.ok("info") and cli.json("info")["models"][0]["session_sizes"] == []


def test_info_as_json_has_what_a_client_needs_to_know(cli, fake):
    from tvq.v1 import model_pb2
    fake.model = lambda: model_pb2.Model(name="m", pad_token_id=0, unk_token_id=3)
    model = cli.json("info")["models"][0]
    assert (model["pad_token_id"], model["unk_token_id"], model["eos_token_id"], model["image"]) == (0, 3, None, None)
    image = {"height": 2, "width": 3, "channels": 1, "levels": 256, "first_token_id": 1}
    fake.model = lambda: model_pb2.Model(name="m", image=image)
    assert cli.json("info")["models"][0]["image"] == image


def test_a_text_of_which_nothing_is_scored_has_no_bits(cli, fake):
    from tvq.v1 import generation_pb2
    fake.Score = lambda request, context: iter([generation_pb2.ScoreResponse(summary={"tokens": 1})])
    assert cli.ok("score", input=b"a") == "1 token, none of them scored: nothing stands before the first one"
    score = cli.json("score", input=b"a")
    assert score["bits_per_byte"] is None and score["bits_per_token"] is None and str(score["total_bits"]) == "0.0"


def test_pairs_may_end_as_on_windows(cli, fake):
    done = cli.ok("--json", "score", "--pairs", "-", input=b"a\tbc\r\nd\te\r\n")
    assert [json.loads(line)["scored_tokens"] for line in done.splitlines()] == [2, 1, 3]


def test_stdin_is_called_so(cli):
    done = cli.run("score", "--pairs", "-", input=b"no pair\n")
    assert done.returncode == 2 and done.stderr == b"tvq: stdin: line 1 is not two texts with a tab between them\n"


@pytest.mark.parametrize("ids", [b"100 101\n", b"100,101", b"100, 101\r\n", b" 100\t101 "])
def test_token_ids_as_people_write_them(cli, ids):
    assert cli.ok("detokenize", input=ids) == "ab"


@pytest.mark.parametrize("word", ["x", "1.5", "5000000000", "1-2"])
def test_what_is_no_token_id_is_named(cli, word):
    done = cli.run("detokenize", input=f"100 {word} 101".encode())
    assert done.returncode == 2 and done.stderr == f'tvq: stdin: "{word}" is no token id\n'.encode(), done.stderr
