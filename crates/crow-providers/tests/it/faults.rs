//! Streams that are cut, stalled or corrupted.

use std::{convert::Infallible, time::Duration};

use crow_core::model::{ModelEvent, ModelRequest, ProviderErrorKind, Retry};
use crow_providers::{RetryPolicy, Timeouts};
use crow_testkit::{
    AnswerState, BodyEnd, Fault, ModelServer, ScriptStep, ScriptedReply, SseLineEnd, StreamGate,
    VendorError,
};
use futures_util::StreamExt as _;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};

use crate::support::{DIALECTS, Talk};

fn reply() -> ScriptedReply {
    ScriptedReply::new().thinking("Hm, 🤔.", "signature").text("Grüße, 🐦!").call(
        "call_1",
        "read_file",
        &json!({"path": "ä"}),
    )
}

/// Returns a reply that has text within the first dozen events of every dialect.
fn long_reply() -> ScriptedReply {
    ScriptedReply::new().text("Grüße, 🐦! ".repeat(50))
}

#[tokio::test]
async fn any_legal_framing_of_a_stream_gives_the_same_reply() {
    for dialect in DIALECTS {
        let server = ModelServer::start([reply()]).await;
        let plain = Talk::with(&server, dialect).ask().await.reply.unwrap();
        for faults in [
            vec![Fault::every_byte()],
            vec![Fault::UnknownEvents],
            vec![Fault::Comments, Fault::ByteOrderMark],
            vec![Fault::LineEnds(SseLineEnd::CrLf), Fault::every_byte()],
            vec![Fault::LineEnds(SseLineEnd::Cr), Fault::UnknownEvents],
            vec![Fault::LineEnds(SseLineEnd::Lf), Fault::SplitEach(vec![1, 7, 20])],
        ] {
            let server =
                ModelServer::start([ScriptStep::Faulty { reply: reply(), faults: faults.clone() }])
                    .await;
            let outcome = Talk::with(&server, dialect).ask().await;
            assert_eq!(outcome.retries().len(), 0);
            assert_eq!(outcome.streamed_text(), "Grüße, 🐦!");
            let shaped = outcome.reply.unwrap();
            assert_eq!(
                (shaped.blocks, shaped.stop),
                (plain.blocks.clone(), plain.stop),
                "{faults:?}"
            );
            server.assert_clean();
        }
    }
}

#[tokio::test]
async fn a_stream_that_is_cut_anywhere_is_truncated_and_retried() {
    for dialect in DIALECTS {
        for bytes in (0..900).step_by(29) {
            let cut = reply().with(Fault::CutAt { bytes, ending: BodyEnd::Clean });
            let server = ModelServer::start([cut, ScriptStep::from(reply())]).await;
            let mut talk = Talk::with(&server, dialect);
            let outcome = talk.ask().await;
            if outcome.retries().is_empty() {
                // The end mark came before the cut.
                assert!(bytes > 400, "{dialect:?} cut at {bytes}");
            } else {
                let error = &outcome.retries()[0].error;
                assert_eq!(error.kind, ProviderErrorKind::Truncated, "{dialect:?} cut at {bytes}");
            }
            assert_eq!(outcome.streamed_text(), "Grüße, 🐦!");
            assert_eq!(outcome.reply.unwrap().calls().count(), 1);
            server.assert_clean();
        }
    }
}

#[tokio::test]
async fn a_stream_without_an_end_mark_is_truncated() {
    for dialect in DIALECTS {
        let endless = ScriptedReply::new().text("Hi").with(Fault::WithoutTerminal(BodyEnd::Clean));
        let script = [endless.clone(), endless.clone(), endless];
        let server = ModelServer::start(script).await;
        let outcome = Talk::with(&server, dialect).ask().await;
        assert_eq!(outcome.retries().len(), 2);
        let error = outcome.error();
        assert_eq!(error.kind, ProviderErrorKind::Truncated);
        assert!(error.mid_stream);
        assert_eq!(error.provider, "tested");
        server.assert_clean();
    }
}

#[tokio::test]
async fn a_broken_connection_is_retried_and_its_text_is_discarded() {
    for dialect in DIALECTS {
        for ending in [BodyEnd::Close, BodyEnd::Reset] {
            let broken = reply().with(Fault::EndAfter { events: 4, ending });
            let server = ModelServer::start([broken, ScriptStep::from(reply())]).await;
            let outcome = Talk::with(&server, dialect).ask().await;
            assert_eq!(outcome.retries()[0].error.kind, ProviderErrorKind::Network);
            assert_eq!(outcome.streamed_text(), "Grüße, 🐦!");
            assert!(outcome.reply.is_ok());
            server.assert_clean();
        }
    }
}

