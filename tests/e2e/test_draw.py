"""tvq draw: what the server samples, as PNG; and half of an image, completed."""

import json
import os
import pty
import select
import shutil
import stat
import struct
import subprocess
import zlib

import pytest

from server_process import BIN, GOLDEN

SIZE, LEVELS = 14, 16  # of tests/golden/pixels_abs; level n shows as n * 17


@pytest.fixture(scope="module")
def draw(server, tvq):
    def run(*arguments, **how):
        return tvq("--server", server.address, "draw", "--model", "pixels", *arguments, **how)

    run.address = server.address
    return run


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def paeth(left, above, corner):
    return min((left, above, corner), key=lambda value: abs(left + above - corner - value))


def png(rows, filters=(0,), depth=8, colour=0, interlace=0):
    """Grey rows as a PNG file; the filters of section 9 of the standard take turns. Data in two chunks."""
    raw = b""
    for y, row in enumerate(rows):
        kind, above = filters[y % len(filters)], rows[y - 1] if y else [0] * len(row)
        raw += bytes([kind])
        for x, value in enumerate(row):
            left, corner = (row[x - 1], above[x - 1]) if x else (0, 0)
            predicted = [0, left, above[x], (left + above[x]) // 2, paeth(left, above[x], corner)][kind]
            raw += bytes([(value - predicted) % 256])
    packed = zlib.compress(raw)
    header = struct.pack(">IIBBBBB", len(rows[0]), len(rows), depth, colour, 0, 0, interlace)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"tEXt", b"a comment") + chunk(b"IDAT", packed[:9])
            + chunk(b"IDAT", packed[9:]) + chunk(b"IEND", b""))


def pixels(data, channels=1):
    """Rows of an 8-bit PNG, grey or RGB, that uses no filters; the channels of a pixel together."""
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    at, packed = 8, b""
    while at < len(data):
        size, kind = struct.unpack(">I4s", data[at:at + 8])
        body = data[at + 8:at + 8 + size]
        assert struct.unpack(">I", data[at + 8 + size:at + 12 + size])[0] == zlib.crc32(kind + body)
        if kind == b"IHDR":
            width, height, *rest = struct.unpack(">IIBBBBB", body)
            assert rest == [8, {1: 0, 3: 2}[channels], 0, 0, 0]
        packed += body if kind == b"IDAT" else b""
        at += 12 + size
    raw, row = zlib.decompress(packed), width * channels + 1
    assert len(raw) == height * row and all(raw[y * row] == 0 for y in range(height))
    return [list(raw[y * row + 1:(y + 1) * row]) for y in range(height)]


def test_draws_what_generate_gives(draw, server, tmp_path):
    done = draw("--out", tmp_path / "a.png", "--seed", 3, "--temperature", 0.8)
    assert done.returncode == 0, done.stderr
    # The model has no id to begin from: its images begin with a black corner.
    [sample], _ = server.generate(model="pixels", ids=[0], seed=3, temperature=0.8, max_tokens=SIZE * SIZE - 1,
                                  min_tokens=SIZE * SIZE - 1)
    levels = [0, *sample.ids]
    assert pixels((tmp_path / "a.png").read_bytes()) == [
        [17 * level for level in levels[SIZE * y:SIZE * (y + 1)]] for y in range(SIZE)]


def test_tells_what_it_wrote(draw, tmp_path):
    done = draw("--out", tmp_path / "a.png", "--count", 3, "--columns", 3, "--gap", 1, "--scale", 2)
    width, height = 3 * 2 * SIZE + 2, 2 * SIZE
    assert (done.stdout, done.stderr.decode()) == (b"", f"{tmp_path / 'a.png'}: 3 images, {width} x {height} pixels\n")
    done = draw("--out", tmp_path / "a.png", "--json")
    assert json.loads(done.stdout) == {"file": str(tmp_path / "a.png"), "images": 1, "width": SIZE, "height": SIZE}
    done = draw("--out", tmp_path / "\udcff.png", "--json")  # the byte FF
    assert done.returncode == 0 and json.loads(done.stdout)["file"] == str(tmp_path / "\ufffd.png")
    done = draw("--out", "-", "--json")
    assert len(pixels(done.stdout)) == SIZE and done.stderr.decode() == f"stdout: 1 image, {SIZE} x {SIZE} pixels\n"


