"""The page in a real browser: the way to the line that denies, the filter, keys, a phone, both colour schemes, and axe-core."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from replay.serve.growth import row_key
from replay.serve.settings import ServeSettings
from tests.serve.conftest import NODE, ROW, Site, served, state_of, summary

webdriver = pytest.importorskip("selenium.webdriver", reason="Selenium is not installed")
from selenium.webdriver.chromium.webdriver import ChromiumDriver as WebDriver  # noqa: E402 - only where it is installed
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
AXE = Path(__file__).parents[2] / ".tools" / "node_modules" / "axe-core" / "axe.min.js"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="chromium and chromedriver are not installed"),
]
PATHS = ("/", "/trials/next", "/search", "/log", "/weekly", "/login", "/nothing")


@pytest.fixture(scope="module")
def browser() -> Iterator[WebDriver]:
    options = webdriver.ChromeOptions()
    options.binary_location = str(CHROMIUM)
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"):
        options.add_argument(argument)
    driver = webdriver.Chrome(options, webdriver.ChromeService(str(DRIVER)))
    yield driver
    driver.quit()


@pytest.fixture
def pages(settings: ServeSettings, browser: WebDriver) -> Iterator[Site]:
    """The page with many workloads, at the width of a desk."""
    rows = [{**ROW, "workload": f"Deployment/app-{index}", "owner": f"team-{index % 3}"} for index in range(20)]
    state = state_of(settings.trials[0], summary(*rows, NODE, unknown=3), {row_key(NODE): time.time()})
    clean = state_of(settings.trials[1], summary())
    browser.set_window_size(1280, 900)
    with served(settings, (state, clean)) as running:
        yield running


def opened(browser: WebDriver, site: Site, path: str) -> None:
    browser.get(f"http://127.0.0.1:{site.port}{path}")


def test_three_clicks_lead_to_the_line_that_denies(browser: WebDriver, pages: Site) -> None:
    opened(browser, pages, "/")
    browser.find_element(By.LINK_TEXT, "next").click()
    browser.execute_script(
        "document.querySelector('#workloads a').scrollIntoView({block: 'center', behavior: 'instant'})"
    )
    browser.find_element(By.CSS_SELECTOR, "#workloads a").click()
    assert ROW["origin"] in browser.find_element(By.CSS_SELECTOR, ".facts").text
    assert "would be denied." in browser.find_element(By.CSS_SELECTOR, ".verdict").text


def test_the_filter_leaves_the_rows_of_a_team(browser: WebDriver, pages: Site) -> None:
    opened(browser, pages, "/trials/next")
    browser.find_element(By.ID, "filter").send_keys("team-1")
    shown = browser.execute_script(
        "return [...document.querySelectorAll('#workloads tbody tr')].filter((row) => row.checkVisibility()).length"
    )
    assert shown == len([index for index in range(20) if index % 3 == 1])


def test_keys_alone_lead_to_a_trial(browser: WebDriver, pages: Site) -> None:
    opened(browser, pages, "/")
    for _ in range(40):
        browser.switch_to.active_element.send_keys(Keys.TAB)
        if browser.switch_to.active_element.text == "next":
            break
    browser.switch_to.active_element.send_keys(Keys.ENTER)
    assert browser.find_element(By.TAG_NAME, "h1").text == "next"


@pytest.mark.parametrize("path", PATHS)
def test_a_phone_needs_no_scrolling_sideways(browser: WebDriver, pages: Site, path: str) -> None:
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}
    )
    try:
        opened(browser, pages, path)
        widths = browser.execute_script("return [document.documentElement.scrollWidth, window.innerWidth]")
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    assert widths[0] <= widths[1]


@pytest.mark.skipif(not AXE.exists(), reason="axe-core is not installed (npm install --prefix .tools axe-core)")
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("path", PATHS)
def test_axe_finds_nothing_serious(browser: WebDriver, pages: Site, path: str, scheme: str) -> None:
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    opened(browser, pages, path)
    browser.execute_script(AXE.read_text("utf-8"))
    found: dict[str, Any] = browser.execute_async_script("axe.run().then(arguments[arguments.length - 1])")
    serious = [each for each in found["violations"] if each["impact"] in ("serious", "critical")]
    assert [(each["id"], [node["html"] for node in each["nodes"]][:3]) for each in serious] == []


def test_nothing_is_blocked_by_the_policy_of_the_page(browser: WebDriver, pages: Site) -> None:
    for path in PATHS[:-1]:
        opened(browser, pages, path)
        said = [entry["message"] for entry in browser.get_log("browser")]  # type: ignore[no-untyped-call]
        assert [text for text in said if "Content Security Policy" in text] == []
