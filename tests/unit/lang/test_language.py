"""The language from text to nodes and back: operators, reductions, slices, shape operators, loops, functions."""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from spfgen.errors import SpecError
from spfgen.facts.formula import Bin, Compare, Num, Var
from spfgen.ir import walk
from spfgen.lang.nodes import (
    Access,
    Apply,
    Break,
    Coalesce,
    Collapse,
    Concat,
    Constant,
    For,
    If,
    Index,
    Let,
    Local,
    Range,
    Reduce,
    Return,
    Set,
    Slice,
    Split,
    Statement,
    While,
)
from spfgen.lang.normalize import normalized
from spfgen.lang.ops import OPERATORS
from spfgen.lang.parse import parse_file, parse_statements
from spfgen.lang.show import show_function, show_statement
from spfgen.lang.spec import load_tree

i, j, k = Var("i"), Var("j"), Var("k")
A, B, x, y = Access("A", (i, j)), Access("B", (k, j)), Access("x", (j,)), Access("y", (i,))
a, b, c = (Access(n, ()) for n in "abc")


def value_of(text: str):
    (statement,) = parse_statements(f"r[i, j, k, l] = {text}")
    return statement.value


def apply(op: str, *arguments):
    return Apply(op, arguments)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a or b and not c", apply("logical_or", a, apply("logical_and", b, apply("logical_not", c)))),
        ("not a == b", apply("logical_not", apply("equal", a, b))),
        ("a < b <= c", apply("logical_and", apply("less", a, b), apply("less_equal", b, c))),
        ("a | b ^ c & a", apply("bitwise_or", a, apply("bitwise_xor", b, apply("bitwise_and", c, a)))),
        ("a & b == c", apply("equal", apply("bitwise_and", a, b), c)),
        ("a << b + c", apply("left_shift", a, apply("add", b, c))),
        ("a + b >> c", apply("right_shift", apply("add", a, b), c)),
        ("a - b - c", apply("subtract", apply("subtract", a, b), c)),
        ("a // b % c", apply("remainder", apply("floor_divide", a, b), c)),
        ("a mod b * c", apply("multiply", apply("remainder", a, b), c)),
        ("-a ** b", apply("negative", apply("power", a, b))),
        ("a ** -b ** c", apply("power", a, apply("negative", apply("power", b, c)))),
        ("~a * +b", apply("multiply", apply("invert", a), b)),
        ("2a + 3", apply("add", apply("multiply", Constant(2), a), Constant(3))),
        ("max(a, b, c)", apply("maximum", apply("maximum", a, b), c)),
        ("where(a, abs(b), pow(c, 2))", apply("where", a, apply("absolute", b), apply("power", c, Constant(2)))),
        ("true and False", apply("logical_and", Constant(True), Constant(False))),
        ("inf", Constant(inf)),
        ("A[i, j] != 0.5", apply("not_equal", A, Constant(0.5))),
        ("j + 1", apply("add", Index(j), Constant(1))),
        ("a*i", apply("multiply", a, Index(i))),
        ("m", Access("m", ())),
    ],
)
def test_operators_bind_as_in_python(text: str, value) -> None:
    assert value_of(text) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("max(m: x[m])", Reduce("maximum", ("m",), Access("x", (Var("m"),)))),
        ("sum(m < j: x[m])", Reduce("add", ("m",), Access("x", (Var("m"),)), Compare("<", Var("m"), j))),
        ("any(m, n: D[m, n])", Reduce("logical_or", ("m", "n"), Access("D", (Var("m"), Var("n"))))),
        ("argmin(m: x[m])", Reduce("argmin", ("m",), Access("x", (Var("m"),)))),
        ("logical_xor(m: x[m])", Reduce("logical_xor", ("m",), Access("x", (Var("m"),)))),
        (
            "min(m: m*x[m] where m < 3)",
            Reduce(
                "minimum",
                ("m",),
                apply("multiply", Index(Var("m")), Access("x", (Var("m"),))),
                Compare("<", Var("m"), Num(3)),
            ),
        ),
        (
            "mean(m: x[m])",
            apply(
                "divide",
                Reduce("add", ("m",), apply("divide", Access("x", (Var("m"),)), Constant(1))),
                Reduce("add", ("m",), Constant(1)),
            ),
        ),
        ("coalesce(x[i - 1], 1)", Coalesce((Access("x", (Bin("-", i, Num(1)),)), Constant(1)))),
        ("collapse(D[m, n], (m, n) -> k)", Collapse(Access("D", (Var("m"), Var("n"))), ("m", "n"), "k")),
        ("collapse(D[m, n]*m, (m, n) -> k)",
         Collapse(apply("multiply", Access("D", (Var("m"), Var("n"))), Index(Var("m"))), ("m", "n"), "k")),
        ("split(x[m], m -> (i, j))", Split(Access("x", (Var("m"),)), "m", ("i", "j"))),
        (
            "concat((x[m], z[n]), (m, n) -> l)",
            Concat((Access("x", (Var("m"),)), Access("z", (Var("n"),))), ("m", "n"), "l"),
        ),
        ("slice(x[m], m -> k, (8, 1, -3))", Slice(Access("x", (Var("m"),)), "m", "k", Num(8), Num(1), -3)),
        ("slice(x[m], m -> k, (1, n - 1))",
         Slice(Access("x", (Var("m"),)), "m", "k", Num(1), Bin("-", Var("n"), Num(1)), 1)),
    ],
)  # fmt: skip
def test_reductions_and_shape_operators(text: str, value) -> None:
    assert value_of(text) == value


