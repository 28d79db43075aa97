"""A compiled kernel: C for each choice of element types, made once; calls that check their operands and run it."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any, Protocol

from spfgen.errors import DataError, DenseResultWarning, SpfgenError, UsageError, a_type, warn_user
from spfgen.facts.formula import Var
from spfgen.lang import nodes as lang
from spfgen.lang.fills import fill_text
from spfgen.lang.show import show_statement
from spfgen.lang.types import INDEX_TYPES
from spfgen.lang.uses import read_first
from spfgen.late_imports import LateImport
from spfgen.layout.nodes import ENTRIES, SCALAR, Layout
from spfgen.public import Public
from spfgen.run.threads import checked_threads

if TYPE_CHECKING:
    from spfgen.disk_cache import Compiled
    from spfgen.pipeline import Generated
    from spfgen.run.assembly import ResultAssembly
    from spfgen.run.calls.call import Bound, KernelVariant
    from spfgen.run.calls.pattern_overflow import PatternOverflow
    from spfgen.run.drawings.symbolic import Symbolic
    from spfgen.run.tensor import Tensor
    from spfgen.space.nodes import Program
    from spfgen.space.nodes import Tensor as Declared
    from spfgen.tuned import Tuned


class Tuner(Protocol):
    """run/tuners/tune_layouts.py"""

    def optimized(
        self,
        kernel: Kernel,
        names: Sequence[str],
        operands: Mapping[str, object],
        sizes: Mapping[str, int] | None,
        expected: int | None,
        /,
    ) -> Bound: ...


class BlockedKernel(Protocol):
    """cluster/methods.py"""

    def called(
        self, kernel: Kernel, operands: dict[str, object], sizes: Mapping[str, int] | None, prune: bool | None, /
    ) -> Any: ...


class Notebook(Protocol):
    """explain_html.py"""

    def notebook_html(self, generated: Generated, /) -> str: ...


TUNER: LateImport[Tuner] = LateImport("tuner")
BLOCKS: LateImport[BlockedKernel] = LateImport("blocks")
NOTEBOOK: LateImport[Notebook] = LateImport("notebook")


class Kernel(Public):
    """A compiled kernel. Call it with its operands by name; outputs that are not passed are made.

    Element types are those of the operands, unless the kernel declares them; C is generated and compiled once for each
    choice of types. `source` and `header` are the C for the declared or default types. Index arrays are checked at
    their first use (`validate` "once"), at every call ("always"), or not at all ("never": arrays that violate the
    layout may crash the process).
    """

    _public = (
        *("name", "source", "header", "layouts", "explain", "bind", "optimize", "symbolic"),
        *("threads", "validate", "prune", "max_workspace", "tuned"),
    )
    threads: int | None
    """Of each call; None leaves the number to OpenMP."""
    validate: str
    """When index arrays are checked: "once", "always" or "never"."""
    prune: bool
    """Whether results whose pattern is computed leave out what equals their fill value."""
    max_workspace: int | None
    """The bytes that their entries, and workspaces, may take."""
    tuned: Tuned | None
    """The schedule that `spfgen tune` found, where the kernel has it."""

    def __init__(
        self,
        kernel: lang.Kernel,
        layouts: Mapping[str, Layout],
        threads: int | None = None,
        validate: str = "once",
        *,
        kept: bool = False,
        tuned: Tuned | None = None,
        prune: bool = False,
        max_workspace: int | None = None,
    ) -> None:
        """`kept`: the C may come from the disk, where another process left it. `tuned`: where the schedule is from.
        `prune`: results whose pattern is computed do not store what equals their fill value; `max_workspace`: the
        bytes that their entries, and workspaces, may take until they are packed."""
        self._kernel = kernel
        self._layouts = dict(layouts)
        self.threads = checked_threads(threads)
        self.validate = _checked_mode(validate)
        self._kept = kept
        self.tuned = tuned
        self._generated: Generated | None = None
        self._declared = self._compiled(kernel)
        self._variants: dict[tuple[object, ...], tuple[Compiled, KernelVariant]] = {}
        self._calls: _Calls | None = None
        self._assemblies: dict[tuple[str, str, bool], ResultAssembly] = {}
        self._target: Kernel | None = None
        self._listed: Kernel | None = None
        self.prune = checked_prune(prune) or False
        self.max_workspace = checked_bytes(max_workspace)
        self.assembled = frozenset(d.name for d in kernel.tensors if d.assembled)
        self._sharing = tuple(d.name for d in kernel.tensors if d.assembled and d.shares is not None)
        self._given: dict[frozenset[str], Kernel] = {}
        self._texts: dict[lang.Kernel, Kernel] = {}

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
        if self._generated is None:
            from spfgen.pipeline import generate

            self._generated = generate(self._kernel, self._layouts)
        return self._generated

    def stopped_after(self, name: str) -> Generated:
        """The kernel without the passes after this one: same results, less speed. Raises UsageError for an unknown
        pass.
        """
        from spfgen.pipeline import generate

        return generate(self._kernel, self._layouts, name)

    @property
    def program(self) -> Program:
        """What is computed, on which tensors of which layouts and types."""
        return self._declared.program

    @property
    def layouts(self) -> Mapping[str, Layout]:
        """The layouts of the declared tensors."""
        return self._layouts

    @property
    def parsed(self) -> lang.Kernel:
        """What the user wrote."""
        return self._kernel

    def explain(self, json: bool = False, *, details: bool = False) -> Any:
        """The iteration spaces, the loops with their reasons, and the proofs, as text or as a dict.

        `details` adds the times of proofs and counterexamples to the text; the dict always has them.
        """
        from spfgen.explain import explain_json, explain_text

        if json:
            return {**explain_json(self.generated), "tuned": asdict(self.tuned) if self.tuned else None}
        text = explain_text(self.generated, details=details)
        return f"{text}\n\nschedule found by `spfgen tune`: {self.tuned}" if self.tuned else text

    def __repr__(self) -> str:
        first, *others = map(show_statement, self._kernel.statements)
        more = f"; and {len(others)} more" if others else ""
        return f"<spfgen.Kernel {self.name}: {first}{more}>"

    def _repr_html_(self) -> str:
        return NOTEBOOK().notebook_html(self.generated)

    def __reduce__(self) -> tuple[Any, ...]:
        state = (self._kernel, self._layouts, self.threads, self.validate, self._kept, self.tuned, self.prune)
        return _rebuilt, (*state, self.max_workspace)

    def with_given(self, names: Iterable[str]) -> Kernel:
        """The kernel to which these results are given: their patterns are not computed, but those that they come with.
        `assembled` are the results whose patterns are computed."""
        mine = self.assembled.intersection(names)
        if not mine:
            return self
        if mine not in self._given:
            from spfgen.space.assembled import with_given

            self._given[mine] = self._with(with_given(self._kernel, mine))
        return self._given[mine]

    def _with(self, kernel: lang.Kernel) -> Kernel:
        """Another kernel with the settings of this one."""
        args = (self._layouts, self.threads, self.validate)
        return Kernel(
            kernel, *args, kept=self._kept, tuned=self.tuned, prune=self.prune, max_workspace=self.max_workspace
        )

    def with_text(self, kernel: lang.Kernel) -> Kernel:
        """Another text with the settings of this one; the same kernel for the same text."""
        if kernel not in self._texts:
            self._texts[kernel] = self._with(kernel)
        return self._texts[kernel]

    def _with_own_pattern(
        self, declared: Declared, tensors: Mapping[str, Tensor], sizes: Mapping[str, int], threads: int
    ) -> Tensor | None:
        """A result that shares some of its index arrays, with the others, or that lends its own to other results; None
        where there is no such result."""
        if declared.is_made or not declared.is_output or not any(d.shares for d in self._kernel.tensors):
            return None
        from spfgen.run.calls.partly_shared import with_own_pattern

        return with_own_pattern(self, declared, tensors, sizes, threads)

    def _without_shared(self) -> Kernel:
        """The kernel where results that have the pattern of an operand are assembled like all others."""
        key = frozenset({""})
        if key not in self._given:
            from spfgen.space.assembled import without_shared

            self._given[key] = self._with(without_shared(self._kernel))
        return self._given[key]

    def __call__(
        self,
        /,
        *positional: object,
        sizes: Mapping[str, int] | None = None,
        prune: object = None,
        **operands: object,
    ) -> Any:
        """Run once and return the output (a dict of them when there are several).

        An output in a sparse layout that is not given gets its pattern from what is computed: it stores each coordinate
        at which a term of the sum has all its factors stored; with `prune` those at which the result is not the fill
        value. Operands are numpy arrays, scipy sparse arrays, numbers or spfgen tensors; an output that is given is
        written in place. Named sizes of the kernel are operands too. What holds the arrays of the operand's layout
        is used in place; anything else is copied into it. Raises DataError, UsageError.
        """
        if positional:
            raise self._by_name()
        if in_blocks(operands.values()):
            return BLOCKS().called(self, operands, sizes, checked_prune(prune))
        bound = self._bound(operands, sizes, prune)
        bound()
        return self.results(bound, operands)

    def symbolic(self, /, *, sizes: Mapping[str, int] | None = None, **operands: object) -> Symbolic:
        """Compute results once, and their values again later: `s = kernel.symbolic(A=A, B=B)`, then
        `s.numeric(A=other)` for operands with the same patterns. Raises UsageError, DataError.
        """
        from spfgen.run.drawings.symbolic import Symbolic

        return Symbolic(self, operands, sizes)

    def phases(self) -> tuple[Kernel, Kernel]:
        """Two kernels: NAME_symbolic makes the results, as this kernel does; NAME_numeric takes them and recomputes
        their values in place, for operands with the same patterns. Raises UsageError if no result has a computed
        pattern.
        """
        if not self.assembled:
            message = f"expected a result of `{self.name}` whose pattern is computed, but there is none"
            raise UsageError(message, None, ("declare it in a sparse layout",))
        numeric = self.with_given(self.assembled)
        return self._with(replace(self._kernel, name=f"{self.name}_symbolic")), numeric._with(
            replace(numeric._kernel, name=f"{self.name}_numeric")
        )

    def results(self, bound: Bound, operands: Mapping[str, object]) -> Any:
        """The outputs of a call: the objects that were passed, or numpy arrays if numpy has the layout."""
        results = [(name, _result(bound.tensors[name], operands.get(name))) for name in self._known().outputs]
        return results[0][1] if len(results) == 1 else dict(results)

    def bind(
        self,
        /,
        *positional: object,
        sizes: Mapping[str, int] | None = None,
        prune: object = None,
        **operands: object,
    ) -> Bound:
        """Check the operands once; the result runs the kernel each time it is called.

        The first call determines the order of loops by levels, as in triangular solves.
        """
        if positional:
            raise self._by_name()
        return self._bound(operands, sizes, prune).keep_levels()

    def _bound(self, operands: dict[str, object], sizes: Mapping[str, int] | None, prune: object) -> Bound:
        """`prune` may be the name of an operand, too."""
        if prune is not None and self.takes("prune"):
            operands, prune = {**operands, "prune": prune}, None
        return self.bound(operands, sizes, self.threads, self.validate, prune=checked_prune(prune))

    def takes(self, name: str) -> bool:
        """Whether an operand or a size has that name."""
        known = (*(t.name for t in self._declared.program.tensors), *self._kernel.sizes)
        return name in known

    def _by_name(self) -> UsageError:
        names = ", ".join(f"{t.name}=..." for t in self._declared.program.tensors if t.is_input and not t.is_output)
        message = f"expected the operands of `{self.name}` by name, but some are given by position"
        return UsageError(message, None, (f"write for instance {self.name}({names})",))

    def optimize(
        self,
        /,
        *names: str,
        expected_calls: int | None = None,
        sizes: Mapping[str, int] | None = None,
        **operands: object,
    ) -> Bound:
        """`bind` for many calls: `kernel.optimize("A", expected_calls=10_000, A=A, x=x, y=y)`.

        The named operands may be converted to the layouts in which calls are fastest, as found by
        `spfgen.tune_layouts`. The search ends after a minute, or earlier if the expected calls take less time with the
        operands as they are. Converted operands are copies: later changes of the values of A have no effect. Raises
        DataError, UsageError.
        """
        return TUNER().optimized(self, names, operands, sizes, expected_calls)

    def bound(
        self,
        operands: Mapping[str, object],
        sizes: Mapping[str, int] | None,
        threads: int | None,
        validate: str,
        checked: Container[str] = (),
        prune: bool | None = None,
    ) -> Bound:
        """The same, with threads and times of validation of this call's own; tensors in `checked` were validated."""
        passed_results = [n for n in self.assembled if operands.get(n) is not None] if self.assembled else ()
        if passed_results:
            return self.with_given(passed_results).bound(operands, sizes, threads, validate, checked, prune)
        if self._sharing and (self.prune if prune is None else prune):
            return self._without_shared().bound(operands, sizes, threads, validate, checked, prune)
        calls = self._known()
        if sizes is not None and not hasattr(sizes, "items"):
            message = f"expected sizes={{name: number}}, but `sizes` is {a_type(sizes)}"
            raise UsageError(message, None, ("an operand cannot be called `sizes`: give it another name",))
        given = {name: value for name, value in operands.items() if value is not None}
        known = calls.sizes(given, sizes)
        calls.check_names(given)
        tensors = calls.bound(given, validate, checked)
        known = calls.completed(known, tensors)
        dtypes = calls.result_types(tensors)
        results = []
        for declared in calls.owners_first:
            if declared.name not in tensors:
                result = self._with_own_pattern(declared, tensors, known, threads or 0)
                if result is None:
                    result = calls.made(declared, tensors, known, dtypes[declared.name])
                tensors[declared.name] = result
                results.append(declared.name)
            elif declared.is_output and not declared.typed:
                _check_holds(declared.name, tensors[declared.name], dtypes[declared.name])
        pruned = self.prune if prune is None else prune
        bound = self.placed(tensors, known, threads or 0, results, validate, pruned)
        if calls.places is not None:
            calls.places.check(tensors, known, validate)
        return bound

    def placed(
        self,
        tensors: Mapping[str, Tensor],
        sizes: Mapping[str, int],
        threads: int,
        results: Container[str],
        validate: str,
        pruned: bool,
        wide: bool = False,
    ) -> Bound:
        """Operands and results as they are. `wide`: index arrays of results are so where their types are left open."""
        compiled, entry = self._entry(tensors, wide)
        if compiled.refused:
            return self.in_coordinates().bound(_given(tensors), sizes, threads, validate, prune=pruned)
        if entry.program.filled and not pruned and not entry.program.without_fill:
            _warn_of_size(entry.program, tensors)
        computed = [t for t in entry.program.tensors if t.is_made]
        assemblies = {t.name: self._assembly(t.name, t.layout.fill, pruned) for t in computed}
        bound = entry.bind(tensors, sizes, threads, results, validate, assemblies)
        bound.statements = self._kernel.statements
        if assemblies and self._target is None:
            from spfgen.run.calls.otherwise import otherwise

            bound.otherwise = partial(otherwise, self, dict(tensors), sizes, threads, pruned, wide)
        return bound

    def in_coordinates(self) -> Kernel:
        """The kernel whose C makes coordinates of results, which numpy packs: for layouts that the C does not make, and
        to say what has no place."""
        if self._listed is None:
            from spfgen.layout.nodes import coordinate_list

            computed = {t.name: t for t in self._declared.program.tensors if t.assembled is not None}
            lists = {n: replace(coordinate_list(t.layout.rank), fill=t.layout.fill) for n, t in computed.items()}
            plain = {n: lang.LayoutUse("coordinates") for n in computed}
            declarations = tuple(
                replace(d, use=replace(plain[d.name], value_type=d.use.value_type)) if d.name in plain else d
                for d in self._kernel.tensors
            )
            text, layouts = replace(self._kernel, tensors=declarations), {**self._layouts, **lists}
            self._listed = Kernel(text, layouts, self.threads, self.validate, kept=self._kept, prune=self.prune)
            self._listed._target = self
        return self._listed

    def _assembly(self, name: str, fill: Any, pruned: bool) -> ResultAssembly:
        """How entries of a result become a tensor, found out once. The types of a call may decide the `fill` value."""
        key = name, fill_text(fill), pruned
        if key in self._assemblies:
            return self._assemblies[key]
        from spfgen.run.assembly import ResultAssembly
        from spfgen.space.tensors import types_of

        use = next(d.use for d in self._kernel.tensors if d.name == name)
        _, kinds = types_of(use, self._layouts[name])
        typed = use.index_type is not None or bool(use.array_types)
        layout = self._layouts[name]
        layout = layout if fill_text(fill) == fill_text(layout.fill) else replace(layout, fill=fill)
        target = None if self._target is None else self._target._assembly(name, fill, pruned)
        assembly = ResultAssembly(layout, dict(kinds), typed, pruned, self.max_workspace or 0, target)
        self._assemblies[key] = assembly
        return assembly

    def _known(self) -> _Calls:
        if self._calls is None:
            self._calls = _Calls(self._kernel, self._declared.program)
        return self._calls

    def _entry(self, tensors: Mapping[str, Tensor], wide: bool) -> tuple[Compiled, KernelVariant]:
        """The loaded kernel for these element types."""
        kinds = self._kinds_of_results(tensors, wide)
        key: list[object] = [*kinds.values()]
        for name, arrays in self._known().typed_arrays:
            arrays_of_tensor = tensors[name].arrays
            key += [arrays_of_tensor[a].dtype for a in arrays]
        variant = self._variants.get(tuple(key))
        if variant is None:
            variant = self._variants[tuple(key)] = self._built(tensors, kinds)
        return variant

    def _kinds_of_results(self, tensors: Mapping[str, Tensor], wide: bool) -> dict[str, tuple[tuple[str, str], ...]]:
        """The types of the index arrays of results whose pattern is computed."""
        kinds = {}
        for tensor in self._declared.program.tensors if self.assembled else ():
            if tensor.assembled is not None:
                assembly = self._assembly(tensor.name, tensor.layout.fill, False)
                kinds[tensor.name] = assembly.kinds(tensors[tensor.name].shape, wide)
            elif tensor.copied:
                owners = ((array, *function.partition(".")[::2]) for array, function in tensor.arrays)
                kinds[tensor.name] = tuple(
                    (a, tensors[owner].arrays[shared_array].dtype.name) for a, owner, shared_array in owners
                )
        return kinds

    def _compiled(self, kernel: lang.Kernel) -> Compiled:
        """The C of the kernel, as it was written or with the types of a call."""
        from spfgen.disk_cache import compiled, compiled_of

        if self._kept:
            return compiled(kernel, self._layouts)
        from spfgen.pipeline import generate

        generated = generate(kernel, self._layouts)
        if kernel is self._kernel:
            self._generated = generated
        return compiled_of(generated)

    def _built(
        self, tensors: Mapping[str, Tensor], results: Mapping[str, tuple[tuple[str, str], ...]]
    ) -> tuple[Compiled, KernelVariant]:
        from spfgen.run.calls.call import KernelVariant

        uses = {}
        for tensor in self._declared.program.tensors:
            tensor_of_call = tensors[tensor.name]
            kinds = results.get(tensor.name) or tuple(
                (a.name, tensor_of_call.arrays[a.name].dtype.name) for a in tensor.layout.indexes
            )
            uses[tensor.name] = (tensor_of_call.dtype.name, kinds)
            if tensor.typed:
                stated = {n for n, _ in tensor.index_types} - self._open_marks(tensor)
                _check_types(tensor, tensor_of_call.dtype.name, tuple((n, k) for n, k in kinds if n in stated))
        program = self._declared.program
        if all(uses[t.name] == (t.value_type, t.final_types) for t in program.tensors):
            return self._declared, KernelVariant(program, self._function(self._declared))
        typed = []
        declared = {d.name for d in self._kernel.tensors}
        scalars = tuple(lang.TensorDecl(n, lang.LayoutUse(SCALAR.name)) for n in uses if n not in declared)
        for declaration in (*self._kernel.tensors, *scalars):
            if declaration.local:  # of the type of what is computed for it
                typed.append(declaration)
                continue
            value, kinds = uses[declaration.name]
            use = replace(declaration.use, value_type=value, index_type=None, array_types=kinds)
            typed.append(replace(declaration, use=use))
        generated = self._compiled(replace(self._kernel, tensors=tuple(typed)))
        return generated, KernelVariant(generated.program, self._function(generated))

    def build(self) -> None:
        """Compile it for the element types of its text, or double; a call with others compiles it for these. Raises
        ToolError."""
        self._function(self._declared)

    def _open_marks(self, tensor: Declared) -> set[str]:
        """The index arrays that hold marks, whose types the text does not say: those of the operand are taken."""
        uses = [d.use for d in self._kernel.tensors if d.name == tensor.name and d.use.index_type is None]
        typed = {name for use in uses for name, _ in use.array_types}
        return {a.name for a in tensor.layout.indexes if uses and a.name not in typed and a.types != INDEX_TYPES}

    def _function(self, generated: Compiled) -> Any:
        """The function that a C compiler makes of it."""
        from spfgen.run.calls.call import function_name
        from spfgen.run.compile import build, load

        return None if generated.refused else getattr(load(build(generated.whole)), function_name(generated.program))


