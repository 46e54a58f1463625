// Lets the program use servers of others, and kills them under its hands.
import { execFileSync, spawn } from "node:child_process";
import fs from "node:fs";
import http from "node:http";
import net from "node:net";
import path from "node:path";

import { Checks } from "../shared/checks.mjs";
import { crow } from "../shared/crow.mjs";
import { PROVIDERS, start } from "../shared/server.mjs";

const ANSWER = "All of it works.";
/// What kills the servers, as a command of the model: one whose name is in the file.
const KILL = "touch kill-now && sleep 2";

const project = path.join(process.env.FOLDER, "project");
const home = path.join(process.env.FOLDER, "home");
const provider = PROVIDERS.find(({ name }) => name === "openai-chat");
const checks = new Checks("mcp");
const port = await freePort();
const pagePort = await servePage();
let web = await serve();
prepare();

/// The calls of a run, and what each result must show.
const CALLS = [
	["mcp__time__get_current_time", { timezone: "Asia/Tokyo" }, "+09:00"],
	["mcp__everything__echo", { message: "over pipes" }, "over pipes"],
	["mcp__web__echo", { message: "over HTTP" }, "over HTTP"],
	["mcp__everything__get-sum", { a: 2, b: 40 }, "42"],
	["mcp__web__trigger-long-running-operation", { duration: 1, steps: 4 }, "ompleted"],
	["mcp__everything__get-tiny-image", {}, ""],
	["bash", { command: KILL }, ""],
	["mcp__everything__echo", { message: "again over pipes" }, "again over pipes"],
	["mcp__web__echo", { message: "again over HTTP" }, "again over HTTP"],
	["mcp__files__read_text_file", { path: path.join(project, "note.txt") }, "a note of the project"],
	["mcp__memory__create_entities", { entities: [{ name: "crow", entityType: "bird", observations: ["black"] }] }, "crow"],
	["mcp__memory__read_graph", {}, "black"],
	["mcp__git__git_status", { repo_path: project }, "note.txt"],
	["mcp__fetch__fetch", { url: () => `http://127.0.0.1:${pagePort}/` }, "a page to fetch"],
	["mcp__everything__read_resource", {}, "://"],
	["mcp__time__convert_time", { source_timezone: "UTC", time: "25:99", target_timezone: "UTC" }, "nvalid"],
];

const server = await start([{ match: { predicate: () => true }, response: ({ messages }) => next(messages) }]);
try {
	await lists();
	await calls();
} finally {
	await server.stop();
	web.kill("SIGKILL");
}
checks.finish();

async function lists() {
	const env = { HOME: home };
	const servers = [
		["time", "get_current_time"], ["everything", "echo"], ["web", "echo"], ["files", "read_text_file"],
		["memory", "read_graph"], ["git", "git_status"], ["fetch", "fetch"],
	];
	for (const [name, tool] of servers) {
		const { code, result, stderr } = await crow(["mcp", "test", name, "-o", "json"], { cwd: project, env });
		checks.equal(`mcp test ${name}`, code, 0);
		const names = (result.tools ?? []).map(({ name }) => name);
		checks.holds(`${name} has ${tool}`, names.includes(`mcp__${name}__${tool}`), [names, stderr]);
	}
	const { rows } = await crow(["mcp", "list", "-o", "json"], { cwd: project, env });
	checks.equal("all were seen", rows.map(({ seen }) => seen), servers.map(() => true));
}

async function calls() {
	const env = { HOME: home, [provider.key]: "none", [provider.variable]: server.url + provider.path };
	const killing = setInterval(killWhenAsked, 50);
	const args = ["run", "-m", provider.model, "-p", "full-auto", "-o", "json", "Use them."];
	const { code, rows, result, stderr } = await crow(args, { cwd: project, env, patience: 120_000 });
	clearInterval(killing);
	checks.equal("exit code", code, 0);
	checks.equal("the answer", result.text, ANSWER);
	const ends = rows.filter(({ type }) => type === "call_end");
	checks.equal("all calls were made", ends.length, CALLS.length);
	for (const [at, [tool, , shown]] of CALLS.entries()) {
		const end = ends[at]?.result ?? {};
		const failed = at === CALLS.length - 1;
		checks.equal(`${at} ${tool}: status`, end.status, failed ? "error" : "success");
		checks.holds(`${at} ${tool}: shows ${shown}`, end.output?.includes(shown), [end.output, end.error, stderr]);
	}
	checks.equal("a picture", ends[5]?.result?.images?.[0]?.media_type, "image/png");
	const progress = rows.filter(({ type, output }) => type === "call_progress" && /^[1-4]\/4/.test(output ?? ""));
	checks.holds("progress is told", progress.length >= 2, rows.filter(({ type }) => type === "call_progress"));
	const told = rows.filter(({ type, text }) => type === "notice" && text.includes("has ended"));
	checks.holds("the death of a server is told", told.length >= 1, rows.filter(({ type }) => type === "notice"));
	const left = running(process.env.EVERYTHING).concat(running(process.env.TIME)).filter((pid) => pid !== web.pid);
	checks.equal("no server is left", left, []);
}

