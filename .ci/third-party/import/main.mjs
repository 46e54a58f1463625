// Imports what the programs wrote, looks at it, and lets a session of each go on.
import { execFileSync } from "node:child_process";
import path from "node:path";

import { Checks } from "../shared/checks.mjs";
import { crow } from "../shared/crow.mjs";
import { PROVIDERS, start } from "../shared/server.mjs";

const PROMPT = "How many lines were there?";
const ANSWER = "There were two lines.";

/// Number of sessions of each program, and what the first one shows in this order. What a compaction `keeps` is sent to the model
/// behind its summary.
const PROGRAMS = [
	{ name: "claude", sessions: 4, call: "Bash: wc -l < notes.txt", isSummarized: true, keeps: ["There is no such file."] },
	{ name: "codex", sessions: 3, call: "exec: const result = await", isSummarized: false },
	{ name: "pi", sessions: 2, call: "bash: wc -l < notes.txt", isSummarized: true },
	{ name: "gemini", sessions: 1, call: "run_shell_command: wc -l < notes.txt", isSummarized: false },
	{
		name: "opencode",
		sessions: 3,
		call: "bash: wc -l < notes.txt",
		isSummarized: true,
		keeps: ["Show missing.txt.", "I look for it.", "There is no such file."],
	},
];

const checks = new Checks("import");
// The mock's rules about thinking in Anthropic's format also refuse replies of other models that are long answered.
const provider = PROVIDERS.find(({ name }) => name === "openai");
const server = await start([{ match: { userMessage: PROMPT }, response: { content: ANSWER } }]);
try {
	for (const program of PROGRAMS) {
		await imported(program);
	}
} finally {
	await server.stop();
}
checks.finish();

async function imported({ name, sessions, call, isSummarized, keeps = [] }) {
	const home = path.join(process.env.FOLDER, "homes", name);
	const cwd = path.join(process.env.FOLDER, `project-${name}`);
	const env = { HOME: home, [provider.key]: "none", [provider.variable]: server.url + provider.path };
	const run = (...args) => crow(args, { cwd, env });
	const before = hashes(home);

	const first = await run("import", "--from", name, "--apply", "-o", "json");
	const items = first.rows.filter(({ kind }) => kind === "session");
	const servers = first.rows.filter(({ kind }) => kind === "MCP server").map((row) => row.name);
	checks.holds(`${name}: it ends well`, first.code === 0, first.stderr);
	checks.holds(`${name}: its ${sessions} sessions`, items.length === sessions, first.lines.join("\n"));
	checks.holds(`${name}: its servers`, servers.join() === "files,remote", servers.join());
	const unknown = items.flatMap(({ notes }) => notes).filter((note) => /unknown|damaged|not in the file/.test(note));
	checks.holds(`${name}: no record that is not known`, unknown.length === 0, unknown.join("\n"));

	// Of the sessions with the most prompts, the one that is no fork.
	const prompts = ({ notes: [note] }) => Number(/(\d+) prompt/.exec(note)[1]) - Number(note.includes("fork"));
	const id = items.toSorted((one, other) => prompts(other) - prompts(one))[0].name;
	const shown = (await run("sessions", "show", id)).lines.join("\n");
	const parts = ["> ", "Count the lines of notes.txt.", call, "The file notes.txt has two lines.", "Write the count"];
	parts.push("The count is in summary.txt now.", "Show missing.txt.", "There is no such file.");
	if (isSummarized) {
		parts.push("the conversation was compacted", "Goodbye.");
	}
	let at = 0;
	for (const part of parts) {
		const found = shown.indexOf(part, at);
		checks.holds(`${name}: it shows ${part}`, found >= 0, shown);
		at = Math.max(at, found);
	}

	const after = await run("run", "--resume", id, "-o", "json", PROMPT);
	checks.holds(`${name}: it goes on`, after.code === 0 && after.lines.join().includes(ANSWER), after.stderr);
	const request = JSON.stringify(server.requests.at(-1));
	const sent = request.slice(request.indexOf("<summary"));
	for (const part of keeps) {
		const where = [sent.indexOf(part), sent.indexOf("Goodbye."), request.indexOf("Count the lines of notes.txt.")];
		checks.holds(`${name}: the model is sent ${part}`, 0 < where[0] && where[0] < where[1] && where[2] < 0, sent.slice(0, 3000));
	}
	if (name === "opencode") {
		const fork = (await run("sessions", "show", items.find(({ notes: [note] }) => note.includes("fork")).name)).lines.join("\n");
		checks.holds("opencode: a reverted session ends there", fork.includes("I look for it.") && !/no such file|Goodbye/i.test(fork), fork);
	}
	const again = await run("import", "--from", name, "-o", "json");
	const states = again.rows.filter(({ kind }) => kind === "session").map(({ state }) => state);
	checks.holds(`${name}: nothing is imported twice`, states.every((state) => state === "present"), states.join());
	checks.holds(`${name}: none of its files changed`, hashes(home) === before, hashes(home));
}

/// The hash of every file of the other program.
function hashes(home) {
	return execFileSync("bash", ["-c", "find . -type f -not -path '*/crow-agent/*' -print0 | sort -z | xargs -0 sha256sum"], { cwd: home, encoding: "utf8" });
}
