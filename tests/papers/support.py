"""Programs of the papers, run on random data in several layouts and compared with plain numpy.

A program is its text, the operands it needs (`Data`), layouts for every tensor, and a function of numpy arrays that
says what it means. The kernels are compiled once for each choice of layouts and run on every data set: ordinary ones,
one where nothing is stored, one where everything is, extents of 1 and of 0.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from zlib import crc32

import numpy as np
import pytest

import spfgen
from spfgen.errors import DataError, Unsupported
from spfgen.lang.parse import parse_layout_use
from spfgen.plan.analyse.growth import excesses
from spfgen.run.tensor import Tensor
from tests import growth
from tests.fuzz import operands, unseen

Array = np.ndarray[Any, Any]
USUAL = 2
"""Of so many choices of layouts one is taken in the tests that run always: the first by one program, the second by
another."""
VECTORS = ("dense", "sv", "sv_unsorted", "sv_decreasing", "rle", "coo", "coo_unsorted")
MATRICES = (
    *("dense", "dense_col", "csr", "csr_unsorted", "csc", "dcsr", "dcsc", "coo", "coo_unsorted", "csf"),
    *("bcsr(R=2, C=3)", "bcsr_unsorted(R=3, C=2)", "bcsr2(R=4, C=4, r=2, c=2)", "dia", "sdia(R=4)", "ell", "jds"),
    *("sell(C=2)", "sell_sigma(C=2, sigma=4)", "csr_rle", "vbl", "vbr", "warp24", "skyline", "band", "lower"),
    *("diagonal", "sym_csr", "sym_lower"),
)
CUBES = ("dense", "dense_col", "coo", "coo_unsorted", "csf")
SPARSE: Mapping[int, Sequence[str]] = {
    1: ("sv", "sv_unsorted", "coo"),
    2: ("csr", "csc", "coo", "dcsr", "bcsr(R=2, C=3)"),
    **dict.fromkeys(range(3, 8), ("coo", "csf")),
}
"""Layouts of results that can hold any pattern."""
LAYOUTS: Mapping[int, Sequence[str]] = {1: VECTORS, 2: MATRICES, 3: CUBES, 4: CUBES, 5: CUBES, 6: CUBES, 7: CUBES}


@dataclass(frozen=True)
class Data:
    """Random values of a tensor. `shape` names extents, `"n m+2"`; a number has none. What is not stored equals
    `fill`; `density` is how much is stored; `draw` makes the values."""

    shape: str
    draw: Callable[[np.random.Generator, tuple[int, ...]], Array]
    fill: Any = 0
    density: float = 0.4
    makes: Callable[[Array], Array] | None = None
    """Changes the whole array, where a program wants symmetric matrices or images."""

    @property
    def rank(self) -> int:
        return len(self.shape.split())

    def made(self, rng: np.random.Generator, extents: Mapping[str, int], density: float | None) -> Array:
        shape = tuple(value_of(one, extents) for one in self.shape.split())
        values = self.draw(rng, shape)
        if not shape:
            return values
        kept = rng.random(shape) < (self.density if density is None else density)
        if density is None and shape[0] > 2:
            kept[rng.integers(shape[0])] = False  # an empty row
        made = np.where(kept, values, np.asarray(self.fill).astype(values.dtype))
        return made if self.makes is None else self.makes(made)


def floats(shape: str, fill: Any = 0, density: float = 0.4, **more: Any) -> Data:
    """Small whole numbers, so that sums and products are exact."""
    return Data(shape, lambda rng, s: rng.choice([-3.0, -2.0, -1.0, 1.0, 2.0, 3.0, 4.0], s), fill, density, **more)


def positive(shape: str, fill: Any = 0, density: float = 0.4, **more: Any) -> Data:
    return Data(shape, lambda rng, s: rng.integers(1, 9, s).astype(float), fill, density, **more)


def fractions(shape: str, fill: Any = 0, density: float = 0.4, **more: Any) -> Data:
    """Numbers between 0 and 1."""
    return Data(shape, lambda rng, s: rng.random(s), fill, density, **more)


def ints(shape: str, low: int = -9, high: int = 9, fill: int = 0, density: float = 0.4, **more: Any) -> Data:
    return Data(shape, lambda rng, s: rng.integers(low, high + 1, s), fill, density, **more)


def bools(shape: str, fill: bool = False, density: float = 0.4, **more: Any) -> Data:
    return Data(shape, lambda rng, s: np.broadcast_to(np.array(not fill), s).copy(), fill, density, **more)


def full(shape: str) -> Data:
    return floats(shape, density=1)


@dataclass(frozen=True)
class Program:
    """`layouts` are several choices, each as `"A: csr; x: dense"`; `sizes` says extents of indices that do not follow,
    `"n + 2"` of the extents' names. `apart`: extents that are not random. `empty`: whether numpy has an answer where
    extents are 0. `in_place` are operands that the program changes, which are results, too. `only_dense`: with a
    sparse result it is another program: what is read of a result needs a place, a quotient is 0 without a dividend."""

    text: str
    expected: Callable[..., Any]
    data: Mapping[str, Data]
    layouts: Sequence[str]
    functions: str = ""
    sizes: Mapping[str, str] = field(default_factory=dict)
    apart: Mapping[str, int] = field(default_factory=dict)
    empty: bool = True
    one: bool = True
    exact: bool = True
    least: int = 2
    in_place: tuple[str, ...] = ()
    only_dense: bool = False
    extra: str = ""

    def choices(self) -> list[dict[str, str]]:
        return [dict(_pair(p) for p in text.split(";") if p.strip()) for text in self.layouts]


def few(names: Sequence[str], count: int = 2) -> list[Any]:
    """The first names for the tests that run always, the others with `-m exhaustive`."""
    return [*names[:count], *(pytest.param(n, marks=pytest.mark.exhaustive) for n in names[count:])]


def _pair(text: str) -> tuple[str, str]:
    name, _, layout = text.partition(":")
    return name.strip(), layout.strip()


def value_of(text: str, extents: Mapping[str, int]) -> int:
    return max(0, int(eval(text, {"__builtins__": {}}, dict(extents))))


def check(
    text: str,
    expected: Callable[..., Any],
    data: Mapping[str, Data],
    layouts: Sequence[str],
    *,
    mode: str = "",
    level: int = 1,
    **more: Any,
) -> None:
    """The program gives what numpy gives, for all data sets, in one of the first choices of layouts; in the mode "every
    layout" in all of them, and in each layout of each operand, the others as the first choice says; with "sparse
    results" in sparse layouts of the results."""
    program = Program(text, expected, data, layouts, **more)
    if mode == "growth":
        check_growth(program)
        return
    usual = program.choices()[:USUAL]
    found = [usual[crc32(text.encode()) % len(usual)]]
    if mode == "every layout":
        found = [*program.choices(), *_every(program)]
    if mode == "sparse results":
        found = [] if program.only_dense else list(_assembled(program))
    for choice in found:
        for seed, extents, density in data_sets(program):
            _check_one(program, choice, seed, extents, density, level, mode == "blocks")


