// The page of the live view. What comes as `html` was rendered and escaped by the server; everything else is shown as text.

/// Entries of a transcript that the page keeps.
const MOST_ENTRIES = 600;
/// Characters of a running call's output that the page keeps.
const MOST_OUTPUT = 20_000;
/// Characters of a reply that is being written that the page keeps, about. The whole reply follows when it is complete.
const MOST_REPLY = 60_000;
/// Longest wait before a lost connection is tried again, in milliseconds.
const LONGEST_PAUSE = 5_000;
/// How long a page that is not seen collects messages, in milliseconds.
const HIDDEN_PAUSE = 200;
/// How long a page that is not seen stays connected, in milliseconds: a browser has few connections for a server.
const HIDDEN_CONNECTION = 300_000;
/// How long a new question cannot be answered, in milliseconds: a second tap was meant for the one before.
const NEW_QUESTION = 500;
/// How often the shown view of a session under way is rendered again, in milliseconds.
const VIEW_PAUSE = 1_000;

/// What is known of a session's usage at first.
const NO_USAGE = { context_tokens: 0, context_window: null, cost_usd: null };

const $ = (id) => document.getElementById(id);
const sessions = new Map();
/// Replies that are being written and calls that run, by their keys.
const partsUnderWay = new Map();
/// What was typed and not sent, by session.
const drafts = new Map();
let token = null;
let current = null;
let view = "transcript";
let isHosted = false;
let stream = null;
let viewIsOld = false;
let messagesOfFrame = [];
let hiddenTimer = null;
let logInTimer = null;
let shownState = null;
let isLoadingView = false;
let isSending = false;
/// True until the transcript of the shown session came for the first time.
let isNewSession = true;
let usage = NO_USAGE;

// --- Requests ---

class Refusal extends Error {}

