use proptest::prelude::*;
use serde_json::{Value, json};

use super::Redactor;
use crate::{
    event::{AgentEvent, AgentState},
    ids::{CallId, ReplyId},
    message::{CallArguments, Origin, ReplyBlock, ReplyContent, ToolCall},
    model::StopReason,
    tool_types::ToolResult,
};

const MARK: &str = Redactor::MARK;
const SECRET: &str = "sk-ant/very+secret=\"0123\"";

fn redactor() -> Redactor {
    Redactor::new([SECRET.to_owned(), "short".to_owned()])
}

#[test]
fn a_secret_is_found_in_every_form() {
    let long = "sk-ant-".to_owned() + &"0123456789abcdef".repeat(6);
    for (secret, text, expected) in [
        (SECRET, format!("key={SECRET};"), format!("key={MARK};")),
        (SECRET, format!("{SECRET}{SECRET}"), format!("{MARK}{MARK}")),
        // In JSON, and in a URL.
        (SECRET, json!({ "key": SECRET }).to_string(), format!("{{\"key\":\"{MARK}\"}}")),
        (SECRET, "?k=sk-ant%2Fvery%2Bsecret%3D%220123%22&x".to_owned(), format!("?k={MARK}&x")),
        (SECRET, "?k=sk-ant%2fvery%2bsecret%3d%220123%22&x".to_owned(), format!("?k={MARK}&x")),
        // `printf %s "$KEY" | base64`, with nothing, `x`, `xx` and `user:` before it.
        ("hunter2-hunter2", "aHVudGVyMi1odW50ZXIy".to_owned(), MARK.to_owned()),
        ("hunter2-hunter2", "eGh1bnRlcjItaHVudGVyMg==".to_owned(), format!("eG{MARK}g==")),
        ("hunter2-hunter2", "eHhodW50ZXIyLWh1bnRlcjI=".to_owned(), format!("eHh{MARK}I=")),
        ("hunter2-hunter2", "dXNlcjpodW50ZXIyLWh1bnRlcjI=".to_owned(), format!("dXNlcjp{MARK}I=")),
        ("hunter2-hunter2", "68756e746572322d68756e74657232".to_owned(), MARK.to_owned()),
        (
            &long,
            // `echo "$KEY" | base64`, in two lines.
            "c2stYW50LTAxMjM0NTY3ODlhYmNkZWYwMTIzNDU2Nzg5YWJjZGVmMDEyMzQ1Njc4OWFiY2RlZjAx\nMjM0NTY3ODlhYmNkZWYwMTIzNDU2Nzg5YWJjZGVmMDEyMzQ1Njc4OWFiY2RlZgo=\n".to_owned(),
            format!("{MARK}\n{MARK}o=\n"),
        ),
        // Several lines, each with a line number before it.
        (
            "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0B\nAQEFAASCBKcwggSjAgEA\n-----END KEY-----",
            "1 -----BEGIN KEY-----\n2 MIIEvQIBADANBgkqhkiG9w0B\n3 AQEFAASCBKcwggSjAgEA\n".to_owned(),
            format!("1 -----BEGIN KEY-----\n2 {MARK}\n3 {MARK}\n"),
        ),
        (SECRET, "nothing of it: sk-ant/very".to_owned(), "nothing of it: sk-ant/very".to_owned()),
    ] {
        let shown = Redactor::new([secret.to_owned()]).redact(&text).into_owned();
        assert_eq!(shown, expected, "{secret}");
    }
}

#[test]
fn a_learned_secret_is_found_by_clones_and_open_streams() {
    for redactor in [Redactor::default(), redactor()] {
        let clone = redactor.clone();
        let mut stream = clone.stream();
        let mut shown = stream.push("it is new-".to_owned());
        redactor.learn(["new-5ecret-9876".to_owned(), "short".to_owned()]);
        shown += &stream.push("new-5ecret-9876 indeed".to_owned());
        shown += &stream.finish();
        assert_eq!(shown, format!("it is new-{MARK} indeed"));
        assert_eq!(clone.redact("short new-5ecret-9876"), format!("short {MARK}"));
    }
    assert_eq!(redactor().redact(SECRET), MARK);
}

#[test]
fn short_secrets_are_ignored() {
    let redactor = Redactor::new(["1234567".to_owned(), String::new()]);
    assert!(!redactor.is_active());
    assert_eq!(redactor.redact("1234567"), "1234567");
}

