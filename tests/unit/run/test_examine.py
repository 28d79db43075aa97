"""`spfgen check` on good, doubtful and wrong files; and that it notices C that is wrong."""

from __future__ import annotations

import json

import numpy as np
import pytest

import spfgen
from spfgen.cli import run as command
from spfgen.errors import ToolError
from spfgen.run.examining import examine, examine_packing, sanitized

OWN = """
layout ranges(nrow, ncol; B = 2) {
    size nnz, more
    relation { [pi, pj] -> [i, j] :
        0 <= pi < nrow and first(pi) <= pj < last(pi) and i = pi and j = colidx(pj) }
    index first[nrow] { range 0 <= first(p) <= nnz }
    index last[nrow] { range 0 <= last(p) <= nnz }
    index colidx[nnz] { range 0 <= colidx(p) < ncol }
    index other[nnz] { range 0 <= other(p) < nrow }
    value val[nnz] at [pj]
}
kernel scaled {
    tensor A : ranges
    tensor x, y : dense
    size n, m
    y[i] = 2*A[i, j]*x[j] where j <= i + n
}
"""
CONTRADICTING = """
layout none(n) {
    size nnz
    relation { [p] -> [i] : 0 <= p < nnz and i = idx(p) }
    index idx[nnz] {
        range 0 <= idx(p) < n
        property forall p : idx(p) > p + n
    }
    value val[nnz] at [p]
}
"""


@pytest.fixture
def check(tmp_path, capsys):
    def called(text, *options):
        path = tmp_path / "own.spf"
        path.write_text(text)
        code = command(["check", str(path), *options])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return called


def test_a_layout_that_cannot_be_packed(check) -> None:
    code, out, err = check(OWN)
    assert (code, err) == (0, "")
    assert "properties   hold together" in out
    assert "one may be stored twice" in out
    assert "cannot be derived: its size `more` cannot be derived" in out
    assert "size `more`, constant `B`, index array `other`" in out
    assert "unused       note: size `m`\n" in out
    assert out.count("equal to the dense result") == 4


def test_facts_that_contradict(check) -> None:
    code, out, err = check(CONTRADICTING)
    assert code == 1
    assert "FAILED" in out
    assert "- forall p : idx(p) > p + n" in out
    assert "layout none" in err


def test_a_search_that_finds_nothing_is_a_note(check) -> None:
    """Arrays that are larger than what is tried."""
    code, out, err = check(CONTRADICTING.replace("forall p : idx(p) > p + n", "idx(0) > 100000"))
    assert (code, err) == (0, "")
    assert "note: no small arrays were found that satisfy these together" in out


def test_a_layout_of_the_repository(check) -> None:
    code, out, _ = check("layout mine = sv", "--json")
    assert code == 0
    (layout,) = json.loads(out)
    assert {f["verdict"] for f in layout["findings"]} == {"fine"}
    topics = [f["topic"] for f in layout["findings"]]
    assert topics == ["properties", "coordinates", "pack", "reading", "product", "reads"]


@pytest.mark.exhaustive
def test_kernels_with_any_name_and_any_output(check) -> None:
    """Names that a C program has too; results with a pattern of their own, with another's, of any rank; sizes;
    an order of loops that is kept from call to call."""
    text = """
    kernel call { tensor A : coo  tensor y : sv  size n  y[i] += A[i, j] where i < n }
    kernel word { tensor A : csr<float, int64>  tensor C : csr shares A  C[i, j] = 2*A[i, j]  z = A[i, j] }
    kernel solve { tensor L : csr  tensor b, x : dense  x[i] = (b[i] - sum(j < i: L[i, j]*x[j]))/L[i, i] }
    """
    code, out, _ = check(text)
    assert code == 0
    assert out.count("5 samples equal to the dense result") == 3


@pytest.mark.exhaustive
def test_views_and_gathers(check) -> None:
    """Extents of declared results are what views make them of others; subscripts that are values lie inside."""
    text = """
    kernel sliced { tensor x, y : dense  y[i] = 2*x[i(1:6:2)] }
    kernel collapsed { tensor A : csr  tensor y : sv  y[k] = collapse(A[i, j], (i, j) -> k) }
    kernel split { tensor x : sv  tensor C[3, n] : csr  size n  C[i, j] = split(x[k], k -> (i, j)) }
    kernel gathered { tensor x, y : dense  tensor p : dense<int64>  y[i] = x[p[i] + 1] + x[p[i]] }
    """
    code, out, _ = check(text)
    assert code == 0
    assert out.count("5 samples equal to the dense result") == 3
    assert "no random data" not in out


