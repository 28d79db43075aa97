"""How many threads a call may use."""

from __future__ import annotations

import operator
import os

from spfgen.errors import UsageError

MOST_THREADS = max(1024, 8 * (os.cpu_count() or 1))
"""More are a mistake; OpenMP ends the process when the system refuses to start them."""


class Forks:
    """GNU OpenMP does not survive a fork: a child of a process that has used threads would wait for them for ever.

    `process` is another object in each process: what was asked in one need not be asked there again.
    """

    parallel = False
    child_of_parallel = False
    process = object()

    @classmethod
    def after_in_child(cls) -> None:
        cls.child_of_parallel = cls.parallel or cls.child_of_parallel
        cls.process = object()


os.register_at_fork(after_in_child=Forks.after_in_child)


def threads_allowed(wanted: int) -> int:
    """That many threads (0: OpenMP's choice), or one where no more can be used; to be asked before the first call
    in a process."""
    if Forks.child_of_parallel:
        return 1
    if wanted != 1:
        Forks.parallel = True
    return wanted


def threads_by_default() -> int:
    """What OMP_NUM_THREADS says (the first of `4,2`, which are for loops in loops), else all processors."""
    text = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    return int(text) if text.isascii() and text.isdigit() and 0 < int(text) < 2**31 else os.cpu_count() or 1


def checked_threads(threads: int | None) -> int | None:
    """Raises UsageError when it is no number of threads."""
    if threads is None:
        return None
    try:
        number = operator.index(threads)
    except TypeError:
        raise UsageError(f"expected a number of threads, but it is {threads!r}") from None
    if not 1 <= number <= MOST_THREADS:
        raise UsageError(f"expected from 1 to {MOST_THREADS} threads, but it is {number}")
    return number
