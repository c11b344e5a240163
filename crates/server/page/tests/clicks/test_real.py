"""Talking with the real server: tokens, other ones, the same seed, refusals, a key, the status page."""

import re

from playwright.sync_api import expect

FINISHED = re.compile("stop|length")


def ask(chat, text):
    chat.send(text)
    expect(chat.answers.last).to_have_attribute("data-finish", FINISHED)


def spoken(chat):
    """The text of the answer as it is kept, blanks and all."""
    return chat.page.evaluate("() => document.querySelector('.message.assistant:last-child .tokens').textContent")


def test_tokens_and_another_one_and_the_same_seed(chat):
    chat.open()
    chat.button("Settings").click()
    chat.setting("Seed").fill("1")
    chat.setting("Most tokens").fill("24")
    chat.button("Close settings").click()
    chat.button("Token view").click()
    ask(chat, "Once upon a time")
    expect(chat.page.locator(".token")).to_have_count(24)
    first = spoken(chat)

    # The same request and seed: the same tokens, though now the prompt is in the cache.
    chat.button("Retry", chat.answers.last).click()
    expect(chat.answers.last.locator(".versions")).to_have_text("2/2")
    expect(chat.answers.last).to_have_attribute("data-finish", FINISHED)
    assert spoken(chat) == first

    # Another token, somewhere in the middle: what stood before it stands before it still.
    before = "".join(chat.page.locator(".token").all_text_contents()[:8])
    chat.page.locator(".token").nth(8).click()
    alternatives = chat.page.locator(".alternatives button")
    assert alternatives.count() in (10, 11), alternatives.count()
    shares = [float(text.strip("<% ")) for text in chat.page.locator(".alternatives .percent").all_text_contents()]
    assert 0 < sum(shares) <= 101, shares
    chosen = chat.page.locator(".alternatives button:enabled").first
    word = chosen.locator(".word").text_content().replace("␣", " ").replace("⏎", "⏎\n")
    chosen.click()
    expect(chat.answers.last.locator(".versions")).to_have_text("3/3")
    expect(chat.answers.last).to_have_attribute("data-finish", FINISHED)
    assert spoken(chat).startswith(before + word), (spoken(chat), before, word)
    assert len(spoken(chat)) > len(before + word), spoken(chat)
    expect(chat.answers.last.locator(".figures")).to_contain_text("from the cache")


def test_a_refusal_in_the_servers_words(chat):
    chat.open()
    chat.button("Settings").click()
    chat.setting("Reasoning effort").select_option("high")
    chat.send("Once upon a time")
    expect(chat.answers.last.get_by_role("alert")).to_contain_text("reasoning")
    chat.setting("Reasoning effort").select_option("")
    chat.button("Close settings").click()
    chat.button("Retry", chat.answers.last).click()
    expect(chat.answers.last).to_have_attribute("data-finish", FINISHED)
    chat.expects_complaints = True


def test_a_key_opens_the_real_server(chat):
    chat.open()
    dialog = chat.page.get_by_role("dialog", name="API key")
    dialog.get_by_label("API key", exact=True).fill("sesame")
    dialog.get_by_role("button", name="Use this key").click()
    expect(dialog).to_have_count(0)
    ask(chat, "Once upon a time")
    chat.open("/status")
    expect(chat.page.get_by_role("list", name="Models")).to_contain_text("stories15M-q8_0 loaded")
    # The answer's tokens are in one of the seconds that are plotted: the line is not flat.
    chat.page.wait_for_function(
        """() => {
            const line = document.querySelector('.chart path.line').getAttribute('d');
            return new Set([...line.matchAll(/[ML]\\S+ ([0-9.]+)/g)].map((point) => point[1])).size > 1;
        }"""
    )
    chat.expects_complaints = True
