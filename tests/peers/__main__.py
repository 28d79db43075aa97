"""`python -m tests.peers NAME [OPTIONS]`: a suite that others wrote, on spfgen. Options go to pytest."""

from __future__ import annotations

import sys

from tests.peers import array_api, numpy_suite, scipy_suite, sparse_suite

SUITES = {"array-api": array_api.run, "numpy": numpy_suite.run, "scipy": scipy_suite.run, "sparse": sparse_suite.run}

if __name__ == "__main__":
    name, options = (sys.argv[1:2] or [""])[0], sys.argv[2:]
    if name not in SUITES:
        sys.exit(f"expected a suite, one of {', '.join(SUITES)}, but it is {name!r}")
    sys.exit(SUITES[name](options))
