"""The functions of a kernel whose results are made in their layouts: the list of entries stays within the file.

int NAME(operands, results, sizes, threads)
int NAME_in(operands, results, sizes, threads, memory)      with the caller's allocator
void STRUCT_free(result), STRUCT_free_in(result, memory)    in the header, for each struct that is made
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from types import MappingProxyType

from spfgen.cir.lower.assemble import AssemblyTarget, assemble_functions
from spfgen.cir.lower.by_key import functions_by_key, functions_in_place
from spfgen.cir.lower.copied import copying_function, of_sizes, shared_check
from spfgen.cir.lower.layout import FIELD, field_name, final_structs, free_name, structs
from spfgen.cir.tree import nodes as c
from spfgen.cir.tree.build import any_of, folded, joined
from spfgen.cir.tree.names import parameters
from spfgen.facts.formula import Var
from spfgen.ir import fresh
from spfgen.lang.types import TYPES
from spfgen.plan.assemble import Assembled
from spfgen.plan.assemble.by_key import KeyAssembly
from spfgen.plan.assemble.choose import assembly_by_steps, assembly_of
from spfgen.plan.assemble.forms import PlacedAssembly, form_of
from spfgen.plan.assemble.in_place import unwrapped
from spfgen.plan.nodes import Plan
from spfgen.space.nodes import Program, Tensor

ALLOCATOR = "const spfgen_allocator *"


@dataclass(frozen=True)
class Interface:
    """What the header shows: structs by tensor, functions. What the file has besides: structs of lists, and functions,
    of which those that the header shows are the last ones."""

    structs: Mapping[str, c.Struct]
    lists: tuple[c.Struct, ...]
    shown: tuple[c.Function, ...]
    functions: tuple[c.Function, ...]
    freed: tuple[c.Struct, ...]
    assemblies: Mapping[str, Assembled]
    bare: frozenset[str] = frozenset()
    """Results that are made where they come without arrays."""


@dataclass(frozen=True)
class PatternMaker:
    """What makes a result alone: its program, and its functions, the last of which takes an allocator."""

    program: Program
    functions: tuple[c.Function, ...]
    interface: Interface

    def fits(self, program: Program) -> bool:
        """Whether a kernel can call it: it has the structs and the sizes that it is called with."""
        own, theirs = self.interface.structs, final_structs(program)
        same = all(theirs.get(name) == struct for name, struct in own.items())
        return same and {*self.program.parameters} <= {*program.parameters} and not self.program.levels


def interface(
    program: Program,
    function: c.Function,
    rooms: Mapping[str, tuple[str, str]],
    plans: Sequence[Plan],
    patterns: Mapping[str, PatternMaker] = MappingProxyType({}),
) -> Interface:
    """`rooms` are the functions that make room for entries that go to their place at once; `patterns` make results that
    come without arrays. Raises Unsupported where a layout has no assembly in C."""
    results = [t for t in program.tensors if t.assembled is not None]
    shown, listed = final_structs(program), structs(program)
    taken = {program.name, *(n for names in rooms.values() for n in names)}
    taken |= {s.name for s in (*shown.values(), *listed.values())}

    def new(wanted: str) -> str:
        name = fresh(wanted, taken)
        taken.add(name)
        return name

    kernel = replace(function, name=new(f"{program.name}_loops"), doc="", static=True)
    assemblies: dict[str, Assembled] = {}
    functions: list[c.Function] = [kernel]
    placed = {t: n for p in plans for t, n in unwrapped(p).items()}
    makers: dict[str, str] = {}
    for tensor in results:
        assembly = assemblies[tensor.name] = assembly_of(tensor)
        name = makers[tensor.name] = new(f"{program.name}_{tensor.name}")
        struct = shown[tensor.name].name
        types = TYPES[tensor.value_type], TYPES[tensor.entry_type], dict(tensor.final_types)
        target = AssemblyTarget(struct, *types, tensor.entries.axis)
        form = form_of(tensor, placed[tensor.name].how) if tensor.name in placed else None
        by_steps = ""
        if isinstance(assembly, KeyAssembly) and (assembly.may_be_wide if form is None else form.may_be_wide):
            steps = assembly_by_steps(tensor)
            by_steps = "" if steps is None else new(f"{name}_by_steps")
            functions += [] if steps is None else assemble_functions(steps, target, by_steps, taken)
        if form is not None:
            assert isinstance(assembly, KeyAssembly)
            plan = placed[tensor.name]
            before, after = functions_in_place(form, struct, rooms[tensor.name], name, plan, by_steps)
            functions = [*before, *functions, *after]
            assemblies[tensor.name] = PlacedAssembly(assembly, plan)
        elif isinstance(assembly, KeyAssembly):
            functions += functions_by_key(assembly, struct, name, by_steps)
        else:
            functions += assemble_functions(assembly, target, name, taken)
    appends = {t.name for t in results if _takes_rows(assemblies[t.name], t)}
    copies = _copies(program, shown, patterns, new)
    there = {f.name for f in functions}  # what is whole when its entries are in their places has none
    makers = {t: n for t, n in makers.items() if n in there} | {t: f.name for t, f in copies.items()}
    caller = _Caller(program, shown, listed, kernel, makers, new(f"{program.name}_in"), appends, rooms.keys(), patterns)
    inner = caller.function(function.doc)
    outer = _plain(program, inner)
    before = [replace(f, doc="", static=True) for m in patterns.values() for f in m.functions]
    own = [listed[t.name] for t in results]
    lists = tuple(dict.fromkeys([*(s for m in patterns.values() for s in m.interface.lists), *own]))
    freed = tuple(dict.fromkeys(shown[t.name] for t in caller.results))
    whole = (*before, *functions, *copies.values(), inner, outer)
    bare = frozenset(t.name for t in caller.results if caller.may_be_bare(t))
    return Interface(shown, lists, (outer, inner), whole, freed, assemblies, bare)


def _copies(
    program: Program,
    shown: Mapping[str, c.Struct],
    patterns: Mapping[str, PatternMaker],
    new: Callable[[str], str],
) -> dict[str, c.Function]:
    """Of results that have index arrays of others: what copies these, or compares those of one that is made."""
    found = {}
    for tensor in program.tensors:
        if tensor.copied or tensor.borrows:
            found[tensor.name] = copying_function(program, tensor, shown, new(f"{program.name}_{tensor.name}"))
        elif tensor.name in patterns and tensor.shared_with is not None:
            found[tensor.name] = shared_check(program, tensor, shown, new(f"{program.name}_{tensor.name}"))
    return found


def _takes_rows(assembly: Assembled, tensor: Tensor) -> bool:
    return (
        isinstance(assembly, KeyAssembly)
        and assembly.tree is not None
        and assembly.tree.takes_rows(tensor.entries.common)
    )


class _Caller:
    """The function with an allocator: it runs the kernel and makes the results."""

    def __init__(
        self,
        program: Program,
        shown: Mapping[str, c.Struct],
        listed: Mapping[str, c.Struct],
        kernel: c.Function,
        makers: Mapping[str, str],
        name: str,
        appends: Set[str] = frozenset(),
        placed: Set[str] = frozenset(),
        patterns: Mapping[str, PatternMaker] = MappingProxyType({}),
    ) -> None:
        self.appends, self.placed, self.patterns = appends, placed, patterns
        self.program, self.shown, self.listed, self.kernel, self.makers, self.name = (
            program, shown, listed, kernel, makers, name,
        )  # fmt: skip
        self.names = parameters(program)
        self.taken = {name, *(p.name for p in kernel.params), *self.names.values()}
        self.results = owners_first([t for t in program.tensors if t.is_made or self.may_be_bare(t)])
        self.assembled = [t for t in self.results if t.assembled is not None]
        self.lists = {t.name: self.new(f"{t.name}_list") for t in self.assembled}
        self.made = {t.name: self.new(f"{t.name}_made") for t in self.results}
        self.memory, self.status = self.new("memory"), self.new("status")
        self.at_most = False

    def new(self, wanted: str) -> str:
        name = fresh(wanted, self.taken)
        self.taken.add(name)
        return name

    def function(self, doc: str) -> c.Function:
        params = []
        for p, tensor in zip(self.kernel.params, self.program.tensors, strict=False):
            type_ = (
                p.type.replace(self.listed[tensor.name].name, self.shown[tensor.name].name)
                if tensor in self.results
                else p.type
            )
            params.append(c.Param(type_, p.name, self.role(tensor, p.doc)))
        params += self.kernel.params[len(self.program.tensors) :]
        params.append(c.Param(ALLOCATOR, self.memory, "where the arrays of results come from; NULL: malloc"))
        status = c.Name(self.status)
        lines: list[c.Stmt] = [
            c.If(any_of([c.Un("!", c.Name(n)) for n in self.names.values()]), c.Return(c.Name("SPFGEN_ERROR_NULL")))
        ]
        for tensor in self.results:
            lines += self.begun(tensor)
        lines.append(c.Declare("int", self.status, c.Name("SPFGEN_OK")))
        lines += [self.copied(t, status) for t in self.results if t.assembled is None]
        inside = {t.name: self.made[t.name] for t in self.results} | self.lists
        given: list[c.Expr] = [c.Name(inside.get(t.name, self.names[t.name])) for t in self.program.tensors]
        given += [c.Name(p.name) for p in self.kernel.params[len(self.program.tensors) :]]
        lines.append(self.after(status, c.Call(self.kernel.name, tuple(given))))
        for tensor in self.assembled:
            entries = c.Un("&", c.Field(c.Name(self.lists[tensor.name]), FIELD))
            passed = (entries, c.Name(self.made[tensor.name]), c.Name("threads"), c.Name(self.memory))
            if tensor.name in self.makers:
                lines.append(self.after(status, c.Call(self.makers[tensor.name], passed)))
            lines.append(c.Do(c.Call("spfgen_appended_free", (entries,))))
        failed = [self.freed(t) for t in self.results]
        done = [
            c.Assign(c.Un("*", c.Name(self.names[t.name])), "=", c.Un("*", c.Name(self.made[t.name])))
            for t in self.results
        ]
        lines.append(c.If(c.Bin("!=", status, c.Name("SPFGEN_OK")), c.Block((*failed, c.Return(status)))))
        lines += [*done, c.Return(c.Name("SPFGEN_OK"))]
        which = " and ".join(self.names[t.name] for t in self.results)
        text = doc.replace("nothing has been written.", self.after_errors(which))
        text += "\n\nArrays of results are new ones; what a result held before is not given back."
        text += "".join(self.unknown(t) for t in self.results)
        return c.Function("int", self.name, tuple(params), c.Block(tuple(lines)), text)

    @staticmethod
    def after(status: c.Expr, call: c.Expr) -> c.Stmt:
        """The call, unless one before it has failed."""
        return c.If(c.Bin("==", status, c.Name("SPFGEN_OK")), c.Block((c.Assign(status, "=", call),)))

    def may_be_bare(self, tensor: Tensor) -> bool:
        """Whether it may come without arrays."""
        return tensor.borrows or tensor.name in self.patterns

    def role(self, tensor: Tensor, otherwise: str) -> str:
        if tensor.name in self.patterns:
            return "result: without arrays, it is made"
        if tensor.borrows:
            return f"result: without arrays, it is made with the index arrays of {tensor.shared_with}"
        return "result: all of it is made" if tensor.is_made else otherwise

    def copied(self, tensor: Tensor, status: c.Expr) -> c.Stmt:
        """Makes a result over copies of index arrays, or one whose pattern others have."""
        if tensor.name in self.patterns:
            calls = [self.after(status, call) for call in self.pattern_calls(tensor)]
            return c.If(self.is_bare(tensor), c.Block(tuple(calls)))
        owner = tensor.shared_with or ""
        given = c.Name(self.made.get(owner, self.names[owner]))
        made = c.Call(self.makers[tensor.name], (given, c.Name(self.made[tensor.name]), c.Name(self.memory)))
        copied = self.after(status, made)
        return c.If(self.is_bare(tensor), c.Block((copied,))) if tensor.borrows else copied

    def pattern_calls(self, tensor: Tensor) -> Iterator[c.Expr]:
        """Of the kernel that makes it, and of what compares it with the owner of arrays that it shares."""
        program = self.patterns[tensor.name].program
        made = c.Name(self.made[tensor.name])
        tensors = [made if t.name == tensor.name else c.Name(self.names[t.name]) for t in program.tensors]
        values = self.kernel.params[len(self.program.tensors) :]
        sizes = [c.Name(values[self.program.parameters.index(p)].name) for p in program.parameters]
        function = self.patterns[tensor.name].functions[-1].name
        yield c.Call(function, (*tensors, *sizes, c.Name("threads"), c.Name(self.memory)))
        if tensor.shared_with:
            yield c.Call(self.makers[tensor.name], (c.Name(self.names[tensor.shared_with]), made))

    def is_bare(self, tensor: Tensor) -> c.Expr:
        """Whether the caller gives no arrays of it."""
        result = c.Name(self.names[tensor.name])
        return joined("&&", [c.Un("!", c.Field(result, field_name(a))) for a in tensor.layout.arrays])

    def after_errors(self, which: str) -> str:
        """What other results hold when a result cannot be assembled: they are complete by then, or on the way."""
        others = [self.names[t.name] for t in self.program.tensors if t.is_output and t not in self.results]
        if not others:
            return f"nothing has been written, and {which} holds what it held."
        late = "SPFGEN_ERROR_INDEX, SPFGEN_ERROR_PLACE or SPFGEN_ERROR_MEMORY"
        return f"{which} holds what it held, and {' and '.join(others)}, too, except after {late}."

    def unknown(self, tensor: Tensor) -> str:
        """Extents that the caller sets, or may set."""
        must: list[str] = []
        may: list[str] = []
        for parameter, extent in zip(tensor.layout.parameters, tensor.extents, strict=True):
            self.at_most = False
            value = self.size(extent, set())
            listed = must if value is None else may if self.at_most else []
            listed.append(f"{self.names[tensor.name]}->{field_name(parameter)}")
        text = f" Set {' and '.join(must)} before the call: nothing else says it." if must else ""
        largest = f" Where {' and '.join(may)} is 0 before the call it is the largest one (below 0: none)."
        return text + largest if may else text

    def freed(self, tensor: Tensor) -> c.Stmt:
        free = free_name(self.shown[tensor.name]) + "_in"
        freed = c.Do(c.Call(free, (c.Name(self.made[tensor.name]), c.Name(self.memory))))
        return c.If(self.is_bare(tensor), c.Block((freed,))) if self.may_be_bare(tensor) else freed

    def begun(self, tensor: Tensor) -> list[c.Stmt]:
        """The list and the result, empty, with their extents."""
        result = c.Name(self.made[tensor.name])
        if tensor.assembled is None:
            return self.begun_as_copy(tensor, result)
        own_list = c.Name(self.lists[tensor.name])
        lines = [
            *self.empty(own_list, self.listed[tensor.name].name),
            *self.empty(result, self.shown[tensor.name].name),
        ]
        narrow: c.Expr = c.Int(1)
        for parameter, extent in zip(tensor.layout.parameters, tensor.extents, strict=True):
            field = c.Field(result, field_name(parameter))
            lines.append(c.Assign(field, "=", self.extent(tensor, parameter, extent)))
            lines.append(c.Assign(c.Field(own_list, field_name(parameter)), "=", field))
            fits = c.Bin("<=", field, c.Name("INT32_MAX"))
            narrow = fits if narrow == c.Int(1) else c.Bin("&&", narrow, fits)
        entries = c.Un("&", c.Field(own_list, FIELD))
        most = c.Select(c.Name(self.memory), c.Field(c.Name(self.memory), "max_workspace"), c.Int(0))
        return [
            *lines,
            c.Assign(c.Field(entries, "narrow"), "=", narrow),
            c.Assign(c.Field(entries, "most"), "=", most),
            *([c.Assign(c.Field(entries, "may_group"), "=", narrow)] if tensor.name in self.appends else []),
            *(self.placing(entries, result) if tensor.name in self.placed else []),
        ]

    def begun_as_copy(self, tensor: Tensor, result: c.Name) -> list[c.Stmt]:
        """The result with its extents, or as it comes."""
        if tensor.name in self.patterns:
            own = c.Un("*", c.Name(self.names[tensor.name]))
            return [
                c.Declare(self.shown[tensor.name].name, result.name, None, 1),
                c.Assign(c.Un("*", result), "=", own),
            ]
        extents: list[c.Stmt] = [
            c.Assign(c.Field(result, field_name(parameter)), "=", self.extent(tensor, parameter, extent))
            for parameter, extent in zip(tensor.layout.parameters, tensor.extents, strict=True)
        ]
        if tensor.borrows:
            as_given = c.Assign(c.Un("*", result), "=", c.Un("*", c.Name(self.names[tensor.name])))
            extents = [c.If(self.is_bare(tensor), c.Block(tuple(extents)), c.Block((as_given,)))]
        return [*self.empty(result, self.shown[tensor.name].name), *extents]

    @staticmethod
    def empty(name: c.Name, kind: str) -> list[c.Stmt]:
        size = c.Call("sizeof", (c.Name(kind),))
        return [c.Declare(kind, name.name, None, 1), c.Do(c.Call("memset", (name, c.Int(0), size)))]

    def placing(self, entries: c.Expr, result: c.Expr) -> list[c.Stmt]:
        """What the loops make room in."""
        return [
            c.Assign(c.Field(entries, "made"), "=", result),
            c.Assign(c.Field(entries, "memory"), "=", c.Name(self.memory)),
        ]

    # --- extents ------------------------------------------------------------------------------------------

    def extent(self, tensor: Tensor, parameter: str, dim: str) -> c.Expr:
        """What operands say; where they say no more than the most, a smaller one of the caller's goes before."""
        field = c.Field(c.Name(self.names[tensor.name]), field_name(parameter))
        self.at_most = False
        value = self.size(dim, set())
        given = c.Call("spfgen_max", (field, c.Int(0)))
        if value is None:
            return given
        return c.Select(c.Bin("!=", field, c.Int(0)), given, value) if self.at_most else value

    def size(self, dim: str, asking: set[str]) -> c.Expr | None:
        """The value of a size: a number, what an operand says, a parameter, or what follows from others."""
        program = self.program
        if dim in program.sizes.fixed:
            return c.Int(program.sizes.fixed[dim])
        if dim in asking:
            return None
        asking = asking | {dim}
        outputs = {t.name for t in self.results}
        for tensor, parameter in program.sizes.readings.get(dim, ()):
            if tensor not in outputs:
                return c.Field(c.Name(self.names[tensor]), field_name(parameter))
        if dim in program.parameters:
            return c.Name(self.kernel.params[len(program.tensors) + program.parameters.index(dim)].name)
        for groups in program.sizes.agreements:
            if any((dim,) == tuple(g) for g in groups):
                for group in groups:
                    parts = [e for e in (self.size(s, asking) for s in group) if e is not None]
                    if len(parts) == len(group):
                        return folded("spfgen_min", parts)
        for left, expr, is_checked in program.sizes.derived:
            value = of_sizes(expr, lambda n: self.size(n, asking)) if left == Var(dim) else None
            if value is not None:
                self.at_most |= not is_checked
                return value
        for extents in program.sizes.of_index.values():
            if dim in extents:
                others = [self.size(other, asking) for other in extents]
                if known := [f for f in others if f is not None]:
                    self.at_most = True
                    return known[0]
        return None


def owners_first(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Each after the one whose index arrays it has."""
    names = {t.name for t in tensors}
    waiting, result = list(tensors), list[Tensor]()
    while waiting:
        ready = [t for t in waiting if t.shared_with not in names - {r.name for r in result}]
        result += ready
        waiting = [t for t in waiting if t not in ready]
    return result


def _plain(program: Program, inner: c.Function) -> c.Function:
    """The same with malloc."""
    given = [c.Name(p.name) for p in inner.params[:-1]]
    body = c.Block((c.Return(c.Call(inner.name, (*given, c.Name("NULL")))),))
    doc = inner.doc
    return c.Function("int", program.name, inner.params[:-1], body, doc)
