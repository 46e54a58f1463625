// Runs the program and reads what it says.
import { spawn } from "node:child_process";

/// A run that takes longer than the patience hangs: it is killed and has no exit code.
const PATIENCE = 60_000;

/// Returns the exit code, the lines of standard output, what they hold, the last of that, and standard error.
export async function crow(args, { cwd, env, patience = PATIENCE }) {
	const began = Date.now();
	const options = { cwd, env: { PATH: process.env.PATH, ...env }, stdio: ["ignore", "pipe", "pipe"] };
	const child = spawn(process.env.CROW_AGENT, args, options);
	const timer = setTimeout(() => child.kill("SIGKILL"), patience);
	const ended = new Promise((resolve) => child.on("close", resolve));
	const [stdout, stderr, code] = await Promise.all([text(child.stdout), text(child.stderr), ended]);
	clearTimeout(timer);
	const lines = stdout.split("\n").filter((line) => line !== "");
	const rows = args.includes("json") ? lines.map((line) => JSON.parse(line)) : lines;
	return { code, lines, rows, result: rows.at(-1) ?? {}, stderr, seconds: (Date.now() - began) / 1000 };
}

async function text(stream) {
	const pieces = [];
	for await (const piece of stream) {
		pieces.push(piece);
	}
	return Buffer.concat(pieces).toString();
}
