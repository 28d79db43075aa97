"""`spfgen tune --layouts`: operands stored anew in the layout in which the kernel is fastest, on the user's data.

The candidates are all layouts that are known and that hold the entries (layout_candidates.py). Each is converted to,
compiled and called in turns with the best so far; then constants near those of the fastest are tried. What a vendor's
library does unseen in its inspector is said here: the layout, its memory, and what the conversion takes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from spfgen.errors import CheckFailed, SpfgenError, Unsupported, UsageError, a_type, our_bugs
from spfgen.folder import human_bytes
from spfgen.kernel import Kernel, made
from spfgen.kernel_spec import KernelSpec
from spfgen.lang import nodes as lang
from spfgen.lang.expressions import counted, did_you_mean
from spfgen.lang.fills import fill_text
from spfgen.lang.spec import SOLVED, SpecTree
from spfgen.layout.measure import measure
from spfgen.layout.nodes import Layout
from spfgen.layout.points import row_ranks
from spfgen.progress import Step, task
from spfgen.run.calls.call import Bound
from spfgen.run.calls.entries import own_entries, pack_object
from spfgen.run.calls.evaluate import prepared
from spfgen.run.calls.operands import operands as operands_of
from spfgen.run.calls.requests import Job
from spfgen.run.coordinates import Coordinates
from spfgen.run.drawings.inspect import distinct
from spfgen.run.handles import LayoutHandle, handle_of
from spfgen.run.job import check_job, seconds_text
from spfgen.run.tensor import Array, Tensor
from spfgen.run.threads import checked_threads, threads_by_default
from spfgen.run.tuners.apart import FIRST_CALL_AT_LEAST, HOPELESS_FIRST, Begun, Overrun, apart
from spfgen.run.tuners.compare import compare, flat, stored
from spfgen.run.tuners.interleaved import BETTER, Ready, measured, passed_over, ready
from spfgen.run.tuners.layout_candidates import Family, LayoutCandidate, Setting, candidates, families, plain_bytes
from spfgen.space.assembled import without_shared

MOST_MEMORY = 4.0
"""So many times the memory of the layout that the operand is in now."""
LONGEST = 60.0
"""Seconds of a search of which nothing is said."""
LONG = 0.5
"""Seconds of a conversion that is measured once."""
CLOSE = 1.5
"""Constants near those of layouts that take so many times as long as the best one, at most, are tried too."""


@dataclass(frozen=True)
class LayoutTrial:
    """An operand in a layout: its memory, the seconds of the kernel's fastest call and of the conversion; None where it
    was not measured, and `verdict` is why."""

    operand: str
    layout: str
    bytes: int | None
    seconds: float | None
    conversion: float | None
    verdict: str = ""


@dataclass(frozen=True, repr=False)
class LayoutTuning:
    """What was found. `layouts` has for each operand the layout in which the kernel is fastest, as a spec file has it;
    `operands` the tensors in these layouts, and `kernel` is compiled for them: `kernel(**operands, x=x)`.

    `before` and `after` are seconds of a call; `trials` is all that was looked at, in its order; `complete` says that
    nothing was left out for want of time, `interrupted` that the user stopped the search.
    """

    kernel: Kernel
    layouts: Mapping[str, str]
    operands: Mapping[str, Tensor]
    before: float
    after: float
    threads: int
    trials: tuple[LayoutTrial, ...]
    complete: bool
    interrupted: bool = False

    @property
    def gain(self) -> float:
        return self.before / self.after

    @property
    def conversion(self) -> float:
        """Seconds that it takes to convert the operands; 0 for those that stay as they are."""
        chosen = {(t.operand, t.layout): t.conversion or 0.0 for t in self.trials}
        return sum(chosen[item] for item in self.layouts.items())

    @property
    def repaid(self) -> float | None:
        """After so many calls the conversion has paid for itself; None where nothing is gained."""
        return self.conversion / (self.before - self.after) if self.after < self.before else None

    def as_dict(self) -> dict[str, Any]:
        return {
            "kernel": self.kernel.name,
            "layouts": dict(self.layouts),
            "seconds": {"before": self.before, "after": self.after, "conversion": self.conversion},
            "gain": self.gain,
            "repaid_after_calls": self.repaid,
            "threads": self.threads,
            "complete": self.complete,
            "trials": [vars(t) for t in self.trials],
        }

    def text(self) -> str:
        seen = sorted((t for t in self.trials if t.seconds is not None), key=lambda t: (t.operand, t.seconds or 0.0))
        refused = len(self.trials) - len(seen)
        rows = [_row(t) for t in seen]
        widths = [max(len(r[k]) for r in rows) for k in range(4)]
        lines = [
            f"{self.kernel.name}, {counted(self.threads, 'thread')}: {counted(len(seen), 'layout')} measured "
            f"(fastest calls), {refused} ruled out"
        ]
        for operand, name, *numbers, remark in rows:
            cells = "  ".join(f"{text:>{width}}" for text, width in zip(numbers, widths[2:], strict=True))
            lines.append(f"  {operand:<{widths[0]}}  {name:<{widths[1]}}  {cells}  {remark}".rstrip())
        if self.interrupted:
            lines.append("  interrupted: this is the best so far")
        elif not self.complete:
            lines.append("  the time limit was reached, --seconds sets it: this is the best so far")
        if self.gain <= 1:
            return "\n".join(
                [*lines, f"  nothing is faster than what is there: it would take less than {BETTER:.0%} of the time"]
            )
        times = f"{seconds_text(self.before)} -> {seconds_text(self.after)}, {self.gain:.2f} times faster"
        calls = f"converted in {seconds_text(self.conversion)}, which {self.repaid:.0f} calls repay"
        lines.append(f"  fastest ({times}; {calls}):")
        lines += [f"    tensor {operand} : {layout}" for operand, layout in self.layouts.items()]
        return "\n".join(lines)

    def __repr__(self) -> str:
        chosen = ", ".join(f"{operand} : {layout}" for operand, layout in self.layouts.items())
        return f"<spfgen.LayoutTuning {chosen}; {self.gain:.2f} times faster>"


def _row(trial: LayoutTrial) -> tuple[str, ...]:
    size = human_bytes(trial.bytes) if trial.bytes is not None else ""
    remark = f"converted in {seconds_text(trial.conversion)}" if trial.conversion is not None else "as it is"
    return trial.operand, trial.layout, seconds_text(trial.seconds or 0.0), size, remark


@dataclass(frozen=True)
class _Stored:
    """Operands in some layouts and the kernel for them, ready to be called; `parsed` is the kernel as a person writes
    it."""

    parsed: lang.Kernel
    kernel: Kernel
    tensors: Mapping[str, Tensor]
    ready: Ready


def tune_layouts(
    what: str | Kernel | KernelSpec,
    names: Sequence[str],
    operands: Mapping[str, object],
    sizes: Mapping[str, int] | None,
    threads: int | None,
    seconds: float,
    chosen: Sequence[LayoutHandle | Layout | str] | None = None,
    say: Callable[[str], None] = lambda _: None,
    expected_calls: int | None = None,
) -> LayoutTuning:
    """See spfgen.tune_layouts. `say` is told of each layout that is better than those before; the search takes no
    longer than `expected_calls` do as it is."""
    start = time.monotonic()
    kernel, bare, given, tree = _started(what, operands, checked_threads(threads))
    _check_names(kernel, bare, names)
    first = _first(kernel, bare, given, sizes)
    if expected_calls is not None:
        seconds = min(seconds, expected_calls * first.ready.fastest())
    handles = None if chosen is None else [handle_of(c) for c in chosen]
    interrupted = False
    with task("tuning", min(seconds, LONGEST)) as step:
        search = _Search(first, sizes, start + seconds, say, step)
        try:
            for name in names:
                search.look(name, tree, handles)
        except KeyboardInterrupt:  # what was found is kept
            if not search.trials:
                raise
            interrupted = True
    best = search.best
    whole, after = measured(first.ready, best.ready) if best is not first else (1.0, first.ready.fastest())
    if whole > BETTER:
        best, whole = first, 1.0
    return LayoutTuning(
        best.kernel,
        {name: use_text(declared(best.parsed, name).use) for name in names},
        {name: best.tensors[name] for name in names},
        after / whole,
        after,
        kernel.threads or threads_by_default(),
        tuple(search.trials),
        search.complete and not interrupted,
        interrupted,
    )


def optimized(
    kernel: Kernel,
    names: Sequence[str],
    operands: Mapping[str, object],
    sizes: Mapping[str, int] | None,
    expected_calls: int | None,
) -> Bound:
    """See Kernel.optimize."""
    if expected_calls is not None and (type(expected_calls) is not int or expected_calls < 0):
        raise UsageError(f"expected a number of calls, but expected_calls is {expected_calls!r}")
    given = {name: value for name, value in operands.items() if value is not None}
    tuning = tune_layouts(kernel, names, given, sizes, None, LONGEST, expected_calls=expected_calls)
    return tuning.kernel.bind(sizes=sizes, **{**given, **tuning.operands})


def tune_layouts_of(
    spec: KernelSpec, names: Sequence[str], job: Job, threads: int | None, seconds: float, say: Callable[[str], None]
) -> LayoutTuning:
    """The same on the data of a job. Raises DataError, UsageError for what is wrong with the call or the data."""
    program = spec.compile(threads, schedule="").generated.program
    check_job(program, job)
    return tune_layouts(spec, names, operands_of(program, job), job.sizes, threads, seconds, None, say)


def _started(
    what: str | Kernel | KernelSpec, operands: Mapping[str, object], threads: int | None
) -> tuple[Kernel, lang.Kernel, Mapping[str, object], SpecTree]:
    """The kernel as it is now, without what was found for these layouts, its operands, and where more layouts are
    declared. Raises UsageError for a kernel with a schedule: that names positions of its layouts."""
    tree = SpecTree()
    if isinstance(what, KernelSpec):
        kernel, written, tree = what.compile(threads), what.kernel, what.tree
    elif isinstance(what, Kernel):
        kernel = what if threads is None else made(what.parsed, what.layouts, threads, what.validate)
        written = what.parsed
    elif isinstance(what, str):
        kernel, operands, _ = prepared(what, operands, threads, "once")
        written = kernel.parsed
    else:
        raise UsageError(f"expected a kernel, or statements as a text, but this is {a_type(what)}")
    # A result with the pattern of an operand is assembled, so that the operand may be stored otherwise.
    written = without_shared(replace(written, tensors=kernel.parsed.tensors))
    bare = replace(written, order=(), finds=(), directives=())
    if bare != written and kernel.tuned is None:
        message = f"expected a kernel without a schedule, but `{kernel.name}` has one, for the layouts that it has now"
        raise UsageError(message, None, ("leave it out, and write one for the layouts that are found",))
    return kernel, bare, operands, tree


def _check_names(kernel: Kernel, bare: lang.Kernel, names: Sequence[object]) -> None:
    """Each is an operand whose layout may be another. Raises UsageError."""
    program = kernel.program
    known = [t.name for t in program.tensors if not t.is_output and t.layout.rank]
    if not names:
        raise UsageError(
            "expected the names of operands whose layout may change, but there are none", None, _named(known)
        )
    for name in names:
        if not isinstance(name, str):
            message = f"expected names of operands, but this is {a_type(name)}"
            raise UsageError(message, None, _named(known))
        if any(t.name == name and t.is_output for t in program.tensors):
            message = f"expected an operand of `{kernel.name}`, but `{name}` is a result"
            hint = "its layout is part of what is computed: compare kernels that declare it in other layouts"
            raise UsageError(message, None, (hint,))
        if name not in known:
            message = f"expected an operand of `{kernel.name}` with a layout, but `{name}` is not one"
            raise UsageError(message, None, (did_you_mean(name, known) or _named(known)[0],))
        for other in bare.tensors:
            if other.shares is not None and other.shares.tensor == name:
                message = (
                    f"expected an operand whose layout is its own, but `{other.name}` shares the pattern of `{name}`"
                )
                raise UsageError(message)
    if len(set(names)) < len(names):
        raise UsageError("expected each operand once, but one is named twice")


def _named(known: Sequence[str]) -> tuple[str, ...]:
    return (f"its operands: {', '.join(known) or 'none that has a layout'}",)


def _first(
    kernel: Kernel, bare: lang.Kernel, operands: Mapping[str, object], sizes: Mapping[str, int] | None
) -> _Stored:
    """The operands as they are. What the kernel writes is a copy: nothing of the caller's is overwritten."""
    outputs = {t.name for t in kernel.program.tensors if t.is_output}
    given = {n: deepcopy(v) if n in outputs else v for n, v in operands.items()}
    bound = kernel.bind(sizes=sizes, **given)
    return _Stored(bare, kernel, dict(bound.tensors), ready(bound))


