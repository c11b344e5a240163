#!/usr/bin/env python3
"""Proof that a server holds under load: no wrong answer, no leak, a clean end.

  load_proof.py GLEED MODEL [--clients 8] [--seconds 5] [--parallel 4] [--queue 6] [--seed 1]

Starts `GLEED serve MODEL` on a free port and asks it some things alone. Then clients come and go for a while: some
listen to the end, some leave in the middle, some read slowly, some send nonsense, some send more than the queue
holds. Every answer that is whole must be the one that was given alone. Afterwards nothing may be held any more, the
server must end when it is told to, with what runs finished, and after a kill it must be there again.

Needs nothing but Python. The long form: --clients 64 --seconds 180 --parallel 16 --queue 40
"""
import argparse
import collections
import http.client
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time

# The most that resident memory may grow from the first load to the end of the second, in bytes: what the allocator
# keeps differs from run to run; a request that leaks its text alone would be far above it in the long form.
MOST_GROWTH = 24 << 20


class Server:
    """A `gleed serve` of our own."""

    def __init__(self, arguments, port=0):
        command = [arguments.gleed, "serve", arguments.model, "--port", str(port), "--parallel", str(arguments.parallel),
                   "--queue", str(arguments.queue), "--device", "cpu", "--threads", "2"]
        began = time.monotonic()
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        self.said, self.port = [], None
        ready = threading.Event()
        threading.Thread(target=self._listen, args=(ready,), daemon=True).start()
        if not ready.wait(120) or self.port is None:
            self.process.kill()
            raise SystemExit(f"the server did not start: {self.text()}")
        self.seconds = time.monotonic() - began

    def _listen(self, ready):
        for line in self.process.stderr:
            self.said.append(line)
            found = re.search(r"on https?://127\.0\.0\.1:(\d+)", line)
            if found:
                self.port = int(found[1])
                ready.set()
        ready.set()

    def text(self):
        return "".join(self.said[-20:])

    def metric(self, name):
        """The sum of a metric over all models."""
        status, text = self.get("/metrics")
        assert status == 200, f"/metrics: {status}"
        values = re.findall(rf"^{name}(?:\{{[^}}]*\}})? (\S+)$", text, re.MULTILINE)
        assert values, f"there is no metric {name}"
        return sum(map(float, values))

    def get(self, path):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read().decode()

    def resident(self):
        """Bytes of resident memory."""
        with open(f"/proc/{self.process.pid}/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def held(self):
        """KV pages that something other than the prefix cache holds."""
        return self.metric("gleed_pages_used") - self.metric("gleed_pages_cached")

    def open(self, question, stream):
        """Sends a question; the response is not read yet."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        body = dict(question["body"], stream=stream)
        connection.request("POST", question["path"], json.dumps(body), {"Content-Type": "application/json"})
        return connection, connection.getresponse()


def questions(model, count, chance):
    """Different questions: both APIs, greedy and sampled, with a beginning of their own and a shared one."""
    words = "once upon a time there was little girl who had big red ball and she liked to play with her friend".split()
    shared = " ".join(chance.choices(words, k=70))
    found = []
    for number in range(count):
        text = " ".join(chance.choices(words, k=chance.randint(3, 30)))
        if number % 3 == 2:
            text = f"{shared} {text}"
        body = {"model": model, "max_tokens": chance.randint(4, 48), "temperature": 0}
        if number % 2:
            body.update(temperature=0.9, seed=number)
        if number % 4 == 3:
            body.update(messages=[{"role": "user", "content": text}], logprobs=True)
            found.append({"path": "/v1/chat/completions", "body": body})
        else:
            body.update(prompt=text, logprobs=1)
            found.append({"path": "/v1/completions", "body": body})
    return found


class Stream:
    """What the events of a stream come to."""

    def __init__(self):
        self.text, self.log_probabilities, self.reason, self.done = "", [], None, False

    def line(self, line):
        if not line.startswith(b"data:"):
            return
        data = line[5:].strip()
        if data == b"[DONE]":
            self.done = True
            return
        event = json.loads(data)
        if "error" in event:
            raise ValueError(f"an error in the stream: {event['error']}")
        for choice in event["choices"]:
            self.text += choice.get("text") or choice.get("delta", {}).get("content") or ""
            self.log_probabilities += numbers(choice.get("logprobs"))
            self.reason = choice.get("finish_reason") or self.reason

    def answer(self):
        return self.text, self.reason, self.log_probabilities


def numbers(log_probabilities):
    """The log-probabilities of the tokens, in the form of either API."""
    if not log_probabilities:
        return []
    if log_probabilities.get("token_logprobs") is not None:
        return log_probabilities["token_logprobs"]
    return [token["logprob"] for token in log_probabilities.get("content") or []]


def whole(text):
    """A whole answer in the form of a stream's."""
    choice = json.loads(text)["choices"][0]
    said = choice["text"] if "text" in choice else choice["message"]["content"]
    return said, choice["finish_reason"], numbers(choice.get("logprobs"))


class Load:
    """Clients that come and go for some seconds."""

    def __init__(self, server, asked, answers, arguments):
        self.server, self.asked, self.answers, self.arguments = server, asked, answers, arguments
        self.counts, self.wrong, self.lock = collections.Counter(), [], threading.Lock()
        self.crowding = threading.Lock()

    def run(self, seconds, seed):
        end = time.monotonic() + seconds
        threads = [threading.Thread(target=self._client, args=(number, random.Random(f"{seed} {number}"), end))
                   for number in range(self.arguments.clients)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _client(self, number, chance, end):
        ways = [(self.listen, 8), (self.listen_whole, 5), (self.leave, 4), (self.read_slowly, 1), (self.nonsense, 3),
                (self.half, 1), (self.crowd, 1)]
        ways, weights = zip(*ways)
        # Each begins in another way, so that all are tried on the slowest machine.
        way = ways[number % len(ways)]
        while time.monotonic() < end:
            try:
                way(chance)
            except Exception as error:  # whatever it is, it is told at the end
                self.fail(f"{way.__name__}: {type(error).__name__}: {error}")
            way = chance.choices(ways, weights)[0]

    def count(self, what):
        with self.lock:
            self.counts[what] += 1

    def fail(self, what):
        with self.lock:
            self.wrong.append(what)

    def refused(self, response):
        """Whether there was no room; that is in order, and says when to come again."""
        if response.status != 429:
            if response.status != 200:
                self.fail(f"status {response.status}: {response.read()[:200]}")
            return response.status != 200
        if not response.headers.get("Retry-After"):
            self.fail("429 without Retry-After")
        response.read()
        self.count("refused for want of room")
        return True

    def same(self, index, answer, way):
        self.count(way)
        if answer != self.answers[index]:
            self.fail(f"{way}: question {index}: {answer!r} is not {self.answers[index]!r}")

    def listen(self, chance, pause=0.0, way="streams to the end"):
        index = chance.randrange(len(self.asked))
        connection, response = self.server.open(self.asked[index], stream=True)
        try:
            if self.refused(response):
                return
            stream = Stream()
            for line in response:
                stream.line(line)
                if pause:
                    time.sleep(pause)
            if not stream.done:
                self.fail(f"{way}: a stream ended without [DONE]")
            self.same(index, stream.answer(), way)
        finally:
            connection.close()

    def read_slowly(self, chance):
        self.listen(chance, pause=0.02, way="slow readers")

    def listen_whole(self, chance):
        index = chance.randrange(len(self.asked))
        connection, response = self.server.open(self.asked[index], stream=False)
        try:
            if not self.refused(response):
                self.same(index, whole(response.read()), "whole answers")
        finally:
            connection.close()

    def leave(self, chance):
        connection, response = self.server.open(chance.choice(self.asked), stream=True)
        try:
            if not self.refused(response):
                for _ in range(chance.randrange(12)):
                    response.readline()
                self.count("left in the middle")
        finally:
            connection.close()

    def nonsense(self, chance):
        """What cannot be answered is an error of the client in the API's form: never 200, never 5xx."""
        good = dict(chance.choice(self.asked)["body"], stream=chance.random() < 0.5)
        bodies = [b"", b"{", b"[]", b"null", b"\xff\xfe", json.dumps(dict(good, temperature="hot")).encode(),
                  json.dumps(dict(good, max_tokens=-1)).encode(), json.dumps(dict(good, model="nobody")).encode(),
                  json.dumps(dict(good, prompt=None, messages=[])).encode(), json.dumps(dict(good, n=10**9)).encode(),
                  json.dumps(dict(good, no_such_field=1)).encode(), b"[" * 100_000, json.dumps({"x": "y" * 300_000}).encode()]
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=60)
        try:
            path = chance.choice(["/v1/completions", "/v1/chat/completions"])
            body = chance.choice(bodies)
            connection.request("POST", path, body, {"Content-Type": "application/json"})
            response = connection.getresponse()
            text = response.read()
            if not 400 <= response.status < 500:
                self.fail(f"nonsense {body[:80]!r} got {response.status}: {text[:120]!r}")
            elif "message" not in json.loads(text).get("error", {}):
                self.fail(f"nonsense {body[:80]!r} got no error object: {text[:120]!r}")
            self.count("nonsense refused")
        finally:
            connection.close()

    def half(self, chance):
        """Half a request, or no HTTP at all, and gone."""
        request = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 500\r\n\r\n{\"prompt\": \"once"
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=30) as connection:
            connection.sendall(chance.choice([request, request[:30], b"\x16\x03\x01\x02\x00\x01\x00", b"\r\n" * 50]))
            time.sleep(chance.random() * 0.2)
        self.count("half requests")

    def crowd(self, chance):
        """More at once than the server has room for, some of whom leave while they wait. One crowd at a time: several
        would leave no room for anybody else."""
        if not self.crowding.acquire(blocking=False):
            return self.listen(chance)
        ways = [chance.choice([self._quiet_listen, self._impatient])
                for _ in range(self.arguments.parallel + self.arguments.queue + 4)]
        threads = [threading.Thread(target=way, args=(random.Random(chance.random()),)) for way in ways]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.crowding.release()

    def _quiet_listen(self, chance):
        try:
            self.listen(chance)
        except Exception as error:
            self.fail(f"crowd: {type(error).__name__}: {error}")

    def _impatient(self, chance):
        body = json.dumps(dict(chance.choice(self.asked)["body"], stream=True)).encode()
        head = f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=30) as connection:
            connection.sendall(head.encode() + body)
            time.sleep(chance.random() * 0.05)
        self.count("left while they waited")


