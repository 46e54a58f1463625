//! Motions by the rows of the screen, and on to the history at the first and the last one.

use super::{
    commands::VerticalStep,
    layout::{RowWalk, column, position_at},
    prompt_editor::{EditorEffect, LastCommand, PromptEditor},
};

impl PromptEditor {
    pub(super) fn move_vertically(
        &mut self,
        step: VerticalStep,
        last: &LastCommand,
    ) -> EditorEffect {
        let (text, cursor) = (self.document.text(), self.document.cursor());
        let mut walk = RowWalk::new(text, cursor, self.width);
        let goal = match last {
            LastCommand::Vertical(goal) => *goal,
            LastCommand::Other | LastCommand::Kill | LastCommand::Yank(_) => {
                column(text, walk.row(), cursor, self.width)
            }
        };
        let row = match step {
            VerticalStep::Up => walk.up(),
            VerticalStep::Down => walk.down(),
        };
        let Some(row) = row else { return self.walk_history(step) };
        let position = position_at(text, row, goal, self.width);
        self.document.move_to(position);
        self.last = LastCommand::Vertical(goal);
        EditorEffect::Redraw
    }

    /// Shows the next older or newer prompt, with the cursor at its end.
    fn walk_history(&mut self, step: VerticalStep) -> EditorEffect {
        let position = self.history.position();
        let next = match step {
            VerticalStep::Up => position.checked_sub(1),
            VerticalStep::Down => Some(position + 1).filter(|next| *next <= self.history.entries()),
        };
        let Some(next) = next else { return EditorEffect::None };
        self.document.close_group();
        self.history.visit(next, &mut self.document);
        self.document.move_to(self.document.text().len());
        EditorEffect::Redraw
    }
}
