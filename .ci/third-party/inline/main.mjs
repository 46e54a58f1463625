// Talks with the program in tmux, and looks at everything that tmux keeps of it.
import { execFileSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";

import { Checks } from "../shared/checks.mjs";
import { start } from "./server.mjs";

const LINES = 100_000;
/// Answers that have these lines together.
const ANSWERS = 4;
const RESIZES = 200;
/// Longest time between two changes of the size while an answer streams, in milliseconds. Some follow each other at once.
const PAUSE = 500;
const PATIENCE = 100_000;
/// Parts of the status line below the prompt, and of the line below a run.
const STATUS = "% of context";
const RUN_END = / in · .* out/;
/// Lines between answers: the prompts, and the ends of runs.
const CHROME = [/^> part \d$/, RUN_END];
/// With a window that takes all answers: the conversation is not compacted.
const PROVIDER = (url) => `[provider]
name = "steady"
type = "anthropic-messages"
base_url = "${url}"

[auth]
api_key = "none"

[models.large]
context_window = 100000000
`;

const TABLE = "# A title\n\n| a | b |\n|---|---|\n| x | y |\n\n- one\n  - two";

/// The words of a line; each word is there once in the whole answer. Every fifth line wraps on most terminals.
const words = (line) => Array.from({ length: line % 5 === 0 ? 14 : 4 }, (_, word) => `L${line}-${"abcdefghijklmn"[word]}`);

/// One of the answers: paragraphs, lists and code.
function longAnswer(number) {
	const parts = [];
	const length = LINES / ANSWERS;
	for (let line = number * length; line < (number + 1) * length; line += 1) {
		const text = words(line).join(" ");
		const [block, position] = [Math.floor(line / 20) % 3, line % 20];
		if (block === 0) {
			parts.push(`${text}\n\n`);
		} else if (block === 1) {
			parts.push(`- ${text}\n${position === 19 ? "\n" : ""}`);
		} else {
			parts.push(`${position === 0 ? "```\n" : ""}${text}\n${position === 19 ? "```\n\n" : ""}`);
		}
	}
	return parts.join("");
}

const server = await start((prompt) => (prompt.startsWith("part ") ? longAnswer(Number(prompt.slice(5))) : TABLE));
const socket = path.join(process.env.FOLDER, "tmux");
const checks = new Checks("inline");

const tmux = (...args) => execFileSync("tmux", ["-S", socket, ...args], { encoding: "utf8", maxBuffer: 1 << 28 });
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

/// The sizes and pauses are the same in every run, unless INLINE_SEED is another number.
let random = Number(process.env.INLINE_SEED ?? 12345);
const next = (most) => {
	random = (random * 1103515245 + 12345) % 2147483648;
	return Math.floor((random / 2147483648) * most);
};
const resize = () => tmux("resize-window", "-x", String(40 + next(90)), "-y", String(12 + next(40)));

/// The differences between what is shown of the long answers and what should be. White space and bullets do not count: code that
/// is too long for a row is cut anywhere.
function differences(text) {
	const lines = text.split("\n").filter((line) => !CHROME.some((kind) => kind.test(line)));
	const plain = lines.join("").replaceAll(/[\s•]/g, "");
	const expected = Array.from({ length: LINES }, (_, line) => words(line).join("")).join("");
	const beginning = plain.indexOf(expected.slice(0, 20));
	const shown = plain.slice(beginning, plain.lastIndexOf(expected.slice(-10)) + 10);
	const found = [];
	let [at, next] = [0, 0];
	while (next < expected.length) {
		if (shown[at] === expected[next]) {
			[at, next] = [at + 1, next + 1];
			continue;
		}
		// Goes on where both are the same again: behind what is too much, or else behind what is missing.
		const later = shown.indexOf(expected.slice(next, next + 40), at);
		if (later >= 0) {
			found.push(`too much before ${expected.slice(next, next + 10)}: ${shown.slice(at, later).slice(0, 200)}`);
			at = later;
		} else {
			found.push(`missing: ${expected.slice(next, next + 40)}`);
			next += 40;
			at = Math.max(at, shown.indexOf(expected.slice(next, next + 40), at));
		}
	}
	return found;
}

try {
	const home = path.join(process.env.FOLDER, "home");
	const providers = path.join(home, ".config/crow-agent/providers");
	mkdirSync(providers, { recursive: true });
	writeFileSync(path.join(providers, "steady.toml"), PROVIDER(server.url));
	const variables = { HOME: home, PATH: process.env.PATH, LANG: "C.UTF-8", SHLVL: "1" };
	const assignments = Object.entries(variables).map(([name, value]) => `${name}=${value}`);
	const term = ["TERM=tmux-256color", "TMUX=$TMUX"];
	const program = ["env", "-i", ...term, ...assignments, process.env.CROW_AGENT, "-m", "steady/large"];
	const project = path.join(process.env.FOLDER, "project");
	const command = `${program.join(" ")}; echo ended with $?; exec cat`;
	const session = ["new-session", "-d", "-x", "80", "-y", "24", "-c", project, command];
	// The history has to be set before the session begins.
	tmux("-f", "/dev/null", "start-server", ";", "set-option", "-g", "history-limit", "1000000", ";", ...session);
	await until("the prompt", (text) => text.includes(STATUS));

	tmux("send-keys", "table", "Enter");
	await until("a table", (text) => text.includes("│ x │ y │") && RUN_END.test(text));
	checks.holds("a list is rendered", /• one\n {2}• two/.test(screen()), screen());

	// 1) The size changes while answers stream.
	const begun = Date.now();
	let isStreaming = true;
	const changes = (async () => {
		let count = 0;
		for (; count < RESIZES && isStreaming; count += 1) {
			resize();
			await pause(next(4) === 0 ? 0 : next(PAUSE));
		}
		return count;
	})();
	for (let answer = 0; answer < ANSWERS; answer += 1) {
		tmux("send-keys", `part ${answer}`, "Enter");
		const last = words(((answer + 1) * LINES) / ANSWERS - 1)[3];
		await until(`the end of answer ${answer}`, (text) => text.includes(last) && RUN_END.test(text.split(last).at(-1)));
	}
	isStreaming = false;
	const seconds = (Date.now() - begun) / 1000;
	console.log(`inline: ${await changes} changes of the size, ${LINES} lines in ${seconds} s`);
	checks.equal("all changes came while answers streamed", await changes, RESIZES);
	checks.equal("no line is lost, doubled or torn while answers stream", differences(everything()), []);

	// 2) The size changes while something is typed. A change is complete when the status line is there once.
	tmux("send-keys", "-l", "half a line");
	await until("the typed text", (text) => text.includes("> half a line"));
	const below = () => everything().split(words(LINES - 1)[3]).at(-1);
	const isSettled = () => below().split("> half a line").length === 2 && below().split(STATUS).length === 2;
	for (let count = 0; count < 20; count += 1) {
		resize();
		await until(`one prompt after change ${count}`, isSettled);
	}
	tmux("resize-window", "-x", "100", "-y", "30");
	await until("one prompt", isSettled);
	checks.equal("no line is lost, doubled or torn at the prompt", differences(everything()), []);
	tmux("send-keys", "C-c");
	await until("an empty prompt", (text) => !text.includes("half a line"));

	tmux("send-keys", "C-d");
	await until("the end of the program", (text) => text.includes("ended with 0"));
	checks.holds("the session can be continued", /crow-agent --resume\s+[0-9a-f-]{36}/.test(screen()), screen());
	checks.holds("the prompt is gone", !everything().includes(STATUS), screen());
} finally {
	tmux("kill-server");
	server.stop();
}
checks.finish();
