"""What is printed is the tree: compiled and run, it has the value that Python gives to the tree."""

from __future__ import annotations

import math
import random
import re
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from spfgen.cir.tree.nodes import (
    Assign,
    Bin,
    Block,
    Braces,
    Break,
    Call,
    Cast,
    Comment,
    Declare,
    Do,
    Expr,
    Field,
    File,
    Float,
    For,
    Function,
    If,
    Int,
    Load,
    Name,
    Param,
    Pragma,
    Return,
    Select,
    Stmt,
    Struct,
    Text,
    Un,
    While,
)
from spfgen.cir.tree.print import OPERATORS, WIDTH, print_expr, print_file, print_function, print_stmt, prototype
from spfgen.errors import InternalError

from .evaluate import TABLE, Machine, Trees, UndefinedError, evaluate

FOUND = [found for name in ("clang", "gcc", "cc") if (found := shutil.which(name))]
COMPILERS = list({Path(found).resolve(): found for found in FOUND}.values())
"""Those on PATH, each once: cc mostly is one of the others."""
STRICT = ("-std=c99", "-Wall", "-Wextra", "-Wconversion", "-Wparentheses", "-pedantic", "-Werror")

a, b, c, p = Name("a"), Name("b"), Name("c"), Name("p")


@pytest.fixture(params=COMPILERS or [None])
def compiler(request: pytest.FixtureRequest) -> str:
    if request.param is None:
        pytest.skip("no C compiler (cc, gcc, clang) on PATH")
    return str(request.param)


def run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout[-2000:]}\n{done.stderr[:6000]}"
    return done.stdout


def compiled(compiler: str, folder: Path, text: str, *options: str) -> list[str]:
    """The lines that the program prints."""
    source = folder / "program.c"
    source.write_text(text)
    run([compiler, *STRICT, *options, str(source), "-o", str(folder / "program"), "-lm"])
    return run([str(folder / "program")]).splitlines()


def expect(expressions: list[Expr], shown: list[str], wanted: list[str]) -> None:
    """What C shows is what Python says."""
    rows = zip(expressions, shown, wanted, strict=True)
    wrong = [f"{print_expr(e)} is {s}, not {w}" for e, s, w in rows if s != w]
    assert not wrong, "\n".join(wrong[:20])


# --- random expressions, compiled ----------------------------------------------------------------

# These say of random trees what is true of them: that a comparison is never true, that a product serves as a
# condition. They do not ask for parentheses, so they hide nothing here.
SENSELESS = (
    "-Wno-bool-compare",
    "-Wno-bool-operation",
    "-Wno-int-in-bool-context",
    "-Wno-sign-compare",  # all is signed; gcc takes the result of a comparison for unsigned
    "-Wno-tautological-compare",
    "-Wno-type-limits",
    "-Wno-unknown-warning-option",
)
SENSELESS_CLANG = (
    *SENSELESS,
    "-Wno-constant-logical-operand",
    "-Wno-constant-conversion",
    "-Wno-unused-value",
)
VARIABLES: dict[str, int | float] = {"a": 5, "b": -3, "c": 17, "d": 0, "e": 1_000_000_007, "f": -101}
DOUBLES: dict[str, int | float] = {"x": 0.1, "y": -3.75, "z": 1e17, "u": 1.0, "w": -0.0}
PER_FILE = 1000

INTEGER_PROGRAM = """\
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
struct record {{ int64_t first, second; }};
extern int64_t {names};
int64_t {values};
int64_t table[] = {{ {table} }};
int64_t *pointer = table + 1;
struct record numbers = {{ {first}, {second} }};
struct record *record = &numbers;
static int64_t twice(int64_t n) {{ return 2 * n; }}
static void show(int64_t n) {{ printf("%" PRId64 "\\n", n); }}
int main(void)
{{
{body}
    return twice(0) != 0;
}}
"""


def integer_program(expressions: list[Expr]) -> str:
    return INTEGER_PROGRAM.format(
        names=", ".join(VARIABLES),
        values=", ".join(f"{name} = INT64_C({value})" for name, value in VARIABLES.items()),
        table=", ".join(str(n) for n in TABLE),
        first=TABLE[3],
        second=TABLE[4],
        body="\n".join(f"    show({print_expr(e)});" for e in expressions),
    )


