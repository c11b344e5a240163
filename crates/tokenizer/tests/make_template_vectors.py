#!/usr/bin/env python3
"""Renders chat templates with Python's Jinja, set up as Hugging Face transformers does it.

    make_template_vectors.py DATA [TEMPLATE CONVERSATION]

DATA is the folder that fetch_vocabs.py fills. Every template in it is rendered for every conversation in
data/conversations.json; data/template_vectors.txt gets one line for each: the template's file, the
conversation's name, the length of the output in bytes and its 64-bit FNV-1a hash; or `refused` when the
template itself raised an exception, or `error` when Python did. With a template and a conversation it prints
that output instead. Needs jinja2.
"""

import datetime
import json
import pathlib
import sys

import jinja2
import jinja2.ext
import jinja2.sandbox

HERE = pathlib.Path(__file__).parent
NOW = datetime.datetime(2024, 7, 26, 12, 34, 56)


class Generation(jinja2.ext.Extension):
    """`{% generation %}` marks the assistant's words and changes nothing in the output."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_keep"), [], [], body).set_lineno(line)

    def _keep(self, caller):
        return caller()


class Refused(jinja2.exceptions.TemplateError):
    pass


def raise_exception(message):
    raise Refused(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def render(source, conversation):
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )
    environment.filters["tojson"] = tojson
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = lambda form: NOW.strftime(form)
    variables = {"tools": None, "documents": None, **conversation.get("extra", {})}
    return environment.from_string(source).render(
        messages=conversation["messages"],
        add_generation_prompt=conversation["add_generation_prompt"],
        bos_token="<BOS>",
        eos_token="<EOS>",
        **variables,
    )


def fnv(data):
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 % (1 << 64)
    return value


def main():
    if len(sys.argv) not in (2, 4):
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[1]) / "templates"
    conversations = json.loads((HERE / "data/conversations.json").read_text())
    if len(sys.argv) == 4:
        sys.stdout.write(render((folder / sys.argv[2]).read_text(), conversations[sys.argv[3]]))
        return
    lines = []
    for path in sorted(folder.glob("*.jinja")):
        for name, conversation in conversations.items():
            try:
                output = render(path.read_text(), conversation).encode()
                result = f"{len(output)}\t{fnv(output):016x}"
            except Refused:
                result = "refused"
            except Exception:
                result = "error"
            lines.append(f"{path.name}\t{name}\t{result}\n")
    (HERE / "data/template_vectors.txt").write_text("".join(lines))


if __name__ == "__main__":
    main()
