// Looks at the live view as its users would.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import fs from "node:fs";
import http from "node:http";
import net from "node:net";
import os from "node:os";
import path from "node:path";
import { createRequire } from "node:module";

import { startModel } from "./model.mjs";

const require = createRequire(path.join(process.env.MODULES, "none.js"));
const { chromium } = require("playwright-core");
const axe = fs.readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

const PICTURES = process.env.PICTURES;
const folder = fs.mkdtempSync(path.join(os.tmpdir(), "crow-serve-"));
const [home, project] = ["home", "project"].map((name) => path.join(folder, name));
fs.mkdirSync(project);
fs.mkdirSync(path.join(home, ".config/crow-agent/providers"), { recursive: true });
const model = await startModel();
fs.writeFileSync(
	path.join(home, ".config/crow-agent/providers/lab.toml"),
	`[provider]\nname = "lab"\ntype = "openai-chat"\nbase_url = "${model.url}"\n\n[models."test"]\ncontext_window = 100000\nmax_output_tokens = 1000\nprice = { input = 1.0, output = 2.0 }\n`,
);
const env = { PATH: process.env.PATH, HOME: home, NO_PROXY: "127.0.0.1", no_proxy: "127.0.0.1" };

const server = await startServer();
const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox"] });
try {
	await refusals();
	await conversation();
	await otherProcess();
	await narrow();
	await fifty();
	await slowReader();
	await restart();
} finally {
	await browser.close();
	server.child.kill("SIGKILL");
	model.stop();
}
fs.rmSync(folder, { recursive: true, force: true });
console.log("the live view works in a browser");

// --- The program ---

async function startServer(port = 0) {
	const child = spawn(process.env.CROW_AGENT, ["serve", "--keep-token", "--listen", `127.0.0.1:${port}`, "-m", "lab/test"], { cwd: project, env, stdio: ["ignore", "ignore", "pipe"] });
	let said = "";
	const url = await new Promise((resolve, reject) => {
		child.stderr.on("data", (piece) => {
			said += piece;
			const found = /http:\/\/(127\.0\.0\.1:\d+)\/#token=(\w+)/.exec(said);
			if (found) {
				resolve({ host: found[1], token: found[2], address: found[0] });
			}
		});
		child.on("exit", (code) => reject(new Error(`the program ended with ${code}: ${said}`)));
	});
	return { child, ...url, said: () => said };
}

function api(method, target, { body, headers = {}, token = server.token, host = server.host } = {}) {
	return new Promise((resolve, reject) => {
		const authorization = token === null ? {} : { authorization: `Bearer ${token}` };
		const options = { method, agent: false, headers: { host, ...authorization, ...headers } };
		const request = http.request(`http://${server.host}${target}`, options, async (response) => {
			const pieces = [];
			for await (const piece of response) {
				pieces.push(piece);
			}
			const text = Buffer.concat(pieces).toString();
			resolve({ status: response.statusCode, headers: response.headers, text });
		});
		// A server that refuses a body need not read it.
		request.on("error", (error) => (error.code === "ECONNRESET" || error.code === "EPIPE" ? resolve({ status: 0 }) : reject(error)));
		request.end(body === undefined ? undefined : JSON.stringify(body));
	});
}

async function until(what, condition, patience = 20_000) {
	const end = Date.now() + patience;
	for (;;) {
		const value = await condition();
		if (value) {
			return value;
		}
		assert.ok(Date.now() < end, `waited in vain: ${what}`);
		await new Promise((next) => setTimeout(next, 20));
	}
}

// --- Who is refused ---

