"""The target: what C says of threads, vectors and unrolling, in pragmas of OpenMP and of gcc. Nothing else knows them.

Another target has a module like this one, and pieces of rt/ (`spfgen_thread`, `spfgen_threads`) of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from spfgen.cir.tree import nodes as c

ATOMIC, ATOMIC_WRITE, CRITICAL = c.Pragma("omp atomic"), c.Pragma("omp atomic write"), c.Pragma("omp critical")
"""Before a statement: no other thread changes the place meanwhile; one thread at a time."""
SIMD = "omp simd"
"""Before a loop whose iterations run side by side on one thread."""
HERE = c.Call("spfgen_thread", ())
"""The number of the thread that asks."""
HEAD = """#ifdef _OPENMP
#include <omp.h>
#else
#pragma GCC diagnostic ignored "-Wunknown-pragmas"
#endif"""
"""What a file begins with that has such pragmas; without OpenMP they say nothing, and all runs on one thread."""
_UNROLL = "GCC unroll"
_TEAM = re.compile(r"omp parallel (?:for schedule\([a-z: ]+, 1\) )?num_threads\((\w+)\)")


def parallel_for(threads: str, schedule: str = "", clauses: str = "", simd: bool = False, collapse: int = 1) -> str:
    """Before a loop that so many threads share: in equal parts ("static"), ... `clauses` come last; `collapse` loops
    run as one."""
    words = ["omp parallel for", *(["simd"] if simd else []), *([f"collapse({collapse})"] if collapse > 1 else [])]
    words += [scheduled(schedule)] if schedule else []
    return " ".join([*words, f"num_threads({threads})"]) + (f" {clauses}" if clauses else "")


def one_each(threads: str) -> str:
    """Before a loop over parts, of which each thread takes those that its number says."""
    return parallel_for(threads, "static, 1")


def team(threads: str) -> str:
    """Before a loop that each thread of a team runs."""
    return f"omp parallel num_threads({threads})"


def own_copies(names: Iterable[str]) -> str:
    """A clause: each thread has its own of these, which begin as they are before."""
    return f"firstprivate({', '.join(names)})"


def scheduled(how: str) -> str:
    """A clause: which iterations each thread takes."""
    return f"schedule({how})"


def combined(op: str, *names: str) -> str:
    """A clause: what the threads have of these variables is combined by the operator."""
    return f"reduction({op}:{', '.join(names)})"


def simd_sums(names: Iterable[str]) -> str:
    """Before a loop that adds to these by vectors."""
    return f"{SIMD} reduction(+:{', '.join(names)})"


def unroll(times: int) -> str:
    """Before a loop that compilers are to unroll."""
    return f"{_UNROLL} {times}"


def stays_on_one_thread(pragma: str) -> bool:
    """Whether the loop below does."""
    return pragma.startswith((SIMD, _UNROLL))


def is_parallel(pragma: str) -> bool:
    """Whether threads are started."""
    return "parallel" in pragma


def size_of_team(pragma: str) -> str:
    """How many threads share the loop over parts below, a name; "" where that is something else."""
    match = _TEAM.fullmatch(pragma)
    return match[1] if match else ""


def starts_threads(text: str) -> bool:
    """Whether a piece of C has such pragmas."""
    return "#pragma omp" in text


EQUAL_PARTS = parallel_for("threads", "static")
"""Before a loop that threads share in equal parts."""
IN_TURN = parallel_for("threads", "monotonic: dynamic, 1")
"""Before a loop over parts: a thread that is done takes the next one, a later one, as what finds keep from part to part
must only go on."""
