"""llama.cpp's collection of chat templates of published models, by a server and by PyPI's Jinja as transformers sets it up."""

import collections
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import grpc
import pytest

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
from clients.packages import fetched  # noqa: E402
from conversations import CONVERSATIONS  # noqa: E402
from fetch_templates import FILE  # noqa: E402
from server_process import GOLDEN, ServerProcess  # noqa: E402

JINJA = ("Jinja2==3.1.6", "MarkupSafe==3.0.3")
VARIABLES = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
MOST_TEMPLATES = 64  # of a model
# Text beside one that |safe has marked is escaped by Jinja, so that JSON of tools has &#34; for every quote.
OTHERWISE = {"meetkai-functionary-medium-v3.1"}
PATIENCE_SECONDS = 300


@pytest.fixture(scope="module")
def folder():
    """Has `bin/python` with Jinja, and the templates in `templates`."""

    def fetch(folder):
        yield sys.executable, "-m", "venv", folder
        yield folder / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check", "--retries", "1", "--no-deps", *JINJA
        yield "mkdir", folder / "templates"
        yield folder / "bin" / "python", HERE / "fetch_templates.py", folder / "templates"

    def reach(folder):
        return folder / "bin" / "pip", "download", "--retries", "0", "--no-deps", "--dest", folder / "reach", "idna"

    return fetched("chat_templates", json.dumps([FILE, JINJA, sys.executable]), fetch, "PyPI", reach)


@pytest.fixture(scope="module")
def templates(folder):
    found = {file.stem: file.read_text() for file in sorted((folder / "templates").iterdir())}
    assert len(found) == 70
    return found


@pytest.fixture(scope="module")
def server(api, templates, tmp_path_factory):
    """Its model of a template is model_of(templates)[name]."""
    folder = tmp_path_factory.mktemp("models")
    for name, model in model_of(templates).items():
        if not (folder / model).exists():
            shutil.copytree(GOLDEN / "hugging_face" / "qwen3_tied", folder / model)
            config = folder / model / "tokenizer_config.json"
            config.write_text(json.dumps({**json.loads(config.read_text()), **VARIABLES, "add_bos_token": False}))
            (folder / model / "additional_chat_templates").mkdir()
        (folder / model / "additional_chat_templates" / f"{name}.jinja").write_text(templates[name])
    models = [f"--model={path.name}={path}" for path in sorted(folder.iterdir())]
    with ServerProcess(api, *models) as process:
        yield process


def model_of(templates):
    return {name: f"templates{index // MOST_TEMPLATES}" for index, name in enumerate(templates)}


def by_jinja(folder, templates, calls):
    asked = {"templates": templates, "conversations": CONVERSATIONS, "calls": calls, "variables": VARIABLES}
    done = subprocess.run([folder / "bin" / "python", HERE / "as_transformers.py"], input=json.dumps(asked), text=True,
                          capture_output=True, timeout=PATIENCE_SECONDS, env={**os.environ, "PYTHONUTF8": "1"})
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def by_server(api, server, model, template, conversation, prompt):
    asked = api.generation.Conversation(messages=json.dumps(conversation["messages"]), template_name=template,
                                        continue_final_message=conversation["continues"])
    if conversation["tools"] is not None:
        asked.tools = json.dumps(conversation["tools"])
    if conversation["kwargs"] is not None:
        asked.template_kwargs = json.dumps(conversation["kwargs"])
    if not conversation["continues"]:
        asked.add_generation_prompt = prompt
    try:
        return "text", server.generation.Tokenize(api.generation.TokenizeRequest(model=model, conversation=asked)).text
    except grpc.RpcError as error:
        assert error.code() == grpc.StatusCode.INVALID_ARGUMENT, error
        return "failed", error.details()


def relation(ours, theirs):
    if theirs[0] == "text":
        return "the same text" if ours == theirs else "differ"
    if theirs[0] == "raised":
        return "the same refusal" if ours[0] == "failed" and theirs[1] in ours[1] else "differ"
    return "both fail" if ours[0] == "failed" else "written, where Python fails"


def test_templates_write_what_jinja_writes(api, server, folder, templates):
    calls = [(name, prompt) for name, conversation in CONVERSATIONS.items()
             for prompt in ((False,) if conversation["continues"] else (False, True))]
    theirs = by_jinja(folder, templates, calls)
    counts, differ = collections.Counter(), collections.defaultdict(list)
    for template, model in model_of(templates).items():
        for (name, prompt), expected in zip(calls, theirs[template], strict=True):
            ours = by_server(api, server, model, template, CONVERSATIONS[name], prompt)
            found = relation(ours, tuple(expected))
            counts[found] += 1
            if found == "differ":
                differ[template].append((name, prompt, ours, expected))
    print(json.dumps(counts))
    unexpected = {template: cases[:2] for template, cases in differ.items() if template not in OTHERWISE}
    assert not unexpected, unexpected
    assert set(differ) == OTHERWISE
    assert counts["the same text"] > 0.75 * counts.total()
