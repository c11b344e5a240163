#!/usr/bin/env python3
"""Renders chat templates with Hugging Face transformers.

    make_template_vectors.py DATA [TEMPLATE CONVERSATION]

DATA is the folder that fetch_vocabs.py fills. Every template in it and in data/templates is rendered for every
conversation in data/conversations.json; data/template_vectors.txt gets one line for each: the template's file,
the conversation's name, the length of the output in bytes and its 64-bit FNV-1a hash; or `refused` when the
template itself raised an exception, or `error` when Python did. With a template and a conversation it prints
that output instead. Needs transformers and jinja2 (made with 5.22.2 and 3.1.6).
"""

import datetime
import json
import pathlib
import sys

import jinja2
from transformers.utils import chat_template_utils

HERE = pathlib.Path(__file__).parent


class Then(datetime.datetime):
    """A clock that stands still."""

    @classmethod
    def now(cls, tz=None):
        return cls(2024, 7, 26, 12, 34, 56)


chat_template_utils.datetime = Then


def render(source, conversation):
    (text,), _ = chat_template_utils.render_jinja_template(
        [conversation["messages"]],
        chat_template=source,
        add_generation_prompt=conversation["add_generation_prompt"],
        bos_token="<BOS>",
        eos_token="<EOS>",
        **conversation.get("extra", {}),
    )
    return text


def fnv(data):
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 % (1 << 64)
    return value


def main():
    if len(sys.argv) not in (2, 4):
        sys.exit(__doc__)
    folders = [pathlib.Path(sys.argv[1]) / "templates", HERE / "data/templates"]
    templates = {path.name: path.read_text() for folder in folders for path in folder.glob("*.jinja")}
    conversations = json.loads((HERE / "data/conversations.json").read_text())
    if len(sys.argv) == 4:
        sys.stdout.write(render(templates[sys.argv[2]], conversations[sys.argv[3]]))
        return
    lines = []
    for file, source in sorted(templates.items()):
        for name, conversation in conversations.items():
            try:
                output = render(source, conversation).encode()
                result = f"{len(output)}\t{fnv(output):016x}"
            except Exception as error:
                # What `raise_exception` raises; Jinja's own failures have classes of their own.
                result = "refused" if type(error) is jinja2.exceptions.TemplateError else "error"
            lines.append(f"{file}\t{name}\t{result}\n")
    (HERE / "data/template_vectors.txt").write_text("".join(lines))


if __name__ == "__main__":
    main()
