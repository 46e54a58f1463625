//! Errors in the parts of a composition.

/// A reason for which a composition cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CompositionError {
    /// The control flow needs a coagent, and none is given.
    #[error("{agent}: the control flow \"{flow}\" needs a coagent, and none is named")]
    NoCoagent {
        /// The composition.
        agent: String,
        /// The control flow.
        flow: &'static str,
    },
    /// Coagents are given, and the control flow never asks them.
    #[error(
        "{agent}: the control flow \"{flow}\" never asks a coagent, and {coagent} is named as one"
    )]
    UnusedCoagent {
        /// The composition.
        agent: String,
        /// The control flow.
        flow: &'static str,
        /// The first coagent.
        coagent: String,
    },
}
