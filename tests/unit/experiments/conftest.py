"""The experiments are no part of the installed package: they are found from the root of the repository."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[3]))
