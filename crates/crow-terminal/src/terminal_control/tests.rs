//! Sequences as a terminal takes them.

use super::TerminalEnvironment;

/// Returns the environment of variables that are written as `NAME=value`, with a blank between them.
pub(super) fn environment(variables: &str) -> TerminalEnvironment {
    TerminalEnvironment::from_variables(|name| {
        variables.split(' ').find_map(|variable| {
            variable
                .split_once('=')
                .filter(|(key, _)| *key == name)
                .map(|(_, value)| value.to_owned())
        })
    })
}
