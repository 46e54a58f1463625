// Makes a session against a mock of a model service, and looks at its report in a browser.
import assert from "node:assert/strict";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { createRequire } from "node:module";

import { ANSWER, BEFORE, PROMPT, TURNS } from "../aimock/conversation.mjs";
import { crow } from "../shared/crow.mjs";
import { PROVIDERS, start } from "../shared/server.mjs";

const require = createRequire(path.join(process.env.MODULES, "none.js"));
const { chromium } = require("playwright-core");
const axe = fs.readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

const HOSTILE = "<img src=http://127.0.0.1:9/x onerror=\"document.title='ran'\"><script>document.title='ran'</script>";
const provider = PROVIDERS.find(({ name }) => name === "anthropic");
const folder = fs.mkdtempSync(path.join(os.tmpdir(), "crow-report-"));
const [home, project] = ["home", "project"].map((name) => path.join(folder, name));
fs.mkdirSync(home);
fs.mkdirSync(project);
fs.writeFileSync(path.join(project, "notes.txt"), `${BEFORE}${HOSTILE}\n`);

// 1) A session.
const server = await start(TURNS);
const KEY = "sk-ant-0123456789-of-the-report";
const env = { HOME: home, CROW_WIRE_LOG: "1", [provider.key]: KEY, [provider.variable]: server.url + provider.path };
const inProject = { cwd: project, env };
try {
	const run = await crow(["run", "-m", provider.model, "-o", "json", "-p", "full-auto", PROMPT], inProject);
	assert.equal(run.code, 0, run.stderr);
} finally {
	await server.stop();
}

// 2) What the other commands say about it agrees with itself.
const trace = await crow(["trace", "-o", "json"], inProject);
assert.equal(trace.code, 0, trace.stderr);
const of = (kind) => trace.rows.filter((span) => span.work.kind === kind);
assert.deepEqual([of("run").length, of("turn").length, of("model_call").length, of("tool_call").length], [1, 1, 3, 3]);
const ledger = await crow(["ledger", "-o", "json"], inProject);
assert.equal(ledger.rows.length, 3);
for (const { shares, usage } of ledger.rows) {
	const sum = shares.reduce((sum, share) => sum + share.tokens, 0);
	assert.equal(sum, usage.input_tokens);
}
const stats = await crow(["stats", "--by", "tool", "-o", "json"], inProject);
assert.equal(stats.result.tool_calls, 3);
const stored = fs.readdirSync(path.join(home, ".local/share/crow-agent/telemetry"));
assert.equal(stored.length, 1);
const kept = fs.readFileSync(path.join(home, ".local/share/crow-agent/telemetry", stored[0]), "utf8");
assert.ok(!kept.includes("greeting"), "the local store keeps no content");
assert.equal(kept.trim().split("\n").length, trace.rows.length);

const wire = await crow(["wire", "-o", "json"], inProject);
assert.equal(wire.rows.length, 3);
assert.ok(wire.rows.every(({ request, response }) => request.includes("messages") && response.includes("event:")));
assert.ok(!wire.lines.some((line) => line.includes(KEY)));

// 3) The report in a browser.
const file = path.join(folder, "report.html");
const report = await crow(["report", "--out", file], inProject);
assert.equal(report.code, 0, report.stderr);
assert.equal(fs.statSync(file).mode & 0o777, 0o600);
const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox"] });
try {
	for (const colorScheme of ["light", "dark"]) {
		for (const width of [360, 800, 1400]) {
			await look(browser, { colorScheme, width });
		}
	}
	const still = await browser.newPage({ javaScriptEnabled: false });
	await still.goto(`file://${file}`);
	assert.ok((await still.locator("main").innerText()).includes(ANSWER), "readable without scripts");
} finally {
	await browser.close();
}
fs.rmSync(folder, { recursive: true });
console.log("the report is the same in light and dark at three widths: no request, no error, no violation");

async function look(browser, { colorScheme, width }) {
	const context = await browser.newContext({ colorScheme, viewport: { width, height: 900 }, bypassCSP: false });
	const page = await context.newPage();
	const [requests, errors] = [[], []];
	page.on("request", (request) => requests.push(request.url()));
	page.on("console", (message) => errors.push(message.text()));
	page.on("pageerror", (error) => errors.push(String(error)));
	await page.goto(`file://${file}`);
	assert.deepEqual(requests, [`file://${file}`]);
	assert.deepEqual(errors, []);
	assert.ok(!(await page.title()).includes("ran"));
	// Every part can be opened with the keyboard, and nothing is wider than the screen.
	for (const summary of await page.locator("summary").all()) {
		await summary.focus();
		await page.keyboard.press("Enter");
	}
	assert.ok((await page.locator("main").innerText()).includes("onerror="), "hostile text is shown as text");
	const [shown, whole] = await page.evaluate(() => [innerWidth, document.documentElement.scrollWidth]);
	assert.ok(whole <= shown, `${whole} > ${shown} at ${width}`);
	await context.close();
	// The rules are injected, which the page's policy forbids.
	const open = await browser.newContext({ colorScheme, viewport: { width, height: 900 }, bypassCSP: true });
	const audited = await open.newPage();
	await audited.goto(`file://${file}`);
	await audited.evaluate(() => document.querySelectorAll("details").forEach((part) => (part.open = true)));
	await audited.evaluate(axe);
	const found = await audited.evaluate(() => globalThis.axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21aa"] }));
	const violations = found.violations.map(({ id, nodes }) => `${id}: ${nodes[0].html} ${nodes[0].failureSummary}`);
	assert.deepEqual(violations, [], `${colorScheme} ${width}`);
	await open.close();
}
