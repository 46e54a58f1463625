//! Hints for users on how to permit a refused call.

/// Hint for a call that the permission mode refuses.
pub(crate) const PERMIT_HINT: &str = "--permissions accept-edits permits edits in the workspace, full-auto what the sandbox allows; a rule other paths";

/// Hint for a call that a rule refuses.
const RULE_HINT: &str =
    "no mode overrules a rule; `crow-agent permissions explain` shows what decides a call";

/// Returns the hint for a refusal with this reason; `None` if the reason contains one, or no mode permits the call.
pub(crate) fn permit_hint(reason: &str) -> Option<&'static str> {
    if reason.contains("the rule `") {
        Some(RULE_HINT)
    } else if reason.contains("--permissions") || reason.contains("no mode permits it") {
        None
    } else {
        Some(PERMIT_HINT)
    }
}
