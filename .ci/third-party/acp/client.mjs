// Drives the built agent through the npm package of the protocol, as an editor does.
import { spawn } from "node:child_process";
import fs from "node:fs";
import net from "node:net";
import path from "node:path";

import { Checks } from "../shared/checks.mjs";
import { Agent } from "./agent.mjs";
import { WORD, serve } from "./own_server.mjs";

/// A picture of one red dot.
const DOT =
	"iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==";
/// How many sessions a page of the list holds.
const PAGE = 50;

const checks = new Checks("acp, npm client");
const project = fs.mkdtempSync(path.join(process.env.FOLDER, "npm-"));
const file = (name) => path.join(project, name);
const figures = [];
let agent = new Agent("npm");
let session;

await stage(introduction);
session = await stage(beginning);
for (const work of [words, permissions, questions, queue, cancelling, options, providers, listing, faults, dying, servers]) {
	await stage(work);
}
checks.equal("it ends when its input does", await agent.end(), 0);
console.log(`acp, npm client: ${figures.join("; ")}`);
checks.finish();

/// A stage that breaks down is one thing that does not hold; the others go on.
async function stage(work) {
	try {
		return await work(session);
	} catch (error) {
		checks.holds(`${work.name} comes to its end`, false, String(error?.stack ?? JSON.stringify(error)));
	}
}

async function introduction() {
	const began = performance.now();
	const answer = await agent.initialize();
	figures.push(`initialize with the start of both processes ${(performance.now() - began).toFixed(0)} ms`);
	checks.equal("version", answer.protocolVersion, 1);
	checks.equal("name", answer.agentInfo?.name, "crow-agent");
	const { loadSession, promptCapabilities, mcpCapabilities, sessionCapabilities } = answer.agentCapabilities;
	checks.equal("load", loadSession, true);
	checks.equal("pictures and files", [promptCapabilities.image, promptCapabilities.embeddedContext], [true, true]);
	checks.equal("MCP over HTTP and ACP", [mcpCapabilities.http, mcpCapabilities.acp], [true, true]);
	for (const ability of ["list", "resume", "close", "delete", "fork", "additionalDirectories"]) {
		checks.holds(`can ${ability}`, Boolean(sessionCapabilities[ability]), sessionCapabilities);
	}
}

async function beginning() {
	const began = performance.now();
	const { sessionId, configOptions, modes } = await agent.create(project);
	figures.push(`session/new ${(performance.now() - began).toFixed(0)} ms`);
	const stored = path.join(process.env.HOME, ".local/share/crow-agent/sessions", sessionId, "metadata.json");
	checks.holds("the session is on disk before the answer", fs.existsSync(stored), stored);
	const categories = configOptions.map(({ category }) => category);
	checks.holds("options for mode and model", ["mode", "model"].every((one) => categories.includes(one)), categories);
	checks.holds("modes", modes.availableModes.some(({ id }) => id === modes.currentModeId), modes);
	const commands = () => agent.updates(sessionId, "available_commands_update").at(-1)?.availableCommands ?? [];
	await agent.until(() => commands().length > 0);
	const names = commands().map(({ name }) => name);
	checks.holds("commands", ["undo", "help"].every((name) => names.includes(name)), names);
	return sessionId;
}

async function words(sessionId) {
	const { stopReason } = await agent.prompt(sessionId, "#hello");
	checks.equal("the turn ends", stopReason, "end_turn");
	const chunks = agent.updates(sessionId, "agent_message_chunk");
	checks.holds("the answer is whole", agent.said(sessionId).startsWith("Good day from the model, in more words"), chunks);
	const ids = new Set(chunks.map(({ messageId }) => messageId));
	checks.holds("one message id for one message", ids.size === 1 && !ids.has(undefined), [...ids]);
	const usage = () => agent.updates(sessionId, "usage_update").at(-1) ?? {};
	const isTold = await agent.until(() => usage().used > 0 && usage().size > usage().used);
	checks.holds("what the context holds", isTold, usage());
	agent.forget();
	const image = { type: "image", mimeType: "image/png", data: DOT };
	const resource = { uri: `file://${file("a.txt")}`, mimeType: "text/plain", text: "embedded words" };
	const link = { type: "resource_link", uri: `file://${file("linked.txt")}`, name: "linked.txt" };
	await agent.prompt(sessionId, "#look at these", image, { type: "resource", resource }, link);
	const said = agent.said(sessionId);
	for (const part of ["1 picture", "embedded words", "linked.txt"]) {
		checks.holds(`the model sees ${part}`, said.includes(part), said);
	}
	agent.forget();
	await agent.prompt(sessionId, "#plan");
	const plan = agent.updates(sessionId, "plan").at(-1)?.entries;
	checks.equal("the plan", plan?.map(({ content, status }) => [content, status]), [["Look around", "in_progress"]]);
	agent.forget();
	await agent.prompt(sessionId, "/help");
	const isAnswered = await agent.until(() => agent.said(sessionId).includes("/undo"));
	checks.holds("a command is answered", isAnswered, agent.updates(sessionId));
	agent.forget();
}

