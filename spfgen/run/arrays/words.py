"""What numpy finds wrong with arguments, in an error of ours that is one of numpy's kind, too."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from spfgen.errors import ArgumentError, ConversionError, SpfgenError, UsageError


class TooLarge(UsageError, OverflowError):
    """A number that a type does not hold; an OverflowError too, as numpy's."""


@contextmanager
def in_words(name: str) -> Iterator[None]:
    """What numpy's function of that name raises is raised as an error of ours."""
    try:
        yield
    except SpfgenError:
        raise
    except TypeError as error:
        raise ConversionError(_said(name, error)) from None
    except ValueError as error:
        raise ArgumentError(_said(name, error)) from None
    except OverflowError as error:
        raise TooLarge(_said(name, error)) from None


def _said(name: str, error: Exception) -> str:
    return f"expected what numpy.{name} takes, but numpy says: {' '.join(str(error).split())}"
