"""What is recorded of a kernel is enough to make and to call it again; and what differs is said."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.replay.__main__ import main, save
from tests.replay.corpus import Program, joined, of_json, read
from tests.replay.outcome import differences, outcome_of

RECORDED = """
from contextlib import suppress
import numpy, scipy.sparse, spfgen
A = scipy.sparse.csr_array(numpy.array([[0, 1.5, 0], [2, 0, 0.25]]))
x = numpy.array([1.0, 2, 4])
spfgen.evaluate("y[i] = A[i,j]*x[j]", A=A, x=x)
spfgen.evaluate("C[i,j] = A[i,j]*z", A=A, z=2, out="csr")
spec = spfgen.parse('''
function twice(a) { return a + a }
kernel ordered {
    size n
    tensor A : csr<double, int64>
    tensor x, y : dense
    local tensor t : dense
    t[i] = twice(x[i]) where i < n
    y[i] += max(j: A[i, j]*t[j])
    schedule { serial i }
}
''')
spec.kernels["ordered"].compile(optimize=1).bind(A=spfgen.pack(A, "csr<double, int64>"), x=x, y=numpy.ones(2), n=2)
with suppress(spfgen.errors.SpecError):
    spfgen.parse("kernel k { y[i] = A[i, }")
with suppress(spfgen.errors.SpecError):
    spfgen.compile("y[i] = A[i,j]*x[j]", A="csc", x="dense", schedule="order q")
"""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> list[Program]:
    folder = tmp_path_factory.mktemp("replay")
    code = f"import os; os.environ['SPFGEN_REPLAY'] = {str(folder)!r}\nimport tests.replay.recorder\n{RECORDED}"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[2])
    (part,) = folder.glob("*.jsonl")
    return joined(of_json(json.loads(line)) for line in part.read_text("utf-8").splitlines())


def test_each_kernel_is_recorded_once_with_its_calls(recorded: list[Program]) -> None:
    assert [(p.kernel, p.level, len(p.calls)) for p in recorded] == [
        ("kernel", 2, 1),
        ("kernel", 2, 1),
        ("ordered", 1, 1),
        ("", 2, 0),
        ("kernel", 2, 0),
    ]


def test_what_is_made_again_gives_the_results(recorded: list[Program]) -> None:
    made = [outcome_of(p) for p in recorded]
    first, second, third = (m["calls"][0]["results"] for m in made[:3])
    assert first["y"]["arrays"]["val"]["data"] == [3.0, 3.0]
    assert second["C"]["arrays"]["val"]["data"] == [3.0, 4.0, 0.5]
    assert third["y"]["arrays"]["val"]["data"] == [7.0, 5.0]
    assert [m["refused"]["class"] for m in made[3:]] == ["SpecError", "SpecError"]


def test_a_corpus_is_replayed(recorded: list[Program], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    corpus = tmp_path / "corpus.xz"
    save(corpus, [(recorded[3], outcome_of(recorded[3])), (recorded[4], {"read": True})])
    assert read(corpus)[0]["programs"] == 2
    assert main([str(corpus), "-j", "1"]) == 1
    said = capsys.readouterr().out
    assert "accepted -> SpecError (expected an index" in said
    assert said.endswith("1 differ\n")


def test_what_differs_is_said(recorded: list[Program]) -> None:
    one = outcome_of(recorded[0])
    assert not [*differences(one, one, c=True)]
    other = json.loads(json.dumps(one))
    other["calls"][0]["results"]["y"]["arrays"]["val"]["data"][1] = 3.5
    other["code"] = ""
    assert [*differences(one, other, c=True)] == ["call 0: y: val: [3.0, 3.0] -> [3.0, 3.5]", "C"]
    assert len([*differences(one, other, c=False)]) == 1
    assert [*differences(one, outcome_of(replace(recorded[0], text="kernel k {")), c=True)] != []
    commented = {**one, "c": ""}
    assert [*differences(one, commented, c=True)] == ["C: comments only"]