def declared(kernel: lang.Kernel, name: str) -> lang.TensorDecl:
    return next(t for t in kernel.tensors if t.name == name)


def use_text(use: lang.LayoutUse) -> str:
    """As a spec file has it: `bcsr<float>(R=2, C=2)`."""
    kinds = [t for t in (use.value_type, use.index_type) if t is not None]
    kinds += [f"{array} : {kind}" for array, kind in use.array_types]
    settings = [f"{name}={value}" for name, value in use.settings if name != SOLVED]
    types = f"<{', '.join(kinds)}>" if kinds else ""
    fill = "" if use.fill is None else f" fill {fill_text(use.fill)}"
    return f"{use.name}{types}({', '.join(settings)}){fill}" if settings else f"{use.name}{types}{fill}"


class _Search:
    """Looks for the layouts of one operand after the other; `best` is what is fastest so far."""

    def __init__(
        self, first: _Stored, sizes: Mapping[str, int] | None, end: float, say: Callable[[str], None], step: Step
    ) -> None:
        self.best, self.sizes, self.end, self.say, self.step = first, sizes, end, say, step
        self.start = time.monotonic()
        self.trials: list[LayoutTrial] = []
        self.complete = True
        self.seconds = 0.0
        first.ready.call()
        self.expected = {n: deepcopy(stored(first.ready.bound.tensors[n])) for n in first.ready.before}
        self.finite = all(
            bool(np.isfinite(t.arrays[v.name]).all()) for t in first.tensors.values() for v in t.layout.values
        )

    def look(self, name: str, tree: SpecTree, chosen: Sequence[LayoutHandle] | None) -> None:
        """Try all layouts for this operand, or the chosen ones; then constants near those of the fastest."""
        source, use = self.best.tensors[name], declared(self.best.parsed, name).use
        size = _bytes(source)
        self.seconds = self.best.ready.fastest()
        self.trials.append(LayoutTrial(name, use_text(use), size, self.seconds, None))
        if time.monotonic() > self.end:
            self.complete = False
            return
        entries = distinct(own_entries(source))
        known = families(tree, entries) if chosen is None else [Family(h) for h in chosen]
        possible, refused = candidates(known, entries, MOST_MEMORY * size / plain_bytes(entries))
        self.trials += [LayoutTrial(name, layout, None, None, None, why) for layout, why in refused.items()]
        times: dict[tuple[Family, Setting], float | None] = {}
        for candidate in possible:
            times[candidate.family, candidate.setting] = self.attempt(name, source, entries, candidate)
        while (step := _next(times)) is not None:
            times[step.family, step.setting] = self.attempt(name, source, entries, step)

    def attempt(self, name: str, source: Tensor, entries: Coordinates, candidate: LayoutCandidate) -> float | None:
        """The seconds of the fastest call in this layout, or None where it is not possible. It may become the best."""
        left = self.end - time.monotonic()
        if left <= 0 or candidate.seconds > left:
            self.complete = False
            return None
        text = candidate.text
        self.step(time.monotonic() - self.start, f"tensor {name} : {text}")
        try:
            handle = _typed(candidate.handle, declared(self.best.parsed, name).use)
            text = use_text(handle.use)
            with our_bugs(f"trying `{text}`", tuple):
                converted = self.stored_as(name, source, entries, handle)
            if converted is None:
                return None
            other, conversion = converted
            longest = FIRST_CALL_AT_LEAST + HOPELESS_FIRST * self.seconds
            left = max(0.0, self.end - time.monotonic())
            ratio, seconds = apart(partial(self.beside, other, text), min(longest, left), left)
        except CheckFailed:
            raise
        except Overrun:
            self.complete = self.complete and time.monotonic() < self.end
            self.trials.append(
                LayoutTrial(name, text, None, None, None, "ended: a call takes too long, or the time is up")
            )
            return None
        except (SpfgenError, MemoryError) as error:
            why = error.message if isinstance(error, SpfgenError) else "it does not fit in memory"
            passed_over(f"tensor {name} : {text}", error)
            self.trials.append(LayoutTrial(name, text, None, None, None, why))
            return None
        verdict = f"{1 / ratio:.2f} times the best so far" if ratio <= BETTER else ""
        self.trials.append(LayoutTrial(name, text, _bytes(other.tensors[name]), seconds, conversion, verdict))
        if verdict:
            self.best, self.seconds = other, seconds
            self.say(f"{1 / ratio:.2f} times faster: tensor {name} : {text}")
        return seconds

    def beside(self, other: _Stored, text: str, begun: Begun) -> tuple[float, float]:
        """The time over that of the best one, and the seconds, in a layout that changes nothing else."""
        other.ready.call()
        begun()
        self.check(other, text)
        return measured(self.best.ready, other.ready)

    def stored_as(
        self, name: str, source: Tensor, entries: Coordinates, handle: LayoutHandle
    ) -> tuple[_Stored, float] | None:
        """The kernel for the operand in this layout, and the seconds of the conversion; None where that is what there
        is. Raises SpfgenError."""
        memory = measure(handle.layout(len(entries.shape)), entries.shape, entries.coords, entries.values).bytes
        if memory > MOST_MEMORY * _bytes(source):
            raise Unsupported(f"it takes {memory / _bytes(source):.3g} times the memory that it takes now")
        tensor, conversion = _converted(handle, source)
        if _is_same(tensor, source):
            return None
        return self.with_operand(name, handle.use, tensor), conversion

    def with_operand(self, name: str, use: lang.LayoutUse, tensor: Tensor) -> _Stored:
        """The best one with this operand stored otherwise."""
        now = self.best
        tensors = {**now.tensors, name: tensor}
        parsed = replace(
            now.parsed, tensors=tuple(replace(t, use=use) if t.name == name else t for t in now.parsed.tensors)
        )
        layouts = {**now.kernel.layouts, name: tensor.layout}
        kernel = made(parsed, layouts, now.kernel.threads, now.kernel.validate, kept=True)
        return _Stored(parsed, kernel, tensors, Ready(kernel.bind(sizes=self.sizes, **tensors), now.ready.before))

    def check(self, other: _Stored, text: str) -> None:
        """The layout changes nothing but the time. Raises CheckFailed; Unsupported where infinities or what is no
        number meet zeros that the layout stores."""
        for name, expected in self.expected.items():
            try:
                compare(name, *_side_by_side(stored(other.ready.bound.tensors[name]), expected))
            except CheckFailed as error:
                if not self.finite:
                    raise Unsupported("it stores zeros, and there are numbers that are not finite") from None
                message = f"expected the same results with `{text}`, but {error.message}"
                raise CheckFailed(message, None, error.notes) from None


