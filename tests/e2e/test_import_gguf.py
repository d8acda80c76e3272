"""Directories that scripts/import-gguf makes, served: models of transformers, written as GGUF files by
tests/models/published/directory_gguf.py, have the same log-probabilities and ids as before."""

import json
import os
import subprocess
import sys

import grpc
import pytest
from server_process import BIN, GOLDEN, ROOT, ServerProcess

MODELS = GOLDEN / "hugging_face"
ENVIRONMENT = {**os.environ, "TVQ_PYTHON": sys.executable}
UNAVAILABLE = 3  # that scripts/gguf-python exits with where there is no network


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=600, env=ENVIRONMENT)
    if done.returncode == UNAVAILABLE and os.environ.get("CI") != "true":  # nobody reads what a machine's run has left out
        pytest.skip("the packages that read GGUF files cannot be fetched from PyPI, and are not here")
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="module")
def imported(tmp_path_factory):
    """imported(model): the directory made of its GGUF file."""
    folder, python = tmp_path_factory.mktemp("gguf"), run(ROOT / "scripts" / "gguf-python")

    def make(model):
        if not (folder / model).exists():
            run(python, ROOT / "tests" / "models" / "published" / "directory_gguf.py", MODELS / model, folder / f"{model}.gguf")
            run(ROOT / "scripts" / "import-gguf", folder / f"{model}.gguf", folder / model, "--dtype", "float32")
        return folder / model

    return make


@pytest.mark.parametrize("model", ["llama_gqa", "llava_mistral", "qwen2_vl", "qwen3_tied"])
def test_log_probabilities_are_those_of_transformers(imported, model):
    run(BIN / "tvq-verify", imported(model), MODELS / model / "expected.safetensors")


@pytest.fixture(scope="module")
def server(api, imported):
    with ServerProcess(api, *(flag for model in ("llama_gqa", "qwen3_tied") for flag in ("--model", f"{model}={imported(model)}"))
                       ) as process:
        yield process


@pytest.mark.parametrize("model", ["llama_gqa", "qwen3_tied"])
def test_texts_have_the_ids_of_transformers(server, api, model):
    rows = json.loads((MODELS / model / "tokenize.json").read_text(encoding="utf-8"))
    for row in rows:
        for special, ids in ((False, row["ids"]), (True, row["ids_with_special"])):
            found = server.generation.Tokenize(api.generation.TokenizeRequest(model=model, text=row["text"], add_special_tokens=special))
            assert list(found.token_ids) == ids, row["text"]
        decoded = server.generation.Detokenize(api.generation.DetokenizeRequest(model=model, token_ids=row["ids"]))
        assert decoded.text == row["decoded"]
    assert len(rows) > 10


@pytest.mark.parametrize("model", ["llama_gqa", "qwen3_tied"])
def test_conversations_are_written_as_by_transformers(server, api, model):
    written = 0
    for chat in json.loads((MODELS / model / "chat.json").read_text(encoding="utf-8")):
        conversation = api.generation.Conversation(messages=json.dumps(chat["messages"]))
        request = api.generation.TokenizeRequest(model=model, conversation=conversation)
        if "error" in chat:
            with pytest.raises(grpc.RpcError, match=chat["error"]):
                server.generation.Tokenize(request)
        elif chat["add_generation_prompt"]:
            assert server.generation.Tokenize(request).text == chat["text"]
            written += 1
    assert written
