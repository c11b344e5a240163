"""The official npm package of OpenAI, in plain Node. GLEED_NODE names the folder that it is installed in."""

import os
import pathlib
import subprocess
import unittest

from serving import ROOT, STORY, Server

FOLDER = os.environ.get("GLEED_NODE", str(ROOT / ".cache" / "node"))


class Node(unittest.TestCase):
    def test_package(self):
        server = Server(STORY)
        try:
            script = pathlib.Path(__file__).with_name("openai_node.mjs")
            subprocess.run(["node", script, FOLDER, server.url, "stories15M-q8_0"], check=True, timeout=120)
        finally:
            server.stop()


if __name__ == "__main__":
    unittest.main()
