"""The Python door: load a spec, make tensors, compile and call kernels."""

from __future__ import annotations

import operator
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spfgen.errors import DataError, SpecError, UsageError
from spfgen.lang import nodes as lang
from spfgen.lang.expressions import did_you_mean
from spfgen.lang.parse import parse_layout_use, parse_statements
from spfgen.lang.spec import SpecTree, load_tree, parse_tree
from spfgen.lang.types import DEFAULT_INDEX
from spfgen.layout.nodes import SCALAR, Layout

if TYPE_CHECKING:
    from spfgen.pipeline import Generated
    from spfgen.run.call import Bound
    from spfgen.run.tensor import Tensor
    from spfgen.space.nodes import Program
    from spfgen.space.nodes import Tensor as Declared

HIGHEST_RANK = 8
"""A family whose rank is not said is tried up to this one."""

MOST_THREADS = max(1024, 8 * (os.cpu_count() or 1))
"""More are a mistake; OpenMP ends the process when the system refuses to start them."""


class UnknownNameError(SpecError, KeyError):
    """A name that a spec does not define: a SpecError with a hint, and what a mapping raises."""

    __str__ = SpecError.__str__


@dataclass(frozen=True, repr=False)
class LayoutHandle:
    """A layout by name, with element types and constants; call it to set constants: `bcsr(R=4, C=4)`."""

    tree: SpecTree
    use: lang.LayoutUse

    def __call__(self, **constants: int) -> LayoutHandle:
        settings = dict(self.use.settings)
        for name, value in constants.items():
            try:
                settings[name] = operator.index(value)
            except TypeError:
                raise UsageError(f"expected an integer for the constant `{name}`, but it is {value!r}") from None
        text = self.use.name + "(" + ", ".join(f"{n}={v}" for n, v in settings.items()) + ")"
        span = parse_layout_use(text).span
        handle = LayoutHandle(self.tree, replace(self.use, settings=tuple(settings.items()), span=span))
        self.tree.resolve(handle.use)
        return handle

    @property
    def name(self) -> str:
        return self.use.name

    def layout(self, rank: int | None = None) -> Layout:
        """The layout itself; a family needs its rank."""
        from spfgen.pipeline import RANK, layout_of

        declaration, settings = self.tree.resolve(self.use)
        if RANK in dict(declaration.constants) and RANK not in settings:
            if rank is None:
                raise UsageError(
                    f"expected the rank of layout `{self.name}`, but it is not said",
                    None,
                    (f"write {self.name}(rank=2), or say the shape",),
                )
            settings[RANK] = rank
        return layout_of(declaration, settings)

    @property
    def is_open(self) -> bool:
        """Whether it is a family that waits for its rank."""
        from spfgen.pipeline import RANK

        declaration, settings = self.tree.resolve(self.use)
        return RANK in dict(declaration.constants) and RANK not in settings

    def __repr__(self) -> str:
        constants = ", ".join(f"{n}={v}" for n, v in self.use.settings)
        return f"<spfgen layout {self.name}{f'({constants})' if constants else ''}>"


class _Layouts(Mapping[str, LayoutHandle]):
    """The layouts of a spec by name; those that come with spfgen are found too, but not listed."""

    def __init__(self, tree: SpecTree) -> None:
        self._tree = tree

    def __getitem__(self, name: str) -> LayoutHandle:
        if not isinstance(name, str):
            raise UnknownNameError(f"expected the name of a layout, but this is a {type(name).__name__}")
        try:
            use = parse_layout_use(name)
            self._tree.find(use.name)
        except SpecError as error:
            raise UnknownNameError(error.message, error.span, error.notes) from None
        return LayoutHandle(self._tree, use)

    def __iter__(self) -> Iterator[str]:
        return iter(self._tree.layouts)

    def __len__(self) -> int:
        return len(self._tree.layouts)

    def __repr__(self) -> str:
        return f"<spfgen layouts: {', '.join(self) or 'those that come with spfgen'}>"


class _Kernels(Mapping[str, "KernelSpec"]):
    """The kernels of a spec by name."""

    def __init__(self, tree: SpecTree) -> None:
        self._kernels = {name: KernelSpec(tree, kernel) for name, kernel in tree.kernels.items()}

    def __getitem__(self, name: str) -> KernelSpec:
        if name not in self._kernels:
            known = f"its kernels: {', '.join(self._kernels) or 'none'}"
            hint = did_you_mean(str(name), self._kernels)
            raise UnknownNameError(f"expected a kernel of the spec, but `{name}` is not one", None, (hint or known,))
        return self._kernels[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._kernels)

    def __len__(self) -> int:
        return len(self._kernels)

    def __repr__(self) -> str:
        return f"<spfgen kernels: {', '.join(self) or 'none'}>"


