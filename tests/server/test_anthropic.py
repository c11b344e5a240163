"""The official Python package of Anthropic against a real server with real models."""

import json
import unittest

import anthropic
from pydantic import BaseModel

from serving import STORY, Server
from test_openai import CODER, QUESTION, TIME, WEATHER

SMOL = "smollm2-135m"


def tool(of_openai):
    """A tool in Anthropic's words."""
    function = of_openai["function"]
    return {"name": function["name"], "description": function["description"], "input_schema": function["parameters"]}


TOOLS = [tool(WEATHER), tool(TIME)]


class Anthropic(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server(STORY, SMOL, CODER, "--api-key", "secret", "--context", "2048", "--parallel", "4")
        cls.client = anthropic.Anthropic(base_url=cls.server.url, api_key="secret", max_retries=0)

    @classmethod
    def tearDownClass(cls):
        log = cls.server.stop()
        assert "POST /v1/messages 200" in log, log
        assert "Paris" not in log, log

    def fields(self, **fields):
        # The package no longer knows these, the API does.
        body = {"temperature": 0, **fields.pop("extra_body", {})}
        fields = {"model": SMOL, "max_tokens": 24, "extra_body": body, **fields}
        if fields["model"] == SMOL:
            fields.setdefault("system", "You answer in one short sentence.")
        fields.setdefault("messages", [{"role": "user", "content": "What is the capital of France?"}])
        return fields

    def create(self, **fields):
        return self.client.messages.create(**self.fields(**fields))

    def test_message(self):
        message = self.create()
        [block] = message.content
        self.assertIn("Paris", block.text)
        self.assertEqual(message.role, "assistant")
        self.assertEqual(message.stop_reason, "end_turn")
        counted = self.client.messages.count_tokens(
            model=SMOL, system="You answer in one short sentence.",
            messages=[{"role": "user", "content": "What is the capital of France?"}],
        )
        usage = message.usage
        self.assertEqual(counted.input_tokens, usage.input_tokens + usage.cache_read_input_tokens)
        cut = self.create(max_tokens=3)
        self.assertEqual((cut.stop_reason, cut.usage.output_tokens), ("max_tokens", 3))
        stopped = self.create(stop_sequences=["France"])
        self.assertEqual((stopped.stop_reason, stopped.stop_sequence), ("stop_sequence", "France"))

    def test_stream(self):
        whole = self.create()
        with self.client.messages.stream(**self.fields()) as stream:
            words = "".join(stream.text_stream)
            final = stream.get_final_message()
        self.assertEqual(words, whole.content[0].text)
        self.assertEqual(final.content[0].text, words)
        self.assertEqual((final.stop_reason, final.usage.output_tokens), (whole.stop_reason, whole.usage.output_tokens))
        kinds = [event.type for event in self.create(stream=True)]
        self.assertEqual(kinds[:2], ["message_start", "content_block_start"])
        self.assertEqual(kinds[-3:], ["content_block_stop", "message_delta", "message_stop"])

    def test_tools(self):
        for choice in [{"type": "any"}, {"type": "tool", "name": "get_weather"}]:
            choice = {**choice, "disable_parallel_tool_use": True}
            fields = self.fields(model=CODER, messages=QUESTION, tools=TOOLS, tool_choice=choice, max_tokens=100)
            message = self.client.messages.create(**fields)
            [block] = message.content
            self.assertEqual((block.type, block.name, message.stop_reason), ("tool_use", "get_weather", "tool_use"))
            self.assertEqual(block.input, {"city": "Paris", "unit": "celsius"})
            with self.client.messages.stream(**fields) as stream:
                pieces = [event.partial_json for event in stream if event.type == "input_json"]
                final = stream.get_final_message()
            self.assertEqual(json.loads("".join(pieces)), block.input)
            self.assertEqual(final.content[0].input, block.input)
        # The result is given back as the package gives it.
        result = {"type": "tool_result", "tool_use_id": block.id, "content": "17 degrees and rain"}
        more = {"type": "text", "text": "How many degrees is it? Answer in words."}
        messages = QUESTION + [message.to_param(), {"role": "user", "content": [result, more]}]
        answer = self.create(model=CODER, messages=messages, tools=TOOLS, max_tokens=60)
        self.assertIn("17", answer.content[0].text)

    def test_structured_output(self):
        class Person(BaseModel):
            name: str
            age: int

        messages = [{"role": "user", "content": "Ada is 36 years old. Who is she? Answer in JSON."}]
        fields = self.fields(model=CODER, messages=messages, max_tokens=60)
        answer = self.client.messages.parse(**fields, output_format=Person)
        self.assertEqual(answer.parsed_output, Person(name="Ada", age=36))

    def test_errors(self):
        with self.assertRaises(anthropic.AuthenticationError) as caught:
            other = anthropic.Anthropic(base_url=self.server.url, api_key="wrong", max_retries=0)
            other.messages.create(**self.fields())
        self.assertEqual(caught.exception.type, "authentication_error")
        with self.assertRaises(anthropic.NotFoundError) as caught:
            self.create(model="claude-9")
        self.assertEqual(caught.exception.type, "not_found_error")
        image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}
        for fields, named in [
            ({"messages": []}, "messages"),
            ({"messages": [{"role": "user", "content": [image]}]}, "image"),
            ({"messages": [{"role": "user", "content": "word " * 3000}]}, "context"),
            ({"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, "web_search_20250305"),
            ({"model": "stories15M-q8_0", "tools": TOOLS}, "tools"),
            ({"extra_body": {"nonsense": 1}}, "nonsense"),
        ]:
            with self.assertRaises(anthropic.BadRequestError) as caught:
                self.create(**fields)
            self.assertEqual(caught.exception.type, "invalid_request_error")
            self.assertIn(named, caught.exception.api_message)


if __name__ == "__main__":
    unittest.main()
