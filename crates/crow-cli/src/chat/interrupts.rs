//! What ctrl-c does.

/// What the chat is doing when ctrl-c comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ChatPhase {
    /// It waits for a prompt.
    Prompt,
    /// The agent works.
    Work,
}

/// What ctrl-c does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum InterruptAction {
    /// The run is interrupted.
    Stop,
    /// It is said that once more leaves.
    Warn,
    /// The program ends.
    Leave,
}

/// Counts how often ctrl-c came in a row.
#[derive(Debug, Default)]
pub(super) struct Interrupts {
    last: Option<ChatPhase>,
}

impl Interrupts {
    /// Decides what this one does.
    pub(super) fn press(&mut self, place: ChatPhase) -> InterruptAction {
        match (self.last.replace(place), place) {
            (Some(last), place) if last == place => InterruptAction::Leave,
            (_, ChatPhase::Prompt) => InterruptAction::Warn,
            (_, ChatPhase::Work) => InterruptAction::Stop,
        }
    }

    /// Something else happened: the next one is the first again.
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
        for (places, expected) in table {
            let mut interrupts = Interrupts::default();
            let decisions: Vec<_> = places.iter().map(|place| interrupts.press(*place)).collect();
            assert_eq!(decisions, expected, "{places:?}");
        }
    }

    #[test]
    fn what_happens_between_two_makes_the_second_a_first() {
        let mut interrupts = Interrupts::default();
        interrupts.press(ChatPhase::Work);
        interrupts.reset();
        assert_eq!(interrupts.press(ChatPhase::Work), InterruptAction::Stop);
    }
}
