"""The plans of a program, once all passes are through: what they do, compared with what was asked for.

Of a sum of products each way through the plan is compared with the points of one of its instances: each instance is
done once, in every version. Of steps what holds of every plan is asked (check_steps.py).
"""

from __future__ import annotations

from spfgen.errors import InternalError
from spfgen.ir import rewrite
from spfgen.plan.nodes import PLANS, Clear, Gather, Plan, Seq, Versions
from spfgen.plan.verify.check_steps import check_steps
from spfgen.plan.verify.compared import Compared
from spfgen.plan.verify.meaning import Fault, Path, begins, compare_path, paths, without_unused
from spfgen.space.nodes import Group, Instance, Program


def check_plan(group: Group, plan: Plan, program: Program, compared: Compared) -> None:
    """Raises InternalError where the plan of a statement does not do what is asked for; `compared` is what was compared
    while it was made."""
    if group.steps is not None:
        check_steps(plan, program)
        return
    try:
        _Sums(group, compared).check(plan)
    except Fault as fault:
        raise InternalError(str(fault)) from None


class _Sums:
    """The instances that the nests of a statement were compared with while they were made; those of which there is a
    nest again."""

    def __init__(self, group: Group, compared: Compared) -> None:
        self.group, self.compared = group, compared
        self.sizes = tuple(dict.fromkeys(s for i in group.all for s in i.sizes))

    def check(self, plan: Plan) -> None:
        done = self.done(rewrite(lambda n: n.body if isinstance(n, Gather) else None, plan, PLANS))
        distinct = [i for k, i in enumerate(done) if i not in done[:k]]
        if len(distinct) < len(self.group.all):
            raise Fault(f"the plan leaves out a part of `{self.group.text}`")
        if self.group.op == "=" and not begins(plan, self.group.target):
            raise Fault(f"{self.group.target} is not cleared")

    def done(self, plan: Plan) -> list[Instance]:
        """What a plan does."""
        match plan:
            case Seq(parts):
                return [i for part in parts for i in self.done(part)]
            case Versions(versions) if any(isinstance(v.body, Seq) for v in versions):
                found = [self.done(v.body) for v in versions if not v.by_order]
                return found[0]
            case Clear(body=None):
                return []
        return [self.of(path) for path in paths(plan)]

    def of(self, path: Path) -> Instance:
        """The instance whose points a way through the plan has."""
        for known in (path, without_unused(path)):
            if known in self.compared.paths:
                return self.compared.paths[known][-1]
        fault = Fault(f"the plan does what was not asked for with {path.does.target.tensor}")
        for own in self.compared.instances:
            if own.target.tensor == path.does.target.tensor:
                try:
                    compare_path(own, path, self.sizes)
                    return own
                except Fault as found:
                    fault = found
        raise fault
