"""Optimisers may break what these kernels say: their loops are written for them."""

import pytest


@pytest.fixture(autouse=True)
def optimised(as_users_have_it: None) -> None:
    """As users have them."""