#[test]
fn learned_secrets_are_shared_with_all_clones() {
    let first = Redactor::default();
    let (clone, mut stream) = (first.clone(), first.stream());
    assert!(!clone.is_active());
    first.learn(["learned-0123".to_owned(), "short".to_owned()]);
    assert_eq!(clone.redact("a learned-0123 short"), format!("a {MARK} short"));
    let shown = stream.push("lear".to_owned()) + &stream.push("ned-0123".to_owned());
    assert_eq!(shown + &stream.finish(), MARK);
    assert!(!Redactor::default().is_active(), "others learn nothing");
}

#[test]
fn only_the_latest_learned_secrets_are_retained() {
    let redactor = redactor();
    let learned = |number: usize| format!("learned-{number:04}");
    redactor.learn((0..Redactor::MAX_LEARNED).map(learned));
    // The first one is learned again, so the second one is the oldest.
    redactor.learn([learned(0), learned(Redactor::MAX_LEARNED)]);
    for (text, is_retained) in [
        (learned(0), true),
        (learned(1), false),
        (learned(2), true),
        (learned(Redactor::MAX_LEARNED), true),
        (SECRET.to_owned(), true),
    ] {
        assert_eq!(redactor.redact(&text) == MARK, is_retained, "{text}");
    }
}

#[test]
fn debug_output_contains_no_secret() {
    assert_eq!(format!("{:?} {:?}", redactor(), redactor().stream()).matches("sk-").count(), 0);
}

#[test]
fn values_are_redacted_with_the_names_of_their_fields() {
    let mut value = json!({ "a": [SECRET, 1], SECRET: { "b": format!("x{SECRET}") }, "c": null });
    assert!(redactor().redact_value(&mut value));
    assert_eq!(value, json!({ "a": [MARK, 1], MARK: { "b": format!("x{MARK}") }, "c": null }));
    assert!(Redactor::contains_mark(&value));
    assert!(!Redactor::contains_mark(&json!({ "a": ["x", SECRET] })));
}

#[test]
fn no_text_of_a_result_holds_a_secret() {
    let mut result = ToolResult::failure(format!("first {SECRET}\nsecond {SECRET}"));
    result.metadata.extra = json!({ "k": SECRET });
    let mut event = AgentEvent::CallEnd {
        call_id: CallId::new("c"),
        reply_id: ReplyId::new("r"),
        tool: "bash".into(),
        result,
        denial: None,
    };
    redactor().redact_event(&mut event);
    let text = serde_json::to_string(&event).unwrap();
    assert_eq!((text.matches("very").count(), text.matches(MARK).count()), (0, 4), "{text}");
}

#[test]
fn only_blocks_with_a_secret_lose_the_providers_item() {
    let block = |text: &str| {
        let content = ReplyContent::Text { text: text.to_owned() };
        ReplyBlock::with_native(content, json!({ "text": text }))
    };
    let call = ReplyContent::Call(ToolCall {
        id: CallId::new("c"),
        name: "bash".into(),
        arguments: CallArguments::Json(json!({ "command": format!("echo {SECRET}") })),
    });
    let hidden = ReplyBlock::with_native(
        ReplyContent::Text { text: "harmless".to_owned() },
        json!({ "text": "harmless", "annotation": SECRET }),
    );
    let call = ReplyBlock::with_native(call, json!({ "input": SECRET }));
    let mut event = AgentEvent::Reply {
        reply_id: ReplyId::new("r"),
        blocks: vec![block("fine"), block(SECRET), call, hidden],
        stop: StopReason::EndTurn,
        origin: Origin {
            dialect: String::new(),
            provider: String::new(),
            base_url: String::new(),
            model: String::new(),
        },
        response_id: None,
    };
    redactor().redact_event(&mut event);
    assert!(!serde_json::to_string(&event).unwrap().contains("very"));
    let AgentEvent::Reply { blocks, .. } = event else { panic!() };
    let has_native: Vec<_> = blocks.iter().map(|block| block.native_item().is_some()).collect();
    assert_eq!(has_native, [true, false, false, false]);
}

