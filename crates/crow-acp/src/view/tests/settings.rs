//! Options, commands, sessions in lists, errors, usage.

use crow_core::{
    event::{Failure, FailureKind, RunOutcome},
    ids::SessionId,
    turn::{LimitKind, TurnEnd},
    usage::TokenUsage,
};
use crow_runtime::{
    HandleError, HostCommand, HostError, OptionChoice, OptionKind, SessionError, SessionMetadata,
    SessionOption, SessionUsage,
};
use serde_json::{Value, json};

use super::sample::{bare, zed};
use crate::view::{
    commands, config_options, handle_error, host_error, modes, prompt_usage, run_end, session_info,
    session_info_update, switch_value, usage_update,
};

fn choice(value: &str, title: &str, description: &str) -> OptionChoice {
    OptionChoice { value: value.into(), title: title.into(), description: description.into() }
}

fn option(
    name: &'static str,
    kind: OptionKind,
    value: &str,
    choices: Vec<OptionChoice>,
) -> SessionOption {
    let description = format!("What {name} is");
    SessionOption { name, kind, description, value: value.into(), choices }
}

fn options() -> Vec<SessionOption> {
    let on_off = || vec![choice("on", "", ""), choice("off", "", "")];
    vec![
        option("model", OptionKind::Model, "p/x", vec![choice("p/m", "M", "large")]),
        option("permissions", OptionKind::Permissions, "ask", vec![choice("ask", "Ask", "")]),
        option("note", OptionKind::Other, "", Vec::new()),
        option("auto_review", OptionKind::Other, "on", on_off()),
        option(
            "mode",
            OptionKind::ControlFlow,
            "loop",
            vec![choice("hitl", "", "Level -1"), choice("loop", "Loop", "Level 0")],
        ),
        option("agent", OptionKind::Agent, "BUILD", vec![choice("BUILD", "", "")]),
        option("coagent", OptionKind::Reviewer, "critic", vec![choice("critic", "", "")]),
        option("thought", OptionKind::Thinking, "high", vec![choice("high", "", "")]),
    ]
}

fn pretty(value: &impl serde::Serialize) -> String {
    serde_json::to_string_pretty(value).unwrap()
}

#[test]
fn options_are_selects_in_order_and_switches_only_where_the_client_has_them() {
    insta::assert_snapshot!(pretty(&config_options(&options(), &bare())));
    let shown = serde_json::to_value(config_options(&options(), &zed())).unwrap();
    let review = shown.as_array().unwrap().iter().find(|it| it["id"] == "auto_review").unwrap();
    assert_eq!((&review["type"], &review["currentValue"]), (&json!("boolean"), &json!(true)));
}

#[test]
fn a_switch_is_set_with_the_values_of_its_choices() {
    let review = &options()[3];
    assert_eq!(
        (switch_value(review, true), switch_value(review, false)),
        (Some("on"), Some("off"))
    );
    assert_eq!(switch_value(&options()[0], true), None);
}

#[test]
fn the_control_flow_is_shown_as_modes_too() {
    let expected = json!({
        "currentModeId": "loop",
        "availableModes": [
            {"id": "hitl", "name": "hitl", "description": "Level -1"},
            {"id": "loop", "name": "Loop", "description": "Level 0"},
        ],
    });
    assert_eq!(serde_json::to_value(modes(&options())).unwrap(), expected);
    assert!(modes(&[]).is_none());
}

#[test]
fn commands_carry_a_hint_for_their_argument() {
    let shown = commands(&[
        HostCommand::new("undo", "", "Takes the last change back"),
        HostCommand::new("model", "[PROVIDER/MODEL]", "Shows or sets the model"),
    ]);
    let expected = json!({"availableCommands": [
        {"name": "undo", "description": "Takes the last change back"},
        {"name": "model", "description": "Shows or sets the model", "input": {"hint": "[PROVIDER/MODEL]"}},
    ]});
    assert_eq!(serde_json::to_value(shown).unwrap(), expected);
}

