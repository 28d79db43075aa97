"""Random steps that write one result several times: assignments and updates by all operators and a user's functions, in
loops, conditions and without, of dense and sparse results and local tensors."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import spfgen
from spfgen.errors import DataError, SpecError, SpfgenError, Unsupported
from spfgen.lang.interpret import interpret
from tests.papers import support

FUNCTIONS = """
function sat(x, y) { let s = x + y  if s > 6 { return 6 } else { return s } }
function last(x, y) { return y }
"""
UPDATES = ("+=", "-=", "*=", "min=", "max=", "sat=", "last=")
LAYOUTS = {
    1: ("dense", "sv", "sv_unsorted", "hash_table(B=3)"),
    2: ("dense", "csr", "csc", "coo", "dcsr", "bcsr(R=2, C=3)", "ell", "dia"),
}
READ = {1: ("dense", "sv", "sv_unsorted"), 2: ("dense", "csr", "csc", "coo", "dcsr", "bcsr(R=2, C=3)")}
VALUES = (
    "A[i,j]", "B[i,j]", "A[i,j]*x[j]", "A[i,j] + B[i,j]", "max(A[i,j], B[i,j])", "3", "0", "A[i,j]*B[i,j]", "-A[i,j]",
    "where(A[i,j] > 2, A[i,j], 0)", "x[j]", "C[i,j] + A[i,j]", "C[i,j]*B[i,j]", "sqrt(abs(B[i,j]))", "A[i,j] + 1",
    "i + j", "min(C[i,j], x[j])", "w[j]*A[i,j]", "w[j]",
)  # fmt: skip
CONDITIONS = ("A[i,j] > 1", "B[i,j] != 0", "x[j] > 0", "i < j", "A[i,j] == 0", "C[i,j] > 2", "i + j < 4", "w[j] > 0")
PLACES = ("i,j", "i,j", "i,j", "i,j", "i,j", "i,0", "2,j", "j,i")
"""Where C is written in a loop over i and j; `j,i` in kernels whose extents are equal."""


@dataclass(frozen=True)
class Rewritten:
    """A kernel: its body, the layouts of its tensors, the fill of the result."""

    lines: tuple[str, ...]
    layouts: tuple[tuple[str, str], ...]
    fill: str
    seed: int

    @property
    def text(self) -> str:
        body = "\n    ".join(self.lines)
        known = dict(self.layouts)
        used = [n for n in "ABxw" if f"{n}[" in body]
        declared = [f"tensor {n} : {known[n]}" for n in used if n != "w"]
        local = [f"local tensor w : {known['w']}"] if "w" in used else []
        target = f"tensor C : {known['C']}{self.fill}"
        return "\n    ".join([f"{FUNCTIONS}kernel k {{", *declared, *local, target, body]) + "\n}"


def grown(seed: int) -> Rewritten:
    rng = np.random.default_rng([seed, 46])

    def pick(things: Any) -> Any:
        return things[rng.integers(len(things))]

    local = rng.random() < 0.3
    values = [v for v in VALUES if local or "w[" not in v]
    conditions = [c for c in CONDITIONS if local or "w[" not in c]

    def store(indented: str, ops: Any = ("=", "=", *UPDATES)) -> str:
        where = f" where {pick(('j < 3', 'i < j', 'i + j < 4', 'i > 0'))}" if rng.random() < 0.12 else ""
        return f"{indented}C[{pick(PLACES[:7])}] {pick(ops)} {pick(values)}{where}"

    def inner(depth: int, indented: str) -> list[str]:
        kind = rng.random()
        if depth and kind < 0.35:
            lines = [f"{indented}if {pick(conditions)} {{", *inner(depth - 1, indented + "  ")]
            if rng.random() < 0.3:
                lines += [f"{indented}}} else {{", *inner(depth - 1, indented + "  ")]
            return [*lines, f"{indented}}}"]
        if depth and kind < 0.45:
            other = ["A[i,l]*x[l]", "B[i,l]", "A[l,j]" if rng.random() < 0.5 else "x[l]*A[i,j]"]
            return [f"{indented}for l {{ C[i,j] {pick(('=', *UPDATES))} {pick(other)} }}"]
        return [store(indented), *(inner(depth, indented) if rng.random() < 0.35 else [])]

    def outer() -> list[str]:
        kind = rng.random()
        if kind < 0.2:
            plain = [v for v in values if "C[" not in v] if rng.random() < 0.7 else values
            return [f"C[i,j] {pick(('=', '=', '+=', 'max=', 'sat='))} {pick(plain)}"]
        if kind < 0.35:
            wheres = ("", "", " where j < 3", " where i < j")
            ops = ("=", "+=", "min=")
            row = [f"  C[i,j] {pick(ops)} {pick(values)}{pick(wheres)}" for _ in range(rng.integers(1, 3))]
            return ["for i {", *row, "}"]
        if kind < 0.45:
            return [
                "let c = 2",
                "while c >= 0 {",
                f"  for i, j {{ C[i,j] {pick(('=', '+='))} c*A[i,j] }}",
                "  c -= 1 }",  # one line: a smaller case ends, too
            ]
        head = pick(("for i, j {", "for j, i {", "for i, j where i <= j {"))
        return [head, *inner(2, "  "), "}"]

    lines = ["for j { w[j] = x[j] }"] if local else []
    if local and rng.random() < 0.5:
        lines.append(pick(("w[j] = 0", "for j { if x[j] > 1 { w[j] = 0 } }", "for i, j { w[j] += A[i,j] }")))
    if rng.random() < 0.7:
        lines.append(f"C[i,j] = {pick([v for v in values if 'C[' not in v])}")
    for k in range(rng.integers(1, 4)):
        made = outer()
        if k and any("let c" in line for line in lines):
            made = [line for line in made if line != "let c = 2"]
            made = ["c = 2", *made] if any("while" in line for line in made) else made
        lines += made
    lines.append("for i, j { C[i,j] += 0*A[i,j] + 0*B[i,j] + 0*x[j] }")  # all are used, and give the extents
    layouts = {n: str(pick(READ[1 if n == "x" else 2])) for n in "ABx"}
    layouts |= {"C": str(pick(LAYOUTS[2])), "w": str(pick(LAYOUTS[1]))}
    fill = str(pick(("", "", "", " fill 1", " fill -2"))) if layouts["C"] in ("csr", "csc", "coo", "dcsr") else ""
    return Rewritten(tuple(lines), tuple(layouts.items()), fill, seed)


def problem(case: Rewritten, level: int) -> str:
    """What is wrong; "" where nothing is."""
    rng = np.random.default_rng([case.seed, 47])
    known = dict(case.layouts)
    try:
        spec = spfgen.parse(case.text).kernels["k"]
    except SpecError:
        return ""  # a smaller case with a brace too many
    try:
        kernel = spec.compile(optimize=level)
    except (SpecError, Unsupported) as error:
        known_words = ("recurs", "reads", "nothing bounds")
        return "" if any(w in str(error) for w in known_words) else f"refused: {error}"
    except Exception as error:
        return f"crash: {type(error).__name__}: {error}"
    for shape, density in (((4, 5), 0.4), ((5, 3), 0.0), ((1, 4), 1.0), ((3, 3), 0.5)):
        arrays, given = {}, {}
        for name in (n for n in "ABx" if f" {n} :" in case.text):
            own = shape[1:] if name == "x" else shape
            array = np.where(rng.random(own) < density, rng.integers(-2, 6, own), 0).astype(float)
            made = support.packed(array, known[name], 0.0, case.seed % 5)
            if made is None:
                return ""
            given[name], arrays[name] = made
        fills = {n: 0.0 for n in arrays if known[n] != "dense"} | ({"w": 0.0} if known["w"] != "dense" else {})
        if known["C"] != "dense":
            fills["C"] = float(case.fill.removeprefix(" fill ") or 0)
        try:
            wanted = interpret(spec.kernel, arrays, fills)["C"]
        except ValueError as error:
            return f"no meaning: {error}"
        if not np.isfinite(wanted).all() or abs(wanted).max(initial=0) > 1e12:
            return ""
        try:
            result = kernel(**given)
        except DataError as error:
            if "C" in str(error) and known["C"] in ("ell", "dia"):
                continue
            return f"refused: {error}"
        except SpfgenError as error:
            return "" if "read before it is written" in str(error) else f"refused: {type(error).__name__}: {error}"
        found = support.to_numpy(result)
        if not np.allclose(found, wanted, rtol=1e-12, atol=1e-12):
            return f"wrong: {found.tolist()}\n  expected {wanted.tolist()}\n  of {arrays}"
    return ""


def try_one(seed: int, level: int = 1) -> str:
    case = grown(seed)
    found = problem(case, level)
    if not found:
        return ""
    kind, small, again = found[:12], case, True
    while again:
        again = False
        for k in range(len(small.lines)):
            trial = replace(small, lines=(*small.lines[:k], *small.lines[k + 1 :]))
            if trial.lines and problem_or_text(trial, level).startswith(kind):
                small, again = trial, True
                break
    return f"seed {seed} level {level}:\n{small.text}\n  {problem(small, level)[:900]}"


def problem_or_text(case: Rewritten, level: int) -> str:
    try:
        return problem(case, level)
    except Exception as error:
        return f"generator: {error}"