/// Checks every kind of event, with a secret in each of its texts.
#[test]
fn events_keep_secrets_only_in_ids_names_and_paths() {
    for event in crate::event::tests::samples() {
        let mut value = serde_json::to_value(&event).unwrap();
        spoil(&mut value);
        let mut event: AgentEvent = serde_json::from_value(value.clone())
            .unwrap_or_else(|error| panic!("{error}: {value}"));
        redactor().redact_event(&mut event);
        let mut leaks = Vec::new();
        secrets_in(&serde_json::to_value(&event).unwrap(), "", &mut leaks);
        if !matches!(event, AgentEvent::StateChange { state: AgentState::Error(_) }) {
            // The name of a tool or an agent.
            leaks.retain(|path| path != ".state.detail");
        }
        assert_eq!(leaks, Vec::<String>::new(), "{event:?}");
    }
}

/// Fields that contain no free text.
const EXACT: &[&str] = &[
    "type",
    "tool",
    "model",
    "cwd",
    "path",
    "provider",
    "dialect",
    "base_url",
    "name",
    "parent",
    "kind",
    "parent_agent",
    "subagent",
    "primary",
    "coagent",
    "reviewer",
    "from",
    "to",
    "media_type",
    "data",
    "digest",
    "status",
    "source",
    "level",
    "audience",
    "outcome",
    "answer",
    "stop",
    "verdict",
    "state",
    "agent",
    "form",
    "code",
    "response_id",
    "files_modified",
    "files",
    "first_kept",
    "trigger",
    "end",
    "change_kind",
    "access",
    "before",
    "after",
    "role",
    "author",
    "hash",
];

fn spoil(value: &mut Value) {
    if let Some(fields) = value.as_object_mut() {
        for (name, value) in fields {
            let is_exact = EXACT.contains(&name.as_str())
                || name.ends_with("id")
                || name.starts_with("snapshot");
            match value {
                Value::String(text) => {
                    let is_word = ["created", "modified", "deleted"].contains(&text.as_str());
                    if !is_exact && !is_word {
                        text.push_str(SECRET);
                    }
                }
                Value::Object(_) | Value::Array(_) => spoil(value),
                Value::Null | Value::Bool(_) | Value::Number(_) => {}
            }
        }
    }
    if let Some(items) = value.as_array_mut() {
        items.iter_mut().for_each(spoil);
    }
}

fn secrets_in(value: &Value, path: &str, leaks: &mut Vec<String>) {
    if value.as_str().is_some_and(|text| text.contains(SECRET)) {
        leaks.push(path.to_owned());
    }
    for (name, value) in value.as_object().into_iter().flatten() {
        secrets_in(value, &format!("{path}.{name}"), leaks);
    }
    for value in value.as_array().into_iter().flatten() {
        secrets_in(value, path, leaks);
    }
}

proptest! {
    /// However the text is split, the stream shows what the complete text would show.
    #[test]
    fn splitting_a_text_does_not_change_its_redaction(
        pieces in prop::collection::vec(
            prop_oneof![
                Just(SECRET.to_owned()),
                Just("hunter2-hunter2".to_owned()),
                Just("hunter2-hunter2-hunter2".to_owned()),
                "[a-z]{0,5}",
                Just("sk-ant/ve".to_owned()),
                Just("hunter2-".to_owned()),
                Just("grün ".to_owned()),
            ],
            0..8,
        ),
        cuts in prop::collection::vec(1_usize..6, 0..60),
    ) {
        let redactor = Redactor::new(
            [SECRET, "hunter2-hunter2", "hunter2-hunter2-hunter2"].map(str::to_owned),
        );
        let text = pieces.concat();
        let mut stream = redactor.stream();
        let mut shown = String::new();
        let mut rest: Vec<char> = text.chars().collect();
        for cut in cuts {
            let part: String = rest.drain(..cut.min(rest.len())).collect();
            shown.push_str(&stream.push(part));
        }
        shown.push_str(&stream.push(rest.into_iter().collect()));
        shown.push_str(&stream.finish());
        prop_assert_eq!(&shown, &redactor.redact(&text).into_owned());
        prop_assert!(!shown.contains("hunter2-hunter2") && !shown.contains(SECRET));
    }

    #[test]
    fn a_text_without_a_secret_passes_through_as_it_is(text in "[ -~\n]{0,200}") {
        prop_assume!(!text.contains("sk-ant"));
        prop_assert_eq!(redactor().redact(&text), text.as_str());
    }
}
