//! The meaning of ctrl-c, which depends on the one before.

/// State of the chat when ctrl-c is pressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ChatPhase {
    /// It waits for a prompt.
    Prompt,
    /// The agent works, or a command runs.
    Work,
}

/// The effect of ctrl-c.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum InterruptAction {
    /// The run is interrupted.
    Stop,
    /// A message says that a second ctrl-c leaves.
    Warn,
    /// The program ends.
    Leave,
}

/// Tracks consecutive presses of ctrl-c.
#[derive(Debug, Default)]
pub(super) struct Interrupts {
    last: Option<ChatPhase>,
}

impl Interrupts {
    /// Returns the effect of this press.
    pub(super) fn press(&mut self, phase: ChatPhase) -> InterruptAction {
        match (self.last.replace(phase), phase) {
            (Some(last), phase) if last == phase => InterruptAction::Leave,
            (_, ChatPhase::Prompt) => InterruptAction::Warn,
            (_, ChatPhase::Work) => InterruptAction::Stop,
        }
    }

    /// Starts anew: the next press counts as the first.
    pub(super) fn reset(&mut self) {
        self.last = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_stops_or_warns_and_the_second_leaves() {
        use ChatPhase::{Prompt, Work};
        use InterruptAction::{Leave, Stop, Warn};
        let table: [(&[ChatPhase], &[InterruptAction]); 4] = [
            (&[Work, Work], &[Stop, Leave]),
            (&[Prompt, Prompt], &[Warn, Leave]),
            (&[Work, Prompt, Prompt], &[Stop, Warn, Leave]),
            (&[Prompt, Work, Work], &[Warn, Stop, Leave]),
        ];
        for (phases, expected) in table {
            let mut interrupts = Interrupts::default();
            let decisions: Vec<_> = phases.iter().map(|phase| interrupts.press(*phase)).collect();
            assert_eq!(decisions, expected, "{phases:?}");
        }
    }

    #[test]
    fn a_reset_makes_the_next_press_the_first() {
        let mut interrupts = Interrupts::default();
        interrupts.press(ChatPhase::Work);
        interrupts.reset();
        assert_eq!(interrupts.press(ChatPhase::Work), InterruptAction::Stop);
    }
}
