//! Taking the terminal for the chat, and giving it back to the shell or to another program.

use std::time::Duration;

use crow_console::SignalAction;
use rustix::process::{Signal, kill_current_process_group};
use tokio::time::timeout;

use super::{
    attention::restored_title,
    chat_loop::ChatLoop,
    chat_setup::ChatEnd,
    full_screen_views::{close_view, redraw_view},
    questions::ask_again,
};

/// Time the last output may take to reach the screen.
const LAST_OUTPUT: Duration = Duration::from_secs(1);
/// Time the process may take to stop after ctrl-z.
const STOP_WAIT: Duration = Duration::from_millis(200);

/// Sets the modes of the terminal and draws the screen anew.
pub(super) fn take_terminal(chat: &mut ChatLoop) {
    chat.modes.set_keys();
    let sequences = chat.modes.start_sequences();
    chat.screen.push_action(move |screen| {
        screen.send_sequences(&sequences)?;
        screen.redraw()
    });
    redraw_view(chat);
    chat.show_input();
}

/// Gives the terminal back, with its original modes. Nothing is drawn until it is taken again.
pub(super) async fn release_terminal(chat: &mut ChatLoop) {
    let sequences = restored_title(chat).to_owned() + &chat.modes.end_sequences();
    chat.screen.push_action(move |screen| {
        screen.pause()?;
        screen.send_sequences(&sequences)
    });
    // A terminal that accepts no output must not stop the chat.
    let _ = timeout(LAST_OUTPUT, chat.screen.wait_until_shown()).await;
    chat.modes.restore();
}

/// Stops the process on ctrl-z, and shows input and question again when it continues.
pub(super) async fn suspend(chat: &mut ChatLoop) {
    close_view(chat);
    chat.say("stopped; fg resumes".to_owned());
    release_terminal(chat).await;
    let _ = kill_current_process_group(Signal::TSTP);
    // The stop may be delivered a moment later. A process in an orphaned process group, which nobody could
    // continue, is not stopped at all.
    if timeout(STOP_WAIT, chat.signals.next()).await == Ok(SignalAction::End) {
        chat.end = Some(ChatEnd::Interrupted);
        return;
    }
    take_terminal(chat);
    ask_again(chat);
}
