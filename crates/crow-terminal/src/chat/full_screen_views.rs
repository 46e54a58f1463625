//! Views of the chat that take the whole screen: the transcript, the changes of the session, and lists to choose from.
//!
//! While a view is open, keys go to it and the inline screen gathers finished lines, which are printed when it is closed.

use std::{path::PathBuf, sync::Arc};

use crow_core::{
    event::{AgentEvent, Envelope, InputSource},
    message::Block,
    tool::Patch,
};
use crow_runtime::{
    HostError, RestorePoint, SessionFilter, SessionMetadata, SessionOption, UndoError,
    UnusedSessions,
};
use crow_text::one_line;
use tokio::task::spawn_blocking;

use super::{
    ChatError,
    attention::on_report,
    chat_commands::{
        SessionTarget, run_host_command, run_host_command_then, show_error, switch_session,
    },
    chat_loop::{ChatLoop, TaskResult},
    chat_screen::{ChatScreen, screen_size},
    greeting::shorten,
    pasted_images::put_back_blocks,
};
use crate::{
    full_screen::{
        DiffView, FullScreenView, ListItem, ListPicker, Pager, PagerSection, ViewEffect,
    },
    keys::{InputEvent, Key, KeyCode, KeyModifiers},
    screen_size::ScreenSize,
    styled_text::{StyledLine, TextRole},
};

/// Maximum number of sessions in the list.
const MOST_SESSIONS: usize = 1000;
/// Length of the excerpt of a prompt in a list, in characters.
const PROMPT_EXCERPT: usize = 200;

/// Length of the excerpt of an input in the title of its section, in characters.
const TITLE_EXCERPT: usize = 60;

/// Action of the chat for the number of the chosen entry.
type ChoiceAction = Box<dyn FnOnce(&mut ChatLoop, usize) -> Result<(), ChatError> + Send>;

/// A view that is open.
pub(super) struct OpenView {
    view: Box<dyn FullScreenView>,
    on_choice: Option<ChoiceAction>,
    /// The size for which it was drawn last.
    size: Option<ScreenSize>,
}

/// Opens a view. `on_choice` gets the number of the entry that is chosen in it.
fn open_view(chat: &mut ChatLoop, view: Box<dyn FullScreenView>, on_choice: Option<ChoiceAction>) {
    chat.view = Some(OpenView { view, on_choice, size: None });
    chat.modes.set_full_screen(true);
    draw_view(chat);
}

/// Draws the open view.
fn draw_view(chat: &mut ChatLoop) {
    let (Some(open), Some(size)) = (&mut chat.view, screen_size()) else { return };
    open.size = Some(size);
    let frame = open.view.frame(size);
    chat.screen.push_replaceable(move |screen| screen.paint_view(&frame, size));
}

/// Draws the open view anew: other programs may have written to the terminal.
pub(super) fn redraw_view(chat: &mut ChatLoop) {
    if chat.view.is_some() {
        chat.screen.push_action(|screen| {
            screen.forget_view();
            Ok(())
        });
        draw_view(chat);
    }
}

/// Draws the open view if the terminal has another size.
pub(super) fn on_view_tick(chat: &mut ChatLoop) {
    if chat.view.as_ref().is_some_and(|open| open.size != screen_size()) {
        draw_view(chat);
    }
}

/// Closes the open view.
pub(super) fn close_view(chat: &mut ChatLoop) {
    if chat.view.take().is_some() {
        chat.modes.set_full_screen(false);
        chat.screen.push_action(ChatScreen::leave_view);
        chat.show_input();
    }
}

/// Passes input to the open view.
///
/// # Errors
/// Fails if the choice cannot be carried out because the chat has to end.
pub(super) fn on_view_event(chat: &mut ChatLoop, event: InputEvent) -> Result<(), ChatError> {
    on_report(chat, &event);
    let Some(open) = &mut chat.view else { return Ok(()) };
    let effect = match event {
        InputEvent::Key(key) if is_interrupt(key) => ViewEffect::Close,
        InputEvent::Key(key) => open.view.on_key(key),
        InputEvent::Paste(text) => {
            open.view.on_paste(&text);
            ViewEffect::Redraw
        }
        InputEvent::FocusGained
        | InputEvent::FocusLost
        | InputEvent::Reply(_)
        | InputEvent::Unknown => ViewEffect::None,
    };
    match effect {
        ViewEffect::None => {}
        ViewEffect::Redraw => draw_view(chat),
        ViewEffect::Close => close_view(chat),
        ViewEffect::Chosen(number) => {
            let on_choice = open.on_choice.take();
            close_view(chat);
            if let Some(on_choice) = on_choice {
                return on_choice(chat, number);
            }
        }
    }
    Ok(())
}

