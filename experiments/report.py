"""`python -m experiments report`: RESULTS.md and plots, from the records that experiments leave in results/.

Records hold every sample and stay on the machine. `results/summary.json` is what is kept of them: it is brought up to
date with each record that is there, and everything else (RESULTS.md, the plots, the README's table, the page in the
documentation) is made of it alone. A time of a peer is divided by ours: above 1 ours is faster.
"""

from __future__ import annotations

import ast
import json
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results"
SUMMARY = RESULTS / "summary.json"
OURS, RIGHT, MISSING = "ours", "right", "missing"
ALL = "overview"
CHOSEN, INSPECTED = "ours-chosen", "mkl-ie"
OWN = ("ours", "spfgen-", "layouts-known")
"""How the names of contestants begin that are spfgen too, in another setting."""

HEADLINES = {
    "codegen_time": "Zhao et al. 2022, Table 7: 36 ms for SpMV on csr, 91 ms for SpMSpM of bcsr and coo",
    "conv": "Liu et al. 2024, Figure 16: the first layer of ResNet in DCCC 1.8 to 19.5 times TACO with windows",
    "conversion": "none: Root et al. 2024 (Figure 25) time conversions only within reshaping, joining and slicing",
    "minimax": "Henry et al. 2021, Figure 30: 6.4 to 70 times PyData/Sparse, by the order",
    "mri": "Henry et al. 2021, Figure 29: 9.4 times PyData/Sparse, 2.7 times numpy",
    "sddmm": "Ahrens et al. 2024, Figure 24: 1.2 to 28 times DuckDB in three kernels, SDDMM one of them; no other peer",
    "slicing": "Henry et al. 2021, Figures 27 and 28: 2.25 times SciPy for windows, 1.47 for strides",
    "spmspm": "Zhao et al. 2022, Table 5: 0.97 to 1.21 times TACO, by layouts",
    "spmspv": "Zhao et al. 2022, Table 4 (geometric means, parallel): 2.72 times TACO, 4.06 Eigen, 2.50 GraphBLAS",
    "spmv": "Zhao et al. 2022, Figure 12: comparable to TACO, Eigen and GraphBLAS; MKL with its inspector is faster. "
    "Ahrens et al. 2024, Figure 15: up to 2.51 times TACO in the layout that fits the matrix best",
    "structured": "Ahrens et al. 2024, Figures 15, 21 and 24: erosion of runs 19.5 times OpenCV, a masked histogram "
    "20 times, triangles, SDDMM and chains 1.2 to 28 times DuckDB",
    "ttm": "Zhao et al. 2022, Table 6: serial as fast as TACO, or a little slower; parallel, which TACO's is not",
}
NO_HEADLINE = "none: none of the papers measures this"
"""What the papers say of these tables, as geometric means over the time of the other."""


# --- from records to the summary -----------------------------------------------------------------------


def summarised(record: Mapping[str, Any]) -> dict[str, Any]:
    """What is kept of a record: medians, ratios, shares."""
    machine = record["machine"]
    return {
        "quick": record["quick"],
        "threads": record["threads"],
        "rounds": record["rounds"],
        "date": machine["date"][:10],
        "cpu": machine["cpu"],
        "cores": machine["cores"],
        "cc": machine["versions"]["cc"],
        "disturbed": _disturbed(record),
        "cases": [_case(case) for case in record["cases"]],
    }


def _case(case: Mapping[str, Any]) -> dict[str, Any]:
    """`us` is None where ours took no part, or was wrong; `absent` says why."""
    best = [c for c in case["contestants"] if c["best_setting"]]
    ours = next((c for c in best if c["name"] == OURS and c["status"] == RIGHT), {})
    others = {c["name"]: round(c["time_over_ours"], 3) for c in best if c["name"] != OURS and c.get("time_over_ours")}
    share = ours.get("share_of_roofline")
    limit = case.get("limit_seconds")
    return {
        "label": case["label"],
        "threads": case["threads"],
        "us": round(ours["median_ns"] / 1e3, 2) if ours else None,
        "roofline": None if share is None else round(share, 3),
        "of_limit": None if limit is None or not ours else round(ours["median_ns"] * 1e-9 / limit, 3),
        "others": others,
        "remarks": {c["name"]: c["remark"] for c in best if c.get("remark")},
        "absent": {c["name"]: f"{c['status']}: {c['reason']}" for c in best if c["status"] != RIGHT},
    }


