"""Who may include whom, and a check of the sources against it.

A unit is a folder (with the folders below it that are not units themselves) or a single file. Its files may include
one another, base/, and what its row names; a name that is no unit, such as a header, allows just that path.
"""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

KERNELS = ["kernels/device", "kernels/host", "kernels/numbers", "kernels/ops"]
MODEL = ["models/runtime/model.h", "models/runtime/state.h", "models/runtime/config", "models/runtime/begin_id.h",
         "models/runtime/tokenizer", "models/runtime/text/conversation_writer.h", "models/runtime/text/grammar.h",
         "models/runtime/text/grammars.h"]
RUNTIME = ["models/runtime", "models/runtime/config", "models/runtime/tokenizer", "models/runtime/text"]
STACK = RUNTIME + ["models/runtime/stack"]
ATTENTION = "models/runtime/layers/attention"
ATTENTION_KINDS = [str(folder.relative_to(ROOT)) for folder in sorted((ROOT / ATTENTION).iterdir()) if folder.is_dir()]
LAYERS = [ATTENTION, "models/runtime/layers/mlp", "models/runtime/layers/norm", "models/runtime/layers/recurrent"]
SAMPLING = ["kernels/ops/sample.h", "kernels/ops/token_logprobs.h"]
ENGINE = [f"server/engine{room}" for room in ("", "/request", "/memory", "/scheduling", "/sequence")]
SESSIONS = ["server/sessions/session_store.h", "server/sessions/record", "server/sessions/snapshot"]
STORE = SESSIONS + ["server/sessions/durable", "server/sessions/placement", "server/sessions/store"]
DURABLE = ["server/sessions/record", "server/sessions/snapshot", "server/sessions/durable"]
RPC = [f"server/rpc/{room}" for room in ("wire", "limits", "transport", "access", "calls", "calls/snapshots", "services")]

