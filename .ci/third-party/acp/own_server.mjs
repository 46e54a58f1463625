// A server of tools that the client itself serves, over its own connection.

/// What the one tool answers.
export const WORD = "from the client itself";

/// Serves a tool that gives a word, as the version of MCP without sessions has it.
export async function serve({ method, params, notify }) {
	switch (method) {
		case "server/discover":
			return {
				result: {
					supportedVersions: ["2026-07-28"],
					capabilities: { tools: {} },
					resultType: "complete",
					ttlMs: 0,
					cacheScope: "private",
				},
			};
		case "tools/list":
			return {
				result: {
					tools: [{ name: "own_word", description: "Gives a word.", inputSchema: { type: "object" } }],
					resultType: "complete",
					ttlMs: 0,
					cacheScope: "private",
				},
			};
		case "tools/call":
			await notify("notifications/progress", {
				progressToken: params?._meta?.progressToken ?? 0,
				progress: 1,
				message: "half way",
			});
			return { result: { content: [{ type: "text", text: WORD }], resultType: "complete" } };
		default:
			return { error: { code: -32601, message: `no ${method} here` } };
	}
}
