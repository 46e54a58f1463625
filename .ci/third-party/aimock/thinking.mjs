// Whether a continuation carries the model's thinking back, per wire format.
import { REASONING, SIGNATURE } from "./conversation.mjs";

/// Returns what of the thinking the last request holds, beside what it must hold.
export function thinking(provider, request) {
	switch (provider.name) {
		case "anthropic":
			return { actual: anthropic(request), expected: [0, 1].map((at) => [REASONING[at], SIGNATURE[at]]) };
		case "openai":
			return { actual: responses(request), expected: REASONING };
		case "openai-chat":
			return { actual: chat(request), expected: REASONING };
		case "gemini":
			return { actual: gemini(request), expected: ["signed", "signed"] };
	}
}

function anthropic(request) {
	const replies = request.messages.filter((message) => message.role === "assistant");
	return replies.map(({ content: [first] }) => first.type === "thinking" && [first.thinking, first.signature]);
}

/// The item counts only with the content that aimock encrypted for its id.
function responses(request) {
	const items = request.input.filter((item) => item.type === "reasoning");
	const encrypted = (id) => Buffer.from(`aimock-encrypted-reasoning:${id}`).toString("base64");
	return items.map((item) => item.encrypted_content === encrypted(item.id) && item.summary[0].text);
}

function chat(request) {
	const replies = request.messages.filter((message) => message.role === "assistant");
	return replies.map((message) => message.reasoning_content);
}

/// aimock signs nothing, and the service refuses a continuation whose first call has no signature or stand-in for one.
function gemini(request) {
	const replies = request.contents.filter((content) => content.role === "model");
	const first = replies.map(({ parts }) => parts.find((part) => part.functionCall));
	return first.map((part) => (part.thoughtSignature ? "signed" : "bare"));
}