def _given(tensors: Mapping[str, Tensor]) -> dict[str, object]:
    """Without results whose pattern is computed."""
    from spfgen.run.assembly import is_pending

    return {n: t for n, t in tensors.items() if not is_pending(t)}


DENSE_RESULT = 1 << 16
"""Places of a result that is as large as a dense one, from which on that is said, where operands store a quarter or
less."""


def _warn_of_size(program: Program, tensors: Mapping[str, Tensor]) -> None:
    """A result that gets an entry at each of its places, however few the operands have."""
    sparse = [t for t in program.tensors if t.is_input and t.layout.indexes]
    stored = sum(tensors[t.name].arrays[t.layout.values[0].name].size for t in sparse if t.layout.values)
    for name in program.filled:
        shape = tensors[name].shape
        if sparse and prod(shape) >= max(DENSE_RESULT, 4 * stored):
            named = program.tensor(name).final_layout.name
            text = f"`{name}` gets an entry at each of its {prod(shape)} places, but its operands store {stored}: it is"
            way = (
                f"a dense result is smaller and faster; multiply by a pattern if {named} is to have that of an operand"
            )
            warn_user(f"{text} as large in {named} as a dense array would be ({way})", DenseResultWarning)


def made(
    kernel: lang.Kernel,
    layouts: Mapping[str, Layout],
    threads: int | None,
    validate: str,
    *,
    kept: bool = False,
    prune: bool = False,
    max_workspace: int | None = None,
) -> Kernel:
    """A kernel with the schedule that `spfgen tune` found for it, where it has none. One that is no longer accepted is
    left out, with a warning."""
    from spfgen.tuned import found_for

    stored = found_for(kernel, layouts, checked_threads(threads))
    if stored is not None:
        from spfgen.lang.parse import parse_schedule
        from spfgen.lang.schedule import with_schedule

        try:
            scheduled = with_schedule(kernel, parse_schedule(stored.schedule))
            return Kernel(
                scheduled, layouts, threads, validate, kept=kept, tuned=stored, prune=prune, max_workspace=max_workspace
            )
        except SpfgenError as error:
            text = f"the schedule that `spfgen tune` found for `{kernel.name}` is no longer accepted: {error.message}"
            warnings.warn(f"{text} (tune again)", stacklevel=3)
    return Kernel(kernel, layouts, threads, validate, kept=kept, prune=prune, max_workspace=max_workspace)


