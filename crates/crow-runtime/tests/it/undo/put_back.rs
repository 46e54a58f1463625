//! Files that the user creates while a command runs, and the question about them.

use std::{path::Path, sync::Arc, time::Duration};

use crow_core::{
    capability::{NoAnswerer, QuestionAnswer, QuestionRequest},
    event::{AgentEvent, Envelope, NoticeLevel},
    message::Block,
};
use crow_testkit::scripted::{reply, text};

use super::fixture::{Call, QuestionsToHandle, UndoFixture};

/// Shell line that creates `ready` and runs until `go` exists.
const WAITING: &str = "touch ready; while [ ! -e go ]; do sleep 0.02; done; rm go ready";

fn chosen(label: &str) -> QuestionAnswer {
    QuestionAnswer::Chosen { labels: vec![label.to_owned()] }
}

async fn appears(path: &Path) {
    let end = std::time::Instant::now() + Duration::from_secs(20);
    while !path.exists() {
        assert!(std::time::Instant::now() < end, "{} does not appear", path.display());
        tokio::task::yield_now().await;
    }
}

fn is_question(event: &AgentEvent) -> bool {
    matches!(event, AgentEvent::QuestionAsked { .. })
}

fn is_end(event: &AgentEvent) -> bool {
    matches!(event, AgentEvent::RunEnd { .. })
}

fn warnings(events: &[Arc<Envelope>]) -> Vec<String> {
    let notices = events.iter().filter_map(|event| match &event.event {
        AgentEvent::Notice { level: NoticeLevel::Warning, text, .. } => Some(text.clone()),
        _ => None,
    });
    notices.collect()
}

/// Starts a command of the agent and saves these files as the user while it runs.
async fn save_meanwhile(fixture: &UndoFixture, files: &[(&str, &str)]) {
    fixture.agent.model.push(Call::Sh(WAITING).play("w"));
    fixture.agent.model.push(reply([text("done")]));
    fixture.agent.handle.send_input(vec![Block::text("go")]).unwrap();
    appears(&fixture.root().join("ready")).await;
    for (path, content) in files {
        // Saved by renaming, as editors do. A write to a file that the kernel seals is the user's without a question.
        fixture.write(path, "");
        fixture.write("beside", content);
        std::fs::rename(fixture.root().join("beside"), fixture.root().join(path)).unwrap();
    }
    fixture.write("go", "");
}

/// Waits for a question and returns it.
async fn question(fixture: &mut UndoFixture) -> QuestionRequest {
    fixture.agent.until(is_question).await;
    fixture.agent.handle.open_user_questions().remove(0)
}

#[tokio::test]
async fn a_file_that_the_user_claims_is_put_back_and_stays() {
    let mut fixture = UndoFixture::in_sandbox_with(Arc::new(QuestionsToHandle));
    save_meanwhile(&fixture, &[(".envrc", "mine\n")]).await;
    let request = question(&mut fixture).await;
    assert_eq!(
        request.question.text,
        format!(
            ".envrc appeared while `{WAITING}` ran: it would start programs. It was moved aside. Is it yours?"
        )
    );
    assert!(!fixture.exists(".envrc"));
    fixture.agent.handle.answer_question(&request.id, chosen("put back")).unwrap();
    fixture.agent.until(is_end).await;
    assert_eq!(fixture.read(".envrc"), "mine\n");
    let events = fixture.turn(&[Call::Sh("true")]).await;
    assert_eq!((fixture.read(".envrc"), warnings(&events)), ("mine\n".to_owned(), Vec::new()));
}

#[tokio::test]
async fn a_file_that_the_user_does_not_claim_stays_moved_aside() {
    let mut fixture = UndoFixture::in_sandbox_with(Arc::new(QuestionsToHandle));
    for answer in [chosen("leave aside"), QuestionAnswer::Declined] {
        save_meanwhile(&fixture, &[(".envrc", "mine\n")]).await;
        let request = question(&mut fixture).await;
        fixture.agent.handle.answer_question(&request.id, answer).unwrap();
        fixture.agent.until(is_end).await;
        assert!(!fixture.exists(".envrc"));
    }
}