def test_patterns(check) -> None:
    """The C takes their values as it takes any others: the kernel declares a type."""
    code, out, _ = check("kernel k { tensor A : coo_pattern  tensor x, y : dense  y[i] = A[i, j]*x[j] }")
    assert code == 0
    assert "5 samples equal to the dense result" in out


def test_a_file_with_nothing_and_a_file_that_is_wrong(check) -> None:
    assert check("")[0] == 2
    code, _, err = check("layout x(n) { }")
    assert code == 3
    assert "expected" in err


def test_wrong_results_are_noticed(check, monkeypatch) -> None:
    true = sanitized.called

    def wrong(*arguments):
        found, report = true(*arguments)
        return [[[a + 1 if a.dtype.kind == "f" else a for a in t] for t in call] for call in found], report

    monkeypatch.setattr(sanitized, "available", lambda: True)
    monkeypatch.setattr(sanitized, "called", wrong)
    code, out, _ = check("kernel k { tensor x, y : dense  y[i] = 2*x[i] }")
    assert code == 1
    assert "differs from the reference" in out


def test_places_are_divided_by_zero_too(check, monkeypatch) -> None:
    """Once by a size and once by entries, in the samples of the larger two shapes."""
    seen = []
    true = examine._divided_by_zero
    monkeypatch.setattr(examine, "_divided_by_zero", lambda *given: [*true(*given), seen.extend(true(*given))][:-1])
    code, out, _ = check(
        "layout L(n) { size h relation { [p] -> [i] : 0 <= p < n and i = p } "
        "index f[n] { range 0 <= f(p) } value v[h, n] at [p mod h, p mod f(p)] }"
    )
    assert code == 0, out
    zeros = [(b.tensors["T"].sizes["h"] == 0, 0 in b.tensors["T"].arrays["f"]) for b in seen]
    assert any(size for size, _ in zeros)
    assert any(entry for _, entry in zeros)


def test_without_sanitizers(check, monkeypatch) -> None:
    monkeypatch.setattr(sanitized, "available", lambda: False)
    code, out, _ = check("kernel k { tensor x, y : dense  y[i] = 2*x[i] }")
    assert code == 0
    assert "the C compiler has no sanitizers" in out


@pytest.mark.parametrize(("index", "complains"), [("2", False), ("3", True), ("-1", True)])
def test_a_sanitizer_sees_accesses_outside(index, complains) -> None:
    if not sanitized.available():
        pytest.skip("the C compiler has no sanitizers")
    source = f"""
#include <stdint.h>
struct t {{ int64_t n; double *x; }};
int kernel(struct t *t, int64_t n, int threads);
int kernel(struct t *t, int64_t n, int threads) {{
    (void)threads;
    t->x[{index}] += (double)(n + t->n);
    return 0;
}}
"""
    try:
        found, report = sanitized.called(source, "kernel", [([7], [([3], [np.arange(3.0)])])], 1)
    except ToolError as error:
        pytest.fail(str(error))
    assert ("AddressSanitizer" in report) == complains
    if not complains:
        assert found[0][0][0].tolist() == [0, 1, 12]


def test_sections_as_text() -> None:
    section = examine.Section("kernel k", [examine.Finding("a", "one\ntwo", examine.FAILED)])
    assert section.text() == "kernel k\n  a            FAILED: one\n               two"
    assert section.failed
    assert not list(examine.examine(spfgen.parse(""), 0))


PARTIAL = """
layout halves(n) {
    size nnz
    relation { [p] -> [i] : 0 <= p < nnz and i = 2*half(p) }
    index half[nnz] { range 0 <= half(p) }
    value val[nnz] at [p]
}
"""


@pytest.mark.exhaustive
def test_packing_that_does_not_hold_all(check) -> None:
    code, out, _ = check("layout L = (i, j) -> (i : dense, j : compressed)")
    assert code == 0
    assert "derived from the relation; 40 random arrays were packed and unpacked unchanged" in " ".join(out.split())
    found = examine._packing(spfgen.parse(PARTIAL).layouts["halves"].layout(1), 0)
    assert found.verdict == examine.NOTE
    assert "derived from the relation for some data" in found.text
    assert "it has no place for the value" in found.text


def test_packing_that_is_wrong_is_a_failure(monkeypatch) -> None:
    """Whatever goes wrong on the way there and back."""
    layout = spfgen.parse(PARTIAL.replace("2*half", "half")).layouts["halves"].layout(1)
    assert examine._packing(layout, 0).verdict == examine.FINE
    whole = examine_packing.to_coordinates

    def halved(*arguments):
        columns, values = whole(*arguments)
        return columns, values * 2

    monkeypatch.setattr(examine_packing, "to_coordinates", halved)
    found = examine._packing(layout, 0)
    assert found.verdict == examine.FAILED
    assert "comes back as another one" in found.text
