//! Editing the prompt in the user's own editor.

use std::{fs, future::Future, io, io::Write as _, path::Path, pin::Pin};

use tokio::process::Command;

use super::{
    chat_loop::ChatLoop,
    questions::ask_again,
    terminal_handover::{release_terminal, take_terminal},
};

/// An editor of the user that runs, and has the terminal.
pub(super) struct RunningEditor {
    command: String,
    edited: Pin<Box<dyn Future<Output = io::Result<String>> + Send>>,
}

/// Opens the text of the prompt in the user's editor. Until it ends, the chat reads no keys and draws nothing, while the
/// agent goes on.
pub(super) async fn start_editor(chat: &mut ChatLoop) {
    let Some(command) = chat.setup.editor.clone() else {
        return chat.say("set VISUAL or EDITOR to edit the prompt in your editor".to_owned());
    };
    let Some(prompt) = chat.typing.editor() else { return };
    let text = prompt.expanded_text();
    release_terminal(chat).await;
    let editor = command.clone();
    let edited = Box::pin(async move { edit(&editor, &text).await });
    chat.external_editor = Some(RunningEditor { command, edited });
}

/// Waits for the end of the editor; forever if none runs. Safe to drop at any time.
pub(super) async fn editor_end(editor: &mut Option<RunningEditor>) -> io::Result<String> {
    match editor {
        Some(running) => running.edited.as_mut().await,
        None => std::future::pending().await,
    }
}

/// Takes the terminal back, and the text that the editor has left.
pub(super) fn end_editor(chat: &mut ChatLoop, edited: io::Result<String>) {
    let Some(RunningEditor { command, .. }) = chat.external_editor.take() else { return };
    take_terminal(chat);
    match (edited, chat.typing.editor()) {
        (Ok(edited), Some(prompt)) => prompt.set_edited_text(edited.trim_end()),
        (Ok(_), None) => {}
        (Err(error), _) => chat.say(format!("error: {command} cannot be used: {error}")),
    }
    ask_again(chat);
    chat.show_input();
}

/// Runs an editor on a file with a text, and returns the text afterwards.
async fn edit(editor: &str, text: &str) -> io::Result<String> {
    let mut file = tempfile::Builder::new().prefix("prompt-").suffix(".md").tempfile()?;
    file.write_all(text.as_bytes())?;
    file.flush()?;
    let status = editor_command(editor, file.path()).kill_on_drop(true).status().await?;
    if !status.success() {
        return Err(io::Error::other(format!("it ended with {status}")));
    }
    let bytes = fs::read(file.path())?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Returns the command of an editor, whose setting may have arguments.
#[expect(
    clippy::disallowed_methods,
    reason = "the user's own editor runs with the user's own rights, not as a call of an agent"
)]
fn editor_command(editor: &str, file: &Path) -> Command {
    let mut command = Command::new("sh");
    command.arg("-c").arg(format!("{editor} \"$1\"")).arg("sh").arg(file);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_text_is_what_the_editor_leaves() {
        let editor = "sh -c 'printf \" and more\" >> \"$0\"'";
        assert_eq!(edit(editor, "one").await.unwrap(), "one and more");
    }

    #[tokio::test]
    async fn an_editor_that_fails_leaves_the_text() {
        for editor in ["false", "no-such-editor-here 2>/dev/null"] {
            assert!(edit(editor, "one").await.is_err(), "{editor}");
        }
    }
}
