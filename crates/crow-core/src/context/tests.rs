use std::sync::Arc;

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::{
    ids::{CallId, MessageId, ReplyId},
    message::{
        AssistantMessage, Block, CallArguments, Image, Message, Origin, ReplyBlock, ReplyContent,
        ResultMessage, ResultsMessage, ToolCall, UserMessage,
    },
    model::ToolDefinition,
    usage::TokenUsage,
};

/// Texts of each kind with their number of tokens in `o200k_base`.
const SAMPLES: &[(&str, &str, u64)] = &[
    ("base64", include_str!("samples/base64.txt"), 209),
    ("chinese", include_str!("samples/chinese.txt"), 100),
    ("english", include_str!("samples/english.txt"), 66),
    ("hex dump", include_str!("samples/hex.txt"), 296),
    ("html", include_str!("samples/html.txt"), 163),
    ("javascript", include_str!("samples/javascript.txt"), 155),
    ("json", include_str!("samples/json.txt"), 175),
    ("listing", include_str!("samples/listing.txt"), 124),
    ("russian", include_str!("samples/russian.txt"), 88),
    ("rust", include_str!("samples/rust.txt"), 150),
];

/// Average characters per token of such texts.
const RATIOS: &[(&str, f64)] = &[
    ("rust", 4.62),
    ("javascript", 4.42),
    ("html", 3.29),
    ("json", 2.48),
    ("base64", 1.47),
    ("chinese", 1.70),
    ("russian", 4.19),
];

fn estimator() -> TokenEstimator {
    TokenEstimator::new("", &[])
}

fn user(id: &str, text: &str) -> Arc<Message> {
    let id = MessageId::new(id);
    Arc::new(Message::User(UserMessage { id, content: vec![Block::text(text)] }))
}

fn usage(input_tokens: u64) -> TokenUsage {
    TokenUsage { input_tokens, ..TokenUsage::default() }
}

fn words(count: usize) -> String {
    "several words about nothing ".repeat(count / 4)
}

#[test]
fn every_kind_of_text_is_estimated_within_a_quarter() {
    for (name, text, tokens) in SAMPLES {
        let estimate = estimator().text(text);
        assert!(
            estimate * 4 >= tokens * 3 && estimate * 4 <= tokens * 5,
            "{name}: {estimate} for {tokens}"
        );
    }
}

#[test]
#[expect(clippy::cast_precision_loss, reason = "the numbers are small")]
fn every_kind_of_text_has_about_the_measured_number_of_characters_for_each_token() {
    for (name, ratio) in RATIOS {
        let (_, text, _) = SAMPLES.iter().find(|sample| sample.0 == *name).unwrap();
        let estimated = text.chars().count() as f64 / estimator().text(text) as f64;
        assert!((0.75..=1.25).contains(&(estimated / ratio)), "{name}: {estimated:.2} for {ratio}");
    }
}

#[test]
fn short_texts_are_counted_as_a_tokenizer_would() {
    for (text, tokens) in [
        ("", 0),
        ("a", 1),
        ("hello", 2),
        ("123", 1),
        ("1234", 2),
        ("x = 1", 4),
        ("        ", 1),
        ("\n\n\n", 0),
        ("9f3a7c1e5b8d2f604ac7e19b35d80f6e", 22),
    ] {
        let estimate = estimator().text(text);
        assert!(estimate.abs_diff(tokens) <= 1, "{text}: {estimate} for {tokens}");
    }
}

#[test]
fn the_estimate_of_a_long_text_is_the_sum_of_its_parts() {
    for (name, text, _) in SAMPLES {
        let (once, often) = (estimator().text(text), estimator().text(&text.repeat(1000)));
        assert!(often.abs_diff(once * 1000) <= 2 * 1000, "{name}: {once} and {often}");
    }
}

