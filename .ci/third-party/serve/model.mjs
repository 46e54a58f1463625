// A model service of the chat completions format that plays what the prompt names, and sends its words when it is told to.
import http from "node:http";

/// What the model does at each scene, a step for each time it is asked.
const SCENES = {
	write: [() => call("write_file", { path: "notes.txt", content: "one\ntwo\n" }), () => say("Wrote it.")],
	ask: [
		() => call("ask_user", { question: "Which way?", choices: ["left", "right"] }),
		(results) => say(`You said ${results.at(-1)}`),
	],
	hold: [() => ({ held: true })],
	count: [() => ({ words: 40, pause: 25 })],
	flood: [() => ({ words: 4000, pause: 0, word: `${"x".repeat(2000)}\n` })],
	hostile: [() => say("<img src=x onerror=\"document.title='ran'\"><script>document.title='ran'</script>\u202egnp")],
};

const say = (text) => ({ text });
const call = (name, input) => ({ name, input });

/// Starts the service. `release` lets the held replies end with a text.
export async function startModel() {
	const held = new Set();
	const seen = [];
	const server = http.createServer(async (request, response) => {
		const pieces = [];
		for await (const piece of request) {
			pieces.push(piece);
		}
		if (request.method !== "POST") {
			response.end(JSON.stringify({ data: [{ id: "test" }] }));
			return;
		}
		const { messages } = JSON.parse(Buffer.concat(pieces));
		seen.push(messages);
		response.writeHead(200, { "content-type": "text/event-stream" });
		await play(messages, response, held);
	});
	await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
	const release = (text) => {
		for (const response of held) {
			send(response, { content: text });
			end(response, "stop");
		}
		held.clear();
	};
	const stop = () => {
		server.closeAllConnections();
		server.close();
	};
	return { url: `http://127.0.0.1:${server.address().port}/v1`, release, stop, seen, held };
}

async function play(messages, response, held) {
	const at = messages.findLastIndex((message) => message.role === "user" && /#\w+/.test(textOf(message)));
	const scene = SCENES[/#(\w+)/.exec(textOf(messages[at]))[1]];
	const results = messages.slice(at).filter(({ role }) => role === "tool").map(textOf);
	const steered = messages.slice(at + 1).filter(({ role }) => role === "user").map(textOf);
	const step = steered.length > 0 ? say(`Heard: ${steered.at(-1)}`) : scene[Math.min(results.length, scene.length - 1)](results);
	if (step.held) {
		send(response, { content: "Thinking about it… " });
		held.add(response);
		response.on("close", () => held.delete(response));
		return;
	}
	if (step.words) {
		for (let word = 0; word < step.words && !response.destroyed; word += 1) {
			send(response, { content: step.word ?? `<${Date.now()}> ` });
			await new Promise((next) => setTimeout(next, step.pause));
		}
		end(response, "stop");
		return;
	}
	if (step.text !== undefined) {
		send(response, { content: step.text });
		end(response, "stop");
		return;
	}
	const tool = { index: 0, id: `call_${results.length}`, type: "function", function: { name: step.name, arguments: JSON.stringify(step.input) } };
	send(response, { tool_calls: [tool] });
	end(response, "tool_calls");
}

function textOf({ content }) {
	return typeof content === "string" ? content : (content ?? []).map((part) => part.text ?? "").join("\n");
}

function send(response, delta, reason = null) {
	response.write(`data: ${JSON.stringify({ id: "reply", model: "test", choices: [{ index: 0, delta, finish_reason: reason }] })}\n\n`);
}

function end(response, reason) {
	send(response, {}, reason);
	const usage = { prompt_tokens: 100, completion_tokens: 10, total_tokens: 110 };
	response.end(`data: ${JSON.stringify({ id: "reply", model: "test", choices: [], usage })}\n\ndata: [DONE]\n\n`);
}
