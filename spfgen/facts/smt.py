"""Formulas as an SMT-LIB script: declarations, an assertion each, and the question whether they can all hold."""

from __future__ import annotations

import re
from collections.abc import Sequence

from spfgen.errors import InternalError
from spfgen.facts.formula import And, Bin, Call, Compare, Exists, Expr, Forall, Formula, Not, Num, Or, Var

CHECK = "(check-sat)"
LINEAR = "QF_UFLIA"
"""The logic of formulas without quantifiers and products."""
_MULTIPLICATIVE = ("*", "/", "%", "quot", "rem")
# Division rounds down for a positive divisor, in SMT-LIB as here.
_OPERATORS = {"/": "div", "quot": "div", "%": "mod", "rem": "mod"}


def smt_script(formulas: Sequence[Formula]) -> str:
    """A complete script, which Z3's command takes as it is."""
    writer = _Writer()
    assertions = [f"(assert {writer.formula(f)})" for f in formulas]
    lines = [f"(set-logic {writer.logic})"] if writer.logic else []
    lines += [f"(declare-fun |{s}| ({' '.join(['Int'] * k)}) Int)" for s, k in writer.symbols.items()]
    return "\n".join([*lines, *assertions, CHECK, ""])


def logic_of(script: str) -> str:
    """The logic that the script sets, if any."""
    first = script.partition("\n")[0]
    return first.removeprefix("(set-logic ").removesuffix(")") if first.startswith("(set-logic ") else ""


def bounded(script: str, names: Sequence[str], limit: int) -> str:
    """The script where, besides, each of the names lies between -limit and limit."""
    bounds = "\n".join(f"(assert (<= (- {limit}) |{variable_symbol(n)}| {limit}))" for n in names)
    return script.replace(CHECK, f"{bounds}\n{CHECK}")


_SYMBOL = re.compile(r"\|([^|]*)\|")


def canonical(script: str) -> tuple[str, dict[str, str]]:
    """The script with symbols that are numbered as they occur, and what each of them stands for: questions that differ
    in names alone are one."""
    symbols: dict[str, str] = {}

    def numbered(match: re.Match[str]) -> str:
        return f"|{symbols.setdefault(match[1], f'x{len(symbols)}')}|"

    text = _SYMBOL.sub(numbered, script)
    return text, {short: symbol for symbol, short in symbols.items()}


_WORDS = frozenset("_ as true false and or xor distinct".split())
"""Words that Z3 takes for its own even in bars."""


def variable_symbol(name: str) -> str:
    """What the script calls a variable."""
    return f"{name}:" if name in _WORDS else name


def variable_name(symbol: str) -> str:
    """The variable that the script calls so."""
    return symbol.rstrip(":")


def function_symbol(name: str) -> str:
    """What the script calls a function: one may have the name of a variable."""
    return f"{name}()"


class _Writer:
    """Writes formulas; notes the symbols that occur with their numbers of arguments, and what logic is needed."""

    def __init__(self) -> None:
        self.symbols: dict[str, int] = {}
        self.is_quantified = False
        self.is_nonlinear = False

    @property
    def logic(self) -> str:
        """The smallest logic that holds the formulas; none for those with quantifiers of the user's own."""
        return "" if self.is_quantified else "QF_UFNIA" if self.is_nonlinear else LINEAR

    def formula(self, formula: Formula) -> str:
        match formula:
            case Compare("!=", left, right):
                return f"(not (= {self.expr(left)} {self.expr(right)}))"
            case Compare(op, left, right):
                return f"({op} {self.expr(left)} {self.expr(right)})"
            case And(()):
                return "true"
            case Or(()):
                return "false"
            case And(parts):
                return f"(and {' '.join(map(self.formula, parts))})"
            case Or(parts):
                return f"(or {' '.join(map(self.formula, parts))})"
            case Not(part):
                return f"(not {self.formula(part)})"
            case Exists(names, body) | Forall(names, body):
                self.is_quantified = True
                word = "exists" if isinstance(formula, Exists) else "forall"
                bound = " ".join(f"(|{variable_symbol(n)}| Int)" for n in names)
                return f"({word} ({bound}) {self.formula(body)})"
        raise InternalError(f"no obligation for {formula!r}")

    def expr(self, expr: Expr) -> str:
        match expr:
            case Num(value):
                return str(value) if value >= 0 else f"(- {-value})"
            case Var(name):
                symbol = variable_symbol(name)
                self.symbols[symbol] = 0
                return f"|{symbol}|"
            case Call(function, arguments):
                symbol = function_symbol(function)
                self.symbols[symbol] = len(arguments)
                return f"(|{symbol}| {' '.join(map(self.expr, arguments))})"
            case Bin("min" | "max" as op, left, right):
                a, b = self.expr(left), self.expr(right)
                return f"(ite ({'<=' if op == 'min' else '>='} {a} {b}) {a} {b})"
            case Bin(op, left, right):
                self.is_nonlinear |= op in _MULTIPLICATIVE and not _has_number(expr)
                return f"({_OPERATORS.get(op, op)} {self.expr(left)} {self.expr(right)})"
        raise InternalError(f"no obligation for {expr!r}")


def _has_number(expr: Bin) -> bool:
    return isinstance(expr.right, Num) or (expr.op == "*" and isinstance(expr.left, Num))
