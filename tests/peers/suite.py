"""Tests of an installed package on tensors: copies of its files, run with names of the package that stand for ours.

Nothing of the package is part of spfgen. What is skipped is listed test by test, each with the reason.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


def run(files: Sequence[Path], adapter: str, options: Sequence[str], other: Mapping[str, str] | None = None) -> int:
    """Run copies of the files under pytest with an adapter, a plugin of which they import the names that stand for
    ours: `other` has patterns of their text and what is to be there. Returns the status of pytest.

    Counts are printed at the end, and each reason for which something is skipped.
    """
    paths = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    setting = {**os.environ, "PYTHONPATH": paths, "SPFGEN_COMPILE": os.environ.get("SPFGEN_COMPILE", "never")}
    with tempfile.TemporaryDirectory() as own:
        for file in files:
            text = file.read_text(encoding="utf-8")
            for pattern, instead in (other or {}).items():
                text = re.sub(pattern, instead, text, flags=re.MULTILINE)
            (Path(own) / file.name).write_text(text, encoding="utf-8")
        (Path(own) / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
        command = [sys.executable, "-m", "pytest", "-p", adapter, "-p", "no:cacheprovider", "-q", "-rs", "--tb=short"]
        return subprocess.run([*command, "-W", "ignore", *options], cwd=own, env=setting).returncode


def skip(items: Sequence[Any], reasons: Mapping[str, str]) -> None:
    """Leave out the items that a pattern of `reasons` names: the file and the test, as `test_coo::test_name`, where
    the test may have its class before and its parameters behind."""
    import pytest

    unused = dict(reasons)
    for item in items:
        own = [p for p in reasons if _is_named(item, p)]
        for pattern in own:
            unused.pop(pattern, None)
        if own:
            item.add_marker(pytest.mark.skip(reason=reasons[own[0]]))
    if unused and len(items) > 500:
        sys.stderr.write(f"named to be skipped, but not there: {', '.join(unused)}\n")


def _is_named(item: Any, pattern: str) -> bool:
    module, _, wanted = pattern.partition("::")
    if not fnmatchcase(item.path.stem, module):
        return False
    function = getattr(item, "originalname", None) or item.name
    kind = f"{item.cls.__name__}::" if item.cls else ""
    names = (function, item.name, kind + function, kind + item.name)
    return any(n == wanted or ("*" in wanted and fnmatchcase(n, wanted)) for n in names)
