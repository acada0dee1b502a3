"""Make the pictures of this folder from real runs: `python docs/images/make.py [FOLDER]`. Needs Chromium.

The runs have fixed seeds, so that answers and noise are the same every time; times are not.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Browser, Page, ViewportSize, expect, sync_playwright

ROOT = Path(__file__).resolve().parent.parent.parent
PARLEY = (sys.executable, "-m", "parley.launch.cli")
KENDALL = ("--statistic", "kendall", "--protocol", "three-round", "--epsilon", "4", "--quiet")
SCORES = ("--data", str(ROOT / "docs" / "examples" / "scores.csv"), "--columns", "age,score", "--range", "age=18:90")
MANY = (
    *("run", "--statistic", "kendall", *SCORES, "--range", "score=0:100", "--levels", "8x8", "--epsilon", "2"),
    *("--processes", "4", "--seed", "7", "--quiet"),
)
LOSSY = (
    *("run", *KENDALL, "--levels", "4x4", "--users", "12", "--processes", "12", "--seed", "3"),
    *("--conditions", "lossy", "--deadline", "3", "--quorum", "0.5"),
)
WATCHED = ("run", *KENDALL, "--levels", "8x8", "--users", "600", "--processes", "6", "--seed", "5", "--watch")
SLOW = """
[[fault]]
kind = "delay"
direction = "up"
messages = ["replies"]
distribution = "uniform"
seconds = 2.0
spread = 2.0
"""
QUIET_BROWSER = ("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-sync")


def start(folder: Path, *arguments: str) -> "subprocess.Popen[str]":
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen([*PARLEY, *arguments], cwd=folder, env=environment, stderr=subprocess.PIPE, text=True)


def finish(process: "subprocess.Popen[str]") -> None:
    _, said = process.communicate()
    if process.returncode:
        raise SystemExit(f"a run ended with exit code {process.returncode}: {said}")


def open_page(browser: Browser, address: str, width: int, height: int, *, dark: bool = False) -> Page:
    viewport = ViewportSize(width=width, height=height)
    page = browser.new_context(viewport=viewport, color_scheme="dark" if dark else "light").new_page()
    page.goto(address)
    return page


def draw_report(browser: Browser, runs: Path, pictures: Path) -> None:
    """A run about two columns of 5,000 people: as a whole, in the dark, on a phone, on paper."""
    finish(start(runs, *MANY, "--out", "many"))
    address = (runs / "many" / "report.html").as_uri()
    page = open_page(browser, address, 1280, 1420)
    page.screenshot(path=pictures / "report.png")
    page.locator(".pair").screenshot(path=pictures / "report-charts.png")
    open_page(browser, address, 1280, 1420, dark=True).screenshot(path=pictures / "report-dark.png")
    open_page(browser, address, 390, 1560).screenshot(path=pictures / "report-phone.png")
    # A sheet of A4 between margins of 12 mm, in the pixels of CSS; drawn for a screen first, as when somebody prints.
    page = open_page(browser, address, 1280, 1031)
    page.emulate_media(media="print")
    page.set_viewport_size(ViewportSize(width=703, height=1031))
    page.screenshot(path=pictures / "report-a4.png", full_page=True)


def draw_faults(browser: Browser, runs: Path, pictures: Path) -> None:
    """The conversation of 12 users over links that lose a tenth of all messages."""
    finish(start(runs, *LOSSY, "--out", "lossy"))
    page = open_page(browser, (runs / "lossy" / "report.html").as_uri(), 1100, 900)
    page.evaluate("scrollTo(0, document.querySelector('.mark.announce').getBoundingClientRect().top - 90)")
    page.locator("#sequence .mark.broken.tone-1").nth(2).hover(force=True)
    page.screenshot(path=pictures / "conversation-lossy.png")


def draw_live(browser: Browser, runs: Path, pictures: Path) -> None:
    """The live page in the middle of the second round."""
    (runs / "slow.toml").write_text(SLOW)
    process = start(runs, *WATCHED, "--conditions", "slow.toml", "--out", "watched")
    assert process.stderr is not None
    address = next(found[0] for line in process.stderr if (found := re.search(r"http://\S+", line)))
    page = open_page(browser, address, 1280, 980)
    expect(page.locator("#progress-words")).to_have_text(re.compile("^Round 2 of 3: [2-5]00"), timeout=120_000)
    page.screenshot(path=pictures / "watch.png")
    expect(page.locator("#outcome")).to_have_text("Finished", timeout=120_000)
    finish(process)


def main() -> None:
    pictures = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    path = shutil.which(os.environ.get("PARLEY_CHROMIUM", "chromium"))
    if path is None:
        raise SystemExit("there is no Chromium: run launch/browser.sh")
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=[*QUIET_BROWSER])
        for draw in (draw_report, draw_faults, draw_live):
            draw(browser, Path(name), pictures)
        browser.close()


if __name__ == "__main__":
    main()
