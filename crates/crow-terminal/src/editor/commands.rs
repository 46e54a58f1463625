//! Applies editing commands to the document.

use std::ops::Range;

use super::{
    chips::Fragment,
    key_bindings::{CaseChange, CursorMotion, EditorCommand},
    kill_ring::{KillSide, KilledShape},
    prompt_editor::{EditorEffect, KeyPrefix, LastCommand, PromptEditor},
    prompt_text::UnitContent,
    undo_log::ChangeKind,
    word_motions::{blank_word_start, word_end, word_start},
};

impl PromptEditor {
    pub(super) fn execute(&mut self, command: EditorCommand) -> EditorEffect {
        let last = std::mem::take(&mut self.last);
        match command {
            EditorCommand::Insert(character) => {
                self.insert_at_cursor(Fragment::plain(character), ChangeKind::Typing);
            }
            EditorCommand::LineFeed => {
                self.insert_at_cursor(Fragment::plain('\n'), ChangeKind::Typing);
            }
            EditorCommand::Enter => return self.enter(),
            EditorCommand::Move(motion) => self.document.move_to(self.target(motion)),
            EditorCommand::Up => return self.move_vertically(VerticalStep::Up, &last),
            EditorCommand::Down => return self.move_vertically(VerticalStep::Down, &last),
            EditorCommand::Erase(motion) => self.erase(motion),
            EditorCommand::EraseOrEnd if self.text().is_empty() => return EditorEffect::EndOfInput,
            EditorCommand::EraseOrEnd => self.erase(CursorMotion::Right),
            EditorCommand::Kill(motion) => self.kill(motion, &last),
            EditorCommand::Yank => yank(self),
            EditorCommand::YankOlder => yank_older(self, last),
            EditorCommand::TransposeCharacters => transpose_characters(self),
            EditorCommand::TransposeWords => transpose_words(self),
            EditorCommand::ChangeCase(change) => change_case(self, change),
            EditorCommand::Undo => self.document.undo(),
            EditorCommand::Redo => self.document.redo(),
            EditorCommand::Search(direction) => self.begin_search(direction),
            EditorCommand::Prefix => self.prefix = KeyPrefix::ControlX,
            EditorCommand::Effect(effect) => return effect,
        }
        EditorEffect::Redraw
    }

    fn insert_at_cursor(&mut self, fragment: Fragment, kind: ChangeKind) {
        let cursor = self.document.cursor();
        self.document.edit(cursor..cursor, fragment, kind);
    }

    /// Submits the text, or begins a line instead of a backslash before the cursor.
    fn enter(&mut self) -> EditorEffect {
        let before = self.document.text().unit_before(self.document.cursor());
        match before {
            Some(unit) if unit.content == UnitContent::Cluster("\\") => {
                let range = unit.start..unit.end;
                self.document.edit(range, Fragment::plain('\n'), ChangeKind::Other);
                EditorEffect::Redraw
            }
            Some(_) | None => EditorEffect::Submit,
        }
    }

    /// Returns the place that a motion leads to.
    pub(super) fn target(&self, motion: CursorMotion) -> usize {
        let (text, cursor) = (self.document.text(), self.document.cursor());
        match motion {
            CursorMotion::Left => text.previous(cursor),
            CursorMotion::Right => text.next(cursor),
            CursorMotion::WordLeft => word_start(text, cursor),
            CursorMotion::WordRight => word_end(text, cursor),
            CursorMotion::BlankWordLeft => blank_word_start(text, cursor),
            CursorMotion::LineStart => text.line_start(cursor),
            CursorMotion::LineEnd => text.line_end(cursor),
            CursorMotion::TextStart => 0,
            CursorMotion::TextEnd => text.len(),
        }
    }

    fn range_to(&self, motion: CursorMotion) -> Range<usize> {
        let (cursor, target) = (self.document.cursor(), self.target(motion));
        cursor.min(target)..cursor.max(target)
    }

    fn erase(&mut self, motion: CursorMotion) {
        let range = self.range_to(motion);
        self.document.edit(range, Fragment::default(), ChangeKind::Erasing);
    }

