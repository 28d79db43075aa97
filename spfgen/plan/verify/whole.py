"""The plans of a program, once all passes are through: what they do, compared with what was asked for.

Of a sum of products each way through the plan is compared with the points of one of its instances: each instance is
done once, in every version. Of steps what holds of every plan is asked (check_steps.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from spfgen.errors import InternalError
from spfgen.ir import rewrite, walk
from spfgen.lang.expressions import counted
from spfgen.plan.nodes import PLANS, Block, Clear, Find, Plan, Products, RowWorkspace, Scan, Versions
from spfgen.plan.verify.check_steps import check_steps
from spfgen.plan.verify.cleared import check_cleared
from spfgen.plan.verify.compared import Compared, note_unknown
from spfgen.plan.verify.gathers import check_gathers
from spfgen.plan.verify.meaning import ZERO_VALUE, Fault, Path, compare_path, finishing, paths, without_unused
from spfgen.plan.verify.nests import Unknown, unknown_of
from spfgen.plan.verify.parallel import check_parallel
from spfgen.plan.verify.places import check_places
from spfgen.space.nodes import Group, Instance, Program


def check_plan(plan: Plan, program: Program, compared: Compared) -> Unknown:
    """Raises InternalError where the plan of statements does not do what is asked for; `compared` is what was compared
    while it was made. What could not be compared of it."""
    try:
        check_places(plan)
        check_gathers(plan, program)
        nests = [n for n in walk(plan, PLANS) if isinstance(n, Products)]
        unknown = Unknown(sum(_unknown_of_products(n.asked.group, n.body, compared).statements for n in nests))
        if isinstance(plan, Products):
            return unknown
        check_steps(plan, program)
        steps = unknown_of(plan, compared, program.steps)
        if steps.changed and not compared.rewritten:
            raise Fault(f"{counted(steps.changed, 'node')} of the plan are not those that were planned")
        unknown = replace(steps, statements=steps.statements + unknown.statements)
        note_unknown(unknown.statements + unknown.values, unknown.changed)
        return unknown
    except Fault as fault:
        raise InternalError(str(fault)) from None


def _unknown_of_products(group: Group, plan: Plan, compared: Compared) -> Unknown:
    """What could not be compared of a statement that is a sum of products. Raises Fault."""
    every = _each_once(group.all)
    asked = [i for i in every if group.op != "=" or i.value != ZERO_VALUE]  # a stored 0 is seen as a place cleared
    if every and group.op == "=":
        check_cleared(plan, group.target)
    compared_instances = compared.of(group)
    if not asked or len(_each_once(compared_instances)) < len(asked):
        return Unknown(statements=1)
    _Sums(group, asked, compared_instances, compared).check(plan)
    return Unknown(statements=int(len(asked) < len(every)))


class _Sums:
    """The instances `asked` of a statement; its `own`, which its nests were compared with while they were made; those
    of which there is a nest again."""

    def __init__(
        self, group: Group, asked: Sequence[Instance], instances: Sequence[Instance], compared: Compared
    ) -> None:
        self.group, self.asked, self.own, self.compared = group, asked, instances, compared
        self.met: list[Instance] = []
        self.sizes = tuple(dict.fromkeys(s for i in group.all for s in i.sizes))

    def check(self, plan: Plan) -> None:
        plain = rewrite(lambda n: n.body if isinstance(n, RowWorkspace) else None, plan, PLANS)
        done, stores = self.done(plain), finishing(plain)
        if stores != plain:
            done += self.done(stores)
        if len(_each_once(done)) < len(self.asked):
            raise Fault(f"the plan leaves out a part of `{self.group.text}`")
        check_parallel(plan, partial(self.apart, done))

    def apart(self, done: Sequence[Instance], loop: Scan | Find, tensor: str) -> bool:
        """Whether iterations of a loop are known to write different places of a tensor."""
        written = [i for i in done if i.target.tensor == tensor]
        return any(
            dim == loop.dim and any(i.domain is instance.domain for i in written)
            for instance, dim in self.compared.apart
        )

    def done(self, plan: Plan) -> list[Instance]:
        """What a plan does."""
        match plan:
            case Block(parts):
                return [i for part in parts for i in self.done(part)]
            case Versions(versions) if any(isinstance(v.body, Block) for v in versions):
                parts_of_versions = [self.done(v.body) for v in versions if not v.by_order]
                return parts_of_versions[0]
            case Clear(body=None):
                return []
        return [self.of(path) for path in paths(plan)]

    def next_of(self, instances: Sequence[Instance]) -> Instance:
        """Of several that ask for the same the one that was not met yet."""
        left = [i for i in instances if not any(i is known for known in self.met)]
        self.met.append((left or instances)[0])
        return self.met[-1]

    def of(self, path: Path) -> Instance:
        """The instance whose points a way through the plan has."""
        for known in (path, without_unused(path)):
            matches = [i for i in self.compared.paths.get(known, ()) if i in self.own]
            if matches:
                return self.next_of(matches)
        fault = Fault(f"the plan does what was not asked for with {path.does.target.tensor}")
        for instance in self.own:
            if instance.target.tensor == path.does.target.tensor:
                try:
                    compare_path(instance, path, self.sizes)
                    return instance
                except Fault as told:
                    fault = told
        raise fault


def _each_once(instances: Sequence[Instance]) -> list[Instance]:
    return [i for k, i in enumerate(instances) if i not in instances[:k]]
