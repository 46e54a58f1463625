//! Parses the answer of a hook: its exit status, standard output and standard error.

use crow_core::capability::ProcessEnd;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::hook_files::HookEvent;

/// Exit status with which a hook objects; its reason is on standard error.
const OBJECTION: i32 = 2;
/// Maximum length of a text for the model in bytes.
const LONGEST_TEXT: usize = 10_000;
/// Length of the printed text in messages, in bytes.
const SHOWN: usize = 200;

/// How a hook ended, and what it printed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HookPrint {
    pub(super) end: ProcessEnd,
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: String,
}

/// The permission of a call by one hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AnsweredPermission {
    Allow,
    Ask,
    Deny,
}

/// The answer of one hook.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct HookAnswer {
    pub(super) permission: Option<(AnsweredPermission, String)>,
    pub(super) input: Option<Map<String, Value>>,
    pub(super) objection: Option<String>,
    pub(super) context: Option<String>,
    /// A message for the user.
    pub(super) message: Option<String>,
    pub(super) stop: Option<String>,
    /// Keys of the answer that have no effect.
    pub(super) unused: Vec<String>,
}

/// The JSON that a hook prints. Further members are ignored.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PrintedAnswer {
    #[serde(rename = "continue")]
    goes_on: Option<bool>,
    stop_reason: Option<String>,
    system_message: Option<String>,
    decision: Option<String>,
    reason: Option<String>,
    hook_specific_output: Option<EventAnswer>,
}

/// The part of the JSON that depends on the event.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct EventAnswer {
    hook_event_name: Option<String>,
    permission_decision: Option<String>,
    permission_decision_reason: Option<String>,
    updated_input: Option<Map<String, Value>>,
    additional_context: Option<String>,
    updated_tool_output: Option<Value>,
    #[serde(rename = "updatedMCPToolOutput")]
    updated_mcp_tool_output: Option<Value>,
    initial_user_message: Option<Value>,
}

impl HookAnswer {
    /// Reads the answer of a hook at an event. The error says how it failed.
    pub(super) fn read(event: HookEvent, print: &HookPrint) -> Result<Self, String> {
        match print.end {
            ProcessEnd::Exited(0) => Self::of_text(event, &print.stdout),
            ProcessEnd::Exited(OBJECTION) => {
                let reason = print.stderr.trim();
                let reason = if reason.is_empty() { "it gave no reason" } else { reason };
                Ok(Self::of_objection(event, bounded(reason)))
            }
            ProcessEnd::Exited(status) => {
                let said = crow_text::shorten(&crow_text::one_line(print.stderr.trim()), SHOWN);
                let said = if said.is_empty() { said } else { format!(": {said}") };
                Err(format!("it ended with status {status}{said}"))
            }
            ProcessEnd::Signaled(signal) => Err(format!("it was ended by signal {signal}")),
            ProcessEnd::TimedOut => Err("it took too long and was ended".to_owned()),
            ProcessEnd::Cancelled => Err("it was ended with the run".to_owned()),
        }
    }

    /// Makes the answer of a hook that objects.
    pub(super) fn of_objection(event: HookEvent, reason: String) -> Self {
        match event {
            HookEvent::PreToolUse => {
                Self { permission: Some((AnsweredPermission::Deny, reason)), ..Self::default() }
            }
            HookEvent::SessionStart | HookEvent::SessionEnd | HookEvent::Notification => {
                Self { message: Some(reason), ..Self::default() }
            }
            HookEvent::PostToolUse
            | HookEvent::PostToolUseFailure
            | HookEvent::UserPromptSubmit
            | HookEvent::Stop
            | HookEvent::SubagentStop
            | HookEvent::PreCompact => Self { objection: Some(reason), ..Self::default() },
        }
    }