#[tokio::test]
async fn an_error_in_the_stream_is_classified_like_any_other() {
    for dialect in DIALECTS {
        for (error, kind, retries) in [
            (VendorError::Overloaded, ProviderErrorKind::Overloaded, 1),
            (VendorError::Server, ProviderErrorKind::Server, 1),
            (VendorError::ContextLength, ProviderErrorKind::ContextLength, 0),
            (VendorError::Quota, ProviderErrorKind::Quota, 0),
        ] {
            let broken = long_reply().with(Fault::ErrorAfter { events: 12, error });
            let server = ModelServer::start([broken, ScriptStep::from(reply())]).await;
            let outcome = Talk::with(&server, dialect).ask().await;
            assert_eq!(outcome.retries().len(), retries, "{dialect:?} {kind:?}");
            if retries == 0 {
                let error = outcome.error();
                assert_eq!((error.kind, error.mid_stream), (kind, true));
                assert!(!error.message.is_empty());
            }
            server.assert_clean();
        }
    }
}

#[tokio::test]
async fn a_stalled_stream_times_out() {
    for dialect in DIALECTS {
        let gate = StreamGate::new();
        let stalled = long_reply().with(Fault::StallAfter { events: 12, gate: gate.clone() });
        let server = ModelServer::start([stalled]).await;
        let timeouts = Timeouts { silence: Duration::from_millis(500), ..Timeouts::default() };
        let base_url = server.base_url(dialect.1);
        let mut talk = Talk::at(&base_url, dialect.0, RetryPolicy::never(), timeouts);
        let error = talk.ask().await.error();
        assert_eq!((error.kind, error.mid_stream), (ProviderErrorKind::Timeout, true));
        assert_eq!(server.wait_for_answer(0).await.state, AnswerState::ClientDisconnected);
        server.assert_clean();
    }
}

#[tokio::test]
async fn a_silent_server_times_out() {
    let silence = ScriptStep::Silence { gate: Some(StreamGate::new()), ending: BodyEnd::Close };
    let server = ModelServer::start([silence]).await;
    let timeouts = Timeouts { silence: Duration::from_millis(50), ..Timeouts::default() };
    let base_url = server.base_url(DIALECTS[0].1);
    let mut talk = Talk::at(&base_url, DIALECTS[0].0, RetryPolicy::never(), timeouts);
    let error = talk.ask().await.error();
    assert_eq!((error.kind, error.mid_stream), (ProviderErrorKind::Timeout, false));
    assert!(error.to_string().contains("did not answer"), "{error}");
    assert!(error.message.starts_with("the server sent nothing for"), "{error}");
    server.assert_clean();
}

#[tokio::test]
async fn a_silent_server_is_reported_and_not_retried() {
    let silence = || ScriptStep::Silence { gate: Some(StreamGate::new()), ending: BodyEnd::Close };
    let server = ModelServer::start([silence(), silence(), silence()]).await;
    let timeouts = Timeouts {
        silence: Duration::from_millis(50),
        notice: Duration::from_millis(10),
        ..Timeouts::default()
    };
    let base_url = server.base_url(DIALECTS[0].1);
    let mut talk = Talk::at(&base_url, DIALECTS[0].0, RetryPolicy::without_waits(3), timeouts);
    let outcome = talk.ask().await;
    assert_eq!(waits(&outcome.events), ["the server sent nothing for 0.01 s"]);
    assert_eq!(outcome.retries(), Vec::<&Retry>::new());
    assert_eq!(outcome.error().kind, ProviderErrorKind::Timeout);
}

#[tokio::test]
async fn keep_alives_without_a_reply_are_reported_and_time_out() {
    let timeouts = Timeouts {
        silence: Duration::from_secs(20),
        progress: Duration::from_millis(300),
        notice: Duration::from_millis(100),
    };
    let comments = DIALECTS.map(|(dialect, _)| (dialect, ": ping\n\n"));
    let event = (DIALECTS[0].0, "event: ping\ndata: {\"type\": \"ping\"}\n\n");
    for (dialect, ping) in comments.into_iter().chain([event]) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
        let retry = RetryPolicy::without_waits(3);
        let mut talk = Talk::at(&base_url, dialect, retry, timeouts);
        let outcome = tokio::select! {
            outcome = talk.ask() => outcome,
            never = send_only(ping, &listener) => match never {},
        };
        let reason = "the server sent keep-alives, but no part of a reply for";
        assert_eq!(waits(&outcome.events), [format!("{reason} 0.1 s")], "{dialect:?}");
        assert_eq!(outcome.retries(), Vec::<&Retry>::new(), "{dialect:?}");
        let error = outcome.error();
        assert_eq!(
            (error.kind, error.message),
            (ProviderErrorKind::Timeout, format!("{reason} 0.3 s"))
        );
    }
}

fn replaced(old: &str, new: impl AsRef<[u8]>) -> Fault {
    Fault::Replaced { old: old.as_bytes().to_vec(), new: new.as_ref().to_vec() }
}

