"""The pages in a real browser, with real clicks and keys, against a stand-in of the server.

Every wait is for something to be there or to be so; there is no pause of fixed length. `clicks.py WORD…` runs only
the tests whose names contain one of the words.
"""

import mock_server
import test_keeping
import test_looks
import test_status
import test_talking
import test_tokens
from chat import PHONE
from runner import drive, run_all

CONTEXTS = {"test_phone": {"viewport": PHONE, "has_touch": True, "is_mobile": True}}


def run(browser, name, test):
    server, state, url = mock_server.start()
    try:
        drive(browser, name, test, state, url, CONTEXTS.get(name, {}))
    finally:
        state.gate.release(1000)
        server.shutdown()


if __name__ == "__main__":
    run_all("clicks", [test_talking, test_keeping, test_looks, test_tokens, test_status], run)