def _next(times: Mapping[tuple[Family, Setting], float | None]) -> LayoutCandidate | None:
    """Constants that were not tried, near those of a layout that is fast."""
    seen = sorted((t, number) for number, t in enumerate(times.values()) if t is not None)
    keys = list(times)
    best: dict[Family, Setting] = {}
    for seconds, number in seen:
        if seconds <= CLOSE * seen[0][0]:
            best.setdefault(*keys[number])
    for family, setting in best.items():
        for other in family.near(setting):
            if (family, other) not in times:
                return LayoutCandidate(family, other, 0.0, 0.0)
    return None


def _side_by_side(got: Any, expected: Any) -> tuple[Array, Array]:
    """The values of two results at the same places: of sparse ones those that either of them stores."""
    if not isinstance(got, Coordinates) or not isinstance(expected, Coordinates):
        return flat(got), flat(expected)
    columns = [np.concatenate(pair) for pair in zip(got.coords, expected.coords, strict=True)]
    ranks, places = row_ranks(columns, len(columns[0]))
    both = np.zeros((2, len(places)), dtype=got.values.dtype)
    np.add.at(both[0], ranks[: len(got.values)], got.values)
    np.add.at(both[1], ranks[len(got.values) :], expected.values)
    return both[0], both[1]


def _converted(handle: LayoutHandle, source: Tensor) -> tuple[Tensor, float]:
    """The tensor in the layout, and the seconds that it takes, code being made before."""
    best = np.inf
    for _ in range(2):
        start = time.perf_counter()
        tensor = pack_object(handle, source, None, "sum")
        best = min(best, time.perf_counter() - start)
        if best > LONG:
            break
    return tensor, float(best)


def _is_same(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors are in one layout, with the same types."""
    kinds = [{n: a.dtype for n, a in t.arrays.items()} for t in (one, other)]
    return one.layout == other.layout and kinds[0] == kinds[1]


def _typed(handle: LayoutHandle, use: lang.LayoutUse) -> LayoutHandle:
    """The layout in the element types of a use."""
    typed = replace(handle.use, value_type=use.value_type, index_type=use.index_type, fill=use.fill)
    return LayoutHandle(handle.tree, typed)


def _bytes(tensor: Tensor) -> int:
    return sum(a.nbytes for a in tensor.arrays.values())
