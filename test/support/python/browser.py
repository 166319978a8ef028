"""Debian's Chromium, without a window, by the WebDriver protocol of chromedriver."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import time
import urllib.request
from pathlib import Path
from typing import Any

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
KEYS = {"Enter": "\ue007", "Tab": "\ue004", "Escape": "\ue00c", "ArrowDown": "\ue015"}
DEADLINE = 30


def is_installed() -> bool:
    return shutil.which("chromedriver") is not None and shutil.which("chromium") is not None


class Browser:
    """One window. `size`: its width and height; `dark`: the colour scheme."""

    def __init__(self, size: tuple[int, int] = (1280, 900), dark: bool = False) -> None:
        self.driver = subprocess.Popen(
            ["chromedriver", "--port=0"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        try:
            self.url = f"http://127.0.0.1:{self._port()}"
            arguments = [
                "--headless=new",
                f"--window-size={size[0]},{size[1]}",
                "--hide-scrollbars",
            ]
            arguments += [
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--force-device-scale-factor=1",
            ]
            if dark:
                arguments.append("--blink-settings=preferredColorScheme=0")
            if os.geteuid() == 0:
                arguments.append("--no-sandbox")
            options = {"args": arguments, "binary": shutil.which("chromium")}
            wanted = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
            session = self._ask("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
            self.url += f"/session/{session['sessionId']}"
        except BaseException:
            self.close()
            raise

    def _port(self) -> str:
        assert self.driver.stdout is not None
        for line in self.driver.stdout:
            if "on port " in line and line.rstrip().endswith("."):
                return line.rstrip(".\n").rsplit(" ", 1)[1]
        raise RuntimeError("chromedriver did not start")

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as reply:
                return json.load(reply)["value"]
        except urllib.error.HTTPError as error:
            raise RuntimeError(f"{path}: {json.load(error)['value']['message']}") from None

    def close(self) -> None:
        if self.url.count("/") > 2:
            self._ask("DELETE", "")
        self.driver.kill()
        self.driver.wait()
        if self.driver.stdout is not None:
            self.driver.stdout.close()

    def open(self, address: str) -> None:
        self._ask("POST", "/url", {"url": address})

    def run(self, script: str, *arguments: Any) -> Any:
        return self._ask("POST", "/execute/sync", {"script": script, "args": arguments})

    def waits(self, expression: str) -> Any:
        """The value of that JavaScript, as soon as it is true."""
        end = time.monotonic() + DEADLINE
        while True:
            value = self.run(f"return {expression}")
            if value:
                return value
            if time.monotonic() > end:
                text = self.run("return document.body.innerText")
                raise AssertionError(f"{expression} is never true. The page says: {text}")
            time.sleep(0.05)

    def says(self, text: str) -> None:
        self.waits(f"document.body.innerText.includes({json.dumps(text)})")

    def press(self, selector: str) -> None:
        """Clicks an element, which an event may replace at any time."""
        self.waits(f"document.querySelector({json.dumps(selector)})")
        self.run(f"document.querySelector({json.dumps(selector)}).click()")

    def type(self, *keys: str) -> None:
        actions = []
        for key in keys:
            code = KEYS.get(key, key)
            actions += [{"type": "keyDown", "value": code}, {"type": "keyUp", "value": code}]
        self._ask(
            "POST", "/actions", {"actions": [{"type": "key", "id": "keys", "actions": actions}]}
        )

    def problems(self) -> list[str]:
        """What the console has said since the last time."""
        return [entry["message"] for entry in self._ask("POST", "/se/log", {"type": "browser"})]

    def save(self, file: str | Path) -> None:
        Path(file).write_bytes(base64.b64decode(self._ask("GET", "/screenshot")))
