"""IR 3 as text: the loop nest in words."""

from __future__ import annotations

from spfgen.plan.nodes import Plan

WIDTH = 64
"""Where reasons stand, when the line before them is shorter."""


def show_plan(plan: Plan) -> str:
    """A line for each node, indented as the loops are, with the reason at the end or on the next line."""
    lines: list[tuple[str, str]] = []
    _lines(plan, 0, lines)
    width = max((len(text) for text, why in lines if why and len(text) <= WIDTH), default=0)
    result = []
    for text, why in lines:
        if not why:
            result.append(text)
        elif len(text) <= width:
            result.append(f"{text:<{width}}   because {why}")
        else:
            indent = len(text) - len(text.lstrip()) + 4
            result += [text, f"{' ' * indent}because {why}"]
    return "\n".join(result)


def _lines(plan: Plan, depth: int, lines: list[tuple[str, str]]) -> None:
    pad = "  " * depth
    if plan.label:
        lines.append((pad + plan.label, plan.reason))
    for inside in plan.shown():
        if inside.heading:
            lines.append((pad + inside.heading, inside.because))
        if inside.plan is not None:
            _lines(inside.plan, depth + inside.depth, lines)
