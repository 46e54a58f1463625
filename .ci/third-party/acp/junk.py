"""What no client should send, line by line: each is answered as the protocol says, and nothing breaks."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

from checks import Checks

HERE = pathlib.Path(__file__).parent
checks = Checks("acp, bad input")
project = tempfile.mkdtemp(prefix="junk-", dir=os.environ["FOLDER"])


class Agent:
    """The agent behind the relay, spoken to in lines."""

    def __init__(self, name):
        relay = ["node", str(HERE / "relay.mjs"), name]
        self.process = subprocess.Popen(relay, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def send(self, line):
        """Sends a line as it is, or a message."""
        text = line if isinstance(line, str) else json.dumps(line)
        self.process.stdin.write(text.encode("utf-8", "surrogateescape") + b"\n")
        self.process.stdin.flush()

    def answer(self, id):
        """Returns the answer to a request, or the next one that names none."""
        while True:
            line = self.process.stdout.readline()
            if not line:
                return {}
            message = json.loads(line)
            if "method" not in message and message.get("id") == id:
                return message

    def ask(self, id, method, params):
        """Sends a request and returns its answer."""
        self.send({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
        return self.answer(id)

    def end(self):
        """Ends the input and returns how the agent exited."""
        self.process.stdin.close()
        self.process.stdout.read()
        return self.process.wait(10)


def code(answer):
    """Returns the code of an error."""
    return answer.get("error", {}).get("code")


INITIALIZE = {"protocolVersion": 1, "clientCapabilities": {}}
NEW = {"cwd": project, "mcpServers": []}

agent = Agent("junk")
checks.equal("a request before initialize", code(agent.ask(1, "session/new", NEW)), -32600)
checks.equal("initialize", agent.ask(2, "initialize", INITIALIZE).get("result", {}).get("protocolVersion"), 1)
for number, line in enumerate(["no JSON", "{", "\udcff\udcfe", '"a string"', "[]", "17"]):
    agent.send(line)
    answer = agent.answer(None)
    checks.holds(f"junk {number}: {line!r}", code(answer) in (-32700, -32600), answer)
agent.send("")
checks.equal("an unknown method", code(agent.ask(3, "no/such/method", {})), -32601)
for number, params in enumerate([{}, {"cwd": 5, "mcpServers": []}, {"cwd": "relative", "mcpServers": []}, []]):
    checks.equal(f"wrong params {number}", code(agent.ask(10 + number, "session/new", params)), -32602)
created = agent.ask(20, "session/new", NEW).get("result", {})
session = created.get("sessionId")
checks.holds("it works all the same", session, created)
nobody = {"sessionId": "../../etc/passwd", "prompt": [{"type": "text", "text": "?"}]}
checks.equal("a session that is a path", code(agent.ask(21, "session/prompt", nobody)), -32002)
agent.send({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": "no-such-session"}})
agent.send({"jsonrpc": "2.0", "method": "no/such/notification", "params": {}})
agent.send({"jsonrpc": "2.0", "id": 4711, "result": {}})
for id in ("a string", 22):
    hello = {"sessionId": session, "prompt": [{"type": "text", "text": "#hello"}]}
    answer = agent.ask(id, "session/prompt", hello)
    checks.equal(f"a prompt with the id {id!r}", answer.get("result", {}).get("stopReason"), "end_turn")
empty = {"sessionId": session, "prompt": []}
checks.holds("an empty prompt", code(agent.ask(23, "session/prompt", empty)) == -32602, "it is taken")
checks.equal("it ends when its input does", agent.end(), 0)

# A client that dies in the middle of a command.
agent = Agent("junk-gone")
agent.ask(1, "initialize", INITIALIZE)
session = agent.ask(2, "session/new", NEW)["result"]["sessionId"]
prompt = {"sessionId": session, "prompt": [{"type": "text", "text": "#write"}]}
agent.send({"jsonrpc": "2.0", "id": 3, "method": "session/prompt", "params": prompt})
while "session/request_permission" not in agent.process.stdout.readline().decode():
    pass
checks.equal("a client that goes away while it is asked", agent.end(), 0)
agent = Agent("junk-back")
agent.ask(1, "initialize", INITIALIZE)
loaded = agent.ask(2, "session/load", {"sessionId": session, **NEW})
checks.holds("its session is not lost", "result" in loaded, loaded)
checks.equal("and it ends", agent.end(), 0)
sys.exit(checks.finish())
