// Fills the disk that holds the sessions while the program works, and looks at what is left of the session.
import fs from "node:fs";
import os from "node:os";
import path from "node:path";

import { Checks } from "../shared/checks.mjs";
import { crow } from "../shared/crow.mjs";
import { PROVIDERS, start } from "../shared/server.mjs";

const disk = process.env.FULL_DISK;
const sessions = path.join(disk, "crow-agent", "sessions");
const ballast = path.join(disk, "ballast");
const ROOM = 400 * 1024;
const FULL = "No space left on device";

const OFTEN = "Print a little, again and again.";
const MUCH = "Print more than fits.";
const AGAIN = "Is there room now?";
const ANSWER = "There is.";

const provider = PROVIDERS.find(({ name }) => name === "openai-chat");
const checks = new Checks("full-disk");
const server = await start([
	// A resumed session may tell its model what changed after the prompt.
	{ match: { predicate: ({ messages }) => JSON.stringify(messages).includes(AGAIN) }, response: { content: ANSWER } },
	{ match: { userMessage: OFTEN }, response: ({ messages }) => printing(400 + messages.length) },
	{ match: { userMessage: MUCH, hasToolResult: false }, response: printing(400_000) },
	{ match: { userMessage: MUCH, hasToolResult: true }, response: { content: ANSWER } },
]);
try {
	await theLogFillsTheDisk();
	await anOutputFillsTheDisk();
	await theDiskIsFullFromTheStart();
} finally {
	await server.stop();
}
checks.finish();

async function theLogFillsTheDisk() {
	leave(ROOM);
	const { code, rows, result } = await run(OFTEN);
	checks.equal("log: exit code", code, 1);
	checks.equal("log: outcome", result.outcome, "failed");
	const history = path.join(sessions, result.session_id, "history.jsonl");
	const message = result.error?.message ?? "";
	checks.holds("log: the reason names the file and the cause", names(message, history, FULL), message);

	const logged = await show(result.session_id);
	const acknowledged = rows.filter((row) => row.seq).map(({ v, ...event }) => event);
	// The session's first event is not part of the run.
	checks.holds("log: steps before the disk was full", acknowledged.length > 50, acknowledged.length);
	checks.equal("log: every acknowledged event is there", logged.slice(1), acknowledged);

	fs.rmSync(ballast);
	await goesOn("log", result.session_id, logged);
}

async function anOutputFillsTheDisk() {
	leave(ROOM);
	const { code, result } = await run(MUCH);
	checks.equal("output: a command that prints more than fits does not end the session", code, 0);
	checks.equal("output: the answer", result.text, ANSWER);

	const logged = await show(result.session_id);
	fs.rmSync(ballast);
	await goesOn("output", result.session_id, logged);
}

async function theDiskIsFullFromTheStart() {
	const before = fs.readdirSync(sessions);
	leave(0);
	const { code, stderr } = await program(["run", "-m", provider.model, AGAIN]);
	checks.equal("start: exit code", code, 2);
	checks.holds("start: the reason names the place and the cause", names(stderr, sessions, FULL), stderr);
	checks.equal("start: no half of a session", fs.readdirSync(sessions), before);
	fs.rmSync(ballast);
}

async function goesOn(what, id, before) {
	const { code, result } = await program(["sessions", "resume", id, "-o", "json", AGAIN]);
	checks.equal(`${what}: resume, exit code`, code, 0);
	checks.equal(`${what}: resume, answer`, result.text, ANSWER);
	const after = await show(id);
	checks.equal(`${what}: resume adds to the log`, after.slice(0, before.length), before);
	const numbers = after.map(({ seq }) => seq);
	checks.equal(`${what}: no number is missing`, numbers, Array.from(after, (_, at) => at + 1));
}

/// Takes all of the disk but some bytes.
function leave(bytes) {
	const file = fs.openSync(ballast, "w");
	const { bsize, bavail } = fs.statfsSync(disk);
	fs.writeSync(file, Buffer.alloc(bsize * bavail - bytes));
	fs.closeSync(file);
}

/// A reply that calls for so many lines of output.
function printing(lines) {
	const command = `seq -f 'a line of some length, number %g' 1 ${lines}`;
	return { toolCalls: [{ name: "bash", arguments: JSON.stringify({ command }) }] };
}

function names(text, ...parts) {
	return parts.every((part) => text.includes(part));
}

function run(prompt) {
	return program(["run", "-m", provider.model, "-p", "full-auto", "-o", "json", prompt]);
}

async function show(id) {
	const { code, rows } = await program(["sessions", "show", id, "-o", "json"]);
	checks.equal("show: exit code", code, 0);
	return rows;
}

function program(args) {
	const env = {
		HOME: path.join(os.tmpdir(), "home"),
		XDG_DATA_HOME: disk,
		[provider.key]: "none",
		[provider.variable]: server.url + provider.path,
	};
	return crow(args, { cwd: os.tmpdir(), env });
}
