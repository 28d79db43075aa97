"""The oracle (lang/interpret.py) against explicit numpy, and against nested loops over random small statements."""

import math
import random
from itertools import product

import numpy as np
import pytest

from spfgen.lang.parse import parse_file, parse_statements
from tests.oracle import Stored, evaluate


@pytest.fixture
def rng():
    return np.random.default_rng(7)


def run(text, sizes=None, **tensors):
    """The target of the last statement."""
    statements = parse_statements(text)
    return evaluate(statements, tensors, sizes or {})[statements[-1].target.tensor]


def stored(dense):
    """The nonzeros of an array, in a shuffled order."""
    coords = np.nonzero(dense)
    order = np.random.default_rng(3).permutation(len(coords[0]))
    return Stored(dense.shape, tuple(c[order] for c in coords), dense[coords][order])


def dense(tensor):
    result = np.zeros(tensor.shape, tensor.values.dtype)
    np.add.at(result, tensor.coords, tensor.values)
    return result


def thin(rng, *shape, density=0.3):
    return np.where(rng.random(shape) < density, rng.integers(1, 9, shape), 0).astype(float)


def zeros(*shape):
    return np.zeros(shape)


# --- the classic kernels -----------------------------------------------------------------------------


@pytest.mark.parametrize("form", [stored, np.asarray])
def test_matrix_times_vector(rng, form):
    a, x, y = thin(rng, 5, 7), rng.random(7), rng.random(5)
    before = y.copy()
    np.testing.assert_allclose(run("y[i] += A[i, j]*x[j]", A=form(a), x=x, y=y), y + a @ x)
    np.testing.assert_allclose(run("y[i] = A[i, j]*x[j]", A=form(a), x=form(x), y=y), a @ x)
    np.testing.assert_allclose(run("y[j] = A[i, j]*x[i]", A=form(a), x=before, y=x), a.T @ before)
    np.testing.assert_array_equal(y, before)


@pytest.mark.parametrize("form", [stored, np.asarray])
@pytest.mark.parametrize("other", [stored, np.asarray])
def test_matrix_products(rng, form, other):
    a, b, d = thin(rng, 5, 7), thin(rng, 7, 4), rng.random(7)
    np.testing.assert_allclose(run("C[i, j] = A[i, k]*B[k, j]", A=form(a), B=other(b), C=zeros(5, 4)), a @ b)
    result = run("C[i, j] = A[i, k]*d[k]*B[k, j]", A=form(a), B=other(b), d=d, C=zeros(5, 4))
    np.testing.assert_allclose(result, a @ np.diag(d) @ b)
    c = thin(rng, 4, 6)
    result = run("D[i, l] = A[i, k]*B[k, j]*C[j, l]", A=form(a), B=other(b), C=form(c), D=zeros(5, 6))
    np.testing.assert_allclose(result, a @ b @ c)


@pytest.mark.parametrize("form", [stored, np.asarray])
def test_sampled_product(rng, form):
    b, x, y = thin(rng, 6, 5), rng.random((6, 3)), rng.random((3, 5))
    mask = stored(thin(rng, 6, 5))
    result = run("C[i, j] = B[i, j]*X[i, k]*Y[k, j]", B=form(b), X=x, Y=y, C=mask)
    np.testing.assert_allclose(dense(result), b * (x @ y) * (dense(mask) != 0))
    np.testing.assert_array_equal(result.coords, mask.coords)
    result = run("C[i, j] += X[i, k]*Y[k, j]", X=form(x), Y=y, C=mask)
    np.testing.assert_allclose(dense(result), dense(mask) + (x @ y) * (dense(mask) != 0))