@dataclass(frozen=True, repr=False)
class KernelSpec:
    """A kernel of a spec file, to be compiled."""

    tree: SpecTree
    kernel: lang.Kernel

    @property
    def name(self) -> str:
        return self.kernel.name

    def compile(self, threads: int | None = None, *, finds: Mapping[str, str] | None = None) -> Kernel:
        """`finds` says how positions are found, in place of what the schedule says of them: `{"A.pj": "hash"}`.

        Raises SpecError, Unsupported.
        """
        from spfgen.pipeline import resolve

        forced = _forced(finds)
        asked = {(f.tensor, f.position) for f in forced}
        kept = tuple(f for f in self.kernel.finds if (f.tensor, f.position) not in asked)
        kernel = replace(self.kernel, finds=kept + forced)
        return Kernel(kernel, resolve(kernel, self.tree), threads)

    def __repr__(self) -> str:
        return f"<spfgen kernel {self.name}>"


class Spec:
    """A spec file: `layouts` and `kernels` by name."""

    def __init__(self, tree: SpecTree) -> None:
        self.layouts = _Layouts(tree)
        self.kernels = _Kernels(tree)

    def __repr__(self) -> str:
        layouts, kernels = ", ".join(self.layouts) or "none", ", ".join(self.kernels) or "none"
        return f"<spfgen.Spec layouts: {layouts}; kernels: {kernels}>"


def load(path: str | Path) -> Spec:
    """Read a spec file with its imports. Raises SpecError, DataError when it cannot be read."""
    return Spec(load_tree(path))


def parse(text: str, file: str = "<text>") -> Spec:
    """Read a spec from a text. Raises SpecError."""
    return Spec(parse_tree(text, file))


def tensor(
    layout: LayoutHandle | str,
    /,
    *,
    shape: Sequence[int] | int | None = None,
    sizes: Mapping[str, int] | None = None,
    **arrays: object,
) -> Tensor:
    """A tensor over your own arrays, under the names of the layout.

    The arrays are used in place when they are contiguous. Sizes are solved from `shape`, `sizes` and the arrays'
    lengths. Index arrays are int32 or int64. Raises DataError when something does not fit.
    """
    from spfgen.run.tensor import make_tensor

    handle = _handle(layout)
    if shape is not None and not isinstance(shape, Iterable):
        shape = (shape,)
    rank = len(shape) if shape is not None else _rank(handle, arrays)
    return make_tensor(handle.layout(rank), arrays, shape, sizes)


def _rank(handle: LayoutHandle, arrays: Mapping[str, object]) -> int | None:
    """The rank at which a family has these arrays with these numbers of dimensions, when there is one."""
    if not handle.is_open:
        return None
    from spfgen.run.tensor import plain_array

    given = {name: plain_array(array, name).ndim for name, array in arrays.items()}
    for rank in range(1, HIGHEST_RANK + 1):
        layout = handle.layout(rank)
        if given == {name: len(layout.extents(name)) for name in layout.arrays}:
            return rank
    return None


def compile(  # noqa: A001
    statements: str,
    /,
    *,
    threads: int | None = None,
    name: str = "kernel",
    order: Sequence[str] = (),
    finds: Mapping[str, str] | None = None,
    **layouts: LayoutHandle | str,
) -> Kernel:
    """A kernel from index notation: `compile("y[i] += A[i,j]*x[j]", A=layout, x="dense", y="dense")`.

    Names without subscripts need no layout: they are scalars. `order` names loops (`"i"`, `"A.pj"`), `finds` says how
    positions are found (`{"A.pj": "hash"}`). `threads` fixes the number of threads; without it OMP_NUM_THREADS decides.
    Raises SpecError, Unsupported.
    """
    from spfgen.pipeline import resolve

    if not isinstance(statements, str):
        raise UsageError(f"expected statements as a text, but this is a {type(statements).__name__}")
    if not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII):
        raise UsageError(f"expected a name that C can have, but it is `{name}`")
    parsed = parse_statements(statements)
    handles = {n: _handle(h) for n, h in layouts.items()}
    _check_layouts(parsed, handles)
    declared = tuple(lang.TensorDecl(n, h.use) for n, h in handles.items())
    kernel = lang.Kernel(name, declared, (), parsed, tuple(_loops(order)), _forced(finds))
    found: dict[str, Layout] = {}
    for declaration in declared:
        one = replace(kernel, tensors=(declaration,))
        found |= resolve(one, handles[declaration.name].tree)
    return Kernel(kernel, found, threads)


