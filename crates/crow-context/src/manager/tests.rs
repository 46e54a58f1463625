use std::sync::Arc;

use async_trait::async_trait;
use crow_core::{
    ids::{CallId, MessageId, ReplyId},
    message::{
        AssistantMessage, Block, CallArguments, Message, Origin, ReplyBlock, ReplyContent,
        ResultMessage, ResultsMessage, ToolCall, UserMessage, unpaired_call,
    },
};
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::environment::{Environment, EnvironmentRevision, FileInfo, JobSummary, SystemState};

fn user(id: &str, text: &str) -> Arc<Message> {
    let content = vec![Block::text(text)];
    Arc::new(Message::User(UserMessage { id: MessageId::new(id), content }))
}

/// A reply with one call, and its result.
fn step(number: usize, argument: &str, output: &str) -> [Arc<Message>; 2] {
    let call_id = CallId::new(format!("c{number}"));
    let call = ToolCall {
        id: call_id.clone(),
        name: "read".to_owned(),
        arguments: CallArguments::Json(json!({ "path": argument })),
    };
    let reply = AssistantMessage {
        id: MessageId::new(format!("a{number}")),
        reply_id: ReplyId::new(format!("a{number}")),
        origin: Origin {
            dialect: "d".into(),
            provider: "p".into(),
            base_url: "u".into(),
            model: "m".into(),
        },
        blocks: vec![ReplyBlock::without_native_item(ReplyContent::Call(call))],
    };
    let results = ResultsMessage {
        id: MessageId::new(format!("r{number}")),
        results: vec![ResultMessage {
            call_id,
            tool: "read".to_owned(),
            content: vec![Block::text(output)],
            is_error: false,
        }],
    };
    [Arc::new(Message::Assistant(reply)), Arc::new(Message::Results(results))]
}

fn environment() -> Environment {
    let system = SystemState { working_directory: "/project".into(), ..SystemState::default() };
    Environment::builder().system(system).build()
}

fn manager(max_tokens: u64) -> ContextManager {
    ContextManager::new(environment(), max_tokens, "You are an agent.")
        .with_text_counter(|text| text.len().div_ceil(4) as u64)
}

/// The task and `count` steps with outputs of about 1,000 tokens.
fn conversation(count: usize) -> Vec<Arc<Message>> {
    let steps =
        (0..count).flat_map(|number| step(number, &number.to_string(), &"word ".repeat(800)));
    [user("m1", "read everything")].into_iter().chain(steps).collect()
}

fn output(view: &ContextView, index: usize) -> String {
    let Message::Results(results) = view.messages[index].as_ref() else { unreachable!() };
    Block::text_of(&results.results[0].content)
}

/// Returns the text about the environment in a message, if it has one.
fn told(message: &Message) -> Option<String> {
    let Message::User(user) = message else { return None };
    let text = Block::text_of(&user.content);
    let (_, inner) = text.strip_prefix("<environment")?.split_once(">\n")?;
    Some(inner.rsplit_once("</environment").unwrap().0.to_owned())
}

/// Returns what a request tells of the environment: the index and the text.
fn all_told(view: &ContextView) -> Vec<(usize, String)> {
    let messages = view.messages.iter().enumerate();
    messages.filter_map(|(index, message)| Some((index, told(message)?))).collect()
}

/// Returns the conversation of a request without what it tells of the environment.
fn conversation_of(view: &ContextView) -> Vec<Arc<Message>> {
    view.messages.iter().filter(|message| told(message).is_none()).cloned().collect()
}

#[test]
fn a_request_within_the_budget_has_the_environment_and_then_the_whole_conversation() {
    let mut context = manager(10_000).with_history([user("m1", "read everything")]);
    context.build_request().unwrap();
    for message in &conversation(2)[1..] {
        context.add_to_history(Arc::clone(message));
    }
    let view = context.build_request().unwrap();
    assert_eq!(view.messages[1..], conversation(2));
    assert_eq!(all_told(&view), [(0, "working directory: /project\n".to_owned())]);
    assert_eq!(context.metrics().prunings, 0);
    let environment = context.metrics().environment_tokens;
    assert!((10..100).contains(&environment), "{environment}");
}

