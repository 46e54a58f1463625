//! State of a session as clients show it: options, modes, commands, title and usage; and the part of its log that a
//! replay shows.

use agent_client_protocol::v1::schema::{
    AvailableCommand, AvailableCommandInput, AvailableCommandsUpdate, Cost, SessionConfigBoolean,
    SessionConfigKind, SessionConfigOption, SessionConfigOptionCategory, SessionConfigSelect,
    SessionConfigSelectOption, SessionId as AcpSessionId, SessionInfo, SessionInfoUpdate,
    SessionMode, SessionModeState, UnstructuredCommandInput, Usage, UsageUpdate,
};
use crow_core::{
    event::{AgentEvent, Envelope},
    usage::TokenUsage,
};
use crow_runtime::{
    HostCommand, OptionChoice, OptionKind, SessionMetadata, SessionOption, SessionUsage,
};

use super::{abilities::ClientAbilities, content::title};

/// Returns all options that have choices, the most used ones first. Options that take any text are left out, because
/// clients cannot ask for it.
pub(crate) fn config_options(
    options: &[SessionOption],
    abilities: &ClientAbilities,
) -> Vec<SessionConfigOption> {
    let mut shown: Vec<_> = options.iter().filter(|option| !option.choices.is_empty()).collect();
    shown.sort_by_key(|option| position(option.kind));
    shown.into_iter().map(|option| config_option(option, abilities)).collect()
}

/// Returns the control flow as modes, for clients that do not know options. `None` if it has no choices.
pub(crate) fn modes(options: &[SessionOption]) -> Option<SessionModeState> {
    let flow = options.iter().find(|option| option.kind == OptionKind::ControlFlow)?;
    let choices = choices(flow);
    if choices.is_empty() {
        return None;
    }
    let modes = choices.into_iter().map(|choice| {
        SessionMode::new(choice.value.clone(), name(&choice)).description(description(&choice))
    });
    Some(SessionModeState::new(flow.value.clone(), modes.collect()))
}

fn config_option(option: &SessionOption, abilities: &ClientAbilities) -> SessionConfigOption {
    let kind = match switch_state(option) {
        Some(is_on) if abilities.booleans.is_yes() => {
            SessionConfigKind::Boolean(SessionConfigBoolean::new(is_on))
        }
        Some(_) | None => {
            let choices = choices(option).into_iter().map(|choice| {
                SessionConfigSelectOption::new(choice.value.clone(), name(&choice))
                    .description(description(&choice))
            });
            let choices: Vec<_> = choices.collect();
            SessionConfigKind::Select(SessionConfigSelect::new(option.value.clone(), choices))
        }
    };
    let about = title(&option.description);
    SessionConfigOption::new(option.name, label(option), kind)
        .description((!about.is_empty()).then_some(about))
        .category(category(option.kind))
}

/// Returns the choices, with the current value first if it is none of them: clients refuse a value that they cannot
/// show.
fn choices(option: &SessionOption) -> Vec<OptionChoice> {
    let mut choices = option.choices.clone();
    if !choices.is_empty() && !choices.iter().any(|choice| choice.value == option.value) {
        let (value, none) = (option.value.clone(), String::new());
        choices.insert(0, OptionChoice { value, title: none.clone(), description: none });
    }
    choices
}

fn name(choice: &OptionChoice) -> String {
    let name = title(&choice.title);
    if name.is_empty() { title(&choice.value) } else { name }
}

fn description(choice: &OptionChoice) -> Option<String> {
    Some(title(&choice.description)).filter(|text| !text.is_empty())
}

/// Returns true if an option is on; `None` if it is not a switch.
fn switch_state(option: &SessionOption) -> Option<bool> {
    let mut values: Vec<&str> = option.choices.iter().map(|choice| choice.value.as_str()).collect();
    values.sort_unstable();
    match (values.as_slice(), option.value.as_str()) {
        (["off", "on"], "on") | (["false", "true"], "true") => Some(true),
        (["off", "on"], "off") | (["false", "true"], "false") => Some(false),
        _ => None,
    }
}

/// Returns the value that switches an option on or off; `None` if it is not a switch.
pub(crate) fn switch_value(option: &SessionOption, is_on: bool) -> Option<&'static str> {
    switch_state(option)?;
    let says_on = option.choices.iter().any(|choice| choice.value == "on");
    Some(match (says_on, is_on) {
        (true, true) => "on",
        (true, false) => "off",
        (false, true) => "true",
        (false, false) => "false",
    })
}

