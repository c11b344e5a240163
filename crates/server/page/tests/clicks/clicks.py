"""The pages in a real browser, with real clicks and keys, against a stand-in of the server.

Every wait is for something to be there or to be so; there is no pause of fixed length. `clicks.py NAME…` runs only
the tests whose names contain one of the words.
"""

import json
import os
import re
import shutil
import sys
import traceback
from pathlib import Path

import mock_server
from playwright.sync_api import expect, sync_playwright

# A machine that builds something else at the same time is slow.
PATIENCE_MS = 60_000
DESKTOP = {"width": 1200, "height": 800}
PHONE = {"width": 390, "height": 780}
BUILD = Path(__file__).resolve().parents[2] / "build"


class Chat:
    """The chat page as a person sees it."""

    def __init__(self, page, state, url):
        self.page, self.state, self.url = page, state, url

    def open(self, path="/"):
        self.page.goto(self.url + path)
        return self

    @property
    def box(self):
        return self.page.get_by_role("textbox", name="Message", exact=True)

    def button(self, name, within=None):
        return (within or self.page).get_by_role("button", name=name, exact=True)

    def send(self, text):
        self.box.fill(text)
        self.button("Send").click()

    def ask(self, text):
        """Sends, and waits for the whole answer."""
        before = self.answers.count()
        self.send(text)
        expect(self.answers).to_have_count(before + 1)
        self.finished()

    @property
    def answers(self):
        return self.page.locator(".message.assistant")

    @property
    def questions(self):
        return self.page.locator(".message.user")

    def finished(self, reason="stop"):
        expect(self.answers.last).to_have_attribute("data-finish", reason)

    def answer_is(self, text):
        expect(self.answers.last.locator(".text")).to_have_text(text)

    def token(self, text):
        return self.page.locator(".token").filter(has_text=text)

    def setting(self, name):
        return self.page.get_by_role("complementary", name="Settings").get_by_label(name)

    @property
    def list(self):
        return self.page.locator(".conversations li .open")

    def last_request(self):
        return self.state.requests[-1]


def messages(request):
    return [(message["role"], message["content"]) for message in request["messages"]]


def test_send_and_stream(chat):
    chat.open().send("slow hello")
    chat.button("Stop").wait_for()
    chat.state.gate.release(2)
    chat.answer_is("You said:")
    expect(chat.answers.last).to_have_attribute("data-finish", "")
    chat.state.gate.release(10)
    chat.finished()
    chat.answer_is("You said: slow hello")
    expect(chat.answers.last.locator(".figures")).to_contain_text("4 tokens")
    expect(chat.answers.last.locator(".figures")).to_contain_text("24 of 40 from the cache")
    expect(chat.box).to_have_value("")
    request = chat.last_request()
    assert request["model"] == "coal-135m" and request["stream"] is True, request
    assert messages(request) == [("user", "slow hello")], request
    assert not {"temperature", "seed", "logprobs", "top_k", "continue_final_message"} & request.keys(), request
    chat.ask("and you?")
    assert messages(chat.last_request()) == [
        ("user", "slow hello"),
        ("assistant", "You said: slow hello"),
        ("user", "and you?"),
    ]


def test_stop_keeps_the_text_and_can_go_on(chat):
    chat.open().send("slow one two three")
    chat.state.gate.release(2)
    chat.answer_is("You said:")
    chat.button("Stop").click()
    chat.finished("cancelled")
    chat.answer_is("You said:")
    assert chat.state.cancelled.wait(60), "the server was not told to stop"
    chat.state.gate.release(20)
    chat.button("Continue").click()
    chat.finished()
    chat.answer_is("You said: and so it went on.")
    request = chat.last_request()
    assert request["continue_final_message"] is True, request
    assert messages(request)[-1] == ("assistant", "You said:"), request
    expect(chat.answers).to_have_count(1)


