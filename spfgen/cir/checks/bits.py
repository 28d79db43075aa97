"""Where keys lie close together and no two may be equal: a bit for each of them."""

from __future__ import annotations

from spfgen.cir.checks.names import HOLDS
from spfgen.cir.checks.partition import partitioned, workspace
from spfgen.cir.checks.writer import NEVER, Writer, critical
from spfgen.cir.tree import nodes as c
from spfgen.cir.tree.build import INT, loop, minus
from spfgen.layout.checks import GroupCheck


def in_set(w: Writer, part: GroupCheck, low: c.Expr, high: c.Expr, least_broken: str, count: str) -> list[c.Stmt]:
    """The check of a loop's keys, and its end, if they are close; each thread has a part of the words of bits."""
    if part.limits is None:
        return []
    span, words, bits, start, end = (w.names.of(n) for n in ("span", "words", "bits", "word_start", "word_end"))
    least, limit = (w.expr(e) for e in part.limits)
    at = w.names.of(part.second)
    look = _look(w, part, (least, limit), (start, end), bits, least_broken)
    body: list[c.Stmt] = [
        c.Comment("the keys lie close together: a bit for each of them"),
        c.Declare(f"const {INT}", words, c.Bin("+", c.Bin("/", c.Name(span), c.Int(64)), c.Int(1))),
        *workspace(w, "uint64_t", bits, c.Name(words), c.Int(1)),
        partitioned(w, "the keys whose bits are in this part", words, (start, end), [loop(at, low, high, look)]),
        c.Do(c.Call("free", (c.Name(bits),))),
        c.If(c.Bin("<", c.Name(least_broken), NEVER), c.Block((_other(w, part, low, least_broken),))),
        c.Return(c.Name(HOLDS)),
    ]
    close = c.Bin("<=", c.Bin("/", c.Name(span), c.Int(64)), c.Name(count))
    return [c.Declare(f"const {INT}", span, minus(limit, least)), c.If(close, c.Block(tuple(body)))]


def _look(
    w: Writer, part: GroupCheck, limits: tuple[c.Expr, c.Expr], ends: tuple[str, str], bits: str, least_broken: str
) -> list[c.Stmt]:
    """At a place: set the bit of its key, if that is in a word of this thread; note the place if it was set before."""
    key, word, bit = (w.names.of(n) for n in ("key", "word", "bit"))
    at = w.names.of(part.second)
    least, limit = limits
    inside = c.Bin("&&", c.Bin(">=", c.Name(key), least), c.Bin("<", c.Name(key), limit))
    place = minus(c.Name(key), least)
    of_word = c.Select(inside, c.Bin("/", place, c.Int(64)), c.Int(-1))
    mine = c.Bin("&&", c.Bin(">=", c.Name(word), c.Name(ends[0])), c.Bin("<", c.Name(word), c.Name(ends[1])))
    shifted = c.Bin("<<", c.Cast("uint64_t", c.Int(1)), c.Bin("%", place, c.Int(64)))
    word_bits = c.Load(c.Name(bits), c.Name(word))
    earlier = c.If(
        c.Bin("<", c.Name(at), c.Name(least_broken)), c.Block((c.Assign(c.Name(least_broken), "=", c.Name(at)),))
    )
    seen: list[c.Stmt] = [
        c.Declare("const uint64_t", bit, shifted),
        c.If(c.Bin("!=", c.Bin("&", word_bits, c.Name(bit)), c.Int(0)), critical([earlier])),
        c.Assign(word_bits, "|=", c.Name(bit)),
    ]
    return [
        c.Declare(f"const {INT}", key, _key(w, part, at)),
        c.Declare(f"const {INT}", word, of_word),
        c.If(mine, c.Block(tuple(seen))),
    ]


def _other(w: Writer, part: GroupCheck, low: c.Expr, least_broken: str) -> c.Stmt:
    """The first place whose key is the same as that of the one found."""
    before = w.names.of(part.first)
    with w.naming({part.first: c.Name(before), part.second: c.Name(least_broken)}):
        kept = w.kept_names()
    equal = c.Bin("==", _key(w, part, before), _key(w, part, least_broken))
    return loop(before, low, c.Name(least_broken), [c.If(equal, c.Block((*kept, *w.failed())))])


def _key(w: Writer, part: GroupCheck, place: str) -> c.Expr:
    with w.naming({part.first: c.Name(place)}):
        return w.expr(part.keys[0])
