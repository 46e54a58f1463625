//! The recording of a small task in the book, and the pictures of the chat that are made from its last screen.

use crow_testkit::{ModelServer, WireDialect};

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
    // The status line is read beside the chat.
    terminal
        .wait_for("the cost of the run and the keys of the prompt", |screen| {
            screen.matches("$0.0020").count() == 2 && screen.contains("/ commands")
        })
        .await;
    let recording = std::fs::read_to_string(&recording).unwrap();
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
    assert!(stored == fresh, "the recording is not up to date; {}", how_to_update());
}
