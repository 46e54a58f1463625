// Gives the program the task, in a fresh home and a fresh project.
import fs from "node:fs";
import os from "node:os";
import path from "node:path";

import { crow } from "../shared/crow.mjs";
import { BEFORE, PROMPT } from "./conversation.mjs";

/// Returns what the program did, and what the file holds afterwards.
export async function run(provider, url, options = ["-p", "full-auto"]) {
	const folder = fs.mkdtempSync(path.join(os.tmpdir(), "crow-aimock-"));
	const [home, project] = ["home", "project"].map((name) => path.join(folder, name));
	fs.mkdirSync(home);
	fs.mkdirSync(project);
	const notes = path.join(project, "notes.txt");
	fs.writeFileSync(notes, BEFORE);
	const env = { HOME: home, [provider.key]: "none", [provider.variable]: url + provider.path };
	const outcome = await crow(["run", "-m", provider.model, "-o", "json", ...options, PROMPT], { cwd: project, env });
	const after = fs.readFileSync(notes, "utf8");
	fs.rmSync(folder, { recursive: true });
	return { ...outcome, notes: after };
}
