"""The pages in a real browser: tables sorted, filtered and unfolded by clicks and keys, at the width of a desk and of a phone."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import UTC
from pathlib import Path

import pytest

from replay.pipeline.options import Options
from replay.pipeline.scenario import Scenario
from replay.pipeline.weekly.output import write_weekly
from replay.pipeline.weekly.report import WeeklyQuestion, weekly
from replay.report.render.document import Align, Chart, Column, Document, Fact, Section, Table, Tone
from replay.report.render.html import html

webdriver = pytest.importorskip("selenium.webdriver", reason="Selenium is not installed")
from selenium.webdriver.chromium.webdriver import ChromiumDriver as WebDriver  # noqa: E402 - only where it is installed
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402
from selenium.webdriver.remote.webelement import WebElement  # noqa: E402

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="chromium and chromedriver are not installed")

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
                ),
                Chart("chart", "heat", "Where", "In a alone.", ("a", "b"), {"p": (3.0, 0.0)}),
            ),
        ),
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
    cells = table.find_elements(By.CSS_SELECTOR, f"tbody tr td:nth-child({column})")
    return [cell.text for cell in cells if cell.is_displayed()]


def head(table: WebElement, title: str) -> WebElement:
    return next(b for b in table.find_elements(By.CSS_SELECTOR, "th button") if b.text.split()[0] == title)


def unfold(browser: WebDriver) -> None:
    browser.find_element(By.CSS_SELECTOR, "button.all").click()


def test_a_long_table_begins_short_and_unfolds(browser: WebDriver, table: WebElement) -> None:
    assert len(shown(table)) == 12
    unfold(browser)
    assert shown(table) == [row[0] for row in ROWS]


def test_a_click_sorts_numbers_largest_first_and_another_turns_it_round(browser: WebDriver, table: WebElement) -> None:
    unfold(browser)
    numbers = sorted((int(row[1].replace(",", "")) for row in ROWS), reverse=True)
    head(table, "requests").click()
    assert [int(text.replace(",", "")) for text in shown(table, 2)] == numbers
    assert head(table, "requests").find_element(By.XPATH, "..").get_attribute("aria-sort") == "descending"
    head(table, "requests").click()
    assert [int(text.replace(",", "")) for text in shown(table, 2)] == numbers[::-1]


def test_the_keyboard_sorts_as_well(browser: WebDriver, table: WebElement) -> None:
    unfold(browser)
    head(table, "policy").send_keys(Keys.ENTER)
    assert shown(table) == sorted(row[0] for row in ROWS)


def test_the_filter_keeps_rows_that_hold_every_word(browser: WebDriver, table: WebElement) -> None:
    field = browser.find_element(By.CSS_SELECTOR, "input[type=search]")
    field.send_keys("AUDITED policy-1")
    assert shown(table) == ["policy-10", "policy-15"]
    field.send_keys(" nothing")
    assert shown(table) == []
    assert browser.find_element(By.CSS_SELECTOR, ".none").is_displayed()
    field.clear()
    field.send_keys(Keys.SPACE)
    assert len(shown(table)) == 12


@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_is_wider_than_the_window(browser: WebDriver, table: WebElement, width: int) -> None:
    # A window is never narrower than 500 pixels; the device metrics are those of a phone.
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500},
    )
    try:
        assert browser.execute_script("return document.documentElement.scrollWidth") <= width
        assert bool(shown(table, 3)) == (width == 1280)
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


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


@pytest.mark.parametrize("recording", ["sample", pytest.param("bench", marks=pytest.mark.shared)])
def test_the_weekly_report_is_sorted_and_filtered(browser: WebDriver, tmp_path: Path, recording: str) -> None:
    example = Path(__file__).parents[2] / "reports" / "weekly" / "report.html"
    page = example if recording == "sample" else weekly_page(tmp_path)
    browser.set_window_size(1280, 900)
    browser.get(page.as_uri())
    promotions = browser.find_element(By.ID, "promotions")
    before = shown(promotions)
    head(promotions, "asked").click()
    asked = [int(text.replace(",", "")) for text in shown(promotions, 8)]
    assert asked == sorted(asked, reverse=True)
    assert shown(promotions) != before
    owners = browser.find_element(By.ID, "owners")
    browser.find_element(By.CSS_SELECTOR, "input[data-filter=owners]").send_keys("team-label")
    names = {name.replace("\n", "") for name in shown(owners)}
    assert names == {"team-label.static.k8s.io"}


def test_the_page_asks_for_nothing_and_raises_nothing(browser: WebDriver, table: WebElement) -> None:
    assert table.is_displayed()
    assert browser.execute_script("return performance.getEntriesByType('resource').length") == 0
    messages = browser.get_log("browser")  # type: ignore[no-untyped-call]  # Selenium has no type for it
    assert [entry["message"] for entry in messages] == []