/// Opens the transcript of the session at its end.
pub(super) fn open_transcript(chat: &mut ChatLoop) {
    let read_pager = |events: Vec<Envelope>| {
        let mut pager = Pager::new("transcript", transcript_sections(&events));
        if let Some(size) = screen_size() {
            // The end is known once the rows are.
            pager.frame(size);
        }
        pager.on_key(Key::plain(KeyCode::End));
        pager
    };
    with_stored_events(chat, read_pager, |chat, pager| open_view(chat, Box::new(pager), None));
}

/// Opens the changes of the session.
pub(super) fn open_changes(chat: &mut ChatLoop) {
    let handle = chat.handle.clone();
    chat.start_task(Box::pin(async move {
        let read = spawn_blocking(move || -> Result<(Patch, PathBuf), UndoError> {
            let journal = handle.undo_journal()?;
            let patch = journal.diff(&RestorePoint::Start, &RestorePoint::End)?;
            Ok((patch, journal.root().to_path_buf()))
        });
        let read = read.await;
        let result: TaskResult = Box::new(move |chat| {
            match read {
                Ok(Ok((patch, _))) if patch.files.is_empty() => {
                    chat.say("nothing changed".to_owned());
                }
                Ok(Ok((mut patch, root))) => {
                    for file in &mut patch.files {
                        if let Ok(below) = file.path.strip_prefix(&root) {
                            file.path = below.to_path_buf();
                        }
                    }
                    let view = DiffView::new("changes of this session", patch);
                    open_view(chat, Box::new(view), None);
                }
                Ok(Err(error)) => chat.say(format!("error: {error}")),
                Err(error) => chat.say(format!("error: {error}")),
            }
            Ok(())
        });
        result
    }));
}

/// Opens the list of the sessions of this directory; the chosen one is continued.
pub(super) fn open_sessions(chat: &mut ChatLoop) {
    let host = Arc::clone(&chat.host);
    let current = chat.handle.session_id().clone();
    let filter = SessionFilter {
        cwd: Some(chat.handle.metadata().crow().cwd),
        limit: Some(MOST_SESSIONS),
        after: None,
        unused: UnusedSessions::LeftOut,
    };
    chat.start_task(Box::pin(async move {
        let sessions = host.list(filter).await;
        let result: TaskResult = Box::new(move |chat| {
            let sessions = match sessions {
                Ok(sessions) => sessions,
                Err(error) => {
                    show_error(chat, error);
                    return Ok(());
                }
            };
            let items = sessions.iter().map(session_item).collect();
            let position = sessions.iter().position(|session| session.session_id == current);
            let picker = ListPicker::new("continue a session", "sessions", items)
                .with_selected(position.unwrap_or(0));
            let choose: ChoiceAction = Box::new(move |chat, number| {
                if let Some(session) = sessions.get(number) {
                    let id = session.session_id.as_str().to_owned();
                    switch_session(chat, SessionTarget::Stored(id));
                }
                Ok(())
            });
            open_view(chat, Box::new(picker), Some(choose));
            Ok(())
        });
        result
    }));
}

/// Opens the list of the values of an option; the chosen one is set with the command of that name. An option without
/// choices is shown by its command.
pub(super) fn open_option(chat: &mut ChatLoop, name: &'static str) {
    let (host, id) = (Arc::clone(&chat.host), chat.handle.session_id().clone());
    chat.start_task(Box::pin(async move {
        let options = host.options(&id).await;
        let result: TaskResult = Box::new(move |chat| {
            match options {
                Ok(options) => choose_option(chat, name, &options),
                Err(error) => show_error(chat, error),
            }
            Ok(())
        });
        result
    }));
}