def test_draws_nothing_into_a_terminal(draw):
    master, slave = pty.openpty()
    try:
        for out in ("-", "/dev/stdout"):
            done = subprocess.run([BIN / "tvq", "--server", draw.address, "draw", "--model", "pixels", "--out", out],
                                  stdin=subprocess.DEVNULL, stdout=slave, stderr=subprocess.PIPE)
            assert done.returncode == 2
            assert b"--out: a terminal cannot show a PNG file; name a file" in done.stderr
        assert not select.select([master], [], [], 0)[0]
    finally:
        os.close(master)
        os.close(slave)


def test_a_full_disk_is_told_of(draw):
    done = draw("--out", "/dev/full")
    assert (done.returncode, done.stderr) == (2, b"tvq: cannot write /dev/full: No space left on device\n")


def test_whom_the_umask_lets_may_read_it(draw, tmp_path):
    for mask, mode in [(0o022, 0o644), (0o027, 0o640)]:
        done = draw("--out", tmp_path / "a.png", umask=mask)
        assert done.returncode == 0, done.stderr
        assert stat.S_IMODE((tmp_path / "a.png").stat().st_mode) == mode


def test_a_sheet_has_its_images_in_a_grid(draw, tmp_path):
    flags = ["--seed", 5, "--count", 5, "--gap", 2, "--scale", 3]
    assert draw("--out", tmp_path / "sheet.png", *flags, "--columns", 2).returncode == 0
    sheet = pixels((tmp_path / "sheet.png").read_bytes())
    side = 3 * SIZE
    assert (len(sheet), len(sheet[0])) == (3 * side + 4, 2 * side + 2)
    assert all(value == 255 for value in sheet[side] + [row[side] for row in sheet]), "the gap is white"
    assert all(sheet[y][x] == sheet[y - y % 3][x - x % 3] for y in range(side) for x in range(side))
    assert all(value == 255 for row in sheet[2 * side + 4:] for value in row[side + 2:]), "there is no sixth image"
    corner = [[sheet[top + 3 * y][left + 3 * x] for y in range(SIZE) for x in range(SIZE)]
              for top in (0, side + 2, 2 * side + 4) for left in (0, side + 2)][:5]
    assert len(set(map(tuple, corner))) == 5, "samples differ"
    square = draw("--out", "-", *flags)
    assert len(pixels(square.stdout)[0]) == 3 * side + 4, "five images make three columns"


