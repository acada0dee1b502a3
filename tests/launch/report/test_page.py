"""The report in a browser: right pictures, filters, keyboard, layouts, contrast, and nothing from outside."""

from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, ViewportSize, expect

from parley.emulator.record.witness import Witness
from parley.launch.report.model import make_model
from parley.launch.report.page import write_page
from tests.launch.report.conftest import ROUNDS, USERS, Visitor, expected_arrows
from tests.launch.report.hostile import HOSTILE, write_hostile

# Between margins of 12 mm, in the pixels of CSS.
A4_WIDTH = 703
MARKS = "#sequence .mark[role=option]"
# For every piece of visible text, its colour against the first background behind it that is not transparent.
CONTRASTS = """() => {
  const parse = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = (rgb) => rgb.slice(0, 3).map((v) => v / 255)
    .map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (element) => {
    for (let each = element; each; each = each.parentElement) {
      const colour = parse(getComputedStyle(each).backgroundColor);
      if (colour.length === 3 || colour[3] === 1) return colour;
    }
    return [255, 255, 255];
  };
  const found = [];
  for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    const drawn = element.getClientRects().length && !["SCRIPT", "STYLE", "NOSCRIPT"].includes(element.tagName);
    if (!own || !drawn) continue;
    const style = getComputedStyle(element);
    const ink = light(parse(element instanceof SVGElement ? style.fill : style.color)), paper = light(parse(
      getComputedStyle(element).backgroundColor.endsWith(", 0)") ? behind(element).join() : style.backgroundColor));
    found.push([(Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05), element.textContent.slice(0, 40)]);
  }
  return found;
}"""


@pytest.fixture
def address(small: Path) -> str:
    return (small / "report.html").as_uri()


def count_rows(page: Page) -> int:
    return page.locator("#messages tbody tr").count()


def test_every_message_is_an_arrow(visitor: Visitor, small: Path, address: str) -> None:
    page = visitor.open(address)
    assert page.locator(MARKS).count() == expected_arrows(small)
    assert page.locator("#sequence .mark.replies").count() == ROUNDS * USERS
    assert page.locator("#sequence .mark.broken").count() == 0
    assert page.locator("#replies figure").count() == ROUNDS
    assert page.locator("#loss .bar").count() >= 1
    assert page.locator("#run").text_content() == "Kendall's tau of synthetic data"


def test_nothing_is_fetched(visitor: Visitor, address: str) -> None:
    visitor.open(address).wait_for_load_state("networkidle")
    assert visitor.requests == [address]


def test_the_answer_is_the_recorded_one(visitor: Visitor, small: Path, address: str) -> None:
    answer = make_model(small / "transcript.parley")["answer"]
    said = visitor.open(address).locator("#answer .big").text_content() or ""
    assert float(said.split()[0].replace("−", "-")) == pytest.approx(answer["estimate"], rel=1e-3)


def test_the_protocol_is_drawn_round_by_round(visitor: Visitor, small: Path, address: str) -> None:
    page = visitor.open(address)
    page.locator("#folded-experts summary").click()
    drawn = page.locator("#folded-experts ol > li").all_inner_texts()
    script = make_model(small / "transcript.parley")["script"]
    assert [each["number"] for each in script["rounds"]] == list(range(1, ROUNDS + 1))
    assert drawn.pop().startswith("ended")
    for text, each in zip(drawn, script["rounds"], strict=True):
        assert text.startswith(f"{each['name']} \u2014 {each['says']}")
        assert all(f"{send['name']} by {send['randomizer']}" in text for send in each["sends"])
    assert (page.locator("#folded-experts pre").text_content() or "") == script["analyst"]["steps"]
    assert "yield Ask(" in script["analyst"]["steps"]


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390], ids=["desk", "phone"])
def test_axe_finds_nothing(visitor: Visitor, address: str, width: int, dark: bool) -> None:
    """Every rule of axe-core, with everything unfolded. The page lets no script in, so its policy is passed by."""
    page = visitor.open(address, width=width, dark=dark, bypass_csp=True)
    page.locator("#folded-experts summary").click()
    found = Axe().run(page).response["violations"]
    told = [f"{each['id']}: {each['help']}: {each['nodes'][0]['html'][:200]}" for each in found]
    assert not told, "\n".join(told)


