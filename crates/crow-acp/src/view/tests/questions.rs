use std::{path::Path, sync::Arc};

use agent_client_protocol::v1::schema::{
    RequestPermissionOutcome, RequestPermissionRequest, SelectedPermissionOutcome,
};
use crow_core::{
    capability::{PermissionAnswer, PermissionRequest},
    event::InputSource,
    ids::{CallId, RequestId, SessionId},
    permission::{Grant, GrantOffer},
    tool::{Access, CommandLine, CommandMeaning, FileDiff, Patch, Preview, Subject},
};
use serde_json::{Value, json};

use super::{
    sample::{Files, ROOT, Story, bare, everything, updates, view, view_with, zed},
    screen::Screen,
};
use crate::view::{PermissionReply, answer};

fn offers() -> Vec<GrantOffer> {
    let command = Grant::Command(vec!["git".into(), "push".into()]);
    let path = Grant::Path { access: Access::Write, path: "/p/src".into() };
    vec![
        GrantOffer { label: "commands that begin with `git push`".into(), grants: vec![command] },
        GrantOffer { label: "changes of files in `src`".into(), grants: vec![path] },
    ]
}

fn request(session: &str, tool: &str, subject: Subject) -> PermissionRequest {
    PermissionRequest {
        id: RequestId::new("q"),
        session_id: SessionId::new(session),
        agent: "builder".into(),
        call_id: CallId::new("1"),
        tool: tool.into(),
        title: "git push".into(),
        subject,
        reason: "no rule allows it".into(),
        offers: offers(),
        least_mode: None,
        preview: None,
    }
}

fn command(text: &str) -> Subject {
    let meaning = CommandMeaning::Unclear("a test".into());
    Subject::Command(CommandLine { text: text.into(), folder: None, meaning })
}

fn json_of(request: &RequestPermissionRequest) -> Value {
    serde_json::to_value(request).unwrap()
}

#[test]
fn a_question_shows_invisible_characters_as_visible_signs() {
    let hostile = "git push \u{202e}x\u{2066}\u{200b}\u{1b}[8m; rm -rf y\u{7}";
    let shown = "git push \\u{202e}x\\u{2066}\\u{200b}␛[8m; rm -rf y␇";
    let mut view = view(bare());
    let mut asked = request(ROOT, "bash", command(hostile));
    asked.title = hostile.into();
    asked.reason = hostile.into();
    asked.offers[0].label = hostile.into();
    let question = view.permission_request(&asked, &mut Vec::new());
    let json = json_of(&question);
    assert_eq!(json["toolCall"]["title"], shown);
    let content = json["toolCall"]["content"].to_string();
    assert_eq!(content.matches("\\\\u{202e}").count(), 2, "{content}");
    assert_eq!(json["options"][1]["name"], format!("Allow in this session: {shown}"));
    let raw = ['\u{202e}', '\u{2066}', '\u{200b}', '\u{1b}', '\u{7}'];
    assert!(!json["options"].to_string().contains(raw) && !content.contains(raw), "{json}");
}

#[test]
fn a_question_shows_the_command_and_offers_what_rules_can_say() {
    let mut view = view(bare());
    let mut story = Story::new();
    let push = json!({"command": "git push"});
    story
        .whole_reply("a", "", &[("1", "bash", push.clone())])
        .pending("1", "bash", "git push", push);
    let shown = story.live(&mut view);
    let mut out = Vec::new();
    let asked =
        json_of(&view.permission_request(&request(ROOT, "bash", command("git push")), &mut out));
    assert!(out.is_empty(), "the call was shown before: {shown:?}");
    insta::assert_snapshot!(serde_json::to_string_pretty(&asked).unwrap());
}

#[test]
fn content_of_a_question_is_shown_once_and_removed_when_the_call_starts() {
    let mut view = view(bare());
    let mut story = Story::new();
    let push = json!({"command": "git push"});
    story.pending("1", "bash", "git push", push.clone());
    story.live(&mut view);
    let request = request(ROOT, "bash", command("git push"));
    let first = json_of(&view.permission_request(&request, &mut Vec::new()));
    let again = json_of(&view.permission_request(&request, &mut Vec::new()));
    assert_eq!(first, again);
    assert_eq!(first["toolCall"]["content"].as_array().unwrap().len(), 2);
    let mut story = Story::new();
    story.start("1", "bash", "git push", push);
    let out = updates(&story.live(&mut view));
    assert_eq!((&out[0]["status"], &out[0]["content"]), (&json!("in_progress"), &json!([])));
}

#[test]
fn a_question_about_a_missed_call_shows_the_call_first() {
    let mut view = view(zed());
    let mut out = Vec::new();
    let asked = view.permission_request(&request(ROOT, "bash", command("git push")), &mut out);
    let shown = updates(&out);
    assert_eq!(shown[0]["sessionUpdate"], "tool_call");
    assert_eq!(shown[0]["toolCallId"], *asked.tool_call.tool_call_id.0);
    let mut story = Story::new();
    story.pending("1", "bash", "git push", json!({"command": "git push"}));
    assert!(story.live(&mut view).is_empty());
}

