"""The pages in a real browser: tables sorted, paged and filtered by clicks, keys and links, at the width of a desk and of a phone."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC
from pathlib import Path

import pytest

from replay.compare.result import RunResult
from replay.pipeline.options import Options
from replay.pipeline.output import write_report
from replay.pipeline.scenario import Scenario
from replay.pipeline.weekly.report import WeeklyQuestion, weekly, write_weekly
from replay.report.render.document import Align, Chart, Column, Document, Fact, Listing, Section, Table, Tone
from replay.report.render.html import html
from replay.report.run.hits import PAGE, hit_values
from tests.support.shared_run import shared_run

webdriver = pytest.importorskip("selenium.webdriver", reason="Selenium is not installed")
from selenium.webdriver.chromium.webdriver import ChromiumDriver as WebDriver  # noqa: E402 - only where it is installed
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402
from selenium.webdriver.remote.webelement import WebElement  # noqa: E402

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="chromium and chromedriver are not installed"),
]

ROWS = tuple(
    (f"policy-{i}", f"{i * 700 % 1100:,}", "\u22123 (\u221210 %)", "denied" if i % 5 else "audited") for i in range(20)
)
DOCUMENT = Document(
    "A report",
    "of a test",
    "20 rows.",
    Tone.WARN,
    (Fact("Rows", "20", "in one table"),),
    (
        Section(
            "rows",
            "Rows",
            "All of them.",
            (
                Table(
                    "rows-table",
                    "By policy",
                    (
                        Column("policy", Align.CODE),
                        Column("requests", Align.NUMBER),
                        Column("trend", Align.SHORT, optional=True),
                        Column("what"),
                    ),
                    ROWS,
                    tones=(Tone.GOOD,) * 20,
                    foot=("all", "9,999", "", ""),
                    anchors=tuple(f"policy-{row[0]}" for row in ROWS),
                ),
                Table(
                    "other", "Others", (Column("who"), Column("policies", Align.CODE)), (("ann", "policy-3, policy-1"),)
                ),
                Chart("chart", "heat", "Where", "In a alone.", ("a", "b"), {"p": (3.0, 0.0)}),
                Chart("second", "lines", "When", "At once.", ("1", "2"), {"p": (3.0, 0.0)}),
            ),
        ),
        Section("apart", "Apart", "", (Listing("policy-19 in words", "x" * 400),)),
    ),
)


@pytest.fixture(scope="module")
def browser() -> Iterator[WebDriver]:
    options = webdriver.ChromeOptions()
    options.binary_location = str(CHROMIUM)
    for argument in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--no-first-run",
        "--force-prefers-reduced-motion",
    ):
        options.add_argument(argument)
    driver = webdriver.Chrome(options, webdriver.ChromeService(str(DRIVER)))
    yield driver
    driver.quit()


@pytest.fixture
def table(browser: WebDriver, tmp_path: Path) -> WebElement:
    page = tmp_path / "report.html"
    page.write_text(html(DOCUMENT), encoding="utf-8")
    browser.set_window_size(1280, 900)
    browser.get(page.as_uri())
    return browser.find_element(By.ID, "rows-table")


def shown(table: WebElement, column: int = 1) -> list[str]:
    """What stands in the cells of a column that can be seen: asked at once, since a large table has thousands of them."""
    script = """
      return [...arguments[0].querySelectorAll(`tbody tr td:nth-child(${arguments[1]})`)]
        .filter((cell) => cell.checkVisibility({visibilityProperty: true})).map((cell) => cell.innerText.trim())
    """
    texts: list[str] = table.parent.execute_script(script, table, column)
    return texts


def head(table: WebElement, title: str) -> WebElement:
    return next(b for b in table.find_elements(By.CSS_SELECTOR, "th button") if b.text.split()[0] == title)


def pager(table: WebElement) -> WebElement:
    return table.find_element(By.XPATH, "../following-sibling::p[contains(@class, 'pager')]")


def press(table: WebElement, name: str) -> None:
    pager(table).find_element(By.CSS_SELECTOR, f"button.{name}").click()


def unfold(table: WebElement) -> None:
    press(table, "all")


def fill(browser: WebDriver, text: str) -> None:
    field = browser.find_element(By.ID, "filter")
    field.clear()
    field.send_keys(text or Keys.SPACE)


@contextmanager
def as_wide_as(browser: WebDriver, width: int, scheme: str = "light") -> Iterator[None]:
    """A window is never narrower than 500 pixels; the device metrics are those of a phone."""
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    features = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", features)
    try:
        yield
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def test_a_long_table_is_paged_and_unfolds(table: WebElement) -> None:
    names = [row[0] for row in ROWS]
    assert (shown(table), pager(table).text.split("\n")[:2]) == (names[:12], ["\u2039 Back", "1\u201312 of 20"])
    press(table, "next")
    assert shown(table) == names[12:]
    assert not pager(table).find_element(By.CSS_SELECTOR, "button.next").is_enabled()
    press(table, "back")
    assert shown(table) == names[:12]
    unfold(table)
    assert shown(table) == names
    unfold(table)
    assert shown(table) == names[:12]


def test_a_click_sorts_numbers_largest_first_and_another_turns_it_round(table: WebElement) -> None:
    unfold(table)
    numbers = sorted((int(row[1].replace(",", "")) for row in ROWS), reverse=True)
    head(table, "requests").click()
    assert [int(text.replace(",", "")) for text in shown(table, 2)] == numbers
    assert head(table, "requests").find_element(By.XPATH, "..").get_attribute("aria-sort") == "descending"
    head(table, "requests").click()
    assert [int(text.replace(",", "")) for text in shown(table, 2)] == numbers[::-1]


def test_sorting_begins_with_the_first_page(table: WebElement) -> None:
    press(table, "next")
    head(table, "policy").click()
    assert shown(table) == sorted(row[0] for row in ROWS)[:12]


def test_the_keyboard_sorts_as_well(table: WebElement) -> None:
    unfold(table)
    head(table, "policy").send_keys(Keys.ENTER)
    assert shown(table) == sorted(row[0] for row in ROWS)


def test_the_filter_keeps_rows_that_hold_every_word(browser: WebDriver, table: WebElement) -> None:
    foot, other = table.find_element(By.CSS_SELECTOR, "tfoot"), browser.find_element(By.ID, "other")
    assert foot.is_displayed()
    fill(browser, "AUDITED policy-1")
    assert shown(table) == ["policy-10", "policy-15"]
    assert not foot.is_displayed()  # it is about all rows
    assert not other.is_displayed()
    assert not browser.find_element(By.ID, "apart").is_displayed()
    assert not browser.find_element(By.CSS_SELECTOR, "figure.chart").is_displayed()
    fill(browser, "nothing at all")
    assert browser.find_element(By.ID, "nothing").is_displayed()
    browser.find_element(By.CSS_SELECTOR, "button.clear").click()
    assert (len(shown(table)), foot.is_displayed(), other.is_displayed()) == (12, True, True)


def test_the_address_holds_the_filter(browser: WebDriver, table: WebElement) -> None:
    assert table.is_displayed()
    fill(browser, "audited policy-1")
    address = browser.current_url
    assert address.endswith("#filter=audited%20policy-1")
    browser.get("about:blank")
    browser.get(address)
    assert shown(browser.find_element(By.ID, "rows-table")) == ["policy-10", "policy-15"]
    browser.find_element(By.CSS_SELECTOR, "button.clear").click()
    assert "#" not in browser.current_url


def test_a_link_to_a_policy_shows_that_policy_alone(browser: WebDriver, table: WebElement) -> None:
    """Not those whose names it begins, and all places where it is named."""
    table.find_element(By.LINK_TEXT, "policy-1").click()
    address = browser.current_url
    assert address.endswith("#policy-policy-1")
    for _ in range(2):
        assert shown(browser.find_element(By.ID, "rows-table")) == ["policy-1"]
        assert shown(browser.find_element(By.ID, "other")) == ["ann"]
        assert browser.find_element(By.ID, "filter").get_attribute("value") == "policy:policy-1"
        browser.get("about:blank")
        browser.get(address)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 768, 1280])
def test_nothing_is_wider_than_the_window_and_no_column_is_left_out(
    browser: WebDriver, table: WebElement, width: int, scheme: str
) -> None:
    with as_wide_as(browser, width, scheme):
        assert browser.execute_script("return document.documentElement.scrollWidth") <= width
        assert len(shown(table, 3)) == 12
        charts = browser.find_elements(By.CSS_SELECTOR, "figure.chart")
        assert (charts[0].rect["y"] == charts[1].rect["y"]) == (width == 1280)
        box = browser.find_element(By.CSS_SELECTOR, "#apart pre")
        assert browser.execute_script("return arguments[0].scrollWidth > arguments[0].clientWidth", box)


def contrast(browser: WebDriver, selector: str) -> float:
    """Of an element's text with what is behind it, as WCAG 2 defines it."""
    script = """
      const rgb = (text) => text.match(/[\\d.]+/g).map(Number);
      const light = (c) => c.slice(0, 3).map((v) => v / 255)
        .map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
        .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
      const element = document.querySelector(arguments[0]);
      let behind = element;
      while ((rgb(getComputedStyle(behind).backgroundColor)[3] ?? 1) === 0) behind = behind.parentElement;
      const [a, b] = [getComputedStyle(element).color, getComputedStyle(behind).backgroundColor].map(rgb).map(light);
      return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    """
    return float(browser.execute_script(script, selector))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read_in_both_schemes(browser: WebDriver, table: WebElement, scheme: str) -> None:
    with as_wide_as(browser, 1280, scheme):
        places = ("h1", ".kicker", ".lead", "td.code a", "th button", ".pager .next", ".verdict", "#filter", "nav a")
        assert {place: round(contrast(browser, place), 1) for place in places if contrast(browser, place) < 4.5} == {}
        assert table.is_displayed()


