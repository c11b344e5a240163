"""What answers look like, and the page: Markdown, hostile texts, light and dark, on a phone."""

from chat import PHONE
from playwright.sync_api import expect


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
    # And if a script were there, the page's policy would not run it: the browser says so when it refuses one.
    refused = chat.page.evaluate(
        """() => new Promise((done) => {
            addEventListener('securitypolicyviolation', (event) => done(event.effectiveDirective));
            document.body.insertAdjacentHTML('beforeend', "<img src=/none onerror='window.hacked = 2'>");
        })"""
    )
    assert refused.startswith("script-src"), refused
    assert chat.page.evaluate("window.hacked") is None
    chat.expects_complaints = True


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
