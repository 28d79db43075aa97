"""What pages say that is made by spfgen itself: galleries, tables, figures. Each gives (markdown, files by path)."""

from __future__ import annotations

import html
import inspect
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from typing import Any

from docs.made import papers
from docs.made.pages import ROOT
from experiments import report

Made = tuple[str, dict[str, str]]


def pipeline() -> Made:
    """The table of contents of the compiler, as it stands in its docstring."""
    import spfgen.pipeline

    text = spfgen.pipeline.__doc__ or ""
    first, _, rest = text.partition("\n\n")
    return f"`pipeline.py`: {first}\n\n{rest}", {}


def passes() -> Made:
    """Every pass that rewrites plans or C: its level and what it is about."""
    from spfgen.pipeline import PASSES

    rows = ["| pass | level | what it does |", "| --- | --- | --- |"]
    rows += [f"| {p.name} | {p.level} | {p.about} |" for p in PASSES]
    return "\n".join(rows), {}


def choices() -> Made:
    """Every choice that is made while loops are planned: its level and what it is about."""
    from spfgen.plan.choices import CHOICES

    rows = ["| decision | level | what it does |", "| --- | --- | --- |"]
    rows += [f"| {c.name} | {c.level} | {c.about} |" for c in CHOICES]
    return "\n".join(rows), {}


def nodes() -> Made:
    """The nodes of plans, as they stand in their docstring."""
    from spfgen.plan import nodes as plan_nodes

    first, grammar, last = (inspect.getdoc(plan_nodes) or "").split("\n\n")
    return f"`plan/nodes/`: {first}\n\n{last}\n\n```text\n{textwrap.dedent(grammar)}\n```", {}


def folders() -> Made:
    """What each folder holds: the first sentence of its modules."""
    import ast

    lines = []
    rooms = ("nodes", "analyse", "finds", "verify", "build", "transform", "steps", "assemble")
    plan = ("plan", *(f"plan/{room}" for room in rooms))
    cir = ("cir", *(f"cir/{room}" for room in ("tree", "checks", "rewrite", "lower", "lower/parallel")))
    run = ("run", *(f"run/{room}" for room in ("files", "calls", "arrays", "drawings", "tuners", "examining")))
    stages = ("facts", "sets", "lang", "lang/oracle", "layout", "space", *plan, *cir, *run, "array", "cluster")
    for folder in (*stages, ""):
        rows = ["| module | what it does |", "| --- | --- |"]
        for path in sorted((ROOT / "spfgen" / folder).glob("*.py")):
            said = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
            if said:
                sentence = " ".join(said.split("\n\n")[0].split()).replace("|", "\\|")
                rows.append(f"| `{path.name}` | {sentence} |")
        lines += folded(f"spfgen/{folder}/".replace("//", "/"), rows)
    return "\n".join(lines), {}


def commands() -> Made:
    """The help of every command."""
    import click

    from spfgen.cli import command

    parts = []
    names: dict[str, Any] = {"help_option_names": command.context_settings["help_option_names"]}  # click remembers them
    for name in sorted(command.commands):
        found = command.commands[name]
        inner = [found, *found.commands.values()] if isinstance(found, click.Group) else [found]
        parts.append(f"## {name}\n")
        for one in inner:
            path = f"spfgen {name}" if one is found else f"spfgen {name} {one.name}"
            context = click.Context(one, info_name=path, terminal_width=100, max_content_width=100, **names)
            parts.append(f"```text\n{one.get_help(context)}\n```\n")
    return "\n".join(parts), {}


def loop() -> Made:
    """The loop over the rows of the product of csr and bcsr, as C to be read."""
    import textwrap

    import spfgen

    kernels = spfgen.load(ROOT / "tests" / "data" / "kernels.spf").kernels
    source = kernels["csr_times_bcsr"].compile(finds={"B.pb": "sequential"}, optimize=1).source
    lines = source.rpartition("#pragma omp parallel for")[2].splitlines()
    first = next(k for k, line in enumerate(lines) if line.lstrip().startswith("for (int64_t i = "))
    indent = len(lines[first]) - len(lines[first].lstrip())
    last = next(k for k in range(first, len(lines)) if lines[k] == " " * indent + "}")
    return f"```c\n{textwrap.dedent(chr(10).join(lines[first : last + 1]))}\n```", {}