@pytest.mark.parametrize("form", [stored, np.asarray])
def test_tensors_of_rank_three(rng, form):
    a, u, v = thin(rng, 4, 5, 6), rng.random((5, 3)), rng.random((6, 3))
    mttkrp = run("M[i, r] = A[i, j, k]*U[j, r]*V[k, r]", A=form(a), U=u, V=v, M=zeros(4, 3))
    np.testing.assert_allclose(mttkrp, np.einsum("ijk,jr,kr->ir", a, u, v))
    ttm = run("T[i, j, r] = A[i, j, k]*V[k, r]", A=form(a), V=v, T=zeros(4, 5, 3))
    np.testing.assert_allclose(ttm, np.einsum("ijk,kr->ijr", a, v))
    dot = run("s = A[i, j, k]*A[i, j, k]", A=form(a), s=0.0)
    assert dot.shape == ()
    np.testing.assert_allclose(dot, np.sum(a * a))


@pytest.mark.parametrize("form", [stored, np.asarray])
def test_scalars_and_diagonals(rng, form):
    a, x, y = thin(rng, 5, 5, density=0.6), rng.random(5), rng.random(5)
    np.testing.assert_allclose(run("t = A[i, i]", A=form(a), t=9.0), np.trace(a))
    np.testing.assert_allclose(run("t += 2*A[i, i] - 1", A=form(a), t=9.0), 8 + 2 * np.trace(a))
    np.testing.assert_allclose(run("t = x[i]*A[i, j]*y[j]", A=form(a), x=form(x), y=y, t=0.0), x @ a @ y)
    np.testing.assert_allclose(run("z[j] = A[0, j]", A=form(a), z=x), a[0])
    np.testing.assert_allclose(run("z[j] = A[n - 1, j]", {"n": 5}, A=form(a), z=x), a[4])
    np.testing.assert_allclose(run("D[i, i] = x[i]", x=form(x), D=zeros(5, 5)), np.diag(x))
    np.testing.assert_allclose(run("z[2] += A[i, j]", A=form(a), z=x), x + np.eye(5)[2] * a.sum())