def test_the_text_of_a_chart_can_be_selected(browser: WebDriver, table: WebElement) -> None:
    browser.execute_script("getSelection().selectAllChildren(document.querySelector('figure.chart svg'))")
    assert {"a", "b", "p", "3"} <= set(str(browser.execute_script("return getSelection().toString()")).split())
    assert table.is_displayed()


@pytest.mark.parametrize("width", [390, 768, 1280])
@pytest.mark.parametrize("example", ["run", "weekly"])
def test_no_table_of_the_examples_is_wider_than_the_page(browser: WebDriver, example: str, width: int) -> None:
    page = Path(__file__).parents[2] / "reports" / example / "report.html"
    script = "return [...document.querySelectorAll('.scroll')].filter((e) => e.scrollWidth > e.clientWidth + 1).length"
    with as_wide_as(browser, width):
        browser.get(page.as_uri())
        assert browser.execute_script(script) == 0
        assert browser.execute_script("return document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize(("width", "columns"), [(390, 1), (768, 2)])
def test_what_stands_below_a_row_has_columns_where_there_is_room(browser: WebDriver, width: int, columns: int) -> None:
    page = Path(__file__).parents[2] / "reports" / "weekly" / "report.html"
    with as_wide_as(browser, width):
        browser.get(page.as_uri())
        cells = browser.find_elements(By.CSS_SELECTOR, "#promotions tbody tr:first-child td")
        assert len({cell.rect["x"] for cell in cells}) == columns


def test_a_link_to_a_policy_of_the_weekly_report(browser: WebDriver) -> None:
    page = Path(__file__).parents[2] / "reports" / "weekly" / "report.html"
    browser.get(f"{page.as_uri()}#policy-no-exec.static.k8s.io")
    browser.refresh()
    assert [shown(browser.find_element(By.ID, name)) for name in ("promotions", "owners")] == [
        ["no-exec.static.k8s.io"]
    ] * 2


def weekly_page(tmp_path: Path) -> Path:
    """The weekly report of the recording `bench` with both sets of `shop`."""
    recordings = Path(__file__).parents[2].parent / "shared" / "recordings"
    if not recordings.is_dir():
        pytest.skip("the recordings are not beside the checkout")
    source = Scenario(
        (str(recordings / "bench" / "audit.jsonl.zst"),),
        current=recordings / "shop" / "current",
        candidate=recordings / "shop" / "candidate",
        cluster=recordings / "shop" / "cluster.jsonl.zst",
    )
    result = weekly(source, WeeklyQuestion(since="9m"), Options(), lambda _what, _done, _total: None)
    write_weekly(result, tmp_path, UTC, brief=False)
    return tmp_path / "report.html"


@pytest.mark.parametrize("recording", ["sample", pytest.param("bench", marks=[pytest.mark.shared, pytest.mark.slow])])
def test_the_weekly_report_is_sorted_and_filtered(browser: WebDriver, tmp_path: Path, recording: str) -> None:
    example = Path(__file__).parents[2] / "reports" / "weekly" / "report.html"
    page = example if recording == "sample" else weekly_page(tmp_path)
    browser.set_window_size(1280, 900)
    browser.get(page.as_uri())
    promotions = browser.find_element(By.ID, "promotions")
    before = shown(promotions)
    head(promotions, "evaluated").click()
    asked = [int(text.replace(",", "")) for text in shown(promotions, 8)]
    assert asked == sorted(asked, reverse=True)
    assert shown(promotions) != before
    owners = browser.find_element(By.ID, "owners")
    fill(browser, "policy:team-label.static.k8s.io")
    names = {name.replace("\n", "") for name in shown(owners)}
    assert names == {"team-label.static.k8s.io"}


def run_page(directory: Path, common: Path, recording: str) -> tuple[Path, RunResult]:
    """The report of a run."""
    root = Path(__file__).parents[2]
    recordings = root.parent / "shared" / "recordings"
    if recording == "bench" and not recordings.is_dir():
        pytest.skip("the recordings are not beside the checkout")
    sets = root / "sample_audit" / "shop" if recording == "sample" else recordings / "shop"
    result, _ = shared_run(common, sets if recording == "sample" else recordings / "bench", sets)
    write_report(result, directory)
    return directory / "report.html", result


@pytest.mark.parametrize("recording", ["sample", pytest.param("bench", marks=[pytest.mark.shared])])
def test_the_report_of_a_run_is_complete_and_shows_one_policy(
    browser: WebDriver, tmp_path: Path, common: Path, recording: str
) -> None:
    page, result = run_page(tmp_path, common, recording)
    rows = list(hit_values(result))
    browser.set_window_size(1280, 900)
    browser.get(page.as_uri())
    hit = browser.find_element(By.ID, "hits-table")
    assert len(hit.find_elements(By.CSS_SELECTOR, "tbody tr")) == len(rows)
    assert len(shown(hit)) == min(PAGE, len(rows))
    policy = "team-label.static.k8s.io"
    browser.get(f"{page.as_uri()}#policy-{policy}")
    browser.refresh()
    hit = browser.find_element(By.ID, "hits-table")
    if len(own := [row for row in rows if row["policy"] == policy]) > PAGE:
        unfold(hit)
    assert (len(shown(hit)), set(shown(hit))) == (len(own), {policy})
    denied = [row["requests"] for row in own if row["outcome"] == "newly_denied"]
    (row,) = browser.find_elements(By.CSS_SELECTOR, "#policies tbody tr:not([hidden])")
    assert row.find_element(By.CSS_SELECTOR, "td:nth-child(2)").text == f"{sum(denied):,}"
    for width in (390, 768, 1280):
        with as_wide_as(browser, width):
            browser.get(page.as_uri())
            assert browser.execute_script("return document.documentElement.scrollWidth") <= width


def test_the_page_asks_for_nothing_and_raises_nothing(browser: WebDriver, table: WebElement) -> None:
    assert table.is_displayed()
    assert browser.execute_script("return performance.getEntriesByType('resource').length") == 0
    messages = browser.get_log("browser")  # type: ignore[no-untyped-call]  # Selenium has no type for it
    assert [entry["message"] for entry in messages] == []
