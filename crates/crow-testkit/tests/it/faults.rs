//! Tests of the faults.

use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use crow_testkit::wire::{WireOptions, frames};
use crow_testkit::{
    AnswerState, BodyChunk, BodyEnd, Fault, ModelServer, ScriptStep, ScriptedReply, SseLineEnd,
    StreamGate, VendorError, WireDialect,
};
use serde_json::json;

use crate::bodies::first_request;
use crate::client::{Client, End, Response, events};

const DIALECT: WireDialect = WireDialect::AnthropicMessages;

fn reply() -> ScriptedReply {
    ScriptedReply::new().text("Straße 日本 done")
}

/// Returns the frames of [`reply`] as the server renders them for the first request.
fn rendered(dialect: WireDialect) -> Vec<Vec<u8>> {
    frames(&reply(), dialect, &WireOptions::default()).iter().map(|frame| frame.to_vec()).collect()
}

/// Returns the positions in the body at which chunks end.
fn ends(chunks: &[Vec<u8>]) -> Vec<usize> {
    let mut end = 0;
    chunks
        .iter()
        .map(|chunk| {
            end += chunk.len();
            end
        })
        .collect()
}

async fn ask(dialect: WireDialect, step: ScriptStep) -> Response {
    let server = ModelServer::start([step]).await;
    let response = Client::connect(&server).await.ask(dialect, &first_request(dialect, "A")).await;
    server.assert_clean();
    response
}

#[tokio::test]
async fn a_reply_without_faults_has_one_event_per_chunk() {
    for dialect in WireDialect::ALL {
        let response = ask(dialect, reply().into()).await;
        assert_eq!((response.end, &response.chunks), (End::Complete, &rendered(dialect)));
    }
}

#[tokio::test]
async fn a_cut_ends_after_the_given_bytes_in_each_way() {
    let expected = &rendered(DIALECT).concat()[..333];
    for (ending, end) in [
        (BodyEnd::Clean, End::Complete),
        (BodyEnd::Close, End::Closed),
        (BodyEnd::Reset, End::Reset),
    ] {
        let response = ask(DIALECT, reply().with(Fault::CutAt { bytes: 333, ending })).await;
        assert_eq!(response.end, end);
        assert_eq!(response.bytes(), expected);
    }
}

#[tokio::test]
async fn a_cut_at_zero_sends_the_head_and_nothing_else() {
    let cut = Fault::CutAt { bytes: 0, ending: BodyEnd::Clean };
    let response = ask(DIALECT, reply().with(cut)).await;
    assert_eq!((response.status, response.bytes()), (200, Vec::new()));
}

#[tokio::test]
async fn gates_after_a_cut_are_removed() {
    let stall = Fault::StallAfter { events: 3, gate: StreamGate::new() };
    let cut = Fault::CutAt { bytes: 100, ending: BodyEnd::Close };
    let response = ask(DIALECT, reply().with(stall).with(cut)).await;
    assert_eq!((response.bytes().len(), response.end), (100, End::Closed));
}

#[tokio::test]
async fn an_end_after_events_keeps_whole_events() {
    let fault = Fault::EndAfter { events: 3, ending: BodyEnd::Close };
    let response = ask(DIALECT, reply().with(fault)).await;
    assert_eq!((response.end, response.chunks.as_slice()), (End::Closed, &rendered(DIALECT)[..3]));
}

#[tokio::test]
async fn without_terminal_omits_the_events_that_complete_the_reply() {
    let words = [
        (WireDialect::AnthropicMessages, "stop_reason\":\"end_turn"),
        (WireDialect::OpenAiResponses, "response.completed"),
        (WireDialect::OpenAiChat, "finish_reason\":\"stop"),
        (WireDialect::Gemini, "finishReason"),
    ];
    for (dialect, word) in words {
        let full = ask(dialect, reply().into()).await.text();
        let cut = ask(dialect, reply().with(Fault::WithoutTerminal(BodyEnd::Clean))).await;
        assert_eq!(cut.end, End::Complete);
        assert!(full.contains(word) && !cut.text().contains(word), "{dialect:?}");
        assert!(cut.text().contains("done"), "{dialect:?}: all deltas are there");
    }
}

#[tokio::test]
async fn splitting_every_byte_keeps_the_body() {
    for dialect in WireDialect::ALL {
        let response = ask(dialect, reply().with(Fault::every_byte())).await;
        assert!(response.chunks.iter().all(|chunk| chunk.len() == 1));
        assert_eq!(response.bytes(), rendered(dialect).concat());
    }
}