def test_edit_retry_and_versions(chat):
    chat.open().ask("first words")
    question = chat.questions.last
    question.hover()
    chat.button("Edit", question).click()
    editor = chat.page.get_by_role("textbox", name="Edit message")
    expect(editor).to_be_focused()
    expect(editor).to_have_value("first words")
    editor.fill("other words")
    chat.page.locator(".editor").get_by_role("button", name="Send").click()
    chat.answer_is("You said: other words")
    chat.finished()
    assert messages(chat.last_request()) == [("user", "other words")]
    expect(chat.questions.locator(".versions")).to_have_text("2/2")

    chat.button("Retry", chat.answers.last).click()
    expect(chat.answers.last.locator(".versions")).to_have_text("2/2")
    chat.finished()
    chat.ask("a second turn")
    expect(chat.questions).to_have_count(2)

    # Back to the first words: what followed the other ones is not there, and comes back with them.
    chat.questions.first.hover()
    chat.button("Previous version", chat.questions.first).click()
    expect(chat.questions.first.locator(".bubble")).to_have_text("first words")
    chat.answer_is("You said: first words")
    expect(chat.questions).to_have_count(1)
    chat.button("Next version", chat.questions.first).click()
    expect(chat.questions).to_have_count(2)
    chat.answer_is("You said: a second turn")

    # An answer in other words is a version, too, and the conversation goes on from it.
    chat.button("Edit", chat.answers.last).click()
    editor.fill("My own words.")
    chat.button("Keep").click()
    chat.answer_is("My own words.")
    chat.ask("third")
    assert ("assistant", "My own words.") in messages(chat.last_request())


def test_branch_into_a_new_conversation(chat):
    chat.open().ask("one")
    chat.ask("two")
    chat.answers.first.hover()
    chat.button("Branch into a new conversation", chat.answers.first).click()
    expect(chat.list).to_have_count(2)
    expect(chat.questions).to_have_count(1)
    chat.ask("another way")
    assert [content for _, content in messages(chat.last_request())] == ["one", "You said: one", "another way"]
    chat.list.filter(has_not_text="branch").click()
    chat.answer_is("You said: two")


def test_settings_go_into_the_request(chat):
    chat.open().button("Settings").click()
    chat.setting("System prompt").fill("Be brief.")
    values = {
        "Temperature": ("temperature", 0.25),
        "Top p": ("top_p", 0.9),
        "Top k": ("top_k", 40),
        "Min p": ("min_p", 0.05),
        "Most tokens": ("max_completion_tokens", 3),
        "Seed": ("seed", 0),
    }
    for name, (_, value) in values.items():
        chat.setting(name).fill(str(value))
    chat.setting("Reasoning effort").select_option("low")
    chat.button("Close settings").click()
    chat.page.get_by_role("combobox", name="Model").select_option("ember-8b")
    chat.send("a b c d e")
    chat.finished("length")
    request = chat.last_request()
    for field, value in values.values():
        assert request[field] == value, (field, request)
    assert request["reasoning_effort"] == "low" and request["model"] == "ember-8b", request
    assert messages(request)[0] == ("system", "Be brief."), request
    expect(chat.answers.last.locator(".figures")).to_contain_text("cut at the token limit")
    expect(chat.answers.last.locator(".who")).to_have_text("ember-8b")

    # A new conversation begins with them; an emptied field is not sent.
    chat.button("New conversation").click()
    chat.button("Settings").click()
    expect(chat.setting("Temperature")).to_have_value("0.25")
    chat.setting("Temperature").fill("")
    chat.setting("Most tokens").fill("")
    chat.ask("again")
    assert "temperature" not in chat.last_request() and chat.last_request()["seed"] == 0


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


def test_reload_keeps_conversations_drafts_and_an_interrupted_answer(chat):
    chat.open().ask("first conversation")
    chat.button("New conversation").click()
    chat.send("slow second conversation")
    chat.state.gate.release(2)
    chat.answer_is("You said:")
    chat.box.fill("a draft")
    chat.page.reload()
    chat.state.gate.release(100)
    expect(chat.list).to_have_count(2)
    chat.answer_is("You said:")
    expect(chat.answers.last).to_have_attribute("data-finish", "interrupted")
    expect(chat.box).to_have_value("a draft")
    chat.list.filter(has_text="first conversation").click()
    chat.answer_is("You said: first conversation")
    expect(chat.box).to_have_value("")