def ignored(compiler: str) -> tuple[str, ...]:
    clang = "clang" in run([compiler, "--version"])
    return SENSELESS_CLANG if clang else SENSELESS


@pytest.mark.sampled(1)
@pytest.mark.parametrize("seed", range(4))
def test_random_integer_expressions_have_the_value_of_the_tree(compiler: str, seed: int, tmp_path: Path) -> None:
    machine = Machine(VARIABLES)
    trees = Trees(random.Random(seed), machine)
    expressions = [trees.integer(1 + k % 6) for k in range(PER_FILE)]
    shown = compiled(compiler, tmp_path, integer_program(expressions), "-O0", *ignored(compiler))
    wanted = [str(evaluate(e, machine).number) for e in expressions]
    assert len(set(wanted)) > PER_FILE / 10  # else the values could not tell the trees apart
    expect(expressions, shown, wanted)


def test_every_pair_of_integer_operators(compiler: str, tmp_path: Path) -> None:
    """(a op b) op c and a op (b op c) for all operators, so that no pair is left to chance."""
    operators = sorted(OPERATORS)
    expressions: list[Expr] = []
    leaves = [(Name("c"), Name("a"), Load(Name("table"), Int(2))), (Name("f"), Name("b"), Name("a"))]
    for one in operators:
        for two in operators:
            for x, y, z in leaves:
                expressions += [Bin(two, Bin(one, x, y), z), Bin(two, x, Bin(one, y, z))]
                expressions += [Bin(one, Un(u, x), Un(v, y)) for u in "-!~" for v in "-!~"]
                expressions += [Un(u, Bin(one, x, y)) for u in "-!~"]
                expressions += [Select(Bin(one, x, y), Bin(two, y, z), Select(x, y, z))]
                expressions += [Bin(one, Select(x, y, z), x), Bin(one, x, Select(x, y, z))]
                expressions += [Bin(one, Cast("int64_t", x), y), Cast("int64_t", Bin(one, x, y))]
    machine = Machine(VARIABLES)
    defined = [e for e in dict.fromkeys(expressions) if _is_defined(e, machine)]
    assert len(defined) > 1000
    shown = compiled(compiler, tmp_path, integer_program(defined), "-O0", *ignored(compiler))
    wanted = [str(evaluate(e, machine).number) for e in defined]
    expect(defined, shown, wanted)


def _is_defined(e: Expr, machine: Machine) -> bool:
    try:
        evaluate(e, machine)
    except UndefinedError:
        return False
    return True


DOUBLE_PROGRAM = """\
#include <inttypes.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
extern double {names};
double {values};
static void show(double n)
{{
    uint64_t bits;
    memcpy(&bits, &n, sizeof bits);
    if (n != n) puts("nan"); else printf("%016" PRIx64 "\\n", bits);
}}
int main(void)
{{
{body}
    return 0;
}}
"""


def bits_of(number: float) -> str:
    return "nan" if math.isnan(number) else struct.pack(">d", number).hex()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("seed", range(2))
def test_random_double_expressions_are_bitwise_equal(compiler: str, seed: int, tmp_path: Path) -> None:
    machine = Machine(DOUBLES)
    trees = Trees(random.Random(seed), machine)
    expressions = [trees.double(1 + k % 6) for k in range(PER_FILE)]
    program = DOUBLE_PROGRAM.format(
        names=", ".join(DOUBLES),
        values=", ".join(f"{name} = {value!r}" for name, value in DOUBLES.items()),
        body="\n".join(f"    show({print_expr(e)});" for e in expressions),
    )
    shown = compiled(compiler, tmp_path, program, "-O0", "-ffp-contract=off", *ignored(compiler))
    wanted = [bits_of(evaluate(e, machine).number) for e in expressions]
    assert wanted.count("nan") < PER_FILE / 4
    expect(expressions, shown, wanted)


