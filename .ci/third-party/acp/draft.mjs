// Drives the built agent through the npm package as version 2 of the protocol has it, and over HTTP and WebSocket.
import { spawn } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { Readable, Writable } from "node:stream";
import { fileURLToPath, pathToFileURL } from "node:url";

import { Checks } from "../shared/checks.mjs";
import { WORD, serve } from "./own_server.mjs";

const load = (file) => import(pathToFileURL(path.join(process.env.ACP_DIST, file)));
const one = await load("v1/unstable/acp.js");
const two = await load("v2/unstable/acp.js");
const { createHttpStream } = await load("transports/http-stream.js");
const { createWebSocketStream } = await load("transports/ws-stream.js");
const { WebSocket } = await import(pathToFileURL(process.env.WS));
const relay = fileURLToPath(new URL("relay.mjs", import.meta.url));

const checks = new Checks("acp, drafts and transports");
const project = fs.mkdtempSync(path.join(process.env.FOLDER, "draft-"));
const TOKEN = "0123456789abcdef-token";

/// A client of any version over any transport.
class Client {
	updates = [];
	asked = [];

	constructor(acp, stream) {
		this.mcp = new acp.McpOverAcpProvider();
		this.connection = acp
			.client({ name: "checks" })
			.onRequest(acp.methods.client.session.requestPermission, ({ params }) => {
				this.asked.push(params);
				const { optionId } = params.options.find(({ kind }) => kind === "allow_once");
				return { outcome: { outcome: "selected", optionId } };
			})
			.onRequest(acp.methods.client.mcp.message, this.mcp.handleRequest)
			.onNotification(acp.methods.client.session.update, ({ params }) => this.updates.push(params.update))
			.connect(stream);
	}

	request(method, params) {
		return this.connection.agent.request(method, params);
	}

	ownServer() {
		return this.mcp.registerServer(this.connection.agent, { name: "own", handler: serve }).declaration;
	}

	said() {
		const chunks = this.updates.filter(({ sessionUpdate }) => sessionUpdate === "agent_message_chunk");
		return chunks.map(({ content }) => content.text).join("");
	}

	states() {
		return this.updates.filter(({ sessionUpdate }) => sessionUpdate === "state_update");
	}

	/// Waits until something holds, twenty seconds at most. Returns whether it does.
	async until(holds) {
		const end = Date.now() + 20_000;
		while (!holds() && Date.now() < end) {
			await new Promise((resolve) => setTimeout(resolve, 20));
		}
		return holds();
	}

	/// Says something in version 2 and waits for the end of the turn. Returns why it ended.
	async turn(sessionId, text) {
		this.updates = [];
		await this.request("session/prompt", { sessionId, prompt: [{ type: "text", text }] });
		const ends = () => this.states().filter(({ state, stopReason }) => state === "idle" && stopReason);
		await this.until(() => ends().length > 0);
		return ends().at(-1)?.stopReason;
	}
}

await stage(secondVersion);
await stage(remotely);
checks.finish();

async function stage(work) {
	try {
		await work();
	} catch (error) {
		checks.holds(`${work.name} comes to its end`, false, String(error?.stack ?? JSON.stringify(error)));
	}
}

