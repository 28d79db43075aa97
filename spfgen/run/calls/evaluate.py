"""Index notation on arrays as they are: the layouts are those of the operands, results are numpy arrays.

A kernel is compiled for each text and choice of layouts, and kept.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from types import NoneType
from typing import Any

from spfgen.errors import DataError, TooManyCases, UsageError, a_type
from spfgen.kernel import Kernel, checked_prune, made
from spfgen.lang import nodes as lang
from spfgen.lang.expressions import counted, did_you_mean
from spfgen.lang.optimization import level_of
from spfgen.lang.parse import parse_statements
from spfgen.lang.trace import Functions, among, check_used
from spfgen.lang.uses import accesses_in, statements_in
from spfgen.layout.nodes import SCALAR, Layout
from spfgen.run.calls.bind import is_number
from spfgen.run.calls.call_cache import NOTHING, called, key_of, remember_call
from spfgen.run.calls.detect_layout import candidates, dense_layout, layout_for_output, tensor_of
from spfgen.run.calls.layout_signature import canonical, remember
from spfgen.run.calls.validation_cache import checked_mode
from spfgen.run.tensor import Tensor
from spfgen.run.threads import checked_threads

_OF_COMPILE = ("deterministic", "finds", "name", "optimize", "order", "schedule")


@dataclass(frozen=True)
class Written:
    """Statements as nodes, in place of their text. `sizes` are names of numbers that a call passes with `sizes=`."""

    steps: tuple[Any, ...]
    sizes: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Text:
    """`ranks`: the number of subscripts of each tensor, in the order in which they stand."""

    statements: tuple[lang.Statement, ...]
    ranks: Mapping[str, int]
    targets: frozenset[str]
    sizes: tuple[str, ...] = ()


_KERNELS: dict[tuple[Any, ...], Kernel] = {}


_CONVERTED: dict[tuple[Any, ...], tuple[list[str], Any]] = {}
"""Operands, each stored in several ways, that are too many for one kernel; and layouts, to keep them alive."""


def evaluate(
    statements: str | Written,
    operands: Mapping[str, object],
    sizes: Mapping[str, int] | None = None,
    threads: int | None = None,
    validate: str = "once",
    out: object = None,
    prune: object = None,
    deterministic: bool = False,
) -> Any:
    """See spfgen.evaluate. `out` and `prune` may be the names of operands, too."""
    key = None  # names of settings may be those of operands, with anything as their value
    if type(validate) is str and validate == "once" and deterministic is False and sizes is None:
        key = call_key(statements, operands, threads, out, prune)
    cached = NOTHING if key is None else called(key, operands)
    if cached is not NOTHING:
        return cached
    functions, given = among(operands)
    if prune is not None and "prune" in _parsed(statements, functions).ranks:
        given, prune = {**given, "prune": prune}, None
    if out is not None and "out" in _parsed(statements, functions).ranks:
        given, out = {**given, "out": out}, None
    kernel, tensors, checked = prepared(statements, {**given, **dict(functions)}, threads, validate, out, deterministic)
    bound = kernel.bound(tensors, sizes, checked_threads(threads), validate, checked, checked_prune(prune))
    bound()
    if key is not None:
        remember_call(key, bound, operands, out)
    return kernel.results(bound, given)


def call_key(
    statements: str | Written,
    operands: Mapping[str, Any],
    threads: int | None = None,
    out: object = None,
    prune: object = None,
) -> Hashable:
    """Under which a call is remembered (call_cache.py); None for calls that are not. `out` is known by identity."""
    from spfgen.run.handles import LayoutHandle

    if type(prune) not in (NoneType, bool) or type(threads) not in (NoneType, int):
        return None
    if out is not None and (type(out) is not dict or any(type(h) is not LayoutHandle for h in out.values())):
        return None
    wanted = None if out is None else tuple([(n, id(h)) for n, h in out.items()])
    return key_of(statements, operands, (threads, prune, level_of(None), wanted))


def prepared(
    statements: str | Written,
    operands: Mapping[str, object],
    threads: int | None,
    validate: str,
    out: object = None,
    deterministic: bool = False,
) -> tuple[Kernel, dict[str, object], frozenset[str]]:
    """The kernel for statements and the layouts of operands, what it takes, and which of that was validated. `out` are
    the layouts of results that are not given."""
    functions, operands = among(operands)
    text = _parsed(statements, functions)
    wanted = _outputs(text, operands, out)
    checked_mode(validate)
    tensors: dict[str, object] = {}
    layouts: list[tuple[str, Layout]] = []
    _check_names(text, operands)
    for name, rank in text.ranks.items():
        value = operands.get(name)
        if name in wanted:
            layout = wanted[name].layout
            tensors[name] = None
        elif value is None or (is_number(value) and not rank):
            layout = dense_layout(rank)
            tensors[name] = value
        elif name in text.targets:
            layout = canonical(layout_for_output(value, rank))
            tensors[name] = value
        else:
            tensor = tensor_of(value, name, validate)
            if tensor.layout.rank != rank:
                dimensions = counted(rank, "dimension")
                raise DataError(f"expected `{name}` with {dimensions}, but it has {tensor.layout.rank}")
            layout = canonical(tensor.layout)
            tensors[name] = tensor
        layouts.append((name, layout))
    key = (statements, functions, deterministic, *[id(layout) for _, layout in layouts])
    if key not in _CONVERTED:
        try:
            written = (statements, functions, deterministic)
            kernel = _kernel(written, text, layouts, wanted, checked_threads(threads))
        except TooManyCases as error:
            of_many = [n for n in error.tensors if n not in text.targets and isinstance(tensors[n], Tensor)]
            if not of_many:
                raise
            remember(_CONVERTED, key, (of_many, layouts))
    if key in _CONVERTED:
        return prepared(
            statements,
            {**operands, **dict(functions), **_converted(tensors, _CONVERTED[key][0])},
            threads,
            validate,
            out,
            deterministic,
        )
    checked = frozenset(n for n, t in tensors.items() if isinstance(t, Tensor) and n not in text.targets)
    return kernel, tensors, checked


def _converted(tensors: Mapping[str, object], names: Sequence[str]) -> dict[str, Tensor]:
    """The operands of those names in layouts that store an entry in one way."""
    tensors_converted: dict[str, Tensor] = {}
    for name in names:
        tensor = tensors[name]
        assert isinstance(tensor, Tensor)
        rank = tensor.layout.rank
        tensors_converted[name] = tensor.convert(
            candidates("scipy.csr" if rank == 2 else "scipy.coo", rank)[0].declaration.name
        )
    return tensors_converted


@dataclass(frozen=True)
class _Wanted:
    """The layout in which a result is wanted, and how the user says it."""

    layout: Layout
    use: lang.LayoutUse


def _outputs(text: _Text, operands: Mapping[str, object], out: object) -> dict[str, _Wanted]:
    """The layouts of the results that are not given, as far as `out` says them. Raises UsageError, SpecError."""
    from spfgen.run.handles import handle_of

    if out is None:
        return {}
    free = sorted(n for n in text.targets if operands.get(n) is None)
    layouts = dict(out) if isinstance(out, Mapping) else dict.fromkeys(free, out)
    if not free:
        given = ", ".join(sorted(text.targets))
        raise UsageError("expected a result that is not passed, because `out` gives its layout, but all are", None,
                         (f"leave out `out`, or {given}",))  # fmt: skip
    for name in layouts:
        if name not in free:
            message = f"expected a result that is not given, but `{name}` is not one"
            raise UsageError(message, None, (f"results: {', '.join(free)}",))
    wanted_layouts = {}
    for name, layout in layouts.items():
        if hasattr(layout, "__array__"):
            message = f"expected a layout for `{name}` as `out`, but this is {a_type(layout)}"
            raise UsageError(message, None, (f"an array that is to be written is passed by name: {name}=...",))
        handle = handle_of(layout)  # type: ignore[arg-type]
        use = replace(handle.use, span=None)
        wanted_layouts[name] = _Wanted(canonical(handle.layout(text.ranks[name])), use)
        if wanted_layouts[name].layout.rank != text.ranks[name]:
            wanted = counted(text.ranks[name], "dimension")
            message = f"expected a layout of {wanted} for `{name}`, but `{wanted_layouts[name].layout.name}` has "
            raise UsageError(f"{message}{wanted_layouts[name].layout.rank}")
    return wanted_layouts


@lru_cache(maxsize=1024)
def _parsed(statements: str | Written, functions: Functions) -> _Text:
    if not isinstance(statements, str | Written):
        raise UsageError(f"expected statements as a text, but this is {a_type(statements)}")
    if isinstance(statements, str):
        statements = Written(parse_statements(statements, functions=dict(functions)))
    parsed, sizes = statements.steps, statements.sizes
    check_used(functions, parsed)
    ranks: dict[str, int] = {}
    for access in accesses_in(parsed):
        ranks.setdefault(access.tensor, len(access.subscripts))
    return _Text(parsed, ranks, frozenset(s.target.tensor for s in statements_in(parsed)), sizes)


def _check_names(text: _Text, operands: Mapping[str, object]) -> None:
    for name in operands:
        if name not in text.ranks:
            known = f"the statements use: {', '.join(sorted(text.ranks))}"
            if name in _OF_COMPILE:
                known = f"`{name}` is a setting of spfgen.compile, not of spfgen.evaluate"
            message = f"expected a tensor of the statements, but `{name}` is not one"
            raise UsageError(message, None, (did_you_mean(name, text.ranks) or known,))


def _kernel(
    written: tuple[Any, ...],
    text: _Text,
    layouts: list[tuple[str, Layout]],
    wanted: Mapping[str, _Wanted],
    threads: int | None,
) -> Kernel:
    level = level_of(None)
    uses = tuple([(n, w.use) for n, w in wanted.items()])
    key = (*written, threads, level, uses, *[id(layout) for _, layout in layouts])
    kernel = _KERNELS.get(key)
    if kernel is None:
        declared = tuple(
            lang.TensorDecl(name, _use(wanted, name, layout)) for name, layout in layouts if layout is not SCALAR
        )
        parsed = lang.Kernel("kernel", declared, text.sizes, text.statements, deterministic=written[2], level=level)
        stored = {n: layout for n, layout in layouts if layout is not SCALAR}
        if wanted:
            from spfgen.space.assembled import with_assembled

            parsed = with_assembled(parsed, stored)
        kernel = made(parsed, stored, threads, "once", kept=True)
        remember(_KERNELS, key, kernel)  # the kernel keeps its layouts alive, and so their identities
    return kernel


def _use(wanted: Mapping[str, _Wanted], name: str, layout: Layout) -> lang.LayoutUse:
    types = wanted[name].use if name in wanted else lang.LayoutUse("")
    return replace(types, name=layout.name, settings=layout.constants)
