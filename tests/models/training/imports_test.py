"""Modules of models/training import one another in one direction."""

import ast
import graphlib
import pathlib

import pytest

FOLDER = pathlib.Path(__file__).resolve().parents[3] / "models" / "training"
PACKAGE = "models.training"


def imports(source: str) -> set:
    """Names below the package that a module imports, also inside its functions: modules, and what is in them."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
            found.add(node.module)
    return {name[len(PACKAGE) + 1:] for name in found if name.startswith(PACKAGE + ".")}


def order(modules: dict) -> list:
    """The modules, each after those that it imports. graphlib.CycleError if there is no such order."""
    return list(graphlib.TopologicalSorter(modules).static_order())


def test_modules_have_an_order():
    files = {".".join(file.relative_to(FOLDER).with_suffix("").parts): file for file in FOLDER.rglob("*.py")}
    modules = {name: imports(file.read_text()) & set(files) for name, file in files.items()}
    assert {"families", "quantize", "files.checkpoint"} <= modules["export"]
    assert set(order(modules)) == set(modules)


def test_an_import_inside_a_function_counts():
    inside = "def main():\n    from models.training import b\n    import models.training.c\n"
    assert imports(inside) == {"b", "c"}
    assert imports("from models.training.data import text\n") >= {"data.text"}
    with pytest.raises(graphlib.CycleError):
        order({"a": imports(inside), "b": {"a"}, "c": set()})
