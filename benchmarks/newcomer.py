"""Play the newcomer: `python -m benchmarks.newcomer`. A fresh clone, and every command of README and tutorial in order.

The commands are typed into a terminal of 80 columns (tmux), one after the other in one shell, as a person would. Each
must end well, and nothing may look like a crash. `launch/test.sh` is left out unless `--tests` asks for it: it takes as
long as all the other commands together, and continuous integration runs it anyway.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
# What a line that is to be typed begins with; other blocks show output or draw something.
TYPED = ("parley ", "./launch/", "source ", "pip ", "$ ")
PATIENCE_SECONDS = 1800
COLUMNS, LINES = 80, 40


def commands(page: Path, folder: Path) -> Iterator[str]:
    """What a page tells people to type, in order; Python goes to a file of the folder first."""
    for number, (kind, block) in enumerate(BLOCK.findall(page.read_text())):
        if kind == "python":
            script = folder / f"{page.stem.lower()}-{number}.py"
            script.write_text(block)
            yield f"python {script}"
        elif kind in ("", "console", "sh") and block.startswith(TYPED):
            for line in block.replace("\\\n", " ").splitlines():
                typed = line.partition(" # ")[0].strip().removeprefix("$ ")
                if typed:
                    yield typed


class Terminal:
    """A shell in a terminal of so many columns. Use as a context."""

    def __init__(self, folder: Path, scratch: Path) -> None:
        self._name, self._scratch, self._count = f"newcomer-{scratch.name}", scratch, 0
        size = ("-x", str(COLUMNS), "-y", str(LINES))
        self._tmux("new-session", "-d", "-s", "shell", *size, "-c", str(folder), "bash --norc --noprofile")

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(self, *_: object) -> None:
        self._tmux("kill-server")

    def type(self, command: str) -> tuple[int, str]:
        """Type a command, wait for it; its exit code and what the terminal shows."""
        self._count += 1
        done = self._scratch / f"status-{self._count}"
        self._tmux("send-keys", "-t", "shell", "-l", command)
        self._tmux("send-keys", "-t", "shell", "Enter")
        self._tmux("send-keys", "-t", "shell", "-l", f"echo $? > {done}.new && mv {done}.new {done}")
        self._tmux("send-keys", "-t", "shell", "Enter")
        until = time.monotonic() + PATIENCE_SECONDS
        while not done.exists():
            if time.monotonic() > until:
                return 124, self.shown()
            time.sleep(0.1)
        return int(done.read_text()), self.shown()

    def shown(self) -> str:
        return self._tmux("capture-pane", "-p", "-t", "shell")

    def _tmux(self, *words: str) -> str:
        told = subprocess.run(["tmux", "-L", self._name, *words], capture_output=True, text=True, check=True)
        return told.stdout


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tests", action="store_true", help="type ./launch/test.sh, too")
    given = parser.parse_args()
    if shutil.which("tmux") is None:
        raise SystemExit("the newcomer needs tmux: apt-get install tmux")
    with tempfile.TemporaryDirectory() as name:
        scratch, clone, typed = Path(name), Path(name) / "parley", Path(name) / "typed"
        typed.mkdir()
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
        pages = (clone / "README.md", clone / "docs" / "tutorial.md")
        with Terminal(clone, scratch) as terminal:
            for page in pages:
                for command in commands(page, typed):
                    if command.startswith("./launch/test.sh") and not given.tests:
                        continue
                    began = time.monotonic()
                    code, shown = terminal.type(command)
                    print(f"{code:>3}  {time.monotonic() - began:6.1f} s  {command[:100]}", flush=True)
                    if code or "Traceback" in shown:
                        print(shown)
                        return 1
    print("every command ended well")
    return 0


if __name__ == "__main__":
    sys.exit(main())