def test_rename_search_and_delete(chat):
    chat.open().ask("apples and pears")
    chat.button("New conversation").click()
    chat.ask("ships at sea")
    expect(chat.list).to_have_count(2)

    def menu(name, item):
        entry = chat.page.locator(".conversations li").filter(has_text=name)
        entry.locator("summary").click()
        chat.button(item, entry).click()
        return entry

    menu("apples", "Rename")
    name = chat.page.get_by_role("textbox", name="Name of the conversation")
    expect(name).to_be_focused()
    name.fill("Fruit")
    name.press("Enter")
    expect(chat.list.filter(has_text="Fruit")).to_be_visible()

    search = chat.page.get_by_role("searchbox", name="Search conversations")
    search.fill("PEARS said")
    expect(chat.list).to_have_count(1)
    search.fill("nothing like it")
    expect(chat.list).to_have_count(0)
    search.fill("")

    entry = menu("ships", "Delete…")
    expect(chat.list).to_have_count(2)
    chat.button("Delete for good", entry).click()
    expect(chat.list).to_have_count(1)
    chat.page.reload()
    expect(chat.list).to_have_count(1)
    expect(chat.list).to_contain_text("Fruit")


def test_export_and_import(chat):
    chat.open().ask("think of a number")
    chat.button("Retry", chat.answers.last).click()
    expect(chat.answers.last.locator(".versions")).to_have_text("2/2")
    chat.finished()
    entry = chat.page.locator(".conversations li").first

    def download(item):
        entry.locator("summary").click()
        with chat.page.expect_download() as waiting:
            chat.button(item, entry).click()
        path = BUILD / waiting.value.suggested_filename
        waiting.value.save_as(path)
        return path

    markdown = download("Export as Markdown").read_text()
    assert "# think of a number" in markdown and "> Let me think." in markdown and "**42**" in markdown, markdown
    path = download("Export as JSON")
    exported = json.loads(path.read_text())
    assert len(exported["conversations"][0]["messages"]) == 3, exported

    chat.page.get_by_label("Conversations to import").set_input_files(path)
    expect(chat.list).to_have_count(2)
    expect(chat.answers.last.locator(".versions")).to_have_text("2/2")
    chat.answer_is("ThoughtsLet me think. Six times seven.The answer is 42.")

    bad = BUILD / "bad.json"
    bad.write_text('{"format": "gleed-conversations", "version": 1, "conversations": [{"messages": [{}]}]}')
    chat.page.get_by_label("Conversations to import").set_input_files(bad)
    expect(chat.page.get_by_role("alert")).to_contain_text("conversations[0].messages[0].role")
    expect(chat.list).to_have_count(2)


def test_markdown_maths_code_and_copy(chat):
    chat.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    chat.open().ask("markdown please")
    answer = chat.answers.last
    expect(answer.locator("table td").first).to_have_text("1,000")
    expect(answer.locator("math[display=block] munderover")).to_have_count(1)
    # Drawn by the browser as a formula, not as letters in a row: the sum is higher than it is wide.
    size = answer.locator("math[display=block] munderover").bounding_box()
    assert size["height"] > size["width"] * 0.8, size
    expect(answer.locator(".code-keyword").first).to_have_text("def")
    expect(answer.locator("ol > li")).to_have_count(2)
    chat.button("Copy code", answer).click()
    expect(chat.button("Copied", answer)).to_be_visible()
    copied = chat.page.evaluate("navigator.clipboard.readText()")
    assert copied.startswith("def search(values, wanted):\n    low") and copied.endswith("return low"), copied
    chat.button("Copy message", answer).click()
    chat.page.wait_for_function("async () => (await navigator.clipboard.readText()).startsWith('## Binary search')")


