"""What the server does: the strip below the chat, and the status page."""

import re

from playwright.sync_api import expect


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
