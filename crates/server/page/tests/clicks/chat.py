"""The chat page as a person sees it, for tests: what there is to click on and to read."""

from pathlib import Path

from playwright.sync_api import expect

DESKTOP = {"width": 1200, "height": 800}
PHONE = {"width": 390, "height": 780}
# For what tests leave behind: files that were saved, pictures of failures.
BUILD = Path(__file__).resolve().parents[2] / "build"


class Chat:
    """The chat page as a person sees it."""

    def __init__(self, page, state, url):
        self.page, self.state, self.url = page, state, url
        # A refused request is a complaint in the browser's console; a test that provokes one says so.
        self.expects_complaints = False

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