async function refusals() {
	const page = await api("GET", "/", { token: null });
	assert.equal(page.status, 200);
	assert.match(page.headers["content-security-policy"], /default-src 'none'/);
	assert.ok(!page.text.includes(server.token), "the page holds no token");
	assert.equal((await api("GET", "/", { token: null, host: "evil.example" })).status, 403);
	assert.equal((await api("GET", "/api/about", { token: null })).status, 401);
	assert.equal((await api("GET", "/api/about", { token: `${server.token}0` })).status, 401);
	assert.equal((await api("GET", "/api/about", { host: "evil.example" })).status, 403);
	assert.equal((await api("GET", "/api/about", { headers: { origin: "http://evil.example" } })).status, 403);
	assert.equal((await api("GET", "/api/about", { headers: { origin: `http://${server.host}` } })).status, 200);
	assert.equal((await api("GET", "/api/sessions/none/events")).status, 404);
	assert.equal((await api("GET", "/api/sessions/..%2f..%2fetc/views")).status, 404);
	assert.equal((await api("POST", "/api/sessions/none/cancel")).status, 409);
	assert.equal((await api("POST", "/api/sessions", { body: { cwd: project } })).status, 400);
	assert.equal((await api("POST", "/api/sessions", { body: { cwd: "relative", prompt: "x" } })).status, 400);
	assert.equal((await api("POST", "/api/sessions", { body: { cwd: path.join(project, "gone"), prompt: "x" } })).status, 422);
	assert.ok([413, 0].includes((await api("POST", "/api/sessions", { body: { cwd: project, prompt: "x".repeat(2_000_000) } })).status));
	assert.equal((await api("DELETE", "/api/sessions")).status, 405);
}

// --- A session from its first prompt to its undo ---

async function newPage({ width = 1400, height = 900, colorScheme = "light", address = server.address } = {}) {
	const context = await browser.newContext({ colorScheme, viewport: { width, height }, acceptDownloads: true });
	const page = await context.newPage();
	const errors = [];
	page.on("console", (message) => message.type() === "error" && errors.push(message.text()));
	page.on("pageerror", (error) => errors.push(String(error)));
	await page.goto(address);
	await page.locator("#panes").waitFor();
	return { page, errors, context };
}

function state(page, word) {
	return page.locator("#session #state", { hasText: word }).waitFor();
}

async function picture(page, name) {
	if (PICTURES) {
		await page.screenshot({ path: path.join(PICTURES, `${name}.png`) });
	}
}

async function startSession(page, prompt) {
	await page.goto(`http://${server.host}/#/`);
	await page.fill("#prompt", prompt);
	await page.click("#start-form button[type=submit]");
	await page.locator("#session").waitFor();
	return decodeURIComponent(new URL(page.url()).hash.slice("#/sessions/".length));
}

