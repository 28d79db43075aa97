"""The cache on disk of compiled kernels, so that a call made before needs neither isl nor Z3 nor the compiler.

It holds the C of a kernel with what its calls must know of the program. Names in the cache are hashes of all that
determines them: texts, types, and the files of spfgen, isl and Z3. The folder is ours alone (folder.py); where nothing
can be kept, everything is made anew.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from spfgen import folder
from spfgen.lang.nodes import Kernel
from spfgen.layout.nodes import SCALAR, Layout, as_entries

if TYPE_CHECKING:
    from spfgen.pipeline import Generated
    from spfgen.space.nodes import Program, Tensor

KERNELS = "kernels"


@dataclass(frozen=True)
class Compiled:
    """C, and the program that calls need: names, layouts and types of tensors, sizes and where they stand. From the
    disk it comes without statements.

    `whole` is one self-contained text, which calls compile; none where results are `refused`.
    """

    program: Program
    source: str
    header: str
    whole: str
    refused: bool = False


def compiled_of(generated: Generated) -> Compiled:
    """What calls need of all that the passes made."""
    refused = generated.refused is not None
    return Compiled(generated.program, generated.source, generated.header, generated.whole, refused)


def compiled(kernel: Kernel, layouts: Mapping[str, Layout]) -> Compiled:
    """The C of a kernel, generated when it was not before. Raises SpecError, Unsupported."""
    parts = [f"{name}: {layout.structure}" for name, layout in sorted(layouts.items())]
    key = folder.hash_of(repr(kernel), *parts, folder.fingerprint())
    data = folder.load(KERNELS, key)
    if data is not None:
        with suppress(Exception):  # what cannot be read was written by another Python: it is made anew
            loaded = pickle.loads(data)
            if isinstance(loaded, Compiled):
                return _with_layouts(loaded, layouts)
    from spfgen.pipeline import generate
    from spfgen.space.nodes import LoopSchedule, Steps

    generated = compiled_of(generate(kernel, layouts))
    generated = replace(generated, program=replace(generated.program, steps=Steps((), {}), schedule=LoopSchedule()))
    folder.save(KERNELS, key, pickle.dumps(generated))
    return generated


def _with_layouts(compiled_kernel: Compiled, layouts: Mapping[str, Layout]) -> Compiled:
    """The same with the layouts of this process, which calls tell by identity."""
    tensors = tuple(_with_layout(t, layouts.get(t.name, SCALAR)) for t in compiled_kernel.program.tensors)
    return replace(compiled_kernel, program=replace(compiled_kernel.program, tensors=tensors))


def _with_layout(tensor: Tensor, layout: Layout) -> Tensor:
    if tensor.assembled is not None:
        if tensor.layout.fill_text != layout.fill_text:  # a fill value that was computed
            layout = replace(layout, fill=tensor.layout.fill)
        return replace(tensor, layout=as_entries(layout), assembled=replace(tensor.assembled, layout=layout))
    return replace(tensor, layout=layout)
