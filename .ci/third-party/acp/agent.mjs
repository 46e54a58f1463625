// One connection to the agent by the npm package, and all that came over it.
import { spawn } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { Readable, Writable } from "node:stream";
import { fileURLToPath, pathToFileURL } from "node:url";

const acp = await import(pathToFileURL(process.env.ACP_SDK));
const relay = fileURLToPath(new URL("relay.mjs", import.meta.url));

/// What the clients of today say they can do.
const CAPABILITIES = {
	fs: { readTextFile: false, writeTextFile: false },
	terminal: false,
	elicitation: { form: {} },
	session: { configOptions: { boolean: {} } },
};

export class Agent {
	/// What was asked of the user: permissions and forms.
	asked = [];
	/// How a permission is answered: the kind of the option that is chosen, or a function of the request.
	choose = "allow_once";
	/// How a form is answered.
	fill = () => ({ action: "decline" });
	/// Serves tools of its own to the agent.
	mcp = new acp.McpOverAcpProvider();
	#updates = [];
	#changed = () => {};

	constructor(name, args = []) {
		this.name = name;
		this.process = spawn(process.execPath, [relay, name, ...args], { stdio: ["pipe", "pipe", "inherit"] });
		this.exit = new Promise((resolve) => this.process.on("close", (code) => resolve(code)));
		const stream = acp.ndJsonStream(Writable.toWeb(this.process.stdin), Readable.toWeb(this.process.stdout));
		this.connection = acp
			.client({ name: "checks" })
			.onRequest(acp.methods.client.session.requestPermission, ({ params }) => this.#permit(params))
			.onRequest(acp.methods.client.elicitation.create, ({ params }) => this.#form(params))
			.onRequest(acp.methods.client.mcp.message, this.mcp.handleRequest)
			.onNotification(acp.methods.client.session.update, ({ params }) => this.#update(params))
			.connect(stream);
	}

	initialize(capabilities = CAPABILITIES) {
		const params = { protocolVersion: acp.PROTOCOL_VERSION, clientCapabilities: capabilities };
		return this.request("initialize", params);
	}

	request(method, params) {
		return this.connection.agent.request(method, params);
	}

	/// Serves a server of tools over this connection. Returns how a session is told of it.
	serve(name, handler) {
		return this.mcp.registerServer(this.connection.agent, { name, handler }).declaration;
	}

	/// Returns the code of the error that a request is answered with, if it is.
	async refused(method, params) {
		return this.request(method, params).then(
			() => undefined,
			(error) => error.code,
		);
	}

	async create(cwd, more = {}) {
		return this.request("session/new", { cwd, mcpServers: [], ...more });
	}

	async prompt(sessionId, ...prompt) {
		const blocks = prompt.map((block) => (typeof block === "string" ? { type: "text", text: block } : block));
		const end = await this.request("session/prompt", { sessionId, prompt: blocks });
		// The library gives an answer before it has passed on all that stood in front of it.
		for (let turn = 0; turn < 3; turn += 1) {
			await new Promise((resolve) => setImmediate(resolve));
		}
		return end;
	}

	cancel(sessionId) {
		return this.connection.agent.notify("session/cancel", { sessionId });
	}

	/// The updates of a session, of one kind.
	updates(sessionId, kind) {
		const of = this.#updates.filter((update) => update.sessionId === sessionId).map(({ update }) => update);
		return kind === undefined ? of : of.filter(({ sessionUpdate }) => sessionUpdate === kind);
	}

	/// The words of the agent in a session.
	said(sessionId) {
		return this.updates(sessionId, "agent_message_chunk")
			.map(({ content }) => content.text)
			.join("");
	}

	/// The call with that name as it stands after all its updates.
	call(sessionId, name) {
		const first = this.updates(sessionId, "tool_call").findLast((call) => call.name === name);
		const later = this.updates(sessionId, "tool_call_update").filter(
			({ toolCallId }) => toolCallId === first?.toolCallId,
		);
		return Object.assign({}, first, ...later.map((update) => withoutNulls(update)));
	}

	/// Waits until something holds, ten seconds at most. Returns whether it does.
	async until(holds) {
		const end = Date.now() + 10_000;
		while (!holds() && Date.now() < end) {
			await new Promise((resolve) => {
				this.#changed = resolve;
				setTimeout(resolve, 50);
			});
		}
		return holds();
	}

	forget() {
		this.#updates = [];
		this.asked = [];
	}

	/// Ends the input and returns how the agent exited.
	async end() {
		this.process.stdin.end();
		return this.exit;
	}

	/// Kills the agent itself, without a word.
	async kill() {
		process.kill(Number(fs.readFileSync(path.join(process.env.RECORDS, `${this.name}.pid`), "utf8")), "SIGKILL");
		await this.exit;
	}

	#update(params) {
		this.#updates.push(params);
		this.#changed();
	}

	async #permit(params) {
		this.asked.push(params);
		this.#changed();
		const choice = typeof this.choose === "function" ? await this.choose(params) : this.choose;
		const option = params.options.find(({ kind }) => kind === choice);
		const outcome = option === undefined ? { outcome: "cancelled" } : { outcome: "selected", optionId: option.optionId };
		return { outcome };
	}

	#form(params) {
		this.asked.push(params);
		this.#changed();
		return this.fill(params);
	}
}

function withoutNulls(update) {
	return Object.fromEntries(Object.entries(update).filter(([, value]) => value !== null && value !== undefined));
}
