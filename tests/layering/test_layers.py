"""The sources keep the order of layers, and the check catches who does not."""

import re
from pathlib import Path

import pytest

import layers

ROOT = Path(__file__).resolve().parents[2]


def plant(root, path, text):
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def test_sources_keep_the_order():
    assert len(layers.sources(ROOT)) > 50
    assert layers.check(ROOT) == []


def test_no_units_include_one_another():
    assert layers.circles(ROOT) == []


def test_a_circle_is_caught(tmp_path):
    plant(tmp_path, "server/engine/memory/budget.h", '#include "server/engine/request/request.h"\n')
    plant(tmp_path, "server/engine/request/request.h", '#include "server/engine/scheduling/turns.h"\n')
    plant(tmp_path, "server/engine/scheduling/turns.h", '#include "server/engine/memory/budget.h"\n')
    plant(tmp_path, "server/engine/engine.h", '#include "server/engine/memory/budget.h"\n')
    assert layers.circles(tmp_path) == ["server/engine/memory", "server/engine/request", "server/engine/scheduling"]


def test_order_has_no_cycle_between_top_units():
    # kernels and kernels/ops are one layer in two folders, as are models/runtime and its parts.
    def top(name):
        return "/".join(name.split("/")[:1 if name.startswith("kernels") else 2])

    edges = {(top(unit), top(target)) for unit, targets in layers.ALLOWED.items() for target in targets}
    order = ["base", "kernels", "models/runtime", "models/verify", "proto", "server/engine",
             "server/sessions", "server/metrics", "server/rpc", "server/startup", "server/main.cc", "client/cpp", "client/chat", "client/json",
             "client/cli", "client/gateway", "client/loadtest"]
    for lower, upper in ((target, unit) for unit, target in edges):
        assert order.index(lower) <= order.index(upper), f"{upper} -> {lower} goes upwards"


def test_every_family_has_its_name_watched():
    listed = re.findall(r"(\w+)Family\(\),", (ROOT / "models/runtime/families/families.cc").read_text())
    assert len(listed) > 3
    assert [name.replace("_", "") for name in layers.FAMILIES] == [name.lower() for name in listed]
    assert [name for name in listed if not layers.FAMILY.search(f" {name} ")] == []


@pytest.mark.parametrize("path, line", [
    ("kernels/cpu/linear/avx2.cc", '#include "models/runtime/config/config.h"'),
    ("kernels/ops/linear.cc", '#include "kernels/cpu/thread_pool.h"'),
    ("kernels/device/tensor.h", "#include <grpcpp/grpcpp.h>"),
    ("kernels/device/device.h", '#include "kernels/ops/backend.h"'),
    ("kernels/ops/linear.cc", "#include <immintrin.h>"),
    ("models/runtime/weights.cc", '#include "server/engine/request/request.h"'),
    ("models/runtime/weights.cc", '#include "models/runtime/families/families.h"'),
    ("models/runtime/stack/stack.cc", '#include "models/runtime/layers/attention/vq/core.h"'),
    ("models/runtime/config/config.cc", '  if (family == "transformer_vq") return VqShape(json);'),
    ("server/engine/engine.cc", '#include "models/runtime/stack/stack.h"'),
    ("server/engine/engine.cc", '#include "kernels/cpu/cpu_device.h"'),
    ("server/engine/engine.cc", '#include "tvq/v1/generation.pb.h"'),
    ("server/engine/engine.cc", "#include <google/protobuf/message.h>"),
    ("server/engine/scheduling/scheduler.cc", '#include "server/rpc/wire/convert.h"'),
    ("server/sessions/store/store.cc", '#include "kernels/device/tensor.h"'),
    ("server/rpc/wire/convert.cc", '#include "models/runtime/weights.h"'),
    ("server/main.cc", "  auto model = TransformerVqModel::Load(dir);"),
    ("server/startup/load_models.cc", "  VqEncoder* encoder = nullptr;"),
    ("client/cpp/client.cc", '#include "server/engine/request/request.h"'),
    ("client/cli/main.cc", '#include "models/runtime/tokenizer/tokenizer.h"'),
    ("server/helpers/strings.h", "#include <string>"),
])
def test_planted_violation_is_caught(tmp_path, path, line):
    plant(tmp_path, path, f"// A file.\n{line}\n")
    violations = layers.check(tmp_path)
    assert len(violations) == 1
    assert path in violations[0]


@pytest.mark.parametrize("path, line", [
    ("kernels/cpu/linear/avx2.cc", "#include <immintrin.h>"),
    ("kernels/ops/linear.cc", '#include "kernels/device/device.h"'),
    ("models/runtime/registry/registry.cc", '#include "models/runtime/families/families.h"'),
    ("models/runtime/families/families.cc", "class TransformerVqState {};"),
    ("models/runtime/layers/attention/vq/parts.cc", '#include "models/runtime/layers/attention/attention_core.h"'),
    ("server/engine/engine.cc", '#include "models/runtime/model.h"'),
    ("server/rpc/wire/convert.cc", '#include "tvq/v1/generation.pb.h"'),
    ("client/cli/main.cc", '#include "client/cpp/client.h"'),
    ("kernels/ops/linear.cc", "// Equation 12 of the Transformer-VQ paper."),
    ("kernels/ops/attention/vq_encoder.cc", "  return backend.vq_encoder_attention(device, args);"),
])
def test_what_the_order_allows_passes(tmp_path, path, line):
    plant(tmp_path, path, f"{line}\n")
    assert layers.check(tmp_path) == []
