// A model service that streams at a steady rate, in the format of Anthropic's messages.
import http from "node:http";

/// Length of a delta in characters, and deltas that are sent together.
const DELTA = 16;
const DELTAS_PER_TICK = 50;
const TICK = 10;

/// Starts a service that answers a request with what `replyTo` makes of the last text of the user.
export async function start(replyTo) {
	const server = http.createServer(async (request, response) => {
		const pieces = [];
		for await (const piece of request) {
			pieces.push(piece);
		}
		if (request.method !== "POST" || !request.url.startsWith("/v1/messages")) {
			response.writeHead(404).end();
			return;
		}
		const { messages } = JSON.parse(Buffer.concat(pieces).toString());
		response.writeHead(200, { "content-type": "text/event-stream" });
		await stream(replyTo(lastText(messages)), response);
	});
	await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
	const stop = () => {
		server.closeAllConnections();
		server.close();
	};
	return { url: `http://127.0.0.1:${server.address().port}`, stop };
}

function lastText(messages) {
	const { content } = messages.at(-1);
	return typeof content === "string" ? content : content.at(-1).text;
}

/// Sends 5,000 deltas a second: as many as are due, so that a late timer changes nothing.
async function stream(text, response) {
	const usage = { input_tokens: 100, output_tokens: 20 };
	const message = { id: "msg_1", type: "message", role: "assistant", model: "m", content: [], usage };
	send(response, { type: "message_start", message });
	send(response, { type: "content_block_start", index: 0, content_block: { type: "text", text: "" } });
	const begun = performance.now();
	let sent = 0;
	while (sent * DELTA < text.length) {
		const due = Math.ceil(((performance.now() - begun) / TICK) * DELTAS_PER_TICK) + 1;
		let batch = "";
		for (; sent < due && sent * DELTA < text.length; sent += 1) {
			const delta = { type: "text_delta", text: text.slice(sent * DELTA, (sent + 1) * DELTA) };
			batch += event({ type: "content_block_delta", index: 0, delta });
		}
		if (!response.write(batch)) {
			await new Promise((drained) => response.once("drain", drained));
		}
		await new Promise((next) => setTimeout(next, TICK));
	}
	send(response, { type: "content_block_stop", index: 0 });
	send(response, { type: "message_delta", delta: { stop_reason: "end_turn", stop_sequence: null }, usage });
	send(response, { type: "message_stop" });
	response.end();
}

function send(response, data) {
	response.write(event(data));
}

function event(data) {
	return `event: ${data.type}\ndata: ${JSON.stringify(data)}\n\n`;
}
