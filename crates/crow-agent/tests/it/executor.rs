//! Tasks with an environment and a budget of context.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use crow_agent::{AgentConfig, AgentExecutor, TokensUsed};
use crow_context::{environment::Environment, manager::ContextManager};
use crow_core::{
    event::{AgentEvent, Envelope, RunOutcome},
    message::{Block, Message, ReplyContent},
    tool::{ToolCategory::Read, ToolRegistry},
    turn::TurnEnd,
};
use crow_testkit::scripted::{Play, ScriptedModel, SeenRequest, call, reply, text};
use proptest::prelude::*;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::tools::{Act, tools};

fn context(max_tokens: u64) -> ContextManager {
    let state = json!({"system": {"working_directory": "/project"}});
    ContextManager::new(Environment::new(state).unwrap(), max_tokens, "You are an agent.")
}

fn executor(model: &ScriptedModel, max_tokens: u64) -> AgentExecutor {
    let tools = tools(vec![("weather", Read, Act::Say(r#"{"town": "Bern", "degrees": 21}"#))]);
    AgentExecutor::new(context(max_tokens), tools, model.resolved(), AgentConfig::default())
}

/// A model that checks that each request of a session begins with the one before.
fn model(plays: impl IntoIterator<Item = Play>) -> ScriptedModel {
    ScriptedModel::new(plays)
}

fn text_at(request: &SeenRequest, index: usize) -> String {
    let Message::User(user) = request.messages[index].as_ref() else { unreachable!() };
    Block::text_of(&user.content)
}

/// Reads all events of a channel.
async fn collect(mut events: mpsc::Receiver<Arc<Envelope>>) -> Vec<Arc<Envelope>> {
    let mut all = Vec::new();
    while let Some(event) = events.recv().await {
        all.push(event);
    }
    all
}

#[tokio::test]
async fn a_task_is_run_with_its_environment_and_its_events_are_sent() {
    let model = model([reply([call("c1", "weather", json!({}))]), reply([text("It is warm.")])]);
    let executor = executor(&model, 4_000);
    executor.context().environment_mut().register_handler("weather", |state, result| {
        let degrees = result["degrees"].clone();
        state.extensions.insert("degrees".to_owned(), degrees);
        Ok(())
    });
    let (sender, receiver) = mpsc::channel(1);
    let (outcome, events) =
        tokio::join!(executor.execute("how warm is it?", sender), collect(receiver));
    let outcome = outcome.unwrap();
    assert_eq!((&outcome.outcome, outcome.text.as_str()), (&RunOutcome::NeedsInput, "It is warm."));
    assert_eq!(outcome.usage.total(), 220);
    assert!(matches!(events.last().unwrap().event, AgentEvent::RunEnd { .. }));
    let requests = model.requests();
    assert!(text_at(&requests[0], 0).contains("working directory: /project"));
    assert_eq!(text_at(&requests[0], 1), "how warm is it?");
    let update = text_at(&requests[1], 4);
    assert!(update.contains("degrees: 21") && !update.contains("/project"), "{update}");
    let degrees: Value = executor.context().environment().get_extension("degrees").unwrap();
    assert_eq!(degrees, json!(21));
}

#[tokio::test]
async fn a_run_whose_channel_is_closed_goes_on() {
    let model = model([reply([text("one")])]);
    let (sender, receiver) = mpsc::channel(1);
    drop(receiver);
    let outcome = executor(&model, 4_000).execute("go", sender).await.unwrap();
    assert_eq!(outcome.text, "one");
}

#[tokio::test]
async fn the_system_prompt_is_that_of_the_context_unless_the_configuration_has_one() {
    for (configured, expected) in [("", "You are an agent."), ("Be brief.", "Be brief.")] {
        let model = model([reply([text("one")])]);
        let config = AgentConfig { system_prompt: configured.to_owned(), ..AgentConfig::default() };
        let executor =
            AgentExecutor::new(context(4_000), ToolRegistry::new(), model.resolved(), config);
        executor.run("go").await.unwrap();
        assert_eq!(model.requests()[0].system, expected);
    }
}

#[tokio::test]
async fn the_conversation_goes_on_with_the_next_task() {
    let model = model([reply([text("one")]), reply([text("two")])]);
    let executor = executor(&model, 4_000);
    for (task, answer) in [("first task", "one"), ("second task", "two")] {
        assert_eq!(executor.run(task).await.unwrap().into_answer().unwrap(), answer);
    }
    let requests = model.requests();
    let outline = requests[1].outline();
    assert!(outline[1].contains("first task") && outline[3].contains("second task"), "{outline:?}");
    assert_eq!(outline.len(), 4);
    // The outline of a reply has no text.
    let Message::Assistant(answer) = requests[1].messages[2].as_ref() else { unreachable!() };
    let is_first =
        matches!(&answer.blocks[0].content, ReplyContent::Text { text } if text == "one");
    assert!(is_first, "{answer:?}");
}

#[tokio::test]
async fn a_task_longer_than_its_budget_ends_with_the_reason_and_asks_no_model() {
    let model = model([reply([text("never")])]);
    let (sender, _receiver) = mpsc::channel(64);
    let outcome = executor(&model, 50).execute("word ".repeat(400), sender).await.unwrap();
    let RunOutcome::Stopped { reason: TurnEnd::Condition { reason } } = outcome.outcome else {
        panic!("{:?}", outcome.outcome)
    };
    assert!(reason.contains("its budget is 50"), "{reason}");
    assert!(model.requests().is_empty());
}

#[tokio::test]
async fn a_handler_that_panics_leaves_the_environment_and_is_told() {
    let model = model([reply([call("c1", "weather", json!({}))]), reply([text("well")])]);
    let executor = executor(&model, 4_000);
    executor.context().environment_mut().register_handler("weather", |_, _| panic!("no sun"));
    let before = executor.context().environment().state().clone();
    let (sender, receiver) = mpsc::channel(64);
    let (outcome, events) = tokio::join!(executor.execute("go", sender), collect(receiver));
    assert_eq!(outcome.unwrap().outcome, RunOutcome::NeedsInput);
    assert_eq!(*executor.context().environment().state(), before);
    let told = |event: &Arc<Envelope>| matches!(&event.event, AgentEvent::Notice { text, .. } if text.contains("no sun"));
    assert!(events.iter().any(told));
}

#[tokio::test]
async fn a_condition_ends_a_task() {
    let model = model([reply([call("c1", "weather", json!({}))]), reply([text("never")])]);
    let (sender, _receiver) = mpsc::channel(64);
    let executor = executor(&model, 4_000).with_condition(TokensUsed(100));
    let outcome = executor.execute("go", sender).await.unwrap();
    let reason = TurnEnd::Condition { reason: "the turn used 100 tokens".to_owned() };
    assert_eq!(outcome.outcome, RunOutcome::Stopped { reason });
    assert_eq!(model.requests().len(), 1);
    let error = outcome.into_answer().unwrap_err().to_string();
    assert!(error.starts_with("the run ended without an answer: "), "{error}");
    assert!(error.ends_with("the turn used 100 tokens"), "{error}");
}

/// What happens in a step of the run below.
#[derive(Debug, Clone, Copy)]
enum StepChange {
    Nothing,
    /// A handler stores the number of the call.
    Count,
    /// A handler forgets it.
    Forget,
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn each_request_of_a_task_begins_with_the_one_before(
        changes in prop::collection::vec(
            prop::sample::select(vec![StepChange::Nothing, StepChange::Count, StepChange::Forget]),
            1..8,
        ),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let calls = (0..changes.len())
            .map(|number| reply([call(&format!("c{number}"), "weather", json!({"number": number}))]));
        // The model fails if a request does not begin with the one before.
        let model = model(calls.chain([reply([text("done")])]));
        let executor = executor(&model, 20_000);
        let (steps, count) = (changes.clone(), AtomicUsize::new(0));
        executor.context().environment_mut().register_handler("weather", move |state, _| {
            let number = count.fetch_add(1, Ordering::Relaxed);
            match steps[number % steps.len()] {
                StepChange::Nothing => {}
                StepChange::Count => {
                    state.extensions.insert("number".to_owned(), json!(number));
                }
                StepChange::Forget => drop(state.extensions.remove("number")),
            }
            Ok(())
        });
        let outcome = runtime.block_on(executor.run("go")).unwrap();
        prop_assert_eq!(outcome.text, "done");
        let requests = model.requests();
        prop_assert_eq!(requests.len(), changes.len() + 1);
        for pair in requests.windows(2) {
            prop_assert!(pair[1].messages.starts_with(&pair[0].messages));
        }
        // The environment is told once, and then only what changed.
        let last: String = (0..requests[changes.len()].messages.len())
            .filter(|index| matches!(*requests[changes.len()].messages[*index], Message::User(_)))
            .map(|index| text_at(&requests[changes.len()], index))
            .collect();
        prop_assert_eq!(last.matches("working directory").count(), 1);
    }
}