# --- single expressions --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (Un("-", Un("-", a)), "-(-a)"),
        (Un("-", Int(-1)), "-(-1)"),
        (Un("-", Float(-0.0)), "-(-0.0)"),
        (Un("-", Un("!", a)), "-!a"),
        (Un("!", Un("!", a)), "!!a"),
        (Un("-", Bin("+", a, b)), "-(a + b)"),
        (Un("-", Cast("double", a)), "-(double)a"),
        (Bin("-", a, Int(-1)), "a - -1"),
        (Bin("-", a, Un("-", b)), "a - -b"),
        (Bin("-", a, Bin("-", b, c)), "a - (b - c)"),
        (Bin("-", Bin("-", a, b), c), "a - b - c"),
        (Bin("+", a, Bin("+", b, c)), "a + (b + c)"),
        (Bin("-", a, Bin("*", b, c)), "a - b * c"),
        (Bin("*", Bin("/", a, b), c), "(a / b) * c"),
        (Bin("/", a, Bin("*", b, c)), "a / (b * c)"),
        (Bin("+", a, Bin("%", b, c)), "a + b % c"),
        (Bin("*", Bin("*", a, b), c), "a * b * c"),
        (Bin("*", Bin("+", a, b), c), "(a + b) * c"),
        (Bin("/", a, Un("*", p)), "a / *p"),
        (Bin("*", a, Un("*", p)), "a * *p"),
        (Bin("&", a, Un("&", p)), "a & &p"),
        (Un("&", a), "&a"),
        (Un("&", Load(a, b)), "&a[b]"),
        (Un("*", p), "*p"),
        (Un("*", Un("*", p)), "**p"),
        (Load(Un("*", p), a), "(*p)[a]"),
        (Load(Bin("+", p, a), b), "(p + a)[b]"),
        (Load(p, Bin("+", a, b)), "p[a + b]"),
        (Field(Load(p, a), "n"), "p[a]->n"),
        (Field(Un("*", p), "n"), "(*p)->n"),
        (Field(Cast("record *", p), "n"), "((record *)p)->n"),
        (Cast("double", Bin("+", a, b)), "(double)(a + b)"),
        (Cast("double", Un("-", a)), "(double)-a"),
        (Cast("double", Cast("int", a)), "(double)(int)a"),
        (Bin("/", Cast("double", a), b), "(double)a / b"),
        (Call("f", ()), "f()"),
        (Call("f", (a, Bin("+", b, c), Select(a, b, c))), "f(a, b + c, a ? b : c)"),
        (Call("sizeof", (Un("*", p),)), "sizeof(*p)"),
        (Bin("||", Bin("&&", a, b), c), "(a && b) || c"),
        (Bin("&&", Bin("||", a, b), c), "(a || b) && c"),
        (Bin("&&", a, Bin("&&", b, c)), "a && b && c"),
        (Bin("||", a, Bin("||", b, c)), "a || b || c"),
        (Bin("&&", Bin("<", a, b), Bin("==", b, c)), "a < b && b == c"),
        (Bin("<<", Bin("+", a, b), c), "(a + b) << c"),
        (Bin("+", Bin("<<", a, b), c), "(a << b) + c"),
        (Bin("<", Bin("<<", a, b), c), "(a << b) < c"),
        (Bin("|", Bin("&", a, b), c), "(a & b) | c"),
        (Bin("|", Bin("|", a, b), c), "a | b | c"),
        (Bin("|", a, Bin("|", b, c)), "a | (b | c)"),
        (Bin("&", a, Bin("==", b, c)), "a & (b == c)"),
        (Bin("==", Bin("&", a, b), c), "(a & b) == c"),
        (Bin("<", Bin("<", a, b), c), "(a < b) < c"),
        (Bin("==", Bin("<", a, b), c), "(a < b) == c"),
        (Bin("<", Un("!", a), b), "(!a) < b"),
        (Bin("&&", Un("!", a), b), "!a && b"),
        (Un("!", Bin("==", a, b)), "!(a == b)"),
        (Select(Bin("<", a, b), a, b), "a < b ? a : b"),
        (Select(Bin("+", a, b), a, b), "(a + b) ? a : b"),
        (Select(a, Select(b, a, c), c), "a ? (b ? a : c) : c"),
        (Select(a, b, Select(b, a, c)), "a ? b : b ? a : c"),
        (Select(Select(a, b, c), b, c), "(a ? b : c) ? b : c"),
        (Bin("+", Select(a, b, c), a), "(a ? b : c) + a"),
        (Int(0), "0"),
        (Int(2**31 - 1), "2147483647"),
        (Int(2**31), "INT64_C(2147483648)"),
        (Int(-(2**31)), "-INT64_C(2147483648)"),
        (Int(2**63 - 1), "INT64_C(9223372036854775807)"),
        (Int(-(2**63)), "INT64_MIN"),
        (Int(2**64 - 1), "UINT64_C(18446744073709551615)"),
        (Bin("*", Int(-2), Int(-3)), "-2 * -3"),
        (Float(1.0), "1.0"),
        (Float(1e22), "1e+22"),
        (Float(0.1), "0.1"),
        (Float(-2.5), "-2.5"),
        (Float(3), "3.0"),
        (Float(0.5, single=True), "0.5f"),
        (Float(1e22, single=True), "1e+22f"),
        (Float(math.inf), "INFINITY"),
        (Float(-math.inf), "-INFINITY"),
        (Float(math.nan), "NAN"),
        (Bin("-", a, Float(-1.5)), "a - -1.5"),
    ],
)
def test_expression(expression: Expr, text: str) -> None:
    assert print_expr(expression) == text


