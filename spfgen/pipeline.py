"""The compiler's table of contents: the stages from text to C, in order.

| stage   | result | what it is                                  | where                    | verified by            |
|---------|--------|---------------------------------------------|--------------------------|------------------------|
| parse   | lang   | what the user wrote                         | lang/parse.py            |                        |
| resolve | layout | arrays, relation, facts; constants put in   | layout/from_lang.py      | layout/check.py        |
| join    | space  | statements in normal form: own indices,     | space/from_lang.py,      | space/check.py; tests, |
|         |        | explicit sums; points of sums of products   | space/normal.py          | by the oracle          |
| plan    | plan   | loop nests, with a find for each position   | plan/from_steps.py,      | plan/verify/           |
|         |        |                                             | plan/from_space.py       |                        |
| passes  | plan   | the nests and the steps, rewritten          | plan/transform/passes.py | plan/verify/meaning.py |
|         |        |                                             | plan/steps/rewrites.py   | and unchanged.py       |
| lower   | cir    | C as a tree                                 | cir/lower/from_plan.py   |                        |
| passes  | cir    | the C, rewritten                            | cir/rewrite/passes.py    | cir/tree/check.py      |
| print   | text   | NAME.c and NAME.h                           | cir/tree/print.py        |                        |

All kernels go through these stages. plan/from_space.py makes the nests of a statement that is a sum of products,
whatever other statements the kernel has. plan/steps/ plans all other statements (any function, fill values, views,
`for`, `if`) by regions: one tensor drives, others are looked up, sorted ones are merged. It also plans sums that would
compare all entries of two tensors.

Then plan/transform/whole.py makes the last marks in a plan, and plan/verify/whole.py compares it with the
statements once more. `PASSES` lists all passes that rewrite plans or C. Each has a level of optimisation
(lang/optimization.py) and a sentence about what it does. Tests interpret the plans after each pass
(tests/plans/interpret.py).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter
from types import MappingProxyType
from typing import TYPE_CHECKING

from spfgen.cir.lower.files import amalgamated, header_file, list_types, source_file
from spfgen.cir.lower.from_plan import lower
from spfgen.cir.rewrite import passes as c_passes
from spfgen.cir.tree import check as cir_check
from spfgen.cir.tree.nodes import Function
from spfgen.cir.tree.print import print_file
from spfgen.errors import InternalError, SpecError, SpfgenError, Unsupported, UsageError, our_bugs
from spfgen.facts.prove import Answer, recorded, unique
from spfgen.ir import walk
from spfgen.lang.nodes import Kernel
from spfgen.lang.show import show_statement
from spfgen.lang.spec import SpecTree
from spfgen.lang.types import TYPES
from spfgen.lang.uses import accesses_in
from spfgen.layout.checked import layout_of
from spfgen.layout.nodes import SCALAR, Layout
from spfgen.plan import unproved_passes
from spfgen.plan.analyse.delivery import as_delivered
from spfgen.plan.analyse.everywhere import filled
from spfgen.plan.analyse.growth import excesses
from spfgen.plan.analyse.limits import limits_of
from spfgen.plan.assemble import Assembled
from spfgen.plan.context import context_of
from spfgen.plan.from_steps import plan_steps
from spfgen.plan.nodes import PLANS, Array, LevelLoop, Plan, Products
from spfgen.plan.steps.rewrites import STEPS
from spfgen.plan.transform import passes
from spfgen.plan.transform.whole import WHOLE, with_marks
from spfgen.plan.verify import compared as comparisons
from spfgen.plan.verify.whole import check_plan
from spfgen.progress import task
from spfgen.space.check import check_program
from spfgen.space.declared import check_declared
from spfgen.space.from_lang import join
from spfgen.space.local_tensors import own_tensor
from spfgen.space.nodes import Program, Tensor
from spfgen.version import __version__

if TYPE_CHECKING:
    from spfgen.cir.lower.interface import PatternMaker

LOGGER = logging.getLogger(__name__)
PASSES = (*passes.PASSES, *STEPS, *WHOLE, *c_passes.PASSES)
"""All passes that rewrite something, in their order, each with its name, what it is about, and its level: of plans of
nests, of plans of steps, of plans of all statements, of C."""
PLAN_PASSES = (
    *(p.name for p in passes.PASSES),
    *(p.name for p in STEPS),
    *(p.name for p in WHOLE),
)
C_PASSES = tuple(p.name for p in c_passes.PASSES)
"""The names of those that rewrite plans, and of those that rewrite C after them."""
RANK = "rank"
"""The constant of a family that is solved from the number of subscripts when a use does not set it."""


@dataclass(frozen=True)
class Generated:
    """Everything that the passes made of one kernel."""

    program: Program
    plans: tuple[Plan, ...]
    function: Function
    source: str
    header: str
    obligations: tuple[Answer, ...] = ()
    """What Z3 was asked on the way, each question once."""
    left_out: tuple[unproved_passes.LeftOut, ...] = ()
    """Passes whose result was not proved."""
    compared: comparisons.Compared = field(default_factory=comparisons.Compared, compare=False, repr=False)
    """What was compared with what was asked for on the way."""
    refused: Unsupported | None = field(default=None, compare=False, repr=False)
    """Why results are not assembled in C, where they are not: then there is no C."""
    assemblies: Mapping[str, Assembled] = field(default_factory=dict, compare=False, repr=False)
    """How results whose pattern is computed are assembled."""
    bare: frozenset[str] = field(default=frozenset(), compare=False, repr=False)
    """Results that may come without arrays: then the C makes them."""

    @property
    def whole(self) -> str:
        """One self-contained C text."""
        return amalgamated(self.program, self.source, self.header)


def generate(kernel: Kernel, layouts: Mapping[str, Layout], stop_after: str = "") -> Generated:
    """From a kernel and the layouts of its tensors to C. Nothing is remembered between calls. `stop_after` is the name
    of the last pass that rewrites plans or C, if not all do."""
    start = perf_counter()
    working = task(f"compiling {kernel.name}")
    with (
        our_bugs(f"compiling `{kernel.name}`", lambda: _to_report(kernel)),
        working,
        recorded() as answers,
        unproved_passes.recorded() as left,
        comparisons.recorded() as compared,
    ):
        last = stop_after if stop_after in C_PASSES else ""
        program = join(kernel, layouts)
        check_program(program)
        check_declared(kernel, program)
        plans = make_plans(program, "" if last else stop_after)
        patterns = {} if last or stop_after else _patterns(kernel, layouts, program)
        generated = print_kernel(program, plans, unique(answers), last, patterns)
        generated = replace(generated, left_out=tuple(left), compared=compared)
    for excess in excesses(plans, program):
        LOGGER.debug("`%s`: %s", kernel.name, excess)
    asked = len(generated.obligations)
    LOGGER.debug("%.2f s: C of `%s`, %d questions to Z3", perf_counter() - start, kernel.name, asked)
    return generated


def _to_report(kernel: Kernel) -> tuple[str, ...]:
    """What makes a failure of the compiler happen again."""
    statements = "; ".join(show_statement(s) for s in kernel.statements)
    layouts = sorted({t.use.name for t in kernel.tensors})
    schedule = ", its schedule" if kernel.is_scheduled else ""
    asked = f"please report it with the kernel ({statements}){schedule} and the text of its layouts"
    return (f"{asked}: {', '.join(layouts)}" if layouts else asked,)


def print_kernel(
    program: Program,
    plans: tuple[Plan, ...],
    obligations: tuple[Answer, ...] = (),
    stop_after: str = "",
    patterns: Mapping[str, PatternMaker] = MappingProxyType({}),
) -> Generated:
    """From plans to C. `stop_after` is the name of the last pass that rewrites C, if not all do; `patterns` make the
    results that others have the pattern of."""
    program, functions, rooms = _functions(program, plans, stop_after)
    # What overflows wraps around, as in numpy. C says so of unsigned types, but the narrow ones become int first.
    wrapped = " -fwrapv" if any(TYPES[t.value_type].kind in "iu" for t in program.tensors) else ""
    comment = f"{program.name}, made by spfgen {__version__}. Compile with -std=c99 -O3 -fopenmp{wrapped}."
    source = source_file(program, functions, comment)
    cir_check.check(source, KNOWN)
    header = header_file(program, functions[-1:], f"{comment}{_largest(program)}")
    generated = Generated(program, plans, functions[-1], print_file(source), print_file(header), obligations)
    return _assembled(generated, functions, comment, rooms, patterns)


def _functions(
    program: Program, plans: tuple[Plan, ...], stop_after: str = ""
) -> tuple[Program, list[Function], Mapping[str, tuple[str, str]]]:
    """The C functions, the last of which is the kernel, with what the plans say of the program, and the functions that
    make room for entries."""
    levels = sum(isinstance(n, LevelLoop) for p in plans for n in walk(p, PLANS))
    tensors = tuple(as_delivered(t, plans) for t in program.tensors)
    all_of = tuple(dict.fromkeys(name for plan in plans for name in filled(plan, program)))
    program = replace(program, temporaries=tuple(_temporaries(program, plans)))
    program = replace(program, tensors=tensors, levels=levels, limits=limits_of(program, plans), filled=all_of)
    lowered = lower(program, plans)
    known = c_passes.KernelFacts(lowered.names, lowered.values, lowered.indices)
    called = [
        f for one in lowered.called for f in c_passes.passed(one, c_passes.KernelFacts(known.names), program.level)
    ]
    functions = [*called, *c_passes.passed(lowered.function, known, program.level, stop_after)]
    return program, functions, lowered.rooms


def _patterns(kernel: Kernel, layouts: Mapping[str, Layout], program: Program) -> dict[str, PatternMaker]:
    """The functions that make results which others have the pattern of, or a part of an operand's."""
    if not any(t.shared_with and not t.copied for t in program.tensors):
        return {}
    from spfgen.cir.lower.interface import PatternMaker, interface
    from spfgen.space.own_patterns import kernels_of_patterns

    found: dict[str, PatternMaker] = {}
    for name, own in kernels_of_patterns(kernel, layouts, program):
        try:
            joined = join(own, layouts)
            check_program(joined)
            plans = make_plans(joined)
            joined, functions, rooms = _functions(joined, plans)
            made = interface(joined, functions[-1], rooms, plans)
        except Unsupported as error:
            LOGGER.debug("`%s` is not made without arrays: %s", name, error)
            continue
        maker = PatternMaker(joined, (*functions[:-1], *made.functions[:-1]), made)
        found |= {name: maker} if maker.fits(program) else {}
    return found


