// Lets the program say all that it can say in JSON: one file of lines per run.
import fs from "node:fs";
import os from "node:os";
import path from "node:path";

import { BEFORE, PROMPT, TURNS, always, once } from "../aimock/conversation.mjs";
import { run } from "../aimock/run.mjs";
import { crow } from "../shared/crow.mjs";
import { PROVIDERS, start } from "../shared/server.mjs";

const bare = { cwd: os.tmpdir(), env: { HOME: path.join(os.tmpdir(), "home"), TMPDIR: os.tmpdir() } };
const provider = PROVIDERS.find(({ name }) => name === "anthropic");
const refused = { response: { error: { message: "no such key", type: "authentication_error" }, status: 401 } };

const server = await start([once(0, { truncateAfterChunks: 8, latency: 5 }), ...TURNS]);
try {
	keep("retried", await run(provider, server.url));
	server.replace([always(0, refused)]);
	keep("refused", await run(provider, server.url));
	server.replace(TURNS);
	keep("limited", await run(provider, server.url, ["-p", "full-auto", "--max-steps", "1"]));
	server.replace(TURNS);
	keep("asked", await run(provider, server.url, ["-p", "ask"]));
} finally {
	await server.stop();
}
// Whole sessions in a home that stays, for what is told about them afterwards.
const folder = fs.mkdtempSync(path.join(os.tmpdir(), "crow-told-"));
fs.writeFileSync(path.join(folder, "notes.txt"), BEFORE);
const again = await start(TURNS);
const env = { HOME: folder, [provider.key]: "none", [provider.variable]: again.url + provider.path };
try {
	keep("told", await crow(["run", "-m", provider.model, "-o", "json", "-p", "full-auto", PROMPT], { cwd: folder, env }));
} finally {
	await again.stop();
}
keep("trace", await crow(["trace", "-o", "json"], { cwd: folder, env }));
keep("ledger", await crow(["ledger", "-o", "json"], { cwd: folder, env }));
keep("stats", await crow(["stats", "-o", "json"], { cwd: folder, env }));
keep("demo", await crow(["demo", "--fast", "-o", "json"], bare));
keep("no-key", await crow(["run", "-o", "json", "-m", provider.model, "hello"], bare));
keep("no-model", await crow(["run", "-o", "json", "-m", "nobody/nothing", "hello"], bare));
keep("no-session", await crow(["run", "-o", "json", "--resume", "nothing", "hello"], bare));
keep("no-option", await crow(["run", "-o", "json", "--no-such-option", "hello"], bare));

function keep(name, { code, lines }) {
	fs.writeFileSync(path.join(process.env.LINES, `${name}.${code}.jsonl`), lines.map((line) => `${line}\n`).join(""));
}
