// Counts the system calls of a step: the difference between two runs, divided by the steps that one has more.
import { execFileSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";

import { Checks } from "../shared/checks.mjs";
import { crow } from "../shared/crow.mjs";
import { PROVIDERS, start } from "../shared/server.mjs";

const FIRST = 2;
const FEW = 10;
const MANY = 60;
/// The most calls of a step, those of `bash` included.
const BOUND = 500;
/// The places that commands never see, beyond those that are hidden anyway.
const HIDDEN = 200;
const COMMAND = "true";
const RUNS = 3;

const provider = PROVIDERS.find(({ name }) => name === "openai-chat");
const checks = new Checks("system-calls");
const server = await start(
	[FIRST, FEW, MANY].map((steps) => ({
		match: { userMessage: prompt(steps) },
		response: ({ messages }) => next(messages, steps),
	})),
);
try {
	const bare = bash();
	const few = await count("plain", "");
	console.log(`a step takes ${few} system calls, ${bare} of them in bash`);
	checks.holds(`a step takes ${few} system calls, ${bare} of them in bash: at most ${BOUND}`, few <= BOUND, [few]);
	const places = Array.from({ length: HIDDEN }, (_, number) => `"~/.place-${number}/key"`);
	// The list of hidden places is looked at once a session, and again when something has changed around them.
	const many = await count("hidden", `[sandbox]\nhidden = [${places.join(", ")}]\n`);
	// Half a call is what the two runs differ by at random.
	checks.holds(`${HIDDEN} more hidden places take ${many - few} more`, many - few < 10, [few, many]);
} finally {
	await server.stop();
}
checks.finish();

/// Runs the program twice in a home with these settings. Returns the calls of one step.
async function count(name, settings) {
	const home = path.join(process.env.FOLDER, name, "home");
	const project = path.join(process.env.FOLDER, name, "project");
	fs.mkdirSync(path.join(home, ".config/crow-agent"), { recursive: true });
	fs.mkdirSync(project);
	fs.writeFileSync(path.join(home, ".config/crow-agent/config.toml"), settings);
	fs.writeFileSync(path.join(project, "file"), "text\n");
	// What the first start writes once is not counted.
	await total(FIRST, home, project);
	const few = await least(FEW, home, project);
	const many = await least(MANY, home, project);
	return Math.round((many - few) / (MANY - FEW));
}

/// Returns the fewest calls of several runs: on a busy machine threads wait for each other by calls that are no part of the work.
async function least(steps, home, project) {
	const totals = [];
	for (let run = 0; run < RUNS; run++) {
		totals.push(await total(steps, home, project));
	}
	return Math.min(...totals);
}

async function total(steps, home, project) {
	const counts = path.join(process.env.FOLDER, "counts");
	const env = {
		HOME: home,
		COUNTS: counts,
		PROGRAM: process.env.PROGRAM,
		[provider.key]: "none",
		[provider.variable]: server.url + provider.path,
	};
	const args = ["run", "-m", provider.model, "-p", "full-auto", "--max-steps", "100", "-o", "json", prompt(steps)];
	const { code, rows, stderr } = await crow(args, { cwd: project, env, patience: 120_000 });
	const ends = rows.filter(({ type }) => type === "call_end");
	const good = ends.filter(({ result }) => result.status === "success");
	checks.equal(`${steps} steps: exit code`, [code, code === 0 ? "" : stderr], [0, ""]);
	checks.equal(`${steps} steps: commands that ran`, good.length, steps);
	return read(counts);
}

/// The total of a summary: in its last line, the number before the errors.
function read(counts) {
	const lines = fs.readFileSync(counts, "utf8").trim().split("\n");
	const [, , , calls] = lines.at(-1).trim().split(/\s+/);
	return Number(calls);
}

/// The calls of the shell alone.
function bash() {
	const counts = path.join(process.env.FOLDER, "bash");
	execFileSync("strace", ["-f", "-qq", "-c", "-o", counts, "bash", "-c", COMMAND]);
	return read(counts);
}

function prompt(steps) {
	return `Take ${steps} steps.`;
}

function next(messages, steps) {
	const seen = messages.filter(({ role }) => role === "tool").length;
	if (seen === steps) {
		return { content: "Done." };
	}
	// The same call again and again would end the run.
	return { toolCalls: [{ name: "bash", arguments: JSON.stringify({ command: `${COMMAND} ${seen}` }) }] };
}
