"""What a person does in the dashboard, for py_browser_SUITE. One browser for all cases."""

from __future__ import annotations

import json
from pathlib import Path

from browser import Browser

_browser: Browser | None = None


def window() -> Browser:
    assert _browser is not None
    return _browser


def start() -> None:
    global _browser
    _browser = Browser()


def stop() -> None:
    global _browser
    if _browser is not None:
        _browser.close()
        _browser = None


def enter(url: str) -> None:
    """With the token, which the address bar does not keep."""
    window().open(url)
    window().says("live")
    assert "token" not in window().run("return location.href")


def at(place: str) -> None:
    window().run("location.hash = arguments[0]", place)


def cancel_task(loop: int, task: str) -> None:
    """From the overview, with the keyboard where there is something to press."""
    page = window()
    at("#/")
    page.press(f"#loop-{loop}")
    page.says("Tasks (")
    page.press(f"#{task}")
    page.says("inspected.py:")
    page.press("#cancel")
    page.waits("document.getElementById('confirm').open")
    # The harmless button has the focus.
    page.waits("document.activeElement.id === 'confirm-no'")
    page.type("Tab", "Enter")
    page.says("The task was cancelled.")


def search(loop: int, text: str, found: str) -> None:
    page = window()
    at(f"#/loop/{loop}")
    page.waits("document.getElementById('search')")
    page.type("/")
    page.waits("document.activeElement.id === 'search'")
    page.type(*text)
    page.says(found)


def keep(loop: int, action: str) -> None:
    """Opens the question and says no."""
    page = window()
    at(f"#/loop/{loop}")
    page.press(f"#{action}")
    page.waits("document.getElementById('confirm').open")
    page.type("Escape")
    page.waits("!document.getElementById('confirm').open")


def act(loop: int, action: str, said: str) -> None:
    page = window()
    at(f"#/loop/{loop}")
    page.press(f"#{action}")
    page.waits("document.getElementById('confirm').open")
    page.press("#confirm-yes")
    page.says(said)


def is_stuck(loop: int, function: str) -> None:
    page = window()
    at("#/")
    page.waits(f"document.querySelector('tr.stuck #loop-{loop}')")
    page.says(function)
    red = page.run(
        "return getComputedStyle(document.querySelector('.badge.stuck')).backgroundColor"
    )
    assert red in ("rgb(194, 33, 51)", "rgb(255, 117, 130)"), red
    at(f"#/loop/{loop}")
    page.says("Stuck for")


def flame_graph(loop: int, function: str) -> None:
    page = window()
    at(f"#/profile/{loop}")
    page.waits("document.getElementById('start')")
    assert page.run("return document.getElementById('threads').value") == str(loop)
    page.run("document.getElementById('seconds').value = '1'")
    page.press("#start")
    page.waits("document.querySelector('#flame svg g')")
    texts = "[...document.querySelectorAll('#flame text')].map(one => one.textContent)"
    page.waits(f"{texts}.includes({json.dumps(function)})")
    # The second frame becomes the whole width, and Escape leads back.
    page.run("document.querySelector('#flame g').focus()")
    page.type("ArrowDown", "Enter")
    page.waits("document.activeElement.dataset.depth === '1'")
    page.type("Escape")
    page.waits("document.activeElement.dataset.depth === '0'")
    for file in ("speedscope", "firefox", "collapsed"):
        page.waits(f"document.getElementById('save-{file}').href.startsWith('blob:')")


def recorder(loop: int, function: str) -> None:
    page = window()
    at("#/recorder")
    page.press(f"#loop-{loop}")
    page.says("request begins")
    page.press("summary")
    text = "document.querySelector('details[open] .stack')?.innerText"
    page.waits(f"{text}.includes({json.dumps(function)})")


def calls(function: str) -> None:
    at("#/calls")
    window().says("Slowest functions")
    window().says(function)


def is_text(loop: int, name: str) -> None:
    """Markup in a name stays text."""
    page = window()
    at(f"#/loop/{loop}")
    page.waits(f"document.body.innerText.includes({json.dumps(name)})")
    assert not page.run("return document.querySelector('main img, main script')")
    assert not page.run("return window.broken")


def fits(places: list[str]) -> None:
    """On a telephone: nothing is wider than the window."""
    page = window()
    page._ask("POST", "/window/rect", {"width": 400, "height": 800})
    try:
        for place in places:
            at(place)
            page.waits("document.querySelector('main h1')")
            width, inner = page.run("return [document.documentElement.scrollWidth, innerWidth]")
            assert width <= inner, (place, width, inner)
    finally:
        page._ask("POST", "/window/rect", {"width": 1280, "height": 900})


def is_refused(url: str) -> None:
    """Without the right token there is nothing to see."""
    page = window()
    page.open(url)
    page.says("The token is missing or wrong.")
    page.problems()


def is_quiet() -> list[str]:
    return window().problems()


def save(file: str) -> None:
    window().save(Path(file))