ALLOWED = {
    "base": [],
    "kernels/device": ["kernels/host"],
    "kernels/make_device.cc": ["kernels/device", "kernels/cpu", "kernels/cuda/make_device.h"],
    "kernels/host": [],
    "kernels/numbers": ["kernels/device"],
    "kernels/ops": KERNELS,
    "kernels/cpu": KERNELS,
    "kernels/cuda": KERNELS,
    "kernels/no_cuda": KERNELS + ["kernels/cuda/make_device.h"],
    "models/runtime/config": [],
    "models/runtime/text/library": [],
    "models/runtime/tokenizer": ["models/runtime/config", "models/runtime/sentencepiece_shim", "models/runtime/text/library"],
    "models/runtime/text": ["models/runtime/config", "models/runtime/tokenizer", "models/runtime/text/library",
                            "kernels/ops/sample.h"],  # what a mask is
    "models/runtime": KERNELS + RUNTIME,
    "models/runtime/registry": KERNELS + RUNTIME + ["models/runtime/families"],
    "models/runtime/stack": KERNELS + RUNTIME,
    **{layer: KERNELS + STACK for layer in LAYERS},
    **{kind: KERNELS + STACK + [ATTENTION] for kind in ATTENTION_KINDS},
    # Heads with rotary positions and a ring; beyond that attention over codes.
    f"{ATTENTION}/ring": KERNELS + STACK + [ATTENTION, f"{ATTENTION}/rotary", f"{ATTENTION}/vq"],
    "models/runtime/families/transformer": KERNELS + STACK + LAYERS,
    "models/runtime/families/encoder": KERNELS + STACK + LAYERS + ["models/runtime/families/transformer"],
    "models/runtime/families": KERNELS + STACK + LAYERS + ATTENTION_KINDS + ["models/runtime/families/transformer",
                                                                             "models/runtime/families/encoder"],
    "models/runtime/sentencepiece_shim": [],
    "models/verify": KERNELS + RUNTIME + ["kernels/cpu", "models/runtime/registry"],
    "proto": [],
    "server/engine/memory": [],
    "server/engine/request": MODEL + SAMPLING + ["server/engine/memory"],
    "server/engine/scheduling": ["server/engine/request", "models/runtime/model.h"],
    "server/engine/sequence": MODEL + SAMPLING + ["server/engine/memory", "server/engine/request",
                                                  "server/engine/scheduling"],
    "server/engine": MODEL + SAMPLING + ENGINE,
    "server/sessions/session_store.h": ["server/engine", "server/engine/request"] + DURABLE,
    "server/sessions/record": ["server/engine/request"],
    "server/sessions/snapshot": ["server/engine/request", "models/runtime/model.h", "models/runtime/state.h",
                                 "server/sessions/record"],
    "server/sessions/durable": ["server/sessions/record", "server/sessions/snapshot"],
    "server/sessions/durable/disk": DURABLE,
    "server/sessions/durable/redis": DURABLE,
    "server/sessions/placement": ["server/engine", "server/engine/memory", "server/engine/request"] + SESSIONS
                                 + ["server/sessions/durable"],
    "server/sessions/store": ENGINE + MODEL + STORE,
    "server/metrics": ["server/engine/engine_stats.h", "server/sessions/record/session_stats.h"],
    "server/rpc/wire": ENGINE + MODEL + SAMPLING + SESSIONS + ["proto"],
    "server/rpc/limits": ["server/rpc/wire"],
    "server/rpc/limits/connections": [],
    "server/rpc/listen": ["server/rpc/limits/connections"],
    "server/rpc/transport": ["proto", "server/rpc/wire", "server/rpc/limits"],
    "server/rpc/access": ["server/engine/request", "server/rpc/wire", "server/rpc/limits"],
    "server/rpc/calls": ENGINE + MODEL + SAMPLING + SESSIONS + ["proto", "server/rpc/limits/connections"] + RPC[:4],
    "server/rpc/calls/snapshots": ENGINE + MODEL + SESSIONS + ["proto"] + RPC[:5],
    "server/rpc/services": ENGINE + MODEL + SESSIONS + ["proto", "server/rpc/limits/connections", "server/rpc/listen"] + RPC,
    "server/startup": KERNELS + ENGINE + STORE + RPC + RUNTIME + ["models/runtime/registry", "server/rpc/listen",
                       "server/sessions/durable/disk", "server/sessions/durable/redis", "server/metrics"],
    "server/main.cc": KERNELS + ENGINE + STORE + RPC + ["server/metrics", "server/startup"],
    "client/cpp": ["proto"],
    "client/chat": ["proto"],
    "client/json": ["proto"],
    "client/cli/line": [],
    "client/cli": ["client/cli/line", "client/cpp", "client/chat", "client/json", "proto"],
    "client/gateway/http": [],
    "client/gateway/bodies": ["client/chat", "proto"],
    "client/gateway/upstream": ["client/cpp", "client/gateway/http", "proto"],
    "client/gateway": ["client/gateway/http", "client/gateway/bodies", "client/gateway/upstream", "client/cpp",
                       "client/json", "proto"],
    "client/loadtest/workload": [],
    "client/loadtest/statistics": ["client/loadtest/workload"],
    "client/loadtest/driver": ["client/loadtest/workload", "client/loadtest/statistics"],
    "client/loadtest/report": ["client/loadtest/workload", "client/loadtest/statistics"],
    "client/loadtest/http": ["client/loadtest/workload", "client/loadtest/driver"],
    "client/loadtest": ["client/loadtest/workload", "client/loadtest/statistics", "client/loadtest/driver",
                        "client/loadtest/report", "client/loadtest/http", "client/cpp", "proto"],
}

# Third-party headers that belong to some units alone.
GATEWAY = ["client/gateway", "client/gateway/upstream"]
NO_CALLS = ["client/chat", "client/json", "client/gateway/bodies"]
PROTOBUF = ["proto", *RPC, "client/cpp", "client/cli", "client/loadtest"] + GATEWAY + NO_CALLS
GRPC = [unit for unit in PROTOBUF if unit not in NO_CALLS] + ["server/rpc/limits/connections"]
THIRD_PARTY = {
    r"(grpc|grpcpp)/|.*\.grpc\.pb\.h$": GRPC,
    r"google/protobuf/|.*\.pb\.h$": PROTOBUF,
    r"boost/beast/": ["client/gateway/http", "client/loadtest/http"],
    r"boost/": ["client/gateway/http", "client/loadtest/http"] + GATEWAY,
    r"(hwy/.*|\w*intrin\.h)$": ["kernels/cpu"],
    r"(cu(da|blas)\w*)(\.h|/.*)$": ["kernels/cuda"],
    r"openssl/": ["server/rpc/access", "server/rpc/wire", "server/rpc/limits/connections", "server/sessions/placement", "client/cpp",
                  "client/gateway/http"],
    r"prometheus/": ["server/metrics", "client/gateway"],
    r"sentencepiece": ["models/runtime/sentencepiece_shim"],
    r"CLI/": ["base"],
    r"histedit": ["client/cli/line"],
    r"hiredis/": ["server/sessions/durable/redis"],
    r"spdlog/": ["server/main.cc", "server/startup", *RPC, "server/rpc/limits/connections", "server/rpc/listen",
                 "client/gateway", "client/loadtest"],
}

