// Drives the program against llama.cpp's server in the three wire formats that it speaks.
import { spawn } from "node:child_process";
import { once } from "node:events";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { createInterface } from "node:readline";

import { Checks } from "../shared/checks.mjs";
import { crow } from "../shared/crow.mjs";

const FORMATS = ["llamacpp", "anthropic", "openai"];
/// A machine that is busy elsewhere reads and writes slowly.
const PATIENCE = 120_000;
/// Longer than the server's window.
const TOO_LONG = "hello ".repeat(4000);

const checks = new Checks("llamacpp");
const python = spawn(process.env.PYTHON, [path.join(import.meta.dirname, "serve.py")], {
	stdio: ["pipe", "pipe", "ignore"],
});
const ended = once(python, "exit").then(([code]) => {
	throw new Error(`llama.cpp's server ended with exit code ${code} before it listened`);
});
const [line] = await Promise.race([once(createInterface({ input: python.stdout }), "line"), ended]);
ended.catch(() => {});
const address = line.trim();
const home = path.join(os.tmpdir(), "home");
try {
	await discovery();
	for (const format of FORMATS) {
		describe(format);
	}
	for (const format of FORMATS) {
		await answers(format);
		await tooLong(format);
	}
} finally {
	python.stdin.end();
}
checks.finish();

/// Without a key, the server that runs here is found, and asked once it is chosen.
async function discovery() {
	const env = { HOME: home, LLAMACPP_HOST: address };
	const { code, result } = await crow(["models", "llamacpp", "-o", "json"], { cwd: os.tmpdir(), env });
	checks.equal("models: exit code", code, 0);
	checks.holds("models: the model is listed", result.served?.includes("smol"), result);
	const refused = await crow(asking("Say hello."), { cwd: os.tmpdir(), env, patience: PATIENCE });
	checks.equal("not chosen: exit code", refused.code, 3);
	const chosen = [...asking("Say hello."), "-m", "llamacpp/smol"];
	spoke("no key", await crow(chosen, { cwd: os.tmpdir(), env, patience: PATIENCE }));
}

/// A provider of its own for each wire format, whose answers are short.
function describe(format) {
	const folder = path.join(home, ".config", "crow-agent", "providers");
	fs.mkdirSync(folder, { recursive: true });
	const text = `[provider]\nname = "small-${format}"\ntype = "${format}"\n\n[defaults]\nmax_tokens = 12\n`;
	fs.writeFileSync(path.join(folder, `${format}.toml`), text);
}

async function answers(format) {
	spoke(format, await crow([...asking("Say hello."), "-m", `small-${format}/smol`], surroundings()));
}

async function tooLong(format) {
	const { code, result } = await crow([...asking(TOO_LONG), "-m", `small-${format}/smol`], surroundings());
	checks.equal(`${format}: exit code of a prompt that is too long`, code, 1);
	checks.equal(`${format}: the reason`, result.error?.code, "context_length");
}

/// Something was said, and nothing on the way was misunderstood. A tiny model seldom ends by itself: 5 is a limit.
function spoke(what, { code, rows, result, stderr }) {
	checks.holds(`${what}: exit code`, code === 0 || code === 5, { code, error: result.error, stderr });
	const blocks = rows.filter(({ type }) => type === "reply").flatMap((reply) => reply.blocks);
	const text = blocks.map(({ content }) => content.text ?? "").join("");
	checks.holds(`${what}: text`, text !== "", blocks);
	checks.holds(`${what}: usage`, result.usage?.input_tokens > 0 && result.usage?.output_tokens > 0, result.usage);
	const kinds = rows.map((row) => row.error?.kind).filter((kind) => ["truncated", "decode"].includes(kind));
	checks.equal(`${what}: everything is understood`, kinds, []);
}

function asking(prompt) {
	return ["run", "-o", "json", "--max-steps", "1", prompt];
}

function surroundings() {
	const env = {
		HOME: home,
		LLAMACPP_HOST: address,
		ANTHROPIC_BASE_URL: address,
		OPENAI_BASE_URL: `${address}/v1`,
		ANTHROPIC_API_KEY: "none",
		OPENAI_API_KEY: "none",
	};
	return { cwd: os.tmpdir(), env, patience: PATIENCE };
}
