"""Settings with a hook for each event that writes down what it reads, and a TypeScript file that gives each its type."""

import json
import sys

EVENTS = [
    "PreToolUse",
    "PostToolUse",
    "PostToolUseFailure",
    "UserPromptSubmit",
    "SessionStart",
    "SessionEnd",
    "Stop",
    "SubagentStop",
    "PreCompact",
    "Notification",
]


def settings():
    write = {"type": "command", "command": "cat >> events.jsonl; echo >> events.jsonl"}
    print(json.dumps({"hooks": {event: [{"hooks": [write]}] for event in EVENTS}}))


def check(path):
    with open(path, encoding="utf-8") as file:
        inputs = [json.loads(line) for line in file if line.strip()]
    seen = {given["hook_event_name"] for given in inputs}
    if missing := sorted(set(EVENTS) - seen):
        sys.exit(f"no hook ran for {', '.join(missing)}")
    print("import type * as sdk from './package/sdk';")
    for number, given in enumerate(inputs):
        print(f"export const input{number}: sdk.{given['hook_event_name']}HookInput = {json.dumps(given)};")


if sys.argv[1] == "settings":
    settings()
else:
    check(sys.argv[2])
