#!/usr/bin/env python3
"""Judges answers that were held to JSON schemas, with the validator of the Python package `jsonschema`.

    validate.py FILE...

Each line of a file has a schema and answers to it. Numbers are compared as decimals: as binary fractions 0.3 would be
no multiple of 0.1. Patterns are JavaScript's, and matched by an engine for those.
"""

import json
import sys
from decimal import Decimal, InvalidOperation

import jsonschema
import regress
from jsonschema import _keywords, _legacy_keywords, _utils
from jsonschema.validators import validator_for

# Defined by OpenAPI and not by JSON schema, which passes over it.
NOT_JUDGED = '"nullable": true'


class JavaScript:
    """What the validator asks of Python's `re`."""

    @staticmethod
    def search(pattern: str, text: str):
        return regress.Regex(pattern, "u").find(text)


for module in (_keywords, _legacy_keywords, _utils):
    module.re = JavaScript


def number(text: str):
    try:
        return Decimal(text)
    except InvalidOperation:
        # An exponent past all bounds.
        return float(text)


def is_number(_, value) -> bool:
    return isinstance(value, (int, float, Decimal)) and not isinstance(value, bool)


def is_integer(_, value) -> bool:
    if isinstance(value, Decimal):
        return value == value.to_integral_value()
    return isinstance(value, int) and not isinstance(value, bool)


def multiple_of(_, step, value, __):
    if is_number(None, value) and Decimal(str(value)) % Decimal(str(step)) != 0:
        yield jsonschema.ValidationError(f"{value} is not a multiple of {step}")


def judge(schema):
    kind = validator_for(schema, default=jsonschema.Draft202012Validator)
    types = kind.TYPE_CHECKER.redefine_many({"number": is_number, "integer": is_integer})
    kind = jsonschema.validators.extend(kind, {"multipleOf": multiple_of}, type_checker=types)
    return kind(schema, format_checker=kind.FORMAT_CHECKER)


def main() -> None:
    total = invalid = 0
    for path in sys.argv[1:]:
        for line in open(path):
            line = json.loads(line)
            if NOT_JUDGED in json.dumps(line["schema"]):
                continue
            validator = judge(line["schema"])
            for answer in line["answers"]:
                total += 1
                try:
                    error = next(validator.iter_errors(json.loads(answer, parse_float=number)), None)
                except json.JSONDecodeError as problem:
                    error = problem
                if error is not None:
                    invalid += 1
                    print(f"{line['name']}: {answer!r}: {str(error).splitlines()[0]}")
    print(f"{total} answers, {invalid} invalid")
    sys.exit(invalid > 0 or total == 0)


main()
