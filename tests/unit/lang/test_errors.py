"""Every refusal of a bad spec: tests/errors/NAME.spf says which message it must give, where, and with which hint.

# error: REGEX      the message (several lines when several mistakes are reported together)
# at: LINE:COLUMN   where the first caret must stand
# in: FILE          when that is not in the case itself
# hint: REGEX       the first note
# exit: 4           the exit code, when it is not 3
"""

from __future__ import annotations

import random
import re
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import pytest

import spfgen
from spfgen import cli
from spfgen.errors import InternalError, SpfgenError

ERRORS = Path(__file__).resolve().parents[2] / "errors"
LAYOUTS = Path(__file__).resolve().parents[3] / "layouts"
CASES = sorted(ERRORS.glob("*.spf"))


@dataclass(frozen=True)
class Case:
    """What the comments at the top of a case promise."""

    path: Path
    errors: tuple[str, ...]
    at: tuple[int, int]
    file: Path
    hint: str
    exit_code: int


def read_case(path: Path) -> Case:
    found: dict[str, list[str]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        match = re.match(r"# (error|at|in|hint|exit): (.*)", line)
        if match is None:
            break
        found.setdefault(match[1], []).append(match[2])
    line_number, column = found["at"][0].split(":")
    return Case(
        path,
        tuple(found["error"]),
        (int(line_number), int(column)),
        path.parent / found.get("in", [path.name])[0],
        found["hint"][0],
        int(found.get("exit", ["3"])[0]),
    )


def compile_all(path: Path) -> None:
    """Everything that a file holds: its layouts (families with rank 2) and its kernels."""
    spec = spfgen.load(path)
    for name in spec.layouts:
        handle = spec.layouts[name]
        constants = getattr(handle.tree.layouts[name], "constants", ())
        if all(default is not None or constant == "rank" for constant, default in constants):
            handle.layout(2)
    for kernel in spec.kernels.values():
        kernel.compile()


def kernels_of(path: Path) -> list[str]:
    return re.findall(r"^kernel (\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)


def parts_of(error: SpfgenError) -> list[SpfgenError]:
    return list(getattr(error, "errors", (error,)))


@pytest.mark.parametrize("path", CASES, ids=lambda p: p.stem)
def test_the_api_refuses(path: Path) -> None:
    case = read_case(path)
    with pytest.raises(SpfgenError) as caught:
        compile_all(path)
    found = parts_of(caught.value)
    assert caught.value.exit_code == case.exit_code
    for pattern, error in zip(case.errors, found, strict=True):
        assert re.fullmatch(pattern, error.message)
        assert error.span is not None
        assert error.span.show()
        assert error.notes
    first = found[0]
    assert first.span is not None
    assert Path(first.span.file).resolve() == case.file.resolve()
    assert (first.span.line, first.span.column) == case.at
    assert re.fullmatch(case.hint, first.notes[0])


@pytest.mark.parametrize("path", CASES, ids=lambda p: p.stem)
def test_the_command_line_refuses(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every kernel of the file is tried; a file of layouts gets a kernel that reads them."""
    case = read_case(path)
    file = path
    if not kernels_of(path):
        shutil.copytree(ERRORS / "parts", tmp_path / "errors" / "parts")
        file = tmp_path / "errors" / path.name
        file.write_text(with_kernel(path.read_text(encoding="utf-8")), encoding="utf-8")
    code, shown = 0, ""
    for kernel in kernels_of(file) or ["none"]:
        code = cli.run(["explain", str(file), "-k", kernel])
        shown = capsys.readouterr().err
        assert "Traceback" not in shown
        if code == case.exit_code:
            break
    assert code == case.exit_code
    line, column = case.at
    text = case.file.read_text(encoding="utf-8").splitlines()[line - 1]
    place = re.search(rf"^.*{case.file.name}:{line}:{column}: ", shown, re.MULTILINE)
    assert place, shown
    below = shown[place.start() :].splitlines()
    assert below[1] == f"    {text}"
    assert re.match(rf" {{{column + 3}}}\^+$", below[2])
    assert "  note: " in shown


def test_every_case_is_short_and_says_what_it_tests() -> None:
    for path in CASES:
        text = path.read_text(encoding="utf-8")
        assert text.startswith("# error: "), path
        assert len(text.splitlines()) <= 40, path


# --- names that must work -----------------------------------------------------------------------------


@pytest.mark.parametrize("word", ["double", "for", "int", "I", "threads", "memset", "p", "n"])
def test_words_of_c_name_indices_sizes_and_layouts(word: str) -> None:
    """Only kernels and tensors become C names as they are; everything else is renamed where it must be."""
    text = f"""
    layout {word}(length) {{
        size {word}
        relation {{ [a] -> [b] : 0 <= a < {word} and b = idx(a) }}
        index idx[{word}] {{ range 0 <= idx(p) < length }}
        value val[{word}] at [a]
    }}
    layout out(n) {{
        relation {{ [p] -> [i] : 0 <= p < n and i = p }}
        value val[n] at [p]
    }}
    kernel copy {{
        tensor x : {word}
        tensor y : out
        y[{word}] += x[{word}]
    }}
    """
    assert "int copy(" in spfgen.parse(text).kernels["copy"].compile().source


def test_words_of_the_language_name_tensors() -> None:
    text = "kernel scale { tensor value, range : dense; value[i] = 2*range[i] }"
    assert spfgen.parse(text).kernels["scale"].compile().name == "scale"


# --- random texts -------------------------------------------------------------------------------------

TOKEN = re.compile(r"[A-Za-z_]\w*|\d+|\"\"\"[\s\S]*?\"\"\"|\"[^\"\n]*\"|#[^\n]*|->|<=|>=|!=|=>|\.\.|\+=|\s+|.")
WORDS = """{ } [ ] ( ) < <= = != + - * / mod and or not exists forall each in .. : ; , -> => += min max ceil floor
    0 1 2 7 n i j p k val idx rank true false layout kernel tensor size relation index range property value at
    when where fill shares on schedule order find hash increasing strictly injective within equal downto . { k } @ "
    99999999999 0.5"""
EXTRA = WORDS.split()
SECONDS_EACH = 20
NAME, NUMBER = re.compile(r"[A-Za-z_]\w*"), re.compile(r"\d+")


def kind(token: str) -> str:
    return "name" if NAME.fullmatch(token) else "number" if NUMBER.fullmatch(token) else "sign"


def mutated(text: str, chance: random.Random) -> str:
    """The text with a few tokens deleted, inserted, replaced (mostly by their like), or exchanged."""
    tokens = TOKEN.findall(text)
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        places = [k for k, token in enumerate(tokens) if token.strip() and not token.startswith("#")]
        if len(places) < 2:
            break
        place, far = chance.sample(places, 2)
        among = [*EXTRA, *(tokens[k] for k in places)]
        like = [token for token in among if kind(token) == kind(tokens[place])]
        match chance.randrange(8):
            case 0:
                del tokens[place]
            case 1:
                tokens.insert(place, f" {chance.choice(among)} ")
            case 2:
                tokens[place] = f" {chance.choice(among)} "
            case 3:
                tokens[place], tokens[far] = tokens[far], tokens[place]
            case _:
                tokens[place] = chance.choice(like)
    return "".join(tokens)


def with_kernel(text: str) -> str:
    """A text of layouts with a kernel that reads each of them, so that the passes behind are reached too."""
    kernels = []
    for name, header in re.findall(r"^layout (\w+)(\([^;)]*)?", text, re.MULTILINE):
        access = "i" if header and not {",", "{"} & set(header) else "i, j"
        kernels.append(
            f"kernel k_{name} {{\n    tensor A : {name}\n    tensor b : dense\n    b[{access}] += A[{access}]\n}}"
        )
    return "\n".join([text.rstrip("\n"), *kernels])


def sources() -> list[str]:
    layouts = [with_kernel(p.read_text(encoding="utf-8")) for p in sorted(LAYOUTS.glob("*.spf"))]
    bare = [re.sub(r'doc """[\s\S]*?"""', "", text) for text in layouts]
    cases = [re.sub(r"^# .*\n", "", p.read_text(encoding="utf-8"), flags=re.MULTILINE) for p in CASES]
    return [*bare * (len(cases) // len(bare)), *cases]


@contextmanager
def limited(seconds: int) -> Iterator[None]:
    def stop(number: int, frame: FrameType | None) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def refused_or_compiled(path: Path) -> str | None:
    """None when the text compiles or is refused properly, else what is wrong."""
    try:
        with limited(SECONDS_EACH):
            compile_all(path)
    except InternalError as error:
        return f"InternalError: {error.message}"
    except SpfgenError as error:
        return None if all(part.notes for part in parts_of(error)) else f"no hint: {error}"
    except Exception as error:  # that is the point
        return f"{type(error).__name__}: {error}"
    return None


def fuzz(folder: Path, seed: int, enough: Callable[[int], bool]) -> list[tuple[str, str]]:
    shutil.copytree(ERRORS / "parts", folder / "parts")
    chance, texts, path = random.Random(seed), sources(), folder / "fuzzed.spf"
    failures: list[tuple[str, str]] = []
    count = 0
    while not enough(count):
        text = mutated(chance.choice(texts), chance)
        path.write_text(text, encoding="utf-8")
        problem = refused_or_compiled(path)
        if problem is not None:
            failures.append((problem, text))
        count += 1
    return failures


def test_random_texts_are_compiled_or_refused(tmp_path: Path) -> None:
    """The same texts each time; stops early on a slow machine."""
    end = time.monotonic() + 10
    failures = fuzz(tmp_path, 1, lambda count: count >= 200 or time.monotonic() > end)
    assert not failures, "\n\n".join("\n".join(f) for f in failures[:3])


@pytest.mark.fuzz
@pytest.mark.parametrize("seed", range(2, 10))
def test_many_random_texts_are_compiled_or_refused(tmp_path: Path, seed: int) -> None:
    failures = fuzz(tmp_path, seed, lambda count: count >= 3000)
    assert not failures, "\n\n".join("\n".join(f) for f in failures[:3])


FAILING = "layout own(n) { relation { [p] -> [i] : 0 <= p < n and i = p } value val[n] at [p] }"


def test_a_mistake_of_ours_says_what_to_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not a traceback: what failed where, with the kernel and its layouts; what a verifier says, too."""
    path = tmp_path / "mine.spf"
    path.write_text(FAILING + " kernel k { tensor x, y : own  y[i] = 2*x[i]  schedule { serial i } }")

    def failing(kind: type[Exception]) -> Callable[..., None]:
        def fails(*_: object) -> None:
            raise kind("oops")

        return fails

    for kind in (AssertionError, InternalError):
        monkeypatch.setattr("spfgen.pipeline.lower", failing(kind))
        assert cli.run(["generate", str(path), "-o", "-"]) == InternalError.exit_code
        said = capsys.readouterr().err
        assert "oops" in said
        assert "Traceback" not in said
        assert "please report it with the kernel (y[i] = 2*x[i]), its schedule and the text of its layouts: own" in said
        with pytest.raises(InternalError, match="oops"):
            spfgen.compile("y[i] = 2*x[i]", x="dense", y="dense")
    assert "compiling `k` failed in" not in said
    monkeypatch.setattr("spfgen.layout.checked.instantiate", failing(ValueError))
    with pytest.raises(InternalError, match=r"reading `own` failed in .*: ValueError") as error:
        spfgen.parse(FAILING).layouts["own"].layout()
    assert "the text of the layout `own`" in error.value.notes[0]
    monkeypatch.setenv("SPFGEN_DEBUG", "1")
    with pytest.raises(InternalError):
        cli.run(["generate", str(path), "-o", "-"])
