"""The kernels that are run under sanitizers: every layout in a few kernels, every element type, degenerate data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product

from spfgen.lang.types import TYPES
from tests.fuzz.programs import SPARSE_OUTPUTS, Case, Data, forced, known_layouts, unseen_layouts

SHAPES = ((5, 6, 4), (1, 1, 1), (0, 3, 2), (3, 0, 0))
DATA = tuple(
    Data((("n0", a), ("n1", b), ("n2", c)), (("w", 2),), density, 3 * k)
    for k, ((a, b, c), density) in enumerate([*product(SHAPES[:1], (0.4, 0.0, 1.0)), *((s, 1.0) for s in SHAPES[1:])])
)

TEXTS = {
    1: ("s = A[i]*x[i]", "y[i] = A[i]*B[i]", "y[i] += A[i + 1] where i mod 2 = 0"),
    2: ("y[i] = A[i, j]*x[j]", "s = A[i, j]*B[i, j]", "z[j] += A[i, j] where j < i"),
    3: ("C[i, j] = A[i, j, k]*t[k]", "s = A[i, j, k]*B[i, j, k]"),
}
DIMS = {
    "x1": ("n0",), "y": ("n0",), "x": ("n1",), "z": ("n1",), "t": ("n2",), "C": ("n0", "n1"),
}  # fmt: skip
EXTENTS = {1: ("n0",), 2: ("n0", "n1"), 3: ("n0", "n1", "n2")}
PARTNERS = {1: "sv", 2: "csr", 3: "csf"}
TYPED = ("csr", "coo", "bcsr", "ell", "hyb", "symmetric")


def case(text: str, layouts: dict[str, str], rank: int, data: tuple[Data, ...] = DATA) -> Case:
    """A kernel whose tensors have the extents of their rank; vectors are dense unless `layouts` says otherwise."""
    dims: dict[str, tuple[str, ...]] = {}
    lines = []
    for name in ("A", "B", "x", "y", "z", "t", "C", "Y"):
        if f"{name}[" not in text:
            continue
        if name in ("A", "B", "Y"):
            dims[name] = EXTENTS[rank]
        elif name == "x" and rank == 1:
            dims[name] = ("n0",)
        else:
            dims[name] = DIMS[name]
        lines.append(f"tensor {name} : {layouts.get(name, 'dense')}")
    return Case("kernel NAME {\n    " + "\n    ".join([*lines, text]) + "\n}", tuple(dims.items()), (), data)


def every_layout() -> Iterator[Case]:
    """Each in two of the texts, in turn: they read it in different ways, and compiling takes the time."""
    for rank, texts in TEXTS.items():
        for k, name in enumerate([*known_layouts(rank), *unseen_layouts(rank)]):
            for text in (texts[k % len(texts)], texts[(k + 1) % len(texts)]):
                yield case(text, {"A": name, "B": PARTNERS[rank]}, rank)


def every_output() -> Iterator[Case]:
    for rank, names in SPARSE_OUTPUTS.items():
        subscripts = ", ".join("ijk"[:rank])
        for name in names:
            yield case(f"Y[{subscripts}] = A[{subscripts}]", {"Y": name, "A": PARTNERS[rank]}, rank)


def every_type(layouts: tuple[str, ...] = TYPED) -> Iterator[Case]:
    """Values of one type, index arrays of 64 bits every second time; and mixes of two types."""
    kinds = list(TYPES)
    for k, kind in enumerate(kinds):
        other = kinds[(k * 5 + 3) % len(kinds)]
        for n, name in enumerate(layouts):
            if len(layouts) > 2 and (k + n) % 2:
                continue  # types and layouts do not depend on each other: half of the pairs
            index = ("int32", "int64")[(k + n // 2) % 2]
            plain, _, settings = name.partition("(")
            use = f"{plain}<{kind}, {index}>" + (f"({settings}" if settings else "")
            target = kind if n % 2 else other
            yield case("y[i] = A[i, j]*x[j]", {"A": use, "x": f"dense<{other}>", "y": f"dense<{target}>"}, 2)
        yield case(
            "Y[i, j] += A[i, j]*B[i, j] + 2*A[i, j]",
            {"Y": f"csr<{other}>", "A": f"csr<{kind}, rowptr : int64>", "B": f"coo<{kind}>"}, 2,
        )  # fmt: skip


FINDS: tuple[tuple[str, int, dict[str, str], str], ...] = (
    # statement, rank of A and B, layouts, order: where positions are looked for
    ("s = A[i]*x[i]", 1, {"A": "sv"}, "i"),
    ("s = A[i]*x[i]", 1, {"A": "coo_unsorted"}, "i"),
    ("s = A[i]*B[i]", 1, {"A": "falling_vector", "B": "sv"}, "B.p"),
    ("s = A[i + 1]*B[i]", 1, {"A": "rising_vector", "B": "sv_unsorted"}, "B.p"),
    ("s = A[i]*B[i]", 1, {"A": "unbounded_vector", "B": "sv"}, "B.p"),
    ("C[i, j] = A[i, j]*B[i, j]", 2, {"A": "csr", "B": "csr"}, "i"),
    ("C[i, j] = A[i, j]*B[i, j]", 2, {"A": "csc", "B": "csr"}, "A.pj"),
    ("C[i, j] = A[i, j]*B[i, j]", 2, {"A": "dense", "B": "csr"}, "j, i"),
    ("C[i, j] = A[i, j]*B[i, j]", 2, {"A": "csr", "B": "coo_unsorted"}, "i"),
    ("C[i, j] = A[i, j]*B[i, j]", 2, {"A": "csr", "B": "falling_list"}, "i"),
    ("C[i, j] = A[i, j]*B[i, j]", 2, {"A": "falling_rows", "B": "csr"}, "A.r"),
    ("C[i, j] = A[i, j]*B[i, j]", 2, {"A": "bcsr", "B": "bcsr(R=3, C=2)"}, ""),
    ("C[i, j] = A[i, j]*B[i, j]", 2, {"A": "coo", "B": "dcsr"}, "A.p"),
    ("y[i] = A[i, j]*x[j]", 2, {"A": "csr", "x": "sv"}, ""),
    ("y[i] = A[i, j]*x[j]", 2, {"A": "csr_permuted", "x": "sv"}, ""),
    ("y[i] = A[i, j]*x[j]", 2, {"A": "coo", "x": "coo_unsorted"}, "A.p"),
    ("y[i] = A[i, 2]*x[i]*B[i, j]", 2, {"A": "coo", "B": "csr", "x": "sv"}, "A.p"),
    ("y[i] = A[i, 2]*B[i, j]*B[i, j]", 2, {"A": "coo", "B": "falling_rows"}, "A.p"),
    ("C[i, j] = A[i, j, k]*B[i, j, k]", 3, {"A": "csf", "B": "csf"}, ""),
    ("C[i, j] = A[i, j, k]*B[i, j, k]", 3, {"A": "csf", "B": "coo"}, ""),
)


def every_find(
    data: tuple[Data, ...] = DATA, statements: Sequence[tuple[str, int, dict[str, str], str]] = FINDS
) -> Iterator[Case]:
    """Each provable algorithm in turn: equal keys in chains, tables in parallel loops, arrays of states, keys outside of
    the range, parallel loops that only look for positions."""  # noqa: E501
    for text, rank, layouts, order in statements:
        made = case(text, layouts, rank, data)
        if "x[i]" in text:
            made = replace(made, dims=tuple((n, ("n0",) if n == "x" else d) for n, d in made.dims))
        if order:
            made = replace(made, kernel=made.kernel.replace("\n}", f"\n    schedule {{ order {order} }}\n}}"))
        yield from forced(made)


SCHEDULES: tuple[tuple[str, int, dict[str, str], str], ...] = (
    # statement, rank of A and B, layouts, schedule: tiles that end within segments, bounds that are searched
    ("y[i] = A[i, j]*x[j]", 2, {"A": "csr"}, "tile j by 2; parallel i; vectorize A.pj"),
    ("y[i] = A[i, j]*x[j]", 2, {"A": "csr"}, "tile A.pj by 3; prefetch A.pj by 2"),
    ("y[i] = A[i, j]*x[j]", 2, {"A": "csr"}, "split i by 2; unroll i by 3, A.pj by 2; prefetch A.pj by 4"),
    ("y[i] = A[i, j]*x[j]", 2, {"A": "coo"}, "tile i by 2, A.p by 3; parallel i_tile"),
    ("y[i] = A[i, j]*x[j]", 2, {"A": "dcsr"}, "order j, i; split A.pi by 2; find A.pi : search"),
    ("y[i] = A[i, j]*x[j]", 2, {"A": "bcsr"}, "tile j by 3; relation { [i, j] -> [t, j] : t = i + j }"),
    ("y[i] = A[i, j]*x[j]", 2, {"A": "dcsr", "x": "sv"}, "split A.pi by 2; order j, i; parallel i"),
    ("C[i, j] = A[i, j]*B[i, j]", 2, {"A": "csr", "B": "csr"}, "tile j by 2, i by 3"),
    ("C[i, j] = A[i, j]*B[i, j]", 2, {"A": "dense", "B": "dense"}, "parallel i; fuse i, j"),
    ("C[i, j] += A[k, j]", 2, {"A": "csr"}, "fuse i, k"),
    ("C[i, j] = A[i, j]*B[i, j]", 2, {"A": "dense", "B": "dense"}, "parallel i; vectorize j"),
    ("z[j] += A[i, j] where j < i", 2, {"A": "csr"}, "tile j by 3, i by 2; order i_tile, j_tile"),
    ("C[i, j] = A[i, j, k]*t[k]", 3, {"A": "csf"}, "tile k by 2, A.p_2 by 2"),
)


def every_schedule() -> Iterator[Case]:
    for text, rank, layouts, schedule in SCHEDULES:
        yield case(f"{text}\n    schedule {{ {schedule} }}", layouts, rank)


PRODUCTS = (("csr", "bcsr"), ("bcsr", "bcsr(R=3, C=2)"), ("coo", "bcsr"), ("bcsr", "coo"), ("coo", "csr"))
PRODUCT_DATA = tuple(
    Data((("n0", a), ("n1", b), ("n2", c)), (), density, 7) for (a, b, c), density in (((25, 15, 17), 0.3), *(
        (shape, 1.0) for shape in ((5, 3, 4), (1, 1, 1), (0, 2, 3), (3, 2, 0))))
)  # fmt: skip
"""The first has blocks that are mostly zeros, which are left out of copies."""
TILED = tuple(Data((("n0", a), ("n1", b), ("n2", c)), (), density, 7) for (a, b, c), density in (
    ((9, 16, 5), 0.3), ((9, 64, 5), 0.3), ((3, 133, 100), 1.0), ((2, 0, 3), 1.0), ((6, 300, 90), 0.4)))  # fmt: skip
"""As many columns as one tile has, and others; rows that all tiles take in pieces; rows that are fetched ahead."""


def every_product() -> Iterator[Case]:
    """Rows that are cleared by their first entry; zeros of blocks passed over, or left out of a copy; tiles."""
    dims = (("A", ("n0", "n2")), ("B", ("n2", "n1")), ("C", ("n0", "n1")))
    for left, right, data in [*((*pair, PRODUCT_DATA) for pair in PRODUCTS), ("csr", "dense", TILED)]:
        tensors = f"tensor A : {left}\n    tensor B : {right}\n    tensor C : dense"
        yield Case(f"kernel NAME {{\n    {tensors}\n    C[i, j] = A[i, k]*B[k, j]\n}}", dims, (), data)


def every_kernel() -> list[Case]:
    return [*every_layout(), *every_output(), *every_type(), *every_find(), *every_schedule(), *every_product()]