#[test]
fn all_parts_of_a_request_count() {
    let long = words(400);
    let least = estimator().text(&long);
    let origin = || Origin {
        dialect: "d".into(),
        provider: "p".into(),
        base_url: "u".into(),
        model: "m".into(),
    };
    let reply = |block| {
        Arc::new(Message::Assistant(AssistantMessage {
            id: MessageId::new("a"),
            reply_id: ReplyId::new("r"),
            origin: origin(),
            blocks: vec![block],
        }))
    };
    let call = |arguments| {
        let call = ToolCall { id: CallId::new("c"), name: "bash".into(), arguments };
        ReplyBlock::without_native_item(ReplyContent::Call(call))
    };
    let image = Image { media_type: "image/png".into(), data: "AAAA".into() };
    let results = Message::Results(ResultsMessage {
        id: MessageId::new("x"),
        results: vec![ResultMessage {
            call_id: CallId::new("c"),
            tool: "bash".into(),
            content: vec![Block::text(long.clone()), Block::Image(image)],
            is_error: false,
        }],
    });
    let encrypted = json!({ "encrypted": "x".repeat(5 * 620) });
    for message in [
        user("m", &long),
        reply(ReplyBlock::without_native_item(ReplyContent::Text { text: long.clone() })),
        reply(ReplyBlock::without_native_item(ReplyContent::Thinking { text: long.clone() })),
        reply(call(CallArguments::Json(json!({ "command": long })))),
        reply(call(CallArguments::Malformed(long.clone()))),
        reply(ReplyBlock::with_native(ReplyContent::Opaque, encrypted)),
        Arc::new(results),
    ] {
        let request = estimator().request(std::slice::from_ref(&message));
        assert_eq!(request, estimator().message(&message));
        assert!((least * 9 / 10..least + 1600).contains(&request), "{request} for {message:?}");
    }
    let tool = ToolDefinition {
        name: "bash".into(),
        description: long.clone(),
        parameters: json!({ "description": long }),
    };
    assert!(TokenEstimator::new(&long, &[tool]).request(&[]) >= 3 * least);
}

#[test]
fn only_messages_after_a_report_are_estimated() {
    let mut estimator = TokenEstimator::new(&words(1000), &[]);
    let mut messages = vec![user("1", &words(1000))];
    let first = estimator.request(&messages);
    estimator.on_usage(1, &usage(first + 700));
    assert_eq!(estimator.request(&messages), first + 700);
    messages.push(user("2", "one more"));
    let more = estimator.request(&messages) - (first + 700);
    assert!((4..12).contains(&more), "{more}");
}

#[test]
fn a_report_belongs_to_the_messages_that_were_sent() {
    let mut estimator = estimator();
    let messages = vec![user("1", &words(1000)), user("2", &words(1000))];
    estimator.request(&messages);
    estimator.on_usage(1, &usage(2000));
    let both = estimator.request(&messages);
    assert!((3900..4200).contains(&both), "{both}");
    estimator.on_usage(3, &usage(10));
    assert_eq!(estimator.request(&messages), both);
}

#[test]
fn the_correction_follows_the_reports() {
    let mut estimator = estimator();
    let mut messages = Vec::new();
    let plain = estimator.text(&words(1000));
    for step in 0..20 {
        messages.push(user(&step.to_string(), &words(1000)));
        estimator.request(&messages);
        let factor = if step < 10 { 2 } else { 1 };
        let sent = messages.len();
        estimator.on_usage(sent, &usage((plain + 4) * sent as u64 * factor));
        let estimate = estimator.text(&words(1000));
        if step < 10 {
            assert_eq!(estimate, plain * 2, "step {step}");
        } else if step > 18 {
            assert!(estimate < plain * 11 / 10, "step {step}: {estimate}");
        }
    }
}

#[test]
fn implausible_reports_are_ignored() {
    for reported in [0, 10, 1_000_000] {
        let mut estimator = estimator();
        let messages = vec![user("1", &words(4000))];
        let before = estimator.request(&messages);
        estimator.on_usage(1, &usage(reported));
        assert_eq!(estimator.request(&messages), before, "{reported}");
    }
}

#[test]
fn replaced_messages_are_counted_again() {
    let mut estimator = estimator();
    let long = vec![user("1", &words(4000)), user("2", "x")];
    let before = estimator.request(&long);
    estimator.on_usage(2, &usage(before));
    let short = vec![user("summary", "short"), user("3", "x")];
    assert!(estimator.request(&short) < 20);
    assert!(estimator.request(&[]) < 20);
    estimator.restart(&words(400), &[]);
    assert!(estimator.request(&[]) >= 70);
}

proptest! {
    #[test]
    fn any_text_is_estimated_between_nothing_and_two_tokens_for_each_character(text in "\\PC{0,200}|[a-zA-Z0-9 \n\t.{}]{0,200}") {
        let characters = text.chars().count() as u64;
        prop_assert!(estimator().text(&text) <= 2 * characters);
    }

    #[test]
    fn a_text_with_more_in_it_is_not_estimated_much_lower(text in "[ -~\n]{0,60}", more in "[ -~\n]{0,60}") {
        let both = format!("{text}{more}");
        prop_assert!(estimator().text(&both) + 8 >= estimator().text(&text).max(estimator().text(&more)) / 2);
    }

    #[test]
    fn messages_one_by_one_give_the_same_as_all_at_once(texts in prop::collection::vec("[ -~]{0,40}", 0..10)) {
        let messages: Vec<_> = texts.iter().enumerate().map(|(id, text)| user(&id.to_string(), text)).collect();
        let mut grown = estimator();
        for end in 0..messages.len() {
            grown.request(messages.get(..end).unwrap());
        }
        prop_assert_eq!(grown.request(&messages), estimator().request(&messages));
    }
}