#[tokio::test]
async fn invalid_characters_become_replacement_characters() {
    for dialect in DIALECTS {
        for corrupted in [&b"\xff"[..], br"\ud83d", br"\uDC26", b"\xf0\x9f\x90"] {
            let step = reply().with(replaced("🐦", corrupted));
            let server = ModelServer::start([step]).await;
            let outcome = Talk::with(&server, dialect).ask().await;
            assert_eq!(outcome.retries(), Vec::<&Retry>::new(), "{dialect:?} {corrupted:?}");
            assert_eq!(outcome.streamed_text(), "Grüße, \u{fffd}!", "{dialect:?} {corrupted:?}");
            assert_eq!(outcome.reply.unwrap().calls().count(), 1);
            server.assert_clean();
        }
    }
}

#[tokio::test]
async fn a_reply_with_an_unreadable_event_is_retried_once() {
    let broken = || reply().with(replaced("🐦", "\""));
    for dialect in DIALECTS {
        let server = ModelServer::start([broken(), ScriptStep::from(reply())]).await;
        let outcome = Talk::with(&server, dialect).ask().await;
        assert_eq!(outcome.retries()[0].error.kind, ProviderErrorKind::Decode, "{dialect:?}");
        assert_eq!(outcome.streamed_text(), "Grüße, 🐦!");
        assert!(outcome.reply.is_ok());
        server.assert_clean();

        let server = ModelServer::start([broken(), broken()]).await;
        let outcome = Talk::with(&server, dialect).ask().await;
        assert_eq!(outcome.retries().len(), 1, "{dialect:?}");
        assert_eq!(outcome.error().kind, ProviderErrorKind::Decode);
        server.assert_clean();
    }
}

#[tokio::test]
async fn an_unreadable_token_count_is_zero() {
    const INPUT: [&str; 4] = ["input_tokens", "promptTokenCount", "input_tokens", "prompt_tokens"];
    for (dialect, input) in DIALECTS.into_iter().zip(INPUT) {
        for value in ["-1", "\"many\"", "[]", "1.5"] {
            let name = format!("\"{input}\":");
            let step = reply().with(replaced(&name, format!("{name}{value},\"spoiled\":")));
            let server = ModelServer::start([step]).await;
            let outcome = Talk::with(&server, dialect).ask().await;
            assert_eq!(outcome.retries(), Vec::<&Retry>::new(), "{dialect:?} {value}");
            let usage = outcome.reply.unwrap().usage;
            assert_eq!((usage.input_tokens, usage.output_tokens), (0, 20), "{dialect:?} {value}");
            server.assert_clean();
        }
    }
}

fn waits(events: &[ModelEvent]) -> Vec<String> {
    let reason = |event: &ModelEvent| match event {
        ModelEvent::Waiting(wait) => Some(wait.reason.clone()),
        ModelEvent::TextDelta(_)
        | ModelEvent::ThinkingDelta(_)
        | ModelEvent::CallStarted { .. }
        | ModelEvent::Accepted { .. }
        | ModelEvent::Retrying(_)
        | ModelEvent::Warning(_)
        | ModelEvent::Completed(_) => None,
    };
    events.iter().filter_map(reason).collect()
}

/// Serves connections that send nothing but `ping`, until the client leaves.
async fn send_only(ping: &'static str, listener: &TcpListener) -> Infallible {
    loop {
        let (mut stream, _) = listener.accept().await.unwrap();
        assert!(stream.read(&mut [0; 4096]).await.unwrap() > 0);
        let head =
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut ticks = tokio::time::interval(Duration::from_millis(5));
        while stream.write_all(ping.as_bytes()).await.is_ok() {
            ticks.tick().await;
        }
    }
}

#[tokio::test]
async fn dropping_the_stream_ends_the_request() {
    let gate = StreamGate::new();
    let stalled = long_reply().with(Fault::StallAfter { events: 12, gate: gate.clone() });
    let server = ModelServer::start([stalled]).await;
    let mut talk = Talk::with(&server, DIALECTS[0]);
    let mut stream = talk.conversation.stream(ModelRequest {
        system: &talk.system,
        tools: &talk.tools,
        messages: &talk.messages,
        config: &talk.config,
        tool_choice: talk.tool_choice,
    });
    assert!(stream.next().await.is_some());
    drop(stream);
    assert_eq!(server.wait_for_answer(0).await.state, AnswerState::ClientDisconnected);
    server.assert_clean();
}

#[tokio::test]
async fn a_server_that_never_closes_the_body_does_not_delay_the_reply() {
    let gate = StreamGate::new();
    let open =
        ScriptedReply::new().text("Hi").with(Fault::StallAfter { events: 100, gate: gate.clone() });
    let server = ModelServer::start([open]).await;
    let reply = Talk::with(&server, DIALECTS[0]).ask().await.reply;
    assert!(reply.is_ok());
    server.assert_clean();
}
