//! The recording of a small task in the book, and the pictures of the chat that are made from its last screen.

use crow_testkit::{ModelServer, WireDialect, wait_until};

use crate::{
    book::fix_total,
    book_page::{assert_document, document, how_to_update, is_update},
    config::write_user_config,
    inline_chat::replay,
    program::Fixture,
    screen_picture::{DARK, LIGHT, svg},
    terminal::Terminal,
};

const COLUMNS: u16 = 92;
const TITLE: &str = "A chat with crow-agent: it finds a bug, asks before it runs the check, fixes the bug, and the check passes";

#[tokio::test]
async fn the_pictures_of_the_book_show_the_chat() {
    let server = ModelServer::start(fix_total()).await;
    let fixture = Fixture::with_tally().with_server(&server, WireDialect::AnthropicMessages);
    write_user_config(&fixture, "config.toml", "[checks]\ncommands = [\"sh check.sh\"]\n");
    let recording = fixture.home("chat.cast");
    let args = ["-p", "accept-edits", "--record", recording.to_str().unwrap()];
    let mut terminal = Terminal::start(&fixture, &args, COLUMNS, "xterm-256color");
    terminal.wait_for_prompt("").await;
    terminal.type_keys("sh check.sh fails. Find out why and fix it.\r");
    terminal.wait_for_question().await;
    terminal.type_keys("a\r");
    terminal.wait_for_run_end("counts it now").await.wait_for_prompt("").await;
    // The status line is read beside the chat, and a frame is recorded after it is shown.
    let has_ended = |recording: &str| {
        let screen = replay(recording).screen().contents();
        screen.matches("$0.0020").count() == 2 && screen.contains("/ commands")
    };
    let read = || std::fs::read_to_string(&recording).unwrap();
    wait_until(|| has_ended(&read())).await;
    let recording = read();
    assert_recording(&recording);
    for (name, palette) in [("light", &LIGHT), ("dark", &DARK)] {
        let picture = svg(replay(&recording).screen(), palette, TITLE);
        assert_document(&format!("docs/book/src/pictures/chat-{name}.svg"), &picture);
    }
    terminal.type_keys("/quit\r");
    terminal.wait_for_exit(0).await;
    server.finish().await.unwrap();
}

/// Asserts that the recording in the book ends with the same screen. Its times differ from run to run.
fn assert_recording(fresh: &str) {
    let path = document("docs/book/src/pictures/chat.cast");
    if is_update() {
        std::fs::write(&path, fresh).unwrap();
        return;
    }
    let stored = std::fs::read_to_string(&path).unwrap();
    // Pictures show none of the times.
    let [stored, fresh] = [&stored, fresh].map(|text| svg(replay(text).screen(), &LIGHT, TITLE));
    let diff = similar::TextDiff::from_lines(&stored, &fresh);
    let diff = diff.unified_diff().context_radius(0).to_string();
    assert!(stored == fresh, "the recording is not up to date; {}\n{diff}", how_to_update());
}
