"""Statements: the steps of kernels and of functions, from parse trees to nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from lark import Tree

from spfgen.facts.formula import Formula, variables
from spfgen.lang import signs
from spfgen.lang.nodes import (
    Access,
    Break,
    For,
    Function,
    If,
    Let,
    Return,
    Set,
    Statement,
    Step,
    Value,
    While,
)
from spfgen.lang.values import (
    LexicalScope,
    check_assigned,
    indices_of,
    operator_of,
    read_access,
    read_condition,
    read_value,
    with_indices,
)


def read_steps(scope: LexicalScope, trees: Sequence[Any], in_loop: bool = False) -> tuple[Step, ...]:
    """The steps of a block; what a `let` introduces holds to its end."""
    steps: list[Step] = []
    for tree in trees:
        step = _step(scope, tree, in_loop)
        if isinstance(step, Let):
            scope = replace(scope, locals=scope.locals | {step.name})
        steps.append(step)
    return tuple(steps)


def _step(scope: LexicalScope, tree: Tree[Any], in_loop: bool) -> Step:
    return STEPS[tree.data](scope, tree, in_loop)


def _if(scope: LexicalScope, tree: Tree[Any], in_loop: bool) -> If:
    condition, then, otherwise = tree.children
    value = _closed_value(scope, condition)
    return If(value, _block(scope, then, in_loop), _otherwise(scope, otherwise, in_loop), scope.reader.span(tree))


def _let(scope: LexicalScope, tree: Tree[Any], in_loop: bool) -> Let:
    name, _, assigned = tree.children
    _check_new(scope, name)
    check_assigned(scope, assigned)
    return Let(str(name), _value(scope, assigned), scope.reader.span(tree))


def _while(scope: LexicalScope, tree: Tree[Any], in_loop: bool) -> While:
    condition, body = tree.children
    return While(_closed_value(scope, condition), _block(scope, body, True), scope.reader.span(tree))


def _break(scope: LexicalScope, tree: Tree[Any], in_loop: bool) -> Break:
    if not in_loop:
        raise scope.reader.fail("expected `break` in a loop, but it is not in one", tree, "leave it out")
    return Break(scope.reader.span(tree))


def _return(scope: LexicalScope, tree: Tree[Any], in_loop: bool) -> Return:
    if not scope.closed:
        hint = "a kernel assigns its results: `y[i] = ...`"
        raise scope.reader.fail("expected a statement, but `return` belongs to functions", tree, hint)
    return Return(read_value(scope, tree.children[0]), scope.reader.span(tree))


def _block(scope: LexicalScope, tree: Tree[Any], in_loop: bool) -> tuple[Step, ...]:
    return read_steps(scope, tree.children, in_loop)


def _otherwise(scope: LexicalScope, tree: Tree[Any] | None, in_loop: bool) -> tuple[Step, ...]:
    if tree is None:
        return ()
    return (_step(scope, tree, in_loop),) if tree.data == "if_" else _block(scope, tree, in_loop)


def _for(scope: LexicalScope, tree: Tree[Any], in_loop: bool) -> For:
    *names, where, body = tree.children
    if scope.closed:
        hint = "a function is one of numbers; loops that count are written with `while`"
        raise scope.reader.fail("expected a step of a function, but `for` runs over tensors", tree, hint)
    for number, name in enumerate(names):
        _check_new(scope, name, {str(n) for n in names[:number]})
    indices = tuple(str(n) for n in names)
    inner = replace(scope, indices=scope.indices | set(indices))
    condition = None if where is None else read_condition(inner, where)
    return For(indices, _block(inner, body, True), condition, scope.reader.span(tree))


def _check_new(scope: LexicalScope, name: Any, others: set[str] | frozenset[str] = frozenset()) -> None:
    if str(name) in scope.taken | others:
        message = f"expected a new name, but `{name}` is defined already"
        raise scope.reader.fail(message, name, "give it another name")


def _value(scope: LexicalScope, tree: Tree[Any]) -> Value:
    """A value of which nothing is known but what stands in it."""
    value = read_value(scope, tree)
    bound_value: Value = with_indices(value, scope.indices | (indices_of(value) - scope.sizes))
    return bound_value


def _closed_value(scope: LexicalScope, tree: Tree[Any]) -> Value:
    """A condition: its indices are those of the loops around."""
    value = _value(scope, tree)
    for name in sorted(indices_of(value) - scope.sizes - scope.indices):
        hint = f"write a loop, `for {name} {{ ... }}`, or reduce over it, `any({name}: ...)`"
        raise scope.reader.fail(f"expected an index of an enclosing loop, but `{name}` is not one", tree, hint)
    return value


def _statement(scope: LexicalScope, tree: Tree[Any], in_loop: bool) -> Statement | Set:
    target, sign, value, where, within = tree.children
    name, span = str(target.children[0]), scope.reader.span(tree)
    op, function = _update(scope, sign)
    check_assigned(scope, value)
    if target.children[1] is None and (name in scope.locals or scope.closed):
        return _set(scope, tree, op, function)
    access = read_access(scope, target)
    if within is not None and within != access.tensor:
        hint = f"`within {access.tensor}` says that `{access.tensor}` is computed only where it stores something"
        message = f"expected the target `{access.tensor}` of the statement, but found `{within}`"
        raise scope.reader.fail(message, within, hint)
    names = indices_of(access) | scope.indices
    read = read_value(replace(scope, known=scope.known | names), value)
    condition: Formula | None = None if where is None else read_condition(scope, where)
    names = (names | indices_of(read)) - scope.sizes
    return Statement(
        with_indices(access, names) if access.subscripts else access,
        op,
        with_indices(read, names),
        condition,
        span,
        within is not None,
        function,
    )


def _set(scope: LexicalScope, tree: Tree[Any], op: str, function: Function | None) -> Set:
    target, _, value, where, within = tree.children
    name = str(target.children[0])
    if name not in scope.locals:
        hint = f"write `let {name} = ...` where it starts"
        raise scope.reader.fail(f"expected a name of `let`, but `{name}` is not one", target, hint)
    if where is not None or within is not None:
        message = f"expected the end of the statement: `{name}` is a value of `let`"
        raise scope.reader.fail(message, where if where is not None else within, "write `if` around it")
    return Set(name, op, _value(scope, value), scope.reader.span(tree), function)


def _update(scope: LexicalScope, sign: Any) -> tuple[str, Function | None]:
    """The operator of `=`, `+=`, `min=`, `f=`."""
    if sign in ("=", "+="):
        return str(sign), None
    word = str(sign)[:-1]
    op, function, arity = operator_of(scope, signs.UPDATES.get(word, word), sign)
    if arity != 2:
        message = f"expected a function of two arguments, but `{word}` has {arity}"
        raise scope.reader.fail(message, sign, f"`y[i] {word}= v` is `y[i] = {word}(y[i], v)`")
    return op, function


def accesses_of(node: Any) -> list[Access]:
    """All accesses of steps and values, those in subscripts too."""
    from spfgen.ir import walk

    nodes = node if isinstance(node, tuple) else (node,)
    return [n for one in nodes for n in walk(one) if isinstance(n, Access)]


def statements_of(steps: Sequence[Step]) -> list[Statement]:
    """All statements, those within loops too, in the order of the text."""
    from spfgen.ir import walk

    return [n for step in steps for n in walk(step) if isinstance(n, Statement)]


def variables_of(access: Access) -> set[str]:
    """The indices and sizes in the subscripts of an access."""
    return indices_of(access)


STEPS: Mapping[str, Callable[[LexicalScope, Tree[Any], bool], Step]] = {
    "statement": _statement,
    "for_": _for,
    "if_": _if,
    "let": _let,
    "while_": _while,
    "break_": _break,
    "return_": _return,
}
"""What reads each step of the grammar; whether it is in a loop."""

__all__ = ["STEPS", "accesses_of", "read_steps", "statements_of", "variables", "variables_of"]
