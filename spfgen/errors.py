"""What can go wrong, who must act, and how it is said.

One class per person who can mend the matter; each has the exit code of the command line. The text reads
"expected ..., but ..." in the user's own words, then the line with a caret, then `note:` with the remedy.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

LONGEST_LINE = 110
"""Of a longer line of a text, so many characters are shown."""
UNPRINTABLE = "\N{REPLACEMENT CHARACTER}"


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of a source text: `line` and `column` count from 1; `end_column` is exclusive, on the same line."""

    file: str
    text: str
    line: int
    column: int
    end_column: int

    def show(self) -> str:
        """The line of the text with carets under the piece; of a long line what is around it, of binary data nothing
        that a terminal would obey."""
        lines = self.text.split("\n")
        if not 1 <= self.line <= len(lines):
            return ""
        line = "".join(c if c.isprintable() or c == "\t" else UNPRINTABLE for c in lines[self.line - 1].rstrip("\r"))
        column, end = self.column - 1, min(self.end_column - 1, len(line))
        if len(line) > LONGEST_LINE:
            begin = max(0, min(column - LONGEST_LINE // 3, len(line) - LONGEST_LINE))
            stop = min(len(line), begin + LONGEST_LINE)
            before, after = "..." * (begin > 0), "..." * (stop < len(line))
            line = f"{before}{line[begin:stop]}{after}"
            column, end = column - begin + len(before), min(end, stop) - begin + len(before)
        margin = "".join("\t" if c == "\t" else " " for c in line[:column])
        return f"    {line}\n    {margin}{'^' * max(1, end - column)}"


class SpfgenError(Exception):
    """Base class of all errors of spfgen. Not a dataclass: exceptions must stay mutable."""

    exit_code = 70
    title = "error"

    def __init__(self, message: str, span: Span | None = None, notes: tuple[str, ...] | list[str] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.span = span
        self.notes = tuple(notes)

    def __str__(self) -> str:
        parts = []
        if self.span is not None:
            parts.append(f"{self.span.file}:{self.span.line}:{self.span.column}: {self.message}")
            shown = self.span.show()
            if shown:
                parts.append(shown)
        else:
            parts.append(self.message)
        parts += [f"  note: {note}" for note in self.notes]
        return "\n".join(parts)


class CheckFailed(SpfgenError):
    """A computed result differs from the reference."""

    exit_code = 1
    title = "check failed"


class UsageError(SpfgenError):
    """The call itself is wrong: an unknown name, a missing argument, a file that would be overwritten."""

    exit_code = 2
    title = "usage"


class ConversionError(UsageError, TypeError):
    """numpy was given a tensor; a TypeError too, which is what numpy's functions raise for what they do not take."""


class ArgumentError(UsageError, ValueError):
    """A function of arrays was given what it does not take; a ValueError too, as numpy's."""


class SpecError(SpfgenError, ValueError):
    """A layout, program or schedule is wrong; the person who wrote it can mend it. A ValueError too, as numpy raises
    for shapes that do not fit."""

    exit_code = 3
    title = "error"


class SpecErrors(SpecError):
    """Several mistakes of one stage, reported together."""

    def __init__(self, errors: list[SpecError]) -> None:
        first = errors[0]
        super().__init__(first.message, first.span, first.notes)
        self.errors = tuple(errors)

    def __str__(self) -> str:
        return "\n".join(str(e) for e in self.errors)


class Unsupported(SpfgenError):
    """Right, but not compiled (yet), or not provable. Says which feature, and what to do instead."""

    exit_code = 4
    title = "unsupported"


class TooManyCases(Unsupported):
    """A product of `tensors`, each of which is stored in several ways."""

    def __init__(self, message: str, span: Span | None, notes: tuple[str, ...], tensors: tuple[str, ...]) -> None:
        super().__init__(message, span, notes)
        self.tensors = tensors


class ToolError(SpfgenError):
    """The C compiler failed or is missing; carries its command line and output."""

    exit_code = 5
    title = "C compiler"


class DataError(SpfgenError, ValueError):
    """Data do not fit: a wrong shape or dtype, an unreadable file, an array that breaks a declared property. A
    ValueError too, as numpy's."""

    exit_code = 6
    title = "bad data"


class CopyWarning(UserWarning):
    """Arrays that were passed could not be used in place, and were copied to another format."""


class DenseResultWarning(UserWarning):
    """A sparse result has an entry at every coordinate, so that it is as large as a dense array."""


def warn_of_copy(message: str) -> None:
    """A CopyWarning at the line of the user's that asked for it."""
    warn_user(message, CopyWarning)


def warn_user(message: str, category: type[Warning]) -> None:
    """A warning at the line of the user's that asked for what it is about."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "spfgen":
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level + 1)


class InternalError(SpfgenError):
    """A bug in spfgen. Please report it."""

    exit_code = 70
    title = "internal error (please report this)"


@contextmanager
def our_bugs(doing: str, notes: Callable[[], tuple[str, ...]]) -> Iterator[None]:
    """What fails in the body without being an error of ours is raised as an InternalError: what was done when it
    failed, where, and `notes`, which say what to report. An InternalError of a verifier gets these notes, too."""
    try:
        yield
    except InternalError as error:
        error.notes = error.notes or notes()
        raise
    except (SpfgenError, MemoryError):
        raise
    except Exception as error:
        import traceback

        frame = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{Path(frame.filename).parent.name}/{Path(frame.filename).name}:{frame.lineno}"
        reason = f" ({error})" if str(error) else ""
        raise InternalError(f"{doing} failed in {place}: {type(error).__name__}{reason}", None, notes()) from error


def said(value: object) -> str:
    """What is no array, in a sentence: `None`, `a dict`, `an object`."""
    return "None" if value is None else a_type(value)


def a_type(value: object) -> str:
    """The type of a value in a sentence: `a str`, `an int`, `an ndarray`."""
    name = type(value).__name__
    return f"{'an' if name.startswith(('a', 'e', 'i', 'o', 'nd')) else 'a'} {name}"