async function secondVersion() {
	let { client, end } = start("v2");
	const hello = {
		protocolVersion: 2,
		info: { name: "checks", version: "1" },
		capabilities: { auth: { terminal: {} }, elicitation: { form: {} } },
	};
	const { protocolVersion, info, capabilities } = await client.request("initialize", hello);
	checks.equal("version", [protocolVersion, info.name], [2, "crow-agent"]);
	checks.equal("ways to tools", Object.keys(capabilities.session.mcp).sort(), ["acp", "http", "stdio"]);
	const made = await client.request("session/new", { cwd: project, mcpServers: [client.ownServer()] });
	const { sessionId, configOptions, availableCommands } = made;
	checks.holds("options", configOptions.some(({ configId }) => configId === "mode"), configOptions);
	checks.holds("commands", availableCommands.some(({ name }) => name === "undo"), availableCommands);
	checks.equal("a turn ends", await client.turn(sessionId, "#hello"), "end_turn");
	checks.holds("with what was said", client.said().startsWith("Good day from the model"), client.updates);
	checks.equal("a file is written", await client.turn(sessionId, "#write"), "end_turn");
	checks.equal("after a question", client.asked.map(({ subject }) => subject.type), ["tool_call"]);
	const patches = JSON.stringify(client.updates);
	checks.holds("shown as a patch", patches.includes("+one") && patches.includes("git_patch"), client.updates);
	checks.equal("a tool of the client", await client.turn(sessionId, "#own"), "end_turn");
	checks.holds("answers", client.said().includes(WORD), client.updates);
	const { providers } = await client.request("providers/list", {});
	checks.holds("providers", providers.some(({ providerId }) => providerId === "openai-chat"), providers);
	const running = client.turn(sessionId, "#sleep");
	await client.until(() => client.updates.some(({ sessionUpdate }) => sessionUpdate === "terminal_update"));
	client.connection.agent.notify("session/cancel", { sessionId });
	checks.equal("a cancel", await running, "cancelled");
	const open = client.updates.filter(({ toolCallId }) => toolCallId).at(-1);
	checks.equal("leaves no call open", open.status, "cancelled");
	checks.equal("it ends when its input does", await end(), 0);

	({ client, end } = start("v2-again"));
	await client.request("initialize", hello);
	const resume = { sessionId, cwd: project, mcpServers: [], replayFrom: { type: "start" } };
	await client.request("session/resume", resume);
	const shown = JSON.stringify(client.updates);
	for (const part of ["Good day", "+one", WORD]) {
		checks.holds(`shown again: ${part}`, shown.includes(part), client.updates);
	}
	const { sessions } = await client.request("session/list", {});
	checks.holds("listed", sessions.some((session) => session.sessionId === sessionId), sessions);
	await client.request("session/delete", { sessionId });
	checks.equal("it ends when its input does", await end(), 0);
}

/// Starts the agent behind the relay, for a client of version 2.
function start(name) {
	const child = spawn(process.execPath, [relay, name], { stdio: ["pipe", "pipe", "inherit"] });
	const exit = new Promise((resolve) => child.on("close", resolve));
	const stream = two.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout));
	const end = () => {
		child.stdin.end();
		return exit;
	};
	return { client: new Client(two, stream), end };
}

async function remotely() {
	const env = { ...process.env, CROW_ACP_TOKEN: TOKEN };
	const server = spawn(process.env.CROW_AGENT, ["acp", "--listen", "127.0.0.1:0"], {
		env,
		stdio: ["ignore", "ignore", "pipe"],
	});
	const exit = new Promise((resolve) => server.on("close", (code, signal) => resolve([code, signal])));
	try {
		let told = "";
		const address = await new Promise((resolve, reject) => {
			exit.then(() => reject(new Error(told)));
			server.stderr.on("data", (bytes) => {
				told += bytes;
				const found = /http:\/\/([\d.:]+)\/acp/.exec(told);
				if (found) resolve(found[1]);
			});
		});
		const headers = { authorization: `Bearer ${TOKEN}` };
		const denied = await fetch(`http://${address}/acp`, { method: "POST", body: "{}" });
		checks.equal("who shows no token is refused", denied.status, 401);
		for (const [name, stream] of [
			["HTTP", () => createHttpStream(`http://${address}/acp`, { headers })],
			["WebSocket", () => createWebSocketStream(`ws://${address}/acp`, { headers, WebSocket })],
		]) {
			await remoteTurns(name, new Client(one, stream()));
		}
	} finally {
		server.kill("SIGINT");
	}
	checks.equal("it ends on ctrl-c", (await exit)[1], null);
}

async function remoteTurns(name, client) {
	await client.request("initialize", { protocolVersion: 1, clientCapabilities: {} });
	const { sessionId } = await client.request("session/new", { cwd: project, mcpServers: [client.ownServer()] });
	for (const [scene, words] of [
		["hello", "Good day from the model"],
		["own", WORD],
	]) {
		client.updates = [];
		const prompt = [{ type: "text", text: `#${scene}` }];
		const { stopReason } = await client.request("session/prompt", { sessionId, prompt });
		checks.equal(`${name}: ${scene} ends`, stopReason, "end_turn");
		const isSaid = await client.until(() => client.said().includes(words));
		checks.holds(`${name}: ${scene} is answered`, isSaid, client.updates);
	}
	client.connection.close();
}