@pytest.mark.parametrize(
    "wrong",
    [Bin("**", a, b), Un("+", a), Int(2**64), Bin("+", Expr(), a), Load(a, Comment("x"))],  # type: ignore[arg-type]
)
def test_what_is_no_expression_is_refused(wrong: Expr) -> None:
    with pytest.raises(InternalError, match="expected"):
        print_expr(wrong)


# --- statements ----------------------------------------------------------------------------------


def lines(*expected: str) -> list[str]:
    return list(expected)


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        (Declare("int64_t", "n"), ["int64_t n;"]),
        (Declare("const double *restrict", "x", a), ["const double *restrict x = a;"]),
        (Declare("double *", "x", a), ["double *x = a;"]),
        (Assign(a, "=", Bin("+", a, b)), ["a = a + b;"]),
        (Assign(a, "+=", Int(1)), ["a++;"]),
        (Assign(a, "+=", Int(2)), ["a += 2;"]),
        (Assign(a, "-=", Int(1)), ["a -= 1;"]),
        (Assign(a, "+=", Float(1.0)), ["a += 1.0;"]),
        (Assign(Un("*", p), "+=", Int(1)), ["(*p)++;"]),
        (Assign(Un("*", p), "=", Int(1)), ["*p = 1;"]),
        (Assign(Load(p, a), "+=", Int(1)), ["p[a]++;"]),
        (Assign(Field(p, "n"), "|=", b), ["p->n |= b;"]),
        (Do(Call("f", (a,))), ["f(a);"]),
        (Return(), ["return;"]),
        (Return(a), ["return a;"]),
        (Break(), ["break;"]),
        (Block(()), []),
        (Block((Return(), Block((Break(),)))), ["return;", "break;"]),
        (Pragma("omp barrier"), ["#pragma omp barrier"]),
        (While(a, Break()), ["while (a) {", "    break;", "}"]),
        (While(a, Block(())), ["while (a) {", "}"]),
        (If(a, Break()), ["if (a) {", "    break;", "}"]),
        (If(a, Break(), Block(())), ["if (a) {", "    break;", "}"]),
        (If(a, Break(), Return()), ["if (a) {", "    break;", "} else {", "    return;", "}"]),
        (
            If(a, Break(), If(b, Return(a), Block((If(c, Return(b), Return(c)),)))),
            lines(
                "if (a) {",
                "    break;",
                "} else if (b) {",
                "    return a;",
                "} else if (c) {",
                "    return b;",
                "} else {",
                "    return c;",
                "}",
            ),
        ),
        (
            If(a, If(b, Break()), Return()),  # the else belongs to the outer if
            lines("if (a) {", "    if (b) {", "        break;", "    }", "} else {", "    return;", "}"),
        ),
        (
            If(a, Break(), Block((Comment("why"), If(b, Break())))),
            lines(
                "if (a) {",
                "    break;",
                "} else {",
                "    /* why */",
                "    if (b) {",
                "        break;",
                "    }",
                "}",
            ),
        ),
        (
            For("int64_t", "i", Int(0), Bin("<", Name("i"), a), 1, Do(Call("f", ()))),
            lines("for (int64_t i = 0; i < a; i++) {", "    f();", "}"),
        ),
        (
            For("int64_t", "i", a, Bin(">=", Name("i"), Int(0)), -1, Block(())),
            lines("for (int64_t i = a; i >= 0; i--) {", "}"),
        ),
        (
            For("int64_t", "i", a, Name("i"), 8, Block(()), ("omp parallel for", "omp simd")),
            lines("#pragma omp parallel for", "#pragma omp simd", "for (int64_t i = a; i; i += 8) {", "}"),
        ),
        (
            For("double *", "q", p, Name("q"), -2, Block(())),
            lines("for (double *q = p; q; q -= 2) {", "}"),
        ),
        (Comment("short"), ["/* short */"]),
        (Comment(""), ["/* */"]),
        (Comment("ends */ and /* starts **/ /*/"), ["/* ends * / and / * starts ** / / * / */"]),
        (Comment("one\n\n  two"), ["/*", " * one", " *", " *   two", " */"]),
    ],
)
def test_statement(statement: Stmt, expected: list[str]) -> None:
    assert print_stmt(statement) == expected


