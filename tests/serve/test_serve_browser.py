"""The page in a real browser: the way to the line that denies, the filter, keys, a phone, both colour schemes, and axe-core."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from msgspec.structs import replace

from replay.audit.store import Store
from replay.pipeline.project.accepted import read_accepted
from replay.serve.growth import row_key
from replay.serve.settings import ServeSettings
from replay.serve.trials import TrialPhase, WorkProgress
from tests.serve.conftest import NODE, ROW, Site, served, state_of, summary
from tests.support.short_sample import write_first_lines

webdriver = pytest.importorskip("selenium.webdriver", reason="Selenium is not installed")
from selenium.webdriver.chromium.webdriver import ChromiumDriver as WebDriver  # noqa: E402 - only where it is installed
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402
from selenium.webdriver.remote.webelement import WebElement  # noqa: E402
from selenium.webdriver.support.wait import WebDriverWait  # noqa: E402

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
AXE = Path(__file__).parents[2] / ".tools" / "node_modules" / "axe-core" / "axe.min.js"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="chromium and chromedriver are not installed"),
]
WORKLOAD = "/trials/next/workload?" + urlencode(
    {"namespace": "shop", "workload": "Deployment/app-1", "policy": ROW["policy"]}
)
LONG_NAME = f"Pod/{'ab' * 40}"
"""A name without a place to break it."""
LONG = "/trials/next/workload?" + urlencode({"namespace": "shop", "workload": LONG_NAME, "policy": ROW["policy"]})
PATHS = ("/", "/trials/next", WORKLOAD, LONG, "/trials/young", "/search", "/log", "/weekly", "/login", "/nothing")
PHONE = 390
POLICY = """kind: ValidatingAdmissionPolicy
spec:
  validations:
  - expression: has(object.metadata.labels.team)
    message: a team is needed