def _temporaries(program: Program, plans: Sequence[Plan]) -> Iterator[Tensor]:
    """The tensors that the kernel keeps for itself, as it keeps them."""
    nodes = [n for p in plans for n in walk(p, PLANS)]
    arrays = {n.name for n in nodes if isinstance(n, Array)}
    for tensor in program.temporaries:
        yield own_tensor(tensor.name, tensor.value_type, tensor.extents) if tensor.name in arrays else tensor
    yield from (t for n in nodes if isinstance(n, Products) for t in n.asked.temporaries)


def _assembled(
    generated: Generated,
    functions: Sequence[Function],
    comment: str,
    rooms: Mapping[str, tuple[str, str]],
    patterns: Mapping[str, PatternMaker],
) -> Generated:
    """With results in their layouts, where their pattern is computed."""
    program = generated.program
    if not patterns and not any(t.is_made or t.borrows for t in program.tensors):
        return generated
    from spfgen.cir.lower.interface import interface  # numpy, which is not needed before

    try:
        results = interface(program, functions[-1], rooms, generated.plans, patterns)
    except Unsupported as error:
        return replace(generated, source="", header="", refused=error)
    source = source_file(program, [*functions[:-1], *results.functions], comment, list_types(results))
    cir_check.check(source, KNOWN)
    header = header_file(program, results.shown, f"{comment}{_largest(program)}", results)
    text, shown = print_file(source), print_file(header)
    return replace(generated, source=text, header=shown, assemblies=results.assemblies, bare=results.bare)


