"""Optimisers may break what these kernels say."""

from zlib import crc32

import pytest


@pytest.fixture(autouse=True)
def optimised(request: pytest.FixtureRequest) -> None:
    """As users have them in every third case, and in all that are exhaustive: -O3 takes several times as long."""
    if request.node.get_closest_marker("exhaustive") or crc32(request.node.nodeid.encode()) % 3 == 0:
        request.getfixturevalue("as_users_have_it")
