#!/usr/bin/env python3
"""Generates tvq/v1/*_pb2.py, their type hints and sampling.py from proto/tvq/v1, so that the package can be imported.

    client/python/stubs.py [DIR]     into DIR/tvq/v1; by default beside this file, to use the package from here

Needs protoc 3.20 or later: the command (package protobuf-compiler), or the Python package grpcio-tools. Only messages
are generated; calls need nothing more.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROTO = HERE / "proto"


def protoc():
    """The command that runs protoc, or None."""
    if shutil.which("protoc"):
        return ["protoc"]
    try:
        import grpc_tools
    except ImportError:
        return None
    return [sys.executable, "-m", "grpc_tools.protoc", f"-I{Path(grpc_tools.__file__).parent / '_proto'}"]


def sampling(hints):
    """Of the type hints of generation_pb2, a module with what SamplingParams may be given, as a TypedDict."""
    described = hints.split("\nclass SamplingParams(")[1].split("\nclass ")[0]
    fields = re.findall(r"^    (?!__)([a-z_]+): (\S.*)$", described, re.MULTILINE)
    lines = ['"""How tokens are chosen, generated from proto/tvq/v1."""', "", "from typing import Mapping, Sequence, TypedDict, Union", "",
             "", "class Sampling(TypedDict, total=False):",
             '    """SamplingParams of generation.proto, whose comments give ranges and defaults."""', ""]
    for name, hint in fields:
        hint = hint.replace("_containers.RepeatedScalarFieldContainer[str]", "Union[str, Sequence[str]]")
        hint = hint.replace("_containers.RepeatedScalarFieldContainer", "Sequence").replace("_containers.ScalarMap", "Mapping")
        lines.append(f"    {name}: {hint}")
    return "\n".join(lines) + "\n"


def generate(out):
    """Generates the package tvq.v1 below the folder `out`; returns the oldest protobuf that can load it."""
    command = protoc()
    if command is None:
        raise SystemExit("stubs.py: needs protoc (package protobuf-compiler) or the Python package grpcio-tools")
    package = Path(out) / "tvq" / "v1"
    package.mkdir(parents=True, exist_ok=True)
    protos = sorted(str(path.relative_to(PROTO)) for path in PROTO.glob("tvq/v1/*.proto"))
    subprocess.run([*command, f"-I{PROTO}", f"--python_out={out}", f"--pyi_out={out}", *protos], check=True)
    (package / "__init__.py").write_text('"""Messages of the wire, generated from proto/tvq/v1."""\n')
    (package / "sampling.py").write_text(sampling((package / "generation_pb2.pyi").read_text()))
    version = re.search(r"# Protobuf Python Version: ([\d.]+)", (package / "session_pb2.py").read_text())
    return version.group(1) if version else "3.20.2"


if __name__ == "__main__":
    generate(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)