def _loops(order: Sequence[str]) -> Iterator[lang.Loop]:
    for loop in (order,) if isinstance(order, str) else order:
        owner, _, own = loop.rpartition(".")
        yield lang.Loop(owner or None, own)


def _forced(finds: Mapping[str, str] | None) -> tuple[lang.ForcedFind, ...]:
    """Raises UsageError when it does not say for positions how they are found."""
    if finds is not None and not isinstance(finds, Mapping):
        raise UsageError(f"expected finds such as {{'A.pj': 'hash'}}, but this is a {type(finds).__name__}")
    result = []
    for place, algorithm in (finds or {}).items():
        if not isinstance(place, str) or not isinstance(algorithm, str):
            raise UsageError(f"expected finds such as {{'A.pj': 'hash'}}, but there is {place!r}: {algorithm!r}")
        owner, _, position = place.rpartition(".")
        result.append(lang.ForcedFind(owner or None, position, algorithm))
    return tuple(result)


def _check_layouts(statements: Sequence[lang.Statement], handles: Mapping[str, LayoutHandle]) -> None:
    """Every layout is for a tensor of the statements, and every tensor with subscripts has one."""
    from spfgen.space.names import accesses

    used = [a for s in statements for a in (s.target, *accesses(s.value))]
    for access in used:
        if access.subscripts and access.tensor not in handles:
            message = f"expected a layout for `{access.tensor}`, but there is none"
            raise SpecError(message, access.span, (f"pass it by name: compile(..., {access.tensor}=LAYOUT)",))
    names = {a.tensor for a in used}
    for name in handles:
        if name not in names:
            known = f"the statements use: {', '.join(sorted(names))}"
            message = f"expected a tensor of the statements, but `{name}` is not one"
            raise SpecError(message, None, (did_you_mean(name, names) or known,))


def _handle(layout: LayoutHandle | str) -> LayoutHandle:
    if isinstance(layout, LayoutHandle):
        return layout
    if not isinstance(layout, str):
        raise UsageError(f"expected a layout or its name, but this is a {type(layout).__name__}")
    use = parse_layout_use(layout)
    SpecTree().find(use.name, use.span)
    return LayoutHandle(SpecTree(), use)


def _checked_threads(threads: int | None) -> int | None:
    """Raises UsageError when it is no number of threads."""
    if threads is None:
        return None
    try:
        number = operator.index(threads)
    except TypeError:
        raise UsageError(f"expected a number of threads, but it is {threads!r}") from None
    if not 1 <= number <= MOST_THREADS:
        raise UsageError(f"expected from 1 to {MOST_THREADS} threads, but it is {number}")
    return number