#[test]
fn changes_of_the_environment_are_appended_once() {
    let mut context = manager(10_000).with_history([user("m1", "read everything")]);
    context.build_request().unwrap();
    for message in step(1, "a", "done") {
        context.add_to_history(message);
    }
    context.environment_mut().set_extension("degrees", 21).unwrap();
    let first = context.build_request().unwrap();
    assert_eq!(all_told(&first)[1..], [(4, "extension degrees: 21\n".to_owned())]);
    // Nothing is said twice, and an input comes after what is to be known of the environment.
    assert_eq!(context.build_request().unwrap().messages, first.messages);
    context.environment_mut().set_extension("degrees", 22).unwrap();
    context.add_to_history(user("m2", "and now?"));
    let second = context.build_request().unwrap();
    assert!(second.messages.starts_with(&first.messages));
    assert_eq!(all_told(&second)[2..], [(5, "extension degrees: 22\n".to_owned())]);
    assert_eq!(second.messages[6], user("m2", "and now?"));
    // Without a new message a change stands after what was sent.
    context.environment_mut().system_mut().working_directory = "/other".into();
    let third = context.build_request().unwrap();
    assert!(third.messages.starts_with(&second.messages));
    assert_eq!(all_told(&third)[3..], [(7, "working directory: /other\n".to_owned())]);
}

#[tokio::test]
async fn a_conversation_that_lost_its_snapshot_gets_a_fresh_one() {
    let mut context = manager(10_000);
    context.follow(&conversation(3)[..1]);
    context.build_request().unwrap();
    context.follow(&conversation(3));
    context.environment_mut().set_extension("degrees", 21).unwrap();
    context.build_request().unwrap();
    // A summary of what has it.
    context.summarize(0..6, &Fixed(Ok("two files were read"))).await.unwrap();
    let view = context.build_request().unwrap();
    let texts = all_told(&view);
    assert_eq!(texts.len(), 1, "{texts:?}");
    assert_eq!(texts[0].1, "working directory: /project\nextension degrees: 21\n");
    // A rewind.
    context.follow(&[conversation(1)[0].clone(), user("m2", "something else")]);
    let view = context.build_request().unwrap();
    assert_eq!((view.messages.len(), all_told(&view).len()), (3, 1));
}

#[test]
fn an_environment_without_a_share_is_not_told() {
    let mut context = manager(10_000).with_environment_percent(0).with_history(conversation(1));
    assert_eq!(context.build_request().unwrap().messages, conversation(1));
    context.environment_mut().set_extension("degrees", 21).unwrap();
    assert_eq!(context.build_request().unwrap().messages, conversation(1));
}

#[test]
fn a_request_begins_with_the_one_before_unless_it_was_pruned() {
    let mut context = manager(12_000);
    let mut before: Option<ContextView> = None;
    let mut kept = 0;
    for message in conversation(60) {
        context.add_to_history(message);
        if unpaired_call(context.messages()).is_some() {
            continue;
        }
        let prunings = context.metrics().prunings;
        let view = context.build_request().unwrap();
        if let Some(before) = before.filter(|_| context.metrics().prunings == prunings) {
            assert!(view.messages.starts_with(&before.messages));
            kept += 1;
        }
        before = Some(view);
    }
    let prunings = context.metrics().prunings;
    assert!(kept >= 40 && (5..=20).contains(&prunings), "{kept} kept, {prunings} prunings");
}

#[test]
fn superseded_outputs_go_before_others() {
    let mut context = manager(4_000);
    let long = "word ".repeat(800);
    context.add_to_history(user("m1", "go"));
    for (number, path) in ["a", "b", "a", "c"].into_iter().enumerate() {
        for message in step(number, path, &long) {
            context.add_to_history(message);
        }
    }
    let view = context.with_strategies(vec![Box::new(SupersededOutputs)]).build_request().unwrap();
    let view = ContextView { messages: conversation_of(&view), ..view };
    assert!(output(&view, 2).starts_with("[output left out"), "{}", output(&view, 2));
    assert_eq!(output(&view, 4), long);
    assert_eq!(output(&view, 6), long);
}

#[test]
fn the_newest_outputs_and_the_task_survive_every_pruning() {
    let mut context = manager(6_000);
    for message in conversation(40) {
        context.add_to_history(message);
    }
    let view = context.build_request().unwrap();
    let messages = conversation_of(&view);
    assert_eq!(messages[0], user("m1", "read everything"));
    assert_eq!(messages.last(), conversation(40).last());
    assert!(view.tokens <= 6_000);
    // The snapshot before went with the pruning, and a fresh one stands at the end.
    assert_eq!(all_told(&view).len(), 1);
}

#[test]
fn a_budget_smaller_than_the_last_message_is_an_error_that_names_both() {
    let mut context = manager(500).with_history(conversation(1));
    let Err(ContextError::BudgetTooSmall { needed, budget: 500 }) = context.build_request() else {
        panic!("it was built")
    };
    assert!(needed > 1_000, "{needed}");
    let error = manager(3).build_prompt("a task of more than twelve letters").unwrap_err();
    assert!(matches!(error, ContextError::BudgetTooSmall { budget: 3, .. }), "{error}");
}