@pytest.mark.parametrize(
    ("text", "subscripts"),
    [
        ("i(1:5:2), j(2:6:2)", (Range("i", Num(1), Num(5), 2), Range("j", Num(2), Num(6), 2))),
        ("i(:), j(::-1)", (Range("i", None, None), Range("j", None, None, -1))),
        ("i(:4), j(3:)", (Range("i", None, Num(4)), Range("j", Num(3), None))),
        ("i(:4:2), j(3::2)", (Range("i", None, Num(4), 2), Range("j", Num(3), None, 2))),
        ("2*i + 1, floor(j/2)", (Bin("+", Bin("*", Num(2), i), Num(1)), Bin("/", j, Num(2)))),
        ("j/2, 3", (Bin("/", j, Num(2)), Num(3))),
        ("at[i], j", (Access("at", (i,)), j)),
        ("at[i]/16 + k, j", (apply("add", apply("floor_divide", Access("at", (i,)), Constant(16)), Index(k)), j)),
        ("max(i, at[j]), j", (apply("maximum", Index(i), Access("at", (j,))), j)),
        ("max(m: at[m]), j", (Reduce("maximum", ("m",), Access("at", (Var("m"),))), j)),
    ],
)
def test_subscripts(text: str, subscripts) -> None:
    assert value_of(f"A[{text}]") == Access("A", subscripts)


def test_an_integer_division_in_a_subscript_is_one_of_integers_only_there() -> None:
    (statement,) = parse_statements("h[img[r, s]/16] += img[r, s]/16")
    assert statement.target.subscripts[0].op == "floor_divide"
    assert statement.value.op == "divide"


@pytest.mark.parametrize(
    ("sign", "op"),
    [
        ("=", "="), ("+=", "+="), ("-=", "subtract"), ("*=", "multiply"), ("/=", "divide"), ("//=", "floor_divide"),
        ("%=", "remainder"), ("**=", "power"), ("|=", "bitwise_or"), ("&=", "bitwise_and"), ("^=", "bitwise_xor"),
        ("<<=", "left_shift"), (">>=", "right_shift"), ("or=", "logical_or"), ("and=", "logical_and"),
        ("min=", "minimum"), ("max=", "maximum"), ("hypot=", "hypot"), ("logical_xor=", "logical_xor"),
    ],
)  # fmt: skip
def test_updates(sign: str, op: str) -> None:
    assert parse_statements(f"y[i] {sign} x[i]") == (Statement(y, op, Access("x", (i,))),)
    assert parse_statements(f"let s = 1  s {sign} 2  t = s")[1] == Set("s", op, Constant(2))
    assert parse_statements(f"s {sign} 2")[0] == Statement(Access("s", ()), op, Constant(2))


def test_an_assignment_without_blanks_after_a_value_is_no_update() -> None:
    first, second, third = parse_statements("y[i]=x[i]\nn=x[i]\nmax=n*2")
    assert (first.op, second.op, third.op) == ("=", "=", "=")
    assert third.target == Access("max", ())


