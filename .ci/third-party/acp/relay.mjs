// Stands between a client and the agent and writes down each line in both directions. usage: relay.mjs NAME [ARG...]
import { spawn } from "node:child_process";
import fs from "node:fs";
import path from "node:path";

const [name, ...args] = process.argv.slice(2);
const stem = path.join(process.env.RECORDS, name);
const record = fs.openSync(`${stem}.jsonl`, "a");
const errors = fs.openSync(`${stem}.err`, "a");
const note = (row) => fs.writeSync(record, `${JSON.stringify(row)}\n`);
const child = spawn(process.env.CROW_AGENT, ["acp", ...args], { stdio: ["pipe", "pipe", errors] });
fs.writeFileSync(`${stem}.pid`, `${child.pid}`);

/// Passes on what comes at once, and notes whole lines.
function pass(from, source, target) {
	let rest = [];
	source.on("data", (bytes) => {
		target.write(bytes);
		for (;;) {
			const end = bytes.indexOf(10);
			if (end < 0) {
				break;
			}
			rest.push(bytes.subarray(0, end));
			note({ from, line: Buffer.concat(rest).toString() });
			rest = [];
			bytes = bytes.subarray(end + 1);
		}
		rest.push(bytes);
	});
	source.on("end", () => {
		const torn = Buffer.concat(rest).toString();
		if (torn !== "") {
			note({ from, torn });
		}
		target.end();
	});
	target.on("error", () => {});
}

pass("client", process.stdin, child.stdin);
pass("agent", child.stdout, process.stdout);
child.on("close", (code, signal) => {
	note({ exit: code, signal });
	process.exit(code ?? 1);
});
