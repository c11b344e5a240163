"""The pages against the real server with the model of the repository: GLEED names the binary.

What the stand-in only pretends: that the server takes the page's requests, and that a continued answer goes on from
the very text that it was cut at.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[5]
sys.path.insert(0, str(ROOT / "tests" / "server"))

import test_real  # noqa: E402
from runner import drive, run_all  # noqa: E402
from serving import STORY, Server  # noqa: E402


def run(browser, name, test):
    server = Server(STORY, *(["--api-key", "sesame"] if "key" in name else []))
    try:
        drive(browser, name, test, None, server.url, {})
    finally:
        server.stop()


if __name__ == "__main__":
    run_all("clicks on the real server", [test_real], run)