fn choose_option(chat: &mut ChatLoop, name: &'static str, options: &[SessionOption]) {
    let option = options.iter().find(|option| option.name == name);
    let Some(option) = option.filter(|option| !option.choices.is_empty()) else {
        return run_host_command(chat, command_of_option(name).to_owned(), String::new());
    };
    let items = option.choices.iter().map(|choice| {
        let label = if choice.title.is_empty() { &choice.value } else { &choice.title };
        ListItem::new(label).with_detail(&choice.description)
    });
    let current = option.choices.iter().position(|choice| choice.value == option.value);
    let title = format!("{name}: {}", one_line(&option.description));
    let picker =
        ListPicker::new(&title, "values", items.collect()).with_selected(current.unwrap_or(0));
    let values: Vec<String> = option.choices.iter().map(|choice| choice.value.clone()).collect();
    let choose: ChoiceAction = Box::new(move |chat, number| {
        if let Some(value) = values.get(number) {
            run_host_command(chat, command_of_option(name).to_owned(), value.clone());
        }
        Ok(())
    });
    open_view(chat, Box::new(picker), Some(choose));
}

/// Opens the list of the prompts of the session; the session is rewound to before the chosen one.
pub(super) fn open_prompts(chat: &mut ChatLoop) {
    if chat.work.is_busy() {
        return chat.say("the agent is working; esc stops it".to_owned());
    }
    let read_prompts = |events: Vec<Envelope>| sent_prompts(&events);
    with_stored_events(chat, read_prompts, |chat, prompts| {
        if prompts.is_empty() {
            return chat.say("there is no prompt to go back to".to_owned());
        }
        let items = prompts.iter().map(|prompt| {
            let text = shorten(&input_text(&prompt.content), PROMPT_EXCERPT);
            ListItem::new(&text).with_detail(&format!("turn {}", prompt.turn))
        });
        let picker = ListPicker::new("go back to before a prompt", "prompts", items.collect())
            .with_selected(prompts.len() - 1);
        let choose: ChoiceAction = Box::new(move |chat, number| {
            if let Some(prompt) = prompts.into_iter().nth(number) {
                choose_rewind(chat, prompt);
            }
            Ok(())
        });
        open_view(chat, Box::new(picker), Some(choose));
    });
}

fn choose_rewind(chat: &mut ChatLoop, prompt: SentPrompt) {
    let items = vec![
        ListItem::new("conversation and files")
            .with_detail("both are as before the prompt, which comes back to be edited"),
        ListItem::new("conversation only")
            .with_detail("the files stay as they are, and the agent is told"),
        ListItem::new("files only").with_detail("the conversation stays, and the agent is told"),
    ];
    let title = format!("go back to before turn {}", prompt.turn);
    let picker = ListPicker::new(&title, "choices", items);
    let choose: ChoiceAction = Box::new(move |chat, number| {
        let argument = format!("back-to {}", prompt.turn);
        let flag = match number {
            0 => "--chat",
            1 => "--chat-only",
            _ => {
                run_host_command(chat, "undo".to_owned(), argument);
                return Ok(());
            }
        };
        let put_back = move |chat: &mut ChatLoop| put_back_blocks(chat, prompt.content);
        run_host_command_then(chat, "undo".to_owned(), format!("{argument} {flag}"), put_back);
        Ok(())
    });
    open_view(chat, Box::new(picker), Some(choose));
}

/// Reads the log of the session and prepares a view of it beside the loop, and passes that on.
fn with_stored_events<T: Send + 'static>(
    chat: &mut ChatLoop,
    prepare: impl FnOnce(Vec<Envelope>) -> T + Send + 'static,
    on_prepared: impl FnOnce(&mut ChatLoop, T) + Send + 'static,
) {
    if !chat.modes.is_live() {
        return chat.say("this needs a terminal with cursor movement".to_owned());
    }
    if chat.has_task() {
        return chat.say("another command is not done yet".to_owned());
    }
    let (store, id) = (Arc::clone(&chat.store), chat.handle.session_id().clone());
    chat.start_task(Box::pin(async move {
        let prepared =
            spawn_blocking(move || Ok(prepare(store.read(&id).map_err(HostError::from)?.events)));
        let prepared = prepared.await;
        let result: TaskResult = Box::new(move |chat| {
            match prepared {
                Ok(Ok(prepared)) => on_prepared(chat, prepared),
                Ok(Err(error)) => show_error(chat, error),
                Err(error) => chat.say(format!("error: {error}")),
            }
            Ok(())
        });
        result
    }));
}

