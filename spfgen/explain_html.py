"""What spfgen did with a kernel, as one HTML page that stands alone: no scripts, nothing from elsewhere.

The C is coloured by pygments where that is installed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape
from typing import Any

from spfgen.estimate import memory, work
from spfgen.explain import explain_json
from spfgen.facts.formula import show
from spfgen.layout.nodes import Layout
from spfgen.pipeline import Generated
from spfgen.space.nodes import Tensor
from spfgen.version import __version__

STYLE = """
:root { color-scheme: light; }
body { font: 15px/1.5 system-ui, sans-serif; color: #1f2328; background: #fff; max-width: 68rem; margin: 2rem auto;
       padding: 0 1rem; }
h1, h2, h3 { line-height: 1.25; } h2 { border-bottom: 1px solid #d0d7de; padding-bottom: .2rem; margin-top: 2.2rem; }
code, pre { font: 13px/1.45 ui-monospace, Menlo, Consolas, monospace; }
pre { background: #f6f8fa; padding: .8rem 1rem; overflow-x: auto; border-radius: 6px; white-space: pre; }
pre.wrap { white-space: pre-wrap; }
table { border-collapse: collapse; margin: .6rem 0; } td, th { border: 1px solid #d0d7de; padding: .25rem .6rem;
  text-align: left; vertical-align: top; } th { background: #f6f8fa; }
.because { color: #6e7781; font-style: italic; }
.proved { color: #1a7f37; font-weight: 600; } .refuted { color: #9a6700; font-weight: 600; }
.unknown { color: #cf222e; font-weight: 600; }
details { margin: .4rem 0; } summary { cursor: pointer; } figure { margin: .5rem 0; overflow-x: auto; }
nav a { margin-right: 1rem; } a { color: #0969da; }
"""
SECTIONS = {
    "tensors": "Tensors",
    "space": "Iteration space",
    "loops": "Loops",
    "dependences": "Dependences",
    "proofs": "Proofs",
    "cost": "Memory and work",
    "code": "C",
}


def explain_html(generated: Generated) -> str:
    """The page of one kernel."""
    facts = explain_json(generated)
    name = escape(facts["kernel"])
    colours, code = _coloured(generated.source)
    links = " ".join(f'<a href="#{key}">{title}</a>' for key, title in SECTIONS.items())
    body = [
        f"<h1>{name}</h1>",
        *(f"<pre>{escape(s['text'])}</pre>" for s in facts["statements"]),
        f"<nav>{links}</nav>",
        *_section("tensors", _tensors(generated)),
        *_section("space", _spaces(facts)),
        *_section("loops", _loops(facts)),
        *_section("dependences", _dependences(facts)),
        *_section("proofs", _proofs(facts)),
        *_section("cost", _cost(generated)),
        *_section("code", [code]),
        f'<p class="because">Made by spfgen {__version__}.</p>',
    ]
    head = f"<meta charset='utf-8'><title>{name}</title><style>{STYLE}{colours}</style>"
    return "\n".join(["<!DOCTYPE html>", f'<html lang="en"><head>{head}</head><body>', *body, "</body></html>", ""])


def notebook_html(generated: Generated) -> str:
    """What a notebook shows of a kernel: its statements; loops, proofs and the C folded below them."""
    facts = explain_json(generated)
    statements = "\n".join(s["text"] for s in facts["statements"])
    parts = [f"<div><b>{escape(facts['kernel'])}</b><pre>{escape(statements)}</pre>"]
    for key, content in {"loops": _loops(facts), "proofs": _proofs(facts), "code": _plain(generated.source)}.items():
        parts.append(f"<details><summary>{SECTIONS[key]}</summary>{''.join(content)}</details>")
    return "".join([*parts, "</div>"])


def _plain(source: str) -> Iterator[str]:
    yield f"<pre>{escape(source)}</pre>"


def _section(key: str, content: Iterable[str]) -> Iterator[str]:
    yield f'<section id="{key}"><h2>{SECTIONS[key]}</h2>'
    yield from content
    yield "</section>"


def _tensors(generated: Generated) -> Iterator[str]:
    rows = []
    for tensor in generated.program.tensors:
        role = "result" if tensor.is_output else "operand"
        shares = f", shares index arrays of {tensor.shared_with}" if tensor.shared_with else ""
        rows.append([f"<code>{escape(tensor.name)}</code>", f"<code>{escape(_layout(tensor))}</code>",
                     escape(tensor.value_type), escape(role + shares)])  # fmt: skip
    yield _table(["tensor", "layout", "values", ""], rows)
    for layout in dict.fromkeys(t.layout for t in generated.program.tensors if t.layout.rank):
        sentence = escape(layout.doc.partition("\n")[0])
        yield f"<details><summary><code>{escape(layout.name)}</code>: {sentence}</summary>"
        yield f"<pre class='wrap'>{escape(_relation(layout))}</pre>{_picture(layout)}</details>"


def _layout(tensor: Tensor) -> str:
    constants = ", ".join(f"{n}={v}" for n, v in tensor.layout.constants)
    return f"{tensor.layout.name}({constants})" if constants else tensor.layout.name


def _relation(layout: Layout) -> str:
    facts = "".join(f"\n{p.text}" for p in layout.facts)
    return f"[{', '.join(layout.positions)}] -> [{', '.join(layout.coordinates)}] : {show(layout.relation)}{facts}"


def _picture(layout: Layout) -> str:
    """A small example of the layout; nothing where none is found."""
    from spfgen.run.drawings.picture import example_of

    picture = example_of(layout)
    return picture and f"<figure>{picture}</figure>"


def _spaces(facts: dict[str, Any]) -> Iterator[str]:
    for statement in facts["statements"]:
        yield f"<h3><code>{escape(statement['text'])}</code></h3>"
        for space in statement["iteration_spaces"] or ["empty"]:
            yield f"<pre class='wrap'>{escape(space)}</pre>"


def _loops(facts: dict[str, Any]) -> Iterator[str]:
    for statement in facts["statements"]:
        yield f"<h3><code>{escape(statement['text'])}</code></h3>"
        yield f"<p>Order: {_codes(statement['loop_order']) or 'no loops'}"
        yield f"; searched: {_codes(statement['looked_for'])}.</p>" if statement["looked_for"] else ".</p>"
        yield f"<pre>{chr(10).join(map(_reasoned, statement['loops']))}</pre>"
        yield _list("Not taken", statement["not_taken"])
        yield _list("Expected nanoseconds, compared when the kernel is called", statement["costs"])
        yield _list("Not proved", statement["not_proved"])


def _reasoned(line: str) -> str:
    """A line of the plan with its reason set apart."""
    text, word, why = line.partition("because ")
    return f"{escape(text)}<span class='because'>{word}{escape(why)}</span>" if word else escape(line)


def _dependences(facts: dict[str, Any]) -> Iterator[str]:
    for statement in facts["statements"]:
        rows = [
            [f"<code>{escape(d['loop'])}</code>", escape(d["kind"]), f"<code>{escape(d['relation'] or '')}</code>",
             escape(d["example"] or ""), escape(d["by"]), escape(d["runs"])]
            for d in statement["dependences"]
        ]  # fmt: skip
        yield f"<h3><code>{escape(statement['text'])}</code></h3>"
        yield _table(["loop", "its iterations", "relation", "for example", "by", "runs"], rows)


def _proofs(facts: dict[str, Any]) -> Iterator[str]:
    for statement in facts["statements"]:
        yield _list("Holds of the loops", statement["proved"])
        yield _list("Only tested, not proved", statement["only_tested"])
    rows = []
    for answer in facts["obligations"]:
        word = f"<span class='{escape(answer['answer'])}'>{escape(answer['answer'])}</span>"
        example = ", ".join(f"{n} = {v}" for n, v in answer["counterexample"].items())
        asked = f"<details><summary>{answer['assumptions']} assumptions, {answer['instances_of_facts']} facts</summary>"
        asked += f"<pre>{escape(answer['smt'])}</pre></details>"
        rows.append([escape(answer["about"]), f"<code>{escape(answer['goal'])}</code>", word,
                     f"<code>{escape(example)}</code>", f"{answer['seconds'] * 1e3:.1f} ms", asked])  # fmt: skip
    if rows:
        yield "<h3>Asked of Z3</h3>"
        yield _table(["why", "goal", "answer", "counterexample", "time", "question"], rows)


def _cost(generated: Generated) -> Iterator[str]:
    yield _table(["array", "bytes"], [_row(pair) for pair in memory(generated.program)])
    yield "<p>Operations on values, as the sizes say on average, where every value that is looked for is there:</p>"
    yield _table(["statement", "operations"], [_row(pair) for pair in work(generated.program, generated.plans)])


def _row(pair: tuple[str, str]) -> list[str]:
    return [f"<code>{escape(text)}</code>" for text in pair]


def _coloured(source: str) -> tuple[str, str]:
    """(style, HTML) of C."""
    try:
        from pygments import highlight
        from pygments.formatters import HtmlFormatter
        from pygments.lexers import CLexer
    except ImportError:
        return "", f"<pre>{escape(source)}</pre>"
    formatter = HtmlFormatter(cssclass="c", style="default")
    return formatter.get_style_defs(".c"), highlight(source, CLexer(), formatter)


def _table(titles: list[str], rows: list[list[str]]) -> str:
    head = "".join(f"<th>{t}</th>" for t in titles)
    lines = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{lines}</table>"


def _list(title: str, items: list[str]) -> str:
    lines = "".join(f"<li>{escape(item)}</li>" for item in items)
    return f"<h3>{title}</h3><ul>{lines}</ul>" if items else ""


def _codes(names: list[str]) -> str:
    return ", ".join(f"<code>{escape(n)}</code>" for n in names)
