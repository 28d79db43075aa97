"""Each clause of a schedule, for each kind of statement: the plan is as it says, or it is refused with the reason."""

from __future__ import annotations

import numpy as np
import pytest

import spfgen
from spfgen.errors import SpecErrors, SpfgenError
from spfgen.ir import walk
from spfgen.plan.finds.choose import ALGORITHMS
from spfgen.plan.nodes import PLANS, Find, Scan

M, V = {"A": "csr", "y": "dense"}, {"x": "dense", "y": "dense"}
KINDS = {
    "sum": ("y[i] = A[i,j]*x[j]", M | V),
    "reduction": ("y[i] = max(j: A[i,j]*x[j])", M | V),
    "scalar": ("s = max(i, j: A[i,j])", {"A": "csr"}),
    "value": ("y[i] = sqrt(A[i,j])*x[j]", M | V),
    "function of a sum": ("y[i] = sqrt(sum(j: A[i,j]*x[j]))", M | V),
    "product with a sum": ("y[i] = sum(j: A[i,j]*x[j])*x[i] + 2", M | V),
    "gather": ("y[i] = x[p[i]]", V | {"p": "dense<int64>"}),
    "scatter": ("y[p[i]] += x[i]", V | {"p": "dense<int64>"}),
    "update": ("y[i] maximum= A[i,j]", M),
    "loop": ("for i, j { y[i] += A[i,j]*x[j] }", M | V),
    "loop in order": ("for i where i >= 1 { y[i] = y[i-1] + x[i] }", V),
    "while": ("let k = 0; while k < 3 { k = k + 1 }; for i { y[i] = k*x[i] }", V),
    "several": ("t[i] = max(j: A[i,j]*x[j]); y[i] = sqrt(t[i])", M | V | {"t": "dense"}),
    "local": ("for i { let s = 0.0; for j { s += abs(A[i,j]) }; y[i] = s }", M),
    "view": ("y[i] = abs(x[i(1:6:2)])", V),
    "convolution": ("y[i] = max(r: x[i+r]*w[r])", V | {"w": "dense"}),
    "merge": ("C[i,j] = maximum(A[i,j], B[i,j])", {"A": "csr", "B": "csr", "C": "csr"}),
    "sum into csr": ("C[i,j] = A[i,j] + B[i,j]", {"A": "csr", "B": "csr", "C": "csr"}),
    "value into csr": ("C[i,j] = sqrt(A[i,j])", {"A": "csr", "C": "csr"}),
    "conversion": ("B[i,j] = A[i,j]", {"A": "csr", "B": "csc"}),
    "looked for": ("y[i] = max(j: A[i,j] + B[i,j])", M | {"B": "csr"}),
}
CLAUSES = (
    "order i, j", "order j, i", "order A.pj", "serial i", "parallel i", "parallel j", "parallel A.pj",
    "find B.pj : loop", "find A.pj : hash", "tile i by 3", "split i by 3", "relation { [i] -> [t] : t = i + 1 }",
    "levels i", "fuse i, j", "fuse i, j as f; parallel f", "vectorize i", "vectorize A.pj", "unroll i by 2",
    "unroll A.pj by 2", "prefetch i by 2", "prefetch A.pj by 8", "deterministic",
)  # fmt: skip
WRONG = (
    "tile nosuch by 3", "split nosuch by 3", "serial nosuch", "parallel nosuch", "order i, nosuch", "levels nosuch",
    "fuse i, nosuch", "vectorize nosuch", "unroll nosuch by 2", "prefetch nosuch by 2", "parallel A.nosuch",
    "serial nosuch.p", "find A.nosuch : hash", "find nosuch.p : hash", "find A.pj : nosuch", "find i : hash",
    "relation { [nosuch] -> [t] : t = nosuch }",
)  # fmt: skip


def is_so(kernel: spfgen.Kernel, clause: str) -> bool:
    """Whether the plan has what the clause says, of those that a kernel may have had without it."""
    nodes = [n for p in kernel.generated.plans for n in walk(p, PLANS) if isinstance(n, Scan | Find)]
    word, _, rest = clause.partition(" ")
    if word == "find":
        position, _, algorithm = rest.partition(" : ")
        tensor, _, own = position.partition(".")
        found = [n for n in nodes if isinstance(n, Find) and n.dim.startswith(tensor) and n.dim.endswith(f".{own}")]
        return bool(found) and all(n.algorithm == ALGORITHMS[algorithm] for n in found)
    if word in ("serial", "parallel"):
        loops = [n for n in nodes if n.dim == rest]
        return bool(loops) and all(n.parallel == (word == "parallel") for n in loops)
    wanted = rest.split(", ")
    return word == "order" and next(n.dim for n in nodes if n.dim in wanted) == wanted[0]


@pytest.mark.sampled(5)
@pytest.mark.parametrize("kind", KINDS)
def test_clauses(kind: str) -> None:
    text, layouts = KINDS[kind]
    plain = spfgen.compile(text, **layouts, schedule="")
    refused = 0
    for clause in CLAUSES:
        try:
            kernel = spfgen.compile(text, **layouts, schedule=clause)
        except SpfgenError as error:
            refused += 1
            for one in error.errors if isinstance(error, SpecErrors) else [error]:
                assert one.span is not None, clause
                assert one.notes, clause
            continue
        assert kernel.source != plain.source or clause == "deterministic" or is_so(kernel, clause), clause
    assert refused < len(CLAUSES)
    for clause in WRONG:
        with pytest.raises(SpfgenError, match="expected") as info:
            spfgen.compile(text, **layouts, schedule=clause)
        assert "<schedule>:1:" in str(info.value), clause