@pytest.mark.parametrize(
    "wrong",
    [
        Assign(a, "<<=", b),
        For("int64_t", "i", a, b, 0, Break()),
        Pragma("omp\nx"),
        Stmt(),
        Block((a,)),  # type: ignore[arg-type]
    ],
)
def test_what_is_no_statement_is_refused(wrong: Stmt) -> None:
    with pytest.raises(InternalError, match="expected"):
        print_stmt(wrong)


def test_indentation_and_pragmas_of_an_inner_loop() -> None:
    inner = For("int64_t", "j", Int(0), Bin("<", Name("j"), b), 1, Break(), ("omp simd",))
    outer = For("int64_t", "i", Int(0), Bin("<", Name("i"), a), 1, Block((Comment("row"), inner)))
    assert print_stmt(outer, 1) == [
        "    for (int64_t i = 0; i < a; i++) {",
        "        /* row */",
        "        #pragma omp simd",
        "        for (int64_t j = 0; j < b; j++) {",
        "            break;",
        "        }",
        "    }",
    ]


def test_long_comments_are_wrapped() -> None:
    words = " ".join(f"word{k}" for k in range(60))
    printed = print_stmt(Comment(words), 2)
    assert len(printed) > 3
    assert max(len(line) for line in printed) <= WIDTH
    assert re.sub(r"[\s/*]+", " ", "".join(f"{line} " for line in printed)).strip() == words


def test_long_code_is_wrapped_at_operators_outside_of_brackets() -> None:
    term = Bin("*", Load(Name("values_of_a"), Name("position")), Load(Name("values_of_b"), Name("position")))
    total: Expr = term
    for _ in range(7):
        total = Bin("+", total, term)
    call = Call("some_function", tuple(Name(f"argument_number_{k}") for k in range(12)))
    condition = Bin("&&", Bin("<", total, a), b)
    for statement, code in (
        (Assign(a, "=", total), f"a = {print_expr(total)};"),
        (Do(call), f"{print_expr(call)};"),
        (If(condition, Block(())), f"if ({print_expr(condition)}) {{ }}"),
        (While(condition, Block(())), f"while ({print_expr(condition)}) {{ }}"),
        (Declare("double", "n", condition), f"double n = {print_expr(condition)};"),
    ):
        printed = print_stmt(statement, 3)
        assert len(printed) > 1
        assert max(len(line) for line in printed) <= WIDTH
        assert all(line.startswith(" " * 12) for line in printed)
        assert " ".join(line.strip() for line in printed) == code
    assert print_stmt(Assign(a, "=", total), 0)[1].startswith("        + values_of_a[position]")


# --- functions and files -------------------------------------------------------------------------

