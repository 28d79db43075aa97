"""How many threads a call may use."""

from __future__ import annotations

import os


class _Forks:
    """GNU OpenMP does not survive a fork: a child of a process that has used threads would wait for them for ever."""

    parallel = False
    child_of_parallel = False

    @classmethod
    def after_in_child(cls) -> None:
        cls.child_of_parallel = cls.parallel or cls.child_of_parallel


os.register_at_fork(after_in_child=_Forks.after_in_child)


def threads_allowed(wanted: int) -> int:
    """That many threads (0: OpenMP's choice), or one where no more can be used; to be asked right before a call."""
    if _Forks.child_of_parallel:
        return 1
    if wanted != 1 and not _Forks.parallel:  # to set it again would take longer than to ask
        _Forks.parallel = True
    return wanted


def threads_by_default() -> int:
    """What OMP_NUM_THREADS says (the first of `4,2`, which are for loops in loops), else all processors."""
    text = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    return int(text) if text.isascii() and text.isdigit() and 0 < int(text) < 2**31 else os.cpu_count() or 1