def _every(program: Program) -> Iterator[dict[str, str]]:
    first = program.choices()[0]
    for name, data in program.data.items():
        if data.rank and name not in program.in_place and data.makes is None:
            unseen_ones = [n for n, u in unseen.ALL.items() if u.rank == data.rank]
            for layout in (*LAYOUTS[data.rank], *unseen_ones):
                yield {**first, name: layout}


def _assembled(program: Program) -> Iterator[dict[str, str]]:
    """The results in sparse layouts, one after another; nothing where there are none but numbers."""
    first = program.choices()[0]
    ranks = {n: _rank_in(program.text, n) for n in first if n not in program.data}
    for number in range(max((len(SPARSE.get(r, ())) for r in ranks.values()), default=0)):
        yield {
            n: _nth(SPARSE.get(ranks[n], ()), number, layout) if n in ranks else layout for n, layout in first.items()
        }


def _nth(layouts: Sequence[str], number: int, usual: str) -> str:
    return layouts[number % len(layouts)] if layouts and usual == "dense" else usual


def _rank_in(text: str, name: str) -> int:
    """The number of subscripts that the tensor has in the text."""
    found = re.search(rf"\b{name}\[([^\]]*)\]", text)
    return found[1].count(",") + 1 if found else 0


def data_sets(program: Program) -> Iterator[tuple[int, dict[str, int], float | None]]:
    """A seed, extents, and a density where it is not the operand's own."""
    names = sorted({n for d in program.data.values() for n in _names(d.shape)} | _all_names(program.sizes))
    rng = np.random.default_rng(len(program.text))
    for seed in range(3):
        extents = {n: int(rng.integers(program.least, 8)) for n in names}
        yield seed, {**extents, **program.apart}, None
    extents = {n: int(rng.integers(max(program.least, 3), 8)) for n in names}
    yield 3, {**extents, **program.apart}, 0.0
    yield 4, {**extents, **program.apart}, 1.0
    if program.one:
        yield 5, {**dict.fromkeys(names, 1), **program.apart}, None
    if program.empty:
        yield 6, {**dict.fromkeys(names, 0), **program.apart}, None
        for n in names:
            yield 7, {**extents, n: 0, **program.apart}, None