    /// Kills up to a place. At the end of a line, the line feed there is killed.
    fn kill(&mut self, motion: CursorMotion, last: &LastCommand) {
        let mut range = self.range_to(motion);
        if range.is_empty() {
            range = match motion {
                CursorMotion::LineStart => self.range_to(CursorMotion::Left),
                CursorMotion::LineEnd => self.range_to(CursorMotion::Right),
                CursorMotion::Left
                | CursorMotion::Right
                | CursorMotion::WordLeft
                | CursorMotion::WordRight
                | CursorMotion::BlankWordLeft
                | CursorMotion::TextStart
                | CursorMotion::TextEnd => range,
            };
        }
        self.last = LastCommand::Kill;
        if range.is_empty() {
            return;
        }
        let is_before = range.end == self.document.cursor();
        let side = if is_before { KillSide::Before } else { KillSide::After };
        self.document.close_group();
        let killed = self.document.take(range, ChangeKind::Other);
        match last {
            LastCommand::Kill => self.kill_ring.extend(killed, side),
            LastCommand::Other | LastCommand::Yank(_) | LastCommand::Vertical(_) => {
                self.kill_ring.push(killed, KilledShape::Characters);
            }
        }
    }

    fn change_case_of(&mut self, range: Range<usize>, change: CaseChange) {
        let text = self.document.text();
        let mut changed = Fragment::default();
        let mut case = match change {
            CaseChange::Upper | CaseChange::Capital => CaseChange::Upper,
            CaseChange::Lower => CaseChange::Lower,
        };
        for unit in text.units(range.clone()) {
            match unit.content {
                UnitContent::Cluster(cluster) => {
                    let has_case = cluster.chars().any(char::is_alphanumeric);
                    changed.append(&Fragment::plain(match case {
                        CaseChange::Upper | CaseChange::Capital => cluster.to_uppercase(),
                        CaseChange::Lower => cluster.to_lowercase(),
                    }));
                    if has_case && change == CaseChange::Capital {
                        case = CaseChange::Lower;
                    }
                }
                UnitContent::LineFeed | UnitContent::Chip(_) => {
                    changed.append(&text.fragment(unit.start..unit.end));
                }
            }
        }
        self.document.edit(range, changed, ChangeKind::Other);
    }
}

/// Changes the case of the letters up to the end of the word.
fn change_case(editor: &mut PromptEditor, change: CaseChange) {
    let range = editor.range_to(CursorMotion::WordRight);
    editor.document.close_group();
    editor.change_case_of(range, change);
}

fn yank(editor: &mut PromptEditor) {
    let cursor = editor.document.cursor();
    yank_over(editor, cursor..cursor);
}

fn yank_older(editor: &mut PromptEditor, last: LastCommand) {
    match last {
        LastCommand::Yank(range) => {
            editor.kill_ring.rotate();
            yank_over(editor, range);
        }
        LastCommand::Other | LastCommand::Kill | LastCommand::Vertical(_) => editor.last = last,
    }
}

fn yank_over(editor: &mut PromptEditor, range: Range<usize>) {
    let Some(killed) = editor.kill_ring.last() else { return };
    let fragment = killed.fragment.clone();
    let inserted = range.start..range.start + fragment.len();
    editor.document.edit(range, fragment, ChangeKind::Other);
    editor.last = LastCommand::Yank(inserted);
}

/// Exchanges the unit before the cursor with the one at it, or the two before it at the end of a line.
fn transpose_characters(editor: &mut PromptEditor) {
    let (text, cursor) = (editor.document.text(), editor.document.cursor());
    let is_at_end = cursor == text.line_end(cursor);
    let middle = if is_at_end { text.previous(cursor) } else { cursor };
    let (start, end) = (text.previous(middle), text.next(middle));
    if start < text.line_start(cursor) || start == middle || middle == end {
        return;
    }
    let mut exchanged = text.fragment(middle..end);
    exchanged.append(&text.fragment(start..middle));
    editor.document.edit(start..end, exchanged, ChangeKind::Other);
}

/// Exchanges the word before the cursor with the one at it or behind it.
fn transpose_words(editor: &mut PromptEditor) {
    let (text, cursor) = (editor.document.text(), editor.document.cursor());
    let second_end = word_end(text, cursor);
    let second = word_start(text, second_end);
    let first = word_start(text, second);
    let first_end = word_end(text, first);
    if first_end > second {
        return;
    }
    let mut exchanged = text.fragment(second..second_end);
    exchanged.append(&text.fragment(first_end..second));
    exchanged.append(&text.fragment(first..first_end));
    editor.document.edit(first..second_end, exchanged, ChangeKind::Other);
}

/// Direction of a motion by rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum VerticalStep {
    Up,
    Down,
}
