"""What is asked of Z3: answers, counterexamples, scripts, who hears of them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from spfgen.facts import prove
from spfgen.facts.formula import (
    ONE,
    ZERO,
    Bin,
    Call,
    Compare,
    Exists,
    Forall,
    Formula,
    Num,
    Or,
    Var,
    calls,
    chain,
    evaluate,
    implies,
    substitute,
    within,
)
from spfgen.facts.prove import Answer, Facts, implied, recorded, remembered, smaller, unique

P, Q, N = Var("p"), Var("q"), Var("n")


def f(argument) -> Call:
    return Call("f", (argument,))


RISING = Facts(
    (Forall(("p", "q"), implies(Compare("<", P, Q), Compare("<=", f(P), f(Q)))),),
    {"f": (N,)},
)
NOTHING = Facts((), {"f": (N,)})
WITHIN = [within(P, ZERO, N), within(Q, ZERO, N), Compare("<", P, Q)]


@pytest.fixture(autouse=True)
def fresh(tmp_path, monkeypatch):
    """No answer is known."""
    monkeypatch.setenv("SPFGEN_CACHE_DIR", str(tmp_path / "kept"))
    monkeypatch.delenv("SPFGEN_CACHE", raising=False)
    prove._verdict.cache_clear()


def test_proved() -> None:
    answer = implied(WITHIN, RISING, Compare("<=", f(P), f(Q)), about="f rises")
    assert (answer.word, answer.proved, answer.model, answer.values) == ("proved", True, None, ())
    assert (answer.about, answer.goal) == ("f rises", "f(p) <= f(q)")
    assert (answer.assumptions, answer.instances > 0) == (3, True)
    assert answer.seconds > 0


def test_refuted_with_values_of_names_and_calls() -> None:
    """The counterexample makes every assumption true and the goal false, as `smaller` shows it."""
    goal = Compare("<", f(Bin("+", P, Num(1))), f(Bin("min", Q, Num(7))))
    assumptions = [*WITHIN, Compare(">", f(P), Num(2)), Compare("!=", f(P), f(Q))]
    answer = implied(assumptions, RISING, goal)
    assert answer.word == "refuted"
    small = smaller(answer)
    names, values = dict(small.model or ()), dict(small.values)
    assert set(values) == {"f(p)", "f(q)", "f(p + 1)", "f(min(q, 7))"}
    at = {
        evaluate(call.arguments[0], names.__getitem__, lambda *_: 0): values[text]
        for formula in (*assumptions, goal)
        for call in calls(formula)
        for text in [prove.show(call)]
    }

    def holds(formula: Formula, names=names, at=at) -> bool:
        if not isinstance(formula, Compare):
            return all(holds(part) for part in formula.parts)  # type: ignore[attr-defined]
        sides = [evaluate(e, names.__getitem__, lambda _, a: at[a[0]]) for e in (formula.left, formula.right)]
        return {"<": sides[0] < sides[1], "<=": sides[0] <= sides[1], ">": sides[0] > sides[1]}.get(
            formula.op, sides[0] != sides[1]
        )

    assert all(map(holds, assumptions))
    assert not holds(goal)
    assert all(abs(value) <= 4 for _, value in small.model or ())


def test_questions_that_differ_in_names_alone_are_one() -> None:
    """The second one is answered by the first, in its own names; one of another form is not."""
    asked = {"p": Var("s"), "q": Var("p"), "n": Var("extent")}
    other = Facts(RISING.formulas, {"f": (asked["n"],)})
    goal = Compare("<", f(P), f(Q))
    first, second = (
        implied(WITHIN, RISING, goal),
        implied([substitute(w, asked) for w in WITHIN], other, substitute(goal, asked)),
    )
    assert (first.cached, second.cached) == (False, True)
    assert first.word == second.word == "refuted"
    named = {"p": "s", "q": "p", "n": "extent"}
    assert second.model == tuple(sorted((named[n], v) for n, v in first.model or ()))
    assert "|extent|" in second.text
    assert not implied(WITHIN, RISING, Compare("<", f(Q), f(P))).cached


def test_smaller_keeps_what_has_no_small_counterexample() -> None:
    answer = implied([Compare(">", P, Num(10**6))], NOTHING, Compare("<", P, ZERO))
    assert smaller(answer) == answer
    assert dict(answer.model or ())["p"] > 10**6
    proved = implied([], NOTHING, Compare("=", P, P))
    assert smaller(proved) == proved


def test_calls_of_quantified_variables_have_no_value() -> None:
    some = Exists(("q",), chain(ZERO, "<", f(Q)))
    answer = implied([some, Compare("=", f(P), ONE)], NOTHING, Or(()))
    assert [text for text, _ in smaller(answer).values] in (["f(p)"], [])
    assert answer.word in ("refuted", "unknown")


def test_unknown(monkeypatch) -> None:
    monkeypatch.setattr(prove, "RESOURCES", 2000)
    cubes = [Bin("*", Bin("*", v, v), v) for v in (P, Q, N)]
    assumptions = [*(Compare(">", v, ZERO) for v in (P, Q, N))]
    answer = implied(assumptions, NOTHING, Compare("!=", Bin("+", cubes[0], cubes[1]), cubes[2]))
    assert (answer.word, answer.model, answer.values) == ("unknown", None, ())


def test_a_search_without_end_is_given_up_and_not_kept(monkeypatch) -> None:
    monkeypatch.setattr(prove, "RESOURCES", 1_000_000_000)
    monkeypatch.setattr(prove, "SECONDS", 1)
    kept: list[object] = []
    monkeypatch.setattr(prove.answers, "save", lambda key, verdict: kept.append(verdict))
    cubes = [Bin("*", Bin("*", v, v), v) for v in (P, Q, N)]
    assumptions = [*(Compare(">", v, ZERO) for v in (P, Q, N))]
    answer = implied(assumptions, NOTHING, Compare("!=", Bin("+", cubes[0], cubes[1]), cubes[2]))
    assert (answer.word, kept) == ("unknown", [])


def test_thorough_takes_the_time_of_all_questions_and_is_recorded_once(monkeypatch) -> None:
    seen: list[int] = []
    ask = prove._ask
    monkeypatch.setattr(prove, "_ask", lambda *a, rounds: seen.append(rounds) or ask(*a, rounds=rounds))
    with recorded() as answers:
        answer = implied(WITHIN, RISING, Compare("<", P, ZERO), thorough=True)
    assert seen == [0, 1, 2]
    assert answers == [answer]
    assert not answer.cached


# --- the script ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("assumption", "logic"),
    [
        (Compare("<", Bin("*", Num(2), P), Q), "QF_UFLIA"),
        (Compare("<", Bin("*", P, Q), Q), "QF_UFNIA"),
        (Forall(("q",), Compare("<", P, Q)), ""),
    ],
)
def test_script_is_complete(assumption, logic) -> None:
    text = implied([assumption], NOTHING, Compare("<", P, Num(-3))).text
    assert text.startswith(f"(set-logic {logic})\n" if logic else "(declare-fun")
    assert text.endswith("(check-sat)\n")
    assert text.count("(assert ") == 2
    assert "(not (< |p| (- 3)))" in text
    assert text.count("(") == text.count(")")


@pytest.mark.parametrize(("goal", "word"), [(Compare("<=", f(P), f(Q)), "unsat"), (Compare("<", f(P), f(Q)), "sat")])
def test_the_command_of_z3_agrees(tmp_path, goal, word) -> None:
    command = shutil.which("z3") or shutil.which("z3", path=str(Path(sys.executable).parent))
    if command is None:
        pytest.skip("there is no command z3")
    file = tmp_path / "a.smt2"
    file.write_text(implied(WITHIN, RISING, goal).text)
    assert subprocess.run([command, str(file)], capture_output=True, text=True).stdout.split() == [word]


def test_library_takes_the_whole_script() -> None:
    """What is kept is what was asked: Z3 reads the same script again."""
    import z3

    for goal, word in ((Compare("<=", f(P), f(Q)), "unsat"), (Compare("<", f(P), f(Q)), "sat")):
        text = implied(WITHIN, RISING, goal).text
        context = z3.Context()  # lives as long as the question
        assert z3.Z3_eval_smtlib2_string(context.ref(), text).strip() == word


# --- who hears of it -----------------------------------------------------------------------------------


def test_recorded_holds_remembered_answers_too() -> None:
    goal = Compare("<=", f(P), f(Q))
    with recorded() as outer:
        first = implied(WITHIN, RISING, goal, about="once")
        with recorded() as inner:
            second = implied(WITHIN, RISING, goal, about="twice")
    assert implied(WITHIN, RISING, goal).cached
    assert inner == [second]
    assert outer == [first, second]
    assert (first.cached, second.cached) == (False, True)
    assert (first.text, first.seconds) == (second.text, second.seconds)
    assert (first.about, second.about) == ("once", "twice")
    prove._verdict.cache_clear()
    assert implied(WITHIN, RISING, goal).cached, "from the disk"


def test_recorded_ends_with_an_error() -> None:
    with pytest.raises(KeyError), recorded() as lost:
        raise KeyError
    implied([], NOTHING, Compare("=", P, P))
    assert lost == []


def test_remembered_asks_once_and_is_recorded_each_time() -> None:
    runs = []

    @remembered
    def question(number: int) -> Answer:
        runs.append(number)
        return implied([Compare("=", P, Num(number))], NOTHING, Compare("<", P, Num(5)), about="small")

    with recorded() as answers:
        assert question(3).proved
        assert question(3).proved
        assert not question(7).proved
    assert runs == [3, 7]
    assert [(a.proved, a.cached) for a in answers] == [(True, False), (True, True), (False, False)]
    with recorded() as answers:
        question(7)
    assert [a.cached for a in answers] == [True]
    question.cache_clear()
    question(3)
    assert runs == [3, 7, 3]


def test_unique_keeps_the_first() -> None:
    one, again = (Answer("g", True, None, s, "why", "text", cached=bool(s)) for s in (0, 1))
    other = Answer("g", True, None, 0, "another reason", "text")
    assert unique([one, other, again]) == (one, other)
    assert unique([again, one, other]) == (again, other)


# --- speed ---------------------------------------------------------------------------------------------

PROGRAM = """
import sys
from spfgen import parse
text = "kernel k { tensor A : bcsr tensor B : coo tensor C : dense  C[i, k] += A[i, j]*B[j, k] }"
obligations = parse(text).kernels["k"].compile().generated.obligations
assert obligations
print("z3" in sys.modules, all(a.cached for a in obligations), len(obligations))
"""


def test_z3_is_not_imported_for_known_answers() -> None:
    """Scripts are the same in every process, whatever the order of its sets."""
    printed = []
    for seed in ("1", "2", "3"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, env=environment)
        assert done.returncode == 0, done.stderr
        printed.append(done.stdout.split())
    assert printed[0][:2] == ["True", "False"]
    assert [p[:2] for p in printed[1:]] == [["False", "True"]] * 2


def test_version_is_that_of_the_library() -> None:
    import z3

    found = prove.z3_version()
    assert re.sub(r"[^0-9.]", "", found.replace("z3_solver", "").replace("dist-info", "")).startswith(
        z3.get_version_string()
    )
