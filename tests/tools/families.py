#!/usr/bin/env python3
"""Writes into docs/families.md how far each family is from llama.cpp, as tests measured it.

  families.py --take FILE...   what tests added to FILE (see GLEED_MEASURED in docs/families.md) goes into
                               tests/golden/tiny/measured.json, and from there into the page
  families.py                  only the page
  families.py --check          fails if the page says something else than measured.json

The words of the tables are written by hand; the three columns of figures are not.
"""
import json
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from tiny_presets import PRESETS  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/families.md"
MEASURED = ROOT / "tests/golden/tiny/measured.json"
# Where GELU is looked up in a table of f16 values, llama.cpp is that far from itself.
GELU = 1e-4


def take(measured: dict, lines) -> None:
    """The largest difference of each model on each device; a new measurement of a model replaces an older one."""
    fresh: dict = {}
    for line in map(json.loads, lines):
        device = fresh.setdefault(line["model"], {})
        device[line["device"]] = max(device.get(line["device"], 0.0), line["difference"])
    for model, devices in fresh.items():
        measured.setdefault(model, {}).update({device: float(f"{x:.2g}") for device, x in devices.items()})


def figures(values: list[float]) -> str:
    if not values:
        return ""
    return f"{max(values):.1e}".replace("e-0", "e-") + (" (GELU)" if max(values) > GELU else "")


def page(text: str, measured: dict) -> str:
    """The page with the figures of all models of each architecture; embedding models have a table of their own."""
    out, embedding = [], False
    for line in text.split("\n"):
        embedding |= line.startswith("## Embedding models")
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if cells and cells[0].startswith("`"):
            of = [devices for model, devices in measured.items()
                  if PRESETS[model].arch == cells[0].strip("`") and embeds(model) == embedding]
            gpus = [x for devices in of for device, x in devices.items() if device not in ("reference", "CPU")]
            cells[3:6] = figures([d["reference"] for d in of if "reference" in d]), \
                figures([d["CPU"] for d in of if "CPU" in d]), figures(gpus)
            line = "|".join(["", *(f" {cell} " if cell else " " for cell in cells), ""])
        out.append(line)
    return "\n".join(out)


def embeds(model: str) -> bool:
    return (MEASURED.parent / f"{model}.p0.embedding.f32").exists()


def main() -> None:
    arguments = sys.argv[1:]
    measured = json.loads(MEASURED.read_text()) if MEASURED.exists() else {}
    if arguments[:1] == ["--take"]:
        for file in arguments[1:]:
            take(measured, Path(file).read_text().splitlines())
        MEASURED.write_text(json.dumps(measured, indent=1, sort_keys=True) + "\n")
    now = PAGE.read_text()
    then = page(now, measured)
    if arguments == ["--check"]:
        if now != then:
            sys.exit("docs/families.md says other figures than tests/golden/tiny/measured.json: run tests/tools/families.py")
        return
    PAGE.write_text(then)


if __name__ == "__main__":
    main()
