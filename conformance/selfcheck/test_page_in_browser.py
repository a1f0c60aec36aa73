"""A page is opened in a browser: it is drawn, whole, within the window, and nothing fails."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from conformance.selfcheck.browser import DARK, rendered, screenshot
from conformance.selfcheck.showing import KINDS, large, page
from conformance.showing.shown import Shown

WIDTHS = (1280, 400)
PAGES = {**KINDS, "large": large}
Looks = dict[str, list[dict[str, Any]]]

ALWAYS = {"Diagnosis", "The run", "See it again"}
SECTIONS = {
    "gather": {"Where it differs", "What differs", "paging", "The first values that differ", "The call", "Message"},
    "write": {"Where it differs", "What differs", "the cache", "The first values that differ", "The call", "Message"},
    "merge": {"Where it differs", "What differs", "The first values that differ", "The call", "Message"},
    "plan": {"The call", "Message"},
    "none": {"Where it differs", "Message"},
    "large": {"Where it differs", "What differs", "paging", "The first values that differ", "The call", "Message"},
}


@pytest.fixture(scope="module")
def looks(tmp_path_factory: pytest.TempPathFactory) -> Looks:
    folder = tmp_path_factory.mktemp("pages")
    seen, console = rendered([page(make()) for make in PAGES.values()], WIDTHS, folder)
    assert console == []
    return {kind: seen[i * len(WIDTHS) : (i + 1) * len(WIDTHS)] for i, kind in enumerate(PAGES)}


@pytest.mark.parametrize("kind", PAGES)
def test_nothing_is_wider_than_the_window(looks: Looks, kind: str) -> None:
    for look, width in zip(looks[kind], WIDTHS, strict=True):
        assert look["room"] == width and look["needed"] <= width and look["outside"] == []


@pytest.mark.parametrize("kind", PAGES)
def test_every_section_is_there_and_drawn(looks: Looks, kind: str) -> None:
    for look in looks[kind]:
        assert set(look["sections"]) == ALWAYS | SECTIONS[kind]
        assert look["height"] > 600 and look["hidden"] == 0 and look["scripts"] == 0


@pytest.mark.parametrize("kind", ["gather", "write", "merge", "large"])
def test_what_is_marked_is_what_differs(looks: Looks, kind: str) -> None:
    maps = Shown(PAGES[kind](), Path()).view.maps
    marked = [[row.number, row.wrong.tolist()] for drawn in maps for row in drawn.rows]
    for look in looks[kind]:
        assert look["marked"] == marked
        assert len(look["strips"]) == len(maps) and min(look["strips"]) > 0


def test_the_blocks_of_each_request_are_drawn(looks: Looks) -> None:
    for look in looks["gather"]:
        assert (look["boxes"], look["hit"], len(look["wrong"])) == (7, 1, 1) and look["wrong"][0] >= 2
    for look in looks["write"]:
        assert (look["boxes"], look["hit"]) == (4, 4)


def shot(kind: str, folder: Path, *options: str) -> npt.NDArray[np.uint8]:
    from matplotlib.image import imread  # which takes half a second

    (folder / "page.html").write_text(page(PAGES[kind]()))
    pixels = np.asarray(imread(screenshot(folder / "page.html", folder, *options)))
    whole: npt.NDArray[np.uint8] = np.rint(pixels[..., :3] * 255).astype(np.uint8)
    return whole


def share_of(pixels: npt.NDArray[np.uint8], colour: str) -> float:
    wanted = np.frombuffer(bytes.fromhex(colour), np.uint8)
    return float((pixels == wanted).all(axis=2).mean())


@pytest.mark.parametrize("kind", ["gather", "merge"])
def test_a_screenshot_shows_a_page_by_day(kind: str, tmp_path: Path) -> None:
    pixels = shot(kind, tmp_path)
    assert share_of(pixels, "f7f6f2") > 0.1 and share_of(pixels, "ffffff") > 0.2 and share_of(pixels, "d1344b") > 0.002


def test_a_screenshot_shows_a_page_by_night(tmp_path: Path) -> None:
    pixels = shot("write", tmp_path, DARK)
    assert share_of(pixels, "141518") > 0.1 and share_of(pixels, "1c1e22") > 0.2 and share_of(pixels, "ec5f73") > 0.002


def test_the_console_of_a_page_that_fails_is_heard(tmp_path: Path) -> None:
    broken = page(KINDS["none"]()).replace("</body>", "<script>x()</script></body>")
    assert rendered([broken], (400,), tmp_path)[1]
