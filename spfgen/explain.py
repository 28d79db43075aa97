"""What spfgen did with a kernel and why: as text for people, as a dict for programs."""

from __future__ import annotations

import textwrap
from typing import Any

from spfgen.ir import walk
from spfgen.pipeline import Generated
from spfgen.plan.from_space import scanned
from spfgen.plan.nodes import Clear, Find, Guard, Key, Plan, Reduce, Scan
from spfgen.plan.show import interval, show_conditions, show_operand, show_plan
from spfgen.space.show import iteration_space


def explain_text(generated: Generated) -> str:
    """Per statement: its iteration spaces in isl notation with calls, the loops in words, what was proved."""
    program = generated.program
    parts = [f"kernel {program.name}"]
    for tensor in program.tensors:
        role = "output" if tensor.is_output else "input"
        constants = ", ".join(f"{n}={v}" for n, v in tensor.layout.constants)
        layout = f"{tensor.layout.name}({constants})" if constants else tensor.layout.name
        shared = f", shares index arrays of {tensor.shared_with}" if tensor.shared_with else ""
        parts.append(f"  {tensor.name} : {layout}, {tensor.value_type}, {role}{shared}")
    for group, plan in zip(program.groups, generated.plans, strict=True):
        parts += ["", group.text]
        for number, instance in enumerate(group.instances, 1):
            title = (
                f"iteration space {number} of {len(group.instances)}" if len(group.instances) > 1 else "iteration space"
            )
            text = textwrap.fill(iteration_space(instance), 108, break_on_hyphens=False, break_long_words=False)
            parts.append(f"  {title}:\n{textwrap.indent(text, '    ')}")
        if not group.instances:
            parts.append("  iteration space: empty")
        order = scanned(plan)
        parts.append(f"  loop order: {', '.join(order) if order else 'no loops'}")
        parts.append("  loops:")
        parts += [f"    {line}" for line in show_plan(plan).splitlines()]
        parts.append("  proved:")
        parts += [f"    - {fact}" for fact in proved(plan)]
        doubts = unproved(plan)
        if doubts:
            parts.append("  not proved:")
            parts += [f"    - {doubt}" for doubt in doubts]
    return "\n".join(parts)


def explain_json(generated: Generated) -> dict[str, Any]:
    """The same, for programs."""
    program = generated.program
    return {
        "kernel": program.name,
        "tensors": [
            {
                "name": t.name,
                "layout": t.layout.name,
                "constants": dict(t.layout.constants),
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
                "text": group.text,
                "iteration_spaces": [iteration_space(i) for i in group.instances],
                "loop_order": scanned(plan),
                "loops": show_plan(plan).splitlines(),
                "proved": proved(plan),
                "not_proved": unproved(plan),
            }
            for group, plan in zip(program.groups, generated.plans, strict=True)
        ],
    }


def proved(plan: Plan) -> list[str]:
    """What holds of the loops, in words."""
    facts = [
        "the loops visit exactly the points of the iteration space (both inclusions, by isl)",
        "every read of an index array lies within the array (by isl, from the declared ranges)",
    ]
    for node in walk(plan):
        match node:
            case Scan(dim, low, high, parallel=True, because=why) | Find(dim, low, high, parallel=True, because=why):
                facts.append(f"the loop over {dim} in {interval(low, high)} is parallel: {why}")
            case Reduce(target, op="="):
                text = f"{show_operand(target)} is stored, {target.tensor} is not cleared first"
                facts.append(f"{text}: each place is reached exactly once")
            case Find(dim, algorithm=name, because=why, key=Key()):
                facts.append(f"{dim} is found by {name}: {why}")
    return facts


def unproved(plan: Plan) -> list[str]:
    """What was asked and not proved, and what is done instead."""
    doubts = []
    loops = [n for n in walk(plan) if isinstance(n, Scan | Find)]
    if loops and not any(n.parallel for n in loops):
        doubts.append(f"the outermost loop, over {loops[0].dim}, may write a place twice: it stays serial")
    for node in walk(plan):
        match node:
            case Clear(tensor, why):
                doubts.append(f"{tensor} is cleared first: {why}")
            case Guard(conditions, because=why) if why:
                doubts.append(f"{why}: {show_conditions(conditions)} is tested")
            case Find(dim, algorithm="plain loop"):
                doubts.append(f"no algorithm better than the plain loop is proved for finding {dim}")
    return doubts
