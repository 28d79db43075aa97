"""What `dir()` and a notebook show of public objects: the names that docs/api.md describes, the story of a kernel."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import numpy as np
import pytest

import spfgen
import spfgen.array
from docs.made.pages import ROOT

API = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
SPEC = spfgen.load(ROOT / "tests" / "data" / "kernels.spf")
MINE = spfgen.load(ROOT / "tests" / "data" / "mine.spf")
KERNEL = SPEC.kernels["spmv"].compile()
TENSOR = spfgen.pack(np.eye(3), "csr")
PUBLIC = {
    "Spec": SPEC,
    "KernelSpec": SPEC.kernels["spmv"],
    "LayoutHandle": next(iter(MINE.layouts.values())),
    "Kernel": KERNEL,
    "Bound": KERNEL.bind(A=TENSOR, x=np.ones(3)),
    "Layout": TENSOR.layout,
    "Tensor": TENSOR,
    "LazyArray": spfgen.asarray(TENSOR) + 1,
}


@pytest.mark.parametrize("name", PUBLIC)
def test_the_names_that_are_shown_are_those_that_are_described(name: str) -> None:
    shown = dir(PUBLIC[name])
    assert all(hasattr(PUBLIC[name], n) or n == "item" for n in shown)
    assert not any(n.startswith("_") for n in shown)
    described = re.search(rf"autoclass:: spfgen\.\S*\b{name}\n((?:   :.*\n)*)", API)
    assert described, f"docs/api.md does not describe {name}"
    members = re.search(r":members: (\w.*)", described[1])
    if members:
        assert sorted(set(members[1].split(", ")) - {"__call__"}) == shown
    else:
        assert ":members:" in described[1]


def test_the_names_of_modules() -> None:
    assert set(dir(spfgen)) == {*spfgen.__all__, "__version__", "array"}
    assert dir(spfgen.array) == sorted(spfgen.array.__all__)


@pytest.mark.parametrize("name", SPEC.kernels)
def test_a_notebook_shows_statement_loops_proofs_and_c(name: str) -> None:
    text = SPEC.kernels[name].compile()._repr_html_()
    found = ElementTree.fromstring(text)
    assert [s.text for s in found.iter("summary")][:2] == ["Loops", "Proofs"]
    folded = [d for d in found.findall("details") if d.find("summary").text == "C"]
    assert f"int {name}(" in "".join(folded[0].itertext())
    assert "=" in found.find("pre").text
