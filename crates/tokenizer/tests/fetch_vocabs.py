#!/usr/bin/env python3
"""Fetches the test data that is too large for the repository.

    fetch_vocabs.py DEST

Takes the source package of llama-cpp-python (a pinned version) with pip and keeps from it what the tests
read: the `ggml-vocab-*.gguf` vocabularies with their `.inp`/`.out` vectors, and the chat templates. A second
call finds everything in place and does nothing.
"""

import pathlib
import subprocess
import sys
import tarfile
import tempfile

PACKAGE = "llama-cpp-python==0.3.36"
VOCABULARIES = [
    "bert-bge", "command-r", "deepseek-coder", "deepseek-llm", "falcon", "gpt-2", "llama-bpe", "llama-spm",
    "mpt", "phi-3", "qwen2", "qwen35", "refact", "starcoder",
]


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    destination = pathlib.Path(sys.argv[1])
    stamp = destination / "complete"
    if stamp.exists() and stamp.read_text() == PACKAGE:
        return
    wanted = {f"ggml-vocab-{name}.gguf{end}" for name in VOCABULARIES for end in ("", ".inp", ".out")}
    with tempfile.TemporaryDirectory() as scratch:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", scratch]
        subprocess.run([*command, "--no-binary", "llama-cpp-python", PACKAGE], check=True)
        (archive,) = pathlib.Path(scratch).glob("*.tar.gz")
        with tarfile.open(archive) as tar:
            for member in tar:
                path = pathlib.PurePosixPath(member.name)
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
    if wanted:
        sys.exit(f"{PACKAGE} lacks {', '.join(sorted(wanted))}")
    stamp.write_text(PACKAGE)


if __name__ == "__main__":
    main()
