"""Drives the built agent through the Python package of the protocol, as an editor without forms does."""

import asyncio
import os
import pathlib
import signal
import sys
import tempfile
import time

import acp
from acp import helpers, schema

from checks import Checks

HERE = pathlib.Path(__file__).parent
RECORDS = pathlib.Path(os.environ["RECORDS"])
checks = Checks("acp, Python client")
project = pathlib.Path(tempfile.mkdtemp(prefix="py-", dir=os.environ["FOLDER"]))


class Editor(acp.Client):
    """What an editor shows, and what its user answers."""

    def __init__(self):
        self.seen = []
        self.asked = []
        self.choose = "allow_once"
        self.changed = asyncio.Event()

    async def request_permission(self, session_id, tool_call, options, **kwargs):
        self.asked.append((tool_call, options))
        self.changed.set()
        if self.choose is None:
            await asyncio.Future()
        option = next((one for one in options if one.kind == self.choose), None)
        if option is None:
            outcome = schema.DeniedOutcome(outcome="cancelled")
        else:
            outcome = schema.AllowedOutcome(outcome="selected", option_id=option.option_id)
        return schema.RequestPermissionResponse(outcome=outcome)

    async def session_update(self, session_id, update, **kwargs):
        self.seen.append((session_id, update))
        self.changed.set()

    def of(self, session_id, kind):
        """Returns the updates of a session of one kind."""
        return [one for id, one in self.seen if id == session_id and one.session_update == kind]

    def said(self, session_id):
        """Returns the words of the agent."""
        return "".join(one.content.text for one in self.of(session_id, "agent_message_chunk"))

    def states(self, session_id):
        """Returns the last state of each call."""
        states = {}
        for one in self.of(session_id, "tool_call") + self.of(session_id, "tool_call_update"):
            if one.status is not None:
                states[one.tool_call_id] = one.status
        return states

    async def until(self, holds):
        """Waits until something holds, ten seconds at most."""
        end = time.monotonic() + 10
        while not holds() and time.monotonic() < end:
            self.changed.clear()
            try:
                await asyncio.wait_for(self.changed.wait(), 0.05)
            except TimeoutError:
                pass
        return holds()

    def forget(self):
        """Forgets what was seen."""
        self.seen, self.asked = [], []


def agent(editor, name):
    """Starts the agent behind the relay that writes down what is said."""
    relay = str(HERE / "relay.mjs")
    options = {"limit": 64 * 1024 * 1024}
    return acp.spawn_agent_process(
        editor, "node", relay, name, env=dict(os.environ), transport_kwargs=options, use_unstable_protocol=True
    )


async def code_of(request):
    """Returns the code of the error that a request is answered with, if it is."""
    try:
        await request
    except acp.RequestError as error:
        return error.code
    return None


