from spfgen.cir import nodes as c
from spfgen.cir.elements import converted
from spfgen.lang.types import TYPES


def c_apply(value, found, kinds, result):
    op = value.op
    if op in TYPES:
        return converted(found[0], kinds[0], TYPES[op])
    if op == "where":
        return c.Select(*found)
    how = value.operator.how(kinds[0].kind)
    if how.endswith("()"):
        return c.Call(how[:-2], tuple(found))
    if op in ("maximum", "minimum"):
        return c.Select(c.Bin(">" if op == "maximum" else "<", found[0], found[1]), found[0], found[1])
    if how == "rt":
        return c.Call(f"spfgen_{op}_{kinds[0].name}", tuple(found))
    if how == "self":
        return found[0]
    return c.Un(how, found[0]) if len(found) == 1 else c.Bin(how, *found)