def _disturbed(record: Mapping[str, Any]) -> float:
    """The share of samples during which other processes had cores."""
    timed = [c for case in record["cases"] for c in case["contestants"] if "samples_ns" in c]
    taken = sum(len(c["samples_ns"]) for c in timed)
    return round(sum(c["disturbed_samples"] for c in timed) / taken, 3) if taken else 0.0


def updated(folder: Path, before: Mapping[str, Any]) -> dict[str, Any]:
    """The summary with the records of a folder in place of what was known of those experiments."""
    found = dict(before)
    for path in sorted(folder.glob("*.json")):
        record = json.loads(path.read_text(encoding="utf-8"))
        if record.get("cases") and "experiment" in record and "threads" in record["cases"][0]:
            found[record["experiment"]] = summarised(record)
    return dict(sorted(found.items()))


def known(path: Path = SUMMARY) -> dict[str, Any]:
    """The summary that is kept; empty where there is none."""
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else {}


# --- figures -------------------------------------------------------------------------------------------


def peers_of(case: Mapping[str, Any]) -> dict[str, float]:
    """The ratios of contestants that are not spfgen."""
    return {n: r for n, r in case["others"].items() if not n.startswith(OWN)}


def mean(values: Sequence[float]) -> float:
    """The geometric mean."""
    return math.exp(sum(map(math.log, values)) / len(values))


def best_peers(summary: Mapping[str, Any]) -> list[tuple[float, str, str]]:
    """(ratio, peer, case): the fastest of the others in each case."""
    found = []
    for case in summary["cases"]:
        ratios = peers_of(case)
        if ratios and case["of_limit"] is None:
            name = min(ratios, key=lambda n: ratios[n])
            found.append((ratios[name], name, case["label"]))
    return found


def absent(summaries: Mapping[str, Any]) -> dict[str, list[str]]:
    """The peers that are not installed, by what is missing and how one gets it."""
    cases = [c for summary in summaries.values() for c in summary["cases"]]
    present = {peer for case in cases for peer in case["others"]}
    found: dict[str, dict[str, None]] = {}
    for case in cases:
        for peer, why in case["absent"].items():
            status, _, reason = why.partition(": ")
            if status == MISSING and peer not in present and not peer.startswith(OWN):
                found.setdefault(reason, {})[peer] = None
    return {reason: list(names) for reason, names in found.items()}


def title_of(name: str) -> str:
    """The first sentence of what the experiment says of itself."""
    path = HERE / name / "__init__.py"
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) if path.exists() else None
    return " ".join((text or name).split("\n\n")[0].split())


# --- Markdown ------------------------------------------------------------------------------------------