START = Field(Name("matrix"), "start")
SPMV = Function(
    "void",
    "spmv",
    (
        Param("int64_t", "m", "the number of rows"),
        Param("const csr *", "matrix", "the matrix */ in /* rows"),
        Param("const double *restrict", "x"),
        Param("double *restrict", "y", "the result"),
    ),
    Block(
        (
            Comment("row by row"),
            For(
                "int64_t",
                "i",
                Int(0),
                Bin("<", Name("i"), Name("m")),
                1,
                Block(
                    (
                        Declare("double", "sum", Float(0.0)),
                        For(
                            "int64_t",
                            "k",
                            Load(START, Name("i")),
                            Bin("<", Name("k"), Load(START, Bin("+", Name("i"), Int(1)))),
                            1,
                            Assign(
                                Name("sum"),
                                "+=",
                                Bin(
                                    "*",
                                    Load(Field(Name("matrix"), "value"), Name("k")),
                                    Load(Name("x"), Load(Field(Name("matrix"), "column"), Name("k"))),
                                ),
                            ),
                        ),
                        Assign(Load(Name("y"), Name("i")), "=", Name("sum")),
                    )
                ),
            ),
        )
    ),
    "y = A x.",
)
HELPER = Function("static_t", "helper", (), Block((Return(Int(0)),)), "", static=True)
CSR = Struct(
    "csr",
    (
        Param("const int64_t *restrict", "start", "where each row starts"),
        Param("const int64_t *", "column", "long " * 30),
        Param("double *", "value"),
    ),
    "A matrix by rows.",
)


def header(guard: str, *items: Struct | Function | Text) -> File:
    return File("A header.", ("stdint.h",), items, guard)


def test_definition() -> None:
    assert print_function(SPMV).splitlines() == [
        "/* y = A x. */",
        "void spmv(int64_t m, const csr *matrix, const double *restrict x, double *restrict y)",
        "{",
        "    /* row by row */",
        "    for (int64_t i = 0; i < m; i++) {",
        "        double sum = 0.0;",
        "        for (int64_t k = matrix->start[i]; k < matrix->start[i + 1]; k++) {",
        "            sum += matrix->value[k] * x[matrix->column[k]];",
        "        }",
        "        y[i] = sum;",
        "    }",
        "}",
    ]


def test_prototypes() -> None:
    assert prototype(SPMV) == "void spmv(int64_t m, const csr *matrix, const double *x, double *y);"
    assert prototype(HELPER) == "static static_t helper(void);"
    pointer = Function("double *", "f", (Param("double *restrict const", "x"),), Block(()))
    assert prototype(pointer) == "double *f(double *const x);"


def test_long_parameter_lists_stand_one_below_the_other() -> None:
    params = tuple(Param("const double *restrict", f"parameter_{k}") for k in range(9))
    printed = print_function(Function("void", "f", params, Block(()))).splitlines()
    assert printed[:2] == ["void f(", "    const double *restrict parameter_0,"]
    assert printed[-3:] == ["    const double *restrict parameter_8)", "{", "}"]


def test_header() -> None:
    enum = Text("\nenum { spmv_ok = 0 };\n")
    assert print_file(header("SPMV_H", CSR, SPMV, HELPER, enum)).splitlines() == [
        "/* A header. */",
        "",
        "#ifndef SPMV_H",
        "#define SPMV_H",
        "",
        "#include <stdint.h>",
        "",
        "#ifdef __cplusplus",
        'extern "C" {',
        "#endif",
        "",
        "#ifndef SPFGEN_STRUCT_csr",
        "#define SPFGEN_STRUCT_csr",
        "/* A matrix by rows. */",
        "typedef struct csr {",
        "    const int64_t *start;   /* where each row starts */",
        "    /*",
        "     * " + "long " * 17 + "long",
        "     * " + "long " * 11 + "long",
        "     */",
        "    const int64_t *column;",
        "    double *value;",
        "} csr;",
        "#endif",
        "",
        "/*",
        " * y = A x.",
        " *",
        " * m       the number of rows",
        " * matrix  the matrix * / in / * rows",
        " * y       the result",
        " */",
        "void spmv(int64_t m, const csr *matrix, const double *x, double *y);",
        "",
        "enum { spmv_ok = 0 };",
        "",
        "#ifdef __cplusplus",
        "}",
        "#endif",
        "",
        "#endif /* SPMV_H */",
    ]


