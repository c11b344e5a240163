"""Ollama's official Python package against a real server with real models."""

import json
import unittest

import httpx
import ollama

from serving import MINILM, STORY, Server
from test_openai import CODER, QUESTION, TIME, WEATHER

SMOL = "smollm2-135m"
EMBEDDER = "all-MiniLM-L6-v2.F16"


class Ollama(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server(STORY, SMOL, CODER, MINILM, "--api-key", "secret", "--context", "2048", "--parallel", "4")
        cls.client = ollama.Client(host=cls.server.url, headers={"Authorization": "Bearer secret"})

    @classmethod
    def tearDownClass(cls):
        log = cls.server.stop()
        assert "POST /api/chat 200" in log, log
        assert "Paris" not in log, log

    def chat(self, **fields):
        fields = {"model": SMOL, "options": {"temperature": 0, "num_predict": 60, "repeat_penalty": 1}, **fields}
        system = {"role": "system", "content": "You answer in one short sentence."}
        fields.setdefault("messages", [system, {"role": "user", "content": "What is the capital of France?"}])
        return self.client.chat(**fields)

    def test_models(self):
        names = [model.model for model in self.client.list().models]
        self.assertEqual(names, ["stories15M-q8_0", SMOL, CODER, EMBEDDER])
        self.assertEqual(self.client.chat(model=SMOL).done_reason, "load")
        [loaded] = [model for model in self.client.ps().models if model.name == SMOL]
        self.assertGreater(loaded.size, 50_000_000)
        self.assertEqual(loaded.context_length, 2048)
        shown = self.client.show(CODER)
        self.assertEqual(shown.capabilities, ["completion", "tools"])
        self.assertEqual((shown.details.family, shown.details.format), ("qwen2", "gguf"))
        self.assertEqual(shown.modelinfo["qwen2.context_length"], 2048)
        self.assertEqual(self.client.show(EMBEDDER).capabilities, ["embedding"])

    def test_chat(self):
        answer = self.chat()
        self.assertIn("Paris", answer.message.content)
        self.assertEqual((answer.done, answer.done_reason), (True, "stop"))
        self.assertGreater(answer.total_duration, answer.eval_duration)
        # The same name as Ollama's clients complete it.
        self.assertEqual(self.chat(model=SMOL + ":latest").message.content, answer.message.content)
        lines = list(self.chat(stream=True))
        self.assertEqual("".join(line.message.content for line in lines), answer.message.content)
        self.assertEqual((lines[-1].done, lines[-1].eval_count), (True, answer.eval_count))
        self.assertEqual(lines[-1].prompt_eval_count, answer.prompt_eval_count)

    def test_generate(self):
        options = {"temperature": 0, "num_predict": 9, "repeat_penalty": 1}
        fields = {"model": "stories15M-q8_0", "prompt": "Once upon a time", "raw": True, "options": options}
        answer = self.client.generate(**fields)
        self.assertEqual(answer.response, ", there was a little girl named Lily")
        self.assertEqual((answer.prompt_eval_count, answer.eval_count, answer.done_reason), (5, 9, "length"))
        lines = list(self.client.generate(**fields, stream=True))
        self.assertEqual("".join(line.response for line in lines), answer.response)
        answer = self.client.generate(model=SMOL, prompt="What is the capital of France?", system="Be short.")
        self.assertTrue(answer.response)

    def test_tools(self):
        # The package cannot demand a call, so the demand is sent beside it.
        with httpx.Client(base_url=self.server.url, headers={"Authorization": "Bearer secret"}, timeout=300) as client:
            body = {"model": CODER, "messages": QUESTION, "tools": [WEATHER, TIME], "tool_choice": "required",
                    "options": {"temperature": 0, "num_predict": 100, "repeat_penalty": 1}, "stream": False}
            answer = ollama.ChatResponse(**client.post("/api/chat", json=body).raise_for_status().json())
        call = answer.message.tool_calls[0]
        self.assertEqual(call.function.name, "get_weather")
        self.assertEqual(call.function.arguments, {"city": "Paris", "unit": "celsius"})
        answer.message.tool_calls = [call]
        result = {"role": "tool", "tool_name": "get_weather", "content": "17 degrees and rain"}
        more = {"role": "user", "content": "How many degrees is it? Answer in words."}
        answer = self.chat(model=CODER, messages=QUESTION + [answer.message, result, more], tools=[WEATHER, TIME])
        self.assertIn("17", answer.message.content)

    def test_structured_output(self):
        schema = {"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
                  "required": ["name", "age"], "additionalProperties": False}
        messages = [{"role": "user", "content": "Ada is 36 years old. Who is she? Answer in JSON."}]
        answer = self.chat(model=CODER, messages=messages, format=schema)
        self.assertEqual(json.loads(answer.message.content), {"name": "Ada", "age": 36})
        answer = self.chat(model=CODER, messages=messages, format="json")
        self.assertIsInstance(json.loads(answer.message.content), dict)

    def test_embeddings(self):
        texts = ["A cat sits on the mat.", "A kitten is on the rug.", "The stock market fell."]
        found = self.client.embed(model=EMBEDDER, input=texts)
        dot = lambda a, b: sum(x * y for x, y in zip(a, b))
        first, second, third = found.embeddings
        self.assertEqual(len(first), 384)
        self.assertAlmostEqual(dot(first, first), 1, places=5)
        self.assertGreater(dot(first, second), dot(first, third) + 0.2)
        self.assertGreater(found.prompt_eval_count, 15)
        old = self.client.embeddings(model=EMBEDDER, prompt=texts[0]).embedding
        self.assertAlmostEqual(dot(old, first), dot(old, old) ** 0.5, places=4)
        # A text that is too long is only cut when that is asked for.
        with self.assertRaises(ollama.ResponseError) as caught:
            self.client.embed(model=EMBEDDER, input="word " * 1000)
        self.assertEqual(caught.exception.status_code, 400)
        cut = self.client.embed(model=EMBEDDER, input="word " * 1000, truncate=True)
        self.assertLessEqual(cut.prompt_eval_count, 512)

    def test_errors(self):
        with self.assertRaises(ollama.ResponseError) as caught:
            ollama.Client(host=self.server.url).list()
        self.assertEqual(caught.exception.status_code, 401)
        with self.assertRaises(ollama.ResponseError) as caught:
            self.chat(model="llama9")
        self.assertEqual(caught.exception.status_code, 404)
        for fields, named in [
            ({"options": {"mirostat": 1}}, "mirostat"),
            ({"options": {"num_ctx": 1_000_000}}, "num_ctx"),
            ({"options": {"nonsense": 1}}, "nonsense"),
            ({"messages": [{"role": "user", "content": "word " * 3000}]}, "context"),
            ({"messages": [{"role": "user", "content": "a", "images": ["aGk="]}]}, "images"),
            ({"model": "stories15M-q8_0", "tools": [WEATHER]}, "tools"),
            ({"model": EMBEDDER}, ""),
        ]:
            with self.assertRaises(ollama.ResponseError) as caught:
                self.chat(**fields)
            self.assertEqual(caught.exception.status_code, 400, fields)
            self.assertIn(named, caught.exception.error)


if __name__ == "__main__":
    unittest.main()
