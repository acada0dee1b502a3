"""What all parts share: a part is rows of one table, and a row without figures says why."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from benchmarks.others.environment import Environment, environment
from benchmarks.others.watched import Unavailable

ROOT = Path(__file__).resolve().parent.parent.parent
PROGRAMS = Path(__file__).resolve().parent / "programs"

Row = tuple[object, ...]


class Figures(Protocol):
    """Something that was measured."""

    def row(self) -> Row: ...


@dataclass(kw_only=True)
class Part:
    """A table on its way, and the versions of the packages it is about."""

    heads: Sequence[str]
    kept: Path | None
    rows: list[Row] = field(default_factory=list)
    versions: list[str] = field(default_factory=list)

    def add(self, names: Row, job: Callable[[], Sequence[Figures]]) -> None:
        """Rows of figures, or one that begins with these names and says why there are none."""
        try:
            self.rows += [each.row() for each in job()]
        except Unavailable as reason:
            self._explain(names, reason)

    def add_theirs(
        self,
        name: str,
        pins: Sequence[str],
        job: Callable[..., Sequence[Figures]],
        cases: Mapping[Row, tuple[Any, ...]],
        *packages: str,
    ) -> None:
        """Rows for which others' packages are needed: `job` gets the environment and a case."""
        try:
            with environment(name, pins, self.kept) as where:
                self.versions += [each for each in found_versions(where, *packages) if each not in self.versions]
                for names, case in cases.items():
                    self.add(names, partial(job, where, *case))
        except Unavailable as reason:
            for names in cases:
                self._explain(names, reason)

    def _explain(self, names: Row, reason: Unavailable) -> None:
        self.rows.append((*names, str(reason), *[""] * (len(self.heads) - len(names) - 1)))


def found_versions(where: Environment, *packages: str) -> list[str]:
    """Name and version of what a table compares with."""
    there = where.versions()
    return [f"{name} {there.get(name, 'missing')}" for name in packages]
