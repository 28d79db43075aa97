"""The page of a kernel: complete, well formed, alone; its formulas are the bytes and operations of real calls."""

from __future__ import annotations

import math
import re
import sys
from html.parser import HTMLParser

import numpy as np
import pytest

import spfgen
from spfgen.cli import run as command
from spfgen.estimate import memory, work
from spfgen.explain_html import SECTIONS, explain_html
from spfgen.run.calls.count import count_operations

VOID = {"meta", "br"}
KERNELS = {
    "spmv": ("y[i] = A[i, j]*x[j]", {"A": "csr", "x": "dense", "y": "dense"}),
    "blocks": ("y[i] = A[i, j]*x[j]", {"A": "bcsr(R=3, C=3)", "x": "dense", "y": "dense"}),
    "list": ("y[i] += 2*A[i, j]*x[j]", {"A": "coo", "x": "dense", "y": "dense"}),
}


class Tags(HTMLParser):
    """Every tag that opens closes; nothing comes from elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag, attrs) -> None:
        assert tag != "script"
        assert not [v for n, v in attrs if n in ("src", "href") and not (v or "").startswith("#")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data) -> None:
        self.texts.append(data)


def bound(name: str):
    statement, layouts = KERNELS[name]
    kernel = spfgen.compile(statement, **layouts)
    dense = (np.random.default_rng(0).random((9, 12)) < 0.3).astype(float)
    return kernel, kernel.bind(A=spfgen.pack(dense, layouts["A"]), x=np.ones(12), y=np.zeros(9))


def value(formula: str, kernel_bound) -> float:
    """A formula with the sizes of a call."""
    names = {f"{t}.{n}": v for t, tensor in kernel_bound.tensors.items() for n, v in tensor.sizes.items()}
    text = re.sub(r"[A-Za-z]\w*\.\w+", lambda m: str(names[m[0]]), formula)
    return float(eval(text, {"Min": min, "Max": max, "floor": math.floor, "ceil": math.ceil}))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", KERNELS)
def test_memory_and_work_are_those_of_calls(name) -> None:
    kernel, call = bound(name)
    made = kernel.generated
    rows = dict(memory(made.program))
    for tensor, found in call.tensors.items():
        for array, data in found.arrays.items():
            assert value(rows[f"{tensor}.{array}"], call) == data.nbytes, array
    total = sum(data.nbytes for tensor in call.tensors.values() for data in tensor.arrays.values())
    assert value(rows["all, about"], call) == pytest.approx(total, rel=0.05)
    ((_, operations),) = work(made.program, made.plans)
    assert value(operations, call) == pytest.approx(count_operations(kernel, call), rel=0.01)


@pytest.mark.parametrize("coloured", [True, False])
def test_a_page(coloured, monkeypatch) -> None:
    if coloured:
        pytest.importorskip("pygments")
    else:
        monkeypatch.setitem(sys.modules, "pygments", None)
    kernel = spfgen.compile("C[i, j] = A[i, j]*B[i, j]", A="csr", B="bcsr(R=2, C=2)", C="dense")
    page = explain_html(kernel.generated)
    tags = Tags()
    tags.feed(page)
    tags.close()
    assert not tags.open
    text = "".join(tags.texts)
    assert all(f'id="{key}"' in page and title in text for key, title in SECTIONS.items())
    assert "because which is fastest depends on the sizes" in text
    for line in kernel.source.splitlines():
        assert line.strip() in text
    for answer in kernel.generated.obligations:
        assert answer.goal in text
    assert page.count("<svg") == 3


def test_the_command(tmp_path, capsys) -> None:
    spec = tmp_path / "k.spf"
    spec.write_text("kernel k { tensor x, y : dense  y[i] = 2*x[i]  s = y[i] }")
    page = tmp_path / "k.html"
    arguments = ["explain", str(spec), "--html", str(page)]
    assert command(arguments) == 0
    assert page.read_text().startswith("<!DOCTYPE html>")
    assert not capsys.readouterr().out
    page.write_text("mine")
    assert command(arguments) == 2
    assert page.read_text() == "mine"
    assert command([*arguments, "--force"]) == 0