#[tokio::test]
async fn several_files_are_asked_about_in_one_question() {
    let mut fixture = UndoFixture::in_sandbox_with(Arc::new(QuestionsToHandle));
    fixture.write(".envrc", "old\n");
    let files = [(".envrc", "mine\n"), (".vscode/tasks.json", "{}"), (".idea/x", "1")];
    save_meanwhile(&fixture, &files).await;
    let request = question(&mut fixture).await;
    let labels: Vec<_> =
        request.question.choices.iter().map(|choice| choice.label.as_str()).collect();
    let only = ["put back only .envrc", "put back only .idea", "put back only .vscode"];
    let mut sorted = labels.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, [&["leave aside", "put back"][..], &only].concat());
    fixture.agent.handle.answer_question(&request.id, chosen("put back only .vscode")).unwrap();
    let events = fixture.agent.until(is_end).await;
    assert!(!events.iter().any(|event| is_question(&event.event)));
    assert_eq!(fixture.read(".vscode/tasks.json"), "{}");
    assert_eq!((fixture.read(".envrc"), fixture.exists(".idea")), ("old\n".to_owned(), false));
}

#[tokio::test]
async fn a_file_at_the_old_path_stays_and_the_user_learns_where_his_copy_is() {
    let mut fixture = UndoFixture::in_sandbox_with(Arc::new(QuestionsToHandle));
    save_meanwhile(&fixture, &[(".envrc", "first\n")]).await;
    let request = question(&mut fixture).await;
    fixture.write(".envrc", "second\n");
    fixture.agent.handle.answer_question(&request.id, chosen("put back")).unwrap();
    let events = fixture.agent.until(is_end).await;
    assert_eq!(fixture.read(".envrc"), "second\n");
    let messages = warnings(&events).join("\n");
    let copy = messages.split("your version is in ").nth(1).unwrap();
    assert_eq!(std::fs::read_to_string(copy).unwrap(), "first\n");
}

#[tokio::test]
async fn an_interrupt_withdraws_the_question_for_good() {
    let mut fixture = UndoFixture::in_sandbox_with(Arc::new(QuestionsToHandle));
    save_meanwhile(&fixture, &[(".envrc", "mine\n")]).await;
    question(&mut fixture).await;
    fixture.agent.handle.interrupt();
    fixture.agent.until(is_end).await;
    assert!(fixture.agent.handle.open_user_questions().is_empty());
    let events = fixture.turn(&[Call::Sh("true")]).await;
    assert!(!events.iter().any(|event| is_question(&event.event)));
    assert!(!fixture.exists(".envrc"));
}

#[tokio::test]
async fn a_file_found_after_a_job_between_runs_is_asked_about_in_the_next_run() {
    let mut fixture = UndoFixture::in_sandbox_with(Arc::new(QuestionsToHandle));
    fixture.turn(&[Call::Job(WAITING)]).await;
    appears(&fixture.root().join("ready")).await;
    fixture.write(".envrc", "mine\n");
    fixture.write("go", "");
    let is_warning = |event: &AgentEvent| {
        matches!(event, AgentEvent::Notice { level: NoticeLevel::Warning, .. })
    };
    fixture.agent.until(is_warning).await;
    fixture.agent.model.push(reply([text("done")]));
    fixture.agent.handle.send_input(vec![Block::text("go")]).unwrap();
    let request = question(&mut fixture).await;
    assert!(request.question.text.contains(&format!("while `{WAITING}` ran")));
    fixture.agent.handle.answer_question(&request.id, chosen("put back")).unwrap();
    fixture.agent.until(is_end).await;
    assert_eq!(fixture.read(".envrc"), "mine\n");
}

#[tokio::test]
async fn without_an_answerer_the_file_stays_aside_without_a_question() {
    let mut fixture = UndoFixture::in_sandbox_with(Arc::new(NoAnswerer));
    save_meanwhile(&fixture, &[(".envrc", "mine\n")]).await;
    let events = fixture.agent.until(is_end).await;
    assert!(!events.iter().any(|event| is_question(&event.event)));
    let messages = warnings(&events);
    assert!(messages[0].contains(&format!("appeared while `{WAITING}` ran")), "{messages:?}");
    assert!(!fixture.exists(".envrc"));
}
