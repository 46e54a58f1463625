// aimock, an independent mock of the model services, as a process of its own: node mock.mjs PROGRAM LOG
//
// It prints the port on loopback where it answers, and appends every request to LOG. AIMOCK is its module, PROJECT the
// folder of the project. The script is the same for every program; the tools are those that the program offers.
import fs from "node:fs";
import http from "node:http";

import { answerCodeMode } from "./code-mode.mjs";

const [program, log] = process.argv.slice(2);
const { LLMock } = await import(process.env.AIMOCK);

const FILE = `${process.env.PROJECT}/summary.txt`;
const CONTENT = "2 lines\n";

/// The shell of each program, and its tool that writes a file, with the arguments that they ask for.
const TOOLS = {
	claude: {
		shell: (command) => ["Bash", { command }],
		write: ["Write", { file_path: FILE, content: CONTENT }],
		helper: (args) => ["Agent", { ...args, subagent_type: "general-purpose" }],
	},
	codex: { shell: (cmd) => ["exec_command", { cmd }], write: ["exec_command", { cmd: "echo '2 lines' > summary.txt" }] },
	pi: { shell: (command) => ["bash", { command }], write: ["write", { path: FILE, content: CONTENT }] },
	gemini: {
		shell: (command) => ["run_shell_command", { command }],
		write: ["write_file", { file_path: FILE, content: CONTENT }],
	},
	opencode: {
		shell: (command) => ["bash", { command, description: "Runs a command" }],
		write: ["write", { filePath: FILE, content: CONTENT }],
		helper: (args) => ["task", { ...args, subagent_type: "general" }],
	},
}[program];

const TURNS = [
	{
		prompt: "Count the lines of notes.txt.",
		thinking: "The shell can count them.",
		before: "I count them with wc.",
		call: TOOLS.shell("wc -l < notes.txt"),
		answer: "The file notes.txt has two lines.",
	},
	{
		prompt: "Write the count into summary.txt.",
		thinking: "The number was two.",
		before: "I write it down.",
		call: TOOLS.write,
		answer: "The count is in summary.txt now.",
	},
	{
		prompt: "Show missing.txt.",
		thinking: "It may not be there.",
		before: "I look for it.",
		call: TOOLS.shell("cat missing.txt"),
		answer: "There is no such file.",
	},
	{
		prompt: "Let a helper count.",
		thinking: "A helper may do that.",
		before: "I ask a helper.",
		call: TOOLS.helper?.({ description: "Count lines", prompt: "Count the lines of notes.txt." }),
		answer: "The helper says that there are two lines.",
	},
	{ prompt: "Say goodbye.", answer: "Goodbye." },
];
const SUMMARY = /create a detailed summary of the conversation|CONTEXT CHECKPOINT COMPACTION|context summarization|snapshot|anchored summary/i;
const TITLE = /generate a (short |concise )?title|title generator|sentence-case title/i;

/// The first turn is said to be long, so that a program can be made to summarize it before the second.
const usage = (turn) => {
	const input = turn === TURNS[0] ? 5000 : 500;
	const names = { input_tokens: input, output_tokens: 50, prompt_tokens: input, completion_tokens: 50 };
	return program === "gemini" ? { promptTokenCount: input, candidatesTokenCount: 50 } : names;
};

const text = ({ content }) => (typeof content === "string" ? content : JSON.stringify(content ?? ""));
const asked = (request, at) => TURNS.find(({ prompt }) => text(request.messages[at]).includes(prompt));
/// Where the turn begins: the last message of the user that holds a prompt of the script.
const start = (request) => request.messages.findLastIndex(({ role }, at) => role === "user" && asked(request, at));
const answered = (request) => request.messages.slice(start(request)).some(({ role }) => role === "tool");
const inTurn = (turn, after) => (request) => {
	const at = start(request);
	return at >= 0 && asked(request, at) === turn && answered(request) === after;
};
/// Whether the system asks for it, or what follows the last reply does, in which results of tools may be too.
const matches = (pattern) => (request) => {
	const last = request.messages.findLastIndex(({ role }) => role === "assistant");
	return request.messages.some((message, at) => (message.role === "system" || at > last) && pattern.test(text(message)));
};

const fixtures = [
	// Gemini CLI asks a small model which one is to answer.
	{
		match: { predicate: matches(/You are a specialized Task Routing AI/) },
		response: { content: '{"complexity_reasoning": "It is simple.", "complexity_score": 60}' },
	},
	{ match: { predicate: matches(TITLE) }, response: { content: "Counting the lines" } },
	{
		match: { predicate: matches(SUMMARY) },
		response: { content: "<summary>The file notes.txt has two lines.</summary>", usage: usage() },
	},
];
for (const turn of TURNS) {
	const { thinking, before, call, answer } = turn;
	if (call) {
		const toolCalls = [{ name: call[0], arguments: JSON.stringify(call[1]) }];
		fixtures.push({
			match: { predicate: inTurn(turn, false) },
			response: { reasoning: thinking, content: before, toolCalls, usage: usage(turn) },
		});
	}
	fixtures.push({ match: { predicate: inTurn(turn, Boolean(call)) }, response: { content: answer, usage: usage(turn) } });
}
fixtures.push({ match: { predicate: () => true }, response: { content: "Nothing in the script." } });

const mock = new LLMock({ port: 0, chunkSize: 200, logLevel: "silent" });
mock.addFixtures(fixtures);
await mock.start();

const server = http.createServer(async (request, response) => {
	const pieces = [];
	for await (const piece of request) {
		pieces.push(piece);
	}
	const body = Buffer.concat(pieces);
	const note = (status) => {
		const row = { method: request.method, url: request.url, status, body: body.toString() };
		fs.appendFileSync(log, JSON.stringify(row) + "\n");
	};
	if (body.includes('"additional_tools"') && answerCodeMode(JSON.parse(body), TURNS, response)) {
		note(200);
		return;
	}
	const headers = { ...request.headers, "content-length": body.length };
	delete headers["transfer-encoding"];
	const options = { method: request.method, headers, agent: false };
	const forwarded = http.request(mock.url + request.url, options, (answer) => {
		note(answer.statusCode);
		response.writeHead(answer.statusCode, answer.headers);
		answer.pipe(response);
	});
	forwarded.on("error", () => response.destroy());
	forwarded.end(body);
});
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
