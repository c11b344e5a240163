"""The pages in a real browser, with real clicks and keys, against a stand-in of the server.

Every wait is for something to be there or to be so; there is no pause of fixed length. `clicks.py WORD…` runs only
the tests whose names contain one of the words.
"""

import os
import shutil
import sys
import traceback

import mock_server
import test_keeping
import test_looks
import test_status
import test_talking
import test_tokens
from chat import BUILD, DESKTOP, PHONE, Chat
from playwright.sync_api import expect, sync_playwright

# A machine that builds something else at the same time is slow.
PATIENCE_MS = 60_000
MODULES = [test_talking, test_keeping, test_looks, test_tokens, test_status]
CONTEXTS = {"test_phone": {"viewport": PHONE, "has_touch": True, "is_mobile": True}}


def browser_path():
    found = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    return found or sys.exit("error: chromium is needed: install Debian's package chromium, or set CHROMIUM to one")


def run(browser, name, test):
    server, state, url = mock_server.start()
    context = browser.new_context(**{"viewport": DESKTOP, "locale": "en-GB", **CONTEXTS.get(name, {})})
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    noises = []
    page.on("pageerror", lambda error: noises.append(f"error: {error}"))
    page.on("console", lambda message: noises.append(message.text) if message.type in ("error", "warning") else None)
    page.on("request", lambda request: request.url.startswith((url, "blob:")) or noises.append(f"asked {request.url}"))
    chat = Chat(page, state, url)
    chat.expected_messages = False
    try:
        test(chat)
        if not chat.expected_messages:
            assert not noises, noises
    except Exception:
        BUILD.mkdir(exist_ok=True)
        page.screenshot(path=BUILD / f"{name}.png")
        print(f"{name}: {noises or 'no messages'}; picture in {BUILD / f'{name}.png'}")
        raise
    finally:
        state.gate.release(1000)
        context.close()
        server.shutdown()


def main():
    wanted = sys.argv[1:]
    tests = {name: test for module in MODULES for name, test in vars(module).items() if name.startswith("test_")}
    if wanted:
        tests = {name: test for name, test in tests.items() if any(word in name for word in wanted)}
    BUILD.mkdir(exist_ok=True)
    expect.set_options(timeout=PATIENCE_MS)
    failed = 0
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path(), args=["--no-sandbox"])
        for name, test in tests.items():
            try:
                run(browser, name, test)
                print(f"{name} ok", flush=True)
            except Exception:
                failed += 1
                traceback.print_exc()
                print(f"{name} FAILED", flush=True)
        browser.close()
    print(f"clicks: {len(tests) - failed} passed, {failed} failed")
    sys.exit(1 if failed or not tests else 0)


if __name__ == "__main__":
    main()
