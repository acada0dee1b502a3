"""Tables of docs/performance.md: a benchmark makes each of them, with all its numbers, and replaces its block."""

import os
import platform
import re
from collections.abc import Iterable, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PAGE = Path(__file__).resolve().parent.parent / "docs" / "performance.md"
IMAGES = PAGE.parent / "images"


def write_block(name: str, text: str, page: Path = PAGE) -> None:
    """Put a text between the two comments that bear this name."""
    whole = page.read_text()
    block = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
    if not block.search(whole):
        raise SystemExit(f"{page} has no block {name}")
    page.write_text(block.sub(lambda found: f"{found[1]}{text}\n{found[2]}", whole))


def installed() -> dict[str, str]:
    """The environment of commands that are measured: modules are compiled once, as in an installation."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table in Markdown, numbers to three digits."""
    lines = [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    return "\n".join([*lines, *(f"| {' | '.join(map(shown, row))} |" for row in rows)])


def shown(value: object) -> str:
    """A cell: whole numbers with commas, others to three digits."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if isinstance(value, int) or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def machine(command: str, load: float, *packages: str) -> str:
    """Where figures were taken: processor, versions, how busy the machine was when it began, and the command."""
    versions = ", ".join(f"{name} {_version(name)}" for name in ("numpy", "pyzmq", "msgpack", *packages))
    return (
        f"Measured with `{command}` on {os.cpu_count()} cores ({processor()}), {memory():.0f} GiB, Python "
        f"{platform.python_version()}, {versions}; load {load:.1f} at the start."
    )


def processor() -> str:
    """Its name as the kernel tells it."""
    names = re.findall(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return names[0] if names else platform.processor() or platform.machine()


def memory() -> float:
    """GiB of this machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
