use crow_core::{
    event::AgentEvent,
    ids::{ReplyId, SessionId},
    message::ReplyContent,
    model::{ProviderError, ProviderErrorKind},
};
use crow_runtime::{ObserverItem, OpenReply};
use proptest::prelude::*;

use super::{
    sample::{ROOT, Story, bare, everything, updates, view},
    screen::Screen,
};
use crate::view::EventSource;

fn open_reply(text: &str) -> OpenReply {
    OpenReply {
        session_id: SessionId::new(ROOT),
        reply_id: ReplyId::new("a"),
        text: text.into(),
        thinking: String::new(),
    }
}

fn reset() -> AgentEvent {
    AgentEvent::ReplyReset {
        reply_id: ReplyId::new("a"),
        error: ProviderError::new(ProviderErrorKind::Overloaded, "too busy"),
        attempt: 1,
        wait_ms: 2000,
    }
}

#[test]
fn deltas_come_as_chunks_of_one_message_and_the_whole_reply_repeats_nothing() {
    let mut story = Story::new();
    story.thinking_delta("a", 0, "Hm").reply("a", &["Hel", "lo"], &[]).reply("b", &["Bye"], &[]);
    let screen = Screen::of(&story.live(&mut view(bare())));
    let text = |id: &str, text: &str| (id.to_owned(), text.to_owned());
    assert_eq!(screen.texts, [text("a", "Hello"), text("b", "Bye")]);
    assert_eq!(screen.thoughts, [text("a.thought", "Hm")]);
}

#[test]
fn missed_deltas_are_completed_by_the_reply() {
    let mut story = Story::new();
    story.text_delta("a", 0, "He").text_delta("a", 4, "o,").whole_reply("a", "Hello, you", &[]);
    let screen = Screen::of(&story.live(&mut view(bare())));
    assert_eq!(screen.text("a"), "Hello, you");
}

#[test]
fn an_open_reply_fills_the_gap_before_the_next_delta() {
    let mut view = view(bare());
    let mut story = Story::new();
    let mut out = story.text_delta("a", 0, "He").live(&mut view);
    view.on_observer_item(&ObserverItem::Lagged { missed: 3 }, &mut out);
    view.on_observer_item(&ObserverItem::OpenReply(open_reply("Hello")), &mut out);
    let mut rest = Story::new();
    rest.text_delta("a", 3, "lo").text_delta("a", 5, "!").whole_reply("a", "Hello!", &[]);
    out.extend(rest.live(&mut view));
    assert_eq!(Screen::of(&out).text("a"), "Hello!");
}

#[test]
fn text_before_a_retry_stays_in_a_message_of_its_own() {
    let mut story = Story::new();
    story.text_delta("a", 0, "Wro").tell(reset()).reply("a", &["Ri", "ght"], &[]);
    let screen = Screen::of(&story.live(&mut view(bare())));
    assert_eq!((screen.text("a"), screen.text("a.2")), ("Wro", "Right"));
    let said = &screen.thoughts[0].1;
    assert!(said.contains("too busy") && said.contains("is discarded") && said.contains("in 2 s"));
}

#[test]
fn a_missed_retry_is_detected_by_the_text_after_it() {
    let mut story = Story::new();
    story.text_delta("a", 0, "Wrong").text_delta("a", 0, "Ri").text_delta("a", 2, "ght");
    story.whole_reply("a", "Right", &[]);
    let screen = Screen::of(&story.live(&mut view(bare())));
    assert_eq!((screen.text("a"), screen.text("a.2")), ("Wrong", "Right"));
    let mut view = view(bare());
    let mut out = Vec::new();
    view.open_reply(&open_reply("Wrong"), &mut out);
    view.open_reply(&open_reply("Ri"), &mut out);
    assert_eq!(Screen::of(&out).text("a.2"), "Ri");
}

#[test]
fn a_replay_shows_the_blocks_of_a_reply_in_their_order() {
    let text = |text: &str| ReplyContent::Text { text: text.into() };
    let mut story = Story::new();
    let thinking = ReplyContent::Thinking { text: "hm".into() };
    story.blocks("a", vec![text("1"), thinking, text("2"), ReplyContent::Opaque]);
    let kinds: Vec<_> = updates(&story.replay(&mut view(bare())))
        .iter()
        .map(|update| format!("{} {}", update["sessionUpdate"], update["content"]["text"]))
        .collect();
    let expected = [
        r#""agent_message_chunk" "1""#,
        r#""agent_thought_chunk" "hm""#,
        r#""agent_message_chunk" "2""#,
    ];
    assert_eq!(kinds, expected);
}

#[test]
fn a_retry_is_a_notice_where_the_client_takes_notices() {
    let mut story = Story::new();
    story.tell(reset());
    let out = updates(&story.live(&mut view(everything())));
    assert_eq!(out[0]["sessionUpdate"], "notice");
    assert_eq!(out[0]["severity"], "info");
}

/// Returns the text of a reply, and steps in which an observer sees it: the length of a delta in characters, and its
/// delivery.
fn observations() -> impl Strategy<Value = (String, Vec<(usize, usize)>)> {
    ("[a-zé€😀]{0,30}", prop::collection::vec((1..5_usize, 0..6_usize), 0..20))
}

proptest! {
    #[test]
    fn every_byte_is_shown_once_even_if_deltas_are_lost_or_repeated((text, steps) in observations()) {
        let mut view = view(bare());
        let mut out = Vec::new();
        let (mut before, mut rest) = (String::new(), text.as_str());
        for (chars, delivery) in steps {
            let end = rest.char_indices().nth(chars).map_or(rest.len(), |(index, _)| index);
            let (delta, after) = rest.split_at(end);
            let mut story = Story::new();
            // 0 loses the delta, 1 repeats it, 2 is followed by the open reply; all others deliver it once.
            let times = [0, 2].get(delivery).copied().unwrap_or(1);
            for _ in 0..times {
                story.text_delta("a", before.len() as u64, delta);
            }
            before.push_str(delta);
            rest = after;
            out.extend(story.live(&mut view));
            if delivery == 2 {
                view.open_reply(&open_reply(&before), &mut out);
            }
        }
        let mut story = Story::new();
        story.whole_reply("a", &text, &[]);
        for envelope in &story.events {
            view.on_event(envelope, EventSource::Live, &mut out);
        }
        let screen = Screen::of(&out);
        prop_assert_eq!(screen.text("a"), text.as_str());
        prop_assert!(screen.texts.len() <= 1);
    }
}