fn label(option: &SessionOption) -> String {
    match option.kind {
        OptionKind::ControlFlow => "Mode".to_owned(),
        OptionKind::Permissions => "Permissions".to_owned(),
        OptionKind::Model => "Model".to_owned(),
        OptionKind::Thinking => "Thinking".to_owned(),
        OptionKind::Agent => "Agent".to_owned(),
        OptionKind::Reviewer => "Reviewer".to_owned(),
        OptionKind::Other => {
            let words = option.name.replace(['-', '_'], " ");
            let mut chars = words.chars();
            chars
                .next()
                .map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
        }
    }
}

fn category(kind: OptionKind) -> Option<SessionConfigOptionCategory> {
    let own = |name: &str| Some(SessionConfigOptionCategory::Other(name.to_owned()));
    match kind {
        OptionKind::ControlFlow => Some(SessionConfigOptionCategory::Mode),
        OptionKind::Model => Some(SessionConfigOptionCategory::Model),
        OptionKind::Thinking => Some(SessionConfigOptionCategory::ThoughtLevel),
        OptionKind::Permissions => own("_permissions"),
        OptionKind::Agent => own("_agent"),
        OptionKind::Reviewer => own("_reviewer"),
        OptionKind::Other => None,
    }
}

fn position(kind: OptionKind) -> u8 {
    match kind {
        OptionKind::ControlFlow => 0,
        OptionKind::Permissions => 1,
        OptionKind::Model => 2,
        OptionKind::Thinking => 3,
        OptionKind::Agent => 4,
        OptionKind::Reviewer => 5,
        OptionKind::Other => 6,
    }
}

/// Returns the update with the available commands.
pub(crate) fn commands(commands: &[HostCommand]) -> AvailableCommandsUpdate {
    let commands = commands.iter().map(|command| {
        let hint = title(&command.argument);
        let input = (!hint.is_empty())
            .then(|| AvailableCommandInput::Unstructured(UnstructuredCommandInput::new(hint)));
        AvailableCommand::new(command.name.as_ref(), title(&command.description)).input(input)
    });
    AvailableCommandsUpdate::new(commands.collect())
}

/// Returns the entry of a session in a list.
pub(crate) fn session_info(metadata: &SessionMetadata) -> SessionInfo {
    let crow = metadata.crow();
    SessionInfo::new(AcpSessionId::new(metadata.session_id.as_str()), crow.cwd.clone())
        .title(shown_title(metadata))
        .updated_at(metadata.updated_at.to_string())
}

/// Returns the update for a changed title or time of a session.
pub(crate) fn session_info_update(metadata: &SessionMetadata) -> SessionInfoUpdate {
    let update = SessionInfoUpdate::new().updated_at(metadata.updated_at.to_string());
    match shown_title(metadata) {
        Some(title) => update.title(title),
        None => update,
    }
}

fn shown_title(metadata: &SessionMetadata) -> Option<String> {
    Some(title(&metadata.crow().title)).filter(|title| !title.is_empty())
}

/// Returns the events that a replay shows: those of all agents by sequence number, without those that a rewind removed.
pub(crate) fn replayable(mut events: Vec<Envelope>) -> Vec<Envelope> {
    events.sort_by_key(|envelope| envelope.seq);
    let gaps: Vec<(u64, u64)> = events
        .iter()
        .filter_map(|envelope| {
            let AgentEvent::Rewind { last_kept, .. } = &envelope.event else { return None };
            Some((*last_kept, envelope.seq?))
        })
        .collect();
    events.retain(|envelope| {
        let is_in = |(kept, rewind): &(u64, u64)| {
            envelope.seq.is_some_and(|seq| seq > *kept && seq < *rewind)
        };
        !gaps.iter().any(is_in)
    });
    events
}

/// Returns the update with the used context window and the cost; `None` if the size of the window is not known.
pub(crate) fn usage_update(usage: &SessionUsage) -> Option<UsageUpdate> {
    let cost = usage.cost_usd.filter(|cost| cost.is_finite());
    let update = UsageUpdate::new(usage.context_tokens, usage.context_window?);
    Some(update.cost(cost.map(|amount| Cost::new(amount, "USD"))))
}

/// Returns the token usage of a prompt. The parts do not overlap, because clients add them up.
pub(crate) fn prompt_usage(usage: &TokenUsage) -> Usage {
    let cached = usage.cache_read_tokens.saturating_add(usage.cache_write_tokens);
    let reasoning = usage.reasoning_tokens.unwrap_or(0);
    Usage::new(
        usage.total(),
        usage.input_tokens.saturating_sub(cached),
        usage.output_tokens.saturating_sub(reasoning),
    )
    .thought_tokens(usage.reasoning_tokens)
    .cached_read_tokens(usage.cache_read_tokens)
    .cached_write_tokens(usage.cache_write_tokens)
}