async function conversation() {
	const { page, errors, context } = await newPage();
	assert.ok(!page.url().includes(server.token), "the token does not stay in the address");

	// 1) A change is asked about, and shown before it is made.
	await startSession(page, "#write a note");
	const question = page.locator(".question");
	await question.waitFor();
	await state(page, "asks you");
	assert.match(await question.innerText(), /notes\.txt/);
	assert.equal(await question.locator(".diff .p").count(), 2);
	await picture(page, "question");
	assert.ok(!fs.existsSync(path.join(project, "notes.txt")));
	await question.locator("button.yes").click();
	await state(page, "ready");
	await page.locator("#entries", { hasText: "Wrote it." }).waitFor();
	assert.equal(fs.readFileSync(path.join(project, "notes.txt"), "utf8"), "one\ntwo\n");
	assert.equal(await question.count(), 0);

	// 2) Undo and redo.
	await page.click("#undo");
	await until("the undo", () => !fs.existsSync(path.join(project, "notes.txt")));
	await page.click("#redo");
	await until("the redo", () => fs.existsSync(path.join(project, "notes.txt")));

	// 3) A question of the agent.
	await page.fill("#message", "#ask me");
	await page.press("#message", "Enter");
	await page.locator(".question button", { hasText: "left" }).click();
	await page.locator("#entries article", { hasText: "You said" }).waitFor();
	await state(page, "ready");

	// 4) Words appear while they are written, a message steers, and a run is cancelled.
	await page.fill("#message", "#hold on");
	await page.click("#send");
	await page.locator("#under-way pre", { hasText: "Thinking about it" }).waitFor();
	await page.fill("#message", "be brief");
	await page.click("#send");
	model.release("and now it is said.");
	await page.locator("#entries article", { hasText: "Heard: be brief" }).waitFor();
	await state(page, "ready");
	await page.fill("#message", "#hold again");
	await page.click("#send");
	await page.locator("#under-way pre", { hasText: "Thinking about it" }).waitFor();
	await page.click("#cancel");
	await state(page, "ready");
	await page.locator("#entries", { hasText: "cancelled" }).waitFor();
	assert.equal(await page.locator("#under-way > *").count(), 0);

	// 5) Hostile text is text, commands answer, and a message that cannot be sent says why.
	await page.fill("#message", "#hostile words");
	await page.click("#send");
	await page.locator("#entries", { hasText: "onerror=" }).waitFor();
	assert.ok(!(await page.title()).includes("ran"));
	assert.ok((await page.locator("#entries").innerText()).includes("\\u{202e}"), "what cannot be seen is visible");
	await page.fill("#message", "/status");
	await page.click("#send");
	await page.locator("#entries pre", { hasText: "lab/test" }).waitFor();
	await page.fill("#message", "/model nothing/here");
	await page.click("#send");
	await page.locator("#banner", { hasText: "nothing" }).waitFor();

	// 6) The views of the report.
	for (const [tab, text] of [
		["timeline", "Waiting for the user"],
		["cost", "lab/test"],
		["context", "Requests:"],
		["decisions", "permission for write_file"],
	]) {
		await page.click(`#tab-${tab}`);
		await page.locator("#section", { hasText: text }).waitFor();
		await picture(page, tab);
	}
	await page.click("#tab-settings");
	await page.locator("#section select").first().waitFor();
	await page.locator("#section label", { hasText: "permissions" }).locator("select").selectOption("full-auto");
	await page.click("#tab-transcript");
	await picture(page, "transcript");
	const [download] = await Promise.all([page.waitForEvent("download"), page.click("#save-report")]);
	assert.match(fs.readFileSync(await download.path(), "utf8"), /<h2 id="transcript">/);
	const text = await page.locator("#entries").innerText();

	// 7) Another page shows the same, and keeps its access after it was closed.
	const second = await context.newPage();
	await second.goto(page.url());
	await second.locator("#entries", { hasText: "Heard: be brief" }).waitFor();
	const firstRun = (shown) => shown.slice(0, shown.indexOf("Wrote it."));
	assert.equal(firstRun(await second.locator("#entries").innerText()), firstRun(text));
	await second.close();

	// 8) Closed, it is stored; opened, it goes on.
	await page.click("#close");
	await page.locator("#open").waitFor();
	await state(page, "stored");
	await page.click("#open");
	await state(page, "ready");
	await page.fill("#message", "#write once more");
	await page.click("#send");
	await page.locator("#entries article", { hasText: "Wrote it." }).nth(1).waitFor();

	// 9) Nothing that axe finds, in both schemes.
	const expected = /status of 4\d\d/;
	assert.deepEqual(errors.filter((text) => !expected.test(text)), []);
	for (const colorScheme of ["light", "dark"]) {
		await page.emulateMedia({ colorScheme });
		await accessible(page.url(), { colorScheme, width: 1400 }, context);
	}
	await context.close();
}

