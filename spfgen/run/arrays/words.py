"""What is wrong with arguments of functions, in errors of ours that are of the kind that numpy raises, too."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from spfgen.errors import ArgumentError, ConversionError, DataError, SpfgenError, UsageError

P = ParamSpec("P")
R = TypeVar("R")


class NumberTooLarge(UsageError, OverflowError):
    """A number that a type does not hold; an OverflowError too, as numpy's."""


class OutOfRange(UsageError, IndexError):
    """A subscript outside of the extents; an IndexError too, as numpy's."""


KINDS = (
    (IndexError, OutOfRange),
    (TypeError, ConversionError),
    (ValueError, ArgumentError),
    (OverflowError, NumberTooLarge),
)


@contextmanager
def in_words(name: str) -> Iterator[None]:
    """What fails in numpy's function of that name, or in ours, is raised as an error of ours."""
    try:
        yield
    except SpfgenError:
        raise
    except MemoryError as error:
        raise DataError(f"expected a result that fits in memory, but {' '.join(str(error).split())}") from None
    except tuple(k for k, _ in KINDS) as error:
        error_class = next(error_class for kind, error_class in KINDS if isinstance(error, kind))
        raise error_class(f"expected arguments that numpy.{name} takes, but {' '.join(str(error).split())}") from None


def worded(function: Callable[P, R]) -> Callable[P, R]:
    """The function, whose wrong arguments are said in our words."""

    @wraps(function)
    def inner(*arguments: P.args, **options: P.kwargs) -> R:
        with in_words(function.__name__):
            return function(*arguments, **options)

    return inner


def integer(value: Any, name: str) -> int:
    """Raises ConversionError for what is none."""
    try:
        return operator.index(value)
    except TypeError:
        raise ConversionError(f"expected an integer as {name}, but it is {value!r}") from None
