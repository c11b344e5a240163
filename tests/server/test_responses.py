"""OpenAI's responses, by its official Python package, against a real server with real models."""

import json
import unittest

import openai
from pydantic import BaseModel

from serving import STORY, Server
from test_openai import CODER, QUESTION, TIME, WEATHER

SMOL = "smollm2-135m"
TOOLS = [{"type": "function", **tool["function"], "strict": True} for tool in (WEATHER, TIME)]


class Responses(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server(STORY, SMOL, CODER, "--context", "2048", "--parallel", "4")
        cls.client = openai.OpenAI(base_url=cls.server.url + "/v1", api_key="none", max_retries=0)

    @classmethod
    def tearDownClass(cls):
        log = cls.server.stop()
        assert "POST /v1/responses 200" in log, log

    def fields(self, **fields):
        fields = {"model": SMOL, "input": "What is the capital of France?", "temperature": 0,
                  "max_output_tokens": 24, **fields}
        if fields["model"] == SMOL:
            fields.setdefault("instructions", "You answer in one short sentence.")
        return fields

    def create(self, **fields):
        return self.client.responses.create(**self.fields(**fields))

    def test_response(self):
        response = self.create(metadata={"a": "b"}, store=False)
        self.assertIn("Paris", response.output_text)
        self.assertEqual((response.status, response.metadata), ("completed", {"a": "b"}))
        usage = response.usage
        self.assertEqual(usage.total_tokens, usage.input_tokens + usage.output_tokens)
        self.assertEqual(usage.output_tokens_details.reasoning_tokens, 0)
        # A conversation goes on with the items of the answer.
        items = [{"role": "user", "content": "What is the capital of France?"}, *response.output,
                 {"role": "user", "content": "And of Italy?"}]
        self.assertGreater(self.create(input=items).usage.input_tokens, usage.input_tokens)
        cut = self.create(max_output_tokens=3, top_logprobs=2)
        self.assertEqual((cut.status, cut.incomplete_details.reason), ("incomplete", "max_output_tokens"))
        self.assertEqual([len(token.top_logprobs) for token in cut.output[0].content[0].logprobs], [2] * 3)

    def test_stream(self):
        whole = self.create()
        with self.client.responses.stream(**self.fields()) as stream:
            events = list(stream)
            final = stream.get_final_response()
        words = "".join(event.delta for event in events if event.type == "response.output_text.delta")
        self.assertEqual(words, whole.output_text)
        self.assertEqual(final.output_text, words)
        self.assertEqual([event.sequence_number for event in events], list(range(len(events))))
        self.assertEqual(final.usage.output_tokens, whole.usage.output_tokens)

    def test_tools(self):
        for choice in ["required", {"type": "function", "name": "get_weather"}]:
            fields = self.fields(model=CODER, input=QUESTION, tools=TOOLS, tool_choice=choice,
                                 parallel_tool_calls=False, max_output_tokens=100)
            response = self.client.responses.create(**fields)
            [call] = response.output
            self.assertEqual((call.type, call.name, response.status), ("function_call", "get_weather", "completed"))
            self.assertEqual(json.loads(call.arguments), {"city": "Paris", "unit": "celsius"})
            with self.client.responses.stream(**fields) as stream:
                deltas = [event.delta for event in stream if event.type == "response.function_call_arguments.delta"]
                final = stream.get_final_response()
            self.assertEqual("".join(deltas), call.arguments)
            self.assertEqual(final.output[0].arguments, call.arguments)
        result = {"type": "function_call_output", "call_id": call.call_id, "output": "17 degrees and rain"}
        more = {"role": "user", "content": "How many degrees is it? Answer in words."}
        answer = self.create(model=CODER, input=[*QUESTION, call, result, more], tools=TOOLS, max_output_tokens=60)
        self.assertIn("17", answer.output_text)

    def test_structured_output(self):
        class Person(BaseModel):
            name: str
            age: int

        fields = self.fields(model=CODER, input="Ada is 36 years old. Who is she? Answer in JSON.", max_output_tokens=60)
        answer = self.client.responses.parse(**fields, text_format=Person)
        self.assertEqual(answer.output_parsed, Person(name="Ada", age=36))
        answer = self.create(**{**fields, "text": {"format": {"type": "json_object"}}})
        self.assertIsInstance(json.loads(answer.output_text), dict)

    def test_errors(self):
        for fields, param in [
            ({"store": True}, "store"),
            ({"previous_response_id": "resp_1"}, "previous_response_id"),
            ({"conversation": "conv_1"}, "conversation"),
            ({"background": True}, "background"),
            ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
            ({"input": []}, "input"),
            ({"temperature": 9}, "temperature"),
            ({"model": "stories15M-q8_0", "tools": TOOLS}, "tools"),
            ({"extra_body": {"nonsense": 1}}, "nonsense"),
        ]:
            with self.assertRaises(openai.BadRequestError) as caught:
                self.create(**fields)
            self.assertEqual(caught.exception.param, param)
        with self.assertRaises(openai.BadRequestError) as caught:
            self.create(input="word " * 3000)
        self.assertEqual((caught.exception.code, caught.exception.param), ("context_length_exceeded", "input"))
        with self.assertRaises(openai.NotFoundError):
            self.client.responses.retrieve("resp_1")


if __name__ == "__main__":
    unittest.main()