    fn of_text(event: HookEvent, stdout: &[u8]) -> Result<Self, String> {
        let text = String::from_utf8_lossy(stdout);
        let text = text.trim();
        if !text.starts_with('{') {
            let is_context = matches!(event, HookEvent::UserPromptSubmit | HookEvent::SessionStart);
            let context = (is_context && !text.is_empty()).then(|| bounded(text));
            return Ok(Self { context, ..Self::default() });
        }
        let printed: PrintedAnswer = serde_json::from_str(text).map_err(|error| {
            let shown = crow_text::shorten(&crow_text::one_line(text), SHOWN);
            format!("it printed JSON that cannot be used: {error}; it begins with {shown}")
        })?;
        Self::of_printed(event, printed)
    }

    fn of_printed(event: HookEvent, printed: PrintedAnswer) -> Result<Self, String> {
        let PrintedAnswer { goes_on, stop_reason, system_message, decision, reason, .. } = printed;
        let mut answer =
            Self { message: system_message.map(|text| bounded(&text)), ..Self::default() };
        if goes_on == Some(false) {
            let reason = stop_reason.filter(|reason| !reason.trim().is_empty());
            answer.stop = Some(reason.unwrap_or_else(|| "a hook ended the turn".to_owned()));
        }
        let reason = reason.map(|reason| bounded(&reason));
        let given = |reason: Option<String>| reason.unwrap_or_else(|| "a hook says so".to_owned());
        match (decision.as_deref(), event) {
            (Some("approve"), HookEvent::PreToolUse) => {
                answer.permission = Some((AnsweredPermission::Allow, given(reason)));
            }
            (None | Some("approve"), _) => {}
            (Some("block"), _) => {
                let objection = Self::of_objection(event, given(reason));
                answer.permission = objection.permission;
                answer.objection = objection.objection;
                answer.message = answer.message.or(objection.message);
            }
            (Some(other), _) => {
                return Err(format!(
                    "its `decision` is `{}`, and neither `approve` nor `block`",
                    crow_text::shorten(other, SHOWN)
                ));
            }
        }
        let Some(specific) = printed.hook_specific_output else { return Ok(answer) };
        if let Some(name) = specific.hook_event_name
            && name != event.name()
        {
            return Err(format!(
                "its `hookEventName` is `{}`, at the event {event}",
                crow_text::shorten(&name, SHOWN)
            ));
        }
        let reason = specific.permission_decision_reason.map(|reason| bounded(&reason));
        let permission = match specific.permission_decision.as_deref() {
            None => None,
            Some("allow") => Some(AnsweredPermission::Allow),
            Some("ask" | "defer") => Some(AnsweredPermission::Ask),
            Some("deny") => Some(AnsweredPermission::Deny),
            Some(other) => {
                return Err(format!(
                    "its `permissionDecision` is `{}`, and none of `allow`, `deny` and `ask`",
                    crow_text::shorten(other, SHOWN)
                ));
            }
        };
        let is_before_call = event == HookEvent::PreToolUse;
        for (is_there, name) in [
            (permission.is_some() && !is_before_call, "permissionDecision"),
            (specific.updated_input.is_some() && !is_before_call, "updatedInput"),
            (specific.updated_tool_output.is_some(), "updatedToolOutput"),
            (specific.updated_mcp_tool_output.is_some(), "updatedMCPToolOutput"),
            (specific.initial_user_message.is_some(), "initialUserMessage"),
        ] {
            if is_there {
                answer.unused.push(name.to_owned());
            }
        }
        if is_before_call {
            answer.permission =
                permission.map(|permission| (permission, given(reason))).or(answer.permission);
            answer.input = specific.updated_input;
        }
        let context = specific.additional_context.filter(|text| !text.trim().is_empty());
        answer.context = context.map(|text| bounded(&text));
        Ok(answer)
    }
}