def kept_kernel(kernel: lang.Kernel, layouts: Mapping[str, Layout]) -> Kernel:
    """A kernel of the library's own, for operands that were checked."""
    return Kernel(kernel, layouts, validate="never", kept=True)


def _rebuilt(
    kernel: lang.Kernel,
    layouts: Mapping[str, Layout],
    threads: int | None,
    validate: str,
    kept: bool,
    tuned: Tuned | None,
    prune: bool,
    max_workspace: int | None,
) -> Kernel:
    """A kernel from a pickle: compiled again, or loaded from the cache."""
    from spfgen.run.calls.layout_signature import canonical

    known = {name: canonical(layout) for name, layout in layouts.items()}
    return Kernel(kernel, known, threads, validate, kept=kept, tuned=tuned, prune=prune, max_workspace=max_workspace)


class _Calls:
    """What every call of a kernel needs to know of its program, found out once."""

    def __init__(self, kernel: lang.Kernel, program: Program) -> None:
        from spfgen.run.calls.call import Output

        self.program = program
        self.kernel = kernel
        self.outputs = tuple(t.name for t in program.tensors if t.is_output)
        self.owners_first = sorted(program.tensors, key=lambda t: t.shared_with is not None)
        self.typed_arrays = tuple(
            (t.name, (ENTRIES,) if t.is_made else (t.layout.values[0].name, *(a.name for a in t.layout.indexes)))
            for t in program.tensors
        )
        self._needed = tuple(t.name for t in program.tensors if t.is_input and not t.is_output)
        self._declared = {t.name: t for t in program.tensors}
        self._makers = {t.name: Output(program, t) for t in program.tensors if t.is_output}
        self._wanted = {t.name: dict(t.index_types) for t in program.tensors}
        self._results: dict[tuple[Any, ...], Mapping[str, str]] = {}
        self.places: PatternOverflow | None = None
        if program.doubts:
            from spfgen.run.calls.pattern_overflow import PatternOverflow

            self.places = PatternOverflow(program)

    def sizes(self, given: dict[str, object], sizes: Mapping[str, int] | None) -> dict[str, int]:
        """The sizes that the caller says; those that are among the operands are taken out of them."""
        from spfgen.run.calls.call import checked_sizes

        parameters = self.program.parameters
        named = [n for n in dict.fromkeys((*self.kernel.sizes, *parameters)) if n in given]
        if not sizes and not parameters and not named:
            return {}
        known = checked_sizes(self.program, {**(sizes or {}), **{n: given.pop(n) for n in named}})
        for name in parameters:
            index = next((i for i, e in self.program.sizes.of_index.items() if e == (name,) and i in known), None)
            if name not in known and index is not None:
                known[name] = known[index]
            follows = any(left == Var(name) for left, _, _ in self.program.sizes.derived)
            if name not in known and not follows:
                raise self.missing(name)
        return known

    def missing(self, name: str) -> UsageError:
        """That a size is missing, or the extent of an index that has no other name."""
        index = next((i for i, e in self.program.sizes.of_index.items() if e == (name,)), None)
        if name in self.kernel.sizes or index is None:
            return UsageError(f"expected the size `{name}`, but it is missing", None, (f"pass {name}=...",))
        message = f"expected the extent of `{index}`, but it does not follow from what is passed"
        return UsageError(message, None, (f"pass sizes={{'{index}': ...}}",))

    def completed(self, known: dict[str, int], tensors: Mapping[str, Tensor]) -> dict[str, int]:
        """The sizes with those that follow from operands. Raises UsageError where one does not."""
        from spfgen.run.calls.call import size_value

        for name in self.program.parameters:
            if name not in known:
                value = size_value(self.program, name, tensors, known)
                if value is None:
                    raise self.missing(name)
                known = {**known, name: value}
        return known

    def check_names(self, operands: Mapping[str, object]) -> None:
        """The names are the kernel's, and every operand that is only read is there. Raises UsageError."""
        for name in operands:
            if name not in self._declared:
                known = dict.fromkeys((*self._declared, *self.kernel.sizes, *self.program.parameters))
                notes = [f"its operands: {', '.join(known)}"]
                if name in ("threads", "validate", "schedule", "finds", "order"):
                    notes.append(f"`{name}` is given when the kernel is compiled")
                raise UsageError(f"expected an operand of `{self.program.name}`, but `{name}` is not one", None, notes)
        for name in self._needed:
            if name not in operands:
                message = f"expected the operand `{name}`, but it is missing"
                raise UsageError(message, None, (f"pass {name}=...",))

    def bound(self, operands: Mapping[str, object], validate: str, checked: Container[str]) -> dict[str, Tensor]:
        """The operands that are given; numbers of Python last, because they take the type of the others."""
        from spfgen.run.calls.bind import bind, is_number

        tensors: dict[str, Tensor] = {}
        numbers = [n for n, v in operands.items() if is_number(v)]
        names = [*(n for n in operands if n not in numbers), *numbers] if numbers else operands
        for name in names:
            tensor, value = self._declared[name], operands[name]
            if name in numbers and not tensor.typed:
                value = _number(value, list(tensors.values()))
            tensors[name] = bind(
                tensor.layout,
                value,
                name,
                self._wanted[name],
                output=tensor.is_output,
                value_type=tensor.value_type if tensor.typed else None,
                validate="never" if name in checked else validate,
            )
        return tensors

    def result_types(self, tensors: Mapping[str, Tensor]) -> Mapping[str, str]:
        """The element types of outputs that have none of their own, as numpy would have them."""
        key = tuple([(n, t.dtype) for n, t in tensors.items()])
        types = self._results.get(key)
        if types is None:
            types = self._results[key] = self._typed(dict(key))
        return types

    def _typed(self, types: Mapping[str, Any]) -> Mapping[str, str]:
        from spfgen.lang.types import ALIASES
        from spfgen.space.result_types import result_types

        known = {n: d.name for n, d in types.items() if n not in self.outputs}
        given = {n: d.name for n, d in types.items() if n in self.outputs}
        stated = {d.name: d.use.value_type for d in self.kernel.tensors if d.use.value_type}
        declared = {name: ALIASES.get(kind, kind) for name, kind in stated.items()}
        return {**declared, **result_types(self.kernel, {**declared, **known}, given)}

    def made(self, declared: Declared, tensors: Mapping[str, Tensor], sizes: Mapping[str, int], dtype: str) -> Tensor:
        """An output that was not given. Raises UsageError when it cannot be made."""
        tensor = self._makers[declared.name].make(tensors, sizes, declared.value_type if declared.typed else dtype)
        if tensor is None:
            if declared.name in read_first(self.kernel.statements, in_loops=True):
                why, hint = "it is read before it is written", "pass it, with its initial values"
            else:
                why = "its extents or its pattern do not follow from the other operands"
                missing = ", ".join(f"'{i}': ..." for i in self._makers[declared.name].unknown(tensors, sizes)) or "..."
                hint = f"pass it (values are overwritten), or its extents with sizes={{{missing}}}"
                extents_of_layout = zip(declared.layout.parameters, declared.extents, strict=True)
                known = [f"`{declared.name}.{p}` is `{e}`" for p, e in extents_of_layout if e != f"{declared.name}.{p}"]
                if f"'{declared.name}." in missing and known:
                    hint += f" ({', '.join(known)})"
            raise UsageError(f"expected the output `{declared.name}`, because {why}", None, (hint,))
        return tensor


