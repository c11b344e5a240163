"""The official Python package of OpenAI against a real server with real models."""

import json
import math
import unittest

import openai
from pydantic import BaseModel

from serving import MINILM, STORY, Server

CODER = "qwen2.5-coder-0.5b"
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Get the current weather of a city",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string"},
                "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
            },
            "required": ["city", "unit"],
            "additionalProperties": False,
        },
    },
}
TIME = {
    "type": "function",
    "function": {
        "name": "get_time",
        "description": "Get the current time in a city",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
            "additionalProperties": False,
        },
    },
}
QUESTION = [{"role": "user", "content": "What is the weather in Paris, in celsius? Use the tool."}]


class OpenAI(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server(STORY, CODER, MINILM, "--api-key", "secret", "--context", "2048", "--parallel", "4")
        cls.client = openai.OpenAI(base_url=cls.server.url + "/v1", api_key="secret", max_retries=0)

    @classmethod
    def tearDownClass(cls):
        log = cls.server.stop()
        # One line for each request, and no words of any.
        assert "POST /v1/chat/completions 200" in log, log
        assert "Paris" not in log, log

    def chat(self, **fields):
        fields = {"model": CODER, "temperature": 0, "max_tokens": 60, **fields}
        fields.setdefault("messages", [{"role": "user", "content": "Say hello in one short sentence."}])
        return self.client.chat.completions.create(**fields)

    def test_models(self):
        ids = [model.id for model in self.client.models.list()]
        self.assertEqual(ids, ["stories15M-q8_0", CODER, "all-MiniLM-L6-v2.F16"])
        self.assertEqual(self.client.models.retrieve(CODER).owned_by, "gleed")

    def test_chat(self):
        answer = self.chat()
        self.assertIn("ello", answer.choices[0].message.content)
        self.assertEqual(answer.choices[0].finish_reason, "stop")
        self.assertEqual(answer.usage.total_tokens, answer.usage.prompt_tokens + answer.usage.completion_tokens)
        again = self.chat()
        self.assertEqual(again.choices[0].message.content, answer.choices[0].message.content)
        self.assertGreaterEqual(again.usage.prompt_tokens_details.cached_tokens, 0)

    def test_stream(self):
        whole = self.chat()
        chunks = list(self.chat(stream=True, stream_options={"include_usage": True}))
        words = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
        self.assertEqual(words, whole.choices[0].message.content)
        self.assertEqual(chunks[-1].usage.completion_tokens, whole.usage.completion_tokens)
        self.assertEqual(chunks[0].choices[0].delta.role, "assistant")
        self.assertEqual([c.choices[0].finish_reason for c in chunks if c.choices][-1], "stop")

    def test_choices_and_logprobs(self):
        answer = self.chat(n=3, temperature=1, seed=5, max_tokens=8, logprobs=True, top_logprobs=3)
        self.assertEqual([choice.index for choice in answer.choices], [0, 1, 2])
        self.assertEqual(answer.usage.completion_tokens, sum(len(c.logprobs.content) for c in answer.choices))
        for token in answer.choices[0].logprobs.content:
            self.assertEqual(len(token.top_logprobs), 3)
            self.assertLessEqual(math.exp(token.logprob), 1.0001)

    def test_completion(self):
        answer = self.client.completions.create(
            model="stories15M-q8_0", prompt="Once upon a time", temperature=0, max_tokens=9
        )
        self.assertEqual(answer.choices[0].text, ", there was a little girl named Lily")
        self.assertEqual(answer.choices[0].finish_reason, "length")
        stream = self.client.completions.create(
            model="stories15M-q8_0", prompt="Once upon a time", temperature=0, max_tokens=9, stream=True
        )
        self.assertEqual("".join(chunk.choices[0].text for chunk in stream), answer.choices[0].text)

    def test_tools(self):
        for choice in ["required", {"type": "function", "function": {"name": "get_weather"}}]:
            answer = self.chat(messages=QUESTION, tools=[WEATHER, TIME], tool_choice=choice, parallel_tool_calls=False)
            self.assertEqual(answer.choices[0].finish_reason, "tool_calls")
            [call] = answer.choices[0].message.tool_calls
            self.assertEqual(call.function.name, "get_weather")
            arguments = json.loads(call.function.arguments)
            self.assertEqual(arguments, {"city": "Paris", "unit": "celsius"})
            self.assertIsNone(answer.choices[0].message.content)
        # The same in pieces.
        stream = self.chat(messages=QUESTION, tools=[WEATHER, TIME], tool_choice="required",
                           parallel_tool_calls=False, stream=True)
        pieces = [call for chunk in stream for call in chunk.choices[0].delta.tool_calls or []]
        self.assertEqual(pieces[0].function.name, "get_weather")
        self.assertTrue(pieces[0].id)
        joined = "".join(piece.function.arguments or "" for piece in pieces)
        self.assertEqual(json.loads(joined), {"city": "Paris", "unit": "celsius"})
        # A named tool that does not fit the question is called all the same, and none is with "none".
        answer = self.chat(messages=QUESTION, tools=[WEATHER, TIME],
                           tool_choice={"type": "function", "function": {"name": "get_time"}})
        self.assertEqual(answer.choices[0].message.tool_calls[0].function.name, "get_time")
        self.assertEqual(list(json.loads(answer.choices[0].message.tool_calls[0].function.arguments)), ["city"])
        answer = self.chat(messages=QUESTION, tools=[WEATHER], tool_choice="none", max_tokens=20)
        self.assertIsNone(answer.choices[0].message.tool_calls)

    def test_results_of_tools(self):
        call = {"id": "call_1", "type": "function",
                "function": {"name": "get_weather", "arguments": '{"city": "Paris", "unit": "celsius"}'}}
        messages = QUESTION + [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "call_1", "content": "17 degrees and rain"},
        ]
        # This small model would call the tool again if it were offered.
        answer = self.chat(messages=messages)
        self.assertIn("17", answer.choices[0].message.content)

    def test_structured_output(self):
        class Person(BaseModel):
            name: str
            age: int

        messages = [{"role": "user", "content": "Ada is 36 years old. Who is she? Answer in JSON."}]
        answer = self.client.chat.completions.parse(
            model=CODER, messages=messages, response_format=Person, temperature=0, max_tokens=60
        )
        self.assertEqual(answer.choices[0].message.parsed, Person(name="Ada", age=36))
        # The story model knows no JSON, and writes it all the same.
        answer = self.chat(model="stories15M-q8_0", messages=messages, max_tokens=200, temperature=1, seed=3,
                           response_format={"type": "json_schema", "json_schema": {
                               "name": "p", "schema": {"type": "object", "properties": {
                                   "happy": {"type": "boolean"}, "pets": {"type": "integer", "maximum": 9, "minimum": 0}},
                                   "required": ["happy", "pets"], "additionalProperties": False}}})
        found = json.loads(answer.choices[0].message.content)
        self.assertEqual({key: type(value) for key, value in found.items()}, {"happy": bool, "pets": int})
        answer = self.chat(messages=messages, response_format={"type": "json_object"})
        self.assertIsInstance(json.loads(answer.choices[0].message.content), dict)
        answer = self.chat(model="stories15M-q8_0", extra_body={"regex": "(red|blue) [0-9]{3}"}, temperature=1)
        self.assertRegex(answer.choices[0].message.content, "^(red|blue) [0-9]{3}$")
        answer = self.chat(model="stories15M-q8_0", extra_body={"grammar": 'start: "yes" | "no"'}, temperature=1)
        self.assertIn(answer.choices[0].message.content, ["yes", "no"])

    def test_embeddings(self):
        texts = ["A cat sits on the mat.", "A kitten is on the rug.", "The stock market fell."]
        # The package asks for base64 by itself.
        vectors = [entry.embedding for entry in self.client.embeddings.create(model="all-MiniLM-L6-v2.F16", input=texts).data]
        plain = self.client.embeddings.create(model="all-MiniLM-L6-v2.F16", input=texts, encoding_format="float")
        self.assertEqual([len(vector) for vector in vectors], [384] * 3)
        for vector, same in zip(vectors, plain.data):
            self.assertAlmostEqual(sum(x * x for x in vector), 1, places=5)
            self.assertTrue(all(abs(x - y) < 1e-6 for x, y in zip(vector, same.embedding)))
        dot = lambda a, b: sum(x * y for x, y in zip(a, b))
        self.assertGreater(dot(vectors[0], vectors[1]), dot(vectors[0], vectors[2]) + 0.2)

    def test_errors(self):
        with self.assertRaises(openai.AuthenticationError):
            openai.OpenAI(base_url=self.server.url + "/v1", api_key="wrong", max_retries=0).models.list()
        with self.assertRaises(openai.NotFoundError) as caught:
            self.chat(model="gpt-9")
        self.assertEqual(caught.exception.code, "model_not_found")
        for fields, param in [
            ({"temperature": 9}, "temperature"),
            ({"messages": []}, "messages"),
            ({"extra_body": {"nonsense": 1}}, "nonsense"),
            ({"extra_body": {"audio": {}}}, "audio"),
            ({"response_format": {"type": "json_schema", "json_schema": {
                "name": "x", "schema": {"type": "object", "frobnicate": 1}}}}, "response_format"),
            ({"extra_body": {"regex": "(a"}}, "regex"),
        ]:
            with self.assertRaises(openai.BadRequestError) as caught:
                self.chat(**fields)
            self.assertTrue(caught.exception.param.startswith(param), (fields, caught.exception.param))
        with self.assertRaises(openai.BadRequestError) as caught:
            self.chat(messages=[{"role": "user", "content": "word " * 3000}])
        self.assertEqual(caught.exception.code, "context_length_exceeded")
        with self.assertRaises(openai.BadRequestError):
            self.client.embeddings.create(model=CODER, input="a")
        with self.assertRaises(openai.BadRequestError):
            self.chat(model="all-MiniLM-L6-v2.F16")


if __name__ == "__main__":
    unittest.main()
