// Drives the program through aimock in each wire format: first undisturbed, then with every fault that it knows.
import { Checks } from "../shared/checks.mjs";
import { PROVIDERS, start } from "../shared/server.mjs";
import { AFTER, ANSWER, BEFORE, TURNS, always, once } from "./conversation.mjs";
import { run } from "./run.mjs";
import { thinking } from "./thinking.mjs";

/// What passes: the run succeeds. The statuses are those of all requests, `cut` for a stream that broke off.
const PASSING = {
	"a rate limit": { faults: [once(0, { chaos: { rateLimitRate: 1 } })], statuses: [429, 200, 200, 200], least: 1 },
	"a server error": { faults: [once(1, { chaos: { dropRate: 1 } })], statuses: [200, 500, 200, 200] },
	"an overload": { faults: [once(2, refusal(529, "overloaded_error"))], statuses: [200, 200, 529, 200] },
	"a closed connection": { faults: [once(1, { chaos: { disconnectRate: 1 } })], statuses: [200, "cut", 200, 200] },
	"a cut in every reply": {
		deltasBefore: 3,
		faults: [0, 1, 2].map((turn) => once(turn, cut())),
		statuses: ["cut", 200, "cut", 200, "cut", 200],
	},
};

/// What does not pass: the run fails with the exit code that `crow-agent --help` gives, and a reason.
const LASTING = {
	"a body that is no stream": { faults: [always(0, { chaos: { malformedRate: 1 } })], exit: 1, requests: 1 },
	"a refused request": { faults: [always(0, refusal(400, "invalid_request_error"))], exit: 1, requests: 1 },
	"a refused key": { faults: [always(0, refusal(401, "authentication_error"))], exit: 3, requests: 1 },
	"a lasting rate limit": { faults: [always(0, { chaos: { rateLimitRate: 1 } })], exit: 4, requests: 5 },
	"a lasting cut": { faults: [always(0, cut())], exit: 4, requests: 5 },
};

/// Breaks off after some chunks, which come one by one.
function cut() {
	return { truncateAfterChunks: 8, latency: 5 };
}

function refusal(status, type) {
	return { response: { error: { message: "not today", type }, status } };
}

const checks = new Checks("aimock");
await Promise.all(PROVIDERS.map(check));
checks.finish();

async function check(provider) {
	const server = await start(TURNS);
	try {
		await undisturbed(provider, server);
		for (const [name, fault] of Object.entries(PASSING)) {
			server.replace([...fault.faults, ...TURNS]);
			await passing(`${provider.name}, ${name}`, fault, provider, server);
		}
		for (const [name, fault] of Object.entries(LASTING)) {
			server.replace(fault.faults);
			await lasting(`${provider.name}, ${name}`, fault, provider, server);
		}
	} finally {
		await server.stop();
	}
}

async function undisturbed(provider, server) {
	const { name } = provider;
	const outcome = await run(provider, server.url);
	succeeded(name, outcome);
	checks.equal(`${name}: aimock accepts every request`, statuses(server), [200, 200, 200]);
	const { actual, expected } = thinking(provider, server.requests.at(-1));
	checks.equal(`${name}: the thinking goes back`, actual, expected);
	checks.equal(`${name}: every call is answered once`, ...answers(server.journal().at(-1).body));
	if (name === "anthropic") {
		await strictnessIsReal(server);
	}
}

async function passing(what, fault, provider, server) {
	const outcome = await run(provider, server.url);
	succeeded(what, outcome);
	checks.equal(`${what}: requests`, statuses(server), fault.statuses);
	checks.holds(`${what}: cut in the middle`, begun(outcome) >= (fault.deltasBefore ?? 0), begun(outcome));
	checks.holds(`${what}: the wait that was asked for`, outcome.seconds >= (fault.least ?? 0), outcome.seconds);
}

async function lasting(what, fault, provider, server) {
	const outcome = await run(provider, server.url);
	const { result } = outcome;
	checks.equal(`${what}: exit code`, outcome.code, fault.exit);
	checks.equal(`${what}: exit code of the result`, result.exit_code, fault.exit);
	checks.equal(`${what}: requests`, server.requests.length, fault.requests);
	checks.equal(`${what}: the file`, outcome.notes, BEFORE);
	checks.equal(`${what}: no answer`, result.text, "");
	const message = result.error?.message ?? "";
	checks.holds(`${what}: the reason names the provider`, message.startsWith(`${provider.name}: `), result.error);
}

function succeeded(what, outcome) {
	const { result } = outcome;
	checks.equal(`${what}: exit code`, outcome.code, 0);
	checks.equal(`${what}: the file`, outcome.notes, AFTER);
	checks.equal(`${what}: the answer`, result.text, ANSWER);
	checks.equal(`${what}: no error`, result.error, null);
	checks.equal(`${what}: files`, result.files_changed?.length, 1);
}

/// How many replies were taken back after something of them had been shown.
function begun({ rows }) {
	let open = false;
	let count = 0;
	for (const { type } of rows) {
		if (type === "reply_reset" && open) {
			count += 1;
		}
		open = ["thinking_delta", "text_delta"].includes(type) || (open && type !== "reply_reset");
		if (type === "reply") {
			open = false;
		}
	}
	return count;
}

function statuses(server) {
	return server.journal().map(({ response }) => {
		const isCut = response.interrupted || response.chaosAction === "disconnect";
		return isCut ? "cut" : response.status;
	});
}

/// The ids of the calls and of the results, as aimock reads them out of a request.
function answers({ messages }) {
	const calls = messages.flatMap((message) => message.tool_calls ?? []).map((call) => call.id);
	const results = messages.filter((message) => message.role === "tool").map((message) => message.tool_call_id);
	return [results, calls];
}

/// aimock refuses the same continuation without its thinking: that it accepted ours means something.
async function strictnessIsReal(server) {
	const request = structuredClone(server.requests.at(-1));
	const bare = (content) => content.filter((block) => block.type !== "thinking");
	request.messages = request.messages.map((message) => ({ ...message, content: bare(message.content) }));
	const headers = { "content-type": "application/json" };
	const answer = await fetch(`${server.url}/v1/messages`, { method: "POST", headers, body: JSON.stringify(request) });
	await answer.body?.cancel();
	checks.equal("anthropic: aimock refuses a continuation without thinking", answer.status, 400);
}
