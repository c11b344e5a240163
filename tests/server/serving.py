"""A gleed server for the tests of one file: started before them, told to stop after them.

GLEED names the binary, GLEED_TEST_DATA the folder with test models.
"""

import os
import pathlib
import signal
import socket
import subprocess
import threading
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
STORY = str(ROOT / "models" / "stories15M-q8_0.gguf")
DATA = pathlib.Path(os.environ.get("GLEED_TEST_DATA", ROOT / ".cache" / "test-data"))
MINILM = str(DATA / "all-MiniLM-L6-v2.F16.gguf")


class Server:
    """A server with some models."""

    def __init__(self, *arguments):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        gleed = os.environ.get("GLEED", str(ROOT / "target" / "debug" / "gleed"))
        command = [gleed, "serve", *arguments, "--device", "cpu", "--port", str(self.port)]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        self.url = f"http://127.0.0.1:{self.port}"
        # The line that tells the address comes when requests are taken.
        for line in self.process.stderr:
            if self.url in line:
                break
        else:
            raise RuntimeError(f"{command} ended with {self.process.wait()}")
        # Read as it comes: a pipe that is not emptied would hold the server up.
        self.lines = []
        self.reader = threading.Thread(target=lambda: self.lines.extend(self.process.stderr), daemon=True)
        self.reader.start()

    def get(self, path):
        """The body of a path."""
        with urllib.request.urlopen(self.url + path) as response:
            return response.read().decode()

    def stop(self):
        """Tells it to stop and waits for its end, which must be a good one."""
        self.process.send_signal(signal.SIGTERM)
        start = time.monotonic()
        code = self.process.wait(timeout=60)
        self.reader.join(timeout=60)
        rest = "".join(self.lines)
        assert code == 0, (code, rest)
        assert time.monotonic() - start < 30
        return rest