#[test]
fn run_outcomes_have_the_stop_reasons_of_the_protocol() {
    let stopped = |reason| RunOutcome::Stopped { reason };
    let table = [
        (RunOutcome::NeedsInput, "end_turn"),
        (RunOutcome::Completed { summary: String::new(), verified: false }, "end_turn"),
        (RunOutcome::Cancelled, "cancelled"),
        (stopped(TurnEnd::MaxSteps { steps: 3 }), "max_turn_requests"),
        (stopped(TurnEnd::Budget { limit: LimitKind::Rounds }), "max_turn_requests"),
        (stopped(TurnEnd::Budget { limit: LimitKind::Tokens }), "max_tokens"),
        (stopped(TurnEnd::OutputLimit), "max_tokens"),
        (stopped(TurnEnd::Refusal), "refusal"),
        (stopped(TurnEnd::Cancelled), "cancelled"),
    ];
    for (outcome, expected) in table {
        assert_eq!(serde_json::to_value(run_end(&outcome).unwrap()).unwrap(), expected);
    }
    for (kind, code) in [
        (FailureKind::Credentials, -32000),
        (FailureKind::Provider, -32603),
        (FailureKind::Request, -32603),
    ] {
        let failed = Failure { error: "no".into(), kind };
        assert_eq!(i32::from(run_end(&failed.into()).unwrap_err().code), code, "{kind:?}");
    }
    let refused = Failure { error: "no".into(), kind: FailureKind::Refusal };
    assert_eq!(serde_json::to_value(run_end(&refused.into()).unwrap()).unwrap(), "refusal");
    let error = run_end(&Failure::other("no\u{1b}[2J net").into()).unwrap_err();
    assert_eq!((i32::from(error.code), error.message.as_str()), (-32603, "no net"));
}

#[test]
fn errors_have_the_codes_of_the_protocol() {
    let id = SessionId::new("s");
    let table = [
        (HostError::NotOpen { id: id.clone() }, -32002),
        (SessionError::Unknown { id: "s".into() }.into(), -32002),
        (SessionError::BadId { id: "s".into() }.into(), -32602),
        (SessionError::Locked { id: id.clone(), pid: None }.into(), -32600),
        (HostError::NoCredentials { message: "no key".into(), hint: "log in".into() }, -32000),
        (HostError::Refused { message: "no".into(), hint: String::new() }, -32602),
        (HostError::Unsupported { what: "forking" }, -32601),
        (HandleError::Full { capacity: 16 }.into(), -32600),
    ];
    for (error, code) in table {
        let shown = host_error(&error);
        assert_eq!(i32::from(shown.code), code, "{error}");
        assert_eq!(shown.message, error.to_string());
    }
    let hint = host_error(&HostError::NoCredentials { message: "x".into(), hint: "log in".into() });
    assert_eq!(hint.data, Some(json!({"hint": "log in"})));
    assert_eq!(i32::from(handle_error(&HandleError::Ended { id }).code), -32002);
}

#[test]
fn a_session_in_a_list_has_its_folder_its_title_and_its_time() {
    let metadata: SessionMetadata = serde_json::from_value(json!({
        "session_id": "s",
        "agent_type": "builder",
        "parent_session_id": null,
        "parent_tool_use_id": null,
        "child_session_ids": [],
        "model": "m",
        "provider": "p",
        "created_at": "2026-11-22T12:00:00Z",
        "updated_at": "2026-11-22T13:00:00Z",
        "metadata": {"crow": {
            "format_version": 1, "root_id": "s", "role": "primary", "cwd": "/p", "title": "Fix\u{7} it",
        }},
    }))
    .unwrap();
    let expected = json!({
        "sessionId": "s", "cwd": "/p", "title": "Fix␇ it", "updatedAt": "2026-11-22T13:00:00Z",
    });
    assert_eq!(serde_json::to_value(session_info(&metadata)).unwrap(), expected);
    let expected = json!({"title": "Fix␇ it", "updatedAt": "2026-11-22T13:00:00Z"});
    assert_eq!(serde_json::to_value(session_info_update(&metadata)).unwrap(), expected);
}

#[test]
fn usage_is_sent_if_the_window_is_known() {
    let usage = SessionUsage { context_tokens: 7, context_window: Some(100), cost_usd: Some(0.5) };
    let shown = serde_json::to_value(usage_update(&usage).unwrap()).unwrap();
    let cost = json!({"amount": 0.5, "currency": "USD"});
    assert_eq!(shown, json!({"used": 7, "size": 100, "cost": cost}));
    assert!(usage_update(&SessionUsage { context_window: None, ..usage }).is_none());
}

#[test]
fn the_parts_of_a_prompts_usage_add_up() {
    let usage = TokenUsage {
        input_tokens: 100,
        output_tokens: 30,
        reasoning_tokens: Some(10),
        cache_read_tokens: 60,
        cache_write_tokens: 20,
        cache_write_1h_tokens: 0,
    };
    let shown = serde_json::to_value(prompt_usage(&usage)).unwrap();
    let part = |name: &str| shown.get(name).and_then(Value::as_u64).unwrap();
    let parts =
        ["inputTokens", "outputTokens", "thoughtTokens", "cachedReadTokens", "cachedWriteTokens"];
    assert_eq!(parts.map(part).iter().sum::<u64>(), part("totalTokens"));
}