def _names(shape: str) -> set[str]:
    return {w for w in "".join(c if c.isalnum() or c == "_" else " " for c in shape).split() if not w[0].isdigit()}


def _all_names(sizes: Mapping[str, str]) -> set[str]:
    return {n for text in sizes.values() for n in _names(text)}


def _check_one(
    program: Program,
    choice: Mapping[str, str],
    seed: int,
    extents: Mapping[str, int],
    density: float | None,
    level: int,
    cut: bool = False,
) -> None:
    rng = np.random.default_rng([seed, 5])
    given: dict[str, Any] = {}
    dense: dict[str, Array] = {}
    for name, data in program.data.items():
        array = data.made(rng, extents, density)
        if not data.rank:
            given[name], dense[name] = array[()] if isinstance(array, np.ndarray) else array, np.asarray(array)
            continue
        made = packed(array, choice[name], data.fill, seed)
        if made is None:
            return
        given[name], dense[name] = made
        if name in program.in_place:
            dense[name] = dense[name].copy()
    sizes = {n: value_of(t, extents) for n, t in program.sizes.items()}
    fills = tuple((n, d.fill) for n, d in program.data.items() if d.fill != 0)
    kernel = compiled(program.text, tuple(choice.items()), fills, program.functions, program.extra, level)
    more = {"sizes": sizes} if sizes else {}
    if cut:
        from tests.differential import in_blocks

        given = in_blocks.operands(rng, given, program.in_place)
        kernel = in_blocks.computed(kernel, rng)
    try:
        with np.errstate(all="ignore"):
            expected = program.expected(**{n: a.copy() for n, a in dense.items()})
    except IndexError:  # subscripts that stand several times add up to one that is too large
        with pytest.raises(DataError, match="to lie within their tensors"):
            kernel(**given, **more)
        return
    try:
        found = kernel(**given, **more)
    except Unsupported as error:
        if cut and re.search(r"is read along `\w+` while it is computed", error.message):
            return  # a recurrence along what is cut
        raise
    told = f"{program.text}\n{dict(choice)} level {level} seed {seed} {dict(extents)}\n{dense}"
    if not isinstance(expected, Mapping):
        expected = {"the result": expected}
        found = {"the result": found}
    for name, value in expected.items():
        compare(to_numpy(found[name]), np.asarray(value), program.exact, f"{name} of {told}")


