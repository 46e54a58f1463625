//! Commands of the chat that concern the terminal: the theme, the clipboard and the keys.

use std::sync::Arc;

use crow_core::event::AgentEvent;
use crow_runtime::{AgentHost, OptionKind};
use tokio::task::spawn_blocking;

use super::{
    attention::ask_background,
    chat_commands::show_error,
    chat_loop::{ChatLoop, TaskResult},
    chat_screen::screen_size,
};
use crate::{shortcut_help::key_help, terminal_control::copy_sequence, theme_choice::ThemeChoice};

/// Permission modes that shift-tab goes through. One that permits everything has to be named.
const CYCLED_MODES: [&str; 3] = ["read-only", "ask", "accept-edits"];

/// Shows or sets the theme of this chat.
pub(super) fn run_theme(chat: &mut ChatLoop, argument: &str) {
    if argument.is_empty() {
        let names = ThemeChoice::NAMES.map(|(_, name)| name).join(", ");
        return chat.say(format!(
            "themes: {names}\n`crow-agent config set terminal.theme NAME` keeps one"
        ));
    }
    match argument.parse::<ThemeChoice>() {
        Ok(choice) if chat.is_coloured => {
            let theme = chat.attention.choose_theme(choice);
            chat.screen.push_action(move |screen| screen.set_theme(theme));
            ask_background(chat);
            chat.say(format!("theme: {argument}"));
        }
        Ok(_) => chat.say("this terminal shows no colours".to_owned()),
        Err(error) => chat.say(format!("error: {error}")),
    }
}

/// Lists the keys of the chat.
pub(super) fn show_keys(chat: &mut ChatLoop) {
    let columns = screen_size().map_or(chat.setup.columns, |size| size.columns);
    let rows = key_help(chat.keys, columns.saturating_sub(1));
    let rows: Vec<String> = rows.iter().map(|row| row.text().trim_end().to_owned()).collect();
    chat.say(rows.join("\n"));
}

/// Copies a reply of the agent to the clipboard: by default the last one, 2 is the one before.
pub(super) fn copy_reply(chat: &mut ChatLoop, argument: &str) {
    let number: usize = match argument {
        "" => 1,
        text => match text.parse() {
            Ok(number @ 1..) => number,
            Ok(0) | Err(_) => {
                return chat.say("error: /copy takes a number from 1 on".to_owned());
            }
        },
    };
    let (store, id) = (Arc::clone(&chat.store), chat.handle.session_id().clone());
    chat.start_task(Box::pin(async move {
        let stored = spawn_blocking(move || store.read(&id)).await;
        let result: TaskResult = Box::new(move |chat| {
            let Ok(Ok(stored)) = stored else {
                chat.say("error: the session cannot be read".to_owned());
                return Ok(());
            };
            let replies = stored.events.iter().filter(|event| event.is_root());
            let replies = replies.filter_map(|envelope| match &envelope.event {
                AgentEvent::Reply { blocks, .. } => Some(crow_console::text_of(blocks)),
                _ => None,
            });
            let mut replies: Vec<String> = replies.filter(|text| !text.trim().is_empty()).collect();
            replies.reverse();
            match replies.into_iter().nth(number - 1) {
                Some(text) => copy(chat, &text),
                None => chat.say("there is no such reply".to_owned()),
            }
            Ok(())
        });
        result
    }));
}

fn copy(chat: &mut ChatLoop, text: &str) {
    match copy_sequence(text, chat.attention.multiplexer()) {
        Ok(sequence) => {
            chat.screen.push_action(move |screen| screen.send_sequences(&sequence));
            let characters = text.chars().count();
            chat.say_dimly(format!("{characters} characters were sent to the clipboard"));
        }
        Err(error) => chat.say(format!("error: {error}")),
    }
}

/// Changes to the next permission mode.
pub(super) fn cycle_permissions(chat: &mut ChatLoop) {
    let (host, id) = (Arc::clone(&chat.host), chat.handle.session_id().clone());
    if chat.has_task() {
        return chat.say_dimly("a command is running; the mode is as before".to_owned());
    }
    chat.start_task(Box::pin(async move {
        let changed = next_mode(&*host, &id).await;
        let result: TaskResult = Box::new(move |chat| {
            match changed {
                Ok(Some(mode)) => chat.say_dimly(format!("permissions: {mode}")),
                Ok(None) => {}
                Err(error) => show_error(chat, error),
            }
            chat.is_status_due = true;
            Ok(())
        });
        result
    }));
}

/// Sets the permission mode after the current one, and returns it. `None` if the session has no modes.
async fn next_mode(
    host: &dyn AgentHost,
    id: &crow_core::ids::SessionId,
) -> Result<Option<&'static str>, crow_runtime::HostError> {
    let options = host.options(id).await?;
    let Some(option) = options.iter().find(|option| option.kind == OptionKind::Permissions) else {
        return Ok(None);
    };
    let position = CYCLED_MODES.iter().position(|mode| *mode == option.value);
    let next = position.map_or(0, |position| (position + 1) % CYCLED_MODES.len());
    // From a mode that is not in the cycle, the careful one comes next.
    let mode =
        if position.is_none() { "ask" } else { CYCLED_MODES.get(next).copied().unwrap_or("ask") };
    host.set_option(id, option.name, mode).await?;
    Ok(Some(mode))
}