def test_nothing_is_cut_off_on_paper(visitor: Visitor, address: str) -> None:
    """On A4 between margins of 12 mm, after it was drawn for a wide screen."""
    page = visitor.open(address)
    page.emulate_media(media="print")
    page.set_viewport_size(ViewportSize(width=A4_WIDTH, height=1031))
    beyond = """() => [...document.querySelectorAll("svg, table, p, dl, h1, h2")].filter((each) => {
        const box = each.getBoundingClientRect();
        return box.width > 0 && (box.right > innerWidth + 1 || box.left < -1);
    }).map((each) => each.outerHTML.slice(0, 120))"""
    assert page.evaluate(beyond) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= A4_WIDTH
    hidden = "getComputedStyle(document.querySelector('.filters')).display"
    assert page.evaluate(hidden) == "none"


def test_filters(visitor: Visitor, address: str) -> None:
    page = visitor.open(address)
    everything = count_rows(page)
    page.select_option("#filter-round", "2")
    assert set(page.locator("#messages tbody tr td:nth-child(5)").all_text_contents()) == {"2"}
    assert 0 < count_rows(page) < everything
    page.select_option("#filter-kind", "replies")
    page.fill("#filter-who", "4")
    assert count_rows(page) == 1
    assert page.locator("#messages tbody td.what").text_content() == "3 replies: users 3 to 5"
    page.fill("#filter-who", "node-0")
    assert page.locator("#messages tbody td.name").all_text_contents() == ["node-0"]
    page.fill("#filter-who", "nobody")
    assert count_rows(page) == 0
    page.click("text=Clear")
    expect(page.locator("#messages tbody tr")).to_have_count(everything)


def test_a_message_tells_what_it_holds(visitor: Visitor, address: str) -> None:
    page = visitor.open(address)
    page.locator("#sequence .mark.replies").first.hover(force=True)
    assert "reply of user" in page.locator("#tip").inner_text()
    page.mouse.move(0, 0)
    assert not page.locator("#tip").is_visible()


def test_the_picture_shows_the_truth_that_its_interval_is_for(visitor: Visitor, small: Path, tmp_path: Path) -> None:
    """Where the interval covers what bins hide, that is the truth without bins."""
    witness = Witness.load(small / "witness.parley")
    model = make_model(small / "transcript.parley", witness=witness)
    answer = model["answer"]
    answer |= {"truth": 0.25, "truth_unbinned": 0.375}
    label = "#answer svg[role=img]"
    for hidden, said in (({}, "truth 0.25"), ({"hidden": 0.1, "hidden_error": 0.1}, "truth 0.375 without bins")):
        page = tmp_path / f"{len(hidden)}.html"
        write_page(page, {**model, "answer": {**answer, "interval95_noise": [0.0, 0.5], **hidden}})
        named = visitor.open(page.as_uri()).locator(label).get_attribute("aria-label") or ""
        assert named.endswith(said)


def test_keyboard(visitor: Visitor, address: str) -> None:
    page = visitor.open(address)
    page.locator("#facts summary").last.focus()
    page.keyboard.press("Tab")
    focused = "document.activeElement.getAttribute('aria-label')"
    first = page.evaluate(focused)
    assert first.startswith("ready")
    assert page.locator("#tip").is_visible()
    page.keyboard.press("ArrowDown")
    assert page.evaluate(focused) != first
    page.keyboard.press("End")
    assert page.evaluate(focused).startswith("result")
    assert page.locator(f"{MARKS}[tabindex='0']").count() == 1
    assert page.locator(f"{MARKS}[aria-selected=true]").count() == 1
    page.keyboard.press("Home")
    assert page.evaluate(focused) == first


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (1280, True), (390, False), (320, True)])
def test_layouts(visitor: Visitor, address: str, width: int, dark: bool) -> None:
    page = visitor.open(address, width=width, dark=dark)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    worst = min(page.evaluate(CONTRASTS))
    assert worst[0] >= 4.5, worst
    assert page.locator("h1, h2").count() >= 8
    unnamed = page.locator("svg[role=img]:not([aria-label]), [role=region]:not([aria-label]), input:not(label input)")
    assert unnamed.count() == 0


def test_reduced_motion(visitor: Visitor, address: str) -> None:
    page = visitor.open(address, reduced_motion="reduce")
    assert page.evaluate("document.getAnimations().length") == 0


def test_hostile_words_stay_words(visitor: Visitor, tmp_path: Path) -> None:
    page_file = tmp_path / "report.html"
    write_page(page_file, make_model(write_hostile(tmp_path / "transcript.parley")))
    page = visitor.open(page_file.as_uri())
    assert HOSTILE[:30] in (page.locator("#alert").text_content() or "")
    assert page.locator("#faults td").filter(has_text="<img").count() > 0
    assert page.locator("img, iframe, a[href^=javascript]").count() == 0
    assert page.evaluate("window.broken") is None
    assert visitor.requests == [page_file.as_uri()]
