#!/usr/bin/env python3
"""Fetches the test data that is too large for the repository.

    fetch_vocabs.py DEST

Takes the source package of llama-cpp-python (a pinned version) with pip and keeps from it what the tests
read: the `ggml-vocab-*.gguf` vocabularies with their `.inp`/`.out` vectors, and the chat templates, which are
the model makers' own: those that lie there as files and those that a test of llama.cpp quotes. Two more are
quoted by the package unsloth. A second call finds everything in place and does nothing.
"""

import ast
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile

PACKAGE = "llama-cpp-python==0.3.36"
# Has templates that llama.cpp has not, as constants of these names.
QUOTED = "unsloth==2025.7.11"
CONSTANTS = {"gemma3_template": "Gemma-3", "gemma3n_template": "Gemma-3n"}
# What is kept of the packages: changes with this script.
STAMP = f"{PACKAGE} and quoted templates, {QUOTED}"
VOCABULARIES = [
    "bert-bge", "command-r", "deepseek-coder", "deepseek-llm", "falcon", "gpt-2", "llama-bpe", "llama-spm",
    "mpt", "phi-3", "qwen2", "qwen35", "refact", "starcoder",
]
# A test whose cases have a name and a template in a C string.
QUOTING = ("vendor", "llama.cpp", "tests", "test-chat-template.cpp")
CASE = re.compile(r'/\* \.name= \*/ "([^"]*)",\s*/\* \.template_str= \*/ ("(?:[^"\\]|\\.)*")')


def quoted_templates(source: str, folder: pathlib.Path) -> None:
    """Writes the templates that a source quotes, each to a file named after its model."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, literal in CASE.findall(source):
        file = re.sub(r"[^A-Za-z0-9.]+", "-", name).strip("-.")
        (folder / f"quoted-{file}.jinja").write_text(ast.literal_eval(literal))


def constant_templates(source: str, folder: pathlib.Path) -> None:
    """Writes the templates that are string constants of a Python source."""
    wanted = dict(CONSTANTS)
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            if name := wanted.pop(node.targets[0].id, None):
                (folder / f"quoted-{name}.jinja").write_text(ast.literal_eval(node.value))
    if wanted:
        sys.exit(f"{QUOTED} lacks {', '.join(wanted)}")


def download(package: str, scratch: str, *options: str) -> pathlib.Path:
    """Downloads a package alone, with pip."""
    folder = pathlib.Path(scratch, package)
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder]
    subprocess.run([*command, *options, package], check=True)
    (archive,) = folder.iterdir()
    return archive


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    destination = pathlib.Path(sys.argv[1])
    stamp = destination / "complete"
    if stamp.exists() and stamp.read_text() == STAMP:
        return
    wanted = {f"ggml-vocab-{name}.gguf{end}" for name in VOCABULARIES for end in ("", ".inp", ".out")}
    with tempfile.TemporaryDirectory() as scratch:
        with tarfile.open(download(PACKAGE, scratch, "--no-binary", "llama-cpp-python")) as tar:
            for member in tar:
                path = pathlib.PurePosixPath(member.name)
                if path.parts[1:] == QUOTING:
                    quoted_templates(tar.extractfile(member).read().decode(), destination / "templates")
                if path.parts[1:4] != ("vendor", "llama.cpp", "models") or not member.isfile():
                    continue
                if path.name in wanted:
                    folder = destination
                    wanted.discard(path.name)
                elif path.suffix == ".jinja":
                    folder = destination / "templates"
                else:
                    continue
                folder.mkdir(parents=True, exist_ok=True)
                (folder / path.name).write_bytes(tar.extractfile(member).read())
        with zipfile.ZipFile(download(QUOTED, scratch)) as wheel:
            source = wheel.read("unsloth/chat_templates.py").decode()
            constant_templates(source, destination / "templates")
    if wanted:
        sys.exit(f"{PACKAGE} lacks {', '.join(sorted(wanted))}")
    stamp.write_text(STAMP)


if __name__ == "__main__":
    main()
