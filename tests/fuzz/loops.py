"""Random programs with loops, conditions, scalars, breaks and workspaces, as text and as plain Python.

A program is run by Python as it is written, one iteration after another; programs whose values grow beyond what a
double holds exactly are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
INDICES = "ijkl"
EXTENT_OF = {"i": "n", "k": "n", "j": "m", "l": "m"}
LARGEST = 2.0**40
Node = tuple[Any, ...]
"""Values: ("number", v), ("index", i), ("scalar", name), ("read", T, (i, j)), ("apply", text, python, arguments),
("reduce", name, j, value). Steps: ("for", indices, steps), ("if", value, steps, steps), ("let", name, value),
("set", name, op, value), ("store", T, (i, j), op, value), ("while", name, steps), ("break",)."""
_SET = {
    "=": "{0} = {1}",
    "+=": "{0} = {0} + {1}",
    "min=": "{0} = min({0}, {1})",
    "max=": "{0} = max({0}, {1})",
}
OPS: Mapping[str, Mapping[str, str]] = {
    "f": {**_SET, "-=": "{0} = {0} - {1}"},
    "i": _SET,
    "b": {"=": "{0} = {1}", "or=": "{0} = {0} or {1}", "and=": "{0} = {0} and {1}"},
}
APPLIED: Mapping[str, tuple[tuple[str, str, str], ...]] = {
    "f": (
        ("({0} + {1})", "({0} + {1})", "ff"),
        ("({0} - {1})", "({0} - {1})", "ff"),
        ("({0}*{1})", "({0}*{1})", "ff"),
        ("max({0}, {1})", "max({0}, {1})", "ff"),
        ("min({0}, {1})", "min({0}, {1})", "ff"),
        ("where({0}, {1}, {2})", "({1} if {0} else {2})", "bff"),
        ("abs({0})", "abs({0})", "f"),
        ("(-{0})", "(-{0})", "f"),
    ),
    "i": (
        ("({0} + {1})", "({0} + {1})", "ii"),
        ("({0} - {1})", "({0} - {1})", "ii"),
        ("max({0}, {1})", "max({0}, {1})", "ii"),
        ("({0} % 3)", "({0} % 3)", "i"),
        ("({0} & {1})", "({0} & {1})", "ii"),
        ("where({0}, {1}, {2})", "({1} if {0} else {2})", "bii"),
    ),
    "b": (
        ("{0} < {1}", "({0} < {1})", "ff"),
        ("{0} == {1}", "({0} == {1})", "ii"),
        ("{0} >= {1}", "({0} >= {1})", "ii"),
        ("{0} != {1}", "({0} != {1})", "ff"),
        ("({0} and {1})", "({0} and {1})", "bb"),
        ("({0} or {1})", "({0} or {1})", "bb"),
        ("(not {0})", "(not {0})", "b"),
        ("{0} <= {1}", "({0} <= {1})", "ii"),
        ("abs({0} - {1}) <= 1", "(abs({0} - {1}) <= 1)", "ii"),
    ),
}
MASKS = tuple(row for row in APPLIED["b"] if row[2] == "ii")
REDUCED = {
    "sum": "sum(({0} for {1} in range({2})), 0.0)",
    "max": "max({0} for {1} in range({2}))",
    "min": "min({0} for {1} in range({2}))",
}
TYPES = {"f": "double", "i": "int64", "b": "bool"}
DTYPES = {"f": "float64", "i": "int64", "b": "bool"}


@dataclass(frozen=True)
class Tensor:
    """`role`: read, result or local. A result that comes in is changed."""

    name: str
    axes: str
    kind: str
    role: str
    layout: str = "dense"
    fill: Any = 0


@dataclass(frozen=True)
class Program:
    tensors: tuple[Tensor, ...]
    steps: tuple[Node, ...]

    def text(self) -> str:
        return "\n".join(_steps(self.steps, show_step, "", "    "))

    def python(self) -> str:
        lines = list(_steps(self.steps, python_step, "    ", "    "))
        names = ", ".join(t.name for t in self.tensors)
        return "\n".join([f"def run({', '.join(filter(None, ['n', 'm', names]))}):", *lines, "    return"])


# --- text ---------------------------------------------------------------------------------------------


def show(value: Node, python: bool = False) -> str:
    match value:
        case ("number", number):
            return str(number) if python else str(number).lower() if isinstance(number, bool) else repr(number)
        case ("index" | "scalar", name):
            return str(name)
        case ("read", tensor, subscripts):
            return f"{tensor}[{', '.join(subscripts)}]"
        case ("apply", text, in_python, arguments):
            parts = [show(a, python) for a in arguments]
            return str((in_python if python else text).format(*parts))
        case ("reduce", name, index, body):
            if python:
                return REDUCED[name].format(show(body, True), index, EXTENT_OF[index])
            return f"{name}({index}: {show(body)})"
    raise ValueError(value)


def _steps(steps: tuple[Node, ...], one: Callable[..., Iterator[str]], indent: str, more: str) -> Iterator[str]:
    for step in steps:
        yield from one(step, indent, more)


def show_step(step: Node, indent: str, more: str) -> Iterator[str]:
    inner = indent + more
    match step:
        case ("for", indices, steps):
            yield f"{indent}for {', '.join(indices)} {{"
            yield from _steps(steps, show_step, inner, more)
            yield f"{indent}}}"
        case ("if", condition, then, otherwise):
            yield f"{indent}if {show(condition)} {{"
            yield from _steps(then, show_step, inner, more)
            if otherwise:
                yield f"{indent}}} else {{"
                yield from _steps(otherwise, show_step, inner, more)
            yield f"{indent}}}"
        case ("let", name, _, value):
            yield f"{indent}let {name} = {show(value)}"
        case ("set", name, _, op, value):
            yield f"{indent}{name} {op} {show(value)}"
        case ("store", tensor, subscripts, _, op, value):
            yield f"{indent}{tensor}[{', '.join(subscripts)}] {op} {show(value)}"
        case ("while", name, limit, steps):
            yield f"{indent}while {name} < {limit} {{"
            yield f"{inner}{name} += 1"
            yield from _steps(steps, show_step, inner, more)
            yield f"{indent}}}"
        case ("break",):
            yield f"{indent}break"


def python_step(step: Node, indent: str, more: str) -> Iterator[str]:
    inner = indent + more
    match step:
        case ("for", indices, steps):
            ranges = ", ".join(f"range({EXTENT_OF[i]})" for i in indices)  # one loop, which a break ends as a whole
            yield f"{indent}for {', '.join(indices)}, in product({ranges}):"
            yield f"{inner}pass"
            yield from _steps(steps, python_step, inner, more)
        case ("if", condition, then, otherwise):
            yield f"{indent}if {show(condition, True)}:"
            yield f"{inner}pass"
            yield from _steps(then, python_step, inner, more)
            if otherwise:
                yield f"{indent}else:"
                yield from _steps(otherwise, python_step, inner, more)
        case ("let", name, _, value):
            yield f"{indent}{name} = {show(value, True)}"
        case ("set", name, kind, op, value):
            yield indent + OPS[kind][op].format(name, show(value, True))
        case ("store", tensor, subscripts, kind, op, value):
            yield indent + OPS[kind][op].format(f"{tensor}[{', '.join(subscripts)}]", show(value, True))
        case ("while", name, limit, steps):
            yield f"{indent}while {name} < {limit}:"
            yield f"{inner}{name} = {name} + 1"
            yield from _steps(steps, python_step, inner, more)
        case ("break",):
            yield f"{indent}break"


# --- growing ------------------------------------------------------------------------------------------


@dataclass
class Grower:
    rng: np.random.Generator
    tensors: tuple[Tensor, ...]
    made: int = 0
    stored: set[str] = field(default_factory=set)

    def pick(self, things: Any) -> Any:
        return things[self.rng.integers(len(things))]

    def fresh(self) -> str:
        self.made += 1
        return f"t{self.made}"

    def block(self, depth: int, indices: str, scalars: Mapping[str, str], looped: bool) -> tuple[Node, ...]:
        steps: list[Node] = []
        own = dict(scalars)
        for _ in range(self.rng.integers(1, 4)):
            step = self.step(depth, indices, own, looped)
            if step is not None:
                steps.append(step)
                if step[0] == "let":
                    own[step[1]] = step[2]
                if step[0] == "break":
                    break
        return tuple(steps)

    def step(self, depth: int, indices: str, scalars: Mapping[str, str], looped: bool) -> Node | None:
        free = [i for i in INDICES if i not in indices]
        kinds = ["store", "store", "let", "set"] + (["for", "for", "if", "if", "while"] if depth else [])
        match self.pick(kinds):
            case "for" if free:
                chosen = tuple(str(i) for i in self.rng.permutation(free)[: self.rng.integers(1, 3)])
                body = self.block(depth - 1, indices + "".join(chosen), scalars, True)
                return ("for", chosen, body) if body else None
            case "if" if indices:
                condition = self.stored_here(indices) or self.value("b", 2, indices, scalars)
                then = self.block(depth - 1, indices, scalars, looped)
                if looped and self.rng.random() < 0.25:
                    then = (*then, ("break",))
                otherwise = self.block(depth - 1, indices, scalars, looped) if self.rng.random() < 0.3 else ()
                return ("if", condition, then, otherwise) if then else None
            case "while" if indices:
                counters = [n for n, k in scalars.items() if k == "counter"]
                if not counters:
                    return ("let", self.fresh(), "counter", ("number", 0))
                return (
                    "while",
                    self.pick(counters),
                    int(self.rng.integers(1, 4)),
                    self.block(0, indices, scalars, False),
                )
            case "let":
                kind = self.pick("ffib")
                return ("let", self.fresh(), kind, self.value(kind, 2, indices, scalars))
            case "set":
                known = [(n, k) for n, k in scalars.items() if k != "counter"]
                if not known:
                    return None
                name, kind = self.pick(known)
                return ("set", name, kind, self.pick(list(OPS[kind])), self.value(kind, 2, indices, scalars))
        return self.store(indices, scalars)

    def stored_here(self, indices: str) -> Node | None:
        """At times: whether a tensor has something at these indices."""
        reads = [t for t in self.tensors if t.role == "read" and t.kind == "f"]
        places = [("read", t.name, s) for t in reads for s in self._subscripts(t, indices)]
        if not places or self.rng.random() < 0.6:
            return None
        return ("apply", "{0} != {1}", "({0} != {1})", (self.pick(places), ("number", 0.0)))

    def store(self, indices: str, scalars: Mapping[str, str]) -> Node | None:
        places = [(t, s) for t in self.tensors if t.role != "read" for s in self._subscripts(t, indices)]
        if not places:
            return None
        tensor, subscripts = self.pick(places)
        self.stored.add(tensor.name)
        op = self.pick(list(OPS[tensor.kind]))
        return ("store", tensor.name, subscripts, tensor.kind, op, self.value(tensor.kind, 2, indices, scalars))

    def value(self, kind: str, depth: int, indices: str, scalars: Mapping[str, str]) -> Node:
        if depth == 0 or self.rng.random() < 0.3:
            return self.leaf(kind, indices, scalars)
        free = [i for i in INDICES if i not in indices]
        if kind == "f" and free and self.rng.random() < 0.15:
            index = self.pick(free)
            reads = [
                ("read", t.name, s)
                for t in self.tensors
                if t.kind == "f" and t.role == "read"
                for s in self._subscripts(t, indices + index)
                if index in s
            ]
            if reads:
                return ("reduce", self.pick(list(REDUCED)), index, self.pick(reads))
        text, python, kinds = self.pick(APPLIED[kind])
        return ("apply", text, python, tuple(self.value(k, depth - 1, indices, scalars) for k in kinds))

    def leaf(self, kind: str, indices: str, scalars: Mapping[str, str]) -> Node:
        reads = [
            ("read", t.name, s)
            for t in self.tensors
            if t.kind == kind and (t.role == "read" or (t.name in self.stored and self.rng.random() < 0.3))
            for s in self._subscripts(t, indices)
        ]
        if kind == "b" and indices and self.rng.random() < 0.3:
            text, python, _ = self.pick(MASKS)
            one = ("index", self.pick(indices))
            other = self.pick([("index", i) for i in indices] + [("number", int(self.rng.integers(0, 4)))])
            return ("apply", text, python, (one, other))
        own = [("scalar", n) for n, k in scalars.items() if k == kind or (k == "counter" and kind == "i")]
        if reads and self.rng.random() < 0.7:
            return self.pick(reads)
        if own and self.rng.random() < 0.7:
            return self.pick(own)
        if kind == "i" and indices and self.rng.random() < 0.6:
            return ("index", self.pick(indices))
        if kind == "b":
            number: Any = bool(self.rng.integers(2))
        else:
            number = int(self.rng.integers(0, 4)) if kind == "i" else float(self.rng.integers(0, 4)) + 0.5
        return ("number", number)

    @staticmethod
    def _subscripts(tensor: Tensor, indices: str) -> list[tuple[str, ...]]:
        if len(tensor.axes) == 1:
            return [(i,) for i in indices if EXTENT_OF[i] == tensor.axes]
        first, second = tensor.axes
        return [(i, j) for i in indices for j in indices if i != j and (EXTENT_OF[i], EXTENT_OF[j]) == (first, second)]


def used(node: Any) -> set[str]:
    """The tensors of a step or value."""
    if not isinstance(node, tuple):
        return set()
    own = {node[1]} if node and node[0] in ("read", "store") else set()
    return own | {t for part in node for t in used(part)}


def bounded(steps: tuple[Node, ...], local: str = "w") -> bool:
    """Whether a subscript of a tensor that is not local says the extent of every index of a loop."""
    for step in steps:
        match step:
            case ("for", indices, body):
                if not set(indices) <= subscripts(body, local) or not bounded(body):
                    return False
            case ("if", _, then, otherwise):
                if not (bounded(then) and bounded(otherwise)):
                    return False
            case ("while", _, _, body):
                if not bounded(body):
                    return False
    return True


def subscripts(node: Any, local: str) -> set[str]:
    if not isinstance(node, tuple):
        return set()
    own = set(node[2]) if node and node[0] in ("read", "store") and node[1] != local else set()
    return own | {i for part in node for i in subscripts(part, local)}


def smaller(steps: tuple[Node, ...]) -> Iterator[tuple[Node, ...]]:
    for n, step in enumerate(steps):
        before, after = steps[:n], steps[n + 1 :]
        if len(steps) > 1:
            yield (*before, *after)
        match step:
            case ("for", indices, body):
                for one in smaller(body):
                    yield (*before, ("for", indices, one), *after)
            case ("if", condition, then, otherwise):
                yield (*before, *then, *after)
                if otherwise:
                    yield (*before, ("if", condition, then, ()), *after)
                for one in smaller(then):
                    yield (*before, ("if", condition, one, otherwise), *after)
                for one in smaller(otherwise) if otherwise else ():
                    yield (*before, ("if", condition, then, one), *after)
                for value in smaller_values(condition, "b"):
                    yield (*before, ("if", value, then, otherwise), *after)
            case ("while", name, limit, body):
                yield (*before, *body, *after)
                for one in smaller(body):
                    yield (*before, ("while", name, limit, one), *after)
            case ("let", name, kind, value):
                for simple in smaller_values(value, "i" if kind == "counter" else kind):
                    yield (*before, ("let", name, kind, simple), *after)
            case ("set", name, kind, op, value):
                for simple in smaller_values(value, kind):
                    yield (*before, ("set", name, kind, op, simple), *after)
            case ("store", tensor, subscripts, kind, op, value):
                for simple in smaller_values(value, kind):
                    yield (*before, ("store", tensor, subscripts, kind, op, simple), *after)


def smaller_values(value: Node, kind: str) -> Iterator[Node]:
    simple: Any = {"f": 2.5, "i": 2, "b": True}[kind]
    if value[0] != "number":
        yield ("number", simple)
    if value[0] == "apply":
        _, text, python, arguments = value
        kinds = next(k for t, _, k in APPLIED[kind] if t == text)
        for n, (argument, own) in enumerate(zip(arguments, kinds, strict=True)):
            if own == kind:
                yield argument
            for one in smaller_values(argument, own):
                yield ("apply", text, python, (*arguments[:n], one, *arguments[n + 1 :]))


def shrunk(program: Program, fails: Callable[[Program], bool]) -> Program:
    while True:
        for steps in smaller(program.steps):
            trial = replace(program, steps=steps)
            if fails(trial):
                program = trial
                break
        else:
            return program