@pytest.mark.parametrize("form", [stored, np.asarray])
def test_conditions(rng, form):
    a = thin(rng, 6, 6, density=0.7)
    i, j = np.indices(a.shape)
    for condition, mask in [
        ("j <= i", j <= i),
        ("i < j and not (i = 2 or j mod 2 = 0)", (i < j) & ~((i == 2) | (j % 2 == 0))),
        ("floor(i/2) = floor(j/2)", i // 2 == j // 2),
        ("i = j + 1", i == j + 1),
        ("floor(i/2) <= 1 and j < floor(i/2)", (i // 2 <= 1) & (j < i // 2)),
        ("floor(i/2) > 1 and floor(j/4) != 1", (i // 2 > 1) & (j // 4 != 1)),
        ("floor(i/4) < 1 and floor((i + j)/3) >= 1", (i // 4 < 1) & ((i + j) // 3 >= 1)),
        ("i > 2 => j != 3", (i <= 2) | (j != 3)),
        ("0 <= i - j < w", (i - j >= 0) & (i - j < 3)),
        ("min(i, j) >= 2", np.minimum(i, j) >= 2),
        ("false", i > 6),
    ]:
        result = run(f"y[i] = A[i, j] where {condition}", {"w": 3}, A=form(a), y=np.ones(6))
        np.testing.assert_allclose(result, (a * mask).sum(1), err_msg=condition)


def test_each_term_sums_over_its_own_indices(rng):
    a, b, x = thin(rng, 4, 5), rng.random((4, 3)), rng.random(4)
    result = run("y[i] = A[i, j] + B[i, k] - x[i] + 2", A=stored(a), B=b, x=x, y=zeros(4))
    np.testing.assert_allclose(result, a.sum(1) + b.sum(1) - x + 2)
    product_of_sums = run("y[i] = (A[i, j] + x[i])*(B[i, k] - 1)", A=stored(a), B=b, x=x, y=zeros(4))
    wanted = a.sum(1) * b.sum(1) - a.sum(1) + x * b.sum(1) - x
    np.testing.assert_allclose(product_of_sums, wanted)
    np.testing.assert_allclose(run("y[i] = -(x[i] - 3)/s", x=x, s=4.0, y=zeros(4)), (3 - x) / 4)


def test_statements_run_in_order(rng):
    a, x = thin(rng, 5, 5), rng.random(5)
    text = "t[i] = A[i, j]*x[j]; y[i] = A[j, i]*t[j]; y[i] += x[i]"
    result = evaluate(parse_statements(text), {"A": stored(a), "x": x, "t": zeros(5), "y": x}, {})
    assert set(result) == {"t", "y"}
    np.testing.assert_allclose(result["y"], a.T @ (a @ x) + x)


def test_target_on_the_right(rng):
    a, y = thin(rng, 4, 4), rng.random(4)
    np.testing.assert_allclose(run("y[i] = y[i] + A[i, j]", A=stored(a), y=y), y + a.sum(1))
    np.testing.assert_allclose(dense(run("A[i, j] = 2*A[i, j]", A=stored(a))), 2 * a)


def test_values_that_follow_from_others_of_the_target(rng):
    """x = b + L x with L below the diagonal: what is read is what is written, whatever stood there."""
    a, b = thin(rng, 4, 4), rng.random(4)
    lower = np.tril(a, -1)
    got = run("y[i] = b[i] + sum(j<i: A[i, j]*y[j])", A=stored(a), b=b, y=rng.random(4))
    np.testing.assert_allclose(got, np.linalg.solve(np.eye(4) - lower, b))
    with pytest.raises(ValueError, match="they need each other"):
        run("y[i] = A[i, j]*y[j]", A=np.ones((4, 4)), y=b)


# --- affine subscripts -------------------------------------------------------------------------------


@pytest.mark.parametrize("form", [stored, np.asarray])
@pytest.mark.parametrize("other", [stored, np.asarray])
def test_convolution(rng, form, other):
    x, w = thin(rng, 9, density=0.6), rng.random(3)
    valid = np.correlate(x, w, "valid")
    np.testing.assert_allclose(run("y[i] = x[i + r]*w[r]", x=form(x), w=other(w), y=zeros(7)), valid)
    np.testing.assert_allclose(run("y[i] = x[2*i + r]*w[r]", x=form(x), w=other(w), y=zeros(4)), valid[::2])
    same = run("y[i] = x[i + r - 1]*w[r]", x=form(x), w=other(w), y=zeros(9))
    np.testing.assert_allclose(same, np.correlate(x, w, "same"))
    full = run("y[i + r] += x[i]*w[r]", x=form(x), w=other(w), y=zeros(11))
    np.testing.assert_allclose(full, np.convolve(x, w))
    image, kernel = thin(rng, 6, 7, density=0.6), rng.random((2, 3))
    result = run("Y[i, j] = X[i + r, j + s]*W[r, s]", X=form(image), W=other(kernel), Y=zeros(5, 5))
    windows = np.lib.stride_tricks.sliding_window_view(image, kernel.shape)
    np.testing.assert_allclose(result, np.einsum("ijrs,rs->ij", windows, kernel))


@pytest.mark.parametrize("form", [stored, np.asarray])
def test_indices_without_an_extent(rng, form):
    a, x = thin(rng, 6, 6, density=0.7), thin(rng, 6)
    np.testing.assert_allclose(run("y[i] = x[i + r]", x=form(x), y=zeros(4)), np.full(4, x.sum()))
    diagonals = run("d[i - j + 5] = A[i, j]", A=form(a), d=zeros(11))
    np.testing.assert_allclose(diagonals, [np.trace(a, -k) for k in range(-5, 6)])
    result = run("y[i] = A[i + r, 2*j]", A=form(a), y=zeros(3))
    np.testing.assert_allclose(result, np.full(3, a[:, ::2].sum()))
    np.testing.assert_allclose(run("s = A[2*i + 1, 5 - 3*j]", A=form(a), s=0.0), a[1::2, [5, 2]].sum())
    triangle = run("s = x[i + j] where i >= 0 and j >= 0", x=form(x), s=0.0)
    np.testing.assert_allclose(triangle, np.sum(x * np.arange(1, 7)))


@pytest.mark.parametrize("form", [stored, np.asarray])
def test_blocks(rng, form):
    a, x = thin(rng, 3, 2, 2, 3), rng.random(6)
    matrix = a.transpose(0, 2, 1, 3).reshape(6, 6)
    text = "y[i] = A[floor(i/2), floor(j/3), i mod 2, j mod 3]*x[j]"
    np.testing.assert_allclose(run(text, A=form(a), x=x, y=zeros(6)), matrix @ x)
    text = "y[2*i + r] = A[i, j, r, s]*x[3*j + s]"
    np.testing.assert_allclose(run(text, A=form(a), x=x, y=zeros(6)), matrix @ x)


@pytest.mark.parametrize("text", ["s = x[i - j]", "s = A[i + j, i - j]"])
def test_unbounded(text):
    with pytest.raises(ValueError, match="nothing bounds it"):
        run(text, x=np.ones(4), A=np.ones((3, 3)), s=0.0)


# --- what is stored ----------------------------------------------------------------------------------


def test_structural_zeros_stay_zeros():
    a = Stored((2, 3), (np.array([0, 1]), np.array([1, 2])), np.array([2.0, 0.0]))
    x = np.array([np.inf, 3.0, 4.0])
    np.testing.assert_array_equal(run("y[i] = A[i, j]*x[j]", A=a, x=x, y=zeros(2)), [6, 0])
    x = np.array([np.nan, 3.0, np.inf])
    np.testing.assert_array_equal(run("y[i] = A[i, j]*x[j]", A=a, x=x, y=zeros(2)), [6, np.nan])
    np.testing.assert_array_equal(run("y[i] = A[i, j]*x[j]", A=dense(a), x=x, y=zeros(2)), [np.nan, np.nan])
    target = Stored((2,), (np.array([1]),), np.array([5.0]))
    np.testing.assert_array_equal(run("y[i] += A[i, j]*x[j]", A=a, x=np.ones(3), y=target).values, [5])


def test_duplicates_add_up(rng):
    rows, columns = rng.integers(0, 3, 20), rng.integers(0, 4, 20)
    a = Stored((3, 4), (rows, columns), rng.random(20))
    x = rng.random(4)
    np.testing.assert_allclose(run("y[i] = A[i, j]*x[j]", A=a, x=x, y=zeros(3)), dense(a) @ x)
    np.testing.assert_allclose(run("s = A[i, j]*A[i, j]", A=a, s=0.0), np.sum(dense(a) ** 2))


@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (3, 0), (1, 1), (3, 3)])
def test_empty_and_small(shape):
    rows, columns = shape
    nothing = Stored(shape, (np.zeros(0, int), np.zeros(0, int)), np.zeros(0))
    x, y = np.ones(columns), np.ones(rows)
    np.testing.assert_array_equal(run("y[i] = A[i, j]*x[j]", A=nothing, x=x, y=y), np.zeros(rows))
    np.testing.assert_array_equal(run("y[i] += A[i, j]*x[j]", A=np.ones(shape), x=x, y=y), 1 + columns * y)
    np.testing.assert_array_equal(run("s += A[i, j]", A=nothing, s=3.0), 3)
    np.testing.assert_array_equal(run("s = 1 + y[i]", y=y, s=3.0), 1 + rows)
    result = run("A[i, j] = B[i, j]", A=nothing, B=np.ones(shape))
    assert result.values.shape == (0,)


def test_scalars_may_be_stored():
    alpha = Stored((), (), np.array([2.0, 3.0]))
    absent = Stored((), (), np.array([]))
    np.testing.assert_array_equal(run("y[i] = alpha*x[i]", alpha=alpha, x=np.ones(2), y=zeros(2)), [5, 5])
    np.testing.assert_array_equal(run("y[i] = alpha*x[i]", alpha=absent, x=np.ones(2), y=zeros(2)), [0, 0])


# --- kernels and mistakes ----------------------------------------------------------------------------


def test_kernel_sizes(rng):
    text = """kernel k {
        tensor A[n, m] : csr
        tensor y : dense
        size n, m, w
        y[i] = A[i, j] where j < m - w and i < n - 1
    }"""
    kernel = parse_file(text).kernels[0]
    a = thin(rng, 4, 5)
    result = evaluate(kernel, {"A": stored(a), "y": zeros(4)}, {"w": 2})["y"]
    np.testing.assert_allclose(result, [*a[:3, :3].sum(1), 0])
    with pytest.raises(ValueError, match="size w"):
        evaluate(kernel, {"A": stored(a), "y": zeros(4)}, {})
    with pytest.raises(ValueError, match="another extent of A than 4"):
        evaluate(kernel, {"A": stored(a), "y": zeros(4)}, {"w": 2, "n": 3})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("y[i] = A[i, j]*z[j]", "expected tensor z"),
        ("y[i] = A[i, j]*y[j]", "expected one extent of j"),
        ("y[i] = A[i]", "dimensions"),
        ("y[i] = x[i] where p(i) > 2", "no call of `p`"),
    ],
)
def test_mistakes(text, message):
    tensors = {"A": np.ones((2, 3)), "x": np.ones(2), "y": np.ones(2), "S": stored(np.ones(2))}
    with pytest.raises(ValueError, match=message):
        run(text, **tensors)


# --- nested loops over random statements -------------------------------------------------------------

EXTENTS = {"i": 3, "j": 4, "k": 2}
WIDEST = range(-14, 15)
CONDITIONS = [
    "{a} <= {b}",
    "{a} < {b} + 1 and {b} % 2 == 0",
    "not ({a} == {b} or {b} > 1)",
    "floor(({a} + 2*{b})/3) >= 1",
    "{a} - {b} == 1",
    "{a} + {b} != 2 or {a} == 0",
]
SUBSCRIPTS = [
    "{a} + {b}",
    "{a} - {b}",
    "2*{a} - {b} + 1",
    "{b} - 2*{a}",
    "2*{a}",
    "1 - {a}",
    "1",
    "{a} + 1",
    "floor({a}/2)",
    "{a} % 2",
    "floor(({a} + {b})/2)",
]


def names_in(text):
    return {n for n in EXTENTS if n in text.replace("floor", "")}


def random_subscript(random_, names):
    if random_.random() < 0.6:
        return random_.choice(names)
    a, b = random_.sample(sorted(EXTENTS), 2)
    return random_.choice(SUBSCRIPTS).format(a=a, b=b)


def random_tensor(random_, subscripts, values):
    """A multiset of coordinates; a dense tensor has each once."""
    shape = tuple(EXTENTS.get(s, random_.choice([1, 2, 3, 4, 5])) for s in subscripts)
    everything = list(product(*map(range, shape)))
    is_dense = random_.random() < 0.4
    count = len(everything) if is_dense else random_.choice([0, 1, len(everything) // 2, len(everything)])
    coords = everything if is_dense else random_.choices(everything, k=count) if everything else []
    if not values and not is_dense:
        coords = list(dict.fromkeys(coords))
    entries = [(c, float(random_.randint(-3, 3))) for c in coords]
    return shape, is_dense, entries


def as_argument(tensor):
    shape, is_dense, entries = tensor
    values = np.array([v for _, v in entries])
    if is_dense:
        return values.reshape(shape)
    coords = np.array([c for c, _ in entries], dtype=np.int64).reshape(len(entries), len(shape))
    return Stored(shape, tuple(coords.T), values)


def random_term(random_, label, target, tensors):
    """Accesses with finitely many points: an index has an extent or stands beside indices that have one."""
    while True:
        names = random_.sample(sorted(EXTENTS), random_.randint(1, 3))
        factors = []
        for _ in range(random_.randint(0, 3)):
            if factors and random_.random() < 0.15:
                factors.append(factors[-1])
            else:
                rank = random_.choice([0, 1, 1, 2, 2, 3])
                own = [random_subscript(random_, names) for _ in range(rank)]
                factors.append((f"{label}{len(factors)}", own))
        subscripts = [s for _, f in [target, *factors] for s in f]
        alone = set(EXTENTS) & set(subscripts)
        used = set().union(*map(names_in, subscripts))
        bounding = [s for s in subscripts if "%" not in s]
        if all(n in alone or any(names_in(s) - alone == {n} for s in bounding) for n in used):
            break
    for name, own in factors:
        tensors.setdefault(name, random_tensor(random_, own, True))
    return factors, sorted(used), alone


def loops(target, op, terms, condition, tensors):
    """The meaning by nested loops: coordinate -> value, at the stored coordinates of the target."""
    old = tensors[target[0]][2]
    result = {c: v if op == "+=" else 0.0 for c, v in old}
    everywhere = set().union(*(alone for _, _, _, alone in terms))  # an index has one range in a statement
    for sign, factors, used, _ in terms:
        texts = [f"({', '.join(s)}{',' if s else ''})" for _, s in [target, *factors]]
        point = eval(f"lambda {', '.join(used)}: ({', '.join(texts)},)", {"floor": math.floor})
        test = eval(f"lambda {', '.join(used)}: {condition or True}", {"floor": math.floor})
        stores = []
        for factor, _ in factors:
            sums = {}
            for c, v in tensors[factor][2]:
                sums[c] = sums.get(c, 0) + v
            stores.append(sums)
        for values in product(*(range(EXTENTS[n]) if n in everywhere else WIDEST for n in used)):
            goal, *places = point(*values)
            if goal in result and test(*values) and all(p in s for p, s in zip(places, stores, strict=True)):
                result[goal] += sign * math.prod(s[p] for p, s in zip(places, stores, strict=True))
    return [result[c] for c, _ in old]


def random_case(seed):
    random_ = random.Random(seed)
    tensors = {}
    rank = random_.choice([0, 1, 1, 2, 2])
    target = ("Y", [random_subscript(random_, sorted(EXTENTS)) for _ in range(rank)])
    tensors["Y"] = random_tensor(random_, target[1], False)
    op = random_.choice(["=", "+="])
    terms = []
    for label in "ABC"[: random_.randint(1, 3)]:
        terms.append((random_.choice([1, -1, 2]), *random_term(random_, label, target, tensors)))
    common = sorted(set.intersection(*(set(used) for _, _, used, _ in terms)))
    condition = ""
    if len(common) >= 2 and random_.random() < 0.6:
        a, b = random_.sample(common, 2)
        condition = random_.choice(CONDITIONS).format(a=a, b=b)
    return target, op, terms, condition, tensors


def as_text(target, op, terms, condition):
    def access(name, subscripts):
        return f"{name}[{', '.join(subscripts)}]" if subscripts else name

    summands = ["*".join([f"({sign})", *(access(*f) for f in factors)]) for sign, factors, _, _ in terms]
    text = f"{access(*target)} {op} {' + '.join(summands)}"
    return f"{text} where {condition}" if condition else text


@pytest.mark.sampled(1)
@pytest.mark.parametrize("batch", range(10))
def test_against_nested_loops(batch):
    for seed in range(60 * batch, 60 * batch + 60):
        target, op, terms, condition, tensors = random_case(seed)
        text = as_text(target, op, terms, condition)
        try:
            result = run(text, **{n: as_argument(t) for n, t in tensors.items()})
        except ValueError as error:
            assert "nothing bounds it" in str(error)  # noqa: PT017
            continue
        values = result.values if isinstance(result, Stored) else result.reshape(-1)
        wanted = loops(target, op, terms, condition, tensors)
        np.testing.assert_array_equal(values, wanted, err_msg=f"seed {seed}: {text}")
