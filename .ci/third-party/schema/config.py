"""Checks the schemas of the configuration with an independent validator: they are valid, and our files fit them.

usage: config.py PROGRAM ROOT
"""

import json
import pathlib
import subprocess
import sys
import tomllib

import jsonschema

program, root = sys.argv[1], pathlib.Path(sys.argv[2])
KINDS = {
    "base": "agents/base/",
    "composition": "agents/acp/",
    "config": "config.toml",
    "permissions": "permissions.json",
    "providers": "providers/",
}
passed = failed = 0


def check(what, condition, detail=""):
    """Counts what holds and says what does not."""
    global passed, failed
    if condition:
        passed += 1
    else:
        failed += 1
        print(f"FAILED {what}: {detail}")


def validator(kind):
    """Returns a validator of the schema that the program prints, which is itself checked."""
    printed = subprocess.run([program, "config", "schema", kind], check=True, capture_output=True, timeout=60)
    schema = json.loads(printed.stdout)
    validator_type = jsonschema.validators.validator_for(schema)
    validator_type.check_schema(schema)
    return validator_type(schema, format_checker=validator_type.FORMAT_CHECKER)


def first_error(kind, value):
    """Returns the error that explains most, or none if the value fits."""
    error = jsonschema.exceptions.best_match(validators[kind].iter_errors(value))
    return error and f"{error.json_path}: {error.message[:300]}"


def kind_of(text):
    """Returns the kind of file that a path names."""
    return next((kind for kind, part in KINDS.items() if part in text), None)


def files():
    """Yields the shipped agents and the blocks of the documents: a name, a kind and what it holds."""
    for path in sorted(root.glob("crates/crow-agent/agents/*/*.toml")):
        yield path.name, kind_of(str(path)), tomllib.loads(path.read_text())
    for document in sorted(root.glob("docs/book/src/*.md")):
        for block in document.read_text().split("\n```"):
            language, _, body = block.partition("\n")
            first = body.partition("\n")[0]
            if language == "toml" and kind_of(first):
                yield f"{document.name}: {first}", kind_of(first), tomllib.loads(body)
            if language == "json" and '"rules"' in body:
                yield f"{document.name}: rules", "permissions", json.loads(body)


validators = {kind: validator(kind) for kind in KINDS}
seen = set()
for name, kind, value in files():
    seen.add(kind)
    error = first_error(kind, value)
    check(name, error is None, error)
    # A schema that accepts anything would accept this.
    check(f"{name} with an unknown key", first_error(kind, {**value, "no such key": 1}) is not None)
check("every kind of file has an example", seen == set(KINDS), set(KINDS) - seen)
overlay = first_error("composition", {"limits": {"max_money": 1.0}})
check("an overlay names only what it changes", overlay is None, overlay)
for kind, value in {
    "base": {"react": {"max_iterations": "many"}},
    "composition": {"limits": {"max_mony": 1.0}},
    "config": {"checks": {"command": [{"name": "a"}]}},
    "providers": {"provider": {"name": "a", "type": "no such type"}},
    "permissions": {"version": 2, "rules": []},
}.items():
    check(f"a broken file of {kind} is refused", first_error(kind, value) is not None, "it is accepted")

print(f"schema of the configuration: {passed} passed, {failed} failed")
sys.exit(1 if failed else 0)
