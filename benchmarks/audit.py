"""How fast a run is audited: a real run between processes, then its audit, as users a second.

python -m benchmarks.audit                     100,000 users, Kendall 8x8, three rounds
python -m benchmarks.audit --users 1000000     with --sample N for a part of them
"""

import json
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import click

ROOT = Path(__file__).resolve().parent.parent


def parley(*arguments: str) -> tuple[dict[str, object], float]:
    """What the command says with --json, and how long it took."""
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "parley.launch.cli", *arguments, "--json", "--quiet"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    seconds = time.perf_counter() - began
    if done.returncode not in (0, 1):
        raise click.ClickException(done.stderr.decode())
    record: dict[str, object] = json.loads(done.stdout)
    return record, seconds


@click.command()
@click.option("--users", default=100_000, show_default=True)
@click.option("--levels", default="8x8", show_default=True)
@click.option("--protocol", default="three-round", show_default=True)
@click.option("--sample", type=int, help="Audit so many users only.")
def main(users: int, levels: str, protocol: str, sample: int | None) -> None:
    """Run, audit, print both times."""
    with TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        problem = ("--statistic", "kendall", "--levels", levels, "--users", str(users), "--epsilon", "1")
        _, run_seconds = parley("run", *problem, "--protocol", protocol, "--out", str(out))
        part = () if sample is None else ("--sample", str(sample))
        report, audit_seconds = parley("audit", str(out), *part)
        size = (out / "transcript.parley").stat().st_size
    verdicts = {name: check["verdict"] for name, check in report.items() if isinstance(check, dict)}
    privacy = report["privacy"]
    assert isinstance(privacy, dict)
    audited = int(privacy["users"])
    click.echo(f"{protocol}, kendall {levels}, {users:,} users, transcript {size / 2**20:.1f} MiB")
    click.echo(f"run    {run_seconds:7.2f} s  {users / run_seconds:10,.0f} users/s")
    click.echo(f"audit  {audit_seconds:7.2f} s  {audited / audit_seconds:10,.0f} users/s  ({audited:,} users)")
    click.echo(f"losses up to {privacy['max_loss']:.6f} of {privacy['claim']:g}; verdicts {json.dumps(verdicts)}")


if __name__ == "__main__":
    main()
