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
use crate::environment::{Environment, SystemState};

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

#[test]
fn a_request_within_the_budget_has_the_whole_conversation_and_then_the_environment() {
    let mut context = manager(10_000).with_history(conversation(2));
    let view = context.build_request().unwrap();
    assert_eq!(view.messages[..5], conversation(2));
    let Message::User(last) = view.messages[5].as_ref() else { unreachable!() };
    assert!(Block::text_of(&last.content).contains("working directory: /project"));
    assert_eq!(context.metrics().prunings, 0);
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
            let conversation = &before.messages[..before.messages.len() - 1];
            assert!(view.messages.starts_with(conversation));
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
    assert_eq!(view.messages[0], user("m1", "read everything"));
    let newest = &view.messages[view.messages.len() - 2];
    assert_eq!(newest, conversation(40).last().unwrap());
    assert!(view.tokens <= 6_000);
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

proptest! {
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
