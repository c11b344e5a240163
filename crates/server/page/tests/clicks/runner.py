"""Runs tests in Chromium, each in a context of its own, and sums up in a line."""

import os
import shutil
import sys
import traceback

from chat import BUILD, DESKTOP, Chat
from playwright.sync_api import expect, sync_playwright

# A machine that builds something else at the same time is slow.
PATIENCE_MS = 60_000


def browser_path():
    found = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    return found or sys.exit("error: chromium is needed: install Debian's package chromium, or set CHROMIUM to one")


def drive(browser, name, test, state, url, settings):
    """One test. What the page complains of, and what it asks of other machines, fails it too."""
    context = browser.new_context(**{"viewport": DESKTOP, "locale": "en-GB", **settings})
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    noises = []
    page.on("pageerror", lambda error: noises.append(f"error: {error}"))
    page.on("console", lambda message: noises.append(message.text) if message.type in ("error", "warning") else None)
    page.on("request", lambda request: request.url.startswith((url, "blob:")) or noises.append(f"asked {request.url}"))
    chat = Chat(page, state, url)
    try:
        test(chat)
        assert chat.expects_complaints or not noises, noises
    except Exception:
        page.screenshot(path=BUILD / f"{name}.png")
        print(f"{name}: {noises or 'no complaints'}; picture in {BUILD / f'{name}.png'}")
        raise
    finally:
        context.close()


def run_all(label, modules, run):
    """Runs the tests of some modules by `run(browser, name, test)`; words on the command line choose among them."""
    wanted = sys.argv[1:]
    tests = {name: test for module in modules for name, test in vars(module).items() if name.startswith("test_")}
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
    print(f"{label}: {len(tests) - failed} passed, {failed} failed")
    sys.exit(1 if failed or not (tests or wanted) else 0)
