//! The pictures of the chat in the README and the book: the screen of a real terminal at the end of a small task.

use crow_testkit::{ModelServer, WireDialect};

use crate::{
    book::fix_total,
    book_page::assert_document,
    config::write_user_config,
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
    let args = ["-p", "accept-edits"];
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
    let pictures = terminal.with_screen(|screen| {
        [("light", &LIGHT), ("dark", &DARK)]
            .map(|(name, palette)| (name, svg(screen, palette, TITLE)))
    });
    for (name, picture) in pictures {
        assert_document(&format!("docs/book/src/pictures/chat-{name}.svg"), &picture);
    }
    terminal.type_keys("/quit\r");
    terminal.wait_for_exit(0).await;
    server.finish().await.unwrap();
}