def test_hostile_answers_are_text(chat):
    chat.open().ask("hostile")
    answer = chat.answers.last
    expect(answer).to_contain_text("<script>window.hacked = 1</script>")
    assert answer.locator("script, iframe, img, svg:not(.glyph), object, embed, style, [onerror], [onload]").count() == 0
    assert answer.locator("a").count() == 0
    assert chat.page.evaluate("window.hacked") is None
    # And if a script were there, the page's policy would not run it.
    chat.page.evaluate("document.body.insertAdjacentHTML('beforeend', \"<img src=x onerror='window.hacked = 2'>\")")
    chat.page.evaluate("new Promise((done) => setTimeout(done))")
    assert chat.page.evaluate("window.hacked") is None
    chat.expected_messages = True


def test_reasoning_is_folded(chat):
    chat.open().ask("think")
    thoughts = chat.answers.last.locator("details.reasoning")
    assert thoughts.evaluate("details => details.open") is False
    thoughts.locator("summary").click()
    expect(thoughts.locator(".markdown")).to_have_text("Let me think. Six times seven.")
    chat.ask("and now?")
    assert "reasoning_content" not in json.dumps(chat.last_request()["messages"])


def test_errors_are_shown_and_nothing_is_lost(chat):
    chat.open().send("fail please")
    chat.finished("error")
    expect(chat.answers.last.get_by_role("alert")).to_have_text("`messages`: this is refused, and <b>why</b>")
    expect(chat.questions.last.locator(".bubble")).to_have_text("fail please")
    chat.button("New conversation").click()
    chat.send("break it")
    chat.answer_is("You said:")
    chat.state.gate.release()
    chat.finished("error")
    expect(chat.answers.last.get_by_role("alert")).to_contain_text("The connection")
    chat.answer_is("You said:")
    chat.button("Retry", chat.answers.last).click()
    expect(chat.answers.last.locator(".versions")).to_have_text("2/2")
    chat.state.gate.release()
    chat.finished("error")
    chat.expected_messages = True


def test_a_key_is_asked_for(chat):
    chat.state.key = "sesame"
    chat.open()
    dialog = chat.page.get_by_role("dialog", name="API key")
    dialog.get_by_label("API key", exact=True).fill("wrong")
    dialog.get_by_role("button", name="Use this key").click()
    dialog.get_by_label("API key", exact=True).fill("sesame")
    dialog.get_by_role("button", name="Use this key").click()
    expect(dialog).to_have_count(0)
    chat.ask("let me in")
    assert chat.page.evaluate("sessionStorage.getItem('gleed.key')") == "sesame"
    assert chat.page.evaluate("JSON.stringify(localStorage)").find("sesame") < 0
    # The key changes while a conversation is open: the message waits for the new one.
    chat.state.key = "new"
    chat.send("and again")
    dialog.get_by_label("API key", exact=True).fill("new")
    dialog.get_by_role("button", name="Use this key").click()
    chat.finished()
    chat.answer_is("You said: and again")
    chat.expected_messages = True


def test_light_and_dark(chat):
    background = "getComputedStyle(document.body).backgroundColor"
    lightness = f"{background}.match(/[0-9.]+/g).slice(0, 3).reduce((sum, part) => sum + Number(part), 0) / 3"
    is_dark = lambda: chat.page.evaluate(lightness) < 100
    chat.page.emulate_media(color_scheme="dark")
    chat.open()
    chat.box.wait_for()
    assert is_dark()
    chat.page.emulate_media(color_scheme="light")
    assert not is_dark()
    chat.button("Colours: as the system").click()
    chat.button("Colours: light").click()
    chat.button("Colours: dark").wait_for()
    assert is_dark()
    chat.page.reload()
    chat.button("Colours: dark").wait_for()
    assert is_dark()
    chat.open("/status")
    chat.page.locator(".chart").first.wait_for()
    assert is_dark()


