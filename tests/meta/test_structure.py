"""The promises about the code itself: imports follow the pipeline, no layout is known by name, import is cheap."""

from __future__ import annotations

import ast
import configparser
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

import pytest

from spfgen.lang.spec import builtin_names

PACKAGE = Path(__file__).resolve().parents[2] / "spfgen"
ORDER = ["facts", "sets", "lang", "layout", "space", "plan", "cir", "run", "array", "cluster"]
"""Each folder may import itself and those before it (and errors, folder, ir, progress, tuning); sets and facts are the
ground floor."""
GROUND = {"facts", "sets"}
ROOMS = {
    "plan": ["nodes", "analyse", "finds", "verify", "build", "transform", "steps", "assemble"],
    "cir": ["tree", "checks", "rewrite", "lower"],
    "run": ["files", "calls", "arrays", "drawings", "tuners", "examining"],
}
"""Within a folder a room may import at its top itself and those before it. Files beside the rooms, such as the nodes,
are for all of them, or put them together."""
DOORS = {"pipeline", "api", "cli", "explain", "catalogue", "__init__", "__main__"}


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def nodes(path: Path) -> Iterator[ast.AST]:
    """All that a file consists of."""
    return ast.walk(ast.parse(path.read_text(encoding="utf-8")))


@cache
def libraries_and_modules(path: Path) -> set[str]:
    """What a file imports, at its top or inside functions."""
    found = set()
    for node in nodes(path):
        if isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            if node.module == "spfgen":
                found |= {f"spfgen.{a.name}" for a in node.names}
        elif isinstance(node, ast.Import):
            found |= {a.name for a in node.names}
    return found


def imported(path: Path) -> set[str]:
    """The spfgen modules among them."""
    return {name for name in libraries_and_modules(path) if name.startswith("spfgen")}


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_follow_the_pipeline(path: Path) -> None:
    place = path.relative_to(PACKAGE).parts
    if len(place) == 1:
        return
    folder = place[0]
    for name in imported(path):
        parts = name.split(".")
        if len(parts) < 2 or parts[1] in (
            "late_imports",
            "errors",
            "folder",
            "ir",
            "limits",
            "progress",
            "public",
            "rt",
            "tuning",
            "version",
        ):
            continue
        if folder in ("run", "cluster") and parts[1] in ("kernel", "kernel_spec", "pipeline", "tuned"):
            continue  # jobs, tuning, calls with a text and blocks make kernels
        if path.parent.name == "examining" and name == "spfgen.api":
            continue  # it tries what users call
        assert parts[1] in ORDER, f"{path} imports {name}"
        earlier = ORDER.index(parts[1]) <= ORDER.index(folder) or {parts[1], folder} <= GROUND
        assert earlier, f"{path} imports {name} against the direction of the pipeline"


@pytest.mark.sampled(1)
@pytest.mark.parametrize("folder", ROOMS)
def test_rooms_have_an_order(folder: str) -> None:
    rooms = ROOMS[folder]
    assert sorted(rooms) == sorted(p.parent.name for p in (PACKAGE / folder).glob("*/__init__.py"))
    for path in (PACKAGE / folder).glob("*/*.py"):
        own = rooms.index(path.parent.name)
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            parts = (node.module or "").split(".") if isinstance(node, ast.ImportFrom) else []
            if parts[:2] == ["spfgen", folder] and len(parts) > 2 and parts[2] in rooms:
                assert rooms.index(parts[2]) <= own, f"{path} imports {node.module}"


CIRCLES = [2, 2]
"""How many modules import each other in circles, wherever the import stands: at the top, in a function, for types only.
No number may grow, nor may there be more of them: it is to become []."""


def test_circles_get_smaller() -> None:
    needs = dependences()
    circles = sorted((len(c) for c in components(needs) if len(c) > 1), reverse=True)
    assert len(circles) <= len(CIRCLES), circles
    assert all(size <= most for size, most in zip(circles, CIRCLES, strict=False)), circles


LATE_IMPORTS = 11
"""How many there are of modules that stand above (spfgen/late_imports.py): few, and never more."""


def test_imports_by_name_are_late_imports() -> None:
    """An import by a text hides a circle. The package names the modules of late imports, and imports what is public."""
    for path in modules():
        if "import_module" in path.read_text(encoding="utf-8"):
            assert str(path.relative_to(PACKAGE)) in {"__init__.py", "late_imports.py", *BY_NAME}, path
    assert sum(path.read_text(encoding="utf-8").count("] = LateImport(") for path in modules()) <= LATE_IMPORTS


BY_NAME: set[str] = set()
"""Modules that import others by a name."""


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")


def dependences() -> dict[str, list[str]]:
    """The modules that each module imports. The package itself, which says what is public, stands above all."""
    names = {module_name(p) for p in modules()} - {"spfgen"}
    needs = {}
    for path in modules():
        imports: set[str] = set()
        for node in nodes(path):
            if isinstance(node, ast.ImportFrom):
                imports |= {node.module or ""} | {f"{node.module}.{a.name}" for a in node.names}
            elif isinstance(node, ast.Import):
                imports |= {a.name for a in node.names}
        needs[module_name(path)] = sorted(imports & names - {module_name(path)})
    return needs


def test_functions_are_short() -> None:
    """None has more than 60 lines."""
    functions = ((p, n) for p in modules() for n in nodes(p) if isinstance(n, ast.FunctionDef))
    assert not [f"{p.name}:{n.name}" for p, n in functions if n.end_lineno and n.end_lineno - n.lineno >= 60]