---
message: a team is needed
"""


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
    """The page with many workloads, at the width of a desk, over a store with a part of the sample."""
    policy = settings.trials[0].candidate / "team.yaml"
    policy.write_text(POLICY)
    log = policy.parents[1] / "audit.jsonl"
    write_first_lines(log, 300)
    with Store.open(settings.store) as store:
        store.ingest([log])
    named = {"origin": f"{policy}:1", "message": "a team is needed"}
    rows = [
        {**ROW, **named, "workload": f"Deployment/app-{index}", "owner": f"team-{index % 3}"} for index in range(20)
    ]
    long = {**ROW, **named, "workload": LONG_NAME}
    state = state_of(settings.trials[0], summary(*rows, long, NODE, unknown=3), {row_key(NODE): time.time()})
    clean = state_of(settings.trials[1], summary())
    browser.set_window_size(1280, 900)
    changed = replace(settings, accepted=policy.parents[1] / "accepted.yaml")
    with served(changed, (state, clean)) as running:
        yield running


def opened(browser: WebDriver, site: Site, path: str) -> None:
    browser.get(f"http://127.0.0.1:{site.port}{path}")


def clicked(browser: WebDriver, selector: str) -> None:
    element = browser.find_element(By.CSS_SELECTOR, selector)
    browser.execute_script("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", element)
    element.click()


def test_two_clicks_lead_to_the_line_that_denies(browser: WebDriver, pages: Site) -> None:
    opened(browser, pages, "/")
    clicked(browser, "#trials tbody a")
    clicked(browser, "#workloads tbody a")
    assert browser.find_element(By.CSS_SELECTOR, "#policy figcaption").text == "next/team.yaml:5"
    assert browser.find_element(By.CSS_SELECTOR, "#policy mark").text.strip() == "message: a team is needed"
    assert browser.find_element(By.CSS_SELECTOR, "#policy mark").is_displayed()
    assert "would be denied." in browser.find_element(By.CSS_SELECTOR, ".verdict").text


def test_a_finding_is_accepted(browser: WebDriver, pages: Site) -> None:
    opened(browser, pages, WORKLOAD)
    browser.find_element(By.ID, "reason").send_keys("agreed until the move")
    clicked(browser, "#accept button")
    WebDriverWait(browser, 20).until(lambda driver: driver.title.startswith("next"))
    assert browser.find_element(By.TAG_NAME, "h1").text == "next"
    assert pages.settings.accepted is not None
    (entry,) = read_accepted(pages.settings.accepted)
    assert (entry.workload, entry.namespace, entry.reason) == ("Deployment/app-1", "shop", "agreed until the move")


def test_a_search_finds_decisions(browser: WebDriver, pages: Site) -> None:
    opened(browser, pages, "/")
    browser.find_element(By.LINK_TEXT, "Search").click()
    browser.find_element(By.ID, "user").send_keys("*")
    browser.find_element(By.CSS_SELECTOR, "form button").click()
    WebDriverWait(browser, 60).until(lambda driver: "user=" in driver.current_url)
    assert browser.find_element(By.CSS_SELECTOR, ".trail").text.split() == ["Trials", "Search"]
    assert len(browser.find_elements(By.CSS_SELECTOR, "main tbody tr")) > 0


def test_the_page_tells_when_there_is_a_new_result(browser: WebDriver, pages: Site) -> None:
    opened(browser, pages, "/trials/next")
    pages.board.change("next", phase=TrialPhase.DECIDING, work=WorkProgress("Replaying", 3, 4))
    told = browser.find_element(By.CSS_SELECTOR, "#work span")
    WebDriverWait(browser, 20).until(
        lambda _: told.text == "next is being decided over the whole store. Replaying: 75 %"
    )
    pages.board.change("next", phase=TrialPhase.READY, decided=time.time())
    WebDriverWait(browser, 20).until(lambda driver: driver.find_element(By.LINK_TEXT, "Show the new result"))
    assert told.text == ""


def test_the_filter_leaves_the_rows_of_a_team(browser: WebDriver, pages: Site) -> None:
    opened(browser, pages, "/trials/next")
    browser.find_element(By.ID, "filter").send_keys("team-1")
    shown = browser.execute_script(
        "return [...document.querySelectorAll('#workloads tbody tr')].filter((row) => row.checkVisibility()).length"
    )
    assert shown == len([index for index in range(20) if index % 3 == 1])


def reached(browser: WebDriver, holds: Callable[[WebElement], bool]) -> WebElement:
    """The element that the key Tab comes to, and that is seen to have the focus."""
    for _ in range(120):
        browser.switch_to.active_element.send_keys(Keys.TAB)
        element = browser.switch_to.active_element
        if holds(element):
            assert element.value_of_css_property("outline-style") != "none"
            return element
    raise AssertionError("no key leads there")


def test_keys_alone_lead_to_an_accepted_finding(browser: WebDriver, pages: Site) -> None:
    opened(browser, pages, "/")
    reached(browser, lambda element: element.text == "next").send_keys(Keys.ENTER)
    assert browser.find_element(By.TAG_NAME, "h1").text == "next"
    reached(browser, lambda element: element.text == "Deployment/app-0").send_keys(Keys.ENTER)
    assert "app-0" in browser.find_element(By.TAG_NAME, "h1").text
    reached(browser, lambda element: element.get_attribute("id") == "reason").send_keys("agreed", Keys.ENTER)
    assert browser.find_element(By.TAG_NAME, "h1").text == "next"
    assert pages.settings.accepted is not None
    assert [entry.reason for entry in read_accepted(pages.settings.accepted)] == ["agreed"]


@pytest.mark.parametrize("path", PATHS)
def test_a_phone_needs_no_scrolling_sideways(browser: WebDriver, pages: Site, path: str) -> None:
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": PHONE, "height": 844, "deviceScaleFactor": 1, "mobile": True}
    )
    try:
        opened(browser, pages, path)
        width = browser.execute_script("return document.documentElement.scrollWidth")
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    assert width <= PHONE  # the width of the window grows with the page


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