/// The page's policy forbids the rules of axe, so they run in a page without it.
async function accessible(url, { colorScheme, width }, context) {
	const open = await browser.newContext({ colorScheme, viewport: { width, height: 900 }, bypassCSP: true, storageState: await context.storageState() });
	const page = await open.newPage();
	await page.goto(url);
	await page.locator("#panes").waitFor();
	await page.locator("#sessions li").first().waitFor({ state: "attached" });
	if (url.includes("sessions/")) {
		await page.locator("#entries article").first().waitFor();
	}
	await page.evaluate(axe);
	const found = await page.evaluate(() => globalThis.axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21aa"] }));
	const violations = found.violations.map(({ id, nodes }) => `${id}: ${nodes[0].html} ${nodes[0].failureSummary}`);
	assert.deepEqual(violations, [], `${colorScheme} ${width} ${url}`);
	await open.close();
}

// --- A session of another process ---

async function otherProcess() {
	const { page, context } = await newPage();
	const run = spawn(process.env.CROW_AGENT, ["run", "-m", "lab/test", "#hold in a terminal"], { cwd: project, env, stdio: "ignore" });
	const ended = new Promise((resolve) => run.on("exit", resolve));
	const entry = page.locator("#sessions li", { hasText: "in a terminal" });
	await entry.locator(".state", { hasText: "in another program" }).waitFor();
	await entry.locator("a").click();
	await page.locator("#entries", { hasText: "#hold in a terminal" }).waitFor();
	assert.ok(await page.locator("#open").isHidden(), "another program has it");
	await until("the request", () => model.held.size > 0);
	model.release("and it is done.");
	await page.locator("#entries", { hasText: "and it is done." }).waitFor();
	assert.equal(await ended, 0);
	await state(page, "stored");
	await context.close();
}

// --- A phone ---

async function narrow() {
	const { page, errors, context } = await newPage({ width: 360, height: 740 });
	const fits = async (what) => {
		const [shown, whole] = await page.evaluate(() => [innerWidth, document.documentElement.scrollWidth]);
		assert.ok(whole <= shown, `${what}: ${whole} > ${shown}`);
	};
	await page.locator("#sessions li").first().waitFor();
	await fits("the list");
	await picture(page, "phone-list");
	await page.click("#new");
	await page.locator("#start-form").waitFor();
	await fits("the start");
	await picture(page, "phone-start");
	await page.fill("#prompt", "#write from a phone");
	await page.selectOption("#permissions", "ask");
	await page.click("#start-form button[type=submit]");
	await page.locator(".question").waitFor();
	await fits("the question");
	await picture(page, "phone-question");
	const small = await page.evaluate(() => [...document.querySelectorAll("button")].filter((button) => button.offsetHeight > 0 && button.offsetHeight < 24).length);
	assert.equal(small, 0, "buttons can be hit with a finger");
	await accessible(page.url(), { colorScheme: "dark", width: 360 }, context);
	await page.locator(".question button", { hasText: "Deny" }).click();
	await state(page, "ready");
	for (const tab of ["timeline", "cost", "context", "decisions", "settings"]) {
		await page.click(`#tab-${tab}`);
		await page.locator("#section > *").first().waitFor();
		await fits(tab);
	}
	await page.click("#back");
	await page.locator("#sessions li").first().waitFor();
	await accessible(page.url(), { colorScheme: "light", width: 360 }, context);
	assert.deepEqual(errors, []);
	await context.close();
}

// --- Fifty at once, and how late events come ---

async function fifty() {
	const { page, errors, context } = await newPage();
	const started = Date.now();
	const made = await Promise.all(
		Array.from({ length: 50 }, (_, number) => api("POST", "/api/sessions", { body: { cwd: project, prompt: `#count ${number}`, permissions: "read-only" } })),
	);
	assert.ok(made.every(({ status }) => status === 200), JSON.stringify(made.find(({ status }) => status !== 200)));
	await until("fifty sessions in the list", async () => (await page.locator("#sessions li", { hasText: "#count" }).count()) === 50);
	await picture(page, "fifty");
	await until("fifty ends", async () => (await page.locator("#sessions li", { hasText: "#count" }).filter({ hasText: "ready" }).count()) === 50, 60_000);
	const took = Date.now() - started;

	// One of them while nothing else runs: the model writes the time into each word.
	const delays = async () => page.evaluate(() => globalThis.delays.splice(0).sort((one, other) => one - other));
	await page.evaluate(() => {
		globalThis.delays = [];
		new MutationObserver((changes) => {
			for (const change of changes) {
				for (const node of change.addedNodes) {
					const time = /<(\d{13})>/.exec(node.textContent);
					if (time) {
						globalThis.delays.push(Date.now() - Number(time[1]));
					}
				}
			}
		}).observe(document.getElementById("under-way"), { childList: true, subtree: true });
	});
	await page.locator("#sessions li", { hasText: "#count" }).first().locator("a").click();
	await state(page, "ready");
	await page.fill("#message", "#count again");
	await page.click("#send");
	await until("the words", async () => (await page.evaluate(() => globalThis.delays.length)) >= 35);
	const ours = await delays();
	const reference = await bareStream();
	const of = (list, share) => list[Math.min(list.length - 1, Math.floor(list.length * share))];
	console.log(`50 sessions with 40 parts each: ${took} ms; from the model to the page: median ${of(ours, 0.5)} ms, 95 % ${of(ours, 0.95)} ms; a bare stream to the same browser: ${of(reference, 0.5)} ms, ${of(reference, 0.95)} ms`);
	assert.deepEqual(errors, []);
	for (const { text } of made) {
		await api("POST", `/api/sessions/${JSON.parse(text).session}/close`);
	}
	await context.close();
}

/// The same words from the smallest server that sends them, to a page that does nothing else.
async function bareStream() {
	const bare = http.createServer(async (request, response) => {
		if (request.url === "/") {
			response.setHeader("content-type", "text/html");
			response.end("<!doctype html><p id=words></p>");
			return;
		}
		response.writeHead(200, { "content-type": "text/event-stream" });
		for (let word = 0; word < 40; word += 1) {
			response.write(`data: <${Date.now()}>\n\n`);
			await new Promise((next) => setTimeout(next, 25));
		}
		response.end();
	});
	await new Promise((ready) => bare.listen(0, "127.0.0.1", ready));
	const page = await browser.newPage();
	await page.goto(`http://127.0.0.1:${bare.address().port}/`);
	const delays = await page.evaluate(async () => {
		const found = [];
		const reader = (await fetch("/words")).body.pipeThrough(new TextDecoderStream()).getReader();
		for (;;) {
			const { value, done } = await reader.read();
			if (done) {
				return found;
			}
			for (const [, time] of value.matchAll(/<(\d+)>/g)) {
				document.getElementById("words").append(time);
				found.push(Date.now() - Number(time));
			}
		}
	});
	await page.close();
	bare.close();
	return delays.sort((one, other) => one - other);
}

// --- A browser that never reads ---

async function slowReader() {
	const memory = () => Number(/VmRSS:\s+(\d+)/.exec(fs.readFileSync(`/proc/${server.child.pid}/status`, "utf8"))[1]);
	const started = JSON.parse((await api("POST", "/api/sessions", { body: { cwd: project, prompt: "#hold", permissions: "read-only" } })).text);
	const socket = net.connect(Number(server.host.split(":")[1]), "127.0.0.1");
	socket.pause();
	socket.write(`GET /api/sessions/${started.session}/events HTTP/1.1\r\nhost: ${server.host}\r\nauthorization: Bearer ${server.token}\r\n\r\n`);
	await until("the request", () => model.held.size > 0);
	model.release("first");
	// Another page sees all of it.
	const { page, context } = await newPage();
	await page.goto(`http://${server.host}/#/sessions/${started.session}`);
	await state(page, "ready");
	const before = memory();
	await page.fill("#message", "#flood me");
	await page.click("#send");
	await page.locator("#state.working").waitFor();
	await until("the end of the flood", async () => (await page.locator("#state").innerText()) === "ready", 60_000);
	const grown = memory() - before;
	console.log(`a browser that never reads: ${Math.round(grown / 1024)} MB more after 8 MB of text`);
	assert.ok(grown < 200_000, `${grown} kB`);
	socket.destroy();
	await context.close();
}

// --- The program ends and starts again ---

async function restart() {
	const { page, context } = await newPage();
	await page.evaluate(() => navigator.serviceWorker.ready.then(() => true));
	const manifest = await page.evaluate(async () => (await fetch(document.querySelector("link[rel=manifest]").href)).json());
	assert.equal(manifest.display, "standalone");
	const ended = new Promise((resolve) => server.child.on("exit", (code) => resolve(code)));
	server.child.kill("SIGINT");
	assert.equal(await ended, 0);
	await page.locator("#banner", { hasText: "cannot be reached" }).waitFor();
	await page.reload();
	await page.locator("#banner").waitFor();
	const port = Number(server.host.split(":")[1]);
	Object.assign(server, await startServer(port));
	await page.locator("#panes").waitFor({ timeout: 20_000 });
	await page.locator("#sessions li").first().waitFor();
	await context.close();
}
