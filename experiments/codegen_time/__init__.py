"""How long it takes to derive and print the C of a kernel, against the figures of the polyhedral compiler.

Zhao et al., "Polyhedral Specification and Code Generation of Sparse Tensor Contraction with Co-iteration"
(2022), Table 7, give 36 ms for SpMV on csr and on a lower triangle, and 91 ms for SpMSpM of bcsr and coo; those are the
limits.

SpMSpM takes longer than its limit, and no single step is to blame. By cProfile, planning has 62 % of the time: 26 %
to try loops in several orders, 17 % to choose finds (half of it in Z3), 8 % to compare plans with the iteration
space. Writing C has 31 %: lowering 9 %, its passes 6 %, the file 11 %. Two attempts gave nothing that one can
measure: no garbage collection meanwhile, and texts of rt/ kept from one kernel to the next. Constraints of equal sets
are read from isl about twice each; to keep them by value would let the order of constraints, and with it the C,
depend on what was compiled before.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from experiments.harness.case import Case, Contestant, Runner
from experiments.harness.native import command
from experiments.peers.spfgen import forgetters, module_or_missing

REPOSITORY = Path(__file__).resolve().parents[2]
KERNEL = "kernel_of_experiment"


@dataclass(frozen=True, slots=True)
class Program:
    """A kernel to derive: the statement, and the layout of each tensor."""

    text: str
    layouts: Mapping[str, str]


SPMV = Program("y[i] += A[i,j]*x[j]", {"A": "csr", "x": "dense", "y": "dense"})
SPMV_LOWER = Program("y[i] += A[i,j]*x[j]", {"A": "lower", "x": "dense", "y": "dense"})
SPMSPM = Program("C[i,k] += A[i,j]*B[j,k]", {"A": "bcsr", "B": "coo", "C": "dense"})


def derive(text: str, **layouts: str) -> str:
    """The C text of a kernel, from the text of the program to the printed C: what the limit is for."""
    from spfgen import pipeline
    from spfgen.lang.spec import parse_tree

    tree = parse_tree(spec(text, **layouts))
    kernel = tree.kernels[KERNEL]
    return pipeline.generate(kernel, pipeline.resolve(kernel, tree)).whole


def cases(quick: bool, threads: int) -> list[Case]:
    """The three kernels of the paper's table."""
    return [
        case("SpMV csr", SPMV, 0.036),
        case("SpMV lower", SPMV_LOWER, 0.036),
        case("SpMSpM bcsr coo, dense result", SPMSPM, 0.091),
    ]


def case(label: str, program: Program, limit_seconds: float) -> Case:
    """One kernel. The limit is for ours only; the others are not rivals but what a user sees around it."""
    return Case(
        label=label,
        data=lambda: program,
        ours=partial(prepare_anew, spec_files=False),
        peers=(
            Contestant("files-anew", partial(prepare_anew, spec_files=True)),
            Contestant("again", prepare_again),
            Contestant("shell", prepare_shell),
            Contestant("cc", prepare_compiler),
        ),
        check=check,
        limit_seconds=limit_seconds,
    )


def prepare_anew(program: Program, spec_files: bool) -> Runner:
    """Derivation in this process, warm, but with every proof and plan forgotten before each call; with `spec_files`
    what was read of the layouts' files too."""
    again = prepare_again(program)
    again.call()  # loads the modules, so that all that they remember is found
    forget = forgetters(spec_files)

    def call() -> str:
        for clear in forget:
            clear()
        before = os.environ.get("SPFGEN_CACHE")
        os.environ["SPFGEN_CACHE"] = "off"  # or the answers of Z3 would come from the disk
        try:
            return again.call()
        finally:
            os.environ.pop("SPFGEN_CACHE")
            if before is not None:
                os.environ["SPFGEN_CACHE"] = before

    return Runner(call)


def prepare_again(program: Program) -> Runner:
    """Derivation in a process that has proved the same before."""
    module_or_missing("spfgen.pipeline")
    return Runner(partial(derive, program.text, **program.layouts))


def prepare_shell(program: Program) -> Runner:
    """`python -m spfgen generate`, start of Python included."""
    module_or_missing("spfgen.cli")
    folder = tempfile.TemporaryDirectory(prefix="spfgen-experiments-")
    file = Path(folder.name) / "kernel.spf"
    file.write_text(spec(program.text, **program.layouts))
    arguments = [sys.executable, "-m", "spfgen", "generate", str(file), "-k", KERNEL, "-o", "-"]
    return Runner(partial(_output, arguments), keep=(folder,))


def prepare_compiler(program: Program) -> Runner:
    """The C compiler on the derived text."""
    module_or_missing("spfgen.pipeline")
    folder = tempfile.TemporaryDirectory(prefix="spfgen-experiments-")
    source = Path(folder.name) / "kernel.c"
    text = derive(program.text, **program.layouts)
    source.write_text(text)
    arguments = command(source, source.with_suffix(".so"), (f"-I{REPOSITORY / 'spfgen' / 'rt'}",))

    def call() -> str:
        _output(arguments)
        return text

    return Runner(call, keep=(folder,))


def check(program: Program) -> Callable[[Any], str]:
    """Every way must end in a C text with a function."""
    del program
    return lambda text: "" if isinstance(text, str) and "{" in text else "expected a C text"


def spec(text: str, **layouts: str) -> str:
    """The .spf file of a program."""
    tensors = "".join(f"  tensor {name}: {layout}\n" for name, layout in layouts.items())
    return f"kernel {KERNEL} {{\n{tensors}  {text}\n}}\n"


def _output(arguments: list[str]) -> str:
    done = subprocess.run(arguments, capture_output=True, text=True, check=False, cwd=REPOSITORY)
    if done.returncode != 0:
        complaint = (done.stderr or done.stdout).strip().splitlines()
        raise RuntimeError(complaint[-1] if complaint else f"exit code {done.returncode}")
    return done.stdout
