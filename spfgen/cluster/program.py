"""Programs over blocks: equations and loops become tasks with the same kernel, on parts of the operands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from spfgen.cluster.blocked import Blocked
from spfgen.cluster.extents import extents_of
from spfgen.cluster.joint_plan import JointPlan, Settings, shape_of
from spfgen.cluster.views import without_slices
from spfgen.errors import DataError, UsageError
from spfgen.facts.formula import Num, Var
from spfgen.ir import walk
from spfgen.lang import nodes as lang
from spfgen.lang.normalize import normalized
from spfgen.lang.parse import parse_statements
from spfgen.lang.trace import among
from spfgen.lang.uses import accesses_in, statements_in


def evaluate(
    text: str,
    operands: Mapping[str, Any],
    sizes: Mapping[str, int] | None = None,
    threads: int | None = None,
    out: Any = None,
    validate: str = "once",
    deterministic: bool = False,
    prune: bool = False,
) -> Any:
    """What spfgen.evaluate gives for operands of which some are in blocks: results in blocks, not computed yet; a
    dict of them where there are several. Raises SpecError, UsageError, DataError, Unsupported."""
    functions, known = among(operands)
    steps = parse_statements(text, functions=dict(functions))
    _check_names(steps, known)
    targets = dict.fromkeys(s.target.tensor for s in statements_in(steps))
    layouts = dict(out) if isinstance(out, Mapping) else dict.fromkeys((n for n in targets if n not in known), out)
    for name in layouts:
        if name not in targets or known.get(name) is not None:
            raise UsageError(f"expected a result that is not given, but `{name}` is not one")
    settings = Settings(threads, validate, deterministic, prune)
    return _Program(steps, known, dict(sizes or {}), layouts, settings).results()


def called(kernel: Any, operands: Mapping[str, Any], sizes: Mapping[str, int] | None, prune: bool | None) -> Any:
    """What a compiled kernel gives for operands of which some are in blocks: its statements and the layouts of its
    results; its schedule, which is about loops over whole tensors, is left out. Raises as `evaluate`."""
    parsed: lang.Kernel = kernel.parsed
    known = {n: v for n, v in operands.items() if v is not None and n not in parsed.sizes}
    given = {**(sizes or {}), **{n: int(v) for n, v in operands.items() if n in parsed.sizes}}
    _check_names(parsed.statements, known)
    named = {n: int(given.pop(n)) for n in parsed.sizes if n in given}
    for declared in parsed.tensors:
        for axis, extent in enumerate(declared.extents or ()):
            if declared.name in known and isinstance(extent, Var):
                named.setdefault(extent.name, shape_of(known[declared.name])[axis])
    for name in parsed.sizes:
        if name not in named:
            raise UsageError(f"expected the size `{name}`, but it is missing", None, (f"pass {name}=...",))
    for declared in parsed.tensors:
        names = kernel.layouts[declared.name].parameters
        for parameter, extent in zip(names, declared.extents or (), strict=False):
            if declared.name not in known and isinstance(extent, Num | Var):
                number = extent.value if isinstance(extent, Num) else named[extent.name]
                given.setdefault(f"{declared.name}.{parameter}", number)
    written = {s.target.tensor for s in statements_in(parsed.statements)}
    layouts = {d.name: _declared(kernel, d) for d in parsed.tensors if d.name in written and d.name not in known}
    local = tuple(d.name for d in parsed.tensors if d.local)
    prune = kernel.prune if prune is None else prune
    settings = Settings(kernel.threads, kernel.validate, parsed.deterministic, prune)
    return _Program(parsed.statements, known, given, layouts, settings, named, local).results()


def _declared(kernel: Any, declared: lang.TensorDecl) -> Any:
    """The layout of a result with its types; None for that of numpy."""
    from spfgen.run.calls.detect_layout import dense_layout
    from spfgen.run.handles import handle_of

    layout = kernel.layouts[declared.name]
    use = declared.use
    if layout.rank and layout.name == dense_layout(layout.rank).name and not use.value_type and layout.fill_text == "0":
        return None
    handle = handle_of(layout)
    types = replace(handle.use, value_type=use.value_type, index_type=use.index_type, array_types=use.array_types)
    return replace(handle, use=types)


def _check_names(steps: Sequence[Any], known: Mapping[str, Any]) -> None:
    names = {a.tensor for a in accesses_in(steps)}
    for name in known:
        if name not in names:
            hint = f"the statements use: {', '.join(sorted(names))}"
            raise UsageError(f"expected a tensor of the statements, but `{name}` is not one", None, (hint,))


@dataclass
class _Program:
    """`sizes` are extents that are said, `named` the sizes that the text names, `local` tensors that are no results."""

    steps: Sequence[Any]
    operands: Mapping[str, Any]
    sizes: dict[str, int]
    layouts: dict[str, Any]
    settings: Settings
    named: dict[str, int] = field(default_factory=dict)
    local: tuple[str, ...] = ()
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Those of results that follow from the whole text."""

    def results(self) -> Any:
        computed: dict[str, Any] = {}
        targets = dict.fromkeys(s.target.tensor for s in statements_in(self.steps))
        self._check_given(targets)
        shapes = {n: shape_of(v) for n, v in self.operands.items()}
        self.shapes = extents_of(self.steps, shapes, self.named, self.sizes).shapes
        for steps in self._units():
            known = {**self.operands, **computed}
            computed |= self._unit(steps, known)
        results = {n: computed[n] for n in targets if n not in self.local}
        return results if len(results) > 1 else next(iter(results.values()))

    def _check_given(self, targets: Mapping[str, None]) -> None:
        """A result that is given is where the computation starts; it is not written in place. Raises UsageError."""
        for name in targets:
            value = self.operands.get(name)
            if value is not None and not isinstance(value, Blocked):
                hint = f"results in blocks are new ones: leave out `{name}`, or pass {name}=spfgen.blocks({name})"
                raise UsageError(f"expected `{name}`, which is written, in blocks, but it is not", None, (hint,))

    def _units(self) -> Iterator[tuple[Any, ...]]:
        """Steps that are planned together: each one alone, but for what a `let` is alive in, and what computes the
        pattern of one result."""
        ends = list(range(len(self.steps)))
        for number, step in enumerate(self.steps):
            names = {step.target.tensor} if isinstance(step, lang.Statement) else set()
            names |= {s.target.tensor for s in statements_in([step])}
            alive = {step.name} if isinstance(step, lang.Let) else set()
            shared = {n for n in names if self.layouts.get(n) is not None} | self._unwritten(number)
            for later in range(number + 1, len(self.steps)):
                other = self.steps[later]
                uses = any(isinstance(n, lang.Local | lang.Set) and n.name in alive for n in walk(other))
                if uses or shared & {s.target.tensor for s in statements_in([other])}:
                    ends[number] = later
        start = 0
        while start < len(self.steps):
            end = start
            at = start
            while at <= end:
                end = max(end, ends[at])
                at += 1
            yield tuple(self.steps[start : end + 1])
            start = end + 1

    def _unwritten(self, number: int) -> set[str]:
        """Tensors that live within the program and are read by a step before any has written them: they hold zeros, of
        the extents that later steps say."""
        before = {s.target.tensor for s in statements_in(self.steps[:number])}
        return {a.tensor for a in accesses_in([self.steps[number]])} & {*self.local} - before

    def _unit(self, steps: tuple[Any, ...], known: dict[str, Any]) -> dict[str, Blocked]:
        if len(steps) == 1 and isinstance(steps[0], lang.Statement):
            explicit = normalized(steps, tuple(self.named))[0]
            if isinstance(explicit, lang.Statement) and explicit.op != steps[0].op:
                steps = (explicit,)  # y = y + v, as the update that it is
        sliced: dict[str, int] = {}
        if len(steps) == 1:
            step, sliced = without_slices(steps[0], {n: shape_of(v) for n, v in known.items()}, self.named)
            steps = (step,)
        targets = tuple(dict.fromkeys(s.target.tensor for s in statements_in(steps)))
        kept = {n: known[n] for n in targets if known.get(n) is not None}
        operands = {n: v for n, v in known.items() if n not in targets}
        used = {a.tensor for a in accesses_in(steps)}
        within = tuple(n for n in self.local if n in targets and not self._elsewhere(steps, n))
        for access in accesses_in(steps):
            if access.tensor not in targets and operands.get(access.tensor) is None:
                raise UsageError(f"expected an operand for `{access.tensor}`, but there is none", access.span)
            value = operands.get(access.tensor, kept.get(access.tensor))
            shape, rank = shape_of(value), len(access.subscripts)
            if value is not None and len(shape) != rank:
                raise DataError(f"expected `{access.tensor}` with {rank} dimensions, but its shape is {shape}")
        layouts = {n: self.layouts.get(n) for n in targets}
        shapes = {n: self.shapes[n] for n in targets if n in self.shapes}
        given = {**sliced, **self._sizes_of(steps)}
        unit = JointPlan(steps, {n: operands[n] for n in operands if n in used}, kept, given, self.named,
                    layouts, within, self.settings, shapes)  # fmt: skip
        return unit.results()

    def _elsewhere(self, steps: Sequence[Any], name: str) -> bool:
        return any(a.tensor == name for s in self.steps if all(s is not o for o in steps) for a in accesses_in([s]))

    def _sizes_of(self, steps: Sequence[Any]) -> dict[str, int]:
        """Of the sizes that are said those of these steps."""
        from spfgen.cluster.separability import within

        names = {n for s in steps for n in within(s)} | {i for s in steps for i in _bound(s)}
        tensors = {a.tensor for a in accesses_in(steps)}
        return {n: v for n, v in self.sizes.items() if n in names or n.partition(".")[0] in tensors}


def _bound(step: Any) -> Iterator[str]:
    """Indices that loops, reductions and views bind."""
    for node in walk(step):
        for name in ("indices", "old", "new"):
            bound = getattr(node, name, ())
            yield from (bound,) if isinstance(bound, str) else (n for n in bound if isinstance(n, str))
