"""A real browser, headless, without a network; tests that want one are skipped where there is none."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from study.report.found import EVIL, evil_findings, renamed, some_findings, some_lines, some_origin

from harness.study.report.html.page import page
from harness.study.report.report_data import Contents

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # Whatever asks for a name gets none: the page must do without a network.
    "--host-resolver-rules=MAP * ~NOTFOUND",
)


class Browser:
    """One page at a time, looked at as a reader would."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver
        self._log: list[dict[str, Any]] = []
        self._looked_at: tuple[Path, int] | None = None

    def look(self, path: Path, width: int = 1280) -> None:
        """Load a page from disk unless it is loaded and unchanged: for tests that only read."""
        if self._looked_at != (path, width):
            self.open(path, width)
            self._looked_at = (path, width)

    def open(self, path: Path, width: int = 1280, dark: bool = False) -> None:
        """Load a page from disk, anew."""
        self._looked_at = None
        self.media("dark" if dark else "light")
        self.width(width)
        self._log.clear()
        self.driver.get_log("browser")
        self.driver.get_log("performance")
        self.driver.get(path.as_uri())

    def media(self, scheme: str) -> None:
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def width(self, pixels: int) -> None:
        metrics = {"width": pixels, "height": 900, "deviceScaleFactor": 1, "mobile": pixels < 600}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def content_width(self, at_most: int) -> int:
        """The pixels that the content takes, once it is `at_most`, or after 10 s: charts follow late."""
        return self.driver.execute_async_script(
            """
            const [most, done] = arguments;
            const look = (left) => {
              const { scrollWidth } = document.documentElement;
              if (scrollWidth <= most || !left) done(scrollWidth);
              else setTimeout(look, 50, left - 1);
            };
            look(200);
            """,
            at_most,
        )

    def run(self, script: str, *arguments: Any) -> Any:
        """The value of a script's `return`."""
        return self.driver.execute_script(script, *arguments)

    def click(self, selector: str) -> None:
        self.run("document.querySelector(arguments[0]).click()", selector)

    def hover(self, chart: str, n: float, value: float) -> str:
        """The text shown with the pointer at a point of a chart, given in its own units."""
        x, y = self.run(
            """
            const plot = document.querySelector(`#${arguments[0]} .plot`);
            plot.scrollIntoView({ block: "center" });
            const { xaxis, yaxis, _size: room } = plot._fullLayout, box = plot.getBoundingClientRect();
            return [box.x + room.l + xaxis.d2p(arguments[1]), box.y + room.t + yaxis.d2p(arguments[2])];
            """,
            chart,
            n,
            value,
        )
        for step in (-3, 0):  # the pointer must move for the page to notice
            event = {"type": "mouseMoved", "x": x + step, "y": y}
            self.driver.execute_cdp_cmd("Input.dispatchMouseEvent", event)
        return self.driver.execute_async_script(
            """
            const [chart, done] = arguments;
            const layer = document.querySelector(`#${chart} .hoverlayer`);
            const look = (left) => {
              if (layer.textContent || !left) done(layer.textContent);
              else setTimeout(look, 20, left - 1);
            };
            look(100);
            """,
            chart,
        )

    def traces(self, chart: str) -> list[dict[str, Any]]:
        """What a chart draws: `{impl, kind, x, y, colour, symbol}` of each trace."""
        return self.run(
            """
            return (document.querySelector(`#${arguments[0]} .plot`).data ?? []).map((trace) => ({
              impl: trace.meta.impl ?? null, kind: trace.meta.kind, x: [...trace.x], y: [...trace.y],
              colour: trace.marker?.color ?? null, symbol: trace.marker?.symbol ?? null,
            }));
            """,
            chart,
        )

    def impls(self, chart: str) -> set[str]:
        """The impls whose curves a chart draws."""
        return {trace["impl"] for trace in self.traces(chart) if trace["kind"] in ("curve", "crossover")}

    def complaints(self) -> list[str]:
        """What the console holds."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def requests(self) -> list[str]:
        """Every address that the page asked for, itself included."""
        events = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        asked = [event["params"] for event in events if event["method"] == "Network.requestWillBeSent"]
        return [one["request"]["url"] for one in asked if one["documentURL"] == self.driver.current_url]


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    chromium, chromedriver = shutil.which("chromium"), shutil.which("chromedriver")
    if chromium is None or chromedriver is None:
        pytest.skip("needs chromium and chromedriver: apt-get install chromium chromium-driver")
    from selenium.webdriver import Chrome, ChromeOptions
    from selenium.webdriver.chrome.service import Service

    options = ChromeOptions()
    options.binary_location = chromium
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('chromium')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    with Chrome(options=options, service=Service(chromedriver)) as driver:
        driver.set_script_timeout(30)
        yield Browser(driver)


@pytest.fixture(scope="session")
def written(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Writes a page to a file of its own."""

    def write(html: str) -> Path:
        path = tmp_path_factory.mktemp("page") / "report.html"
        path.write_text(html, encoding="utf-8")
        return path

    return write


@pytest.fixture(scope="module")
def usual(written: Callable[[str], Path]) -> Path:
    lines = some_lines()
    return written(page(Contents(lines, some_findings(lines), some_origin())))


@pytest.fixture(scope="module")
def evil(written: Callable[[str], Path]) -> Path:
    lines = renamed(some_lines(), EVIL)
    return written(page(Contents(lines, evil_findings(lines), some_origin(host=EVIL))))