def test_source_file() -> None:
    main = Function("int", "main", (), Block((Return(Int(0)),)))
    file = File("What it is.", ("<math.h>", '"spmv.h"'), (Text("#define N 3"), main))
    assert print_file(file).splitlines() == [
        "/* What it is. */",
        "",
        "#include <math.h>",
        '#include "spmv.h"',
        "",
        "#define N 3",
        "",
        "int main(void)",
        "{",
        "    return 0;",
        "}",
    ]


def test_two_headers_with_one_struct_and_their_source_compile(compiler: str, tmp_path: Path) -> None:
    other = Function("int64_t", "other", (Param("const csr *restrict", "x"),), Block((Return(Int(3)),)))
    (tmp_path / "one.h").write_text(print_file(header("ONE_H", CSR, SPMV, HELPER)))
    (tmp_path / "two.h").write_text(print_file(header("TWO_H", CSR, other)))
    includes = ('"one.h"', '"two.h"', '"one.h"')
    body = Block((Return(Call("other", (Name("x"),))),))
    unused = Function("int64_t", "use", (Param("csr *", "x"),), body)
    source = tmp_path / "one.c"
    source.write_text(print_file(File("Both.", includes, (SPMV, unused))))
    run([compiler, *STRICT, "-Wno-missing-prototypes", "-c", str(source), "-o", str(tmp_path / "one.o")])


@pytest.mark.skipif(shutil.which("g++") is None, reason="no C++ compiler (g++) on PATH")
def test_headers_compile_as_cpp_too(tmp_path: Path) -> None:
    (tmp_path / "one.h").write_text(print_file(header("ONE_H", CSR, SPMV, HELPER)))
    source = tmp_path / "user.cpp"
    source.write_text('#include "one.h"\nvoid (*f)(int64_t, const csr *, const double *, double *) = spmv;\n')
    made = str(tmp_path / "user.o")
    run(["g++", "-Wall", "-Wextra", "-pedantic", "-Werror", "-c", str(source), "-o", made])
    assert b"\0spmv\0" in Path(made).read_bytes()  # its plain name: C linkage


def test_a_whole_program_runs(compiler: str, tmp_path: Path) -> None:
    """The statements mean what they say: count down, add up, leave a loop, wrap long lines."""
    i, n, total = Name("i"), Name("n"), Name("total")
    terms: Expr = i
    for k in range(40):
        terms = Bin("-" if k % 2 else "+", terms, Bin("*", i, Int(1000 + k)))
    sum_up = Function(
        "int64_t",
        "sum_up",
        (Param("int64_t", "n"),),
        Block(
            (
                Declare("int64_t", "total", Int(0)),
                For(
                    "int64_t",
                    "i",
                    n,
                    Bin(">", i, Int(0)),
                    -3,
                    If(
                        Bin("==", Bin("%", i, Int(2)), Int(0)),
                        Assign(total, "+=", terms),
                        If(Bin("<", i, Int(5)), Break(), Assign(total, "+=", Int(1))),
                    ),
                ),
                While(Bin("<", total, n), Assign(total, "+=", Int(1))),
                Return(total),
            )
        ),
        static=True,
    )
    show = Do(Call("show", (Call("sum_up", (Int(20),)),)))
    main = Function("int", "main", (), Block((show, Return(Int(0)))))
    text = Text('static void show(int64_t n) { printf("%d\\n", (int)n); }')
    printed = print_file(File("", ("stdint.h", "stdio.h"), (text, sum_up, main)))
    assert max(len(line) for line in printed.splitlines()) <= WIDTH
    wanted = 0
    for value in range(20, 0, -3):
        if value % 2 == 0:
            wanted += value + sum((-1 if k % 2 else 1) * value * (1000 + k) for k in range(40))
        elif value < 5:
            break
        else:
            wanted += 1
    while wanted < 20:
        wanted += 1
    assert compiled(compiler, tmp_path, printed) == [str(wanted)]


def test_a_scope_has_braces_of_its_own() -> None:
    scope = Braces(Block((Declare("int", "a", Int(1)), Return(Name("a")))))
    assert print_stmt(Block((scope,))) == ["{", "    int a = 1;", "    return a;", "}"]
