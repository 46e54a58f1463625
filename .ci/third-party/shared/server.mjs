// aimock, an independent mock of the model services, behind a recorder of what is sent to it.
import http from "node:http";

const { LLMock } = await import(process.env.AIMOCK);

/// The four wire formats: the shipped default model of each provider, and where it looks for its service and key.
export const PROVIDERS = [
	{
		name: "anthropic",
		model: "anthropic/claude-sonnet-5-5",
		variable: "ANTHROPIC_BASE_URL",
		path: "",
		key: "ANTHROPIC_API_KEY",
	},
	{ name: "openai", model: "openai/gpt-6.1-sol", variable: "OPENAI_BASE_URL", path: "/v1", key: "OPENAI_API_KEY" },
	{
		name: "openai-chat",
		model: "openai-chat/gpt-6.1-sol",
		variable: "OPENAI_BASE_URL",
		path: "/v1",
		key: "OPENAI_API_KEY",
	},
	{ name: "gemini", model: "gemini/gemini-3.8-flash", variable: "GEMINI_BASE_URL", path: "", key: "GEMINI_API_KEY" },
];

/// Starts aimock in strict mode: a request that no fixture expects, or that breaks a rule, is refused.
export async function start(fixtures) {
	const mock = new LLMock({ port: 0, strict: true, chunkSize: 3, logLevel: "silent" });
	mock.addFixtures(fixtures);
	await mock.start();
	const requests = [];
	const recorder = http.createServer((request, response) => record(request, response, mock, requests));
	await new Promise((ready) => recorder.listen(0, "127.0.0.1", ready));
	const url = `http://127.0.0.1:${recorder.address().port}`;
	const replace = (next) => {
		mock.clearFixtures().addFixtures(next).resetMatchCounts().clearRequests();
		requests.length = 0;
	};
	const stop = async () => {
		recorder.closeAllConnections();
		recorder.close();
		await mock.stop();
	};
	return { url, requests, replace, stop, journal: () => mock.getRequests() };
}

async function record(request, response, mock, requests) {
	const pieces = [];
	for await (const piece of request) {
		pieces.push(piece);
	}
	let body = Buffer.concat(pieces).toString();
	if (request.method === "POST") {
		requests.push(JSON.parse(body));
		body = withThinking(request.url, body);
	}
	const headers = { ...request.headers, "content-length": Buffer.byteLength(body) };
	const options = { method: request.method, headers, agent: false };
	const forwarded = http.request(mock.url + request.url, options, (answer) => {
		response.writeHead(answer.statusCode, answer.headers);
		answer.on("data", (piece) => response.write(piece));
		answer.on("end", () => response.end());
		// A connection that is cut there is cut here.
		answer.on("error", () => response.destroy());
	});
	forwarded.on("error", () => response.destroy());
	forwarded.end(body);
}

/// aimock checks the thinking of a continuation only where the older way of asking for it is used.
function withThinking(url, body) {
	if (!url.startsWith("/v1/messages")) {
		return body;
	}
	return JSON.stringify({ ...JSON.parse(body), thinking: { type: "enabled", budget_tokens: 2048 } });
}