class Kernel:
    """A compiled kernel. Call it with its operands by name; outputs are made when not given.

    The element types are those of the operands of each call, unless the kernel declares them; for each choice of
    types C is generated and compiled once. `source` and `header` are the C for the declared (or default) types.
    """

    def __init__(self, kernel: lang.Kernel, layouts: Mapping[str, Layout], threads: int | None = None) -> None:
        from spfgen.pipeline import generate

        self._kernel = kernel
        self._layouts = dict(layouts)
        self.threads = _checked_threads(threads)
        self._variants: dict[tuple[object, ...], tuple[Generated, Any]] = {}
        self._declared = generate(kernel, layouts)

    @property
    def name(self) -> str:
        return self._kernel.name

    @property
    def source(self) -> str:
        """NAME.c"""
        return self._declared.source

    @property
    def header(self) -> str:
        """NAME.h"""
        return self._declared.header

    @property
    def generated(self) -> Generated:
        """What each pass of the compiler made."""
        return self._declared

    @property
    def parsed(self) -> lang.Kernel:
        """What the user wrote."""
        return self._kernel

    def explain(self, json: bool = False, *, details: bool = False) -> Any:
        """The iteration spaces, the loops with the reason for each, and what was proved; as text or as a dict.

        `details` adds to the text what a dict has anyway: times of proofs, and counterexamples.
        """
        from spfgen.explain import explain_json, explain_text

        return explain_json(self._declared) if json else explain_text(self._declared, details=details)

    def __repr__(self) -> str:
        first, *others = [g.text for g in self._declared.program.groups]
        more = f"; and {len(others)} more" if others else ""
        return f"<spfgen.Kernel {self.name}: {first}{more}>"

    def __call__(self, /, *, sizes: Mapping[str, int] | None = None, **operands: object) -> Any:
        """Run once and return the output (a dict of them when there are several).

        Operands are numpy arrays, scipy sparse arrays, numbers or spfgen tensors; an output that is given is
        written in place. Named sizes of the kernel are operands too. Raises DataError, UsageError.
        """
        bound = self.bind(sizes=sizes, **operands)
        bound()
        return self.results(bound, operands)

    def results(self, bound: Bound, operands: Mapping[str, object]) -> Any:
        """The outputs of a call: the objects that were given, numpy arrays where the layout is numpy's own."""
        results = {
            t.name: _result(bound.tensors[t.name], operands.get(t.name)) for t in bound.program.tensors if t.is_output
        }
        return next(iter(results.values())) if len(results) == 1 else results

    def bind(self, /, *, sizes: Mapping[str, int] | None = None, **operands: object) -> Bound:
        """Check the operands and put them in place; the result runs the kernel each time it is called."""
        from spfgen.run.call import Bound

        program = self._declared.program
        given = {name: value for name, value in operands.items() if value is not None}
        known = self._sizes(program, {**(sizes or {}), **{n: given.pop(n) for n in program.parameters if n in given}})
        _check_operands(program, given)
        tensors = _bound_tensors(program, given)
        dtype = _result_type(self._kernel, tensors)
        for declared in program.tensors:
            if declared.name not in tensors:
                tensors[declared.name] = _made(program, declared, tensors, known, dtype)
            elif declared.is_output and not declared.typed:
                _check_holds(declared.name, tensors[declared.name], dtype)
        generated, function = self._variant({t.name: tensors[t.name] for t in program.tensors})
        return Bound(generated.program, function, tensors, known, self.threads or 0)

    @staticmethod
    def _sizes(program: Program, given: Mapping[str, object]) -> dict[str, int]:
        from spfgen.run.call import checked_sizes

        known = checked_sizes(program, given)
        for name in program.parameters:
            if name not in known:
                raise UsageError(f"expected the size `{name}`, but it is missing", None, (f"pass {name}=...",))
        return known

    def _variant(self, tensors: Mapping[str, Tensor]) -> tuple[Generated, Any]:
        """The generated and loaded kernel for these element types."""
        uses = {}
        for declared in self._declared.program.tensors:
            found = tensors[declared.name]
            value = found.dtype.name
            kinds = tuple((a.name, found.arrays[a.name].dtype.name) for a in declared.layout.indexes)
            if declared.typed:
                _check_types(declared, value, kinds)
            uses[declared.name] = (value, kinds)
        key = tuple(uses.items())
        if key not in self._variants:
            self._variants[key] = self._built(uses)
        return self._variants[key]

    def _built(self, uses: Mapping[str, tuple[str, tuple[tuple[str, str], ...]]]) -> tuple[Generated, Any]:
        from spfgen.pipeline import generate
        from spfgen.run.compile import build, load

        tensors = []
        declared = {d.name for d in self._kernel.tensors}
        scalars = tuple(lang.TensorDecl(n, lang.LayoutUse(SCALAR.name)) for n in uses if n not in declared)
        for declaration in (*self._kernel.tensors, *scalars):
            value, kinds = uses[declaration.name]
            use = replace(declaration.use, value_type=value, index_type=None, array_types=kinds)
            tensors.append(replace(declaration, use=use))
        generated = generate(replace(self._kernel, tensors=tuple(tensors)), self._layouts)
        library = load(build(generated.whole))
        return generated, getattr(library, self._kernel.name)


def _check_operands(program: Program, operands: Mapping[str, object]) -> None:
    """The names are the kernel's, and every operand that is only read is there. Raises UsageError."""
    names = [t.name for t in program.tensors]
    for name in operands:
        if name not in names:
            raise UsageError(
                f"expected an operand of `{program.name}`, but `{name}` is not one",
                None,
                (f"its operands: {', '.join((*names, *program.parameters))}",),
            )
    for declared in program.tensors:
        if declared.is_input and not declared.is_output and declared.name not in operands:
            message = f"expected the operand `{declared.name}`, but it is missing"
            raise UsageError(message, None, (f"pass {declared.name}=...",))


