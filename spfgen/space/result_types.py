"""The types of results: those that numpy gives the computed values."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from spfgen.errors import InternalError, SpecError
from spfgen.facts.formula import Expr
from spfgen.ir import walk
from spfgen.lang import nodes as lang
from spfgen.lang.blocks import all_steps, blocks, values
from spfgen.lang.types import TYPES
from spfgen.lang.typing import Kind, joined, kind_of, scalar_types, settled

NOTHING: Mapping[str, str] = MappingProxyType({})


def result_types(kernel: lang.Kernel, known: Mapping[str, str], given: Mapping[str, str] = NOTHING) -> dict[str, str]:
    """The types of what is stored in the tensors that are written and are not `known`. Where one is `given`, its
    elements are read with that type; else with the one that is found. Raises SpecError for what numpy refuses."""
    types: dict[str, Kind] = {}
    read: dict[str, Kind] = {n: TYPES[t] for n, t in {**known, **given}.items()}
    statements = [s for s in all_steps(kernel.statements) if isinstance(s, lang.Statement)]

    def leaf(value: Any) -> Kind:
        match value:
            case lang.Access(tensor):
                return read.get(tensor) or types.get(tensor, int)  # until it is found: what fits any number
            case lang.Local(name):
                return scalars.get(name, float)
        raise InternalError(f"no type of {value!r}")

    scalars: dict[str, Kind] = {}
    for _ in range(len(statements) + 1):
        scalars = scalar_types(kernel.statements, leaf, None)
        before = dict(types)
        for statement in statements:
            name = statement.target.tensor
            kind = kind_of(statement.value, leaf)  # also where the type is known: numpy may refuse the value
            if name in known:
                continue
            kind = kind_of(_stored(statement), leaf)
            if statement.op == "+=" and isinstance(kind, type):
                kind = settled(kind)
            old = types.get(name)
            types[name] = kind if old is None else joined([old, kind])
        if types == before:
            break
    for step in all_steps(kernel.statements):
        for condition in values(step) if blocks(step) else ():
            kind_of(condition, leaf)
    for access in (n for step in kernel.statements for n in walk(step) if isinstance(n, lang.Access)):
        for subscript in values_in(access):
            kind = settled(kind_of(subscript, leaf))
            if kind.kind not in "iub":
                raise SpecError(
                    f"expected an integer as a subscript of `{access.tensor}`, but it is {kind.name}",
                    getattr(subscript, "span", None) or access.span,
                    ("numpy refuses it, too; `int64(...)` truncates",),
                )
    return {n: settled(k).name for n, k in types.items()}


def values_in(access: lang.Access) -> list[Any]:
    """The subscripts that are computed or read."""
    return [s for s in access.subscripts if not isinstance(s, Expr | lang.Range)]


def _stored(statement: lang.Statement) -> Any:
    """What is stored, as far as its type goes: `m[i] or= x[i]` stores truth values."""
    value = statement.value
    if statement.op in ("=", "+="):
        return value
    return lang.Apply(statement.op, (value, value), statement.span, statement.function)
