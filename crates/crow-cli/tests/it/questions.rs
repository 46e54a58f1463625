//! What agents ask the user, at a terminal and without one.

use crow_testkit::{ModelServer, ScriptStep, ScriptedReply, WireDialect};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::{program::Place, terminal::Terminal};

const MODEL: &str = "anthropic/claude-sonnet-4-5";

async fn with_replies<const N: usize>(replies: [ScriptStep; N]) -> (ModelServer, Place) {
    let server = ModelServer::start(replies).await;
    let place = Place::new().with_server(&server, WireDialect::AnthropicMessages);
    (server, place)
}

fn asks() -> ScriptStep {
    let input = json!({"question": "Which database?", "choices": ["SQLite", "PostgreSQL"]});
    ScriptedReply::new().call("c1", "ask_user", &input).into()
}

fn says(text: &str) -> ScriptStep {
    ScriptedReply::new().text(text).into()
}

async fn chat(place: &Place) -> Terminal {
    let mut terminal = Terminal::start(place, &["-m", MODEL], 80, "xterm-256color");
    terminal.prompts("").await.keys("set it up\r");
    terminal.shows("? Which database?").await.shows("  2  PostgreSQL").await;
    terminal.shows("1 to 2, words, or - for no answer:").await;
    terminal
}

/// What the model was told in its second request.
async fn told(server: ModelServer) -> String {
    server.finish().await.unwrap()[1].body.to_string()
}

#[tokio::test]
async fn a_number_selects_a_choice_and_the_model_receives_it() {
    let (server, place) = with_replies([asks(), says("So be it.")]).await;
    let mut terminal = chat(&place).await;
    terminal.keys("2\r");
    terminal.shows("you: PostgreSQL").await.shows("So be it.").await.prompts("").await;
    terminal.keys("/quit\r");
    terminal.exits(0).await;
    assert!(told(server).await.contains("The user chose: PostgreSQL"));
}

#[tokio::test]
async fn free_text_answers_a_question_after_an_invalid_number() {
    let (server, place) = with_replies([asks(), says("Neither, then.")]).await;
    let mut terminal = chat(&place).await;
    terminal.keys("7\r");
    terminal.shows("answer with 1 to 2").await;
    terminal.keys("none at all\r");
    terminal.shows("you: none at all").await.shows("Neither, then.").await.prompts("").await;
    terminal.keys("/quit\r");
    terminal.exits(0).await;
    assert!(told(server).await.contains("The user wrote: none at all"));
}

#[tokio::test]
async fn end_of_input_declines_a_question_and_the_agent_continues() {
    let (server, place) = with_replies([asks(), says("I take SQLite.")]).await;
    let mut terminal = chat(&place).await;
    terminal.keys("\u{4}");
    terminal.shows("you gave no answer").await.shows("I take SQLite.").await.prompts("").await;
    terminal.keys("/quit\r");
    terminal.exits(0).await;
    assert!(told(server).await.contains("does not want to answer"));
}

#[tokio::test]
async fn an_interrupt_withdraws_an_agents_question_and_the_chat_continues() {
    let (server, place) = with_replies([asks(), says("Again.")]).await;
    let mut terminal = chat(&place).await;
    terminal.keys("\u{3}");
    terminal.shows("withdrawn").await.shows("interrupted").await.prompts("").await;
    terminal.keys("2\r");
    terminal.shows("Again.").await.prompts("").await;
    terminal.keys("/quit\r");
    terminal.exits(0).await;
    assert!(!told(server).await.contains("The user chose"));
}

#[tokio::test]
async fn a_run_at_a_terminal_asks_the_agents_question() {
    let (server, place) = with_replies([asks(), says("So be it.")]).await;
    let mut terminal = Terminal::start(&place, &["run", "go", "-m", MODEL], 80, "xterm-256color");
    terminal.shows("  1  SQLite").await.shows("or - for no answer:").await;
    terminal.keys("9\r");
    terminal.shows("answer with 1 to 2").await;
    terminal.sees("the prompt again", |screen| screen.ends_with("for no answer:")).await;
    terminal.keys("sqlite\r");
    terminal.shows("you: SQLite").await.shows("So be it.").await;
    terminal.exits(0).await;
    assert!(told(server).await.contains("The user chose: SQLite"));
}

#[tokio::test]
async fn without_a_terminal_the_model_learns_that_questions_are_unavailable() {
    let (server, place) = with_replies([asks(), says("I take SQLite.")]).await;
    let ran = place.run(&["run", "go", "-m", MODEL, "-o", "json"]).await;
    assert_eq!(ran.result()["text"], "I take SQLite.");
    let told = told(server).await;
    assert!(told.contains("Nobody can be asked now: there is no terminal to ask at"), "{told}");
}

#[tokio::test]
async fn a_session_killed_during_a_question_resumes_with_the_question_closed() {
    let (server, place) = with_replies([asks(), says("Where were we?")]).await;
    let terminal = chat(&place).await;
    let pid = Pid::from_raw(terminal.pid().try_into().unwrap()).unwrap();
    kill_process(pid, Signal::KILL).unwrap();
    let session = place.session();
    let id = session.file_name().unwrap().to_str().unwrap();
    let ran = place.run(&["run", "go on", "--resume", id, "-o", "json"]).await;
    assert_eq!(ran.result()["text"], "Where were we?");
    assert!(told(server).await.contains("The call was interrupted"));
}

/// Says that it runs, and goes on until it is let through.
const WAITING: &str = "touch ready; while [ ! -e go ]; do sleep 0.02; done";

fn waits() -> ScriptStep {
    ScriptedReply::new().call("c1", "bash", &json!({ "command": WAITING })).into()
}

/// Saves a file that starts programs while the command runs.
async fn save_meanwhile(place: &Place) {
    let end = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while !place.project("ready").exists() {
        assert!(std::time::Instant::now() < end, "the command does not run");
        tokio::task::yield_now().await;
    }
    std::fs::write(place.project(".envrc"), "mine\n").unwrap();
    std::fs::write(place.project("go"), "").unwrap();
}

#[tokio::test]
async fn a_protected_file_saved_by_the_user_during_a_command_can_be_put_back() {
    let (server, place) = with_replies([waits(), says("Done.")]).await;
    let args = ["-m", MODEL, "--permissions", "full-auto"];
    let mut terminal = Terminal::start(&place, &args, 80, "xterm-256color");
    terminal.prompts("").await.keys("run it\r");
    save_meanwhile(&place).await;
    terminal.shows("1  put back").await.shows("2  leave aside").await;
    terminal.shows("1 to 2, or - for no answer:").await;
    assert!(!place.project(".envrc").exists());
    terminal.keys("1\r");
    terminal.shows("you: put back").await.shows("Done.").await.prompts("").await;
    terminal.keys("/quit\r");
    terminal.exits(0).await;
    assert_eq!(std::fs::read_to_string(place.project(".envrc")).unwrap(), "mine\n");
    drop(server);
}

#[tokio::test]
async fn without_a_terminal_a_protected_file_saved_during_a_command_is_set_aside() {
    let (server, place) = with_replies([waits(), says("Done.")]).await;
    let args = ["run", "go", "-m", MODEL, "-o", "json", "--permissions", "full-auto"];
    let child = place.start(&args);
    save_meanwhile(&place).await;
    let ran = crate::program::finish(child).await;
    ran.exited(0);
    assert!(!ran.out.contains("question_asked"), "{}", ran.out);
    assert!(ran.out.contains(".envrc appeared while `touch ready;"), "{}", ran.out);
    assert!(!place.project(".envrc").exists());
    drop(server);
}
