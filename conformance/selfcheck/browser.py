"""Opens a page in headless Chromium, and says what it made of it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html import escape, unescape
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
OPTIONS = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--virtual-time-budget=2000")
DARK = "--blink-settings=preferredColorScheme=0"

PROBE = """
addEventListener("load", () => {
  const seen = [...document.querySelectorAll("iframe")].map(frame => {
    const page = frame.contentDocument, all = name => [...page.querySelectorAll(name)];
    const drawn = each => each.getBoundingClientRect();
    const inside = path => [...Array(path.ownerSVGElement.viewBox.baseVal.width).keys()]
      .filter(at => path.isPointInFill(new DOMPoint(at + .5, .5)));
    const marked = all(".line[data-row]").map(line => [+line.dataset.row,
      [...line.querySelectorAll("path.wrong")].flatMap(inside)]);
    return {
      room: frame.clientWidth, needed: page.documentElement.scrollWidth, height: page.documentElement.scrollHeight,
      sections: all("h2").map(each => each.textContent), marked: marked,
      boxes: all(".box").length, hit: all(".box.hit").length, wrong: all(".box i.wrong").map(each => drawn(each).width),
      strips: all("svg.strip path.wrong").map(each => drawn(each).width), scripts: all("script").length,
      hidden: all(".label, .box, svg.cells").filter(each => !drawn(each).height).length,
      outside: all("main *").filter(each => !each.closest(".scroll, defs, .defs") && drawn(each).width
        && drawn(each).right > frame.clientWidth + 1).map(each => each.outerHTML.slice(0, 80)),
    };
  });
  const told = document.createElement("pre");
  told.id = "told";
  told.textContent = JSON.stringify(seen);
  document.body.append(told);
});
"""


def chromium() -> str:
    """The browser's command; the test skips, and says so, where there is none."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if not found:
        pytest.skip(f"the page was opened in no browser: there is none of {', '.join(NAMES)} here")
    return found


def opened(page: Path, folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run the browser on a page."""
    profile = f"--user-data-dir={folder / 'profile'}"
    command = [chromium(), *OPTIONS, profile, "--enable-logging=stderr", *options, page.as_uri()]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)


def rendered(pages: list[str], widths: tuple[int, ...], folder: Path) -> tuple[list[dict[str, Any]], list[str]]:
    """What a script sees of each page, as it is, in frames of each width, and what the console was told."""
    frames = [
        f'<iframe srcdoc="{escape(page)}" style="width:{width}px;height:900px;border:0"></iframe>'
        for page in pages
        for width in widths
    ]
    (folder / "probe.html").write_text(f"<!doctype html><body>{''.join(frames)}<script>{PROBE}</script></body>")
    done = opened(folder / "probe.html", folder, "--dump-dom")
    told = re.search(r'<pre id="told">(.*?)</pre>', done.stdout, re.DOTALL)
    assert told, done.stderr
    return json.loads(unescape(told[1])), [line for line in done.stderr.splitlines() if "CONSOLE" in line]


def screenshot(page: Path, folder: Path, *options: str, size: str = "1280,1600") -> Path:
    """A PNG of a page."""
    png = folder / "page.png"
    opened(page, folder, f"--window-size={size}", f"--screenshot={png}", *options)
    return png
