// Talks with the program in tmux, and looks at everything that tmux keeps of it.
import { execFileSync } from "node:child_process";
import path from "node:path";

import { Checks } from "../shared/checks.mjs";
import { PROVIDERS, start } from "../shared/server.mjs";

const PARAGRAPHS = 400;
const RESIZES = 40;
const PATIENCE = 60_000;
const STATUS = "BUILD-HITL · ask";

const paragraph = (number) => `Paragraph ${number} with some **words**, and more of them than fit on one row of a narrow terminal.`;
const answer = Array.from({ length: PARAGRAPHS }, (_, number) => paragraph(number)).join("\n\n");
const table = "# A title\n\n| a | b |\n|---|---|\n| x | y |\n\n- one\n  - two";
const provider = PROVIDERS.find(({ name }) => name === "openai");
const server = await start([
	{ match: { userMessage: "long" }, response: { content: answer } },
	{ match: { userMessage: "table" }, response: { content: table } },
]);
const socket = path.join(process.env.FOLDER, "tmux");
const checks = new Checks("inline");

const tmux = (...args) => execFileSync("tmux", ["-S", socket, ...args], { encoding: "utf8" });
const screen = () => tmux("capture-pane", "-p");
/// Everything since the beginning, with rows that tmux wrapped joined.
const everything = () => tmux("capture-pane", "-p", "-J", "-S", "-");
const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

async function until(what, holds) {
	const end = Date.now() + PATIENCE;
	while (!holds(screen())) {
		if (Date.now() > end) {
			throw new Error(`not seen: ${what}\n${screen()}`);
		}
		await pause(30);
	}
}

try {
	const home = path.join(process.env.FOLDER, "home");
	const variables = { HOME: home, PATH: process.env.PATH, LANG: "C.UTF-8", SHLVL: "1", [provider.key]: "none" };
	variables[provider.variable] = server.url + provider.path;
	const words = Object.entries(variables).map(([name, value]) => `${name}=${value}`);
	const program = ["env", "-i", "TERM=tmux-256color", ...words, process.env.CROW_AGENT, "--inline", "-m", provider.model];
	tmux("-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "24", "-c", path.join(process.env.FOLDER, "project"), "sh");
	tmux("set-option", "-g", "history-limit", "50000");
	tmux("respawn-window", "-k", "-c", path.join(process.env.FOLDER, "project"), `${program.join(" ")}; echo ended with $?; exec cat`);
	await until("the prompt", (text) => text.includes(STATUS));

	tmux("send-keys", "table", "Enter");
	await until("a table", (text) => text.includes("│ x │ y │") && text.includes(" out"));
	checks.holds("a list is rendered", /• one\n {2}• two/.test(screen()), screen());

	tmux("send-keys", "long", "Enter");
	const isOver = (text) => text.includes(`Paragraph ${PARAGRAPHS - 1} `) && / out/.test(text.split("Paragraph").at(-1));
	await until("the end", isOver);
	tmux("send-keys", "-l", "half a line");
	await until("what is typed", (text) => text.includes("> half a line"));
	// The sizes are the same in every run. A change is complete when the status line is there once.
	let random = 12345;
	const next = (most) => {
		random = (random * 1103515245 + 12345) % 2147483648;
		return random % most;
	};
	const isSettled = () => everything().split("> half a line").length === 2 && everything().split(STATUS).length === 2;
	for (let count = 0; count < RESIZES; count += 1) {
		tmux("resize-window", "-x", String(40 + next(90)), "-y", String(12 + next(40)));
		await until(`one prompt after change ${count}`, isSettled);
	}
	tmux("resize-window", "-x", "100", "-y", "30");
	await until("one prompt", isSettled);
	const text = everything();
	const numbers = [...text.matchAll(/^Paragraph (\d+) /gm)].map(([, number]) => Number(number));
	const expected = Array.from({ length: PARAGRAPHS }, (_, number) => number);
	checks.equal("each paragraph is there once, in order", numbers, expected);
	tmux("send-keys", "C-c");
	await until("an empty prompt", (shown) => !shown.includes("half a line"));

	tmux("send-keys", "C-d");
	await until("the end of the program", (shown) => shown.includes("ended with 0"));
	checks.holds("the session can be continued", /crow-agent --resume\s+[0-9a-f-]{36}/.test(screen()), screen());
	checks.holds("the prompt is gone", !everything().includes(STATUS), screen());
} finally {
	tmux("kill-server");
	await server.stop();
}
checks.finish();