def test_targets_are_slices_and_scatters() -> None:
    first, second = parse_statements("B[i(0:6:2)] = a[i]  h[at[i] + 1] max= i where i < 3")
    assert first.target.subscripts == (Range("i", Num(0), Num(6), 2),)
    assert second.target.subscripts == (apply("add", Access("at", (i,)), Constant(1)),)
    assert second.value == Index(i)


LANGUAGE = """
kernel k {
    tensor A : csr  tensor x : sv  tensor B, C : dense
    for i {
        let s = sum(j: A[i, j]*x[j])
        if s != 0 { for k { C[i, k] = s*B[i, k] } }
    }
}
kernel product_by_columns {
    tensor A, B, C : csc
    local tensor w : sv_unsorted
    for j {
        w[i] = 0
        for k, i { w[i] += A[i, k]*B[k, j] }
        for i { C[i, j] = w[i] }
    }
}
kernel first_large {
    tensor A : csr  tensor f : dense<int64>
    for i {
        let first = -1
        for j { if A[i, j] > 0.8 { first = j  break } }
        f[i] = first
    }
}
kernel relax {
    tensor A : csc fill inf  tensor d, e : dense  tensor f, g : dense<bool>
    for j { if f[j] { for i { let n = d[j] + A[i, j]  e[i] min= n  g[i] or= n < d[i] } } }
}
function gcd(x, y) {
    case x, 0 : abs(x)                  # optional: 0 stands where the argument is its fill value
    case 0, y : abs(y)
    let a = abs(x)  let b = abs(y)      # a small C: let, assignment, if, while, return, calls of math.h
    while a != 0 { let t = a  a = b % a  b = t }
    return b
    space x or y                        # optional: where it may differ from its value on the fills (and, or, not)
}
function both(x, y) {
    return x & y
    property commutative  property associative  property idempotent
    property annihilator 0              # `annihilator 0 at 1`: of the first argument only
    property identity -1
}
kernel functions {
    tensor A, x, y, z : dense
    y[i] = both(j: A[i, j])
    z[i] both= gcd(x[i], 4)
}
"""


def test_the_kernels_of_the_language() -> None:
    spec = parse_file(LANGUAGE)
    first, product, large, relax, functions = spec.kernels
    (loop,) = first.statements
    assert isinstance(loop, For)
    assert isinstance(loop.body[0], Let)
    assert isinstance(loop.body[1], If)
    assert loop.body[1].condition == apply("not_equal", Local("s"), Constant(0))
    (inner,) = loop.body[1].then
    assert inner.body == (Statement(Access("C", (i, k)), "=", apply("multiply", Local("s"), Access("B", (i, k)))),)
    assert [t.local for t in product.tensors] == [False, False, False, True]
    assert [type(s) for s in product.statements[0].body] == [Statement, For, For]
    search = large.statements[0].body[1].body[0]
    assert search.then == (Set("first", "=", Index(j)), Break())
    assert relax.tensors[0].use.fill == inf
    assert [s.op for s in relax.statements[0].body[0].then[0].body[1:]] == ["minimum", "logical_or"]
    gcd, both = spec.functions
    assert [c.arguments for c in gcd.cases] == [(None, 0), (0, None)]
    assert isinstance(gcd.body[2], While)
    assert gcd.body[-1] == Return(Local("b"))
    assert gcd.space == apply("logical_or", Local("x"), Local("y"))
    assert both.operator.commutative
    assert both.operator.associative
    assert both.operator.idempotent
    assert both.operator.identity == -1
    assert both.operator.annihilators == ((0, 0), (1, 0))
    assert functions.statements[0].value == Reduce("both", ("j",), A, None, function=both)
    assert functions.statements[1].op == "both"
    assert functions.statements[1].function == both
    assert functions.statements[1].value.function == gcd


EXAMPLES = """
y[i] = where(m[i], 0, min(j: A[i,j] + x[j]))
y[i] = min(j: A[i, j] + x[j] where j < i)
c[k] = collapse(B[i, j], (i, j) -> k)
C[i, j] = split(b[k], k -> (i, j))
D[l, j] = concat((B[i, j], C[k, j]), (i, k) -> l)
C[i, k] = slice(A[i, j], j -> k, (1, 8, 3))
d[k] = slice(a[l], l -> k, (3, 93, 3)) + collapse(b[i]*c[j], (i, j) -> k)
y[l] = sum(k: concat((A[i, k], B[j, k]), (i, j) -> l)*x[k])
B[i, j] = A[i(1:5:2), j(2:6:2)]
Y[i, k] = A[i, 3, k]
B[i(0:6:2)] = a[i]
y[i] = coalesce(x[i - 1], 1)
y[i] = x[at[i]]
h[img[r, c]/16] += 1
D[i] min= d[j] + A[i, j]
C[i] or= m[i]
y[i] *= x[i]
"""


