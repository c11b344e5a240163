"""JSON schemas for the tests of constrained answers: the official test suite, and schemas that people use.

`write` takes the suite from the source package of `jsonschema`, schemas of configuration files from `check-jsonschema`
and those of the options of ESLint's rules from its npm package, all pinned, and writes two files of lines, each an
object with a name, a schema and, in the suite, instances that are valid or not. A second call does nothing.
"""

import json
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

SUITE = "jsonschema==4.26.0"
FILES = "check-jsonschema==0.39.0"
RULES = ["eslint@9.39.1", "@typescript-eslint/eslint-plugin@8.46.4", "typescript@5.9.3"]
STAMP = " ".join([SUITE, FILES, *RULES])
DRAFTS = {
    "draft4": "http://json-schema.org/draft-04/schema#",
    "draft6": "http://json-schema.org/draft-06/schema#",
    "draft7": "http://json-schema.org/draft-07/schema#",
    "draft2019-09": "https://json-schema.org/draft/2019-09/schema",
    "draft2020-12": "https://json-schema.org/draft/2020-12/schema",
}
# Prints the name of each rule and the schema of its options.
PRINT_RULES = """
const rules = [...require("eslint/use-at-your-own-risk").builtinRules];
rules.push(...Object.entries(require("@typescript-eslint/eslint-plugin").rules));
console.log(JSON.stringify(rules.map(([name, rule]) => [name, rule.meta.schema])));
"""


def pip_download(scratch: Path, package: str, *options: str) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    subprocess.check_call([*command, *options, "--dest", scratch, package])
    (found,) = scratch.glob(package.split("==")[0].replace("-", "?") + "*")
    return found


def suite(archive: Path) -> list[dict]:
    """One entry for every schema of the suite, which says its draft."""
    entries = []
    with tarfile.open(archive) as tar:
        for member in tar:
            parts = Path(member.name).parts[1:]
            if parts[:2] != ("json", "tests") or parts[2] not in DRAFTS or not member.name.endswith(".json"):
                continue
            for group in json.load(tar.extractfile(member)):
                schema = group["schema"]
                if isinstance(schema, dict) and "$schema" not in schema:
                    schema = {"$schema": DRAFTS[parts[2]], **schema}
                name = "/".join(parts[2:]) + ": " + group["description"]
                tests = [{"data": test["data"], "valid": test["valid"]} for test in group["tests"]]
                entries.append({"name": name, "schema": schema, "tests": tests})
    return entries


def files(wheel: Path) -> list[dict]:
    """Schemas of configuration files, and of the parts that they define."""
    entries = []
    with zipfile.ZipFile(wheel) as archive:
        for path in sorted(archive.namelist()):
            if "builtin_schemas/vendor/" not in path or not path.endswith(".json"):
                continue
            schema = json.loads(archive.read(path))
            name = Path(path).stem
            entries.append({"name": name, "schema": schema})
            for key in ("definitions", "$defs"):
                for part in list(schema.get(key, {}))[:12]:
                    # The whole document stays where references look for it.
                    whole = {k: v for k, v in schema.items() if k in ("$schema", "definitions", "$defs")}
                    pointer = part.replace("~", "~0").replace("/", "~1")
                    entries.append({"name": f"{name} {part}", "schema": {**whole, "$ref": f"#/{key}/{pointer}"}})
    return entries


def rules(folder: Path) -> list[dict]:
    """Schemas of the options of rules, which are lists."""
    (folder / "package.json").write_text("{}")
    subprocess.check_call(["npm", "install", "--silent", "--no-audit", "--no-fund", *RULES], cwd=folder)
    printed = subprocess.check_output(["node", "-e", PRINT_RULES], cwd=folder)
    entries = []
    for name, schema in json.loads(printed):
        if isinstance(schema, list) and schema:
            schema = {"type": "array", "items": schema, "minItems": 0, "maxItems": len(schema)}
        if schema:
            schema = {"$schema": DRAFTS["draft4"], **schema}
            entries.append({"name": f"options of {name}", "schema": schema})
    return entries


def write(folder: Path) -> None:
    stamp = folder / "complete"
    if stamp.exists() and stamp.read_text() == STAMP:
        return
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        scratch = Path(scratch)
        all_of = {
            "suite": suite(pip_download(scratch, SUITE, "--no-binary", ":all:")),
            "real": files(pip_download(scratch, FILES)) + rules(scratch),
        }
    for name, entries in all_of.items():
        lines = [json.dumps(entry) + "\n" for entry in entries]
        (folder / f"{name}.jsonl").write_text("".join(lines))
    stamp.write_text(STAMP)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
