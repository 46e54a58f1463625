//! Editing the prompt in the user's own editor.

use std::{fs, io, io::Write as _, path::Path};

use super::terminal_handover::{release_terminal, take_terminal};
use super::{chat_loop::ChatLoop, questions::ask_again};
use tokio::process::Command;

/// Opens the text of the prompt in the user's editor, and takes it back when the editor ends. The chat waits for it.
pub(super) async fn edit_externally(chat: &mut ChatLoop) {
    let Some(editor) = chat.setup.editor.clone() else {
        return chat.say("set VISUAL or EDITOR to edit the prompt in your editor".to_owned());
    };
    let Some(prompt) = chat.typing.editor() else { return };
    let text = prompt.expanded_text();
    release_terminal(chat).await;
    let edited = edit(&editor, &text).await;
    // An interrupt that was meant for the editor.
    chat.signals.forget_pending();
    take_terminal(chat);
    match edited {
        Ok(edited) => drop(chat.typing.replace(edited.trim_end().to_owned())),
        Err(error) => chat.say(format!("error: {editor} cannot be used: {error}")),
    }
    ask_again(chat);
    chat.show_input();
}

/// Runs an editor on a file with a text, and returns the text afterwards.
async fn edit(editor: &str, text: &str) -> io::Result<String> {
    let mut file = tempfile::Builder::new().prefix("prompt-").suffix(".md").tempfile()?;
    file.write_all(text.as_bytes())?;
    file.flush()?;
    let status = editor_command(editor, file.path()).status().await?;
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
