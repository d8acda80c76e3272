"""Modules of models/training import one another in one direction."""

import ast
import graphlib
import pathlib

import pytest

FOLDER = pathlib.Path(__file__).resolve().parents[3] / "models" / "training"
PACKAGE = "models.training"


def imports(source: str) -> set:
    """Names of the package's modules that a module imports, also inside its functions."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module == PACKAGE:
            found.update(f"{PACKAGE}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module)
    return {name[len(PACKAGE) + 1:] for name in found if name.startswith(PACKAGE + ".")}


def order(modules: dict) -> list:
    """The modules, each after those that it imports. graphlib.CycleError if there is no such order."""
    return list(graphlib.TopologicalSorter(modules).static_order())


def test_modules_have_an_order():
    modules = {file.stem: imports(file.read_text()) for file in FOLDER.glob("*.py")}
    assert {"config", "model"} <= modules["export"]
    assert set(order(modules)) == set(modules)


def test_an_import_inside_a_function_counts():
    inside = "def main():\n    from models.training import b\n    import models.training.c\n"
    assert imports(inside) == {"b", "c"}
    with pytest.raises(graphlib.CycleError):
        order({"a": imports(inside), "b": imports("from models.training.a import main\n"), "c": set()})
