"""Steps say which of their fields are blocks of steps, and which are values."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, get_args

import pytest

from spfgen.lang import nodes as lang
from spfgen.lang.blocks import all_steps, blocks, values, with_blocks, with_values
from spfgen.lang.parse import parse_statements

KINDS = [kind for kind in get_args(lang.Step) if kind is not lang.Statement]
TEXT = "let s = 1; while s < 9 { for i { if x[i] > s { y[i] = 2 } else { y[i] = 3 } }; s += 2 }"


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_no_field_is_forgotten(kind: Any) -> None:
    types = {f.name: f.type for f in fields(kind)}
    assert [n for n, t in types.items() if t == "tuple[Step, ...]"] == [*getattr(kind, "BLOCKS", ())]
    assert [n for n, t in types.items() if t == "Value"] == [*getattr(kind, "VALUES", ())]


def test_all_steps() -> None:
    found = [type(s).__name__ for s in all_steps(parse_statements(TEXT))]
    assert found == ["Let", "While", "For", "If", "Statement", "Statement", "Set"]


def test_steps_are_changed() -> None:
    _, loop = parse_statements(TEXT)
    shorter = with_blocks(loop, lambda block: block[:1])
    assert [len(b) for b in blocks(shorter)] == [1]
    assert values(with_values(loop, lambda value: replace(value, op="greater")))[0].op == "greater"
    assert with_blocks(lang.Break(), lambda _: ()) == with_values(lang.Break(), lambda _: 0) == lang.Break()
