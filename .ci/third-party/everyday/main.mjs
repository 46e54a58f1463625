// Lets the program do the work of a day in full-auto, and looks at whether anything was asked, refused or failed.
import { execFileSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";

import { Checks } from "../shared/checks.mjs";
import { crow } from "../shared/crow.mjs";
import { PROVIDERS, start } from "../shared/server.mjs";
import { FILES } from "./project.mjs";

const PROMPT = "Run everything.";
const ANSWER = "All of it works.";

/// The lines, and what each must show.
const LINES = [
	[".venv/bin/pytest -q -p no:cacheprovider", "3 passed"],
	[".venv/bin/python -m pytest -q --basetemp=scratch test_server.py", "3 passed"],
	["npm test --silent", "# pass 1"],
	["cargo test --offline --quiet", "1 passed"],
	["git add -A && git commit -qm work && git log --oneline", "work"],
	["git checkout -q -b topic && git stash list && git worktree list && git diff --stat HEAD~1", "test_server.py"],
];

const project = path.join(process.env.FOLDER, "project");
const home = path.join(process.env.FOLDER, "home");
const provider = PROVIDERS.find(({ name }) => name === "openai-chat");
const checks = new Checks("everyday");
prepare();
const server = await start([{ match: { userMessage: PROMPT }, response: ({ messages }) => next(messages) }]);
try {
	await everything();
} finally {
	await server.stop();
}
checks.finish();

async function everything() {
	const env = { HOME: home, [provider.key]: "none", [provider.variable]: server.url + provider.path };
	const doctor = await crow(["doctor"], { cwd: project, env });
	const isWhole = doctor.lines.some((line) => line.includes("namespaces, Landlock and seccomp confine"));
	if (!isWhole && process.env.CROW_SANDBOX === "partial") {
		console.log("this kernel has no whole sandbox: what follows shows what works in a part of it");
	} else {
		checks.holds("the whole sandbox is there", isWhole, doctor.lines);
	}
	const args = ["run", "-m", provider.model, "-p", "full-auto", "-o", "json", PROMPT];
	const { code, rows, result, stderr } = await crow(args, { cwd: project, env, patience: 240_000 });
	checks.equal("exit code", code, 0);
	checks.equal("the answer", result.text, ANSWER);
	const asked = rows.filter(({ type }) => type.startsWith("permission_request"));
	checks.equal("nothing is asked", asked, []);
	const ends = rows.filter(({ type }) => type === "call_end");
	checks.equal("all lines ran", ends.length, LINES.length);
	for (const [at, [line, shown]] of LINES.entries()) {
		const end = ends[at]?.result ?? {};
		checks.equal(`${line}: status`, end.status, "success");
		checks.holds(`${line}: shows ${shown}`, end.output?.includes(shown), [end.output, end.error, stderr]);
	}
}

/// The next line, after as many results as the model has seen.
function next(messages) {
	const seen = messages.filter(({ role }) => role === "tool").length;
	if (seen === LINES.length) {
		return { content: ANSWER };
	}
	const input = { command: LINES[seen][0], timeout: 120_000 };
	return { toolCalls: [{ name: "bash", arguments: JSON.stringify(input) }] };
}

/// Makes the project, with a first commit.
function prepare() {
	fs.mkdirSync(home);
	for (const [name, text] of Object.entries(FILES)) {
		const file = path.join(project, name);
		fs.mkdirSync(path.dirname(file), { recursive: true });
		fs.writeFileSync(file, text);
	}
	const git = (...args) => execFileSync("git", args, { cwd: project, env: { PATH: process.env.PATH, HOME: home } });
	git("init", "-q", "-b", "main");
	git("config", "user.email", "a@b.invalid");
	git("config", "user.name", "a");
	git("add", ".gitignore");
	git("commit", "-qm", "first");
}