#[tokio::test]
async fn a_body_is_split_at_given_positions_inside_characters_and_event_ends() {
    let body = rendered(DIALECT).concat();
    let inside_sharp_s = body.windows(2).position(|pair| pair == "ß".as_bytes()).unwrap() + 1;
    let inside_end = body.windows(2).position(|pair| pair == b"\n\n").unwrap() + 1;
    let positions = vec![inside_sharp_s, inside_end, inside_end, 0, 1_000_000];
    let response = ask(DIALECT, reply().with(Fault::SplitAt(positions))).await;
    assert_eq!(response.bytes(), body);
    assert_eq!(response.chunks.len(), rendered(DIALECT).len() + 2);
    let ends = ends(&response.chunks);
    assert!(ends.contains(&inside_sharp_s) && ends.contains(&inside_end));
}

#[tokio::test]
async fn each_event_is_split_at_positions_of_its_own() {
    let response = ask(DIALECT, reply().with(Fault::SplitEach(vec![1, 9]))).await;
    let expected: Vec<Vec<u8>> = rendered(DIALECT)
        .into_iter()
        .flat_map(|frame| [frame[..1].to_vec(), frame[1..9].to_vec(), frame[9..].to_vec()])
        .collect();
    assert_eq!(response.chunks, expected);
}

#[tokio::test]
async fn pieces_of_a_size_are_counted_through_the_body() {
    let size = NonZeroUsize::new(100).unwrap();
    let response = ask(DIALECT, reply().with(Fault::SplitEvery(size))).await;
    assert_eq!(response.bytes(), rendered(DIALECT).concat());
    let total = rendered(DIALECT).concat().len();
    let mut expected = ends(&rendered(DIALECT));
    expected.extend((1..=total / 100).map(|count| count * 100));
    expected.sort_unstable();
    expected.dedup();
    assert_eq!(ends(&response.chunks), expected);
}

#[tokio::test]
async fn unknown_events_and_comments_follow_all_events_but_the_last() {
    for dialect in WireDialect::ALL {
        let response = ask(dialect, reply().with(Fault::UnknownEvents).with(Fault::Comments)).await;
        let text = response.text();
        let count = rendered(dialect).len();
        assert!(text.contains("nheard_of") || text.contains("nheardOf"));
        assert_eq!(events(&text).len(), 2 * count - 1, "{dialect:?}");
        assert_eq!(text.matches(": keep-alive\n\n").count(), 2 * count - 2, "{dialect:?}");
        assert_eq!(response.chunks.last(), rendered(dialect).last());
    }
}

#[tokio::test]
async fn line_ends_are_replaced_everywhere() {
    for dialect in WireDialect::ALL {
        for (end, text) in
            [(SseLineEnd::Lf, "\n"), (SseLineEnd::CrLf, "\r\n"), (SseLineEnd::Cr, "\r")]
        {
            let response = ask(dialect, reply().with(Fault::LineEnds(end))).await;
            let expected = String::from_utf8(rendered(dialect).concat())
                .unwrap()
                .replace("\r\n", "\n")
                .replace('\n', text);
            assert_eq!(response.text(), expected);
        }
    }
}

#[tokio::test]
async fn a_byte_order_mark_comes_first() {
    let response = ask(DIALECT, reply().with(Fault::ByteOrderMark)).await;
    assert!(response.text().starts_with("\u{feff}event: message_start"));
}

#[tokio::test]
async fn an_error_in_the_middle_has_each_vendors_form() {
    for (dialect, kind, pointer) in [
        (WireDialect::AnthropicMessages, "overloaded_error", "/error/type"),
        (WireDialect::OpenAiResponses, "server_is_overloaded", "/response/error/code"),
        (WireDialect::OpenAiChat, "server_is_overloaded", "/error/code"),
        (WireDialect::Gemini, "UNAVAILABLE", "/error/status"),
    ] {
        let fault = Fault::ErrorAfter { events: 4, error: VendorError::Overloaded };
        let response = ask(dialect, reply().with(fault)).await;
        assert_eq!(response.end, End::Complete);
        assert_eq!(response.chunks[..4], rendered(dialect)[..4]);
        let events = response.events();
        assert_eq!(events.len(), 5);
        assert_eq!(events[4].data.pointer(pointer), Some(&json!(kind)), "{dialect:?}");
    }
}

#[tokio::test]
async fn responses_have_a_second_form_of_an_error_in_the_middle() {
    let fault = Fault::ErrorEventAfter { events: 4, error: VendorError::Overloaded };
    let dialect = WireDialect::OpenAiResponses;
    let events = ask(dialect, reply().with(fault)).await.events();
    assert_eq!(events[4].name.as_deref(), Some("error"));
    assert_eq!(events[4].data["code"], "server_is_overloaded");
    assert_eq!(events[4].data["sequence_number"], 4);
}

