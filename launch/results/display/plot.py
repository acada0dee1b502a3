"""RMSE against users, log-log: what `plan --plot` predicts and `sweep --plot` measures, with limit and floor."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from parley.emulator.errors import BadInput

Curve = Sequence[tuple[float, float]]
BASELINES = ("frequency", "quantise", "hierarchical")
KINDS = (".svg", ".png", ".pdf")


def check_plot(path: Path | None) -> None:
    """Refuse a picture that could not be drawn before any work is done for it."""
    if path is None:
        return
    if path.suffix.lower() not in KINDS:
        raise BadInput(f"--plot {path} should end in one of {', '.join(KINDS)}")
    if path.exists():
        raise BadInput(f"--plot {path} already exists; give a new file")
    if not path.parent.is_dir():
        raise BadInput(f"--plot {path}: there is no folder {path.parent}")
    try:
        import matplotlib
    except ImportError as error:
        raise BadInput("--plot needs matplotlib: pip install 'parley-ldp[plot]'") from error
    matplotlib.use("Agg")


def draw(path: Path, title: str, curves: Mapping[str, Curve], limits: Mapping[str, Curve]) -> None:
    """One line a protocol, broken for baselines; limit and floor, where they are known, in grey."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.add_subplot()
    for name, points in curves.items():
        style = "--" if name.startswith(BASELINES) else "-"
        axes.plot(*zip(*sorted(points), strict=True), style, marker="o", markersize=3, label=name)
    for style, (name, points) in zip(("-.", ":"), limits.items(), strict=True):
        # A limit of 0, that of a statistic without a slope, has no place on a logarithmic axis.
        if shown := sorted(point for point in points if point[1] > 0):
            axes.plot(*zip(*shown, strict=True), color="grey", linestyle=style, label=name)
    axes.set(xscale="log", yscale="log", xlabel="users", ylabel="RMSE", title=title)
    axes.grid(visible=True, which="both", alpha=0.2)
    axes.legend(fontsize="small", loc="center left", bbox_to_anchor=(1, 0.5))
    figure.savefig(path)
