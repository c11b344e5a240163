"""A stand-in of the server: the page's files and the few paths of the API that it asks, with answers that tests choose.

What an answer is depends on the last message: `slow` waits for `go` between tokens, `fail`, `break`, `think`,
`markdown`, `hostile`; anything else is answered by an echo. Every request is kept for the test to read. Headers of
the page are those that the real server sends: a page that needs more than they allow fails here too.
"""

import json
import math
import socket
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlparse

DIST = Path(__file__).resolve().parents[2] / "dist"
FILES = {
    "/": ("chat.html", "text/html; charset=utf-8"),
    "/status": ("status.html", "text/html; charset=utf-8"),
    "/page/chat.js": ("chat.js", "text/javascript; charset=utf-8"),
    "/page/chat.css": ("chat.css", "text/css; charset=utf-8"),
    "/page/status.js": ("status.js", "text/javascript; charset=utf-8"),
    "/page/status.css": ("status.css", "text/css; charset=utf-8"),
    "/page/theme.js": ("theme.js", "text/javascript; charset=utf-8"),
    "/page/icon.svg": ("icon.svg", "image/svg+xml"),
}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
MARKDOWN = (Path(__file__).parent / "answer.md").read_text()
HOSTILE = (
    "<script>window.hacked = 1</script>\n\n<img src=x onerror='window.hacked = 1'>\n\n"
    "[click](javascript:window.hacked=1) <svg/onload=window.hacked=1>\n\n"
    "| a |\n|---|\n| <iframe srcdoc='<script>parent.hacked = 1</script>'></iframe> |\n\n"
    "$\\text{<img src=x onerror=window.hacked=1>}$\n\n```html\n<script>window.hacked = 1</script>\n```\n"
)


class State:
    """What tests set and read."""

    def __init__(self):
        self.key = None
        self.requests = []
        self.gate = threading.Semaphore(0)
        self.cancelled = threading.Event()
        self.open_answers = 0
        self.samples = []

    def sample(self, time_, load):
        """One second of a server that is as busy as `load`, 0 to 1."""
        wave = 0.5 + 0.5 * math.sin(time_ / 17)
        busy = load * (0.4 + 0.6 * wave)
        return {
            "time": int(time_),
            "running": round(14 * busy),
            "waiting": max(0, round(9 * busy - 5)),
            "pages_used": round(150 + 300 * busy),
            "pages_cached": round(90 + 60 * wave),
            "pages_total": 512,
            "generated_tokens": round(640 * busy),
            "prompt_tokens": round(500 * busy * (0.6 + 0.4 * math.sin(time_ / 3) * math.sin(time_ / 11))),
            "cached_tokens": round(300 * busy * (0.6 + 0.4 * math.sin(time_ / 3) * math.sin(time_ / 11)) * wave),
            "steps": 30,
            "rows_per_step": 14 * busy + 6 if busy else None,
            "first_token_seconds": 0.08 + 0.25 * busy if busy else None,
            "between_tokens_seconds": 0.011 + 0.02 * busy if busy else None,
            "requests": round(2 * busy),
            "failures": 0,
        }


def words(text):
    """Text as tokens: words with the blank before them."""
    tokens, word = [], ""
    for character in text:
        if character in " \n" and word:
            tokens.append(word)
            word = ""
        word += character
    return tokens + ([word] if word else [])


def logprobs(token):
    """A token with alternatives, the last of them half a character."""
    entry = lambda text, chance: {"token": text, "logprob": math.log(chance), "bytes": list(text.encode())}
    chance = 0.3 + 0.69 * math.sin(sum(token.encode())) ** 2
    others = [" else", " maybe", " sometimes", " never", "\n", "é", "…"]
    top = [entry(token, chance)]
    for other in others:
        rest = 1 - sum(math.exp(one["logprob"]) for one in top)
        top.append(entry(other, rest * 0.55))
    half = {"token": "\ufffd", "logprob": top[-1]["logprob"] - 1, "bytes": [0xF0, 0x9F]}
    return {**top[0], "top_logprobs": [*top, half]}


