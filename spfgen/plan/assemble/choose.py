"""How a result is assembled: by one key of each entry where its layout has one, else step by step."""

from __future__ import annotations

from contextlib import suppress

from spfgen.errors import Unsupported
from spfgen.plan.assemble.by_key import KeyAssembly, assembly_by_key
from spfgen.plan.assemble.check import check_key
from spfgen.plan.assemble.forms import number_of_group
from spfgen.plan.assemble.from_pack_plan import assembly_of as by_steps
from spfgen.plan.assemble.nodes import Assembly
from spfgen.space.nodes import Tensor


def assembly_of(tensor: Tensor) -> KeyAssembly | Assembly:
    """Of a tensor whose pattern is computed. Raises Unsupported where C cannot make it."""
    if tensor.assembled is None:
        raise Unsupported(f"the pattern of `{tensor.name}` is given")
    assembly = assembly_by_key(tensor)
    if not isinstance(assembly, KeyAssembly):
        return by_steps(tensor.assembled.layout)
    check_key(assembly.key, assembly.tree, number_of_group(assembly.key))
    return assembly


def assembly_by_steps(tensor: Tensor) -> Assembly | None:
    """The way that asks nothing of extents; None where there is none."""
    with suppress(Unsupported):
        return None if tensor.assembled is None else by_steps(tensor.assembled.layout)
    return None
