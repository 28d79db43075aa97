"""Functions of the user: from parse trees to nodes. What they declare is checked in properties.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from lark import Token, Tree

from spfgen.ir import walk
from spfgen.lang.expressions import Reader, did_you_mean, there_are
from spfgen.lang.nodes import Case, Function, If, Return, Step, Value
from spfgen.lang.ops import Operator
from spfgen.lang.statements import STEPS, read_steps
from spfgen.lang.values import VIEWS, LexicalScope, read_value

PROPERTIES = ("commutative", "associative", "idempotent", "identity", "annihilator")
_FORMS = {"identity": "property identity 0", "annihilator": "property annihilator 0 at 1"}
RESERVED = (*VIEWS, "or", "and")


def read_function(reader: Reader, tree: Tree[Any], functions: Mapping[str, Function]) -> Function:
    """A declaration; its body may call the functions that are known so far, so none calls itself."""
    name, *parts = tree.children
    names = [c for c in parts if isinstance(c, Token)]
    items = [c for c in parts if isinstance(c, Tree)]
    _check_name(reader, name, functions)
    parameters = tuple(str(n) for n in names)
    for number, one in enumerate(names):
        if str(one) in parameters[:number]:
            raise reader.fail(f"expected a new name, but `{one}` is defined already", one, "give it another name")
    if not parameters:
        hint = f"for instance `function {name}(x, y) {{ return x + y }}`"
        raise reader.fail("expected a parameter, but there is none", name, hint)
    scope = LexicalScope(reader, functions, locals=frozenset(parameters), closed=True, owner=str(name))
    body = read_steps(scope, [i for i in items if i.data in STEPS])
    cases = tuple(_case(scope, parameters, i) for i in items if i.data == "case")
    if not always_returns(body):
        hint = "the last step is `return ...`"
        raise reader.fail(f"expected a value of `{name}` in every case, but it may end without one", name, hint)
    spaces = [i for i in items if i.data == "space"]
    space = _space(scope, spaces)
    operator = _operator(reader, str(name), len(parameters), [i for i in items if i.data == "declared"])
    return Function(str(name), parameters, body, operator, cases, space, reader.span(name))


def _check_name(reader: Reader, name: Any, functions: Mapping[str, Function]) -> None:
    if str(name) in functions:
        first = functions[str(name)].span
        hint = f"the first one is at {first.file}:{first.line}; rename one of them" if first else "rename one of them"
        raise reader.fail(f"expected one function `{name}`, but there are two", name, hint)
    if str(name) in RESERVED:
        raise reader.fail(f"expected a new name, but `{name}` is a function already", name, "give it another name")


def always_returns(body: Sequence[Step]) -> bool:
    """Whether no run reaches the end."""
    match body[-1] if body else None:
        case Return():
            return True
        case If(_, then, otherwise):
            return always_returns(then) and always_returns(otherwise)
    return False


def _case(scope: LexicalScope, parameters: tuple[str, ...], tree: Tree[Any]) -> Case:
    *arguments, value = tree.children
    if len(arguments) != len(parameters):
        hint = f"for instance `case {', '.join([*parameters[:-1], '0'])} : ...`"
        message = f"expected {len(parameters)} arguments in the case, but {there_are(len(arguments))}"
        raise scope.reader.fail(message, tree, hint)
    arguments_of_case: list[bool | int | float | None] = []
    for argument, parameter in zip(arguments, parameters, strict=True):
        first = argument.children[0]
        if isinstance(first, Token) and first.type == "NAME":
            if str(first) != parameter:
                hint = "a case names the parameter where it may be any number"
                raise scope.reader.fail(f"expected `{parameter}` or a number, but found `{first}`", argument, hint)
            arguments_of_case.append(None)
        else:
            arguments_of_case.append(_number(argument.children))
    return Case(tuple(arguments_of_case), read_value(scope, value), scope.reader.span(tree))


def _number(children: Sequence[Any]) -> bool | int | float:
    """A number with its sign, or a truth value."""
    *sign, last = children
    if isinstance(last, Token):
        return str(last).lower() == "true"
    text = str(last.children[0])
    value: int | float = int(text) if text.isdigit() else float(text)
    return -value if sign and sign[0] == "-" else value


def _space(scope: LexicalScope, trees: Sequence[Tree[Any]]) -> Value | None:
    if len(trees) > 1:
        raise scope.reader.fail("expected one `space`, but there are two", trees[1], "join them with `or`")
    if not trees:
        return None
    formula = read_value(scope, trees[0].children[0])
    allowed = ("logical_or", "logical_and", "logical_not")
    if any(getattr(n, "op", allowed[0]) not in allowed or getattr(n, "value", None) is not None for n in walk(formula)):
        hint = "for instance `space x or y`, `space x and not y`"
        raise scope.reader.fail(
            "expected parameters joined by `and`, `or` and `not`, but this is another value", trees[0], hint
        )
    return formula


def _operator(reader: Reader, name: str, arity: int, trees: Sequence[Tree[Any]]) -> Operator:
    """The row of the table that the declared properties make."""
    result = Operator(name=name, arity=arity, symbol="", precedence=0, c="", c_bool="")
    for tree in trees:
        word, given, place = tree.children
        at: Any = place
        if str(word) not in PROPERTIES:
            hint = did_you_mean(str(word), PROPERTIES) or f"properties: {', '.join(PROPERTIES)}"
            raise reader.fail(f"expected a property of functions, but `{word}` is not one", word, hint)
        if (given is not None) != (str(word) in _FORMS):
            form = _FORMS.get(str(word), f"property {word}")
            raise reader.fail(
                f"expected `{word}` in the form `{form}`, but it has another", tree, f"for instance `{form}`"
            )
        if arity != 2 and str(word) != "annihilator":
            message = f"expected two arguments, but `{name}` has {arity}: `{word}` is about functions of two"
            raise reader.fail(message, tree, "leave it out")
        number: Any = None if given is None else _number(given.children)
        match str(word):
            case "identity":
                result = replace(result, identity=number)
            case "annihilator":
                places = range(arity) if at is None else [int(at) - 1]
                if at is not None and not 1 <= int(at) <= arity:
                    message = f"expected an argument from 1 to {arity}, but this is {place}"
                    raise reader.fail(message, place, "arguments are counted from 1")
                new = tuple((p, number) for p in places)
                result = replace(result, annihilators=tuple(dict.fromkeys((*result.annihilators, *new))))
            case "commutative":
                result = replace(result, commutative=True)
            case "associative":
                result = replace(result, associative=True)
            case _:
                result = replace(result, idempotent=True)
    return result
