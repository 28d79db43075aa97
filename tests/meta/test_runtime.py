"""The pieces of C that generated code builds upon."""

from __future__ import annotations

import re
from collections import Counter
from importlib.resources import files


def test_no_two_pieces_define_one_function() -> None:
    """A kernel may need any of them together; those for a type of values are for one type each."""
    texts = [f.read_text(encoding="utf-8") for f in files("spfgen.rt").iterdir() if f.name.endswith(".h")]
    defined = [n for t in texts for n in {*re.findall(r"^static [^;{}()#]*?\b(spfgen_\w+)\(", t, re.MULTILINE)}]
    assert [n for n, times in Counter(defined).items() if times > 1 and not n.endswith("_TYPE")] == []
