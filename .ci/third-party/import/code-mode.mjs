// What aimock does not know: the tool of Codex that takes a program in JavaScript instead of JSON (`custom_tool_call`).
const PROGRAMS = [
	'const result = await tools.exec_command({ cmd: "wc -l < notes.txt" });\ntext(result.output);\n',
	'const patch = "*** Begin Patch\\n*** Add File: summary.txt\\n+2 lines\\n*** End Patch\\n";\ntext(await tools.apply_patch(patch));\n',
	'const result = await tools.exec_command({ cmd: "cat missing.txt" });\ntext(result);\n',
];
let count = 0;

/// Answers a request of the Responses API by the script. Returns false for one that is none of its turns.
export function answerCodeMode({ model, input }, turns, response) {
	const texts = input.map((item) => (item.role === "user" ? JSON.stringify(item.content) : ""));
	const at = texts.findLastIndex((text) => turns.some(({ prompt }) => text.includes(prompt)));
	if (at < 0) {
		return false;
	}
	const turn = turns.findIndex(({ prompt }) => texts[at].includes(prompt));
	const answered = input.slice(at).some(({ type }) => type === "custom_tool_call_output");
	const { thinking, before, answer } = turns[turn];
	count += 1;
	const message = (text) => ({
		type: "message",
		id: `msg_${count}`,
		status: "completed",
		role: "assistant",
		content: [{ type: "output_text", text, annotations: [] }],
	});
	const items = [message(answer)];
	if (PROGRAMS[turn] && !answered) {
		const summary = [{ type: "summary_text", text: thinking }];
		items.splice(0, 1, { type: "reasoning", id: `rs_${count}`, summary, encrypted_content: "bm90IHJlYWw=" });
		items.push(message(before));
		items.push({
			type: "custom_tool_call",
			id: `ctc_${count}`,
			status: "completed",
			call_id: `call_${count}`,
			name: "exec",
			input: PROGRAMS[turn],
		});
	}
	const id = `resp_${count}`;
	const usage = {
		input_tokens: 5000,
		input_tokens_details: { cached_tokens: 0 },
		output_tokens: 50,
		output_tokens_details: { reasoning_tokens: 10 },
		total_tokens: 5050,
	};
	const events = [{ type: "response.created", response: { id, object: "response", status: "in_progress", model, output: [] } }];
	items.forEach((item, output_index) => {
		events.push({ type: "response.output_item.added", output_index, item: { ...item, ...opened(item) } });
		events.push(...deltas(item, output_index));
		events.push({ type: "response.output_item.done", output_index, item });
	});
	events.push({ type: "response.completed", response: { id, object: "response", status: "completed", model, output: items, usage } });
	response.writeHead(200, { "content-type": "text/event-stream" });
	events.forEach((event, sequence_number) => {
		response.write(`event: ${event.type}\ndata: ${JSON.stringify({ ...event, sequence_number })}\n\n`);
	});
	response.end();
	return true;
}

/// What an item does not hold yet when it begins.
function opened({ type }) {
	const status = "in_progress";
	return { message: { status, content: [] }, reasoning: { summary: [] }, custom_tool_call: { status, input: "" } }[type];
}

function deltas(item, output_index) {
	const at = { item_id: item.id, output_index };
	switch (item.type) {
		case "message":
			return [{ type: "response.output_text.delta", ...at, content_index: 0, delta: item.content[0].text }];
		case "reasoning": {
			const part = { ...at, summary_index: 0 };
			const { text } = item.summary[0];
			return [
				{ type: "response.reasoning_summary_part.added", ...part, part: { type: "summary_text", text: "" } },
				{ type: "response.reasoning_summary_text.delta", ...part, delta: text },
				{ type: "response.reasoning_summary_text.done", ...part, text },
			];
		}
		case "custom_tool_call":
			return [{ type: "response.custom_tool_call_input.delta", ...at, delta: item.input }];
	}
}