def test_nothing_asks_the_package_itself() -> None:
    """What is public stands above all modules; they say where what they need is."""
    names = {module_name(p) for p in modules()}
    for path in modules():
        for node in nodes(path):
            if isinstance(node, ast.ImportFrom) and node.module == "spfgen" and path.name != "__main__.py":
                assert all(f"spfgen.{a.name}" in names for a in node.names), f"{path}:{node.lineno}"


def components(needs: Mapping[str, Sequence[str]]) -> list[frozenset[str]]:
    """The sets of modules that reach each other."""
    users: dict[str, list[str]] = {name: [] for name in needs}
    for name, imports in needs.items():
        for other in imports:
            users[other].append(name)
    found: list[frozenset[str]] = []
    left = set(needs)
    while left:
        start = min(left)
        found.append(frozenset(reached(start, needs, left) & reached(start, users, left)))
        left -= found[-1]
    return found


def reached(start: str, edges: Mapping[str, Sequence[str]], within: set[str]) -> set[str]:
    found, pending = {start}, [start]
    while pending:
        new = {n for n in edges[pending.pop()] if n in within} - found
        found |= new
        pending += new
    return found


def sole_importers(library: str) -> set[str]:
    naming = [path for path in modules() if library in path.read_text(encoding="utf-8")]
    return {
        str(path.relative_to(PACKAGE))
        for path in naming
        if any(name.split(".")[0] == library for name in libraries_and_modules(path))
    }


def test_each_solver_has_one_importer() -> None:
    assert sole_importers("islpy") == {"sets/named.py"}
    assert sole_importers("z3") == {"facts/prove.py"}
    assert sole_importers("subprocess") == {"run/compile.py"}


def test_no_layout_is_known_by_name() -> None:
    """A layout's name in a string of the compiler would be a special case."""
    names = set(builtin_names())
    quoted = re.compile(rf"[\"'](?:{'|'.join(map(re.escape, names))})[\"']")
    for path in modules():
        if not quoted.search(path.read_text(encoding="utf-8")):
            continue  # to parse all of them takes seconds
        for node in nodes(path):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                assert node.value not in names, f"{path}:{node.lineno} names the layout {node.value!r}"


def test_no_path_of_a_machine_or_registry() -> None:
    root = PACKAGE.parent
    for path in [*modules(), *root.glob("*.md"), *root.glob("*.cfg"), *root.glob("experiments/**/*.py")]:
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"/(work|root|home)/\w|pypi\.org|https?://\d", text), path


def test_import_is_cheap() -> None:
    """Nothing heavy is imported before it is needed."""
    heavy = ["islpy", "z3", "sympy", "scipy", "numpy", "lark", "click"]
    code = f"import sys, spfgen; print([m for m in {heavy} if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_every_package_is_installed() -> None:
    """setup.cfg lists them one by one, because the layouts lie elsewhere in the sources."""
    settings = configparser.ConfigParser()
    settings.read(PACKAGE.parent / "setup.cfg")
    listed = set(settings["options"]["packages"].split())
    there = {".".join(p.parent.relative_to(PACKAGE.parent).parts) for p in PACKAGE.rglob("__init__.py")}
    assert listed == there | {"spfgen.layouts", "spfgen.example"}


def test_the_version_grows_with_the_changelog() -> None:
    """What is unreleased belongs to a version that is later than the last release."""
    import spfgen

    text = (PACKAGE.parent / "CHANGELOG.md").read_text(encoding="utf-8")
    headings = re.findall(r"^## (.+)$", text, re.MULTILINE)
    dated = [h for h in headings if h != "Unreleased"]
    assert all(re.fullmatch(r"\d+\.\d+\.\d+ - \d{4}-\d{2}-\d{2}", h) for h in dated), "VERSION - DATE"
    versions = [tuple(map(int, h.partition(" ")[0].split("."))) for h in dated]
    assert versions == sorted(versions, reverse=True)
    own = tuple(int(part) for part in re.findall(r"\d+", spfgen.__version__))
    if headings[0] == "Unreleased":
        assert not versions or own > versions[0]
    else:
        assert own == versions[0]


READ_THE_LEVEL = {
    "pipeline.py",
    "plan/context.py",
    "plan/transform/passes.py",
    "cir/rewrite/passes.py",
    "space/from_lang.py",
}
"""Lists of passes, and what carries the level to them."""


def test_the_level_is_read_in_lists_of_passes() -> None:
    """What a level does is a pass or a choice with a name: nothing else asks how much is to be optimised."""
    owners = {"program", "context", "kernel"}
    for path in modules():
        place = str(path.relative_to(PACKAGE))
        if ".level" not in path.read_text(encoding="utf-8") or place in READ_THE_LEVEL:
            continue
        for node in nodes(path):
            if isinstance(node, ast.Attribute) and node.attr == "level":
                assert ast.unparse(node.value).split(".")[-1] not in owners, f"{path}:{node.lineno} reads the level"


def test_the_target_is_one_module() -> None:
    """Pragmas, clauses and what follows from them stand in cir/tree/openmp.py: a second target replaces that."""
    words = re.compile(r"\bomp\b|_OPENMP|\bGCC unroll|(?:firstprivate|num_threads|schedule)\(")
    for path in [*(PACKAGE / "cir").rglob("*.py"), *(PACKAGE / "plan").rglob("*.py")]:
        if path.name == "openmp.py" or not words.search(path.read_text(encoding="utf-8")):
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        told = {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Expr)}  # docstrings may name pragmas
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in told:
                assert not words.search(node.value), f"{path}:{node.lineno} knows the target: {node.value!r}"
