"""MLIR beside the experiment conv: storage of a tensor; where it is installed, results in each order of loops."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.conv import MLIR_PRODUCTS, case
from experiments.conv.layers import Kind, mlir_orders, mlir_product
from experiments.conv.layers import case as layer_case
from experiments.harness.case import Case, Missing, Refused
from experiments.peers import mlir


def is_there() -> bool:
    try:
        mlir.modules()
    except Missing:
        return False
    return True


installed = is_there()
needs_mlir = pytest.mark.skipif(not installed, reason="MLIR is not installed")
MATRIX = np.array([[0.0, 0, 0], [5, 0, 6], [0, 7, 0]])


def test_storage() -> None:
    def lists(levels: str) -> list[list[float]]:
        return [a.tolist() for a in mlir.Stored(MATRIX, levels).arrays]

    assert lists("DC") == [[0, 0, 2, 3], [0, 2, 1], [5, 6, 7]]
    assert lists("CC") == [[0, 2], [1, 2], [0, 2, 3], [0, 2, 1], [5, 6, 7]]
    assert lists("CD") == [[0, 2], [1, 2], [5, 0, 6, 0, 7, 0]]
    assert [a.tolist() for a in mlir.Stored(np.zeros((2, 2)), "CC").arrays] == [[0, 0], [], [0], [], []]


@pytest.mark.skipif(installed, reason="MLIR is installed")
def test_missing() -> None:
    with pytest.raises(Missing, match="pip install xtc-mlir-python-bindings"):
        mlir.modules()


@needs_mlir
def test_refused() -> None:
    product = mlir.Product(("i", "p"), ("i + p - 1, 0", "p", "i"), reductions=False)
    with pytest.raises(Refused, match="unexpected result less than 0"):
        mlir.prepare(product, mlir.Stored(MATRIX, "DC"), np.ones(2), np.zeros(2))


def complaints(one: Case) -> list[str]:
    data = one.data()
    runners = [peer.prepare(data) for peer in one.peers if peer.name.startswith("mlir")]
    complain = one.check(data)
    return [complain(runner.result()) for runner in runners]


@needs_mlir
def test_images() -> None:
    for zeros in (0.0, 0.8, 1.0):
        assert complaints(case((9, 11), zeros, 1)) == [""] * len(MLIR_PRODUCTS)


@needs_mlir
@pytest.mark.parametrize("step", [1, 2])
def test_layers(step: int) -> None:
    kind = Kind("3x3", 3, 4, 5, step, 9)
    assert complaints(layer_case(kind, 0.8, 1)) == [""] * (len(mlir_orders(kind)) + 1)


@needs_mlir
def test_orders() -> None:
    for order, product in MLIR_PRODUCTS.items():
        assert product.order(((11, 13), (3, 3), (9, 11)), "DC") == order
    for step in (1, 2):
        kind = Kind("3x3", 3, 4, 5, step, 9)
        shapes = ((1, 9, 9, 4), (3, 3, 4, 5), (1, kind.results, kind.results, 5))
        for order in mlir_orders(kind):
            assert mlir_product(kind, order).order(shapes, "DCCC") == order
        assert mlir_product(kind, "nhrwqcf").order(shapes, "DDDC") == "nhrwqcf"