def overview(summaries: Mapping[str, Any]) -> str:
    """A line for each experiment: against the fastest of all others in each case."""
    rows = [
        "| experiment | cases | TACO / ours | fastest other / ours | worst case | first in | of the roofline |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, summary in summaries.items():
        found = best_peers(summary)
        limits = [c["of_limit"] for c in summary["cases"] if c["of_limit"] is not None]
        shares = [c["roofline"] for c in summary["cases"] if c["roofline"] is not None]
        share = f"{median(shares):.0%}" if shares else ""
        taco = [c["others"]["taco"] for c in summary["cases"] if "taco" in c["others"]]
        against = f"{mean(taco):.2f}" if taco else ""
        if found:
            ratio, peer, label = min(found)
            wins = sum(r > 1 for r, _, _ in found)
            figures = f"{mean([r for r, _, _ in found]):.2f} | {ratio:.2f} ({peer}; {label}) | {wins} of {len(found)}"
        elif limits:
            figures = f"{mean(limits):.2f} of the paper's time | {max(limits):.2f} of it | "
        else:
            figures = " | | "
        rows.append(f"| {name} | {len(summary['cases'])} | {against} | {figures} | {share} |")
    return "\n".join([*rows, "", recorded(summaries)])


def recorded(summaries: Mapping[str, Any]) -> str:
    """When the records were made, at which sizes and on what: the table is older than the compiler beside it."""
    dates = sorted({s["date"] for s in summaries.values()})
    when = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    quick = [n for n, s in summaries.items() if s["quick"]]
    sizes = "at the sizes of `--quick`" if len(quick) == len(summaries) else "at full sizes"
    if 0 < len(quick) < len(summaries):
        sizes += f", but for {', '.join(quick)}, which are `--quick`"
    by_processor: dict[str, list[str]] = {}
    for name, summary in summaries.items():
        by_processor.setdefault(summary["cpu"], []).append(name)
    usual, *others = sorted(by_processor, key=lambda cpu: -len(by_processor[cpu]))
    on = "; ".join([f"on {usual}", *(f"{', '.join(by_processor[cpu])} on {cpu}" for cpu in others)])
    return f"Recorded {when}, {sizes}, {on}. Later changes of the compiler are not in these figures."


def chapter(name: str, summary: Mapping[str, Any], pictures: str, drawn: Collection[str] = ()) -> str:
    """Everything about one experiment; `drawn` are the plots that there are."""
    quick = ", `--quick`" if summary["quick"] else ""
    lines = [f"## {name}", "", title_of(name), ""]
    lines += [
        f"Paper's headline: {HEADLINES.get(name, NO_HEADLINE)}.",
        "",
        f"{summary['cpu']}, {summary['cores']} cores, up to {summary['threads']} threads, "
        f"{summary['rounds']} rounds{quick}, {summary['cc']}, {summary['date']}. "
        f"Samples disturbed by other processes: {summary['disturbed']:.0%}.",
        "",
        *_peer_table(summary),
    ]
    if name in drawn:
        lines += [f"![{name}: time of each other / ours, a dot for each case]({pictures}{name}.svg)", ""]
    return "\n".join([*lines, *_case_table(summary), "", *_chosen_table(summary)])


def _peer_table(summary: Mapping[str, Any]) -> Iterator[str]:
    ratios: dict[str, list[tuple[float, str]]] = {}
    for case in summary["cases"]:
        if case["of_limit"] is None:
            for peer, ratio in case["others"].items():
                ratios.setdefault(peer, []).append((ratio, case["label"]))
    if not ratios:
        return
    yield "| other | other / ours, geometric mean | least | most | ours faster in |"
    yield "| --- | --- | --- | --- | --- |"
    for peer, found in sorted(ratios.items(), key=lambda item: mean([r for r, _ in item[1]])):
        (least, where), (most, _) = min(found), max(found)
        wins = sum(r > 1 for r, _ in found)
        average = mean([r for r, _ in found])
        yield f"| {peer} | {average:.2f} | {least:.2f} ({where}) | {most:.2f} | {wins} of {len(found)} |"
    yield ""
    absent: dict[str, list[str]] = {}
    for case in summary["cases"]:
        for peer, why in case["absent"].items():
            absent.setdefault(f"{peer} ({why})", []).append(case["label"])
    if absent:
        yield "Not timed: " + "; ".join(f"{peer} in {len(labels)}" for peer, labels in absent.items()) + "."
        yield ""


def _case_table(summary: Mapping[str, Any]) -> Iterator[str]:
    yield "| case | ours, us | of the roofline | fastest other | its time / ours |"
    yield "| --- | --- | --- | --- | --- |"
    for case in summary["cases"]:
        if case["us"] is None:
            yield f"| {case['label']} | {case['absent'].get(OURS, 'did not take part')} | | | |"
            continue
        ratios = peers_of(case)
        peer = min(ratios, key=lambda n: ratios[n]) if ratios else ""
        share = "" if case["roofline"] is None else f"{case['roofline']:.0%}"
        if case["of_limit"] is not None:
            peer, ratio = "the paper's time", f"ours takes {case['of_limit']:.0%} of it"
        elif peer:
            ratio = f"{ratios[peer]:.2f}" + ("" if ratios[peer] > 1 else " (slower)")
        else:
            ratio = "none took part"
        yield f"| {case['label']} | {case['us']:,.1f} | {share} | {peer} | {ratio} |"


def _chosen_table(summary: Mapping[str, Any]) -> Iterator[str]:
    """Ours in the layout that was chosen for the data beside MKL's after its inspector has seen them."""
    cases = [c for c in summary["cases"] if {CHOSEN, INSPECTED} <= c["others"].keys() and c.get("remarks")]
    if not cases:
        return
    ratios = [(c["others"][INSPECTED] / c["others"][CHOSEN], c) for c in cases]
    yield (
        f"A stored anew, untimed: `{CHOSEN}` (`spfgen.tune_layouts`) beside `{INSPECTED}`. Time of {INSPECTED} / "
        f"{CHOSEN}, geometric mean {mean([r for r, _ in ratios]):.2f}, least {min(r for r, _ in ratios):.2f}."
    )
    yield ""
    yield f"| case | {INSPECTED} / {CHOSEN} | {INSPECTED} / ours | {CHOSEN} | {INSPECTED} |"
    yield "| --- | --- | --- | --- | --- |"
    for ratio, case in ratios:
        remarks = [case["remarks"].get(name, "") for name in (CHOSEN, INSPECTED)]
        yield f"| {case['label']} | {ratio:.2f} | {case['others'][INSPECTED]:.2f} | {' | '.join(remarks)} |"
    yield ""


def results(summaries: Mapping[str, Any], pictures: str, drawn: Collection[str] = ()) -> str:
    """The whole text."""
    if not summaries:
        return "No experiment has been recorded yet.\n"
    chapters = [chapter(name, summary, pictures, drawn) for name, summary in summaries.items()]
    plot = [f"![Fastest other / ours, a dot for each case]({pictures}{ALL}.svg)", ""] if ALL in drawn else []
    return "\n".join([overview(summaries), "", *plot, *chapters]).rstrip() + "\n"


HEADING = """# Results

Written by `python -m experiments report`; do not edit. A ratio is the time of another library divided by ours: above 1,
ours is faster. Over several cases it is the geometric mean. The roofline is the memory bandwidth, measured in the same
rounds; the share of it is the median, and is given only for data that do not fit in the caches. Every library runs at
its best setting, with the same number of threads, in calls that alternate in one process. Results were checked in the
run that timed them. Losses are shown like wins.

"""


BEGIN, END = "<!-- results -->", "<!-- end of results -->"


PAPERS = (
    ("polyhedral co-iteration (Zhao et al. 2022)", ("spmspm", "spmspv", "spmv", "ttm")),
    ("sparse array programming (Henry et al. 2021)", ("ufunc", "minimax", "mri", "slicing")),
    ("shape operators (Root et al. 2024)", ("shape", "conversion")),
    ("affine subscripts (Liu et al. 2024)", ("conv",)),
    ("structured formats (Ahrens et al. 2023, 2024)", ("structured", "sddmm", "mttkrp")),
)
"""The experiments on what each paper is about."""


def of_papers(summaries: Mapping[str, Any]) -> str:
    """A line for each paper."""
    rows = ["| paper | experiments | TACO / ours | fastest other / ours |", "| --- | --- | --- | --- |"]
    for paper, names in PAPERS:
        own = [n for n in names if n in summaries]
        taco = [c["others"]["taco"] for n in own for c in summaries[n]["cases"] if "taco" in c["others"]]
        best = [ratio for n in own for ratio, _, _ in best_peers(summaries[n])]
        figures = [f"{mean(found):.2f}" if found else "" for found in (taco, best)]
        rows.append(f"| {paper} | {', '.join(own)} | {figures[0]} | {figures[1]} |")
    return "\n".join([*rows, "", recorded(summaries)])


def in_readme(summaries: Mapping[str, Any], drawn: Collection[str]) -> str:
    """What stands between the markers of the README."""
    plot = f"\n\n![Fastest other / ours, a dot for each case](experiments/results/{ALL}.svg)" if ALL in drawn else ""
    text = f"{of_papers(summaries)}{plot}" if summaries else "Nothing is recorded yet."
    return f"{BEGIN}\n{text}\n"


def plots_in(folder: Path = RESULTS) -> frozenset[str]:
    """The names of the plots that there are."""
    return frozenset(path.stem for path in folder.glob("*.svg"))


def page(plots: str) -> str:
    """Markdown for the documentation, with links to plots in this folder."""
    return results(known(), plots, plots_in())


# --- plots ---------------------------------------------------------------------------------------------


def plots(summaries: Mapping[str, Any]) -> dict[str, str]:
    """SVG by name: all experiments, and each with its peers. Raises ImportError without matplotlib."""
    rows = {n: [r for r, _, _ in best_peers(s)] for n, s in summaries.items() if best_peers(s)}
    found = {ALL: _dots(rows, "fastest other / ours (above 1: ours is faster)")} if rows else {}
    for name, summary in summaries.items():
        peers: dict[str, list[float]] = {}
        for case in summary["cases"]:
            for peer, ratio in peers_of(case).items() if case["of_limit"] is None else ():
                peers.setdefault(peer, []).append(ratio)
        if peers:
            found[name] = _dots(peers, "time / ours (above 1: ours is faster)")
    return found


def _dots(rows: Mapping[str, Sequence[float]], label: str) -> str:
    """A row of dots for each name on a logarithmic axis, with the geometric mean as a bar."""
    import io

    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter

    with matplotlib.rc_context({"svg.hashsalt": "spfgen", "svg.fonttype": "none"}):
        figure = Figure(figsize=(7.5, 0.9 + 0.42 * len(rows)), layout="constrained")
        axes = figure.subplots()
        order = sorted(rows, key=lambda n: mean(rows[n]), reverse=True)
        for place, name in enumerate(order):
            axes.scatter(rows[name], [place] * len(rows[name]), s=26, alpha=0.55, linewidths=0, color="#2f6fb0")
            axes.scatter([mean(rows[name])], [place], s=190, marker="|", color="#bd3a5f", linewidths=2.2)
        axes.axvline(1, color="#8a9099", linewidth=1)
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
        axes.set_yticks(range(len(order)), order)
        axes.set_ylim(-0.6, len(order) - 0.4)
        axes.grid(axis="x", which="both", color="#e6e8eb", linewidth=0.7)
        axes.set_axisbelow(True)
        axes.set_xlabel(label)
        axes.spines[["top", "right", "left"]].set_visible(False)
        stream = io.StringIO()
        figure.savefig(stream, format="svg", metadata={"Date": None})
    return "\n".join(line.rstrip() for line in stream.getvalue().splitlines()) + "\n"


def main(records: Path = RESULTS, target: Path = HERE) -> int:
    """Bring summary, plots and RESULTS.md up to date."""
    from experiments.harness.log import say

    summaries = updated(records, known(target / "results" / SUMMARY.name))
    (target / "results").mkdir(parents=True, exist_ok=True)
    (target / "results" / SUMMARY.name).write_text(json.dumps(summaries, indent=1) + "\n", encoding="utf-8")
    try:
        for name, text in plots(summaries).items():
            (target / "results" / f"{name}.svg").write_text(text, encoding="utf-8")
    except ImportError:
        say("no plots: pip install matplotlib")
    drawn = plots_in(target / "results")
    (target / "RESULTS.md").write_text(HEADING + results(summaries, "results/", drawn), encoding="utf-8")
    readme = target.parent / "README.md"
    text = readme.read_text(encoding="utf-8") if readme.exists() else ""
    if BEGIN in text and END in text:
        readme.write_text(
            text[: text.index(BEGIN)] + in_readme(summaries, drawn) + text[text.index(END) :], encoding="utf-8"
        )
    say(f"wrote {target / 'RESULTS.md'}: {', '.join(summaries) or 'no records'}")
    for why, names in absent(summaries).items():
        say(f"took no part in anything: {', '.join(names)} ({why})")
    return 0