async function permissions(sessionId) {
	agent.choose = "reject_once";
	await agent.prompt(sessionId, "#write");
	checks.equal("a refused call fails", agent.call(sessionId, "write_file").status, "failed");
	checks.holds("and changes nothing", !fs.existsSync(file("notes.txt")), project);
	agent.forget();
	agent.choose = "allow_once";
	await agent.prompt(sessionId, "#write");
	const write = agent.call(sessionId, "write_file");
	const [request] = agent.asked;
	checks.equal("the call that is asked about is shown", request.toolCall.toolCallId, write.toolCallId);
	checks.equal("it is done", [write.status, fs.readFileSync(file("notes.txt"), "utf8")], ["completed", "one\ntwo\n"]);
	const made = write.content?.find(({ type }) => type === "diff");
	checks.holds("a new file has no old text", made && (made.oldText ?? null) === null, write);
	agent.forget();
	await agent.prompt(sessionId, "#edit");
	const edit = agent.call(sessionId, "edit_file");
	const diff = edit.content?.find(({ type }) => type === "diff");
	checks.equal("the difference", [diff?.path, diff?.oldText, diff?.newText], [
		file("notes.txt"),
		"one\ntwo\n",
		"one\nthree\n",
	]);
	checks.equal("the place", [edit.kind, edit.locations?.[0]?.path], ["edit", file("notes.txt")]);
	agent.forget();
	agent.choose = "allow_always";
	await agent.prompt(sessionId, "#run");
	await agent.prompt(sessionId, "#run");
	checks.equal("always is asked once", agent.asked.length, 1);
	checks.equal("both ran", fs.readFileSync(file("ran.txt"), "utf8"), "ran\nran\n");
	agent.forget();
	agent.choose = "allow_once";
}

async function questions(sessionId) {
	agent.fill = ({ requestedSchema }) => {
		const [field] = Object.keys(requestedSchema.properties);
		return { action: "accept", content: { [field]: "right" } };
	};
	await agent.prompt(sessionId, "#ask");
	checks.equal("a form asks", agent.asked.map(({ mode, message }) => [mode, message]), [["form", "Which one?"]]);
	checks.holds("its answer is told", agent.said(sessionId).includes("The user chose: right"), agent.said(sessionId));
	agent.forget();
}

async function queue(sessionId) {
	const order = [];
	const first = agent.prompt(sessionId, "#wait").then((end) => order.push(["wait", end.stopReason]));
	await agent.until(() => agent.call(sessionId, "bash").status === "in_progress");
	const second = agent.prompt(sessionId, "#hello").then((end) => order.push(["hello", end.stopReason]));
	await Promise.all([first, second]);
	checks.equal("a second prompt waits for its turn", order, [
		["wait", "end_turn"],
		["hello", "end_turn"],
	]);
	agent.forget();
}

async function cancelling() {
	const took = [];
	for (let round = 0; round < 3; round += 1) {
		const { sessionId } = await agent.create(project);
		const turn = agent.prompt(sessionId, "#sleep");
		await agent.until(() => agent.call(sessionId, "bash").status === "in_progress");
		checks.holds("the command runs", await agent.until(() => sleepers().length > 0), sleepers());
		const began = performance.now();
		await agent.cancel(sessionId);
		const { stopReason } = await turn;
		took.push(performance.now() - began);
		checks.equal("a cancelled turn says so", stopReason, "cancelled");
		// The library gives the answer before it has passed on all that stood in front of it.
		await agent.until(() => agent.call(sessionId, "bash").status !== "in_progress");
		checks.equal("its call is settled", agent.call(sessionId, "bash").status, "failed");
		await agent.until(() => sleepers().length === 0 || performance.now() - began > 2000);
		checks.equal("no process is left after two seconds", sleepers(), []);
	}
	// The machine may be busy: the best of three shows what the program needs.
	figures.push(`cancel with a running command ${took.map((time) => time.toFixed(0)).join(", ")} ms`);
	checks.holds("a cancel is acknowledged within 50 ms", Math.min(...took) <= 50, took);
	const { sessionId } = await agent.create(project);
	agent.forget();
	agent.choose = () => new Promise(() => {});
	const turn = agent.prompt(sessionId, "#run");
	await agent.until(() => agent.asked.length > 0);
	await agent.cancel(sessionId);
	checks.equal("a cancel while it asks", (await turn).stopReason, "cancelled");
	agent.choose = "allow_once";
	agent.forget();
}