@pytest.mark.parametrize("text", [*EXAMPLES.strip().splitlines(), EXAMPLES])
def test_examples_are_read_back_from_their_text(text: str) -> None:
    steps = parse_statements(text)
    assert parse_statements("; ".join(map(show_statement, steps))) == steps


def test_kernels_and_functions_are_read_back_from_their_text() -> None:
    spec = parse_file(LANGUAGE)
    functions = "".join(map(show_function, spec.functions))
    assert parse_file(functions).functions == spec.functions
    for kernel in spec.kernels:
        text = functions + "; ".join(map(show_statement, kernel.statements))
        assert parse_statements(text) == kernel.statements


def test_a_local_name_is_no_index_and_no_tensor() -> None:
    steps = parse_statements("let i = 3  y[j] = x[i] + i  z[j] = x[j + i]")
    assert steps[1].value == apply("add", Access("x", (Local("i"),)), Local("i"))
    assert steps[2].value == Access("x", (apply("add", Index(j), Local("i")),))


def test_a_let_ends_with_its_block() -> None:
    loop, after = parse_statements("for j { let s = 1; y[j] = s }  z = s")
    assert loop.body[1].value == Local("s")
    assert after.value == Access("s", ())


def test_sizes_are_values_in_kernels() -> None:
    (kernel,) = parse_file("kernel k { size n  tensor x, y : dense  y[i] = n*x[i] }").kernels
    assert kernel.statements[0].value.arguments[0] == Index(Var("n"))


def test_functions_of_imports_and_of_the_text(tmp_path) -> None:
    (tmp_path / "f.spf").write_text("function twice(x) { return 2*x }")
    (tmp_path / "k.spf").write_text(
        'import "f.spf"\nkernel k { tensor x, y : dense  y[i] = four(x[i]) }\n'
        "function four(x) { return twice(twice(x)) }"
    )
    tree = load_tree(tmp_path / "k.spf")
    called = tree.kernels["k"].statements[0].value.function
    assert called == tree.functions["four"]
    assert called.body[0].value.function == tree.functions["twice"]
    own = parse_statements("function abs(x) { return x }  y[i] = abs(x[i])")
    assert own[0].value.function.name == "abs"


def test_what_a_sum_of_products_is_has_not_changed() -> None:
    (statement,) = parse_statements("y[i] += -A[i, j]*x[j]/2 + sum(k < i: B[k, j] where j = 1) within y")
    negative = apply("divide", apply("multiply", apply("negative", A), x), Constant(2))
    assert statement.value.arguments[0] == negative
    assert statement.value.arguments[1].op == "add"
    assert statement.within


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("y[i] = A[i,j]*x[j] + b[i]", "y[i] = sum(j: A[i, j]*x[j]) + b[i]"),
        ("y[i] = A[i,j]*(x[j] + 1)", "y[i] = sum(j: A[i, j]*(x[j] + 1))"),
        ("y[i] = (a[i] + x[j])*b[i]", "y[i] = a[i]*b[i] + sum(j: x[j]*b[i])"),
        ("y[i] = A[i, k] - z[k]/c where k < i and i < 3",
         "y[i] = sum(k < i: A[i, k]) - sum(k < i: z[k]/c) where i < 3"),
        ("y[i] = A[i,j]*x[j]/d[j]", "y[i] = sum(j: A[i, j]*x[j]/d[j])"),
        ("d[i] min= A[i,j] + x[j]", "d[i] min= min(j: A[i, j] + x[j])"),
        ("d[i] -= A[i,j]", "d[i] -= sum(j: A[i, j])"),
        ("d[i] /= A[i,j]", "for i, j { d[i] /= A[i, j] }"),
        ("h[img[r, c]/16] += 1", "h[img[r, c]//16] += 1"),
        ("for i { let s = A[i, j]  y[i] = s + i }", "for i { let s = sum(j: A[i, j]); y[i] = s + i }"),
        ("s = max(A[i, j], 0)", "s = sum(i, j: maximum(A[i, j], 0))"),
        ("y[i] = max(j: A[i, j])", "y[i] = max(j: A[i, j])"),
        ("s = collapse(A[i, j], (i, j) -> k)*x[k]", "s = sum(k: collapse(A[i, j], (i, j) -> k)*x[k])"),
    ],
)  # fmt: skip
def test_implicit_sums_are_written_out(text: str, normal: str) -> None:
    assert normalized(parse_statements(text)) == parse_statements(normal)


