"""Checks every recorded line against the schema of the protocol.

usage: validate.py VERSION SCHEMA FOLDER; the folder holds NAME.jsonl: lines of both directions, and how the agent ended.
Those whose name begins with "v2" are of version 2, all others of version 1. Of records whose name begins with "junk" only
the side of the agent is checked.
"""

import json
import pathlib
import sys

import jsonschema

VERSION = sys.argv[1]
schema = json.loads(pathlib.Path(sys.argv[2]).read_text())
validator_type = jsonschema.validators.validator_for(schema)
passed = failed = 0


def check(what, condition, detail=""):
    """Counts what holds and says what does not."""
    global passed, failed
    if condition:
        passed += 1
    else:
        failed += 1
        print(f"FAILED {what}: {detail}")


def methods():
    """Returns the definitions of params and results by method, as the schema names them."""
    found = {}
    for name, definition in schema["$defs"].items():
        method = definition.get("x-method")
        if method is None:
            continue
        kind = next(
            (kind for kind in ("Request", "Response", "Notification") if name.endswith(kind)), None
        )
        if kind is not None:
            found[method, "Response" if kind == "Response" else "params"] = name
    return found


METHODS = methods()
validators = {}


def first_error(name, value):
    """Returns the error that explains most, or none if the value fits the definition."""
    if name not in validators:
        root = {"$schema": schema["$schema"], "$ref": f"#/$defs/{name}", "$defs": schema["$defs"]}
        validators[name] = validator_type(root)
    error = jsonschema.exceptions.best_match(validators[name].iter_errors(value))
    return error and f"{error.json_path}: {error.message[:300]}"


def check_message(where, message, asked):
    """Checks one message; `asked` holds the open requests of the other side by their id."""
    is_rpc = isinstance(message, dict) and message.get("jsonrpc") == "2.0"
    check(f"{where}: a message", is_rpc, str(message)[:200])
    if not is_rpc:
        return None
    if "method" in message:
        method = message["method"]
        name = METHODS.get((method, "params"))
        if name is None:
            # An extension begins with an underscore; the rest is asked on purpose.
            check(f"{where}: {method} is known", method.startswith("_") or method == "no/such/method")
        else:
            error = first_error(name, message.get("params"))
            check(f"{where}: {method}", error is None, error)
        return method
    if "error" in message:
        error = first_error("Error", message["error"])
        check(f"{where}: an error", error is None, error)
    else:
        method = asked.get(json.dumps(message.get("id")))
        check(f"{where}: an answer to what was asked", method is not None, str(message)[:200])
        name = METHODS.get((method, "Response"))
        if name is not None:
            error = first_error(name, message["result"])
            check(f"{where}: the answer to {method}", error is None, error)
    return "answer"


def check_record(path):
    """Checks one record. Returns what was said in it."""
    junk = path.name.startswith("junk")
    asked = {"client": {}, "agent": {}}
    said = set()
    for number, row in enumerate(map(json.loads, path.read_text().splitlines()), 1):
        where = f"{path.name}:{number}"
        if "exit" in row:
            continue
        side = row["from"]
        check(f"{where}: whole lines", "torn" not in row or side == "client", str(row)[:200])
        if "torn" in row:
            continue
        try:
            message = json.loads(row["line"])
        except ValueError:
            check(f"{where}: JSON from the {side}", junk and side == "client", row["line"][:200])
            continue
        if isinstance(message, dict) and "method" in message and "id" in message:
            asked[side][json.dumps(message["id"])] = message["method"]
        if junk and side == "client":
            continue
        other = asked["agent" if side == "client" else "client"]
        kind = check_message(where, message, other)
        update = message.get("params", {}).get("update", {}) if kind == "session/update" else {}
        said.add(update.get("sessionUpdate", kind))
    return said


check("the schema names its methods", len(METHODS) > 30, len(METHODS))
said = set()
for path in sorted(pathlib.Path(sys.argv[3]).glob("*.jsonl")):
    if path.name.startswith("v2") == (VERSION == "2"):
        said |= check_record(path)
EXPECTED = {
    "1": {
        "user_message_chunk",
        "agent_message_chunk",
        "tool_call",
        "tool_call_update",
        "plan",
        "available_commands_update",
        "usage_update",
        "session/request_permission",
        "elicitation/create",
        "mcp/message",
        "answer",
    },
    "2": {
        "user_message",
        "agent_message_chunk",
        "tool_call_update",
        "terminal_update",
        "state_update",
        "usage_update",
        "session/request_permission",
        "mcp/message",
        "answer",
    },
}
expected = EXPECTED[VERSION]
check("the records say much", expected <= said, sorted(expected - said))

# A schema that accepts anything would accept these.
BROKEN = {
    "1": {
        "SessionNotification": {"sessionId": "s", "update": {"sessionUpdate": "tool_call", "title": 1}},
        "PromptResponse": {"stopReason": "tired"},
        "NewSessionRequest": {"cwd": 5, "mcpServers": []},
    },
    "2": {
        "UpdateSessionNotification": {"sessionId": "s", "update": {"sessionUpdate": "state_update"}},
        "PromptResponse": {"stopReason": "end_turn"},
        "NewSessionRequest": {"cwd": 5, "mcpServers": []},
    },
}
for name, value in BROKEN[VERSION].items():
    check(f"a broken {name} is refused", first_error(name, value) is not None)

print(f"acp, schema of version {VERSION}: {passed} passed, {failed} failed")
sys.exit(1 if failed else 0)
