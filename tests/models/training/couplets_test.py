import json
import lzma

import numpy as np
import pytest
import torch

from conftest import random_model
from models.training import evaluate, export, train
from models.training.data.characters import END, FIRST_ID, UNKNOWN, Characters
from models.training.data.couplets import Couplets, answers, read_pairs, second_lines, sequence, vocabulary
from models.training.data.tokenizer import load_tokenizer
from models.training.generate import generate

PAIRS = [("春风", "秋月"), ("山高水", "云淡风"), ("一二三四", "五六七八九"), ("人", "天"), ("春山", "月𠀀")]


def test_reads_pairs_packed_and_plain(tmp_path):
    raw = "".join(f"{a}\t{b}\n" for a, b in PAIRS).encode()
    (tmp_path / "pairs.tsv").write_bytes(raw)
    (tmp_path / "pairs.tsv.xz").write_bytes(lzma.compress(raw))
    assert read_pairs(tmp_path / "pairs.tsv") == read_pairs(tmp_path / "pairs.tsv.xz") == PAIRS


@pytest.mark.parametrize("text, message", [
    ("a\tb\nab\n".encode(), "bad.tsv: line 2 is not two texts with a tab between them"),
    ("a\tb\tc\n".encode(), "line 1 is not two texts"),
    ("a\t\n".encode(), "line 1 is not two texts"),
    (b"a\tb\n\xff\tb\n", "bad.tsv: not UTF-8 at byte 4"),
    (b"\n\n", "bad.tsv holds no pairs"),
])
def test_names_what_is_wrong_in_a_file(tmp_path, text, message):
    (tmp_path / "bad.tsv").write_bytes(text)
    with pytest.raises(ValueError, match=message):
        read_pairs(tmp_path / "bad.tsv")


def test_characters_come_by_frequency_and_rare_ones_are_unknown():
    characters = Characters.of(["abcb", "cbz\n"], begin=["\n"], rare=2)
    assert characters.characters == ["\n", "b", "c"]
    ids = characters.encode("cz\nb")
    assert ids.tolist() == [FIRST_ID + 2, UNKNOWN, FIRST_ID, FIRST_ID + 1]
    assert characters.decode([END, *ids, END]) == "c\nb"
    assert len(characters) == FIRST_ID + 3


def test_character_list_survives_a_file(tmp_path):
    odd = Characters(["\n", "春", "\u2028", "\\", " ", "𠀀", "\r"])  # what splits lines elsewhere does not here
    odd.save(tmp_path / "characters.txt")
    assert Characters.load(tmp_path / "characters.txt").characters == odd.characters
    assert (tmp_path / "characters.txt").read_bytes().startswith(b"\\n\n")


@pytest.mark.parametrize("raw", [b"\\n\nx\ny", b"\\n\nx\ny\n"])
def test_a_list_may_lack_its_last_newline(tmp_path, raw):
    (tmp_path / "characters.txt").write_bytes(raw)
    assert Characters.load(tmp_path / "characters.txt").characters == ["\n", "x", "y"]


def test_the_first_characters_id_is_the_configs(tmp_path):
    Characters(["x", "y"]).save(tmp_path / "characters.txt")

    def load(**fields):
        tokenizer = {"type": "characters", "file": "characters.txt", **fields}
        return load_tokenizer(tmp_path, random_model(vocab_size=9, tokenizer=tokenizer).config)

    assert load().encode("xy").tolist() == [3, 4]
    characters = load(first_id=6)
    assert characters.encode("xy?").tolist() == [6, 7, UNKNOWN] and len(characters) == 8
    assert characters.decode([END, 5, 6, 7]) == "xy"
    with pytest.raises(ValueError, match="characters begin with id 2, must begin with 3 or more"):
        load(first_id=2)


def test_ids_above_65535_stay_as_they_are():
    characters = Characters([chr(0x20000 + n) for n in range(70_000)])
    text = characters.characters[65_533] + characters.characters[-1]
    assert characters.encode(text).tolist() == [65_536, 70_002]
    assert sequence(characters, (text[0], text[1]))[[1, 3]].tolist() == [65_536, 70_002]


def test_a_sequence_is_both_lines_between_ends():
    characters = Characters(["\n", "春", "风", "秋", "月"])
    assert sequence(characters, PAIRS[0]).tolist() == [END, 4, 5, 3, 6, 7, END]


