"""Checks what the program says in JSON against the schema in docs: every line, and one result at the end.

usage: schema.py SCHEMA FOLDER; the folder holds one file NAME.EXIT_CODE.jsonl per run.
"""

import json
import pathlib
import sys

import jsonschema

schema = json.loads(pathlib.Path(sys.argv[1]).read_text())
validator_type = jsonschema.validators.validator_for(schema)
validator_type.check_schema(schema)
validator = validator_type(schema, format_checker=validator_type.FORMAT_CHECKER)
passed = failed = 0


def check(what, condition, detail=""):
    """Counts what holds and says what does not."""
    global passed, failed
    if condition:
        passed += 1
    else:
        failed += 1
        print(f"FAILED {what}: {detail}")


def first_error(row):
    """Returns the error that explains most, or none if the row fits."""
    error = jsonschema.exceptions.best_match(validator.iter_errors(row))
    return error and f"{error.json_path}: {error.message[:300]}"


# What these commands list has no result at its end.
LISTS = {"ledger", "stats", "trace"}


def check_run(path):
    """Checks the lines of one run."""
    name, exit_code = path.name.split(".")[:2]
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    for number, row in enumerate(rows, 1):
        error = first_error(row)
        check(f"{name}, line {number} ({row.get('type')})", error is None, error)
    if name in LISTS:
        return rows
    results = [number for number, row in enumerate(rows, 1) if row.get("type") == "result"]
    check(f"{name}: one result, at the end", results == [len(rows)], f"results in lines {results} of {len(rows)}")
    if results:
        said = rows[results[-1] - 1]["exit_code"]
        check(f"{name}: exit code", str(said) == exit_code, f"the result says {said}, the process {exit_code}")
    return rows


runs = {path.name: check_run(path) for path in sorted(pathlib.Path(sys.argv[2]).glob("*.jsonl"))}
rows = [row for run in runs.values() for row in run]
kinds = {row["type"] for row in rows}
check("the runs say much", {"reply_reset", "thinking_delta", "call_end", "error", "result"} <= kinds, sorted(kinds))

# A schema that accepts anything would accept these.
for row in {row["type"]: row for row in rows}.values():
    for broken in ({**row, "type": "no such type"}, {key: row[key] for key in row if key != "v"}):
        check(f"a broken {row['type']} is refused", first_error(broken) is not None, "it is accepted")

print(f"schema: {passed} passed, {failed} failed")
sys.exit(1 if failed else 0)
