// Goes back in a session of pi, as its command /tree does: node pi-branch.mjs PACKAGE FILE
//
// The branch begins after the first answer, and tells what was left.
const [module, file] = process.argv.slice(2);
const { SessionManager } = await import(module);
const session = SessionManager.open(file);
const answer = session.getEntries().find(({ message }) => message?.role === "assistant" && message.stopReason === "stop");
session.branchWithSummary(answer.id, "The count was also written into summary.txt.");