def test_phone(chat):
    """In a context of a phone: see CONTEXTS."""
    chat.open()
    drawer = chat.page.get_by_role("navigation", name="Conversations")
    expect(drawer).to_be_hidden()
    chat.ask("markdown on a phone")
    assert chat.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "the page is wider than the phone"
    for element in ["main > header", ".composer", ".strip"]:
        frame = chat.page.locator(element).bounding_box()
        assert frame["x"] >= 0 and frame["x"] + frame["width"] <= PHONE["width"] + 1, (element, frame)
    # Enter is a new line where there is no Shift.
    chat.box.fill("one")
    chat.box.press("Enter")
    expect(chat.box).to_have_value("one\n")
    chat.box.fill("")
    chat.page.locator("main > header").get_by_role("button", name="Conversations").tap()
    expect(drawer).to_be_visible()
    drawer.get_by_role("button", name="New conversation").tap()
    expect(drawer).to_be_hidden()
    expect(chat.answers).to_have_count(0)
    chat.button("Settings").tap()
    chat.setting("Temperature").fill("1")
    chat.button("Close settings").tap()
    expect(chat.page.get_by_role("complementary", name="Settings")).to_have_count(0)


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


def test_answers_go_on_while_another_conversation_is_read(chat):
    chat.open().send("slow first")
    chat.state.gate.release(1)
    chat.answer_is("You")
    chat.button("New conversation").click()
    chat.ask("meanwhile")
    chat.state.gate.release(10)
    chat.list.filter(has_text="slow first").click()
    chat.finished()
    chat.answer_is("You said: slow first")


def test_two_tabs_know_of_each_other(chat):
    chat.open().ask("in the first tab")
    other = chat.page.context.new_page()
    other.goto(chat.url)
    expect(other.locator(".conversations li .open")).to_have_count(1)
    chat.button("New conversation").click()
    chat.ask("in the first tab again")
    expect(other.locator(".conversations li .open")).to_have_count(2)


def test_live_strip(chat):
    chat.state.samples = [chat.state.sample(1000 + second, 1) for second in range(5)]
    chat.open()
    strip = chat.page.get_by_role("group", name="Server")
    expect(strip).to_contain_text(f"{chat.state.samples[-1]['running']} running")
    chat.state.samples.append({**chat.state.samples[-1], "time": 1005, "running": 77, "waiting": 5})
    expect(strip).to_contain_text("77 running")
    expect(strip).to_contain_text("5 waiting")
    expect(strip).to_contain_text("tokens/s")
    expect(strip).to_contain_text("cache")


def test_status_page(chat):
    chat.state.samples = [chat.state.sample(1000 + second, 1) for second in range(300)]
    chat.open("/status")
    charts = chat.page.locator(".chart")
    expect(charts).to_have_count(8)
    for index in range(8):
        path = charts.nth(index).locator("path.line").first
        expect(path).to_have_attribute("d", re.compile(r"^M.*L"))
    throughput = charts.first
    generated = lambda value: expect(throughput.locator(".legend b").first).to_have_text(f"{value:,}")
    generated(chat.state.samples[-1]["generated_tokens"])
    chat.state.samples.append({**chat.state.samples[-1], "time": 1300, "generated_tokens": 1234})
    generated(1234)
    # Under the pointer: the values of that second.
    frame = throughput.locator("svg").bounding_box()
    chat.page.mouse.move(frame["x"] + frame["width"] * (480 - 10) / 480, frame["y"] + frame["height"] / 2)
    expect(throughput.locator(".pointer")).to_have_count(1)
    generated(1234)
    chat.page.mouse.move(frame["x"] + frame["width"] * 52 / 480, frame["y"] + frame["height"] / 2)
    generated(chat.state.samples[1]["generated_tokens"])
    expect(chat.page.get_by_role("list", name="Models")).to_contain_text("coal-135m loaded, context of 8,192 tokens")
    chat.page.get_by_role("link", name="gleed").click()
    expect(chat.box).to_be_focused()


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
    tests = {name: test for name, test in globals().items() if name.startswith("test_")}
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