MEANT = (FILTERS := "the filter is as large as the rest: so many products are asked for",)
ORDER = "a loop over rows of columns that are stored the other way: another planner has to exchange the loops"
LIST = "a list without rows is gone through for each iteration of a loop: another planner has to sort it first"
ROWS = "a workspace is emptied and gone through for each row: another planner has to keep what is in it"
FILLS = "what is not stored counts once in each row, but is met at each place"
VIEWS = "rows that are split in two dimensions are looked for at each of both"
GROWS: Mapping[tuple[str, str], str] = {
    ("A[i] = C[i + j]*B[j]", "rle"): FILTERS,
    ("A[i] = sum(j: C[i + j] + B[j])", "sv"): FILTERS,
    ("A[i] = B[i + j + k]*x[j]*y[k]", "sv"): FILTERS,
    **{
        (
            "for j { let t = x[j] let s = 0.0 for i { let a = A[i, j] y[i] += t*a s += a*x[i] } y[j] += s + D[j]*t }",
            layout,
        ): ORDER
        for layout in ("csr", "vbl")
    },
    **{
        ("for j { if f[j] { for i { let n = d[j] + A[i, j] e[i] min= n g[i] or= n < d[i] } } }", layout): reason
        for layout, reason in (("csr", ORDER), ("coo sv", LIST))
    },
    **{
        ("for i { let first = -1 for j { if A[i, j] > 0.8 { first = j break } } f[i] = first }", layout): ORDER
        for layout in ("csc", "coo_unsorted", "ell")
    },
    (
        "for i { let l = 0.0 let h = 0.0 for j { let a = A[i, j] l min= a h max= a total[i] += a "
        "if a > 0 { count[i] += 1 } column[j] += abs(a) } low[i] = l high[i] = h }",
        "csr",
    ): FILLS,
    ("O[i, j] = max(p, q: split(split(I[r, c], r -> (i, p)), c -> (j, q)))", "csr"): VIEWS,
    **{
        (
            "local tensor w : dense for j { w[i] = 0 for k, i { w[i] += A[i, k]*B[k, j] } for i { C[i, j] = w[i] } }",
            layout,
        ): ROWS
        for layout in ("csr csr", "csc csc", "csr csc", "coo dcsr")
    },
}
"""Programs of the papers whose work grows faster than their data, by the layouts of their sparse operands, and why.
This list only gets shorter."""


def check_growth(program: Program) -> None:
    """The work of the program, as its first layouts have it, on ten times the extents and ten times the entries."""
    layouts = program.choices()[0]
    rank = max((d.rank for d in program.data.values()), default=0)
    stored = [n for n, d in program.data.items() if d.rank and layouts[n].partition("<")[0] != "dense"]
    if not stored or rank not in growth.SCALES:
        pytest.skip("nothing is sparse" if not stored else "ten times the extents would be too large for numpy")
    fills = tuple((n, d.fill) for n, d in program.data.items() if d.fill != 0)
    counts: list[tuple[int, int]] = []
    with growth.counting() as count:
        compiled.cache_clear()
        kernel = compiled(program.text, tuple(layouts.items()), fills, program.functions, program.extra, 2)
        for scale in growth.scales(rank):
            given = dict(_grown(program, layouts, scale))
            names = {n for d in program.data.values() for n in _names(d.shape)} | _all_names(program.sizes)
            extents = {**dict.fromkeys(names, scale.extent), **program.apart}
            sizes = {n: value_of(t, extents) for n, t in program.sizes.items()}
            more = {"sizes": sizes} if sizes else {}
            work, found = growth.work_of(lambda given=given, more=more: kernel(**given, **more), count)
            counts.append((work, growth.size_of(given) + growth.size_of(found)))
        compiled.cache_clear()
    told = growth.too_much(counts)
    reason = GROWS.get((" ".join(program.text.split()), " ".join(layouts[n] for n in stored)))
    if reason is None:
        assert not told, f"{program.text}\n{layouts}\n{told} {counts}"
    else:
        assert told, f"take it off the list: {program.text} {layouts} {counts}"
        found = excesses(kernel.generated.plans, kernel.generated.program)
        assert found or reason in MEANT, f"nothing warns: {program.text} {layouts}"


def _grown(program: Program, layouts: Mapping[str, str], scale: growth.Scale) -> Iterator[tuple[str, Any]]:
    """The operands at a scale."""
    rng = np.random.default_rng(7)
    names = {n for d in program.data.values() for n in _names(d.shape)} | _all_names(program.sizes)
    extents = {**dict.fromkeys(names, scale.extent), **program.apart}
    for name, data in program.data.items():
        shape = tuple(value_of(one, extents) for one in data.shape.split())
        array = np.asarray(data.draw(rng, shape))
        if not shape:
            yield name, array[()]
            continue
        if layouts[name].partition("<")[0] != "dense":
            array = np.where(growth.pattern(shape, scale.used), array, np.asarray(data.fill).astype(array.dtype))
        array = array if data.makes is None else data.makes(array)
        yield name, spfgen.pack(array, with_fill(layouts[name], data.fill))


