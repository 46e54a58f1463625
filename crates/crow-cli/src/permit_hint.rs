//! How users permit what was refused.

/// How users permit what policy refuses.
pub(crate) const PERMIT_HINT: &str = "--permissions accept-edits permits edits in the workspace, full-auto what the sandbox bounds; a rule other paths";

/// The same where a rule refuses it.
const RULE_HINT: &str =
    "no mode overrules a rule; `crow-agent permissions explain` says what decides about a call";

/// Says how users permit what policy refused for that reason, unless the reason says so.
pub(crate) fn permit_hint(reason: &str) -> Option<&'static str> {
    if reason.contains("the rule `") {
        Some(RULE_HINT)
    } else if reason.contains("--permissions") || reason.contains("no mode permits it") {
        None
    } else {
        Some(PERMIT_HINT)
    }
}
