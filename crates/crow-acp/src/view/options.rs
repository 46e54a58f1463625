//! Options and modes of a session.

use agent_client_protocol::v1::schema::{
    SessionConfigBoolean, SessionConfigKind, SessionConfigOption, SessionConfigOptionCategory,
    SessionConfigSelect, SessionConfigSelectOption, SessionMode, SessionModeState,
};
use crow_runtime::{OptionChoice, OptionKind, SessionOption};

use super::{abilities::ClientAbilities, text::title};

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