/// The processes of the scene that sleeps.
function sleepers() {
	return fs.readdirSync("/proc").filter((pid) => {
		try {
			return /^\d+$/.test(pid) && fs.readFileSync(`/proc/${pid}/cmdline`, "utf8").startsWith("sleep\x0098765");
		} catch {
			return false;
		}
	});
}

async function options(sessionId) {
	const { configOptions } = await agent.create(project);
	for (const option of configOptions.filter(({ type }) => type === "select")) {
		const values = option.options.flatMap((one) => one.options ?? [one]).map(({ value }) => value);
		const value = values.find((one) => one !== option.currentValue) ?? option.currentValue;
		const params = { sessionId, configId: option.id, value };
		if (!["mode", "permissions"].includes(option.id)) {
			continue;
		}
		const answer = await agent.request("session/set_config_option", params);
		const now = answer.configOptions.find(({ id }) => id === option.id)?.currentValue;
		checks.equal(`option ${option.id}`, [now, answer.configOptions.length], [value, configOptions.length]);
		await agent.request("session/set_config_option", { ...params, value: option.currentValue });
	}
	await agent.request("session/set_mode", { sessionId, modeId: "loop" });
	const same = configOptions.find(({ id }) => id === "permissions");
	const params = { sessionId, configId: same.id, value: same.currentValue };
	const after = await agent.request("session/set_config_option", params);
	checks.equal("a mode is an option, too", after.configOptions.find(({ id }) => id === "mode")?.currentValue, "loop");
	const other = await agent.create(project);
	checks.equal("what one session chooses is not the default of the next", other.modes?.currentModeId, "hitl");
	await agent.request("session/set_mode", { sessionId, modeId: "hitl" });
	const wrong = { sessionId, configId: "mode", value: "no such mode" };
	checks.equal("a value that is none", await agent.refused("session/set_config_option", wrong), -32602);
	agent.forget();
}

/// Where models are called is chosen for an open session. The package has no names of its own for these methods.
async function providers(sessionId) {
	const current = async () => {
		const { providers } = await agent.request("providers/list", {});
		return providers.find(({ providerId }) => providerId === "openai-chat").current;
	};
	const before = await current();
	const set = (baseUrl) =>
		agent.request("providers/set", { providerId: "openai-chat", apiType: "openai", baseUrl, headers: { "x-team": "crow" } });
	await set("http://127.0.0.1:9/v1");
	checks.equal("a provider is called where it was set to", (await current()).baseUrl, "http://127.0.0.1:9/v1");
	await agent.request("providers/disable", { providerId: "openai-chat" });
	checks.equal("a disabled one is called nowhere", (await current()) ?? null, null);
	const prompt = { sessionId, prompt: [{ type: "text", text: "#hello" }] };
	checks.equal("and its models are not asked", await agent.refused("session/prompt", prompt), -32603);
	const wrong = { providerId: "openai-chat", apiType: "bedrock", baseUrl: before.baseUrl };
	checks.equal("another protocol is refused", await agent.refused("providers/set", wrong), -32602);
	await set(before.baseUrl);
	checks.equal("a set one is asked again", (await agent.request("session/prompt", prompt)).stopReason, "end_turn");
}

async function listing(sessionId) {
	await agent.request("session/set_title", { sessionId, title: "A title of my own" });
	const elsewhere = fs.mkdtempSync(path.join(process.env.FOLDER, "many-"));
	for (let count = 0; count <= PAGE; count += 1) {
		const { sessionId } = await agent.create(elsewhere);
		// One that was never used is not listed.
		await agent.request("session/prompt", { sessionId, prompt: [{ type: "text", text: "#hello" }] });
	}
	await agent.create(elsewhere);
	agent.forget();
	const first = await agent.request("session/list", { cwd: elsewhere });
	const second = await agent.request("session/list", { cwd: elsewhere, cursor: first.nextCursor });
	const ids = [...first.sessions, ...second.sessions].map((one) => one.sessionId);
	checks.equal("all are listed once, page by page", [ids.length, new Set(ids).size], [PAGE + 1, PAGE + 1]);
	checks.holds("the last page names no other", !second.nextCursor, second.nextCursor);
	const here = await agent.request("session/list", { cwd: project });
	const mine = here.sessions.find((one) => one.sessionId === sessionId);
	checks.equal("the title", mine?.title, "A title of my own");
	checks.holds("only this directory", here.sessions.every(({ cwd }) => cwd === project), here.sessions);
	const fork = await agent.request("session/fork", { sessionId, cwd: project, mcpServers: [] });
	checks.equal("a fork works", (await agent.prompt(fork.sessionId, "#hello")).stopReason, "end_turn");
	await agent.request("session/close", { sessionId: fork.sessionId });
	await agent.request("session/delete", { sessionId: fork.sessionId });
	const left = await agent.request("session/list", { cwd: project });
	checks.holds("deleted", left.sessions.every((one) => one.sessionId !== fork.sessionId), left.sessions);
	agent.forget();
}