async def first(editor, connection):
    """What an editor does from its first start to the death of the agent. Returns the session."""
    introduced = await connection.initialize(
        protocol_version=acp.PROTOCOL_VERSION, client_capabilities=schema.ClientCapabilities()
    )
    checks.equal("version", introduced.protocol_version, 1)
    created = await connection.new_session(cwd=str(project), mcp_servers=[])
    session = created.session_id
    checks.holds("options", {"mode", "model"} <= {one.id for one in created.config_options}, created.config_options)

    ended = await connection.prompt(session_id=session, prompt=[helpers.text_block("#hello")])
    checks.equal("a turn ends", ended.stop_reason, "end_turn")
    checks.holds("its words", editor.said(session).startswith("Good day from the model"), editor.said(session))
    chunks = editor.of(session, "agent_message_chunk")
    checks.equal("one message", len({one.message_id for one in chunks}), 1)
    editor.forget()

    resource = helpers.embedded_text_resource(f"file://{project}/a.txt", "embedded words")
    blocks = [helpers.text_block("#look"), helpers.resource_block(resource)]
    await connection.prompt(session_id=session, prompt=blocks)
    checks.holds("what is embedded is seen", "embedded words" in editor.said(session), editor.said(session))
    editor.forget()

    editor.choose = "reject_once"
    await connection.prompt(session_id=session, prompt=[helpers.text_block("#write")])
    checks.equal("a refused call", list(editor.states(session).values()), ["failed"])
    checks.holds("changes nothing", not (project / "notes.txt").exists())
    editor.choose = "allow_once"
    editor.forget()
    await connection.prompt(session_id=session, prompt=[helpers.text_block("#write")])
    checks.equal("a permitted one", list(editor.states(session).values()), ["completed"])
    checks.equal("is done", (project / "notes.txt").read_text(), "one\ntwo\n")
    editor.forget()

    await connection.prompt(session_id=session, prompt=[helpers.text_block("#ask")])
    checks.holds("a question is a choice where there are no forms", len(editor.asked) == 1, editor.asked)
    checks.holds("and answered", "The user chose: left" in editor.said(session), editor.said(session))
    editor.forget()

    turn = asyncio.ensure_future(connection.prompt(session_id=session, prompt=[helpers.text_block("#sleep")]))
    await editor.until(lambda: "in_progress" in editor.states(session).values())
    await connection.cancel(session_id=session)
    checks.equal("a cancelled turn says so", (await turn).stop_reason, "cancelled")
    checks.equal("and settles its call", list(editor.states(session).values()), ["failed"])
    editor.forget()

    await connection.set_session_mode(session_id=session, mode_id="loop")
    changed = await connection.set_config_option(config_id="mode", session_id=session, value="hitl")
    modes = [one.current_value for one in changed.config_options if one.id == "mode"]
    checks.equal("modes and options are one", modes, ["hitl"])
    forked = await connection.fork_session(session_id=session, cwd=str(project), mcp_servers=[])
    listed = await connection.list_sessions(cwd=str(project))
    checks.equal("both are listed", {one.session_id for one in listed.sessions}, {session, forked.session_id})
    await connection.close_session(session_id=forked.session_id)
    unknown = connection.load_session(cwd=str(project), session_id="no-such-session", mcp_servers=[])
    checks.equal("an unknown session", await code_of(unknown), -32002)

    steered = await connection.ext_method(
        "session/steering", {"sessionId": session, "prompt": [{"type": "text", "text": "#hello"}]}
    )
    checks.equal("words without a run begin one", steered, {"outcome": "startedNewTurn"})
    await editor.until(lambda: "Good day" in editor.said(session))

    editor.choose = None
    editor.forget()
    waiting = asyncio.ensure_future(connection.prompt(session_id=session, prompt=[helpers.text_block("#write")]))
    await editor.until(lambda: editor.asked)
    os.kill(int((RECORDS / "python.pid").read_text()), signal.SIGKILL)
    await asyncio.wait([waiting], timeout=10)
    checks.holds("a request to a dead agent fails", waiting.done() and waiting.exception() is not None, waiting)
    return session


async def second(editor, connection, process, session):
    """What is left after the agent was killed in the middle of a question."""
    await connection.initialize(protocol_version=acp.PROTOCOL_VERSION)
    await connection.load_session(cwd=str(project), session_id=session, mcp_servers=[])
    typed = [one.content.text for one in editor.of(session, "user_message_chunk")]
    checks.holds("all is shown again", {"#hello", "#write", "#sleep"} <= set(typed), typed)
    states = editor.states(session)
    checks.holds("and settled", set(states.values()) == {"completed", "failed"}, states)
    await connection.close_session(session_id=session)
    editor.forget()
    await connection.resume_session(session_id=session, cwd=str(project), mcp_servers=[])
    checks.equal("a resumed session shows nothing again", editor.of(session, "agent_message_chunk"), [])
    ended = await connection.prompt(session_id=session, prompt=[helpers.text_block("#hello")])
    checks.equal("and goes on", ended.stop_reason, "end_turn")
    editor.forget()

    server = schema.McpServerStdio(
        name="time", command=os.environ["MCP_TIME"], args=["-m", "mcp_server_time"], env=[]
    )
    created = await connection.new_session(cwd=str(project), mcp_servers=[server])
    await connection.prompt(session_id=created.session_id, prompt=[helpers.text_block("#time")])
    said = editor.said(created.session_id)
    checks.holds("a server of tools over stdio", "timezone" in said, said)
    process.stdin.close()
    checks.equal("it ends when its input does", await asyncio.wait_for(process.wait(), 10), 0)


async def main():
    """Does all of it."""
    editor = Editor()
    async with agent(editor, "python") as (connection, _):
        session = await first(editor, connection)
    editor = Editor()
    async with agent(editor, "python-again") as (connection, process):
        await second(editor, connection, process, session)


asyncio.run(main())
sys.exit(checks.finish())