#[test]
fn a_question_shows_the_change_with_the_text_before_it() {
    let patch = Patch { files: vec![FileDiff::of_text(Path::new("/p/a"), "a\n", "b\n")] };
    let asked = PermissionRequest {
        preview: Some(Preview { patch, basis: Vec::new() }),
        ..request(ROOT, "edit_file", Subject::Path("/p/a".into()))
    };
    let mut view = view_with(bare(), Arc::new(Files::default().on_disk("/p/a", "a\n")));
    let asked = json_of(&view.permission_request(&asked, &mut Vec::new()));
    let content = asked["toolCall"]["content"].as_array().unwrap();
    assert_eq!(content[0]["oldText"], "a\n");
    assert_eq!(content[0]["newText"], "b\n");
    assert_eq!(content.len(), 2, "the change once, and the reason");
}

#[test]
fn a_question_of_another_agent_is_asked_in_the_root_unless_the_client_knows_its_session() {
    for (abilities, session) in [(bare(), ROOT), (everything(), "child-explorer")] {
        let mut view = view(abilities);
        let mut story = Story::new();
        story.begin("task", "task", "explorer", json!({}));
        story.subagent("explorer", "task").input(InputSource::Prompt, "look");
        let mut out = story.live(&mut view);
        let subject = command("git push");
        let asked = view.permission_request(&request("child-explorer", "bash", subject), &mut out);
        let json = json_of(&asked);
        assert_eq!(json["sessionId"], session);
        assert_eq!(json["toolCall"]["title"], "explorer · git push");
        assert_eq!(json["_meta"]["crow"]["agent"], "explorer");
        assert_eq!(json["_meta"]["crow"]["parentToolCallId"], "task");
        let id = asked.tool_call.tool_call_id.0.to_string();
        assert!(Screen::of(&out).calls.contains_key(&(session.to_owned(), id)));
    }
}

#[test]
fn a_read_of_another_agent_is_shown_when_it_is_asked_about() {
    let mut view = view(bare());
    let mut story = Story::new();
    story.begin("task", "task", "explorer", json!({}));
    story.subagent("explorer", "task").pending("1", "read_file", "read", json!({"path": "/etc/x"}));
    let mut out = story.live(&mut view);
    assert_eq!(Screen::of(&out).calls.len(), 1);
    let subject = Subject::Path("/etc/x".into());
    view.permission_request(&request("child-explorer", "read_file", subject), &mut out);
    assert_eq!(Screen::of(&out).calls.len(), 2);
}

#[test]
fn an_answer_that_was_not_offered_is_a_rejection() {
    let asked = request(ROOT, "bash", command("git push"));
    let reply_to = |id: &str| {
        let selected = SelectedPermissionOutcome::new(id.to_owned());
        answer(&RequestPermissionOutcome::Selected(selected), &asked)
    };
    let grants = |index: usize| {
        let grants = offers()[index].grants.clone();
        PermissionReply::Answer(PermissionAnswer::AllowSession { grants })
    };
    let deny = PermissionReply::Answer(PermissionAnswer::Deny { feedback: None });
    assert_eq!(reply_to("allow_once"), PermissionReply::Answer(PermissionAnswer::AllowOnce));
    assert_eq!(reply_to("allow_session:command:git push"), grants(0));
    assert_eq!(reply_to("allow_session:write:/p/src"), grants(1));
    assert_eq!(reply_to("reject_once"), deny);
    assert_eq!(reply_to("allow_session:command:git"), deny);
    assert_eq!(reply_to(""), deny);
    let cancelled = answer(&RequestPermissionOutcome::Cancelled, &asked);
    assert_eq!(cancelled, PermissionReply::Cancelled);
}

#[test]
fn every_offer_has_an_id_of_its_own() {
    let offers = [
        vec![Grant::Tool("a".into())],
        vec![Grant::Command(vec!["a".into(), "b".into()])],
        vec![Grant::Command(vec!["a b".into()])],
        vec![Grant::Command(vec!["a".into()]), Grant::Command(vec!["b".into()])],
        vec![Grant::Command(vec!["a|command:b".into()])],
        vec![Grant::Path { access: Access::Read, path: "/a".into() }],
    ];
    let offers = offers.into_iter().map(|grants| GrantOffer { label: "x".into(), grants });
    let asked =
        PermissionRequest { offers: offers.collect(), ..request(ROOT, "bash", Subject::Nothing) };
    let asked = json_of(&view(bare()).permission_request(&asked, &mut Vec::new()));
    let mut ids: Vec<_> =
        asked["options"].as_array().unwrap().iter().map(|it| it["optionId"].to_string()).collect();
    let count = ids.len();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), count);
}