function next(messages) {
	const seen = messages.filter(({ role }) => role === "tool").length;
	if (seen === CALLS.length) {
		return { content: ANSWER };
	}
	const [name, input] = CALLS[seen];
	const values = Object.entries(input).map(([key, value]) => [key, typeof value === "function" ? value() : value]);
	return { toolCalls: [{ name, arguments: JSON.stringify(Object.fromEntries(values)) }] };
}

/// Kills all servers with -9, and starts the one that others run again.
async function killWhenAsked() {
	const mark = path.join(project, "kill-now");
	if (!fs.existsSync(mark)) {
		return;
	}
	fs.rmSync(mark);
	for (const pid of running(process.env.EVERYTHING)) {
		process.kill(pid, "SIGKILL");
	}
	web = await serve();
}

/// The processes with a text in their command line.
function running(text) {
	const pids = fs.readdirSync("/proc").filter((name) => /^\d+$/.test(name));
	const named = pids.filter((pid) => {
		try {
			return fs.readFileSync(`/proc/${pid}/cmdline`, "utf8").includes(text);
		} catch {
			return false;
		}
	});
	return named.map(Number).filter((pid) => pid !== process.pid);
}

async function serve() {
	const env = { PATH: process.env.PATH, PORT: String(port) };
	const child = spawn(process.env.EVERYTHING, ["streamableHttp"], { env, stdio: "ignore" });
	for (let tries = 0; tries < 200; tries += 1) {
		if (await answers()) {
			return child;
		}
		await new Promise((resolve) => setTimeout(resolve, 50));
	}
	throw new Error(`nothing listens on ${port}`);
}

/// Serves one page, and returns the port.
function servePage() {
	return new Promise((resolve) => {
		const pages = http.createServer((request, response) => {
			const found = request.url === "/";
			response.writeHead(found ? 200 : 404, { "content-type": "text/html" });
			response.end(found ? "<html><body><p>This is a page to fetch.</p></body></html>" : "");
		});
		pages.unref();
		pages.listen(0, "127.0.0.1", () => resolve(pages.address().port));
	});
}

function answers() {
	return new Promise((resolve) => {
		const socket = net.connect(port, "127.0.0.1");
		socket.on("connect", () => {
			socket.destroy();
			resolve(true);
		});
		socket.on("error", () => resolve(false));
	});
}

function freePort() {
	return new Promise((resolve) => {
		const listener = net.createServer().listen(0, "127.0.0.1", () => {
			const { port } = listener.address();
			listener.close(() => resolve(port));
		});
	});
}

/// Makes the project and the configuration.
function prepare() {
	fs.mkdirSync(project);
	execFileSync("git", ["init", "-q", "-b", "main"], { cwd: project, env: { PATH: process.env.PATH, HOME: home } });
	fs.writeFileSync(path.join(project, "note.txt"), "This is a note of the project.\n");
	const config = path.join(home, ".config/crow-agent");
	fs.mkdirSync(config, { recursive: true });
	fs.writeFileSync(
		path.join(config, "config.toml"),
		// All tools are listed, so that the model can call them by their names.
		`[mcp]\ndefer_above = 1000000\n\n[mcp.servers.everything]\ncommand = "${process.env.EVERYTHING}"\n\n[mcp.servers.web]\nurl = "http://127.0.0.1:${port}/mcp"\n`,
	);
	const python = (name) => path.join(process.env.PYTHON_SERVERS, `mcp-server-${name}`);
	const node = (name) => path.join(process.env.NODE_SERVERS, `mcp-server-${name}`);
	const servers = {
		mcpServers: {
			time: { command: process.env.TIME, args: ["--local-timezone", "UTC"] },
			files: { command: node("filesystem"), args: [project] },
			memory: { command: node("memory"), env: { MEMORY_FILE_PATH: path.join(home, "memory.json") } },
			git: { command: python("git"), args: ["--repository", project] },
			fetch: { command: python("fetch"), args: ["--ignore-robots-txt", "--allow-private-ips"] },
		},
	};
	fs.writeFileSync(path.join(config, "mcp.json"), JSON.stringify(servers));
}
