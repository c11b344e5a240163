"""The token view by mouse, and everything by keys alone."""

from chat import messages
from playwright.sync_api import expect


def test_token_view_and_another_token(chat):
    chat.open().ask("without tokens")
    assert "logprobs" not in chat.last_request()
    chat.button("Token view").click()
    expect(chat.answers.last.locator(".note")).to_be_visible()
    chat.ask("story")
    request = chat.last_request()
    assert request["logprobs"] is True and request["top_logprobs"] == 10, request
    chat.token("lamplighter").click()
    alternatives = chat.page.get_by_role("group", name="Alternatives to ␣lamplighter")
    expect(alternatives.get_by_role("button")).to_have_count(9)
    expect(alternatives.get_by_role("button", name="␣lamplighter")).to_be_disabled()
    expect(alternatives.get_by_role("button", name="‹f0›‹9f›")).to_be_disabled()
    expect(alternatives.locator(".percent").first).to_contain_text("%")
    alternatives.get_by_role("button", name="␣maybe").click()
    chat.finished()
    chat.answer_is("Once upon a time a maybe and so it went on.")
    request = chat.last_request()
    assert request["continue_final_message"] is True, request
    assert messages(request)[-1] == ("assistant", "Once upon a time a maybe"), request
    expect(chat.answers.last.locator(".versions")).to_have_text("2/2")

    # From a token of the continuation, over one that was put there.
    chat.token("went").click()
    chat.page.get_by_role("group", name="Alternatives").get_by_role("button", name="é").click()
    chat.finished()
    assert messages(chat.last_request())[-1][1] == "Once upon a time a maybe and so ité"
    expect(chat.answers.last.locator(".versions")).to_have_text("3/3")

    # The view is a view: without it the same answer is Markdown, and no tokens are asked for.
    chat.button("Token view").click()
    expect(chat.page.locator(".token")).to_have_count(0)
    chat.answer_is("Once upon a time a maybe and so ité and so it went on.")
    chat.ask("more")
    assert "logprobs" not in chat.last_request()


def test_keyboard_only(chat):
    chat.open()
    press = chat.page.keyboard.press
    focus = lambda: chat.page.evaluate("document.activeElement.getAttribute('aria-label')")
    expect(chat.box).to_be_focused()
    chat.page.keyboard.type("story")
    press("Shift+Enter")
    chat.page.keyboard.type("please")
    press("Enter")
    chat.finished()
    expect(chat.questions.last.locator(".bubble")).to_have_text("story\nplease")
    # Edit the last message, and change one's mind.
    press("ArrowUp")
    expect(chat.page.get_by_role("textbox", name="Edit message")).to_be_focused()
    press("Escape")
    expect(chat.page.get_by_role("textbox", name="Edit message")).to_have_count(0)
    # The token view: from token to token, alternatives, another one.
    press("Alt+t")
    chat.page.keyboard.press("/")
    expect(chat.box).to_be_focused()
    chat.page.keyboard.type("story again")
    press("Enter")
    expect(chat.answers).to_have_count(2)
    chat.finished()
    while chat.page.evaluate("document.activeElement.dataset.token") is None:
        press("Shift+Tab")
    press("ArrowRight")
    press("ArrowRight")
    assert chat.page.evaluate("document.activeElement.dataset.token") == "2"
    press("Enter")
    chat.page.get_by_role("group", name="Alternatives").wait_for()
    press("Escape")
    expect(chat.page.get_by_role("group", name="Alternatives")).to_have_count(0)
    press("Enter")
    chat.page.get_by_role("group", name="Alternatives").wait_for()
    while focus() is not None or chat.page.evaluate("document.activeElement.closest('.alternatives')") is None:
        press("Tab")
    press("Enter")
    chat.finished()
    expect(chat.answers.last.locator(".versions")).to_have_text("2/2")
    press("Alt+t")
    # Conversations, settings, help, colours.
    press("Alt+n")
    expect(chat.answers).to_have_count(0)
    expect(chat.box).to_be_focused()
    press("Alt+ArrowDown")
    expect(chat.answers).to_have_count(2)
    press("Control+k")
    assert focus() == "Search conversations"
    chat.page.keyboard.type("story")
    press("Enter")
    expect(chat.box).to_be_focused()
    press("Alt+s")
    expect(chat.page.get_by_role("complementary", name="Settings")).to_be_visible()
    press("Escape")
    expect(chat.page.get_by_role("complementary", name="Settings")).to_have_count(0)
    chat.page.evaluate("document.activeElement.blur()")
    press("?")
    expect(chat.page.get_by_role("dialog", name="Keyboard")).to_be_visible()
    press("Escape")
    expect(chat.page.get_by_role("dialog", name="Keyboard")).to_have_count(0)
    # Stop by Escape.
    press("/")
    chat.page.keyboard.type("slow")
    press("Enter")
    chat.state.gate.release(1)
    chat.answer_is("You")
    press("Escape")
    chat.finished("cancelled")
