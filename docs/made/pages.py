"""From a page as it is written to one that shows what its blocks do.

- ```` ```spf title="mine.spf" ```` is written to the page's folder; without a title it is parsed and compiled. A block
  in another language with a title is written there, too: ```` ```c title="main.c" ````.
- ```` ```python ```` runs, all blocks of a page with the same names; what it prints is shown below.
- ```` ```console ```` holds commands after `$`, run in that folder; what they print is shown below each. A comment
  `# exit code 3` says what is expected where that is not 0; the option `lines=N` shows so many lines at most; with
  `needs=cmake` the commands do not run where there is no such program.
- Pictures that commands leave in the folder belong to the page: `![csr](csr.svg)`.
- What the generator NAME makes stands between `<!-- made: NAME -->` and `<!-- end: NAME -->`, so that pages are whole
  where they are read as files. `python -m docs.made` writes it anew, pictures too; a test says where that is due.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from spfgen.example_files import example_files

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(
    r"^(?P<indent> *)```(?P<language>\w+)(?P<options>[^\n]*)\n(?P<text>.*?)^(?P=indent)```$", re.M | re.S
)
MADE = re.compile(r"^<!-- made: (?P<name>\w+) -->\n(?P<text>.*?)^<!-- end: (?P=name) -->$", re.M | re.S)
UNRUN = "SPFGEN_PAGES_UNRUN"
"""With this variable blocks do not run, and their pictures are empty: the tests of pages run them."""
EXIT = re.compile(r"\s+# exit code (\d+)$")


class PageError(Exception):
    """A block does not do what the page says."""


def made(page: Path, links: tuple[str, ...] = ()) -> tuple[str, dict[str, str]]:
    """(the page with results, files that it needs by path). Its folder has links to these files of the repository.

    Raises PageError.
    """
    text = page.read_text(encoding="utf-8")
    if os.environ.get(UNRUN):
        return text, dict.fromkeys(re.findall(r"\]\((\w+\.svg)\)", text), '<svg xmlns="http://www.w3.org/2000/svg"/>')
    with tempfile.TemporaryDirectory(prefix="spfgen-docs-") as folder:
        runner = _Runner(page.name, Path(folder))
        for name in links:
            (Path(folder) / name).symlink_to(ROOT / name)
        text = BLOCK.sub(runner.block, text)
        return text, {file.name: file.read_text(encoding="utf-8") for file in Path(folder).glob("*.svg")}


def generated(name: str) -> tuple[str, dict[str, str]]:
    """(what stands between the two marks of this generator, files by path from the folder of the pages)."""
    from docs.made import generators

    text, files = generators.ALL[name]()
    return f"\n{text.strip()}\n\n", files


def write(page: Path) -> None:
    """Writes anew what is generated in a page, and the files that it needs."""

    def made_anew(match: re.Match[str]) -> str:
        text, files = generated(match["name"])
        for path, content in files.items():
            (page.parent / path).parent.mkdir(exist_ok=True)
            (page.parent / path).write_text(content, encoding="utf-8")
        return f"<!-- made: {match['name']} -->\n{text}<!-- end: {match['name']} -->"

    page.write_text(MADE.sub(made_anew, page.read_text(encoding="utf-8")), encoding="utf-8")


class _Runner:
    """The blocks of one page, in a folder with the files that `spfgen example` writes."""

    def __init__(self, page: str, folder: Path) -> None:
        self.page, self.folder = page, folder
        self.names: dict[str, Any] = {"__name__": page}
        for name, content in example_files().items():
            (folder / name).write_bytes(content)

    def block(self, match: re.Match[str]) -> str:
        language, options, text = match["language"], match["options"], textwrap.dedent(match["text"])
        shown = match[0]
        try:
            with self._inside():
                if language == "spf":
                    self._spec(options, text)
                elif "title=" in options:
                    self._file(options, text)
                elif language == "python":
                    shown += _output(match["indent"], self._python(text))
                elif language == "console" and _is_there(options):
                    most = re.search(r"lines=(\d+)", options)
                    done = "".join(self._console(text, int(most[1]) if most else 10**6))
                    shown = textwrap.indent(f"```console\n{done}```", match["indent"])
        except PageError:
            raise
        except Exception as error:
            raise PageError(f"{self.page}: this block failed: {type(error).__name__}: {error}\n{text}") from error
        return shown

    @contextlib.contextmanager
    def _inside(self) -> Iterator[None]:
        before = Path.cwd()
        os.chdir(self.folder)
        try:
            yield
        finally:
            os.chdir(before)

    def _file(self, options: str, text: str) -> bool:
        """Written, where the block has the name of a file as its title."""
        title = re.search(r'title="([^"]+)"', options)
        if title:
            (self.folder / title[1]).write_text(text, encoding="utf-8")
        return bool(title)

    def _spec(self, options: str, text: str) -> None:
        import spfgen

        if self._file(options, text):
            return
        spec = spfgen.parse(text)
        for kernel in spec.kernels.values():
            kernel.compile()
        for layout in spec.layouts.values():
            layout.layout(2)

    def _python(self, text: str) -> str:
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(text, f"<{self.page}>", "exec"), self.names)
        return out.getvalue()

    def _console(self, text: str, most: int) -> Iterator[str]:
        for line in text.replace("\\\n", " ").splitlines():
            if not line.startswith("$ "):
                raise PageError(f"{self.page}: expected a command after `$`, but the line is {line!r}")
            expected = EXIT.search(line)
            command = EXIT.sub("", line.removeprefix("$ "))
            code, output = self._run(command)
            if code != int(expected[1] if expected else 0):
                raise PageError(f"{self.page}: `{command}` ended with code {code}\n{output}")
            lines = output.rstrip("\n").splitlines()
            cut = [*lines[:most], f"... ({len(lines) - most} more lines)"] if len(lines) > most else lines
            yield "\n".join([f"$ {command}", *cut, ""])
            if expected:
                yield f"(exit code {code})\n"

    def _environment(self) -> dict[str, str]:
        """With `spfgen` as a program, which make and its like call."""
        tools = self.folder / ".tools"
        if not tools.exists():
            tools.mkdir()
            program = tools / "spfgen"
            program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m spfgen "$@"\n', encoding="utf-8")
            program.chmod(0o755)
        paths = {"PATH": str(tools), "PYTHONPATH": str(ROOT)}
        return {**os.environ, **{n: os.pathsep.join([p, os.environ.get(n, "")]) for n, p in paths.items()}}

    def _run(self, command: str) -> tuple[int, str]:
        """Commands of spfgen in this process, which is faster."""
        from spfgen.cli import run

        words = shlex.split(command)
        if words[0] != "spfgen" or {"|", ">", "&&"} & set(words):
            done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, env=self._environment())
            return done.returncode, done.stdout + done.stderr
        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            code = run(words[1:])
        return code, out.getvalue()


def _is_there(options: str) -> bool:
    """Whether the program that a block needs is installed."""
    needed = re.search(r"needs=(\S+)", options)
    return needed is None or shutil.which(needed[1]) is not None


def _output(indent: str, printed: str) -> str:
    return (
        f"\n\n{textwrap.indent(f'```text{chr(10)}{printed.rstrip()}{chr(10)}```', indent)}" if printed.strip() else ""
    )


if __name__ == "__main__":
    sys.stdout.write(made(Path(sys.argv[1]))[0])