def test_a_condition_on_an_index_that_a_term_does_not_have() -> None:
    with pytest.raises(SpecError, match="every term to have the index `k`"):
        normalized(parse_statements("y[i] = b[i] + A[i, k] where k < i"))


def test_products_of_many_sums_do_not_grow_without_bound() -> None:
    text = "*".join(f"(a{n}[i] + x{n}[j])" for n in range(12))
    (statement,) = normalized(parse_statements(f"y[i] = {text}"))
    assert sum(isinstance(n, Reduce) for n in walk(statement.value)) == 1


# --- texts of random values -------------------------------------------------------------------------------

_names = st.sampled_from("pqr")
_indices = st.sampled_from("ijk")
_leaves = st.one_of(
    st.integers(0, 9).map(Constant),
    st.floats(0, allow_nan=False).map(lambda v: Constant(float(v))),
    st.sampled_from([Constant(True), Constant(False), Constant(inf), Access("s", ()), Local("t")]),
    _indices.map(lambda n: Index(Var(n))),
    st.builds(lambda t, n: Access(t, tuple(map(Var, n))), _names, st.lists(_indices, min_size=1, max_size=2)),
    st.builds(
        lambda n, a, b, s: Access("p", (Range(n, a, b, s),)),
        _indices,
        st.sampled_from([None, Num(1)]),
        st.sampled_from([None, Num(5)]),
        st.sampled_from([1, 2, -1]),
    ),
)
_by_arity = {n: [o for o in OPERATORS.values() if o.arity == n and o.name != "positive"] for n in (1, 2, 3)}


def _larger(inner):
    def applied(arity: int):
        ops = st.sampled_from(_by_arity[arity])
        return st.builds(lambda o, v: Apply(o.name, tuple(v)), ops, st.lists(inner, min_size=arity, max_size=arity))

    bound = st.sampled_from(["m", "n"])
    reduced = st.builds(
        lambda op, n, v, where: Reduce(op, (n,), v, Compare("<", Var(n), Var("i")) if where else None),
        st.sampled_from(["add", "maximum", "logical_xor", "argmin"]),
        bound,
        inner,
        st.booleans(),
    )
    views = st.one_of(
        st.builds(lambda u, v: Coalesce((u, v)), inner, inner),
        st.builds(lambda v: Collapse(v, ("u", "v"), "k"), inner),
        st.builds(lambda v: Split(v, "u", ("i", "j")), inner),
        st.builds(lambda v, w: Concat((v, w), ("u", "v"), "k"), inner, inner),
        st.builds(lambda v: Slice(v, "u", "k", Num(1), Num(8), -2), inner),
    )
    gathers = st.builds(lambda t, v: Access(t, (v, i)), _names, st.builds(lambda n: Access(n, (i,)), _names))
    return st.one_of(applied(1), applied(2), applied(3), reduced, views, gathers)


def _below(reduction: Reduce) -> list[Reduce]:
    """The reductions within one: an index is bound once."""
    return [n for n in walk(reduction.value) if isinstance(n, Reduce)]


@settings(max_examples=150, deadline=None)
@given(st.recursive(_leaves, _larger, max_leaves=8), st.sampled_from(["=", "+=", "minimum", "bitwise_or", "hypot"]))
def test_what_is_shown_is_read_again(value, op: str) -> None:
    assume(not any(r.indices == n.indices for r in walk(value) if isinstance(r, Reduce) for n in _below(r)))
    quotients = [n for n in walk(value) if isinstance(n, Apply) and n.op == "divide"]
    assume(not any(q.arguments[1] == Constant(0) for q in quotients))  # refused
    steps = (
        Let("t", Constant(1)),
        Statement(Access("y", (i, j, k)), op, value, Compare("<", i, j)),
        If(Local("t"), (Set("t", "+=", Constant(2)),), (Set("t", "=", Local("t")),)),
    )
    text = "; ".join(map(show_statement, steps))
    assert parse_statements(text) == steps
