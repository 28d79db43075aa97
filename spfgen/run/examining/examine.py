"""`spfgen check`: what a person should know of the layouts and kernels of a file before trusting data to them.

Facts that contradict, coordinates that are stored twice, whether tensors can be packed, names that nothing uses; then
random data: what the C computes is compared with the dense meaning, in a program with sanitizers where there are any.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import numpy as np

from spfgen import api
from spfgen.api import Spec
from spfgen.cir.lower.layout import field_name, final_structs, finished
from spfgen.errors import CheckFailed, DataError, SpfgenError, ToolError, Unsupported
from spfgen.facts.formula import Bin, Expr, Var, calls, evaluate, variables
from spfgen.facts.prove import Answer, smaller
from spfgen.ir import rewrite, walk
from spfgen.kernel import Kernel
from spfgen.kernel_spec import KernelSpec
from spfgen.lang.expressions import counted
from spfgen.lang.nodes import Access, LayoutAlias, Range, Statement
from spfgen.lang.spec import SOLVED, builtins_binding
from spfgen.layout.nodes import Layout
from spfgen.layout.pack import key_orders, pack
from spfgen.layout.proofs import as_output, one_coordinate, places_inside, stored_once
from spfgen.layout.satisfy import contradicting, excluded, fitting_sizes, with_entries
from spfgen.layout.validate import violation
from spfgen.plan.nodes import Scan
from spfgen.plan.verify.claims import POINTS, claims
from spfgen.progress import Step, task
from spfgen.run.assembly import is_pending
from spfgen.run.calls.call import PLACE, RANGE, Bound
from spfgen.run.calls.operands import random_operand
from spfgen.run.coordinates import Coordinates
from spfgen.run.drawings.example import packed_example
from spfgen.run.examining import sanitized
from spfgen.run.examining.examine_packing import PackingTrial, tried
from spfgen.run.examining.sanitized import ResultStruct
from spfgen.run.handles import LayoutHandle
from spfgen.run.job import passed, values_of
from spfgen.run.tensor import Array, Tensor, extents_of
from spfgen.run.tuners.compare import verdict
from spfgen.space.nodes import Program
from spfgen.space.nodes import Tensor as Declared

EXTENTS = ((6, 5, 7), (3, 3, 3), (1, 4, 2), (0, 3, 5), (9, 8, 4))
"""Of the samples: the extents of the dimensions in turn."""
DENSITY = 0.4
THREADS = 2
OPERANDS = ("T", "U")
"""What has the layout in the kernels that are made to try it; all else is dense."""
RANK = 2
"""Families are looked at as matrices."""
WIDTH = 100
FINE, NOTE, FAILED = "", "note", "FAILED"


@dataclass(frozen=True)
class Finding:
    topic: str
    text: str
    verdict: str = FINE
    exit_code: int = CheckFailed.exit_code
    """Of the command line, where it failed: what `generate` ends with, if it is compilation that failed."""


@dataclass
class Section:
    """What was found of one layout or kernel."""

    title: str
    findings: list[Finding] = field(default_factory=list)

    @property
    def failed(self) -> bool:
        return any(f.verdict == FAILED for f in self.findings)

    @property
    def exit_code(self) -> int:
        return next((f.exit_code for f in self.findings if f.verdict == FAILED), 0)

    def as_dict(self) -> dict[str, Any]:
        findings = [{"topic": f.topic, "text": f.text, "verdict": f.verdict or "fine"} for f in self.findings]
        return {"title": self.title, "findings": findings}

    def text(self) -> str:
        lines = [self.title]
        for finding in self.findings:
            wide = [part for line in finding.text.splitlines() for part in _wrapped(line)]
            first, *others = wide or [""]
            mark = f"{finding.verdict}: " if finding.verdict else ""
            lines.append(f"  {finding.topic:<12} {mark}{first}")
            lines += [f"  {'':<12} {line}" for line in others]
        return "\n".join(lines)


def _wrapped(line: str) -> list[str]:
    """Prose is wrapped; a line of a source text and the carets under it stay as they are."""
    return [line] if line.startswith("    ") else textwrap.wrap(line, WIDTH) or [""]


def examine(spec: Spec, seed: int) -> Iterator[Section]:
    """What is found of each layout and kernel of the spec, in their order."""
    with task("checking", len(spec.layouts) + len(spec.kernels)) as step:
        for number, name in enumerate(spec.layouts):
            findings = _layout(spec.layouts[name], seed)
            yield Section(f"layout {name}", list(_reported(findings, step, number, f"layout {name}")))
        for number, kernel in enumerate(spec.kernels.values(), start=len(spec.layouts)):
            findings = _kernel(kernel, seed)
            yield Section(f"kernel {kernel.name}", list(_reported(findings, step, number, f"kernel {kernel.name}")))


def _reported(findings: Iterator[Finding], step: Step, number: int, title: str) -> Iterator[Finding]:
    """The findings; each is said when it is there."""
    step(number, title)
    for finding in findings:
        step(number, f"{title}, {finding.topic} done")
        yield finding


# --- layouts -------------------------------------------------------------------------------------------


def _layout(handle: LayoutHandle, seed: int) -> Iterator[Finding]:
    missing = _missing_constants(handle)
    if missing:
        yield Finding("constants", f"not checked by itself: {missing} has no default", NOTE)
        return
    layout = handle.layout(RANK)
    possible, finding = _properties(layout)
    yield finding
    if not possible:
        return
    yield from _coordinates(layout)
    yield _packing(layout, seed)
    yield from _unused(handle, layout)
    for topic, statements, tensors in _own_kernels(layout):
        layouts: dict[str, Any] = {n: handle if n in OPERANDS else builtins_binding("numpy")[0] for n in tensors}
        try:
            kernel = api.compile(statements, name=topic, **layouts)
        except SpfgenError as error:
            yield Finding(topic, str(error), NOTE if isinstance(error, Unsupported) else FAILED)
        else:
            yield Finding(topic, *_random_data(kernel, seed))


def _missing_constants(handle: LayoutHandle) -> str:
    """The constants that a use must set."""
    declaration = handle.tree.find(handle.name)
    if isinstance(declaration, LayoutAlias):
        return ""
    return ", ".join(f"`{n}`" for n, default in declaration.constants if default is None and n != SOLVED)


def _properties(layout: Layout) -> tuple[bool, Finding]:
    """Whether all facts can hold of arrays that hold something."""
    try:
        example = packed_example(layout)
        if example.nse or not layout.indexes:
            return True, Finding("properties", "hold together" if layout.facts else "none are declared")
    except SpfgenError:
        pass
    for least, where in ((2, "where every size is at least 2"), (1, "where no array is empty")):
        wrong = contradicting(layout, least)
        if not wrong:
            break
        lines = "\n".join(f"- {p.text}" for p in wrong)
        if excluded(layout, wrong):
            return False, Finding(
                "properties", f"no arrays that hold something satisfy these together:\n{lines}", FAILED
            )
        finding = Finding(
            "properties", f"no small arrays were found that satisfy these together, {where}:\n{lines}", NOTE
        )
    else:
        return True, finding
    return True, finding if least < 2 else Finding("properties", "hold together")


def _coordinates(layout: Layout) -> Iterator[Finding]:
    once = stored_once(layout)
    if once.proved:
        yield Finding("coordinates", "each is stored at most once (proved)")
    else:
        yield Finding("coordinates", f"one may be stored twice; its values are then added up{_because(once)}", NOTE)
    for value in layout.values:
        if not (inside := places_inside(layout, value)).proved:
            text = f"a place of `{value.name}` may be out of range, which every access tests{_because(inside)}"
            yield Finding("places", text, NOTE)
        if not one_coordinate(layout, value).proved:
            yield Finding("places", f"an element of `{value.name}` may have several coordinates")
    doubt = as_output(layout)
    if doubt is not None:
        how = "only with a pattern that is computed" if _is_packable(layout) else "not possible"
        yield Finding("as a result", f"{how}: it is not proved that {doubt[0]}", NOTE)


def _because(answer: Answer) -> str:
    """A counterexample, where there is one."""
    small = smaller(answer)
    if not small.model:
        return " (not proved)"
    values = {**dict(small.model), **dict(small.values)}
    return "; for example:\n" + ", ".join(f"{n} = {v}" for n, v in values.items())


def _packing(layout: Layout, seed: int) -> Finding:
    try:
        key_orders(layout)
        trial = tried(layout, seed) if layout.rank else PackingTrial()
    except Unsupported as error:
        reason = error.message.removeprefix(f"layout `{layout.name}` cannot be packed: ")
        return Finding("pack", "\n".join([f"cannot be derived: {reason}", *error.notes]), NOTE)
    if trial.wrong:
        return Finding("pack", f"{trial.wrong} (a bug of spfgen, please report it)", FAILED)
    if trial.lost:
        text = f"derived from the relation for some data: {trial.packed} of {trial.count} random arrays were packed"
        return Finding(
            "pack", f"{text}; the others hold entries without a place, for example one of {trial.lost}", NOTE
        )
    return Finding(
        "pack",
        f"derived from the relation; {counted(trial.count, 'random array')} were packed and unpacked unchanged",
    )


def _unused(handle: LayoutHandle, layout: Layout) -> Iterator[Finding]:
    places = [p for v in layout.values for p in v.position]
    formulas = [layout.relation, *(p.formula for p in layout.facts), *(v.when for v in layout.values)]
    named = variables(*formulas)
    named |= variables(*places, *(e for a in layout.arrays for e in layout.extents(a)))
    declaration, _ = handle.tree.resolve(handle.use)
    words = [str(t) for t in declaration.tree.scan_values(lambda _: True)]
    unused = [f"size `{s}`" for s in layout.sizes if s not in named]
    unused += [f"constant `{c}`" for c, _ in layout.constants if words.count(c) < 2 and c != SOLVED]
    for index in layout.indexes:
        others = [p.formula for a in layout.indexes if a is not index for p in a.properties]
        used = [c for f in (layout.relation, *others, *(v.when for v in layout.values)) for c in calls(f)]
        if index.name not in {c.function for c in (*used, *(c for p in places for c in calls(p)))}:
            unused.append(f"index array `{index.name}`")
    if unused:
        yield Finding("unused", ", ".join(unused), NOTE)


def _own_kernels(layout: Layout) -> Iterator[tuple[str, str, str]]:
    """What is tried, in statements, and their tensors: reading every entry, looking for entries at given coordinates,
    and values of several reads, whose loops and searches must not get mixed up."""
    if not layout.rank:
        return
    indices = [f"i{k}" for k in range(layout.rank)]
    point, turned = ", ".join(indices), ", ".join(reversed(indices))
    yield "reading", f"R[{point}] = T[{point}]", "RT"
    yield "product", f"R[{point}] = T[{point}]*U[{point}]", "RTU"
    diagonal = ", ".join("i0" for _ in indices)
    others, row, column = (", ".join(indices[1:]), point, turned) if layout.rank > 1 else ("i1", "i1", "i1")
    yield (
        "reads",
        f"""
        R[i0] = T[{diagonal}]*sum({others}: T[{row}]) - sum({others}: T[{column}])
        S[i0] = sum({others}: T[{row}]*X[i1])/(1 + sum({others}: T[{row}]))
        Q[{point}] = T[{point}]/(1 + T[{turned}])
        """,
        "QRSTX",
    )


# --- kernels -------------------------------------------------------------------------------------------


def _kernel(spec: KernelSpec, seed: int) -> Iterator[Finding]:
    try:
        kernel = spec.compile()
    except SpfgenError as error:
        yield Finding("compiling", str(error), FAILED, error.exit_code)
        return
    yield Finding("compiling", _compiled(kernel))
    accesses = [a for s in spec.kernel.statements for a in walk(s) if isinstance(a, Access)]
    used = {n for a in accesses for e in a.subscripts for n in variables(e)} | {a.tensor for a in accesses}
    used |= {n for s in spec.kernel.statements if s.where is not None for n in variables(s.where)}
    used |= {n for t in spec.kernel.tensors for e in t.extents or () for n in variables(e)}
    unused = [f"size `{n}`" for n in spec.kernel.sizes if n not in used]
    if unused:
        yield Finding("unused", ", ".join(unused), NOTE)
    yield Finding("random data", *_random_data(kernel, seed))


def _compiled(kernel: Kernel) -> str:
    """Whether the plan was compared with what was asked for, and whether it is parallel."""
    generated = kernel.generated
    claims_of_plans = [claims(p, generated.compared).proved for p in generated.plans]
    parallel = [n.dim for plan in generated.plans for n in walk(plan) if isinstance(n, Scan) and n.parallel]
    loops = f"parallel over {', '.join(dict.fromkeys(parallel))}" if parallel else "serial"
    if all(POINTS in proved for proved in claims_of_plans):
        return f"the loops visit exactly the points asked for (proved); {loops}"
    return f"that the loops visit the points asked for is tested, not proved (see `explain`); {loops}"


# --- random data ---------------------------------------------------------------------------------------


def _one_by_one(
    kernel: Kernel, bounds: list[Bound], before: list[dict[str, dict[str, Array]]]
) -> tuple[str, list[Bound], list[dict[str, dict[str, Array]]], str]:
    """What is wrong, and the samples that the kernel takes; why it does not take the others."""
    taken: list[Bound] = []
    values: list[dict[str, dict[str, Array]]] = []
    refused = ""
    for bound, values_before in zip(bounds, before, strict=True):
        try:
            problem = _in_a_program(kernel, [bound], [values_before])
        except DataError as error:
            refused = error.message
            continue
        taken.append(bound)
        values.append(values_before)
        if problem:
            return problem, taken, values, refused
    return "", taken, values, refused


def _within(node: Any) -> Any:
    return replace(node, within=True) if isinstance(node, Statement) else None


def _random_data(kernel: Kernel, seed: int) -> tuple[str, str]:
    """What random data show, and whether that is bad. Patterns of results are random, too."""
    if kernel.program.doubts:
        within = tuple(rewrite(_within, s) for s in kernel.parsed.statements)
        kernel = Kernel(replace(kernel.parsed, statements=within), kernel.layouts, kernel.threads, kernel.validate)
    bounds: list[Bound] = []
    refused = ""
    for number, extents in enumerate(EXTENTS):
        try:
            bounds.append(_bound(kernel, extents, seed + number))
        except DataError as error:
            refused = error.message
    if not bounds:
        return f"no random data satisfy it: {refused}", NOTE
    bounds += [zero for bound in bounds[:2] for zero in _divided_by_zero(kernel, bound)]
    before = [{n: values_of(t) for n, t in b.tensors.items()} for b in bounds]
    safe = kernel.generated.refused is None and sanitized.available()
    if safe:
        try:
            problem = _in_a_program(kernel, bounds, before)
        except DataError:
            problem, bounds, before, refused = _one_by_one(kernel, bounds, before)
            if not bounds:
                return f"no random data satisfy it: {refused}", NOTE
        if problem:
            return problem, FAILED
    for bound, values in zip(bounds, before, strict=True):
        bound()
        problem = _differs(kernel, bound, bound.tensors, values)
        if problem:
            return problem, FAILED
    where = "no address or undefined-behaviour sanitizer complains" if safe else "the C compiler has no sanitizers"
    return f"{counted(len(bounds), 'sample')} equal to the dense result; {where}", FINE if safe else NOTE


def _bound(kernel: Kernel, extents: tuple[int, ...], seed: int) -> Bound:
    """Random operands in place. Raises DataError when the layouts cannot hold any of these extents."""
    program = kernel.generated.program
    tensors = [t for t in program.tensors if t.is_input or _needs_pattern(program, t)]
    packable = {t.name: _is_packable(t.layout) for t in tensors}
    dims = list(dict.fromkeys(d for t in program.tensors for d in t.extents))
    most = 3 if not all(packable.values()) else max(extents)  # the prover draws small arrays only
    sizes = {d: min(most, extents[k % len(extents)]) for k, d in enumerate(dims) if d not in program.sizes.fixed}
    sizes |= program.sizes.fixed
    sizes |= {n: 1 + (seed + k) % 3 for k, n in enumerate(program.parameters) if n not in sizes}
    sizes = _with_derived(program, sizes)
    places = dict(_gathered(kernel, sizes))
    if 0 in places.values():  # what is empty has no places
        sizes = _with_derived(program, {n: v or 1 for n, v in sizes.items()})
        places = dict(_gathered(kernel, sizes))
    operands: dict[str, object] = {}
    for number, tensor in enumerate(tensors):
        shape = tuple(sizes[d] for d in tensor.extents)
        if packable[tensor.name]:
            source = f"random:{DENSITY}" if tensor.layout.indexes else "random"
            entries = random_operand(tensor, shape, source, seed + 17 * number)
            if tensor.name in places:
                entries = _as_places(entries, places[tensor.name])
            if tensor.is_output and isinstance(entries, Coordinates):  # written in place, so in its own arrays
                operands[tensor.name] = _packed(tensor, entries)
            else:
                operands[tensor.name] = entries
        else:
            operands[tensor.name] = _drawn(tensor, shape, seed + number)
    given = {n: v for n, v in sizes.items() if n not in program.sizes.fixed}
    bound = kernel.bind(sizes=given, **operands)
    # What the C declares, where a call from Python would take the type of a result from the operands, and that of a
    # pattern from what it is.
    declared = [t for t in program.tensors if not t.is_made and (t.is_output or t.layout.is_pattern)]
    typed = {t.name: _typed(t, bound.tensors[t.name]) for t in declared}
    return kernel.bind(sizes=given, **{**operands, **typed})


def _with_derived(program: Program, sizes: Mapping[str, int]) -> dict[str, int]:
    """Sizes in which extents are what views make them of others, as far as one pass over each makes them so."""
    all_sizes = dict(sizes)

    def value(expr: Expr) -> int | None:
        try:
            return int(evaluate(expr, all_sizes.__getitem__, lambda f, _: all_sizes[f]))
        except (KeyError, ZeroDivisionError):
            return None

    for left, right, is_checked in program.sizes.derived * len(program.sizes.derived):
        for one, other in ((left, right), (right, left)):
            if is_checked and isinstance(one, Var) and one.name in all_sizes and one.name not in program.sizes.fixed:
                number = value(other)
                all_sizes[one.name] = all_sizes[one.name] if number is None else max(0, number)
                break
    return all_sizes


def _gathered(kernel: Kernel, sizes: Mapping[str, int]) -> Iterator[tuple[str, int]]:
    """The tensors whose values are subscripts, with the least extent in which they have to lie."""
    extents = {t.name: [sizes.get(e, 0) for e in t.extents] for t in kernel.program.tensors}
    least: dict[str, int] = {}
    for access in (n for s in kernel.parsed.statements for n in walk(s) if isinstance(n, Access)):
        for subscript, extent in zip(access.subscripts, extents.get(access.tensor, ()), strict=False):
            if not isinstance(subscript, Expr | Range):
                extent = extent if isinstance(subscript, Access) else extent // 2  # room for what is added
                for inner in (n for n in walk(subscript) if isinstance(n, Access)):
                    least[inner.tensor] = min(extent, least.get(inner.tensor, extent))
    yield from least.items()


def _as_places(entries: Coordinates | Array, extent: int) -> Coordinates | Array:
    """The values as places of a dimension; with none there is, they are left as they are."""
    values = entries.values if isinstance(entries, Coordinates) else entries
    if not extent or values.dtype.kind not in "iu":
        return entries
    inside = (values % extent).astype(values.dtype)
    return replace(entries, values=inside) if isinstance(entries, Coordinates) else inside


def _divided_by_zero(kernel: Kernel, bound: Bound) -> Iterator[Bound]:
    """The same with zeros by which places are divided: what is stored there has no place."""
    for tensor in (t for t in bound.program.tensors if t.is_input):
        for other in _with_zeros(bound.tensors[tensor.name]):
            copies = {
                n: replace(t, arrays={a: v.copy() for a, v in t.arrays.items()}) for n, t in bound.tensors.items()
            }
            yield kernel.bind(sizes=passed(bound), **{**copies, tensor.name: other})


def _with_zeros(tensor: Tensor) -> Iterator[Tensor]:
    """The tensor with a size that is 0, and with every second entry so, where that is what the layout allows."""
    layout = tensor.layout
    places = [e for v in layout.values for e in (*v.position, *v.extents)]
    divisors = [n.right for e in places for n in walk(e) if isinstance(n, Bin) and n.op in ("/", "%")]
    sizes = variables(*divisors) & set(layout.sizes)
    entries = {call.function for d in divisors for call in calls(d)}
    for name in sorted(sizes | entries):
        zero_sizes = {**tensor.sizes, name: 0} if name in sizes else tensor.sizes
        arrays = {a: np.resize(array, extents_of(layout, a, zero_sizes)) for a, array in tensor.arrays.items()}
        if name in entries:
            arrays[name].reshape(-1)[::2] = 0
        if violation(layout, zero_sizes, {a.name: arrays[a.name] for a in layout.indexes}) is None:
            yield Tensor(layout, zero_sizes, arrays)


def _typed(declared: Declared, tensor: Tensor) -> Tensor:
    values = {v.name: tensor.arrays[v.name].astype(declared.value_type) for v in tensor.layout.values}
    return replace(tensor, arrays={**tensor.arrays, **values})


def _packed(declared: Declared, entries: Coordinates) -> Tensor:
    layout = declared.layout
    arrays = pack(layout, entries.shape, entries.coords, entries.values, dict(declared.index_types))
    return Tensor(layout, arrays.sizes, arrays.arrays)


def _needs_pattern(program: Program, tensor: Declared) -> bool:
    """Whether an output must be given, because nothing says its index arrays."""
    indexes = {a.name for a in tensor.layout.indexes}
    shared = {array for array, function in tensor.arrays if function.partition(".")[0] != tensor.name}
    return bool(indexes - shared)


def _is_packable(layout: Layout) -> bool:
    try:
        key_orders(layout)
    except Unsupported:
        return False
    return True


def _drawn(declared: Declared, shape: tuple[int, ...], seed: int) -> Tensor:
    """Arrays found by the prover, for a layout that cannot be packed."""
    layout = declared.layout
    extents = dict(zip(layout.parameters, shape, strict=True))
    for wanted in fitting_sizes(layout, extents):
        drawn = with_entries(layout, wanted, seed)
        if drawn is not None:
            random = np.random.default_rng(seed)
            arrays: dict[str, Array] = {n: a.astype(dict(declared.index_types)[n]) for n, a in drawn.items()}
            for value in layout.values:
                numbers = random.integers(1, 9, prod(extents_of(layout, value.name, wanted)))
                arrays[value.name] = numbers.reshape(extents_of(layout, value.name, wanted)).astype(declared.value_type)
            return Tensor(layout, wanted, arrays)
    raise DataError(f"no arrays of layout `{layout.name}` were found for these extents")


def _in_a_program(kernel: Kernel, bounds: list[Bound], before: list[dict[str, dict[str, Array]]]) -> str:
    """What is wrong with the C when it runs under sanitizers; empty when nothing is."""
    program = kernel.generated.program
    given = [([*passed(b).values()], [_words(t, b.tensors[t.name]) for t in program.tensors]) for b in bounds]
    try:
        whole, made_tensors = kernel.generated.whole, _made(program)
        results, report = sanitized.called(whole, program.name, given, THREADS, made_tensors, program.levels)
    except ToolError as error:
        return error.message
    if report in (f"status {RANGE}", f"status {PLACE}"):
        raise DataError("subscripts that are values lie outside, or what is computed has no place")
    if report:
        return f"a sanitizer complains of the C (a bug of spfgen, please report it):\n{report}"
    for bound, values, arrays in zip(bounds, before, results, strict=True):
        after = {
            t.name: _after(t, bound.tensors[t.name], arrays_of_tensor)
            for t, arrays_of_tensor in zip(program.tensors, arrays, strict=True)
        }
        problem = _differs(kernel, bound, after, values)
        if problem:
            return problem
    return ""


def _made(program: Program) -> dict[int, ResultStruct]:
    """The tensors that the kernel makes."""
    named, made_tensors = final_structs(program), dict[int, ResultStruct]()
    for number, tensor in enumerate(program.tensors):
        if tensor.is_made:
            final = finished(tensor)
            kinds = dict(final.index_types) | {v.name: final.value_type for v in final.layout.values}
            sizes = (*final.layout.parameters, *final.layout.sizes)
            arrays = {field_name(a): np.dtype(kinds[a]) for a in final.layout.arrays}
            made_tensors[number] = ResultStruct(named[tensor.name].name, tuple(map(field_name, sizes)), arrays)
    return made_tensors


def _after(declared: Declared, tensor: Tensor, arrays_of_program: list[Array]) -> Tensor:
    """A tensor with the arrays of the program."""
    if not is_pending(tensor):
        return replace(tensor, arrays=dict(zip(tensor.layout.arrays, arrays_of_program, strict=True)))
    layout = finished(declared).layout
    sizes = dict(zip((*layout.parameters, *layout.sizes), arrays_of_program[0].tolist(), strict=True))
    arrays = {}
    for name, elements in zip(layout.arrays, arrays_of_program[1:], strict=True):
        shape = extents_of(layout, name, sizes)
        arrays[name] = elements[: prod(shape)].reshape(shape)
    return Tensor(layout, sizes, arrays)


def _words(declared: Declared, tensor: Tensor) -> tuple[list[int], list[Array]]:
    layout = tensor.layout
    if is_pending(tensor):  # which the program makes: extents of 0 are not given by 0
        final = finished(declared).layout
        extents = [tensor.sizes[n] or -1 for n in layout.parameters]
        return [*extents, *[0] * (len(final.sizes) + len(final.arrays))], []
    sizes = [tensor.sizes[n] for n in (*layout.parameters, *layout.sizes)]
    return sizes, [tensor.arrays[a] for a in layout.arrays]


def _differs(
    kernel: Kernel, bound: Bound, after: Mapping[str, Tensor], before: Mapping[str, Mapping[str, Array]]
) -> str:
    """How the results differ from the dense meaning of what was there before; empty when they do not."""
    outputs = {t.name for t in bound.program.tensors if t.is_output}
    old_values = {n: v for n, v in before.items() if n in outputs}
    compared = verdict(kernel, after, passed(bound), old_values)
    if not compared.is_compared:
        raise Unsupported(f"the results of `{kernel.name}` were {compared.text}")
    if compared.failure is None:
        return ""
    shapes = ", ".join(f"{n} {'x'.join(map(str, t.shape)) or 'a number'}" for n, t in after.items())
    return f"{compared.failure.message} (a bug of spfgen, please report it); {shapes}"
