"""The modules generated from proto/, under short names."""

import importlib
import shutil
import subprocess
import sys
import types

from server_process import ROOT

NAMES = ["field", "refusal", "session", "generation", "model", "admin"]


def generate(out):
    """Generates the modules into the directory `out`, makes them importable and loads them."""
    subprocess.run(
        ["protoc", f"--proto_path={ROOT / 'proto'}", f"--python_out={out}", f"--grpc_python_out={out}",
         f"--plugin=protoc-gen-grpc_python={shutil.which('grpc_python_plugin')}",
         *(f"tvq/v1/{name}.proto" for name in NAMES)],
        check=True)
    sys.path.insert(0, str(out))
    return load()


def load():
    modules = types.SimpleNamespace()
    for name in NAMES:
        setattr(modules, name, importlib.import_module(f"tvq.v1.{name}_pb2"))
        setattr(modules, f"{name}_grpc", importlib.import_module(f"tvq.v1.{name}_pb2_grpc"))
    return modules