async function faults() {
	const unknown = { sessionId: "no-such-session", cwd: project, mcpServers: [] };
	for (const method of ["session/load", "session/resume", "session/fork", "session/prompt"]) {
		const params = method === "session/prompt" ? { ...unknown, prompt: [{ type: "text", text: "?" }] } : unknown;
		checks.equal(`${method} of an unknown session`, await agent.refused(method, params), -32002);
	}
	checks.equal("an unknown method", await agent.refused("no/such/method", {}), -32601);
	const { sessionId } = await agent.create(project);
	const size = 3_000_000;
	await agent.prompt(sessionId, `#size ${"x".repeat(size)}`);
	const counted = Number(/(\d+) characters/.exec(agent.said(sessionId))?.[1]);
	checks.holds("a prompt of 3 MB arrives whole", counted >= size, counted);
	agent.forget();
}

async function dying(sessionId) {
	agent.choose = () => new Promise(() => {});
	agent.prompt(sessionId, "#write").catch(() => {});
	await agent.until(() => agent.asked.length > 0);
	await agent.kill();
	agent = new Agent("npm-again");
	await agent.initialize();
	await agent.request("session/load", { sessionId, cwd: project, mcpServers: [] });
	const typed = agent.updates(sessionId, "user_message_chunk").map(({ content }) => content.text ?? content.type);
	checks.holds("what the user said is shown again", ["#hello", "#edit"].every((one) => typed.includes(one)), typed);
	checks.holds("and the answers", agent.said(sessionId).includes("Good day from the model"), agent.said(sessionId));
	const edit = agent.call(sessionId, "edit_file");
	const diff = edit.content?.find(({ type }) => type === "diff");
	checks.equal("and the differences", [edit.status, diff?.oldText], ["completed", "one\ntwo\n"]);
	const calls = agent.updates(sessionId).filter(({ toolCallId }) => toolCallId !== undefined);
	const last = Object.fromEntries(calls.map(({ toolCallId, status }) => [toolCallId, status]));
	checks.holds("no call is left open", Object.values(last).every((one) => ["completed", "failed"].includes(one)), last);
	agent.forget();
	checks.equal("it goes on", (await agent.prompt(sessionId, "#hello")).stopReason, "end_turn");
	await agent.request("session/close", { sessionId });
	agent.forget();
	await agent.request("session/resume", { sessionId, cwd: project, mcpServers: [] });
	checks.equal("a resumed session shows nothing again", agent.updates(sessionId, "agent_message_chunk"), []);
	checks.equal("and goes on", (await agent.prompt(sessionId, "#hello")).stopReason, "end_turn");
	agent.forget();
}

async function servers() {
	const stdio = { name: "time", command: process.env.MCP_TIME, args: ["-m", "mcp_server_time"], env: [] };
	const everything = spawn(process.execPath, [process.env.MCP_EVERYTHING, "streamableHttp"], {
		env: { ...process.env, PORT: process.env.MCP_PORT },
		stdio: "ignore",
	});
	const url = `http://127.0.0.1:${process.env.MCP_PORT}/mcp`;
	checks.holds("the server over HTTP listens", await listening(process.env.MCP_PORT), url);
	const http = { type: "http", name: "everything", url, headers: [] };
	const own = agent.serve("own", serve);
	const { sessionId } = await agent.create(project, { mcpServers: [stdio, http, own] });
	await agent.prompt(sessionId, "#time");
	checks.holds("a server over stdio works", /timezone/.test(agent.said(sessionId)), agent.updates(sessionId));
	agent.forget();
	await agent.prompt(sessionId, "#echo");
	checks.holds("one over HTTP works", /over the wire/.test(agent.said(sessionId)), agent.updates(sessionId));
	agent.forget();
	await agent.prompt(sessionId, "#own");
	checks.holds("one that the client serves itself works", agent.said(sessionId).includes(WORD), agent.updates(sessionId));
	everything.kill();
}

/// Waits until somebody listens, ten seconds at most.
async function listening(port) {
	const end = Date.now() + 10_000;
	while (Date.now() < end) {
		const socket = net.connect(port, "127.0.0.1");
		const open = await new Promise((resolve) => {
			socket.on("connect", () => resolve(true)).on("error", () => resolve(false));
		});
		socket.destroy();
		if (open) {
			return true;
		}
		await new Promise((resolve) => setTimeout(resolve, 50));
	}
	return false;
}
