"""Checks of what a kernel names: tensors, ranks, shares; scalars for what is not declared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from spfgen.errors import Span, SpecError
from spfgen.facts.formula import (
    calls,
    show,
)
from spfgen.ir import walk
from spfgen.lang import nodes as lang
from spfgen.lang.expressions import counted, did_you_mean, raise_all, there_are, word_in
from spfgen.lang.types import LIBRARY, has_meaning_in_c
from spfgen.lang.uses import accesses_in
from spfgen.layout.nodes import SCALAR, Layout


def accesses(value: lang.Value) -> Iterator[lang.Access]:
    return (n for n in walk(value) if isinstance(n, lang.Access))


def check_kernel_name(kernel: lang.Kernel) -> None:
    """The kernel becomes a name in C."""
    if has_meaning_in_c(kernel.name) or kernel.name in LIBRARY:
        message = f"expected a name for the kernel, but `{kernel.name}` has a meaning in C"
        hint = f"it becomes a name in C: choose another, for instance `my_{kernel.name.strip('_')}`"
        raise SpecError(message, kernel.span, (hint,))


def check_names(kernel: lang.Kernel) -> None:
    """The kernel's name means nothing in C; sizes are no scalars."""
    check_kernel_name(kernel)
    for access in accesses_in(kernel.statements):
        if access.tensor in kernel.sizes:
            message = f"expected a tensor or a number, but `{access.tensor}` is a size"
            raise SpecError(message, access.span, ("sizes occur in extents, subscripts and conditions",))


def unbounded(name: str, span: Span | None) -> SpecError:
    """A loop without an end."""
    return SpecError(
        f"expected bounds for `{name}`, but nothing bounds it: its loop would run for ever",
        span,
        (
            "an index gets its extent from a tensor in which it is a subscript by itself: `A[i, j]`",
            f"or say its range: `sum(0 <= {name} < 2: ...)`, in a loop `for {name} where 0 <= {name} and {name} < 2`",
        ),
    )


def with_scalars(kernel: lang.Kernel) -> list[lang.TensorDecl]:
    """The declared tensors, and a scalar for every name that is used without being declared."""
    result = list(kernel.tensors)
    names: set[str] = set()
    for declaration in result:
        if declaration.name in names or declaration.name in kernel.sizes:
            raise SpecError(
                f"expected a new name, but `{declaration.name}` is defined already",
                declaration.span,
                ("give it another name",),
            )
        names.add(declaration.name)
    for access in accesses_in(kernel.statements):
        if access.tensor not in names and not access.subscripts:
            names.add(access.tensor)
            use = lang.LayoutUse(SCALAR.name, span=access.span)
            result.append(lang.TensorDecl(access.tensor, use, span=access.span))
    return result


def check_use(access: lang.Access, layouts: Mapping[str, Layout]) -> list[SpecError]:
    """What is wrong with an access by itself."""
    errors: list[SpecError] = []
    layout = layouts.get(access.tensor)
    if layout is None:
        errors.append(
            SpecError(
                f"expected a tensor, but `{access.tensor}` is not declared",
                access.span,
                (f"declare it: `tensor {access.tensor} : dense`",),
            )
        )
    elif len(access.subscripts) != layout.rank:
        errors.append(
            SpecError(
                f"expected {counted(layout.rank, 'subscript')} of `{access.tensor}`, "
                f"but {there_are(len(access.subscripts))}",
                access.span,
                (f"its layout `{layout.name}` has rank {layout.rank}",),
            )
        )
    for subscript in access.subscripts:
        for call in calls(subscript):
            errors.append(
                SpecError(
                    f"expected an affine subscript, but `{show(call)}` is a call",
                    call.span,
                    ("index arrays belong to layouts: declare a layout whose relation holds the call",),
                )
            )
    return errors


def check_accesses(kernel: lang.Kernel, layouts: Mapping[str, Layout]) -> None:
    errors: list[SpecError] = []
    if not kernel.statements:
        errors.append(SpecError(f"expected a statement in kernel `{kernel.name}`, but there is none", kernel.span,
                                ("for instance `y[i] += A[i, j]*x[j]`",)))  # fmt: skip
    for access in accesses_in(kernel.statements):
        errors += check_use(access, layouts)
    names = {d.name for d in kernel.tensors}
    for declaration in kernel.tensors:
        shares = declaration.shares
        if shares is not None and (shares.tensor not in names or shares.tensor == declaration.name):
            what = "is the tensor itself" if shares.tensor == declaration.name else "is not one"
            others = ", ".join(sorted(names - {declaration.name})) or "none"
            errors.append(
                SpecError(
                    f"expected another tensor to share with, but `{shares.tensor}` {what}",
                    word_in(shares.span, shares.tensor),
                    (did_you_mean(shares.tensor, names - {declaration.name}) or f"the other tensors: {others}",),
                )
            )
        if shares is not None and not layouts[declaration.name].indexes:
            errors.append(
                SpecError(
                    f"expected a layout with index arrays to share, but `{layouts[declaration.name].name}` has none",
                    shares.span,
                    ("leave `shares` out: only index arrays can be shared",),
                )
            )
        if declaration.extents is not None and len(declaration.extents) != layouts[declaration.name].rank:
            errors.append(
                SpecError(
                    f"expected {counted(layouts[declaration.name].rank, 'extent')} of `{declaration.name}`, "
                    f"but {there_are(len(declaration.extents))}",
                    declaration.span,
                    (f"its layout `{layouts[declaration.name].name}` has rank {layouts[declaration.name].rank}",),
                )
            )
    raise_all(errors)