#[test]
fn the_instructions_are_the_template_without_its_places() {
    let template = "You are an agent.\n{{environment}}\n{{history}}\n{{task}}\n";
    let context = ContextManager::new(environment(), 100, template);
    assert_eq!(context.instructions(), "You are an agent.");
}

#[test]
fn a_prompt_has_the_template_the_newest_messages_and_the_task() {
    let mut context = manager(2_500).with_history(conversation(5));
    let prompt = context.build_prompt("now sum up").unwrap();
    assert!(prompt.starts_with("You are an agent.\nworking directory: /project\n"), "{prompt}");
    assert!(prompt.ends_with("\nnow sum up\n"));
    assert!(prompt.contains("call of read: {\"path\":\"4\"}"));
    assert!(!prompt.contains("\"path\":\"1\""));
    assert_eq!(prompt.matches("working directory").count(), 1);
}

#[test]
fn places_in_inserted_texts_are_not_filled() {
    let template = "{{task}} / {{history}} / {{environment}}";
    let mut context = ContextManager::new(environment(), 1_000, template)
        .with_history([user("m1", "what is {{task}}?")]);
    let prompt = context.build_prompt("explain {{environment}}").unwrap();
    assert_eq!(
        prompt,
        "explain {{environment}} / user: what is {{task}}? / working directory: /project"
    );
}

#[test]
fn a_history_is_followed_until_it_is_replaced() {
    let mut context = manager(100_000);
    let whole = conversation(4);
    context.follow(&whole[..3]);
    context.follow(&whole[..7]);
    context.follow(&whole[..7]);
    assert_eq!(context.messages(), &whole[..7]);
    // A rewind, then another prompt.
    let rewound = [whole[0].clone(), user("m2", "something else")];
    context.follow(&rewound);
    assert_eq!(context.messages(), rewound);
}

struct Fixed(Result<&'static str, &'static str>);

#[async_trait]
impl Summarizer for Fixed {
    async fn summarize(&self, transcript: &str, max_tokens: u64) -> Result<String, String> {
        assert!(transcript.contains("call of read") && max_tokens > 0);
        self.0.map(str::to_owned).map_err(str::to_owned)
    }
}

#[tokio::test]
async fn a_range_is_replaced_by_its_summary() {
    let mut context = manager(10_000).with_history(conversation(3));
    let before = context.token_count();
    context.summarize(1..5, &Fixed(Ok("two files were read"))).await.unwrap();
    assert_eq!(context.messages().len(), 4);
    let Message::User(summary) = context.messages()[1].as_ref() else { unreachable!() };
    assert!(Block::text_of(&summary.content).contains("two files were read"));
    assert!(context.token_count() < before / 2);
    assert_eq!((context.metrics().summaries, context.metrics().removed_messages), (1, 3));
}

#[tokio::test]
async fn a_summary_that_cannot_be_used_changes_nothing() {
    let long: &'static str = Box::leak("word ".repeat(10_000).into_boxed_str());
    let mut context = manager(10_000).with_history(conversation(3));
    for (range, summary, expected) in [
        (1..4, Ok("x"), "separate a call from its result"),
        (2..5, Ok("x"), "separate a call from its result"),
        (5..5, Ok("x"), "there are no messages 5 to 5"),
        (5..9, Ok("x"), "there are no messages 5 to 9: the conversation has 7"),
        (1..5, Ok("  "), "it is empty"),
        (1..5, Ok(long), "it has"),
        (1..5, Err("no model"), "no model"),
    ] {
        let error = context.summarize(range, &Fixed(summary)).await.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
        assert_eq!(context.messages(), conversation(3));
    }
}

fn arbitrary_conversation() -> impl Strategy<Value = Vec<Arc<Message>>> {
    let part = prop_oneof![
        (0_usize..80).prop_map(|words| (true, "word ".repeat(words))),
        (0_usize..400).prop_map(|words| (false, "word ".repeat(words))),
    ];
    prop::collection::vec(part, 1..30).prop_map(|parts| {
        let messages = parts.into_iter().enumerate().flat_map(|(number, (is_input, text))| {
            if is_input {
                vec![user(&format!("m{number}"), &text)]
            } else {
                step(number, &(number % 5).to_string(), &text).to_vec()
            }
        });
        messages.collect()
    })
}

/// What happens between two requests.
#[derive(Debug, Clone)]
enum Change {
    /// The user says something.
    Input(usize),
    /// A reply with a call, and the result.
    Step(usize),
    /// An extension of the environment gets another value.
    Extension(u8, u32),
    /// A job begins with this title, or ends.
    Job(u8, Option<u8>),
    /// The agent reads so many files.
    Reads(u8),
}