@pytest.mark.parametrize(
    ("kind", "schedule"),
    [
        ("reduction", "order j, i"),
        ("reduction", "serial i; parallel A.pj"),
        ("scalar", "parallel A.pj"),
        ("value", "order i, j"),
        ("merge", "parallel A.pj"),
        ("looked for", "find B.pj : loop; find A.pj : loop"),
    ],
)
def test_results(kind: str, schedule: str) -> None:
    """What is applied changes nothing but the loops."""
    text, layouts = KINDS[kind]
    rng = np.random.default_rng(3)
    a, b = (np.where(rng.random((7, 7)) < 0.4, rng.integers(1, 9, (7, 7)), 0).astype(float) for _ in "AB")
    x = rng.integers(1, 9, 7).astype(float)
    given = {"A": spfgen.pack(a, "csr"), "B": spfgen.pack(b, "csr"), "x": x}
    expected = {
        "reduction": (a * x).max(axis=1),
        "scalar": a.max(),
        "value": np.sqrt(a) @ x,
        "merge": np.maximum(a, b),
        "looked for": (a + b).max(axis=1),
    }[kind]
    kernel = spfgen.compile(text, **layouts, schedule=schedule, threads=2)
    assert kernel.source != spfgen.compile(text, **layouts, schedule="", threads=2).source
    found = kernel(**{n: v for n, v in given.items() if n in layouts})
    assert np.allclose(found.to_numpy() if isinstance(found, spfgen.Tensor) else found, expected)


def test_why() -> None:
    """The reason and the way out are there, at the clause."""
    text, layouts = KINDS["reduction"]
    with pytest.raises(SpfgenError) as info:
        spfgen.compile(text, **layouts, schedule="serial i; tile j by 3")
    message = str(info.value)
    for part in ("`tile` is for sums of products alone", "`maximum` is more than", "<schedule>:1:16", "of its own"):
        assert part in message


def test_a_reduction_of_what_a_value_leads_to() -> None:
    """Where the order of the loops has everything looked for, it would be made for all points first: what leads to its
    entries is no index that has an extent."""
    layouts = {"A": "bcsr", "x": "dense", "y": "dense", "p": "dense<int64>"}
    with pytest.raises(SpfgenError, match=r"the loop over `A\.c` to be outside of the loop over `i`"):
        spfgen.compile("y[i] = sum(j: A[p[i], j]*x[j])", **layouts, schedule="order A.c, i, j")


@pytest.mark.parametrize(
    ("text", "layouts"),
    [
        ("y[i,j] = B[i+1] where i < i", {"B": "bit_map", "y": "dense"}),  # no points, so no loops
        ("s = B[i]*C[j,k]*D[j,i]", {"B": "dense", "C": "bit_map", "D": "csr"}),  # j is C.p_1
    ],
)
def test_an_order_of_sums_may_speak_of_what_is_computed_from_the_rest(text: str, layouts: dict[str, str]) -> None:
    index = "i" if "y" in layouts else "C.p_1, j"
    kernel = spfgen.compile(text, **layouts, schedule=f"order {index}")
    assert kernel.generated.plans


FIRST_AND_REST = """layout first_and_rest(nrow, ncol) {
    size nnz
    relation {
        [p, q] -> [i, j] : 0 <= p < nrow and q = 0 and i = p and j = 0;
        [p, q] -> [i, j] : 0 <= p < nnz and q = 1 and i = row(p) and j = col(p)
    }
    index row[nnz] { range 0 <= row(p) < nrow }
    index col[nnz] { range 0 < col(p) < ncol }
    value first[nrow] at [p] when q = 0
    value rest[nnz] at [p] when q = 1
}"""


def test_an_order_of_a_first_access_says_nothing_of_the_second() -> None:
    """The position of the first one is a number in one alternative, where the second one's loop may stand anywhere."""
    layouts = {"C": spfgen.parse(FIRST_AND_REST).layouts["first_and_rest"], "D": "bit_map", "y": "csr"}
    kernel = spfgen.compile("y[l,j] = C[0,j]*D[j,j,k]*D[j,l-1,k]", **layouts, schedule="order D.p_2")
    assert kernel.generated.plans


@pytest.mark.parametrize("order", ["j, C.x, k", "j, C.y, k", "C.x, k"])
def test_an_order_of_a_position_speaks_of_those_that_equal_it(order: str) -> None:
    """Within a block on the diagonal a row is its column."""
    kernel = spfgen.compile("z[j,i,k] = C[l,l]*C[i,i]", C="bcsr2", z="dense", schedule=f"order {order}")
    assert kernel.generated.plans


@pytest.mark.parametrize("order", ["D.p, j", "D_2.p, j", "D_2.p, D.p, j", "j, D.p"])
def test_an_order_of_one_of_two_accesses(order: str) -> None:
    """`D.p` is the first one where there are two, `D_2.p` the second: the other may stand anywhere."""
    layouts = {"D": "coo", "C": "dense", "y": "dense"}
    kernel = spfgen.compile("y[j] += D[i,0,k]*D[i,k,k]*C[j,i]", **layouts, schedule=f"order {order}")
    nodes = (n for p in kernel.generated.plans for n in walk(p, PLANS) if isinstance(n, Scan | Find))
    wanted = order.split(", ")
    assert [d for d in dict.fromkeys(n.dim for n in nodes) if d in wanted] == wanted