def _bound_tensors(program: Program, operands: Mapping[str, object]) -> dict[str, Tensor]:
    """The operands that are given; numbers of Python last, because they take the type of the others."""
    from spfgen.run.bind import bind

    tensors: dict[str, Tensor] = {}
    declared = {t.name: t for t in program.tensors}
    for name in sorted(operands, key=lambda n: _is_number(operands[n])):
        tensor, value = declared[name], operands[name]
        if _is_number(value) and not tensor.typed:
            value = _number(value, list(tensors.values()))
        types = {n: k if tensor.typed else DEFAULT_INDEX for n, k in tensor.index_types}
        value_type = tensor.value_type if tensor.typed else None
        tensors[name] = bind(tensor.layout, value, name, types, output=tensor.is_output, value_type=value_type)
    return tensors


def _is_number(value: object) -> bool:
    return type(value) in (bool, int, float, complex)


def _number(value: Any, others: Sequence[Tensor]) -> Any:
    """A number of Python in the type that numpy would compute with: that of the arrays, where it fits."""
    import numpy as np

    if not others:
        return value
    try:
        return np.asarray(value, dtype=np.result_type(*(t.dtype for t in others), value))
    except OverflowError:
        return value


def _made(
    program: Program, declared: Declared, tensors: Mapping[str, Tensor], sizes: Mapping[str, int], dtype: str
) -> Tensor:
    """An output that was not given. Raises UsageError when it cannot be made."""
    from spfgen.run.call import made_output

    made = made_output(program, declared, tensors, sizes, declared.value_type if declared.typed else dtype)
    if made is None:
        raise UsageError(
            f"expected the output `{declared.name}`, because its extents or its pattern do not follow from "
            "the other operands",
            None,
            ("pass it (values are overwritten), or its extents with sizes={...}",),
        )
    return made


def _result_type(kernel: lang.Kernel, tensors: Mapping[str, Tensor]) -> str:
    """numpy's promotion of all operands; float64 when whole numbers are divided or meet a number with a point."""
    from spfgen.ir import walk
    from spfgen.lang.types import DEFAULT_VALUE, TYPES, promoted

    found = promoted([t.dtype.name for t in tensors.values()]).name
    if TYPES[found].kind not in "biu":
        return found
    nodes = [n for s in kernel.statements for n in walk(s.value)]
    broken = any(isinstance(n, lang.Binary) and n.op == "/" for n in nodes)
    broken = broken or any(isinstance(n, lang.Constant) and isinstance(n.value, float) for n in nodes)
    return DEFAULT_VALUE if broken else found


def _check_holds(name: str, tensor: Tensor, dtype: str) -> None:
    """An output that is given can hold the results, as far as numpy lets it (float32 for float64, no integers)."""
    import numpy as np

    if not np.can_cast(dtype, tensor.dtype, "same_kind"):
        raise DataError(
            f"expected `{name}` to hold {dtype}, which the operands give, but it is {tensor.dtype.name}",
            None,
            (f"make it with dtype={dtype}, or declare its type in the kernel",),
        )


def _check_types(declared: Declared, value: str, kinds: tuple[tuple[str, str], ...]) -> None:
    """Declared types are met. Raises DataError."""
    if (value, kinds) != (declared.value_type, declared.index_types):
        raise DataError(
            f"expected `{declared.name}` with {_types_text(declared.value_type, declared.index_types)}, "
            f"but it has {_types_text(value, kinds)}",
            None,
            ("convert it, or leave the types out of the kernel: they are then taken from the operands",),
        )


def _types_text(value: str, kinds: Sequence[tuple[str, str]]) -> str:
    return ", ".join([f"{value} values", *(f"{n} : {k}" for n, k in kinds)])


def _result(tensor: Tensor, given: object) -> Any:
    """What a call returns for an output: the object that was given, where it could be written in place."""
    import numpy as np

    is_number = _is_number(given) or isinstance(given, np.generic)
    return _natural(tensor) if given is None or is_number else given


def _natural(tensor: Tensor) -> Any:
    """A numpy array where the layout is numpy's own, a number for a scalar, else the tensor."""
    if tensor.layout.rank == 0:
        return tensor.arrays[tensor.layout.values[0].name][()]
    for binding in tensor.layout.bindings:
        if binding.library == "numpy":
            own, attribute, _ = binding.arrays[0]
            return tensor.arrays[own].T if attribute == "T" else tensor.arrays[own]
    return tensor


__all__ = ["Kernel", "KernelSpec", "LayoutHandle", "Spec", "compile", "load", "parse", "tensor"]