def _largest(program: Program) -> str:
    """Up to which sizes the proofs, which are of all integers, hold in C."""
    bits = program.limits.safe.bit_length() - 1
    return f" Extents and sizes may be up to 2^{bits}: what is computed from them fits in 64 bits." if bits > 0 else ""


def make_plans(program: Program, stop_after: str = "") -> tuple[Plan, ...]:
    """The plans of a kernel's statements: one for each where all are sums of products, else one for all of them.
    `stop_after` is the name of the last pass that rewrites them, if not all do: the result means the same."""
    if stop_after and stop_after not in PLAN_PASSES:
        hint = f"passes: {', '.join((*PLAN_PASSES, *C_PASSES))}"
        raise UsageError(f"expected the name of a pass, but `{stop_after}` is not one", None, (hint,))
    context = replace(context_of(program), stop_after=stop_after)
    try:
        with comparisons.recorded() as compared:
            plans = tuple(with_marks(plan, context) for plan in plan_steps(program, context))
        for plan in plans:
            check_plan(plan, program, compared)
        if context.assembled:
            from spfgen.plan.assemble.in_place import entries_in_place  # numpy, which is not needed before

            plans = tuple(entries_in_place(plan, program, context, alone=len(plans) == 1) for plan in plans)
    except SpfgenError as error:
        if error.span is None and not isinstance(error, InternalError):
            error.span = program.steps.span
        raise
    return plans


