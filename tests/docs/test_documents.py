"""Every code block of every Markdown document: those that are commands run as they stand, in the order of their document.

They run in a copy of the tree (workplace.py), on README's own server: all models of models/zoo, and a gateway before it. What
is not run has a marker that says why (plan.py); the end of the output counts the reasons.
"""

import subprocess
from pathlib import Path

import pytest
from code_blocks import blocks
from needs import NEEDS
from plan import NO_COMMAND, NOT_RUN, plan
from workplace import ROOT, Workplace


def documents():
    """What git knows, or, of a tree without its history, all."""
    tracked = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True)
    if tracked.returncode == 0:
        return tracked.stdout.split()
    skipped = {"build", "node_modules", ".cache"}
    return sorted(str(path.relative_to(ROOT)) for path in ROOT.rglob("*.md") if not skipped & set(path.parts))


BLOCKS = [block for document in documents() for block in blocks(document, Path(ROOT / document).read_text())]


class Places:
    """The workplace of the document whose turn it is."""

    def __init__(self, folders):
        self.folders, self.document, self.place = folders, None, None

    def of(self, document):
        if document != self.document:
            self.leave()
            self.place = Workplace(self.folders.mktemp("document"))
            self.document = document
        return self.place

    def leave(self):
        if self.place:
            self.place.close()


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    found = Places(tmp_path_factory)
    yield found
    found.leave()


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.place)
def test_block(places, block, record_property):
    todo = plan(block, NEEDS)
    if todo.kind in (NO_COMMAND, NOT_RUN):
        record_property("block", f"{todo.kind}: {todo.reason}")
        return
    arguments = {}
    for name in todo.needs:
        arguments |= NEEDS[name]()
    places.of(block.document).run(todo, **arguments)
    record_property("block", "run")