/// Returns the command that sets an option.
fn command_of_option(option: &'static str) -> &'static str {
    if option == "agent" { "agents" } else { option }
}

fn is_interrupt(key: Key) -> bool {
    key.modifiers == KeyModifiers::CTRL && matches!(key.code, KeyCode::Char('c' | 'z'))
}

fn session_item(session: &SessionMetadata) -> ListItem {
    let crow = session.crow();
    let time = session.updated_at.strftime("%Y-%m-%d %H:%M");
    let title = if crow.title.is_empty() { "without a title" } else { crow.title.as_str() };
    ListItem::new(title).with_detail(&format!("{time}  {}", session.session_id))
}

/// A prompt that was sent, and the turn that it began.
#[derive(Debug, Clone, PartialEq, Eq)]
struct SentPrompt {
    turn: u32,
    content: Vec<Block>,
}

/// Returns the prompts that are still part of the conversation.
fn sent_prompts(events: &[Envelope]) -> Vec<SentPrompt> {
    let mut prompts: Vec<(u64, SentPrompt)> = Vec::new();
    let mut waiting: Option<(u64, Vec<Block>)> = None;
    for envelope in events.iter().filter(|envelope| envelope.is_root()) {
        match &envelope.event {
            AgentEvent::UserInput { source: InputSource::Prompt, content, .. } => {
                // Events of the log have a number.
                waiting = envelope.seq.map(|seq| (seq, content.clone()));
            }
            AgentEvent::TurnStart { turn } => {
                if let Some((seq, content)) = waiting.take() {
                    prompts.push((seq, SentPrompt { turn: *turn, content }));
                }
            }
            AgentEvent::Rewind { last_kept, .. } => prompts.retain(|(seq, _)| seq <= last_kept),
            _ => {}
        }
    }
    prompts.into_iter().map(|(_, prompt)| prompt).collect()
}

fn input_text(content: &[Block]) -> String {
    let texts = content.iter().map(|block| match block {
        Block::Text { text } => text.as_str(),
        Block::Image(_) => "[image]",
    });
    texts.collect::<Vec<_>>().join("\n")
}

/// Returns the sections of a transcript: inputs, reasoning, replies, and calls with their whole output.
fn transcript_sections(events: &[Envelope]) -> Vec<PagerSection> {
    let mut sections = Vec::new();
    for envelope in events {
        let agent = if envelope.is_root() { "" } else { envelope.agent.as_str() };
        match &envelope.event {
            AgentEvent::UserInput { source, content, .. } if envelope.is_root() => {
                let text = input_text(content);
                let is_of_user = matches!(source, InputSource::Prompt | InputSource::Steering);
                let mark = if is_of_user { "> " } else { "» " };
                let lines = text.lines().enumerate().map(|(number, line)| {
                    let mark = if number == 0 { mark } else { "  " };
                    format!("{mark}{line}")
                });
                let text = lines.collect::<Vec<_>>().join("\n");
                let title = shorten(&text, TITLE_EXCERPT);
                sections.push(PagerSection::text(format!("\n{text}\n")).with_title(&title));
            }
            AgentEvent::Reply { blocks, .. } => {
                let thinking = crow_console::thinking_of(blocks);
                if !thinking.trim().is_empty() {
                    sections.push(heading("reasoning", TextRole::Dim));
                    sections.push(PagerSection::text(thinking));
                }
                let text = crow_console::text_of(blocks);
                if !text.trim().is_empty() {
                    if !agent.is_empty() {
                        sections.push(heading(agent, TextRole::Heading));
                    }
                    sections.push(PagerSection::markdown(text));
                }
            }
            AgentEvent::CallStart { title, tool, .. } => {
                let call = if title.is_empty() { tool } else { title };
                let call = format!("{agent}{}• {}", separator(agent), one_line(call));
                sections.push(heading(&call, TextRole::Code));
            }
            AgentEvent::CallEnd { result, .. } if !result.output.trim().is_empty() => {
                sections.push(PagerSection::text(&result.output));
            }
            _ => {}
        }
    }
    sections
}

fn separator(agent: &str) -> &'static str {
    if agent.is_empty() { "" } else { " " }
}

fn heading(text: &str, role: TextRole) -> PagerSection {
    let mut line = StyledLine::default();
    line.push(one_line(text), role);
    PagerSection::lines(vec![StyledLine::default(), line])
}