# --- layouts -------------------------------------------------------------------------------------------


def gallery() -> Made:
    """Every layout that comes with spfgen: doc, picture, relation, what is proved of it, which finds it allows."""
    parts, pictures = [], {}
    for name in drawn():
        text, picture = chapter(name)
        parts.append(text)
        pictures[f"pictures/{name}.svg"] = picture
    return "\n".join(parts), pictures


def drawn() -> list[str]:
    """The layouts that have a chapter."""
    from spfgen.lang.nodes import LayoutAlias
    from spfgen.lang.spec import builtin, builtin_names

    return [n for n in builtin_names() if not isinstance(builtin(n), LayoutAlias)]


def chapter(name: str) -> tuple[str, str]:
    """(markdown, SVG) of one layout."""
    from spfgen.catalogue import describe, layout_named
    from spfgen.run.drawings.diagram import diagram
    from spfgen.run.drawings.example import example
    from spfgen.run.drawings.svg import svg

    layout = layout_named(name)
    sentence, _, drawing = layout.doc.partition("\n")
    source = re.search(r"Source:.*", drawing, re.S)
    picture = svg(diagram(example(layout_named(name, to_draw=True)), sentence))
    parts = [f"## {name}", "", sentence, "", f"![{name}](pictures/{name}.svg)", ""]
    parts += [f"- {line}" for line in said_of(name)]
    if source:
        parts += ["", f"*{' '.join(source[0].split())}*"]
    parts += ["", *folded("Declaration and facts", ["```text", describe(name).rstrip(), "```"])]
    return "\n".join([*parts, ""]), picture


def said_of(name: str) -> Iterator[str]:
    """What is proved of a layout."""
    from spfgen.catalogue import layout_named
    from spfgen.errors import Unsupported
    from spfgen.layout.pack import key_orders
    from spfgen.layout.proofs import as_output, one_coordinate, stored_once

    layout = layout_named(name)
    once = stored_once(layout).proved
    yield "A coordinate is stored at most once." if once else "A coordinate may be stored twice; its values add up."
    if not all(one_coordinate(layout, v).proved for v in layout.values):
        yield "An element may have several coordinates."
    yield "Results can be in it." if as_output(layout) is None else "It is for operands only."
    try:
        key_orders(layout)
        yield "Packing is derived from the relation."
    except Unsupported as error:
        yield f"Not packed: {error.message}"
    for dim, algorithms in finds_of(name).items():
        yield f"`{dim}` may be found by {', '.join(algorithms)}."
    for binding in layout.bindings:
        yield f"`{binding.library}{'.' + binding.format if binding.format else ''}` arrays are used in place."


@cache
def finds_of(name: str) -> dict[str, tuple[str, ...]]:
    """The algorithms that are proved right when two tensors in the layout meet, by position."""
    import spfgen
    from spfgen.catalogue import layout_named
    from spfgen.errors import SpfgenError
    from spfgen.ir import walk
    from spfgen.plan.finds.choose import ALGORITHMS
    from spfgen.plan.nodes import Find

    rank = layout_named(name).rank
    subscripts = ", ".join(f"i{k}" for k in range(rank))
    try:
        kernel = spfgen.compile(f"s += A[{subscripts}]*B[{subscripts}]", A=name, B=name)
    except SpfgenError:
        return {}
    found: dict[str, dict[str, None]] = {}
    for plan in kernel.generated.plans:
        for node in walk(plan):
            if isinstance(node, Find):
                own = found.setdefault(node.dim.partition(".")[2], {})
                own[node.algorithm] = None
                own |= {ALGORITHMS[r.algorithm]: None for r in node.rejected if r.why.startswith("proved correct, but")}
    return {dim: tuple(sorted(names)) for dim, names in found.items()}


# --- errors --------------------------------------------------------------------------------------------