KNOWN = frozenset(
    {
        "SPFGEN_OK",
        "SPFGEN_ERROR_NULL",
        "SPFGEN_ERROR_SHAPE",
        "SPFGEN_ERROR_MEMORY",
        "SPFGEN_ERROR_RANGE",
        "SPFGEN_ERROR_PLACE",
        "SPFGEN_ERROR_INDEX",
        "NULL",
        "INT8_MAX",
        "INT16_MAX",
        "INT64_MAX",
        "UINT64_MAX",
        "SPFGEN_HOLDS",
        "SPFGEN_BROKEN",
        "SPFGEN_UNCHECKED",
        "SPFGEN_MEMORY",
        "SPFGEN_ELSEWHERE",
        "SPFGEN_TOGETHER",
        "true",
        "false",
        "INT32_MAX",
        "SPFGEN_GATHERS",
        "SPFGEN_WIDE",
    }
)


def resolve(kernel: Kernel, tree: SpecTree) -> dict[str, Layout]:
    """The layout of each declared tensor, with constants and rank put in, checked."""
    ranks: dict[str, int] = {}
    for access in accesses_in(kernel.statements):
        ranks.setdefault(access.tensor, len(access.subscripts))
    result = {}
    for declaration in kernel.tensors:
        if declaration.use.name == SCALAR.name and SCALAR.name not in tree.layouts:
            result[declaration.name] = SCALAR
            continue
        layout_declaration, settings = tree.resolve(declaration.use)
        rank = len(declaration.extents) if declaration.extents is not None else ranks.get(declaration.name)
        if RANK not in settings and rank is not None and RANK in dict(layout_declaration.constants):
            settings[RANK] = rank
        if rank is None:
            raise SpecError(f"expected `{declaration.name}` to be used, but no statement accesses it", declaration.span)
        result[declaration.name] = layout_of(layout_declaration, settings, tree.fill_of(declaration.use))
    return result


__all__ = ["KNOWN", "RANK", "Generated", "generate", "layout_of", "make_plans", "print_kernel", "resolve"]