def compare(found: Array, expected: Array, exact: bool, told: str) -> None:
    assert found.shape == expected.shape, told
    if exact:
        np.testing.assert_array_equal(found, expected, err_msg=told)
    else:
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12, err_msg=told)


def packed(array: Array, layout: str, fill: Any, seed: int) -> tuple[Any, Array] | None:
    """A tensor in the layout and the array that it holds; None where the layout does not hold such an array."""
    if layout in unseen.ALL:
        return _unseen(array, layout, fill, seed)
    try:
        return spfgen.pack(array, with_fill(layout, fill)), array
    except DataError:
        pass
    handle = spfgen.parse("").layouts[layout].layout(array.ndim)
    kept = operands.storable_pattern(handle, array.shape, 0.4, seed)
    if handle.name.startswith("sym"):
        array = np.maximum(array, array.T) if array.shape[0] == array.shape[1] else array
    array = np.where(kept, array, np.asarray(fill).astype(array.dtype))
    try:
        return spfgen.pack(array, with_fill(layout, fill)), array
    except DataError:
        return None


def _unseen(array: Array, layout: str, fill: Any, seed: int) -> tuple[Any, Array]:
    """Index arrays are random; every place gets the value that the array has at its coordinate."""
    handle = unseen_layout(layout, fill)
    made = operands.make(handle, array.shape, 0.4, seed, array.dtype.name)
    for entry in made.entries:
        made.tensor.arrays[entry.array][entry.place] = array[entry.coordinate]
    dense = np.full(array.shape, fill, array.dtype)
    seen = np.zeros(array.shape, bool)
    for entry in made.entries:
        value = made.tensor.arrays[entry.array][entry.place]
        dense[entry.coordinate] = dense[entry.coordinate] + value if seen[entry.coordinate] else value
        seen[entry.coordinate] = True
    return made.tensor, dense


@cache
def unseen_layout(name: str, fill: Any = 0) -> Any:
    from spfgen.pipeline import layout_of

    declaration, settings = unseen.tree().resolve(parse_layout_use(name))
    return layout_of(declaration, settings, None if fill == 0 else fill)


def with_fill(layout: str, fill: Any) -> str:
    if "fill" in layout or fill == 0:
        return layout
    return f"{layout} fill {shown(fill)}"


def shown(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else repr(value)


@cache
def compiled(
    text: str,
    layouts: tuple[tuple[str, str], ...],
    fills: tuple[tuple[str, Any], ...],
    functions: str,
    extra: str,
    level: int,
) -> Any:
    """By `spfgen.compile` where the text is equations alone, else as a kernel of a spec."""
    named = {n: with_fill(layout, dict(fills).get(n, 0)) for n, layout in layouts}
    used = [layout.partition(" fill")[0].partition("<")[0] for layout in named.values()]
    own = [unseen.ALL[n].text for n in dict.fromkeys(used) if n in unseen.ALL]
    words = text.split()
    if not (functions or extra or own or any(w in words for w in ("for", "let", "local", "if", "while", "size"))):
        return spfgen.compile(text, optimize=level, **named)
    declared = "\n".join(f"    tensor {n} : {layout}" for n, layout in named.items())
    spec = "\n".join((*own, functions, f"kernel program {{\n{declared}\n{extra}\n{text}\n}}"))
    return spfgen.parse(spec).kernels["program"].compile(optimize=level)


def to_numpy(value: Any) -> Array:
    if isinstance(value, Tensor):
        return value.to_numpy()
    if hasattr(value, "toarray"):
        return np.asarray(value.toarray())
    return np.asarray(value)


__all__ = ["Data", "Program", "bools", "check", "few", "floats", "fractions", "full", "ints", "positive"]