def errors() -> Made:
    """Every mistake in a spec that is tested, by what it is about: the text and the message."""
    topics: dict[str, list[str]] = {}
    for path in sorted((ROOT / "tests" / "errors").glob("*.spf")):
        text = path.read_text(encoding="utf-8")
        header = re.findall(r"^# (\w+): (.*)$", text, re.M)
        message = next((said for key, said in header if key == "error"), "")
        message, *hint = map(_without_escapes, [message, *(said for key, said in header if key == "hint")])
        body = "\n".join(line for line in text.splitlines() if not re.match(r"# (error|at|hint)\w*:", line))
        topic = path.stem.split("_")[0]
        lines = ["```text", *body.splitlines(), "```", "", *(f"note: {_plain(h)}" for h in hint)]
        topics.setdefault(topic, []).append("\n".join(folded(message, lines)))
    parts = []
    for topic, items in topics.items():
        parts += [f"### {topic}", "", *items]
    return "\n".join(parts), {}


def _without_escapes(pattern: str) -> str:
    """What such an expression matches: the tests compare messages with expressions."""
    for escape, shown in ((r"\.\*(?=[\w/]+\\\.spf)", ""), (r"\\d\+", "7"), (r"\.\*", "..."), (r"\\(.)", r"\1")):
        pattern = re.sub(escape, shown, pattern)
    return pattern


def _plain(text: str) -> str:
    return text.replace("<", "&lt;")


def folded(title: str, lines: Iterable[str]) -> list[str]:
    """Lines that are shown when their title is clicked."""
    summary = re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(title, quote=False))
    return ["<details>", f"<summary>{summary}</summary>", "", *lines, "", "</details>", ""]


def codes() -> Made:
    """The kinds of errors with their exit codes."""
    from spfgen import errors as module

    kinds = [
        module.CheckFailed, module.UsageError, module.SpecError, module.Unsupported, module.ToolError,
        module.DataError, module.InternalError,
    ]  # fmt: skip
    rows = ["| exit code | class | what it means |", "| --- | --- | --- |"]
    rows += [f"| {k.exit_code} | `{k.__name__}` | {' '.join((k.__doc__ or '').split())} |" for k in kinds]
    return "\n".join(rows), {}


def finds() -> Made:
    """The algorithms by which positions are found."""
    from spfgen.lang.types import FINDS

    rows = ["| algorithm | how a position is found |", "| --- | --- |"]
    return "\n".join([*rows, *(f"| `{name}` | {said} |" for name, said in FINDS.items())]), {}


def types() -> Made:
    """The element types."""
    from spfgen.lang.types import TYPES

    rows = ["| type | C | bytes |", "| --- | --- | --- |"]
    return "\n".join([*rows, *(f"| `{n}` | `{t.c}` | {t.bytes} |" for n, t in TYPES.items())]), {}


def performance() -> Made:
    """The tables that the experiments recorded."""
    return report.page("../experiments/results/"), {}


def times(page: str) -> Made:
    """The recorded times of the recipes of a page, beside the usual way."""
    summary = report.known().get("recipes")
    if summary is None:
        return "Not recorded yet.", {}
    rows = ["| recipe | spfgen, ms | the usual way | its time / ours |", "| --- | --- | --- | --- |"]
    for case in summary["cases"]:
        own, _, title = case["label"].partition(": ")
        if own == page and case["us"] is not None:
            ((peer, ratio),) = case["others"].items()
            rows.append(f"| {title} | {case['us'] / 1e3:.2f} | {peer} | {ratio:.2g} |")
    when = f"One thread, {summary['cpu']}, {summary['date']}; sizes and code: `experiments/recipes`."
    return "\n".join([*rows, "", f"Above 1, spfgen is faster. {when}"]), {}


TIMED = ("rows", "groups", "graphs", "assembly", "networks")


def features() -> Made:
    """Feature by paper."""
    return papers.table(), {}


ALL: dict[str, Callable[[], Made]] = {
    f.__name__: f
    for f in (
        pipeline,
        passes,
        choices,
        nodes,
        folders,
        loop,
        gallery,
        commands,
        errors,
        codes,
        finds,
        types,
        performance,
        features,
    )
} | {f"times_{page}": partial(times, page) for page in TIMED}
