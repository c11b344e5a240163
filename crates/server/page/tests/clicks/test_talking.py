"""Talking: messages, answers, versions of both, what goes wrong."""

import json

from chat import messages
from playwright.sync_api import expect


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
    chat.expects_complaints = True


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
    chat.expects_complaints = True


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