def settle(server):
    """Waits until nothing runs, and checks that nothing is held."""
    for _ in range(300):
        busy = server.metric("gleed_requests_running") + server.metric("gleed_requests_waiting")
        if busy == 0 and server.held() == 0:
            return
        time.sleep(0.1)
    raise SystemExit(f"after 30 s there are still {busy} requests, and {server.held()} pages are held")


def alone(server, asked):
    answers = []
    for question in asked:
        connection, response = server.open(question, stream=False)
        text = response.read()
        connection.close()
        if response.status != 200:
            raise SystemExit(f"{question}: {response.status} {text.decode()}")
        answers.append(whole(text))
    return answers


def shut_down(server, model):
    """SIGTERM: what runs is finished, what comes is refused, the process ends well."""
    long = {"path": "/v1/completions", "body": {"model": model, "prompt": "Once upon a time", "max_tokens": 90,
                                                "temperature": 0, "ignore_eos": True, "logprobs": 1}}
    expected = alone(server, [long])[0]
    connection, response = server.open(long, stream=True)
    stream = Stream()
    while not stream.text:
        stream.line(response.readline())
    server.process.send_signal(signal.SIGTERM)
    time.sleep(0.05)
    refused = "refused"
    try:
        late, late_response = server.open(long, stream=False)
        refused = late_response.status
        late.close()
    except OSError:
        pass
    for line in response:
        stream.line(line)
    connection.close()
    assert stream.done and stream.answer() == expected, f"an answer was not finished: {stream.answer()}"
    # A machine that is quick has finished before the second request came.
    assert refused in ("refused", 503), f"a request after SIGTERM got {refused}"
    code = server.process.wait(40)
    assert code == 0, f"the server ended with {code}: {server.text()}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("gleed")
    parser.add_argument("model")
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--parallel", type=int, default=4)
    parser.add_argument("--queue", type=int, default=6)
    parser.add_argument("--questions", type=int, default=24)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()

    server = Server(arguments)
    try:
        print(f"ready after {server.seconds:.2f} s")
        model = json.loads(server.get("/v1/models")[1])["data"][0]["id"]
        asked = questions(model, arguments.questions, random.Random(arguments.seed))
        answers = alone(server, asked)
        held = server.held()
        assert held == 0, f"{held} pages are held although nothing runs"
        load = Load(server, asked, answers, arguments)
        # The first part fills the cache and what the allocator keeps.
        load.run(arguments.seconds / 3, arguments.seed)
        settle(server)
        before = server.resident()
        load.run(arguments.seconds * 2 / 3, arguments.seed + 1)
        settle(server)
        growth = server.resident() - before
        for what, count in sorted(load.counts.items()):
            print(f"{count:8} {what}")
        print(f"resident memory {before / 1e6:.1f} MB, {growth / 1e6:+.1f} MB")
        again = alone(server, asked)
        if again != answers:
            load.fail("answers alone are others than before the load")
        if load.wrong:
            raise SystemExit(f"{len(load.wrong)} things went wrong; the first:\n" + "\n".join(load.wrong[:10]))
        for needed in ("streams to the end", "whole answers", "left in the middle", "nonsense refused", "refused for want of room"):
            if not load.counts[needed]:
                raise SystemExit(f"nothing was tried of: {needed}")
        if growth > MOST_GROWTH:
            raise SystemExit(f"resident memory grew by {growth / 1e6:.1f} MB")
        settle(server)
        shut_down(server, model)
        print("ended by SIGTERM with its answer finished")

        # Killed in the middle of its work, it is there again on the same port, as quickly as at first.
        server = Server(arguments)
        threads = [threading.Thread(target=crowd_that_is_cut_off, args=(server, asked)) for _ in range(4)]
        for thread in threads:
            thread.start()
        time.sleep(0.3)
        server.process.kill()
        server.process.wait(10)
        for thread in threads:
            thread.join()
        first, server = server.seconds, Server(arguments, server.port)
        print(f"ready {server.seconds:.2f} s after kill -9 (first {first:.2f} s)")
        assert server.seconds < 3 * first + 5, "the start after a kill takes longer than loading"
        assert alone(server, asked[:6]) == answers[:6], "answers after a kill are others"
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(40) == 0, server.text()
    finally:
        if server.process.poll() is None:
            server.process.kill()
    return 0


def crowd_that_is_cut_off(server, asked):
    try:
        for question in asked * 20:
            connection, response = server.open(question, stream=True)
            response.read()
            connection.close()
    except (OSError, http.client.HTTPException):
        pass


if __name__ == "__main__":
    sys.exit(main())
