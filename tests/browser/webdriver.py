"""A browser, told what to do by the WebDriver protocol: Debian's Chromium without a window.

Source: https://www.w3.org/TR/webdriver2/
"""

import base64
import json
import urllib.request

from support.process import Process, free_port, new_folder, remove_folder, wait_for

SECONDS = 60  # for any one command


class Browser:
    """Context manager: one window of this many CSS pixels; a phone's page is laid out as a phone does."""

    def __init__(self, width, height, phone=False):
        self.width, self.height, self.phone = width, height, phone
        self.folder = new_folder("browser")
        self.port = free_port()
        self.driver = Process("chromedriver", ["chromedriver", f"--port={self.port}"], self.folder)
        self.session = None

    def __enter__(self):
        self.driver.start()
        try:
            wait_for(self._ready, "chromedriver to answer", SECONDS)
            self.session = self._ask("POST", "/session", {"capabilities": {"alwaysMatch": self._wishes()}})["sessionId"]
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        try:
            if self.session:
                self._ask("DELETE", f"/session/{self.session}")
        finally:
            self.driver.stop()
            remove_folder(self.folder)

    def open(self, address):
        self._tell("url", {"url": address})

    def run(self, script):
        """What the script returns; it runs from outside, the page needs none."""
        return self._tell("execute/sync", {"script": script, "args": []})

    def complaints(self):
        """What the browser's console has to say."""
        return [entry["message"] for entry in self._tell("se/log", {"type": "browser"})]

    def picture(self):
        """PNG."""
        return base64.b64decode(self._ask("GET", f"/session/{self.session}/screenshot"))

    def _wishes(self):
        options = {"args": ["--headless=new", "--no-sandbox", "--hide-scrollbars", "--force-color-profile=srgb",
                            f"--window-size={self.width},{self.height}", f"--user-data-dir={self.folder}/profile"]}
        if self.phone:
            options["mobileEmulation"] = {
                "deviceMetrics": {"width": self.width, "height": self.height, "pixelRatio": 2, "touch": True}}
        return {"browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}

    def _ready(self):
        try:
            return self._ask("GET", "/status")["ready"]
        except OSError:
            return False

    def _tell(self, what, body):
        return self._ask("POST", f"/session/{self.session}/{what}", body)

    def _ask(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data, method=method)
        with urllib.request.urlopen(request, timeout=SECONDS) as reply:
            return json.load(reply)["value"]
