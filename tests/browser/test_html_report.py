"""The HTML report in a real headless Chromium: it works offline, with and without JavaScript.

Needs Chromium and its driver (Debian: `apt-get install chromium chromium-driver`). Set
STORAGE_ANALYZER_NO_BROWSER=1 to skip these tests.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement

from analyzer.report import html
from tests.unit.report.sample import ATTACKS, hostile_names, sample_view

pytestmark = pytest.mark.skipif(
    os.environ.get("STORAGE_ANALYZER_NO_BROWSER") == "1",
    reason="STORAGE_ANALYZER_NO_BROWSER=1: the HTML report was not tried in a browser",
)

FLAGS = """--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-sync
--disable-background-networking --disable-component-update --disable-dev-shm-usage"""


def program(*names: str) -> str:
    """The path of the first of the programs that is installed; fails the test if none is."""
    found = next((path for name in names if (path := shutil.which(name))), None)
    if found is None:
        pytest.fail(
            f"{names[0]} is not installed: `apt-get install chromium chromium-driver`, or set "
            "STORAGE_ANALYZER_NO_BROWSER=1 to skip the browser tests"
        )
    return found


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    options = webdriver.ChromeOptions()
    options.binary_location = program("chromium", "chromium-browser", "google-chrome")
    for flag in FLAGS.split():
        options.add_argument(flag)
    options.add_argument(f"--user-data-dir={tmp_path_factory.mktemp('profile')}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options, webdriver.ChromeService(program("chromedriver")))
    driver.set_page_load_timeout(60)
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(html.render(sample_view()), encoding="utf-8")
    return path.as_uri()


@pytest.fixture
def report(browser: webdriver.Chrome, page: str) -> webdriver.Chrome:
    """The report, freshly loaded, 1280 pixels wide, in light colours, with JavaScript."""
    settle(browser)
    log(browser, "browser")
    log(browser, "performance")
    browser.get(page)
    return browser


def settle(
    browser: webdriver.Chrome, width: int = 1280, scheme: str = "light", script: bool = True
) -> None:
    """What the next page load sees."""
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": not script})


def log(browser: Any, kind: str) -> list[dict[str, Any]]:
    """What came since the last call (selenium has no types for it)."""
    return list(browser.get_log(kind))


def requests(browser: webdriver.Chrome) -> list[str]:
    """The addresses that the page asked for."""
    messages = [json.loads(entry["message"])["message"] for entry in log(browser, "performance")]
    return [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]


def plot(browser: webdriver.Chrome, number: int = 1) -> WebElement:
    """The drawing of one of the lock timelines, scrolled into view."""
    found = browser.find_elements(By.CSS_SELECTOR, ".timeline > .plot")[number]
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", found)
    return found


def zoom_width(browser: webdriver.Chrome, number: int = 1) -> float:
    inner = browser.find_elements(By.CSS_SELECTOR, ".timeline .zoom")[number]
    return float((inner.get_attribute("width") or "").rstrip("%"))


def tip(browser: webdriver.Chrome) -> str:
    return browser.find_element(By.ID, "tip").text


def test_it_loads_without_errors_and_without_any_request(report: webdriver.Chrome, page: str) -> None:
    assert log(report, "browser") == []
    assert requests(report) == [page]
    for section in (
        "verdict",
        "coverage",
        "findings",
        "locks",
        "waits",
        "latency",
        "status",
        "rules",
        "evidence",
    ):
        assert report.find_element(By.ID, section).is_displayed()
    assert "lost its write lock" in report.find_element(By.CSS_SELECTOR, ".lead").text


def test_the_timeline_shows_hold_wait_and_back_off_in_a_lane_per_client(report: webdriver.Chrome) -> None:
    figure = report.find_elements(By.CSS_SELECTOR, ".timeline")[1]
    lanes = [lane.text for lane in figure.find_elements(By.CSS_SELECTOR, "text.client")]
    assert lanes == ["10.20.30.5", "10.20.30.7", "10.20.30.9"]
    for kind in ("hold", "wait", "back-off"):
        bars = figure.find_elements(By.CSS_SELECTOR, f".bar.{kind}")
        assert bars and all(bar.size["width"] > 0 and bar.size["height"] > 0 for bar in bars)


def test_hovering_a_bar_shows_its_frames(report: webdriver.Chrome) -> None:
    bar = plot(report).find_element(By.CSS_SELECTOR, ".bar.wait")
    ActionChains(report).move_to_element(bar).perform()
    said = tip(report)
    assert "wait of 10.40 s by 10.20.30.5" in said and "behind 10.20.30.7" in said
    assert "frames 1200, 2240, 2500" in said
    ActionChains(report).move_to_element(report.find_element(By.ID, "h-locks")).perform()
    assert not report.find_element(By.ID, "tip").is_displayed()


def test_zoom_and_pan_change_the_view(report: webdriver.Chrome) -> None:
    drawing = plot(report)
    before = [t.text for t in drawing.find_elements(By.CSS_SELECTOR, ".ticks text")]
    figure = report.find_elements(By.CSS_SELECTOR, ".timeline")[1]
    figure.find_element(By.CSS_SELECTOR, "[data-do=in]").click()
    assert zoom_width(report) == 200
    after = [t.text for t in drawing.find_elements(By.CSS_SELECTOR, ".ticks text")]
    assert after != before and after
    inner = figure.find_element(By.CSS_SELECTOR, ".zoom")
    place = inner.get_attribute("x")
    ActionChains(report).move_to_element(drawing).click_and_hold().move_by_offset(
        120, 0
    ).release().perform()
    assert inner.get_attribute("x") != place
    ActionChains(report).double_click(drawing).perform()
    assert zoom_width(report) == 400
    figure.find_element(By.CSS_SELECTOR, "[data-do=all]").click()
    assert zoom_width(report) == 100 and inner.get_attribute("x") in ("0%", "-0%")


def test_the_keyboard_zooms_and_steps_through_segments(report: webdriver.Chrome) -> None:
    drawing = plot(report)
    report.execute_script("arguments[0].focus()", drawing)
    ActionChains(report).send_keys("+", "+", Keys.ARROW_RIGHT).perform()
    assert zoom_width(report) == 400
    ActionChains(report).send_keys("0", "n", "n").perform()
    assert zoom_width(report) == 100
    assert "wait of 5.50 s by 10.20.30.7" in tip(report) and "frames 202, 752, 903" in tip(report)
    assert report.find_element(By.ID, "said").get_attribute("textContent") == tip(report)


def test_findings_filter_by_severity_and_words(report: webdriver.Chrome) -> None:
    def shown() -> int:
        return int(
            report.execute_script("return document.querySelectorAll('.finding:not([hidden])').length")
        )

    assert shown() == 19
    report.find_element(By.CSS_SELECTOR, "input[value=medium]").click()
    assert shown() == 5
    assert report.find_element(By.CSS_SELECTOR, ".filter [role=status]").text == "5 of 19 shown"
    report.find_element(By.NAME, "words").send_keys("7.01 s")
    assert shown() == 1
    rules = [r for r in report.find_elements(By.CSS_SELECTOR, ".rule") if r.is_displayed()]
    assert [r.find_element(By.CSS_SELECTOR, "h3 code").text for r in rules] == ["lock-long-wait"]


@pytest.mark.parametrize("width", [420, 1280, 1920])
@pytest.mark.parametrize("script", [True, False])
def test_nothing_overflows_the_page(browser: webdriver.Chrome, page: str, width: int, script: bool) -> None:
    settle(browser, width, script=script)
    browser.get(page)
    metrics = browser.execute_cdp_cmd("Page.getLayoutMetrics", {})
    assert metrics["cssContentSize"]["width"] <= width


def test_it_reads_without_javascript(browser: webdriver.Chrome, page: str) -> None:
    settle(browser, script=False)
    browser.get(page)
    assert "lost its write lock" in browser.find_element(By.CSS_SELECTOR, ".lead").text
    bars = browser.find_elements(By.CSS_SELECTOR, ".timeline .bar.wait")
    assert len(bars) == 63
    title = bars[-1].find_element(By.TAG_NAME, "title").get_attribute("textContent") or ""
    assert "frames" in title
    assert len(browser.find_elements(By.CSS_SELECTOR, "#waits tbody tr")) == 50
    ticks = browser.find_elements(By.CSS_SELECTOR, ".timeline .ticks text")
    assert ticks[0].text.endswith(" s")
    for control in browser.find_elements(By.CSS_SELECTOR, ".filter, .tools, .keys"):
        assert not control.is_displayed(), "what needs JavaScript is hidden without it"
    details = browser.find_element(By.CSS_SELECTOR, ".timeline details")
    details.find_element(By.TAG_NAME, "summary").click()
    assert details.find_element(By.TAG_NAME, "table").is_displayed()


def luminance(colour: str) -> float:
    """Relative luminance of `rgb(r, g, b)` (WCAG 2, definition of relative luminance)."""
    parts = [int(p) / 255 for p in colour[colour.index("(") + 1 : -1].split(",")[:3]]
    r, g, b = (p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_contrast_in_both_colour_schemes(
    browser: webdriver.Chrome, page: str, scheme: str
) -> None:
    settle(browser, scheme=scheme)
    browser.get(page)
    colours = browser.execute_script(
        """const of = (selector, property) => getComputedStyle(document.querySelector(selector))[property];
        const card = of(".card", "backgroundColor"), soft = of(".tile", "backgroundColor");
        const text = of("body", "color");
        const pairs = [[text, of("body", "backgroundColor")], [text, card],
          [of(".card .muted", "color"), card], [of(".tile", "color"), soft],
          [of("summary", "color"), card]];
        for (const s of ["critical", "high", "medium", "low", "info"])
          pairs.push([of(".badge." + s, "color"), of(".badge." + s, "backgroundColor")]);
        for (const v of ["violated", "upheld", "unknown", "not-exercised"])
          pairs.push([of(".mark." + v, "color"), card]);
        return pairs;"""
    )
    for text, ground in colours:
        low, high = sorted((luminance(text), luminance(ground)))
        assert (high + 0.05) / (low + 0.05) >= 4.5, (text, ground)
    dark = luminance(colours[0][1]) < 0.5
    assert dark == (scheme == "dark")


def test_hostile_names_run_nothing(browser: webdriver.Chrome, tmp_path: Path) -> None:
    settle(browser)
    for number, attack in enumerate(ATTACKS):
        path = tmp_path / f"{number}.html"
        path.write_text(html.render(sample_view(hostile_names(attack))), encoding="utf-8")
        log(browser, "browser")
        log(browser, "performance")
        browser.get(path.as_uri())
        assert log(browser, "browser") == []
        assert requests(browser) == [path.as_uri()]
        assert browser.find_elements(By.CSS_SELECTOR, "main img, main iframe, main script, main b") == []
        assert browser.execute_script("return document.documentElement.scrollWidth") <= 1280
