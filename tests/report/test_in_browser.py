"""The pages as a browser shows them: at two widths, light and dark. Needs Playwright, Chromium."""

from __future__ import annotations

import shutil

import pytest

pytest.importorskip("jinja2")

from srifty.files.plan_document import read_plan_document
from srifty.report import plan_page, run_page
from tests.report.pages import story

_CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")

# What reaches beyond the page or its own drawing, and words that lie on each other.
_CLIPPED = """() => {
  const width = document.documentElement.clientWidth, found = [];
  const seen = box => box.width > 0 && box.height > 0;
  const name = e => `${e.tagName} ${(e.textContent || "").trim().slice(0, 40)}`;
  if (document.documentElement.scrollWidth > width) found.push("the page scrolls sideways");
  for (const e of document.querySelectorAll("body *")) {
    const box = e.getBoundingClientRect();
    if (seen(box) && (box.right > width + 1 || box.left < -1)) found.push(`beyond: ${name(e)}`);
  }
  for (const e of document.querySelectorAll(".scroll"))
    if (e.scrollWidth > e.clientWidth + 1) found.push(`scrolls: ${e.closest("section").id}`);
  for (const svg of document.querySelectorAll("figure svg")) {
    const whole = svg.getBoundingClientRect();
    if (!seen(whole)) continue;
    const words = [...svg.querySelectorAll("text")].map(e => [e, e.getBoundingClientRect()]);
    for (const [e, box] of words)
      if (box.right > whole.right + 2 || box.left < whole.left - 2 || box.top < whole.top - 2
          || box.bottom > whole.bottom + 2) found.push(`outside: ${name(e)}`);
    words.forEach(([e, one], i) => words.slice(i + 1).forEach(([f, other]) => {
      if (one.left < other.right - 1 && other.left < one.right - 1
          && one.top < other.bottom - 3 && other.top < one.bottom - 3)
        found.push(`overlap: ${name(e)} / ${name(f)}`);
    }));
  }
  return found;
}"""

# Words whose colour stands out by less than 4.5 from what is behind them.
_PALE = """() => {
  const channels = c => c.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map(v => v / 255)
    .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = e => {
    for (; e; e = e.parentElement) {
      const c = channels(getComputedStyle(e).backgroundColor);
      if (c.length < 4 || c[3] > 0) return c;
    }
    return [255, 255, 255];
  };
  const found = new Set();
  for (const e of document.querySelectorAll("body *")) {
    const own = [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
    const box = e.getBoundingClientRect();
    if (!own || !box.width || e.tagName === "title") continue;
    const style = getComputedStyle(e);
    const ink = light(channels(e.tagName === "text" ? style.fill : style.color));
    const ground = light(behind(e));
    const ratio = (Math.max(ink, ground) + 0.05) / (Math.min(ink, ground) + 0.05);
    if (ratio < 4.5) found.add(`${e.tagName}.${e.getAttribute("class")}: ${ratio.toFixed(2)}`);
  }
  return [...found];
}"""


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="needs Playwright")
    if _CHROMIUM is None:
        pytest.skip("needs Chromium")
    with playwright.sync_playwright() as started:
        chromium = started.chromium.launch(executable_path=_CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def pages(written, tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    made = {
        name: plan_page(read_plan_document(written / f"{name}.json"))
        for name in ("limited", "free", "none")
    }
    made["running"] = run_page(story())
    made["ended"] = run_page(story(state="finished", message="All iterations were made."))
    for name, page in made.items():
        (folder / f"{name}.html").write_text(page, encoding="utf-8")
    return folder


@pytest.mark.parametrize("colours", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("name", ["limited", "free", "none", "running", "ended"])
def test_a_page_is_whole_and_readable(browser, pages, name, width, colours):
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=colours)
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    address = (pages / f"{name}.html").as_uri()
    page.goto(address)
    for is_open in (False, True):
        if is_open:
            page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
        assert page.evaluate(_CLIPPED) == []
        assert page.evaluate(_PALE) == []
    assert complaints == []
    assert [url for url in asked if url not in (address, "data:,")] == []
    page.close()


def test_printed_pages_hold_the_tables_too(browser, pages):
    page = browser.new_page(viewport={"width": 1280, "height": 900}, color_scheme="dark")
    page.goto((pages / "limited.html").as_uri())
    page.emulate_media(media="print")
    table = page.locator("#front details table")
    assert table.is_visible()
    assert page.evaluate("getComputedStyle(document.body).color") == "rgb(28, 33, 41)"
    page.close()