def in_blocks(values: Iterable[object]) -> bool:
    """Whether an operand is in blocks: dask is not imported to know it."""
    blocked = sys.modules.get("spfgen.cluster.blocked")
    return blocked is not None and any(isinstance(v, blocked.Blocked) for v in values)


def checked_prune(value: object) -> bool | None:
    """None where a call does not say it. Raises UsageError."""
    if value is None or isinstance(value, bool):
        return value
    raise UsageError(f"expected prune=True or prune=False, but it is {value!r}")


def checked_bytes(value: object) -> int | None:
    """A number of bytes. Raises UsageError."""
    if value is None or (type(value) is int and value > 0):
        return value
    raise UsageError(f"expected a number of bytes for `max_workspace`, but it is {value!r}")


def _checked_mode(validate: str) -> str:
    from spfgen.run.calls.validation_cache import checked_mode

    return checked_mode(validate)


def _number(value: Any, others: Sequence[Tensor]) -> Any:
    """A number of Python in the type that numpy would compute with: that of the arrays, where it fits."""
    import numpy as np

    if not others:
        return value
    try:
        return np.asarray(value, dtype=np.result_type(*(t.dtype for t in others), value))
    except OverflowError:
        return value


def _check_holds(name: str, tensor: Tensor, dtype: str) -> None:
    """An output that is given can hold the results, as far as numpy lets it (float32 for float64, no integers)."""
    import numpy as np

    if not np.can_cast(dtype, tensor.dtype, "same_kind"):
        raise DataError(
            f"expected `{name}` to hold {dtype}, which follows from the operands, but it holds {tensor.dtype.name}",
            None,
            (f"make it with dtype={dtype}, or declare its type in the kernel",),
        )


