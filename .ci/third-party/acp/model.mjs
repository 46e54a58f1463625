// The model behind the agent: aimock, which plays the scene that the prompt names. Says where it listens, and ends with its
// standard input.
import { PROVIDERS, start } from "../shared/server.mjs";

const bash = (command) => () => call("bash", { command, timeout: 600_000 });

/// What the model does in each scene, a step for each time it is asked. The last step is said in words.
const SCENES = {
	hello: [() => say("Good day from the model, in more words than fit into one piece of the stream.")],
	look: [({ user }) => say(`I see ${pictures(user)} picture and ${JSON.stringify(text(user))}`)],
	write: [() => call("write_file", { path: "notes.txt", content: "one\ntwo\n" }), done],
	edit: [() => call("edit_file", { path: "notes.txt", old_string: "two", new_string: "three" }), done],
	run: [bash("echo ran >> ran.txt"), done],
	sleep: [bash("sleep 98765 & sleep 98765"), done],
	wait: [bash("sleep 1"), done],
	plan: [() => call("todo_write", { todos: [{ content: "Look around", status: "in_progress" }] }), done],
	ask: [() => call("ask_user", { question: "Which one?", choices: ["left", "right"] }), done],
	time: [({ tools }) => call(named(tools, /get_current_time/), { timezone: "UTC" }), done],
	echo: [({ tools }) => call(named(tools, /echo/), { message: "over the wire" }), done],
	own: [({ tools }) => call(named(tools, /own_word/), {}), done],
	size: [({ user }) => say(`It has ${text(user).length} characters.`)],
};

const call = (name, input) => ({ toolCalls: [{ name, arguments: JSON.stringify(input) }] });
const say = (content) => ({ content });
const named = (tools, name) => tools.find((tool) => name.test(tool)) ?? "no_such_tool";

function done({ results }) {
	return say(`Done: ${results.at(-1)}`);
}

function text({ content }) {
	const parts = typeof content === "string" ? [{ type: "text", text: content }] : content;
	return parts.map((part) => part.text ?? "").join("\n");
}

function pictures({ content }) {
	return typeof content === "string" ? 0 : content.filter(({ type }) => type === "image_url").length;
}

function play({ messages, tools = [] }) {
	const at = messages.findLastIndex((message) => message.role === "user" && /#\w+/.test(text(message)));
	const user = messages[at];
	const scene = SCENES[/#(\w+)/.exec(text(user))[1]];
	const results = messages.slice(at).filter(({ role }) => role === "tool").map(text);
	return scene[Math.min(results.length, scene.length - 1)]({
		user,
		results,
		tools: tools.map((tool) => tool.function.name),
	});
}

const provider = PROVIDERS.find(({ name }) => name === "openai-chat");
const server = await start([{ match: { predicate: () => true }, response: play }]);
console.log(server.url + provider.path);
process.stdin.on("end", () => server.stop().then(() => process.exit(0))).resume();
