"""What spfgen did with a kernel and why: as text for people, as a dict for programs."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from spfgen.estimate import assembly
from spfgen.facts.prove import RESOURCES, Answer, smaller
from spfgen.ir import walk
from spfgen.pipeline import Generated
from spfgen.plan.analyse.cost import simplified
from spfgen.plan.analyse.depend import INDEPENDENT, Meeting, in_words
from spfgen.plan.analyse.everywhere import filled
from spfgen.plan.analyse.growth import excesses
from spfgen.plan.assemble import Assembled
from spfgen.plan.context import context_of
from spfgen.plan.dependences import dependences
from spfgen.plan.finds.choose import ALGORITHMS
from spfgen.plan.from_space import looked_for, scanned
from spfgen.plan.nodes import (
    PLANS,
    Accumulate,
    Clear,
    Collect,
    Find,
    Guard,
    Key,
    LevelLoop,
    Plan,
    Products,
    Scan,
    Segment,
    Variable,
    Versions,
)
from spfgen.plan.show import show_plan
from spfgen.plan.text import interval, show_conditions, show_operand
from spfgen.plan.verify.claims import claims
from spfgen.space.nodes import Group, Program, Tensor
from spfgen.space.show import iteration_space


def explain_text(generated: Generated, *, details: bool = False) -> str:
    """Per statement: its iteration spaces in isl notation with calls, the loops in words, what was proved.

    `details` adds to the obligations what differs between machines and versions of Z3: times, counterexamples.
    """
    program = generated.program
    parts = [f"kernel {program.name}", *map(_tensor, program.tensors)]
    for plan in generated.plans:
        parts += _planned(generated, plan, details)
    for name, how in generated.assemblies.items():
        parts += _assembled(name, how)
    if generated.refused is not None:
        parts += ["", f"the C returns coordinates of results, which numpy packs: {generated.refused.message}"]
    if generated.left_out:
        parts += ["", "passes left out:"]
        parts += [_filled(str(item)) for item in generated.left_out]
    if generated.obligations:
        parts += ["", "obligations (asked of Z3):"]
        lines = [obligation_line(answer, details) for answer in generated.obligations]
        parts += [_filled(line) for line in dict.fromkeys(lines)]
    return "\n".join(parts)


def _tensor(tensor: Tensor) -> str:
    """Its layout, its type, its role."""
    role = "output" if tensor.is_output else "input"
    named = tensor.final_layout
    constants = ", ".join(f"{n}={v}" for n, v in named.constants)
    layout = f"{named.name}({constants})" if constants else named.name
    shared = f", shares index arrays of {tensor.shared_with}" if tensor.shared_with else ""
    computed = ", its pattern is computed" if tensor.assembled is not None else ""
    return f"  {tensor.name} : {layout}, {tensor.value_type}, {role}{shared}{computed}"


def _planned(generated: Generated, whole: Plan, details: bool) -> Iterator[str]:
    """A statement, or all of them where one plan is theirs: spaces, loops, what was proved of them and what was not."""
    program = generated.program
    asked, plan = _opened(whole)
    yield from ("", program.steps.text if asked is None else asked.text)
    yield from _regions(program, plan) if asked is None else _spaces(asked)
    yield from _loops(plan)
    sharing = [_filled(loop.text(details), "    ") for loop in shared_by_loops(program, asked, plan)]
    yield from _section("dependences", sharing)
    yield from _until_packed(program, whole)
    claimed = claims(whole, generated.compared)
    facts = [f"    - {fact}" for fact in (*claimed.proved, *proved(plan))]
    yield from _section("proved", facts or ["    nothing"])
    yield from ("  only tested, not proved:", *(f"    - {text}" for text in claimed.only_tested))
    yield from _section("not taken", [f"    - {line}" for line in rejected(plan)])
    growth = [_filled(line, "    ") for line in above_linear(program, plan)]
    yield from _section("grows faster than what is stored", growth)
    prices = [_filled(line, "    ") for line in costs(plan)]
    yield from _section("expected nanoseconds, compared when the kernel is called", prices)
    yield from _section("not proved", [f"    - {doubt}" for doubt in unproved(plan)])


def _section(title: str, lines: Sequence[str]) -> Iterator[str]:
    """Lines under their title, if there are any."""
    yield from (f"  {title}:", *lines) if lines else ()


def _regions(program: Program, plan: Plan) -> Iterator[str]:
    """Why statements are planned by regions, and the sums of products among them."""
    yield f"  planned by regions of what is stored, not as a sum of products, because {program.beyond or COMPARED}"
    for inner in (n.asked.group for n in walk(plan, PLANS) if isinstance(n, Products)):
        yield f"  as sums of products: {inner.text}"
        yield from (textwrap.indent(p, "  ") for p in _spaces(inner))


def _loops(plan: Plan) -> Iterator[str]:
    """The loops in words."""
    order, searched = scanned(plan), looked_for(plan)
    yield f"  loop order: {', '.join(order) if order else 'no loops'}"
    if searched:
        driving = [d for d in order if d not in searched]
        yield f"  iterates over {', '.join(driving) or 'nothing'}; searches for {', '.join(searched)}"
    yield "  loops:"
    yield from (f"    {line}" for line in show_plan(plan).splitlines())


COMPARED = "as sums they would compare all entries of two tensors"


def _opened(plan: Plan) -> tuple[Group | None, Plan]:
    """What a statement that is a sum of products asks for, and its nests; of the plan of all statements it itself."""
    return (plan.asked.group, plan.body) if isinstance(plan, Products) else (None, plan)


def _spaces(group: Group) -> Iterator[str]:
    """The iteration spaces of a statement."""
    if not group.instances:
        yield "  iteration space: empty"
    for number, instance in enumerate(group.instances, 1):
        several = f" {number} of {len(group.instances)}" if len(group.instances) > 1 else ""
        text = textwrap.fill(iteration_space(instance), 108, break_on_hyphens=False, break_long_words=False)
        yield f"  iteration space{several}:\n{textwrap.indent(text, '    ')}"


def _assembled(name: str, how: Assembled) -> list[str]:
    """How a result whose pattern is computed gets its arrays in C."""
    lines = [f"    {what}".ljust(40) + f" {why}" for what, why in dict.fromkeys(how.lines())]
    return ["", f"assembly of {name}, in C:", *lines]


def _until_packed(program: Program, plan: Plan) -> list[str]:
    """What the entries of a result whose pattern is computed take, in lines."""
    lines = _packed(program, plan)
    return ["  memory until the result is packed, about:", *(f"    - {line}" for line in lines)] if lines else []


def _packed(program: Program, plan: Plan) -> list[str]:
    lines = assembly(program, (plan,))
    for name in filled(plan, program):
        lines.append(f"{name} gets an entry at each of its places, whatever is stored: it is as large as a dense one")
    return lines


def explain_json(generated: Generated) -> dict[str, Any]:
    """The same, for programs."""
    program = generated.program
    return {
        "kernel": program.name,
        "tensors": [
            {
                "name": t.name,
                "layout": t.final_layout.name,
                "constants": dict(t.final_layout.constants),
                "assembled": t.assembled is not None,
                "value_type": t.value_type,
                "index_types": dict(t.index_types),
                "input": t.is_input,
                "output": t.is_output,
                "shares": t.shared_with,
            }
            for t in program.tensors
        ],
        "statements": [
            {
                "text": program.steps.text if asked is None else asked.text,
                "iteration_spaces": [] if asked is None else [iteration_space(i) for i in asked.instances],
                "loop_order": scanned(plan),
                "looked_for": looked_for(plan),
                "loops": show_plan(plan).splitlines(),
                "dependences": [loop.as_dict() for loop in shared_by_loops(program, asked, plan)],
                "proved": [*(claimed := claims(whole, generated.compared)).proved, *proved(plan)],
                "only_tested": [*claimed.only_tested],
                "not_taken": rejected(plan),
                "above_linear": above_linear(program, plan),
                "costs": costs(plan),
                "not_proved": unproved(plan),
                "memory_until_packed": _packed(program, whole),
            }
            for whole in generated.plans
            for asked, plan in [_opened(whole)]
        ],
        "left_out": [{"pass": item.name, "why": item.why} for item in generated.left_out],
        "obligations": [obligation_dict(answer) for answer in generated.obligations],
    }


@dataclass(frozen=True)
class SharedByLoop:
    """What the iterations of a loop share, and what that means for threads."""

    meeting: Meeting
    relation: str
    parallel: str
    """Why it is parallel or serial."""

    def text(self, details: bool) -> str:
        """In words; with `details` an example, which may differ between versions of Z3."""
        loop = f"loop over {self.meeting.loop}: "
        if self.meeting.kind == INDEPENDENT:
            return f"{loop}independent, its iterations write different places ({self.meeting.how}); {self.parallel}"
        doubt = "may carry" if self.meeting.how == "not proved" else "carries"
        example = f", for example {in_words(self.meeting)}" if details and self.meeting.example else ""
        return f"{loop}{doubt} a {self.meeting.kind}, {self.relation}{example}; {self.parallel}"

    def as_dict(self) -> dict[str, Any]:
        return {
            "loop": self.meeting.loop,
            "kind": self.meeting.kind,
            "relation": None if self.meeting.kind == INDEPENDENT else self.relation,
            "example": in_words(self.meeting) if self.meeting.example else None,
            "by": self.meeting.how,
            "runs": self.parallel,
        }


def shared_by_loops(program: Program, asked: Group | None, plan: Plan) -> Iterator[SharedByLoop]:
    """The loops of a sum of products, those of each of its nests from the outside in; each text once."""
    if asked is None:
        return
    context = context_of(program)
    loops = [n for n in walk(plan) if isinstance(n, Scan | Find)]
    threads = {n.dim for n in loops if n.parallel}
    levels = {n.dim for n in walk(plan) if isinstance(n, LevelLoop)}
    reasons = {n.dim: n.because for n in loops if isinstance(n, Scan) and n.because}
    seen = set()
    outer = ""
    for meeting, text in dependences(asked, plan, context):
        outer = outer if meeting.outer else ""  # else a nest begins
        reason = reasons.get(meeting.loop, "")
        if meeting.loop in levels:
            why, outer = "level by level, the iterations of one level in parallel, or by lists", meeting.loop
        elif meeting.loop in threads:
            why = f"parallel: {reason}" if reason and meeting.kind != INDEPENDENT else "parallel"
            outer = meeting.loop
        elif outer:
            why = f"serial, within the iterations of {outer}"
        elif context.marked("serial", meeting.loop) is not None:
            why = "serial, as the schedule says"
        elif reason:
            why = f"serial: {reason}"
        elif meeting.kind == INDEPENDENT and meeting.outer:
            why = f"serial: threads would be started in each iteration of {meeting.outer[-1]}"
        else:
            why = "serial"
        loop = SharedByLoop(meeting, text, why)
        if loop not in seen:
            seen.add(loop)
            yield loop


def proved(plan: Plan) -> list[str]:
    """What holds of single loops and places, in words."""
    facts = []
    for node in walk(plan):
        match node:
            case Scan(dim, low, high, parallel=True, because=why) | Find(dim, low, high, parallel=True, because=why):
                facts.append(f"the loop over {dim} in {interval(low, high)} is parallel: {why}")
            case Accumulate(target, op="=", storage=Variable()):
                text = f"{show_operand(target)} is stored, {target.tensor} is not cleared first"
                facts.append(f"{text}: each place is reached exactly once")
            case Find(dim, algorithm=name, because=why, key=Key()):
                facts.append(f"{dim} is found by {name}: {why}")
    return list(dict.fromkeys(facts))


def rejected(plan: Plan) -> list[str]:
    """The algorithms that no variant uses for a find, with the reason, those with one reason together."""
    taken: dict[str, set[str]] = {}
    why: dict[tuple[str, str], dict[str, None]] = {}
    for node in walk(plan):
        if isinstance(node, Find | Segment):
            taken.setdefault(node.dim, set()).add(node.algorithm)
    for node in walk(plan):
        if isinstance(node, Find | Segment):
            for item in node.rejected:
                if ALGORITHMS[item.algorithm] not in taken[node.dim]:
                    why.setdefault((node.dim, item.why), {})[ALGORITHMS[item.algorithm]] = None
    return [f"{dim} by {', '.join(names)}: {reason}" for (dim, reason), names in why.items()]


def above_linear(program: Program, plan: Plan) -> list[str]:
    """The loops whose work grows faster than what is stored, each in a sentence."""
    return [str(one) for one in excesses((plan,), program)]


def costs(plan: Plan) -> list[str]:
    """The formula of each variant, simplified."""
    return [
        f"variant {number}: {simplified(version.cost)}"
        for node in walk(plan)
        if isinstance(node, Versions) and node.by_cost
        for number, version in enumerate(node.versions, 1)
    ]


def unproved(plan: Plan) -> list[str]:
    """What was asked and not proved, and what is done instead."""
    doubts = []
    loops = [n for n in walk(plan) if isinstance(n, Scan | Find)]
    bound = any(isinstance(n, LevelLoop) for n in walk(plan)) or (
        loops and isinstance(loops[0], Scan) and loops[0].because
    )
    if loops and not bound and not any(n.parallel for n in loops):
        doubts.append(f"the outermost loop, over {loops[0].dim}, may write an element twice: it is serial")
    tables = {n.name for n in walk(plan) if isinstance(n, Collect)}
    for node in walk(plan):
        match node:
            case Clear(tensor, why, None) if tensor not in tables:
                doubts.append(f"{tensor} is cleared first: {why}")
            case Guard(conditions, because=why) if why:
                doubts.append(f"{why}: {show_conditions(conditions)} is tested")
            case Find(dim, algorithm="plain loop"):
                doubts.append(f"no search algorithm is proved correct, so every position is compared, for {dim}")
    return list(dict.fromkeys(doubts))


# --- what Z3 was asked ----------------------------------------------------------------------------------


def obligation_line(answer: Answer, details: bool) -> str:
    """Why it was asked, the goal, the answer."""
    why = f"{answer.about}: " if answer.about else ""
    goal = "the declared properties rule out every point" if answer.goal == "false" else answer.goal
    word = "not proved (unknown)" if answer.word == "unknown" else answer.word
    more = f" in {answer.seconds * 1e3:.1f} ms{_example(answer)}" if details else ""
    return f"{why}{goal}: {word}{more}"


def _example(answer: Answer) -> str:
    values = counterexample(answer)
    return f", for example {', '.join(f'{n} = {v}' for n, v in values.items())}" if values else ""


def counterexample(answer: Answer) -> dict[str, int]:
    """The values of names and calls for which the goal is false; empty when it is proved, or nothing is known."""
    small = smaller(answer)
    return {**dict(small.model or ()), **dict(small.values)}


def obligation_dict(answer: Answer) -> dict[str, Any]:
    """An obligation with all that is known of it."""
    return {
        "about": answer.about,
        "goal": answer.goal,
        "answer": answer.word,
        "counterexample": counterexample(answer),
        "assumptions": answer.assumptions,
        "instances_of_facts": answer.instances,
        "seconds": answer.seconds,
        "cached": answer.cached,
        "smt": answer.text,
    }


def smt_files(generated: Generated) -> dict[str, str]:
    """File names and contents of the obligations, for Z3's command."""
    result = {}
    for number, answer in enumerate(generated.obligations, 1):
        expected = {"proved": "unsat: proved", "refuted": "sat: refuted"}.get(answer.word, "unknown: not proved")
        comment = [
            answer.about or "(no reason given)",
            f"goal: {answer.goal}",
            f"{answer.assumptions} assumptions, the negated goal, {answer.instances} instances of declared facts",
            f"answer: {expected}",
            f"z3 rlimit={RESOURCES} FILE",
        ]
        lines = [f"; {line}" for text in comment for line in text.splitlines()]
        result[f"{number:03}.smt2"] = "\n".join(lines) + "\n" + answer.text
    return result


def _filled(text: str, indent: str = "  ") -> str:
    first, others = f"{indent}- ", f"{indent}    "
    return textwrap.fill(
        text, 112, initial_indent=first, subsequent_indent=others, break_on_hyphens=False, break_long_words=False
    )
