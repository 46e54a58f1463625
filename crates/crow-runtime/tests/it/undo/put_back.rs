//! Files that the user creates while a command runs, and the question about them.

use std::{path::Path, sync::Arc, time::Duration};

use crow_core::{
    capability::{NoAnswerer, QuestionAnswer, QuestionRequest},
    event::{AgentEvent, Envelope, NoticeLevel},
    message::Block,
};
use crow_testkit::scripted::{reply, text};

use super::stage::{Call, Stage, Waits};

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
async fn save_meanwhile(stage: &Stage, files: &[(&str, &str)]) {
    stage.agent.model.push(Call::Sh(WAITING).play("w"));
    stage.agent.model.push(reply([text("done")]));
    stage.agent.handle.send_input(vec![Block::text("go")]).unwrap();
    appears(&stage.root().join("ready")).await;
    for (path, content) in files {
        // Saved by renaming, as editors do. A write to a file that the kernel seals is the user's without a question.
        stage.write(path, "");
        stage.write("beside", content);
        std::fs::rename(stage.root().join("beside"), stage.root().join(path)).unwrap();
    }
    stage.write("go", "");
}

/// Waits for a question and returns it.
async fn question(stage: &mut Stage) -> QuestionRequest {
    stage.agent.until(is_question).await;
    stage.agent.handle.open_user_questions().remove(0)
}

#[tokio::test]
async fn a_file_that_the_user_claims_is_put_back_and_stays() {
    let mut stage = Stage::in_sandbox_with(Arc::new(Waits));
    save_meanwhile(&stage, &[(".envrc", "mine\n")]).await;
    let asked = question(&mut stage).await;
    assert_eq!(
        asked.question.text,
        format!(
            ".envrc appeared while `{WAITING}` ran: it would start programs. It was moved aside. Is it yours?"
        )
    );
    assert!(!stage.exists(".envrc"));
    stage.agent.handle.answer_question(&asked.id, chosen("put back")).unwrap();
    stage.agent.until(is_end).await;
    assert_eq!(stage.read(".envrc"), "mine\n");
    let events = stage.turn(&[Call::Sh("true")]).await;
    assert_eq!((stage.read(".envrc"), warnings(&events)), ("mine\n".to_owned(), Vec::new()));
}

#[tokio::test]
async fn a_file_that_the_user_does_not_claim_stays_moved_aside() {
    let mut stage = Stage::in_sandbox_with(Arc::new(Waits));
    for answer in [chosen("leave aside"), QuestionAnswer::Declined] {
        save_meanwhile(&stage, &[(".envrc", "mine\n")]).await;
        let asked = question(&mut stage).await;
        stage.agent.handle.answer_question(&asked.id, answer).unwrap();
        stage.agent.until(is_end).await;
        assert!(!stage.exists(".envrc"));
    }
}

#[tokio::test]
async fn several_files_are_asked_about_in_one_question() {
    let mut stage = Stage::in_sandbox_with(Arc::new(Waits));
    stage.write(".envrc", "old\n");
    let files = [(".envrc", "mine\n"), (".vscode/tasks.json", "{}"), (".idea/x", "1")];
    save_meanwhile(&stage, &files).await;
    let asked = question(&mut stage).await;
    let labels: Vec<_> =
        asked.question.choices.iter().map(|choice| choice.label.as_str()).collect();
    let only = ["put back only .envrc", "put back only .idea", "put back only .vscode"];
    let mut sorted = labels.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, [&["leave aside", "put back"][..], &only].concat());
    stage.agent.handle.answer_question(&asked.id, chosen("put back only .vscode")).unwrap();
    let events = stage.agent.until(is_end).await;
    assert!(!events.iter().any(|event| is_question(&event.event)));
    assert_eq!(stage.read(".vscode/tasks.json"), "{}");
    assert_eq!((stage.read(".envrc"), stage.exists(".idea")), ("old\n".to_owned(), false));
}

#[tokio::test]
async fn a_file_at_the_old_path_stays_and_the_user_learns_where_his_copy_is() {
    let mut stage = Stage::in_sandbox_with(Arc::new(Waits));
    save_meanwhile(&stage, &[(".envrc", "first\n")]).await;
    let asked = question(&mut stage).await;
    stage.write(".envrc", "second\n");
    stage.agent.handle.answer_question(&asked.id, chosen("put back")).unwrap();
    let events = stage.agent.until(is_end).await;
    assert_eq!(stage.read(".envrc"), "second\n");
    let told = warnings(&events).join("\n");
    let kept = told.split("what you made is in ").nth(1).unwrap();
    assert_eq!(std::fs::read_to_string(kept).unwrap(), "first\n");
}

#[tokio::test]
async fn an_interrupt_withdraws_the_question_for_good() {
    let mut stage = Stage::in_sandbox_with(Arc::new(Waits));
    save_meanwhile(&stage, &[(".envrc", "mine\n")]).await;
    question(&mut stage).await;
    stage.agent.handle.interrupt();
    stage.agent.until(is_end).await;
    assert!(stage.agent.handle.open_user_questions().is_empty());
    let events = stage.turn(&[Call::Sh("true")]).await;
    assert!(!events.iter().any(|event| is_question(&event.event)));
    assert!(!stage.exists(".envrc"));
}

#[tokio::test]
async fn a_file_found_after_a_job_between_runs_is_asked_about_in_the_next_run() {
    let mut stage = Stage::in_sandbox_with(Arc::new(Waits));
    stage.turn(&[Call::Job(WAITING)]).await;
    appears(&stage.root().join("ready")).await;
    stage.write(".envrc", "mine\n");
    stage.write("go", "");
    let is_told = |event: &AgentEvent| {
        matches!(event, AgentEvent::Notice { level: NoticeLevel::Warning, .. })
    };
    stage.agent.until(is_told).await;
    stage.agent.model.push(reply([text("done")]));
    stage.agent.handle.send_input(vec![Block::text("go")]).unwrap();
    let asked = question(&mut stage).await;
    assert!(asked.question.text.contains(&format!("while `{WAITING}` ran")));
    stage.agent.handle.answer_question(&asked.id, chosen("put back")).unwrap();
    stage.agent.until(is_end).await;
    assert_eq!(stage.read(".envrc"), "mine\n");
}

#[tokio::test]
async fn without_an_answerer_the_file_stays_aside_without_a_question() {
    let mut stage = Stage::in_sandbox_with(Arc::new(NoAnswerer));
    save_meanwhile(&stage, &[(".envrc", "mine\n")]).await;
    let events = stage.agent.until(is_end).await;
    assert!(!events.iter().any(|event| is_question(&event.event)));
    let told = warnings(&events);
    assert!(told[0].contains(&format!("appeared while `{WAITING}` ran")), "{told:?}");
    assert!(!stage.exists(".envrc"));
}
