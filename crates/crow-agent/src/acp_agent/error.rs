//! What keeps a composition from being made.

/// What keeps a composition from being made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CompositionError {
    /// The control flow has a place for coagents, and there is none.
    #[error("{agent}: the control flow \"{flow}\" needs a coagent, and none is named")]
    NoCoagent {
        /// The composition.
        agent: String,
        /// The control flow.
        flow: &'static str,
    },
    /// There are coagents, and the control flow never asks them.
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