def test_held_out_pairs_are_not_trained_on():
    pairs = PAIRS + PAIRS[:1]
    task = Couplets(pairs, vocabulary(pairs), batch_tokens=8, held_out=2)
    assert task.held_out == [PAIRS[4], PAIRS[0]]
    trained = {tuple(row) for group in task.groups for row in group.tolist()}
    assert len(trained) == 3
    assert tuple(sequence(task.characters, PAIRS[0]).tolist()) not in trained, "a repeated pair is held out everywhere"
    with pytest.raises(ValueError, match="5 pairs do not leave any to train on beside 5 held out"):
        Couplets(PAIRS, vocabulary(PAIRS), 8, held_out=5)


def tiny():
    characters = Characters.of(("".join(pair) for pair in PAIRS), begin=["\n"], rare=1)
    return random_model(vocab_size=len(characters), n_head=2, n_layer=1).float(), characters


def test_second_lines_are_measured_alone():
    model, characters = tiny()
    found = second_lines(model, characters, PAIRS)
    nats, ends = [], []
    for first, second in PAIRS:
        ids = characters.encode(first + "\n" + second).tolist() + [END]
        rows = model(torch.tensor([ids])).logits[0].log_softmax(-1)
        line = [-rows[t - 1, ids[t]].item() for t in range(len(first) + 1, len(ids))]
        nats += line[:-1]
        ends += line[-1:]
    assert found["characters"] == len(nats) == 13
    # float32 sums in another order: 24 bits of values below 32
    assert abs(found["nats"] - np.mean(nats)) < 32 * 2.0 ** -22
    assert abs(found["nats_with_end"] - np.mean(nats + ends)) < 32 * 2.0 ** -22


def test_answers_are_those_of_each_line_alone():
    model, characters = tiny()
    with torch.no_grad():
        model.lm_head.bias[END] += 4  # so that answers end
    firsts = [first for first, _ in PAIRS]
    given = answers(model, characters, firsts, temperature=0, top_p=1, longest=12)
    for first, second in zip(firsts, given):
        ids = generate(model, characters.encode(first + "\n").tolist(), 12, temperature=0)
        ids = ids[:ids.index(END)] if END in ids else ids
        assert second == characters.decode(ids)
    assert any(END in generate(model, characters.encode(f + "\n").tolist(), 12, temperature=0) for f in firsts)


def test_from_pairs_to_a_measured_model_directory(tmp_path, monkeypatch, capsys):
    """The commands a user gives."""
    random = np.random.default_rng(2)
    letters = np.array(list("春夏秋冬山水风月"))
    firsts = ["".join(letters[random.integers(0, 8, random.integers(1, 5))]) for _ in range(2400)]
    (tmp_path / "pairs.tsv").write_text("".join(f"{first}\t{first}\n" for first in firsts), encoding="utf-8")
    run, directory = str(tmp_path / "run"), str(tmp_path / "model")

    def call(module, *arguments):
        monkeypatch.setattr("sys.argv", ["program", *map(str, arguments)])
        module.main()

    shape = "--d-model 32 --n-layer 2 --d-k 16 --d-v 32 --n-code 8 --block-len 8 --pe-abs --n-head 2".split()
    call(train, "couplets", "--data", tmp_path / "pairs.tsv", "--out", run, "--steps", "150", "--batch-tokens", "512",
         "--float32", "--warmup", "10", *shape)
    call(export, run + "/best.pt", directory, "--tokenizer", run + "/characters.txt")
    capsys.readouterr()
    call(evaluate, directory, tmp_path / "pairs.tsv", "--count", "200", "--answers", "50", "--temperature", "0")
    output = capsys.readouterr().out
    perplexity = float(output.split("perplexity of a character ")[1].split(",")[0])
    length = next(line.split() for line in output.split("\n") if line.split()[:1] == ["length"])
    assert perplexity < 3, "second lines repeat the first; without looking at them 8 would be reached"
    assert float(length[1][:-1]) > 40 and length[2] == "100.0%", (
        "lengths are 1 to 4, so an answer that does not count is as long as its line once in four times")
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    assert config["tokenizer"] == {"type": "characters", "file": "characters.txt", "first_id": 3}
    assert config["vocab_size"] == 3 + 9 and config["eos_token_id"] == 1 and config["unk_token_id"] == 2