/// Cuts a text that is too long, and says so in it.
fn bounded(text: &str) -> String {
    if text.len() <= LONGEST_TEXT {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(LONGEST_TEXT);
    format!("{}\n[cut: the hook wrote {} bytes]", &text[..end], text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(
        event: HookEvent,
        status: i32,
        stdout: &str,
        stderr: &str,
    ) -> Result<HookAnswer, String> {
        let print = HookPrint {
            end: ProcessEnd::Exited(status),
            stdout: stdout.as_bytes().to_vec(),
            stderr: stderr.to_owned(),
        };
        HookAnswer::read(event, &print)
    }

    #[test]
    fn status_two_objects_with_the_text_of_standard_error() {
        let denied = read(HookEvent::PreToolUse, 2, "{}", "no rm\n").unwrap();
        assert_eq!(denied.permission, Some((AnsweredPermission::Deny, "no rm".to_owned())));
        let stop = read(HookEvent::Stop, 2, "", "").unwrap();
        assert_eq!(stop.objection.as_deref(), Some("it gave no reason"));
        let start = read(HookEvent::SessionStart, 2, "", "broken").unwrap();
        assert_eq!((start.message.as_deref(), start.objection), (Some("broken"), None));
    }

    #[test]
    fn plain_text_is_context_only_of_prompts_and_session_starts() {
        for (event, expected) in [
            (HookEvent::UserPromptSubmit, Some("branch: main")),
            (HookEvent::SessionStart, Some("branch: main")),
            (HookEvent::PreToolUse, None),
            (HookEvent::Stop, None),
        ] {
            let answer = read(event, 0, "branch: main\n", "").unwrap();
            assert_eq!(answer.context.as_deref(), expected, "{event}");
        }
    }

    #[test]
    fn json_decides_about_a_call() {
        let text = r#"{"systemMessage":"hi","hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"ask","permissionDecisionReason":"look","updatedInput":{"command":"ls"},"additionalContext":"c"}}"#;
        let answer = read(HookEvent::PreToolUse, 0, text, "").unwrap();
        assert_eq!(answer.permission, Some((AnsweredPermission::Ask, "look".to_owned())));
        assert_eq!(answer.input.unwrap()["command"], "ls");
        assert_eq!((answer.context.as_deref(), answer.message.as_deref()), (Some("c"), Some("hi")));
        let old =
            read(HookEvent::PreToolUse, 0, r#"{"decision":"block","reason":"r"}"#, "").unwrap();
        assert_eq!(old.permission, Some((AnsweredPermission::Deny, "r".to_owned())));
        let stop =
            read(HookEvent::Stop, 0, r#"{"continue":false,"stopReason":"enough"}"#, "").unwrap();
        assert_eq!(stop.stop.as_deref(), Some("enough"));
    }

    #[test]
    fn an_answer_that_cannot_be_understood_is_a_failure() {
        for (status, text, expected) in [
            (0, r#"{"decision":"bl"#, "JSON that cannot be used"),
            (0, r#"{"decision":"maybe"}"#, "neither `approve` nor `block`"),
            (0, r#"{"decision":1}"#, "JSON that cannot be used"),
            (0, r#"{"hookSpecificOutput":{"hookEventName":"Stop"}}"#, "at the event PreToolUse"),
            (0, r#"{"hookSpecificOutput":{"permissionDecision":"perhaps"}}"#, "none of `allow`"),
            (1, "", "status 1: oops"),
            (127, "", "status 127"),
        ] {
            let error = read(HookEvent::PreToolUse, status, text, "oops").unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn what_has_no_effect_at_the_event_is_named() {
        let text =
            r#"{"hookSpecificOutput":{"hookEventName":"PostToolUse","updatedToolOutput":"x"}}"#;
        let answer = read(HookEvent::PostToolUse, 0, text, "").unwrap();
        assert_eq!(answer.unused, ["updatedToolOutput"]);
    }

    #[test]
    fn long_texts_are_cut_and_say_so() {
        let answer = read(HookEvent::UserPromptSubmit, 0, &"é".repeat(10_000), "").unwrap();
        let context = answer.context.unwrap();
        assert!(context.len() < 10_100 && context.ends_with("[cut: the hook wrote 20000 bytes]"));
    }
}
