// A task in three replies. Each is given only for what the tools before it must have answered.

export const PROMPT = "Correct the greeting in notes.txt.";
export const BEFORE = "first line\nhelo world\n";
export const AFTER = "first line\nhello world\n";
export const ANSWER = "The greeting is spelled correctly now.";
export const REASONING = ["The greeting is somewhere in here.", "Line two lacks a letter."];
export const SIGNATURE = ["c2lnbmF0dXJlIG9uZQ==", "c2lnbmF0dXJlIHR3bw=="];

const call = (name, args) => ({ name, arguments: JSON.stringify(args) });
const results = (request) => request.messages.filter((message) => message.role === "tool");
const after = (count, ...texts) => (request) =>
	results(request).length === count &&
	texts.every((text) => results(request).some((result) => JSON.stringify(result.content).includes(text)));

export const TURNS = [
	{
		match: { userMessage: PROMPT, predicate: after(0) },
		response: {
			reasoning: REASONING[0],
			reasoningSignature: SIGNATURE[0],
			toolCalls: [
				call("read_file", { path: "notes.txt" }),
				call("bash", { command: "wc -l < notes.txt; printf 'from the %s\\n' shell" }),
			],
		},
	},
	{
		match: { predicate: after(2, "helo world", "from the shell") },
		response: {
			reasoning: REASONING[1],
			reasoningSignature: SIGNATURE[1],
			toolCalls: [call("edit_file", { path: "notes.txt", old_string: "helo", new_string: "hello" })],
		},
	},
	{ match: { predicate: after(3, "notes.txt") }, response: { content: ANSWER } },
];

/// The turn, but the first time with a fault: `chaos`, `truncateAfterChunks` or an error in place of the reply.
export function once(turn, fault) {
	const match = { ...TURNS[turn].match, sequenceIndex: 0 };
	return { ...TURNS[turn], ...fault, match };
}

export function always(turn, fault) {
	return { ...TURNS[turn], ...fault };
}
