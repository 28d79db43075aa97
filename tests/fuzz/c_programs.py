"""Random kernels for the program in C (c_alone.py): one to three results, sparse ones in any layout beside dense ones,
of statements, loops, local tensors and random equations; with their data, and what numpy says of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

import spfgen
from spfgen import tuning
from spfgen.cir.lower import files
from spfgen.errors import DataError, SpecError, Unsupported, UsageError
from spfgen.kernel import Kernel
from spfgen.lang import nodes as lang
from spfgen.layout.nodes import SCALAR
from spfgen.run.tensor import Tensor
from tests.fuzz import trees, unseen
from tests.fuzz.expressions import EXTENT_OF, alone, result_of
from tests.fuzz.programs import known_layouts, unseen_layouts
from tests.fuzz.test_random_expressions import Skipped, random_equation
from tests.papers import support

Array = np.ndarray[Any, Any]
FAR = {"CONVERT_FAR_BYTES": 0, "CONVERT_BUCKET": 5, "CONVERT_MANY_APART": 0}


@dataclass
class Trial:
    """A kernel, its data sets and what is expected of each."""

    told: str
    layouts: Mapping[str, str]
    """Of the results."""
    kernel: Kernel
    whole: str
    """Its C."""
    given: Sequence[tuple[Mapping[str, Any], Mapping[str, int]]]
    expected: Sequence[Mapping[str, Array]]


STATEMENTS: Mapping[str, Callable[[Array, Array], Array]] = {
    "R[i,j] = A[i,j]": lambda a, b: a,
    "R[j,i] = A[i,j]": lambda a, b: a.T,
    "R[i,j] = 3*A[i,j]": lambda a, b: 3 * a,
    "R[i,j] = 2*A[i,j] + B[i,j]": lambda a, b: 2 * a + b,
    "R[i,j] = A[i,j]*B[i,j]": lambda a, b: a * b,
    "R[i,j] = max(A[i,j], B[i,j])": np.maximum,
    "R[i,j] = A[i,k]*B[k,j]": lambda a, b: a @ b,
    "R[i,j] = A[k,i]*B[k,j]": lambda a, b: a.T @ b,
    "R[i,j] = A[i,j] where j <= i": lambda a, b: np.tril(a),
    "R[i,j] = A[i,j+1] - A[i,j]": lambda a, b: np.hstack([a[:, 1:], 0 * a[:, :1]]) - a,
    "R[i,j] = A[i,j]; R[i,j] *= B[i,j]": lambda a, b: a * b,
    "R[i,j] = A[i,j]; R[i,j] max= B[i,j]": np.maximum,
    "R[i,j] = A[i,j]; R[i,j] += A[i,k]*B[k,j]": lambda a, b: a + a @ b,
    "R[i,j] = A[i,j]; R[i,j] -= B[j,i]": lambda a, b: a - b.T,
    "R[l,j] = concat((A[i,j], B[k,j]), (i, k) -> l)": lambda a, b: np.vstack([a, b]),
    "R[i,l] = concat((A[i,j], B[i,k]), (j, k) -> l)": lambda a, b: np.hstack([a, b]),
    "R[q] = collapse(A[i,j], (i, j) -> q)": lambda a, b: a.ravel(),
    "R[i] = A[i,j]*B[i,j]": lambda a, b: (a * b).sum(1),
    "R[j] = max(i: A[i,j])*B[j,j]": lambda a, b: a.max(0, initial=-np.inf) * np.diag(b) if len(a) else np.zeros(0),
    "R[i,j,k] = A[i,j]*B[j,k]": lambda a, b: a[:, :, None] * b[None],
    "R[k,i,j] = A[i,k]*B[k,j]": lambda a, b: np.einsum("ik,kj->kij", a, b),
    "for i, j { if A[i,j] > 2 { R[i,j] = A[i,j] + B[i,j] } }": lambda a, b: np.where(a > 2, a + b, 0),
    "for i { for j { R[i,j] += A[i,j] } for k { R[i,k] += B[i,k] } }": lambda a, b: a + b,
    "for i { let s = sum(j: A[i,j]) if s != 0 { for k { R[i,k] = s*B[i,k] } } }": lambda a, b: a.sum(1)[:, None] * b,
    "for i { w[j] = 0 for k, j { w[j] += A[i,k]*B[k,j] } for j { R[i,j] = w[j] } }": lambda a, b: a @ b,
    "for j { w[i] = 0 for k, i { w[i] += A[i,k]*B[k,j] } for i { R[i,j] = w[i] } }": lambda a, b: a @ b,
    "W[i,j] = A[i,k]*B[k,j]; R[i,j] = W[i,j] + A[i,j]": lambda a, b: a @ b + a,
}
"""Of matrices of one extent."""
SHARING = {
    "R[i,j] = A[i,j]*B[i,j]", "R[i,j] = 3*A[i,j]", "R[i,j] = A[i,j]", "R[i,j] = A[i,j] where j <= i",
}  # fmt: skip
"""Their results lie within the pattern of A."""
PARTLY = "R[i,j,k] = A[i,j]*B[j,k]"
"""Its result has indices of A."""
SQUARE = ((0, 0), (1, 1), (4, 4), (7, 7), (30, 30))
OPERANDS = ("csr", "csr", "csc", "coo", "coo_unsorted", "csr_unsorted", "dcsr", "bcsr(R=2, C=3)", "ell", "dia", "dense",
            "csf", "jds", "csr_rle")  # fmt: skip
LOCAL = {"w": ("dense", "sv", "sv_unsorted", "coo"), "W": ("csr", "csc", "coo", "dcsr", "csf")}


def layout_of_result(rng: np.random.Generator, rank: int, name: str) -> tuple[str, str]:
    """A layout and the text that declares it: one that comes with spfgen, one of the tests, or one made at random."""
    choice = rng.random()
    if choice < 0.4 or (choice < 0.6 and rank > 3):
        return str(rng.choice(known_layouts(rank) if rank < 4 else support.SPARSE[rank])), ""
    if choice < 0.6:
        name = str(rng.choice([n for n, u in unseen.ALL.items() if u.rank == rank]))
        return name, unseen.ALL[name].text
    return f"{name}_tree", trees.random_tree(rng, rank, f"{name}_tree")


def random_trial(seed: int, level: int) -> Trial | None:
    """None where the kernel is refused, or the C makes none of its results."""
    rng = np.random.default_rng([seed, 49])
    if rng.random() < 0.25:
        return _equation(rng, seed, level)
    texts = [str(t) for t in rng.choice(list(STATEMENTS), rng.choice([1, 1, 1, 2, 3]), replace=False)]
    return _statements(rng, seed, level, texts)


def each_layout() -> Iterator[Trial]:
    """Each layout as that of a result, where the C makes one of some statements."""
    for rank in (1, 2, 3):
        texts = [t for t in STATEMENTS if _rank(t) == rank]
        for number, name in enumerate((*known_layouts(rank), *unseen_layouts(rank))):
            for turn in range(3):
                rng = np.random.default_rng([number, turn, 50])
                trial = _statements(rng, number, (number + turn) % 3, [texts[(number + 5 * turn) % len(texts)]], name)
                if trial is not None:
                    yield trial
                    break


def _rank(text: str) -> int:
    return re.findall(r"R\[([^\]]*)\]", text)[0].count(",") + 1


def _statements(
    rng: np.random.Generator, seed: int, level: int, texts: Sequence[str], wanted: str = ""
) -> Trial | None:
    """`wanted` is the layout of the results, if anything is said of it."""
    operands = {n: str(rng.choice(OPERANDS)) for n in "AB" if any(f"{n}[" in t for t in texts)}
    twice = len(texts) == 1 and not wanted and rng.random() < 0.15
    texts = [*texts, *texts] if twice else texts
    local = {n: str(rng.choice(kinds)) for n, kinds in LOCAL.items() if any(f"{n}[" in t for t in texts)}
    results: dict[str, str] = {}
    declared: list[str] = []
    uses: dict[str, str] = {}
    for number, text in enumerate(texts):
        name = f"R{number}"
        rank = _rank(text)
        layout, own = layout_of_result(rng, rank, name)
        if wanted:
            layout, own = wanted, unseen.ALL[wanted].text if wanted in unseen.ALL else ""
        made_at_once = re.findall(r"R\[[^\]]*\] (\S+) ", text)[0] == "="  # else each call would add to it
        if len(texts) > 1 and made_at_once and rng.random() < 0.25:
            layout, own = "dense", ""
        elif rank == 2 and not wanted and rng.random() < 0.3:
            layout, own = operands.get("A", layout), ""
        shares = text in SHARING and layout == operands.get("A") != "dense" and rng.random() < 0.5
        use = f"{layout} shares A" if shares else layout
        if text == PARTLY and operands["A"] == "csf" and not wanted and rng.random() < 0.7:
            layout, own, use = "csf", "", "csf shares A on i, j"
        elif twice and number:
            layout, own, use = results["R0"], declared[0], f"{results['R0']} shares R0"
        results[name], uses[name] = layout, use
        declared.append(own)
    body = ";\n  ".join(re.sub(r"\bR\[", f"R{n}[", t) for n, t in enumerate(texts))
    declarations = [f"tensor {n} : {use}" for n, use in (*operands.items(), *uses.items())]
    declarations += [f"local tensor {n} : {layout}" for n, layout in local.items()]
    text = "\n".join([*dict.fromkeys(declared), f"kernel made {{ {'  '.join(declarations)}\n  {body} }}"])
    given, expected = [], []
    for shape in SQUARE:
        tensors, arrays = {}, {"A": np.zeros(shape), "B": np.zeros(shape)}
        for operand, layout in operands.items():
            kept = rng.random(shape) < rng.choice([0.1, 0.4, 1.0])
            values = np.where(kept, rng.integers(-3, 9, shape), 0).astype(float)
            made = support.packed(values, layout, 0, seed % 5)
            if made is None:
                return None
            tensors[operand], arrays[operand] = made
        given.append((tensors, dict[str, int]()))
        expected.append({f"R{n}": STATEMENTS[t](arrays["A"], arrays["B"]) for n, t in enumerate(texts)})
    return _trial(text, results, seed, level, given, expected)


def _equation(rng: np.random.Generator, seed: int, level: int) -> Trial | None:
    try:
        equation, sets = random_equation(seed, 2)
    except Skipped:
        return None
    if not equation.free:
        return None
    result, declared = layout_of_result(rng, len(equation.free), "R")
    said = alone(equation.value)
    names = {o.name for o in equation.operands}
    given, expected = [], []
    for tensors, known in sets:
        sizes = {i: known.extents[EXTENT_OF[i]] for i in equation.free if i not in said}
        given.append(({n: v for n, v in tensors.items() if n in names}, sizes))
        expected.append({"R": result_of(equation, known, None)})
    ours = [unseen.ALL[o.layout].text for o in equation.operands if o.layout in unseen.ALL]
    texts = "\n".join(dict.fromkeys([*ours, declared]))
    lines = [f"tensor {o.name} : {support.with_fill(o.layout, o.fill)}" for o in equation.operands if o.axes]
    lines += [f"tensor R : {result}", equation.text()]
    text = f"{texts}\nkernel made {{ {'  '.join(lines[:-1])}\n {lines[-1]} }}"
    return _trial(text, {"R": result}, seed, level, given, expected)


def _trial(
    text: str, layouts: Mapping[str, str], seed: int, level: int, given: Any, expected: Sequence[Mapping[str, Array]]
) -> Trial | None:
    told = f"seed {seed} level {level}:\n{text}"
    try:
        kernel = spfgen.parse(text).kernels["made"].compile(optimize=level)
        with far_apart(seed % 2 == 1):
            kernel = typed(kernel, kernel.bind(sizes=given[0][1], **given[0][0]).tensors)
            whole = kernel.generated.whole if kernel.generated.refused is None else ""
    except SpecError:
        assert "shares R0" in text, told  # whose layout has no index arrays
        return None
    except (Unsupported, DataError, UsageError):
        return None
    program = kernel.generated.program
    if not whole or program.levels or not (kernel.generated.bare or any(t.is_made for t in program.tensors)):
        return None
    return Trial(told, layouts, kernel, whole, given, expected)


@contextmanager
def far_apart(wanted: bool) -> Iterator[None]:
    """Buckets of few entries are made, whatever fits the cache: what large data has."""
    with pytest.MonkeyPatch.context() as patch:
        for name, number in (FAR if wanted else {}).items():
            patch.setattr(tuning, name, number)
        files.runtime.cache_clear()
        yield
    files.runtime.cache_clear()


def typed(kernel: Kernel, tensors: Mapping[str, Tensor]) -> Kernel:
    """The kernel for the types of these tensors, as a call makes it."""
    declared = {d.name: d for d in kernel.parsed.tensors}
    declarations = []
    for name, tensor in tensors.items():
        own = declared.get(name, lang.TensorDecl(name, lang.LayoutUse(SCALAR.name)))
        made = kernel.generated.program.tensor(name).is_output
        kinds = () if made else tuple((a.name, tensor.arrays[a.name].dtype.name) for a in tensor.layout.indexes)
        use = replace(own.use, value_type=tensor.dtype.name, index_type=None, array_types=kinds)
        declarations.append(replace(own, use=use))
    local = [d for d in kernel.parsed.tensors if d.name not in tensors]
    parsed = replace(kernel.parsed, tensors=(*declarations, *local))
    return Kernel(parsed, kernel.layouts)


def batches(seed: int, size: int) -> Iterator[list[Trial]]:
    """Lists of so many programs, without end."""
    while True:
        trials: list[Trial] = []
        while len(trials) < size:
            trial = random_trial(seed, seed % 3)
            trials += [trial] if trial is not None else []
            seed += 1
        yield trials