def _check_types(declared: Declared, value: str, kinds: tuple[tuple[str, str], ...]) -> None:
    """Declared types are met: of the values, and of these index arrays. Raises DataError."""
    wanted = tuple((n, k) for n, k in declared.index_types if n in dict(kinds))
    if (value, kinds) != (declared.value_type, wanted):
        raise DataError(
            f"expected `{declared.name}` with {_types_text(declared.value_type, wanted)}, "
            f"but it has {_types_text(value, kinds)}",
            None,
            ("convert it, or leave the types out of the kernel: they are then taken from the operands",),
        )


def _types_text(value: str, kinds: Sequence[tuple[str, str]]) -> str:
    return ", ".join([f"{value} values", *(f"{n} : {k}" for n, k in kinds)])


def _result(tensor: Tensor, given: object) -> Any:
    """What a call returns for an output: the object that was given, where it could be written in place."""
    import numpy as np

    from spfgen.run.calls.bind import is_number

    is_new = given is None or is_number(given) or isinstance(given, np.generic)
    return _natural(tensor) if is_new else given


def _natural(tensor: Tensor) -> Any:
    """A numpy array where the layout is numpy's own, a number for a scalar, else the tensor."""
    if tensor.layout.rank == 0:
        return tensor.arrays[tensor.layout.values[0].name][()]
    for binding in tensor.layout.bindings:
        if binding.library == "numpy":
            array, attribute, _ = binding.arrays[0]
            return tensor.arrays[array].T if attribute == "T" else tensor.arrays[array]
    return tensor