#[tokio::test]
async fn a_gate_lets_chunk_after_chunk_pass() {
    let gate = StreamGate::new();
    let server = ModelServer::start([reply().with(Fault::Gated(gate.clone()))]).await;
    let mut client = Client::connect(&server).await;
    client.send(DIALECT, &first_request(DIALECT, "A")).await;
    assert_eq!(client.head().await.0, 200);
    assert!(client.is_silent().await);
    let frames = rendered(DIALECT);
    gate.release(1);
    assert_eq!(client.chunk().await.unwrap().unwrap(), frames[0]);
    gate.wait_for_arrival(2).await;
    assert!(client.is_silent().await);
    gate.release(2);
    assert_eq!(client.chunk().await.unwrap().unwrap(), frames[1]);
    assert_eq!(client.chunk().await.unwrap().unwrap(), frames[2]);
    gate.open();
    for frame in &frames[3..] {
        assert_eq!(&client.chunk().await.unwrap().unwrap(), frame);
    }
    assert_eq!(client.chunk().await, Ok(None));
    server.assert_clean();
}

#[tokio::test]
async fn a_stall_holds_until_it_is_released() {
    let gate = StreamGate::new();
    let stall = Fault::StallAfter { events: 2, gate: gate.clone() };
    let server = ModelServer::start([reply().with(stall).with(Fault::UnknownEvents)]).await;
    let mut client = Client::connect(&server).await;
    client.send(DIALECT, &first_request(DIALECT, "A")).await;
    gate.wait_for_arrival(1).await;
    client.head().await;
    let mut seen = Vec::new();
    while !client.is_silent().await {
        seen.push(client.chunk().await.unwrap().unwrap());
    }
    assert_eq!(seen.len(), 4, "two events and what follows each");
    assert_eq!(server.answer(0).unwrap().state, AnswerState::Open);
    gate.open();
    while client.chunk().await.unwrap().is_some() {}
    assert_eq!(server.wait_for_answer(0).await.state, AnswerState::Sent);
    server.assert_clean();
}

#[tokio::test]
async fn a_stall_ends_when_the_client_leaves() {
    let stall = Fault::StallAfter { events: 2, gate: StreamGate::new() };
    let server = ModelServer::start([reply().with(stall)]).await;
    let mut client = Client::connect(&server).await;
    client.send(DIALECT, &first_request(DIALECT, "A")).await;
    client.head().await;
    drop(client);
    assert_eq!(server.wait_for_answer(0).await.state, AnswerState::ClientDisconnected);
    server.assert_clean();
}

#[tokio::test]
async fn delays_come_before_each_chunk() {
    let before = Instant::now();
    let wait = Duration::from_millis(3);
    let response = ask(DIALECT, reply().with(Fault::Delayed(wait))).await;
    assert!(before.elapsed() >= wait * u32::try_from(response.chunks.len()).unwrap());
}

#[tokio::test]
async fn silence_ends_without_a_byte() {
    for (ending, end) in
        [(BodyEnd::Clean, End::Closed), (BodyEnd::Close, End::Closed), (BodyEnd::Reset, End::Reset)]
    {
        let server = ModelServer::start([ScriptStep::Silence { gate: None, ending }]).await;
        let mut client = Client::connect(&server).await;
        client.send(DIALECT, &first_request(DIALECT, "A")).await;
        assert_eq!(client.end().await, end);
        let answer = server.wait_for_answer(0).await;
        assert_eq!((answer.state, answer.began_at), (AnswerState::Sent, None));
        server.assert_clean();
    }
}

#[tokio::test]
async fn raw_chunks_are_sent_as_they_are() {
    let chunks = vec![
        BodyChunk::data("data: {\"a\""),
        BodyChunk::Delay(Duration::from_millis(1)),
        BodyChunk::data(""),
        BodyChunk::data(":1}\n\n"),
        BodyChunk::End(BodyEnd::Close),
        BodyChunk::data("never"),
    ];
    let response = ask(DIALECT, ScriptStep::Raw(chunks)).await;
    assert_eq!((response.status, response.end), (200, End::Closed));
    assert_eq!(response.text(), "data: {\"a\":1}\n\n");
}

#[tokio::test]
async fn faults_have_the_same_effect_in_any_order() {
    let faults = [
        Fault::CutAt { bytes: 500, ending: BodyEnd::Close },
        Fault::every_byte(),
        Fault::LineEnds(SseLineEnd::CrLf),
        Fault::Comments,
    ];
    let forward = faults.iter().cloned().fold(ScriptStep::from(reply()), ScriptStep::with);
    let backward = faults.iter().rev().cloned().fold(ScriptStep::from(reply()), ScriptStep::with);
    let (forward, backward) = (ask(DIALECT, forward).await, ask(DIALECT, backward).await);
    assert_eq!(forward.chunks, backward.chunks);
    assert_eq!((forward.chunks.len(), forward.end), (500, End::Closed));
    assert!(forward.text().contains("\r\n: keep-alive\r\n\r\n"));
}
