"""Conversations as they are kept: found again, renamed, deleted, taken along, shared among tabs."""

import json

from chat import BUILD, messages
from playwright.sync_api import expect


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


def test_two_tabs_know_of_each_other(chat):
    chat.open().ask("in the first tab")
    other = chat.page.context.new_page()
    other.goto(chat.url)
    expect(other.locator(".conversations li .open")).to_have_count(1)
    chat.button("New conversation").click()
    chat.ask("in the first tab again")
    expect(other.locator(".conversations li .open")).to_have_count(2)


def test_a_browser_that_keeps_nothing_says_so_and_works(chat):
    denied = "get() { throw new DOMException('denied', 'SecurityError'); }"
    for name in ["localStorage", "sessionStorage", "indexedDB"]:
        chat.page.add_init_script(f"Object.defineProperty(window, '{name}', {{ {denied} }});")
    chat.open()
    expect(chat.page.get_by_role("alert")).to_contain_text("This browser keeps no conversations: denied")
    chat.button("Close").click()
    chat.ask("still there?")
    chat.answer_is("You said: still there?")
    chat.button("Colours: as the system").click()
    chat.button("Colours: light").wait_for()
    chat.button("New conversation").click()
    chat.list.filter(has_text="still there?").click()
    chat.answer_is("You said: still there?")