def answer_to(request):
    """The answer and its thoughts."""
    last = request["messages"][-1]
    asked = next((m["content"] for m in reversed(request["messages"]) if m["role"] == "user"), "")
    if request.get("continue_final_message"):
        return " and so it went on.", ""
    if asked.startswith("think"):
        return "The answer is **42**.", "Let me think. Six times seven."
    if asked.startswith(("markdown", "How does")):
        return MARKDOWN, ""
    if asked.startswith("hostile"):
        return HOSTILE, ""
    if asked.startswith(("story", "Tell me")):
        return (
            "Once upon a time a lamplighter lived at the end of the longest street in town. Every evening he lit a "
            "hundred lamps, and every evening the moon watched him do it.",
            "",
        )
    system = "".join(m["content"] for m in request["messages"] if m["role"] == "system")
    return f"You said: {last['content']}{f' ({system})' if system else ''}", ""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def send(self, status, content_type, body, headers=()):
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def json(self, status, value):
        self.send(status, "application/json", json.dumps(value).encode())

    def refused(self):
        state = self.server.state
        if state.key is None or self.headers.get("Authorization") == f"Bearer {state.key}":
            return False
        self.json(401, {"error": {"message": "a key is needed: send `Authorization: Bearer KEY`", "type": "auth"}})
        return True

    def do_GET(self):
        state = self.server.state
        url = urlparse(self.path)
        if url.path in FILES:
            name, content_type = FILES[url.path]
            self.send(200, content_type, (DIST / name).read_bytes(), [("Content-Security-Policy", POLICY)])
        elif self.refused():
            pass
        elif url.path == "/v1/models":
            self.json(200, {"object": "list", "data": [{"id": "coal-135m"}, {"id": "ember-8b"}]})
        elif url.path == "/status.json":
            since = float(parse_qs(url.query).get("since", ["0"])[0])
            samples = [sample for sample in state.samples if sample["time"] > since]
            models = [{"id": "coal-135m", "loaded": True, "context": 8192}, {"id": "ember-8b", "loaded": False}]
            self.json(200, {"models": models, "samples": samples})
        else:
            self.json(404, {"error": {"message": f"there is no {url.path} here"}})

    def do_POST(self):
        state = self.server.state
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.refused():
            return
        request = json.loads(body)
        state.requests.append(request)
        asked = request["messages"][-1]["content"]
        if asked.startswith("fail"):
            self.json(400, {"error": {"message": "`messages`: this is refused, and <b>why</b>", "param": "messages"}})
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        state.open_answers += 1
        try:
            self.answer(request, asked)
        except (BrokenPipeError, ConnectionResetError):
            state.cancelled.set()
        finally:
            state.open_answers -= 1

    def event(self, value):
        data = f"data: {value if isinstance(value, str) else json.dumps(value)}\n\n".encode()
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()

    def wait_for_go(self):
        """Waits for the test's leave to go on; keeps writing, so that a reader who has gone is noticed."""
        while not self.server.state.gate.acquire(timeout=0.05):
            comment = b": waiting\n\n"
            self.wfile.write(f"{len(comment):x}\r\n".encode() + comment + b"\r\n")
            self.wfile.flush()

    def answer(self, request, asked):
        state = self.server.state
        text, thoughts = answer_to(request)
        chunk = lambda choices, usage=None: {"object": "chat.completion.chunk", "choices": choices, "usage": usage}
        self.event(chunk([{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}]))
        parts = [("reasoning_content", token) for token in words(thoughts)] + [("content", token) for token in words(text)]
        limit = request.get("max_completion_tokens")
        for index, (name, token) in enumerate(parts[:limit]):
            if asked.startswith("slow"):
                self.wait_for_go()
            if asked.startswith("break") and index == 2:
                self.wait_for_go()
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)
                return
            choice = {"index": 0, "delta": {name: token}, "finish_reason": None}
            if request.get("logprobs"):
                choice["logprobs"] = {"content": [logprobs(token)]}
            self.event(chunk([choice]))
        reason = "length" if limit is not None and limit < len(parts) else "stop"
        self.event(chunk([{"index": 0, "delta": {}, "finish_reason": reason}]))
        count = min(len(parts), limit or len(parts))
        usage = {"prompt_tokens": 40, "completion_tokens": count, "prompt_tokens_details": {"cached_tokens": 24}}
        self.event(chunk([], usage))
        self.event("[DONE]")
        self.wfile.write(b"0\r\n\r\n")


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, address):
        """A browser that goes away while it is answered is nothing to write about."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, address)


def start():
    """A server on a free port of this machine, and its state."""
    server = Server(("127.0.0.1", 0), Handler)
    server.state = State()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server, server.state, f"http://127.0.0.1:{server.server_port}"


if __name__ == "__main__":
    server, state, url = start()
    now = time.time()
    state.samples = [state.sample(now - 300 + second, min(1, second / 90)) for second in range(300)]
    print(url, flush=True)
    end = time.time() + 600
    while time.time() < end:
        time.sleep(1)
        state.samples = state.samples[-299:] + [state.sample(time.time(), 1)]
