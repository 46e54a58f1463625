//! What a hook reads from its standard input: a JSON object, with the members of Claude Code's.

use std::sync::Arc;

use crow_core::{
    event::CompactionTrigger,
    hooks::{HookMoment, HookScene, NotificationKind, SessionStartSource},
    ids::SessionId,
    permission::PermissionMode,
    tool::ToolStatus,
};
use serde_json::{Map, Value, json};

use super::tool_names::{ConditionPlaces, HookCall, tool_response};
use crate::hook_files::{HookEvent, SESSION_END_NAMES};

/// An event as hooks see it.
#[derive(Debug, Clone)]
pub(super) struct EventInput {
    pub(super) event: HookEvent,
    /// What matchers are compared with.
    pub(super) names: Vec<String>,
    /// The call that it is about.
    pub(super) call: Option<HookCall>,
    /// The members of the event itself.
    members: Map<String, Value>,
}

impl EventInput {
    /// Returns the events of a moment: several if a call changes several files.
    pub(super) fn of_moment(
        scene: &HookScene<'_>,
        moment: &HookMoment<'_>,
        places: &ConditionPlaces,
    ) -> Vec<Self> {
        let is_child = scene.session_id != scene.root_id;
        let single = |event: HookEvent, name: &str, members: Value| {
            let members = match members {
                Value::Object(members) => members,
                _ => Map::new(),
            };
            vec![Self { event, names: vec![name.to_owned()], call: None, members }]
        };
        match moment {
            HookMoment::BeforeCall { call_id, tool, input, plan } => {
                let calls = HookCall::of_call(tool, input, plan, places).into_iter();
                let members = json!({ "tool_use_id": call_id.as_str() });
                calls.map(|call| Self::of_call(HookEvent::PreToolUse, call, &members)).collect()
            }
            HookMoment::AfterCall { call_id, tool, input, plan, result, duration } => {
                let calls = HookCall::of_call(tool, input, plan, places).into_iter();
                let duration = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
                let mut members =
                    json!({ "tool_use_id": call_id.as_str(), "duration_ms": duration });
                calls
                    .map(|call| match result.status {
                        ToolStatus::Success => {
                            members["tool_response"] = tool_response(&call, result);
                            Self::of_call(HookEvent::PostToolUse, call, &members)
                        }
                        ToolStatus::Error | ToolStatus::Cancelled => {
                            let error = result.error.clone();
                            let error = error.unwrap_or_else(|| result.output.clone());
                            members["error"] = error.into();
                            members["is_interrupt"] =
                                (result.status == ToolStatus::Cancelled).into();
                            Self::of_call(HookEvent::PostToolUseFailure, call, &members)
                        }
                    })
                    .collect()
            }
            HookMoment::Prompt { text } => {
                single(HookEvent::UserPromptSubmit, "", json!({ "prompt": text }))
            }
            HookMoment::SessionStart { source } => {
                let source = match source {
                    SessionStartSource::New => "startup",
                    SessionStartSource::Resumed => "resume",
                    SessionStartSource::Compacted => "compact",
                };
                single(HookEvent::SessionStart, source, json!({ "source": source }))
            }
            HookMoment::SessionEnd => {
                let mut end = single(HookEvent::SessionEnd, "", json!({ "reason": "other" }));
                for input in &mut end {
                    input.names = SESSION_END_NAMES.map(str::to_owned).to_vec();
                }
                end
            }
            HookMoment::TurnEnd { text, has_objected } => {
                let mut members = json!({ "stop_hook_active": has_objected });
                if let Some(text) = text {
                    members["last_assistant_message"] = (*text).into();
                }
                if is_child {
                    single(HookEvent::SubagentStop, scene.agent, members)
                } else {
                    single(HookEvent::Stop, "", members)
                }
            }
            HookMoment::Compaction { trigger, focus } => {
                let trigger = match trigger {
                    CompactionTrigger::User => "manual",
                    CompactionTrigger::Window | CompactionTrigger::Overflow => "auto",
                };
                let members = json!({ "trigger": trigger, "custom_instructions": focus });
                single(HookEvent::PreCompact, trigger, members)
            }
            HookMoment::Notification { kind, text } => {
                let kind = match kind {
                    NotificationKind::Permission => "permission_prompt",
                    NotificationKind::Question => "elicitation_dialog",
                };
                let members =
                    json!({ "message": text, "title": "Crow", "notification_type": kind });
                single(HookEvent::Notification, kind, members)
            }
        }
    }

    fn of_call(event: HookEvent, call: HookCall, members: &Value) -> Self {
        let mut members = members.as_object().cloned().unwrap_or_default();
        members.insert("tool_name".to_owned(), call.name().into());
        members.insert("tool_input".to_owned(), call.input.clone());
        Self { event, names: call.names.clone(), call: Some(call), members }
    }

    /// Returns the text that a hook reads. `transcript` is the path of the log of a session.
    pub(super) fn to_json(
        &self,
        scene: &HookScene<'_>,
        transcript: impl Fn(&SessionId) -> String,
    ) -> Arc<[u8]> {
        let mode = match scene.mode {
            PermissionMode::ReadOnly => "plan",
            PermissionMode::Ask => "default",
            PermissionMode::AcceptEdits => "acceptEdits",
            PermissionMode::FullAuto => "bypassPermissions",
        };
        let mut json = Map::new();
        let mut add = |name: &str, value: Value| drop(json.insert(name.to_owned(), value));
        add("session_id", scene.root_id.as_str().into());
        add("transcript_path", transcript(scene.root_id).into());
        add("cwd", scene.cwd.to_string_lossy().into());
        add("permission_mode", mode.into());
        add("hook_event_name", self.event.name().into());
        if scene.session_id != scene.root_id {
            add("agent_id", scene.session_id.as_str().into());
            add("agent_type", scene.agent.into());
            if self.event == HookEvent::SubagentStop {
                add("agent_transcript_path", transcript(scene.session_id).into());
            }
        }
        json.extend(self.members.clone());
        let mut text = serde_json::to_vec(&json).expect("invariant: a JSON value can be written");
        // Hooks that read a line get one.
        text.push(b'\n');
        text.into()
    }
}