@pytest.mark.parametrize("filters", [(0,), (1,), (2,), (3,), (4,), (4, 0, 3, 2, 1)])
def test_completes_an_image(draw, server, tmp_path, filters):
    rows = [[17 * ((3 * x + 5 * y * y + x * y) % LEVELS) for x in range(SIZE)] for y in range(SIZE)]
    (tmp_path / "half.png").write_bytes(png(rows, filters))
    flags = ["--out", tmp_path / "whole.png", "--complete", tmp_path / "half.png", "--seed", 1]
    done = draw(*flags, "--rows", 9)
    assert done.returncode == 0, done.stderr
    whole = pixels((tmp_path / "whole.png").read_bytes())
    assert whole[:9] == rows[:9]
    given = [value // 17 for row in rows[:9] for value in row]
    [sample], _ = server.generate(model="pixels", ids=given, seed=1, max_tokens=5 * SIZE, min_tokens=5 * SIZE)
    assert [value // 17 for row in whole[9:] for value in row] == sample.ids
    assert draw(*flags).returncode == 0
    assert pixels((tmp_path / "whole.png").read_bytes())[:7] == rows[:7], "half of it unless told otherwise"


def test_draws_in_three_channels(start, tvq, tmp_path):
    """The weights do not know what their ids are: 4 x 5 pixels of red, green and blue will do."""
    model = shutil.copytree(GOLDEN / "pixels_abs", tmp_path / "model")
    config = json.loads((model / "config.json").read_text())
    config["tokenizer"].update(height=4, width=5, channels=3)
    (model / "config.json").write_text(json.dumps(config))
    server = start("--model", f"rgb={model}")
    draw = lambda *arguments: tvq("--server", server.address, "draw", "--model", "rgb", "--seed", 2, *arguments)
    done = draw("--out", tmp_path / "a.png")
    assert done.returncode == 0, done.stderr
    [sample], _ = server.generate(model="rgb", ids=[0], seed=2, max_tokens=59, min_tokens=59)
    levels = [17 * level for level in (0, *sample.ids)]
    rows = pixels((tmp_path / "a.png").read_bytes(), channels=3)
    assert rows == [levels[15 * y:15 * (y + 1)] for y in range(4)]
    done = draw("--out", tmp_path / "b.png", "--complete", tmp_path / "a.png", "--count", 2, "--gap", 1)
    assert done.returncode == 0, done.stderr
    sheet = pixels((tmp_path / "b.png").read_bytes(), channels=3)
    assert [len(row) for row in sheet] == [3 * (5 + 1 + 5)] * 4
    assert all(row[:15] == row[18:] == given for row, given in zip(sheet[:2], rows)), "the upper half of each is the given one"
    done = draw("--out", tmp_path / "c.png", "--complete", tmp_path / "b.png")
    assert done.returncode == 2 and "is 11 x 4 RGB; the model's images are 5 x 4 RGB" in done.stderr.decode()


GREY = [[0] * SIZE] * SIZE
WHOLE = png(GREY)


@pytest.mark.parametrize("content, message", [
    (b"GIF89a", "is not a PNG file"),
    (b"", "is not a PNG file"),
    (png([[0] * 13] * SIZE), "is 13 x 14 grey; the model's images are 14 x 14 grey"),
    (png(GREY, depth=16), "is not of 8-bit grey or RGB samples without interlacing"),
    (png(GREY, colour=3), "is not of 8-bit grey or RGB samples without interlacing"),
    (png(GREY, interlace=1), "is not of 8-bit grey or RGB samples without interlacing"),
    (png(GREY, colour=2), "does not hold the pixels its header promises"),
    (png(GREY[1:]).replace(struct.pack(">I", 13), struct.pack(">I", 13)), "is 14 x 13 grey"),
    (WHOLE[:-1], "is cut off or damaged"),
    (WHOLE[:60], "is cut off or damaged"),
    (WHOLE[:70] + bytes([WHOLE[70] ^ 1]) + WHOLE[71:], "is cut off or damaged"),
    (WHOLE[:8] + chunk(b"IHDR", struct.pack(">IIBBBBB", 1 << 30, 14, 8, 0, 0, 0, 0)) + WHOLE[33:],
     "is 1073741824 x 14 pixels; sides of 1 to 4096 can be read"),
    (WHOLE[:8] + chunk(b"IHDR", b"short") + WHOLE[33:], "has a damaged header"),
])
def test_names_what_is_wrong_with_a_file(draw, tmp_path, content, message):
    (tmp_path / "bad.png").write_bytes(content)
    done = draw("--out", tmp_path / "out.png", "--complete", tmp_path / "bad.png")
    assert done.returncode == 2
    assert f"bad.png {message}" in done.stderr.decode()
    assert not (tmp_path / "out.png").exists()


def test_wrong_usage_is_named(draw, server, tvq, tmp_path):
    (tmp_path / "whole.png").write_bytes(WHOLE)
    done = draw("--out", tmp_path / "a.png", "--complete", tmp_path / "whole.png", "--rows", SIZE)
    assert done.returncode == 2 and "--rows: is 14, must be from 0 to 13; the model's images have 14, one must be left" in done.stderr.decode()
    done = tvq("--server", server.address, "draw", "--model", "bytes", "--out", tmp_path / "a.png")
    assert done.returncode == 2 and "the tokens of bytes are no pixels" in done.stderr.decode()
    assert draw("--out", tmp_path / "a.png", "--count", 0).returncode == 2
    assert draw("--out", tmp_path / "no" / "a.png").returncode == 2
    assert not list(tmp_path.glob("a.png*"))