# Names of families, as code spells them. Only their own files and the attention kinds may. One is also the name of an op
# of kernels, for what it computes: VqEncoderAttention in vq_encoder.h.
FAMILIES = sorted(name for file in (ROOT / "models/runtime/families").glob("*.cc")
                  for name in re.findall(r'return {"(\w+)",', file.read_text()))
OF_AN_OP = {"vq_encoder": "(?!_?attention|_h_|[./])"}
FAMILY = re.compile("|".join(name.replace("_", "_?") + OF_AN_OP.get(name, "") for name in FAMILIES), re.IGNORECASE)
KNOWS_FAMILIES = ["models/runtime/families", "models/runtime/families/encoder", *ATTENTION_KINDS]

SOURCES = ("base", "kernels", "models", "proto", "server", "client")
SUFFIXES = (".cc", ".h", ".cu", ".cuh", ".inc")
INCLUDE = re.compile(r'^\s*#\s*include\s*["<]([^">]+)[">]')


def unit_of(path):
    """The most specific unit that holds `path`; None for what is not ours."""
    if path.startswith("tvq/v1/"):  # generated from proto/tvq/v1
        return "proto"
    candidates = [unit for unit in ALLOWED if path == unit or path.startswith(unit + "/")]
    return max(candidates, key=len, default=None)


def may_include(unit, header):
    """Whether a file of `unit` may include `header`."""
    for pattern, units in THIRD_PARTY.items():
        if re.match(pattern, header) and unit not in units:
            return False
    target = unit_of(header)
    if target is None:
        return not header.startswith(tuple(f"{folder}/" for folder in SOURCES))
    return target in (unit, "base") or target in ALLOWED[unit] or header in ALLOWED[unit]


def check_file(root, path):
    """Yields a line for every include or name in `path` that the tables do not allow."""
    unit = unit_of(path)
    if unit is None:
        yield f"{path}: belongs to no unit; add a row for its folder to tests/layering/layers.py"
        return
    for number, line in enumerate((root / path).read_text().splitlines(), 1):
        include = INCLUDE.match(line)
        if include and not may_include(unit, include.group(1)):
            yield f"{path}:{number}: {unit} may not include {include.group(1)}"
        elif unit not in KNOWS_FAMILIES and not include and FAMILY.search(line):
            yield f"{path}:{number}: names a family of models outside models/runtime/families: {line.strip()}"


def circles(root):
    """The units that include one another, by whatever way round."""
    root = Path(root)
    includes = {unit: set() for unit in ALLOWED}
    for path in sources(root):
        headers = (INCLUDE.match(line) for line in (root / path).read_text().splitlines())
        units = {unit_of(header.group(1)) for header in headers if header}
        includes[unit_of(path)] |= units - {unit_of(path), None}

    def reached(unit):
        seen, left = set(), [unit]
        while left:
            new = includes[left.pop()] - seen
            seen |= new
            left += new
        return seen

    return sorted(unit for unit in includes if unit in reached(unit))


def sources(root):
    """Paths of the C++ and CUDA sources under `root`, relative to it."""
    return sorted(str(file.relative_to(root)) for folder in SOURCES for file in (root / folder).rglob("*")
                  if file.suffix in SUFFIXES)


def check(root):
    """Every violation below `root`, one line each."""
    root = Path(root)
    return [line for path in sources(root) for line in check_file(root, path)]