fn arbitrary_change() -> impl Strategy<Value = Change> {
    prop_oneof![
        (1_usize..60).prop_map(Change::Input),
        (0_usize..200).prop_map(Change::Step),
        (0_u8..6, 0_u32..5).prop_map(|(name, value)| Change::Extension(name, value)),
        (0_u8..4, prop::option::of(0_u8..3)).prop_map(|(id, title)| Change::Job(id, title)),
        (1_u8..30).prop_map(Change::Reads),
    ]
}

fn apply(context: &mut ContextManager, number: usize, change: &Change) {
    match change {
        Change::Input(words) => {
            context.add_to_history(user(&format!("m{number}"), &"word ".repeat(*words)));
        }
        Change::Step(words) => {
            for message in step(number, &(number % 5).to_string(), &"word ".repeat(*words)) {
                context.add_to_history(message);
            }
        }
        Change::Extension(name, value) => {
            context.environment_mut().set_extension(&format!("e{name}"), value).unwrap();
        }
        Change::Job(id, title) => {
            let jobs = context.environment_mut().jobs_mut();
            match title {
                Some(title) => {
                    let summary = JobSummary { title: format!("make {title}"), end: None };
                    jobs.insert(format!("job{id}"), summary);
                }
                None => drop(jobs.remove(&format!("job{id}"))),
            }
        }
        Change::Reads(count) => {
            let files = &mut context.environment_mut().workspace_mut().files;
            for index in 0..*count {
                let last_read = u64::from(*count) + u64::from(index) + 1;
                let file = FileInfo { last_read, ..FileInfo::default() };
                files.insert(format!("file{index}"), file);
            }
        }
    }
}

proptest! {
    #[test]
    fn a_request_begins_with_the_one_before_and_tells_the_whole_environment(
        rounds in prop::collection::vec(prop::collection::vec(arbitrary_change(), 0..4), 1..12),
    ) {
        let mut context = manager(4_000).with_history([user("m", "begin")]);
        let mut before: Option<ContextView> = None;
        let mut number = 0;
        for round in rounds {
            for change in &round {
                apply(&mut context, number, change);
                number += 1;
            }
            let prunings = context.metrics().prunings;
            let view = context.build_request().unwrap();
            prop_assert!(unpaired_call(&view.messages).is_none());
            if let Some(before) = before.filter(|_| context.metrics().prunings == prunings) {
                prop_assert!(view.messages.starts_with(&before.messages));
            }
            // Every id stands for one text.
            let mut ids: Vec<_> = view.messages.iter().map(|message| message.id()).collect();
            ids.sort_unstable();
            ids.dedup();
            prop_assert_eq!(ids.len(), view.messages.len());
            before = Some(view);
        }
        // What did not fit into one change is told by the next ones.
        for _ in 0..5 {
            before = Some(context.build_request().unwrap());
        }
        let texts = all_told(&before.unwrap());
        let told = EnvironmentRevision::from_texts(texts.iter().map(|(_, text)| text.as_str()));
        let is_cut = texts.iter().any(|(_, text)| text.contains("more entries"));
        for entry in context.environment().entries() {
            let value = told.value(&entry.label);
            prop_assert!(is_cut || value == Some(entry.value.as_str()), "{}: {:?}", entry.label, texts);
        }
        for id in 0..4 {
            let is_running = context.environment().jobs().contains_key(&format!("job{id}"));
            prop_assert_eq!(told.value(&format!("job job{id}")).is_some(), is_running);
        }
    }

    #[test]
    fn requests_keep_to_the_budget_and_pair_calls_with_results(
        messages in arbitrary_conversation(),
        budget in 100_u64..6_000,
    ) {
        let build = || {
            let mut context = manager(budget).with_history(messages.clone());
            context.build_request()
        };
        match build() {
            Ok(view) => {
                prop_assert!(view.tokens <= budget);
                prop_assert!(unpaired_call(&view.messages).is_none());
                prop_assert_eq!(view.messages, build().unwrap().messages);
            }
            Err(error) => {
                let is_too_small = matches!(error, ContextError::BudgetTooSmall { needed, .. } if needed > budget);
                prop_assert!(is_too_small);
            }
        }
    }

    #[test]
    fn prompts_keep_to_the_budget(
        messages in arbitrary_conversation(),
        budget in 0_u64..3_000,
        task in "[a-z ]{0,40}",
    ) {
        let mut context = manager(budget).with_history(messages);
        if let Ok(prompt) = context.build_prompt(&task) {
            prop_assert!(prompt.len().div_ceil(4) as u64 <= budget);
            prop_assert!(prompt.contains(task.trim_end_matches('\n')));
        }
    }
}
