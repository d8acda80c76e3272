"""The generated modules under short names; load() once they are importable."""

import importlib
import types


def load():
    modules = types.SimpleNamespace()
    for name in ["session", "generation", "model", "admin"]:
        setattr(modules, name, importlib.import_module(f"tvq.v1.{name}_pb2"))
        setattr(modules, f"{name}_grpc", importlib.import_module(f"tvq.v1.{name}_pb2_grpc"))
    return modules
