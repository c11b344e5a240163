"""Makes the pictures of the pages in docs/: `pictures.py FOLDER`. Answers in them are those of the stand-in."""

import sys
import time
from pathlib import Path

import mock_server
from chat import DESKTOP, PHONE, Chat
from runner import browser_path
from playwright.sync_api import expect, sync_playwright


def chat(page):
    """A conversation among others, from its beginning."""
    page.open()
    for other in ["Names for a black cat", "A letter to the landlord", "Why is the sea salty?"]:
        page.ask(other)
        page.button("New conversation").first.click()
    page.ask("How does binary search work?")
    page.page.locator(".messages").evaluate("box => (box.scrollTop = 0)")


def tokens(page):
    """The token view, open at a token."""
    page.open()
    page.button("Token view").click()
    for other in ["Names for a black cat", "Why is the sea salty?"]:
        page.ask(other)
        page.button("New conversation").first.click()
    page.ask("Tell me a story about a lamplighter and the moon.")
    page.token("lamplighter").first.click()
    page.page.locator(".alternatives").wait_for()


def status(page):
    page.open("/status")
    expect(page.page.locator(".line").first).to_be_visible()


PICTURES = [
    ("page-desktop-light", DESKTOP, "light", chat),
    ("page-desktop-dark", DESKTOP, "dark", tokens),
    ("page-phone-light", PHONE, "light", chat),
    ("page-phone-dark", PHONE, "dark", status),
]


def main():
    out = Path(sys.argv[1])
    expect.set_options(timeout=60_000)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path(), args=["--no-sandbox"])
        for name, size, colours, scene in PICTURES:
            server, state, url = mock_server.start()
            state.samples = [state.sample(time.time() - 300 + second, min(1, second / 90)) for second in range(301)]
            is_phone = size is PHONE
            context = browser.new_context(
                viewport=size, color_scheme=colours, locale="en-GB", has_touch=is_phone, is_mobile=is_phone
            )
            page = context.new_page()
            scene(Chat(page, state, url))
            page.screenshot(path=out / f"{name}.png")
            context.close()
            server.shutdown()
        browser.close()


if __name__ == "__main__":
    main()