async function request(method, path, body) {
	const headers = { authorization: `Bearer ${token}` };
	if (body !== undefined) {
		headers["content-type"] = "application/json";
	}
	const response = await fetch(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
	if (response.status === 401) {
		logOut("The token is not valid.");
		throw new Refusal("the token is not valid");
	}
	if (!response.ok) {
		const { error, hint } = await response.json().catch(() => ({ error: `the server answered ${response.status}` }));
		throw new Refusal(hint ? `${error} (${hint})` : error);
	}
	if (response.status === 204) {
		return {};
	}
	const type = response.headers.get("content-type") ?? "";
	return type.startsWith("application/json") ? response.json() : response.text();
}

const inSession = (method, path, body) => request(method, `/api/sessions/${encodeURIComponent(current)}/${path}`, body);

function say(text) {
	setText($("banner"), text);
}

/// Runs something that the user asked for, and says why it failed.
async function attempt(work) {
	try {
		say("");
		return await work();
	} catch (error) {
		say(error.message);
		return null;
	}
}

// --- The event stream ---

function connect() {
	stream?.abort();
	stream = null;
	if (token === null) {
		return;
	}
	const controller = new AbortController();
	stream = controller;
	follow(controller, current);
}

async function follow(controller, session) {
	let pause = 250;
	while (!controller.signal.aborted) {
		try {
			const path = session === null ? "/api/events" : `/api/sessions/${encodeURIComponent(session)}/events`;
			const headers = { authorization: `Bearer ${token}` };
			const response = await fetch(path, { headers, signal: controller.signal });
			if (response.status === 401) {
				logOut("The token is not valid.");
				return;
			}
			if (response.status === 404) {
				say("There is no such session.");
				location.hash = "#/";
				return;
			}
			if (!response.ok) {
				const { error } = await response.json().catch(() => ({}));
				throw new Refusal(error ?? `the server answered ${response.status}`);
			}
			sessions.clear();
			for await (const message of messages(response.body)) {
				if (controller.signal.aborted) {
					return;
				}
				if (pause > 250) {
					say("");
				}
				pause = 250;
				messagesOfFrame.push([controller, message]);
				if (messagesOfFrame.length === 1) {
					// A page that is not seen has no frames.
					if (document.hidden) {
						setTimeout(receiveAll, HIDDEN_PAUSE);
					} else {
						requestAnimationFrame(receiveAll);
					}
				}
			}
			// The server ends a stream when the session was opened or closed: the next one shows it as it is now.
		} catch (error) {
			if (controller.signal.aborted) {
				return;
			}
			say(error instanceof Refusal ? error.message : "The server cannot be reached. It is tried again.");
			pause = Math.min(pause * 2, LONGEST_PAUSE);
		}
		await new Promise((resolve) => setTimeout(resolve, pause));
	}
}

async function* messages(body) {
	const reader = body.pipeThrough(new TextDecoderStream()).getReader();
	let rest = "";
	for (;;) {
		const { value, done } = await reader.read();
		if (done) {
			return;
		}
		rest += value;
		const events = rest.split("\n\n");
		rest = events.pop();
		for (const event of events) {
			if (event.startsWith("data: ")) {
				yield JSON.parse(event.slice(6));
			}
		}
	}
}

/// Shows what came since the last frame: laying out the page once for each of thousands of deltas would take seconds.
function receiveAll() {
	const received = messagesOfFrame;
	messagesOfFrame = [];
	const box = $("view");
	const isAtEnd = box.scrollHeight - box.scrollTop - box.clientHeight < 80;
	for (const [controller, message] of received) {
		if (!controller.signal.aborted) {
			receive(message);
		}
	}
	// It stays at the end of the transcript if the user looks at its end.
	if (isAtEnd) {
		scrollDown();
	}
}

function receive(message) {
	switch (message.type) {
		case "sessions":
			for (const entry of message.changed) {
				sessions.set(entry.id, entry);
			}
			for (const id of message.removed) {
				sessions.delete(id);
			}
			showList();
			return;
		case "history":
			isHosted = message.is_hosted;
			partsUnderWay.clear();
			$("under-way").replaceChildren();
			$("entries").innerHTML = message.html;
			$("is-cut").hidden = !message.is_cut;
			showActions();
			if (!isHosted) {
				showQuestions([], []);
			}
			if (isNewSession) {
				scrollDown();
			}
			isNewSession = false;
			refreshView();
			return;
		case "part_end":
			removePart(message.key);
			return;
		case "entry":
			addEntry(message);
			return;
		case "reply_text":
			addReplyText(message);
			return;
		case "reply_reset":
			removePart(message.key);
			if (message.reason !== "") {
				say(`Sent again: ${message.reason}`);
			}
			return;
		case "call_start":
			startCall(message);
			return;
		case "call_output":
			addOutput(message);
			return;
		case "state":
			showState(message);
			return;
		case "questions":
			showQuestions(message.permissions, message.questions);
			return;
		case "usage":
			showUsage(message);
			return;
		case "skipped":
			$("under-way").replaceChildren();
			partsUnderWay.clear();
			return;
		case "lost":
			say(`A part of the log cannot be read: ${message.reason}`);
			return;
	}
}

// --- The list ---

const RANK = { asking: 0, working: 1, idle: 2, elsewhere: 3, stored: 4 };
const WORDS = { asking: "asks you", working: "works", idle: "ready", elsewhere: "in another program", stored: "stored" };

function showList() {
	const list = $("sessions");
	const entries = [...sessions.values()];
	entries.sort((one, other) => RANK[one.state] - RANK[other.state] || (one.updated < other.updated ? 1 : -1));
	const items = new Map([...list.children].map((item) => [item.dataset.id, item]));
	for (const [index, entry] of entries.entries()) {
		const item = items.get(entry.id) ?? newItem(entry.id);
		items.delete(entry.id);
		const [link] = item.children;
		const [name, about] = link.children;
		setText(name, entry.title || "(no prompt yet)");
		setText(about.children[0], WORDS[entry.state]);
		about.children[0].className = `state ${entry.state}`;
		setText(about.children[1], `${entry.cwd.split("/").at(-1)} · ${entry.agent} · ${entry.model}`);
		about.children[1].title = entry.cwd;
		if (entry.id === current) {
			link.setAttribute("aria-current", "page");
		} else {
			link.removeAttribute("aria-current");
		}
		if (list.children[index] !== item) {
			list.insertBefore(item, list.children[index] ?? null);
		}
	}
	for (const item of items.values()) {
		item.remove();
	}
	$("no-sessions").hidden = entries.length > 0;
	const folders = [...new Set(entries.map((entry) => entry.cwd))].slice(0, 20);
	$("folders").replaceChildren(...folders.map((folder) => new Option("", folder)));
	const asking = entries.filter((entry) => entry.state === "asking").length;
	document.title = asking > 0 ? `(${asking}) Crow` : "Crow";
	showSessionHead();
}

function newItem(id) {
	const item = document.createElement("li");
	item.dataset.id = id;
	const link = element("a", "");
	link.href = `#/sessions/${encodeURIComponent(id)}`;
	const about = element("span", "about");
	about.append(element("span", "state"), element("span", "where"));
	link.append(element("span", "name"), about);
	item.append(link);
	return item;
}

function element(name, className, text) {
	const made = document.createElement(name);
	made.className = className;
	if (text !== undefined) {
		made.textContent = text;
	}
	return made;
}

function setText(node, text) {
	if (node.textContent !== text) {
		node.textContent = text;
	}
}

// --- A session ---

function showSessionHead() {
	const entry = sessions.get(current);
	if (entry === undefined) {
		return;
	}
	setText($("title"), entry.title || "(no prompt yet)");
	$("facts").title = entry.cwd;
	showUsage(usage);
	if (!isHosted) {
		$("open").hidden = entry.state === "elsewhere";
		showState({ state: entry.state, detail: "" });
	}
}

function showState({ state, detail }) {
	if (state !== shownState && ["asking", "idle"].includes(state)) {
		setText($("announcement"), state === "asking" ? "A question is open." : "The agent is ready.");
	}
	shownState = state;
	const words = state === "working" && detail !== "" ? detail : WORDS[state];
	setText($("state"), words);
	$("state").className = `state ${state}`;
	$("cancel").disabled = !["working", "asking"].includes(state);
	for (const id of ["undo", "redo"]) {
		$(id).disabled = state !== "idle";
	}
	setText($("send"), state === "idle" ? "Send" : "Steer");
	if (state === "idle") {
		// A run that was cancelled leaves nothing under way.
		partsUnderWay.clear();
		$("under-way").replaceChildren();
		refreshView();
	}
}

function showActions() {
	for (const id of ["cancel", "undo", "redo", "close"]) {
		$(id).hidden = !isHosted;
	}
	$("open").hidden = isHosted || sessions.get(current)?.state === "elsewhere";
	$("composer").hidden = !isHosted;
	$("tab-settings").hidden = !isHosted;
	showSessionHead();
}

function showUsage({ context_tokens: tokens, context_window: size, cost_usd: cost }) {
	usage = { context_tokens: tokens, context_window: size, cost_usd: cost };
	const entry = sessions.get(current);
	const parts = entry === undefined ? [] : [entry.cwd.split("/").at(-1), entry.model];
	if (tokens > 0) {
		const share = size ? `, ${Math.round((tokens * 100) / size)} % of the window` : "";
		parts.push(`${tokens.toLocaleString("en")} tokens${share}`);
	}
	if (cost !== null && cost > 0) {
		parts.push(`$${cost.toFixed(4)}`);
	}
	setText($("facts"), parts.join(" · "));
}

function scrollDown() {
	if (view === "transcript") {
		$("view").scrollTop = $("view").scrollHeight;
	}
}

function addEntry({ html, replaces }) {
	if (replaces !== undefined) {
		removePart(replaces);
	}
	const entries = $("entries");
	entries.insertAdjacentHTML("beforeend", html);
	while (entries.childElementCount > MOST_ENTRIES) {
		entries.firstElementChild.remove();
		$("is-cut").hidden = false;
	}
	refreshView();
}

function removePart(key) {
	partsUnderWay.get(key)?.remove();
	partsUnderWay.delete(key);
}

function addReplyText({ key, agent, class: style, is_thinking: isThinking, text }) {
	let article = partsUnderWay.get(key);
	if (article === undefined) {
		article = element("article", style);
		article.append(element("h4", "", agent), element("p", "note", ""), element("pre", "text-under-way", ""));
		partsUnderWay.set(key, article);
		$("under-way").append(article);
	}
	const [, thinking, words] = article.children;
	// Nodes of text are appended: a long one is not copied for each delta.
	const part = isThinking ? thinking : words;
	part.append(text);
	const size = Number(part.dataset.size ?? 0) + text.length;
	part.dataset.size = size;
	for (let rest = size; rest > MOST_REPLY && part.childNodes.length > 1; part.dataset.size = rest) {
		rest -= part.firstChild.length;
		part.firstChild.remove();
	}
}

function startCall({ key, class: style, tool, title }) {
	removePart(key);
	const call = element("div", `call ${style}`);
	call.append(element("code", "", tool), ` ${title} `, element("span", "muted", "runs"), element("pre", "", ""));
	call.lastElementChild.hidden = true;
	partsUnderWay.set(key, call);
	$("under-way").append(call);
}

function addOutput({ key, output }) {
	const box = partsUnderWay.get(key)?.querySelector("pre");
	if (box) {
		box.textContent = (box.textContent + output).slice(-MOST_OUTPUT);
		box.hidden = false;
		box.scrollTop = box.scrollHeight;
	}
}

// --- Questions ---

function showQuestions(permissions, questions) {
	const box = $("questions");
	const cards = [...permissions.map(permissionCard), ...questions.map(questionCard)];
	const wanted = new Set(cards.map((card) => card.dataset.id));
	// A card that is still open stays as it is: the user may be writing in it.
	for (const shown of [...box.children]) {
		if (!wanted.delete(shown.dataset.id)) {
			shown.remove();
		}
	}
	for (const card of cards.filter(({ dataset }) => wanted.has(dataset.id))) {
		setDisabled(card, true);
		setTimeout(() => setDisabled(card, false), NEW_QUESTION);
		box.append(card);
	}
}

function setDisabled(card, isDisabled) {
	for (const made of card.querySelectorAll("button")) {
		made.disabled = isDisabled;
	}
}

/// Sends an answer once; a card whose answer was refused can be answered again.
async function answerCard(card, path, body) {
	setDisabled(card, true);
	if ((await attempt(() => inSession("POST", path, body))) === null) {
		setDisabled(card, false);
	}
}

function card(id, heading) {
	const made = element("div", "question");
	made.dataset.id = id;
	made.setAttribute("role", "group");
	made.setAttribute("aria-label", heading);
	made.append(element("h3", "", heading));
	return made;
}

function button(text, action, className = "") {
	const made = element("button", className, text);
	made.type = "button";
	made.addEventListener("click", action);
	return made;
}

function field(label) {
	const made = element("input", "");
	made.type = "text";
	made.placeholder = label;
	made.setAttribute("aria-label", label);
	return made;
}

function permissionCard({ id, agent, tool, title, subject, reason, offers, html }) {
	const made = card(id, `${agent} asks: ${tool}`);
	made.append(element("p", "", title));
	if (subject !== "" && subject !== title && html === "") {
		made.append(element("pre", "", subject));
	}
	const change = element("div", "");
	change.innerHTML = html;
	made.append(change, element("p", "note", reason));
	const answer = (body) => () => answerCard(made, `permissions/${encodeURIComponent(id)}`, body);
	const bar = element("div", "bar");
	bar.append(button("Allow", answer({ answer: "allow_once" }), "yes"));
	for (const [offer, label] of offers.entries()) {
		bar.append(button(`Always in this session: ${label}`, answer({ answer: "allow_session", offer })));
	}
	const feedback = field("What to do instead (optional)");
	const deny = element("div", "bar");
	deny.append(button("Deny", () => answer({ answer: "deny", feedback: feedback.value })()), feedback);
	made.append(bar, deny);
	return made;
}

function questionCard({ id, agent, header, text: words, choices, multiple, free_text: takesText }) {
	const made = card(id, header || `${agent} asks`);
	made.append(element("p", "", words));
	const answer = (body) => answerCard(made, `questions/${encodeURIComponent(id)}`, body);
	const bar = element("div", "bar");
	if (multiple) {
		const boxes = choices.map(({ label, description }) => {
			const row = element("label", "");
			const box = element("input", "");
			box.type = "checkbox";
			row.append(box, ` ${label}${description ? `: ${description}` : ""}`);
			made.append(row);
			return box;
		});
		const chosen = () => [...boxes.keys()].filter((index) => boxes[index].checked);
		bar.append(button("Answer", () => answer({ answer: "chosen", choices: chosen() }), "yes"));
	} else {
		for (const [index, { label, description }] of choices.entries()) {
			const choice = button(label, () => answer({ answer: "chosen", choices: [index] }));
			choice.title = description;
			bar.append(choice);
		}
	}
	if (takesText) {
		const text = field("Your answer");
		const send = () => answer({ answer: "text", text: text.value });
		text.addEventListener("keydown", (event) => event.key === "Enter" && send());
		bar.append(text, button("Send answer", send, "yes"));
	}
	bar.append(button("No answer", () => answer({ answer: "declined" })));
	made.append(bar);
	return made;
}

// --- Views ---

function showView(name) {
	view = name;
	for (const tab of document.querySelectorAll("[role=tab]")) {
		const isShown = tab.dataset.view === name;
		tab.setAttribute("aria-selected", isShown);
		tab.tabIndex = isShown ? 0 : -1;
		if (isShown) {
			$("view").setAttribute("aria-labelledby", tab.id);
		}
	}
	$("transcript").hidden = name !== "transcript";
	$("section").hidden = name === "transcript";
	$("section").replaceChildren();
	if (name === "transcript") {
		scrollDown();
	} else {
		loadView();
	}
}

/// Has the shown view rendered again. Settings are not: the user may be changing one.
function refreshView() {
	viewIsOld = true;
	if (current !== null && !["transcript", "settings"].includes(view)) {
		loadView();
	}
}

/// Loads the shown view, unless that is under way: then it is loaded once more after a pause, if something changed.
async function loadView() {
	if (isLoadingView) {
		return;
	}
	isLoadingView = true;
	const [session, name, began] = [current, view, Date.now()];
	viewIsOld = false;
	try {
		const loaded = name === "settings" ? await inSession("GET", "options") : await inSession("GET", "views");
		if (session === current && name === view) {
			if (name === "settings") {
				showSettings(loaded);
			} else {
				$("section").innerHTML = name === "timeline" ? loaded.facts + loaded.runs + loaded.timeline : loaded[name];
			}
		}
	} catch (error) {
		$("section").textContent = error.message;
	}
	// What took long to render is rendered seldom.
	const pause = Math.max(VIEW_PAUSE, 5 * (Date.now() - began));
	setTimeout(() => {
		isLoadingView = false;
		const isOther = session !== current || name !== view;
		if (current !== null && view !== "transcript" && (isOther || (viewIsOld && view !== "settings"))) {
			loadView();
		}
	}, session === current && name === view ? pause : 0);
}

function showSettings(options) {
	const rows = options.map(({ name, description, value, choices }) => {
		const row = element("p", "");
		const label = element("label", "", `${name}: `);
		label.title = description;
		const input = choices.length > 0 ? document.createElement("select") : field(name);
		for (const choice of choices) {
			input.append(new Option(choice.title, choice.value));
		}
		input.value = value;
		input.addEventListener("change", () => attempt(() => inSession("POST", "options", { name, value: input.value })));
		label.append(input);
		row.append(label, element("span", "note", ` ${description}`));
		return row;
	});
	$("section").replaceChildren(...rows);
}

// --- What the user does ---

async function send() {
	const [text, session] = [$("message").value, current];
	if (text.trim() === "" || isSending) {
		return;
	}
	isSending = true;
	$("send").disabled = true;
	const answer = await attempt(() => inSession("POST", "messages", { text }));
	isSending = false;
	$("send").disabled = false;
	if (answer === null) {
		return;
	}
	// What was typed meanwhile, or into another session, stays.
	drafts.delete(session);
	if (session === current && $("message").value === text) {
		$("message").value = "";
	}
	if (answer.shown !== undefined && session === current) {
		show(answer.shown);
	}
}

/// Shows the output of a command at the end of the transcript. It is no part of the session.
function show(text) {
	showView("transcript");
	const output = element("pre", "", text === "" ? "done" : text);
	$("entries").append(output);
	scrollDown();
}

async function command(name) {
	const answer = await attempt(() => inSession("POST", "messages", { text: `/${name}` }));
	if (answer?.shown !== undefined) {
		show(answer.shown);
	}
}

async function saveReport() {
	const html = await attempt(() => inSession("GET", "report"));
	if (html === null) {
		return;
	}
	const link = element("a", "");
	link.href = URL.createObjectURL(new Blob([html], { type: "text/html" }));
	link.download = `crow-report-${current}.html`;
	link.click();
	setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

async function closeSession() {
	const isBusy = ["working", "asking"].includes(shownState);
	if (!isBusy || confirm("The agent works. End it?")) {
		await attempt(() => inSession("POST", "close"));
	}
}

async function start(event) {
	event.preventDefault();
	const button = event.submitter;
	button.disabled = true;
	$("start-error").textContent = "";
	const optional = (id) => $(id).value.trim() || undefined;
	try {
		const { session } = await request("POST", "/api/sessions", {
			cwd: $("cwd").value.trim(),
			prompt: $("prompt").value,
			agent: optional("agent"),
			model: optional("model"),
			permissions: optional("permissions"),
		});
		$("prompt").value = "";
		location.hash = `#/sessions/${encodeURIComponent(session)}`;
	} catch (error) {
		$("start-error").textContent = error.message;
	} finally {
		button.disabled = false;
	}
}

// --- Where the page is ---

function logOut(reason) {
	token = null;
	clearTimeout(logInTimer);
	stream?.abort();
	stream = null;
	$("panes").hidden = true;
	$("login").hidden = false;
	say(reason);
}

/// Uses a token: one that was given, or the one that is stored.
async function logIn(given) {
	clearTimeout(logInTimer);
	if (!/^[\x21-\x7e]{16,}$/.test(given)) {
		logOut("This is no token, and no address with one.");
		return;
	}
	token = given;
	const stored = localStorage.getItem("crow-token");
	let about;
	try {
		about = await request("GET", "/api/about");
	} catch (error) {
		if (token === null && stored !== null && stored !== given) {
			// A link with a wrong token does not cost the right one.
			await logIn(stored);
		} else if (token === null) {
			localStorage.removeItem("crow-token");
			say("The token is not valid any more: open the address that `crow-agent serve` printed.");
		} else {
			say(error instanceof Refusal ? error.message : "The server cannot be reached. It is tried again.");
			logInTimer = setTimeout(() => logIn(given), LONGEST_PAUSE);
		}
		return;
	}
	say("");
	localStorage.setItem("crow-token", given);
	$("login").hidden = true;
	$("panes").hidden = false;
	$("cwd").value ||= about.cwd;
	$("permissions").replaceChildren(new Option("as configured", ""), ...about.permission_modes.map((mode) => new Option(mode)));
	route();
}

function route() {
	// The token comes in the address once, and does not stay there.
	const given = location.hash.match(/^#token=(.+)$/);
	if (given) {
		history.replaceState(null, "", "/#/");
		logIn(given[1]);
		return;
	}
	// Other fragments are places on the page.
	if (token === null || (location.hash !== "" && !location.hash.startsWith("#/"))) {
		return;
	}
	drafts.set(current, $("message").value);
	const shown = location.hash.match(/^#\/sessions\/(.+)$/);
	current = shown ? decodeURIComponent(shown[1]) : null;
	isHosted = false;
	isNewSession = true;
	shownState = null;
	usage = NO_USAGE;
	$("message").value = drafts.get(current) ?? "";
	partsUnderWay.clear();
	for (const id of ["entries", "under-way", "questions", "section"]) {
		$(id).replaceChildren();
	}
	for (const id of ["title", "state", "facts"]) {
		$(id).textContent = "";
	}
	$("panes").classList.toggle("shows-session", current !== null);
	$("panes").classList.toggle("shows-start", location.hash === "#/new");
	$("session").hidden = current === null;
	$("welcome").hidden = current !== null;
	if (current !== null) {
		showActions();
		showView("transcript");
	} else if (location.hash === "#/new") {
		$("prompt").focus();
	}
	showList();
	connect();
}

$("login-form").addEventListener("submit", (event) => {
	event.preventDefault();
	const typed = $("token").value.trim();
	logIn(typed.match(/#token=(.+)$/)?.[1] ?? typed);
});
$("start-form").addEventListener("submit", start);
$("new").addEventListener("click", () => (location.hash = "#/new"));
$("cancel").addEventListener("click", () => attempt(() => inSession("POST", "cancel")));
$("undo").addEventListener("click", () => command("undo"));
$("redo").addEventListener("click", () => command("redo"));
$("close").addEventListener("click", closeSession);
$("open").addEventListener("click", () => attempt(() => inSession("POST", "open")));
$("save-report").addEventListener("click", saveReport);
$("composer").addEventListener("submit", (event) => {
	event.preventDefault();
	send();
});
$("message").addEventListener("keydown", (event) => {
	// On a phone there is no other way to begin a line.
	if (event.key === "Enter" && !event.shiftKey && !event.isComposing && matchMedia("(pointer: fine)").matches) {
		event.preventDefault();
		send();
	}
});
for (const tab of document.querySelectorAll("[role=tab]")) {
	tab.addEventListener("click", () => showView(tab.dataset.view));
	tab.addEventListener("keydown", (event) => {
		const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
		if (step !== undefined) {
			const tabs = [...document.querySelectorAll("[role=tab]:not([hidden])")];
			const next = tabs[(tabs.indexOf(tab) + step + tabs.length) % tabs.length];
			next.focus();
			showView(next.dataset.view);
		}
	});
}
addEventListener("hashchange", route);
document.addEventListener("visibilitychange", () => {
	clearTimeout(hiddenTimer);
	if (document.hidden) {
		if (messagesOfFrame.length > 0) {
			// The frame that was asked for does not come now.
			setTimeout(receiveAll, HIDDEN_PAUSE);
		}
		hiddenTimer = setTimeout(() => {
			stream?.abort();
			stream = null;
		}, HIDDEN_CONNECTION);
	} else if (stream === null) {
		connect();
	} else if (messagesOfFrame.length > 0) {
		receiveAll();
	}
});
navigator.serviceWorker?.register("/service-worker.js").catch(() => {});

route();
if (token === null && !location.hash.startsWith("#token=")) {
	const kept = localStorage.getItem("crow-token");
	if (kept === null) {
		$("login").hidden = false;
	} else {
		logIn(kept);
	}
}
