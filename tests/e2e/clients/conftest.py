"""What the clients speak to: an open server, and one that wants keys and slows down who calls too often."""

import hashlib
import json
import shutil
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from gateway_process import GatewayProcess  # noqa: E402
from server_process import GOLDEN, ServerProcess  # noqa: E402

KEY = "key-of-the-tests"
TEMPLATE = {"user": {"prefix": "User: ", "suffix": "\n"}, "assistant": {"prefix": "Tutor:", "suffix": "\n"}}


@pytest.fixture(scope="session")
def server(api, tmp_path_factory):
    """The models `bytes`, `chat`, which is the same with a template of conversations, and `encoder`."""
    chat = tmp_path_factory.mktemp("model") / "chat"
    shutil.copytree(GOLDEN / "bytes_untied", chat)
    (chat / "generation_config.json").write_text(json.dumps({"chat_template": TEMPLATE}))
    encoder = GOLDEN / "families" / "encoder_gated_multi_query"
    with ServerProcess(api, "--model", f"chat={chat}", "--model", f"bytes={GOLDEN / 'bytes_untied'}",
                       "--model", f"encoder={encoder}") as process:
        yield process


@pytest.fixture(scope="session")
def gateway(server):
    with GatewayProcess(server.address) as process:
        yield process


@pytest.fixture(scope="session")
def guarded(api, tmp_path_factory):
    """A gateway in front of a server that takes KEY alone, a call every other second."""
    keys = tmp_path_factory.mktemp("keys") / "keys.txt"
    keys.write_text(f"tests {hashlib.sha256(KEY.encode()).hexdigest()}\n")
    with ServerProcess(api, "--model", f"bytes={GOLDEN / 'bytes_untied'}", "--api-key-file", keys,
                       "--max-requests-per-second", "0.5") as process, GatewayProcess(process.address) as gateway:
        yield gateway


@pytest.fixture(scope="session")
def openai_addresses(gateway, guarded):
    """What the cases of OpenAI's packages read from the environment."""
    return {"TVQ_URL": f"{gateway.url}/v1", "TVQ_GUARDED_URL": f"{guarded.url}/v1", "TVQ_KEY": KEY}
