//! The style of vi: its modes, and what its commands do.
//!
//! Keys of the insert mode are those of emacs. A change is recorded as the keys that made it, with all that was typed
//! up to the escape key, and repeated by pressing them again. Everything from a command to the end of the insertion
//! that it begins is undone in one step.

use std::ops::Range;

use super::{
    chips::Fragment,
    commands::VerticalStep,
    key_bindings::{EditingStyle, EditorCommand},
    kill_ring::{KilledShape, KilledText},
    prompt_editor::{EditorEffect, KeyPrefix, LastCommand, PromptEditor},
    prompt_text::UnitContent,
    undo_log::ChangeKind,
    vi_keys::{
        CharacterFind, FindPlace, InsertPlace, OperatorTarget, ParseOutcome, ViCommand,
        ViDirection, ViMotion, ViOperator, ViParser, WordKind,
    },
    vi_motions::{self, MotionExtent, first_text, next_word, run_end},
};
use crate::keys::{Key, KeyCode};

/// Maximum number of bytes that are inserted by one command.
const MOST_PUT_BYTES: usize = 1024 * 1024;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum ViMode {
    #[default]
    Insert,
    Normal,
}

/// Input that belongs to a change.
#[derive(Debug, Clone)]
enum RecordedInput {
    Key(Key),
    /// A paste or an image.
    Fragment(Fragment),
}

/// Whether input is recorded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum RecordingState {
    #[default]
    Off,
    /// A command is typed, or the text that it inserts.
    On,
    /// A recorded change is repeated.
    Replaying,
}

/// An insertion that is repeated when it ends.
#[derive(Debug, Clone)]
struct RepeatedInsertion {
    /// How often its text is inserted once more.
    further: usize,
    place: InsertPlace,
    inserted: Vec<RecordedInput>,
}

/// State of the style of vi.
#[derive(Debug, Clone, Default)]
pub(super) struct ViState {
    mode: ViMode,
    parser: ViParser,
    last_find: Option<CharacterFind>,
    recording: RecordingState,
    recorded: Vec<RecordedInput>,
    last_change: Vec<RecordedInput>,
    repeated: Option<RepeatedInsertion>,
}

impl ViState {
    pub(super) fn is_normal(&self) -> bool {
        self.mode == ViMode::Normal
    }

    /// Records a text that is inserted without keys.
    pub(super) fn record_text(&mut self, fragment: &Fragment) {
        if let Some(repeated) = &mut self.repeated {
            repeated.inserted.push(RecordedInput::Fragment(fragment.clone()));
        }
        if self.recording == RecordingState::On {
            self.recorded.push(RecordedInput::Fragment(fragment.clone()));
        }
    }

    fn record_key(&mut self, key: Key) {
        if self.recording == RecordingState::On {
            self.recorded.push(RecordedInput::Key(key));
        }
    }

    /// Makes the recorded input the last change.
    fn keep_recorded(&mut self) {
        if self.recording == RecordingState::On {
            self.last_change = std::mem::take(&mut self.recorded);
            self.recording = RecordingState::Off;
        }
    }

    fn drop_recorded(&mut self) {
        if self.recording == RecordingState::On {
            self.recorded.clear();
            self.recording = RecordingState::Off;
        }
    }
}

impl PromptEditor {
    /// Puts the cursor onto a unit after the text was changed from outside.
    pub(super) fn settle_cursor(&mut self) {
        if self.style == EditingStyle::Vi && self.vi.mode == ViMode::Normal {
            ViEditing { editor: self }.leave_line_end();
        }
    }
}

/// An editor whose keys are those of vi.
#[derive(Debug)]
pub(super) struct ViEditing<'a> {
    pub(super) editor: &'a mut PromptEditor,
}

impl ViEditing<'_> {
    pub(super) fn on_vi_key(&mut self, key: Key) -> EditorEffect {
        if self.editor.prefix == KeyPrefix::ControlX {
            return self.editor.on_text_key(key);
        }
        match self.editor.vi.mode {
            ViMode::Insert => self.on_insert_key(key),
            ViMode::Normal => self.on_normal_key(key),
        }
    }

    fn on_insert_key(&mut self, key: Key) -> EditorEffect {
        self.editor.vi.record_key(key);
        if key.code != KeyCode::Escape && key != Key::ctrl('[') {
            if let Some(repeated) = &mut self.editor.vi.repeated {
                repeated.inserted.push(RecordedInput::Key(key));
            }
            return self.editor.on_text_key(key);
        }
        self.repeat_insertion();
        self.editor.vi.keep_recorded();
        self.editor.vi.mode = ViMode::Normal;
        self.editor.last = LastCommand::Other;
        self.editor.document.release_group();
        let (text, cursor) = (self.editor.document.text(), self.editor.document.cursor());
        let start = text.line_start(cursor);
        self.editor.document.move_to(text.previous(cursor).max(start));
        EditorEffect::Redraw
    }

    fn on_normal_key(&mut self, key: Key) -> EditorEffect {
        if !self.editor.vi.parser.is_pending() && self.editor.vi.recording == RecordingState::Off {
            self.editor.vi.recording = RecordingState::On;
            self.editor.vi.recorded.clear();
        }
        self.editor.vi.record_key(key);
        let was_pending = self.editor.vi.parser.is_pending();
        match self.editor.vi.parser.push(key) {
            ParseOutcome::Incomplete => EditorEffect::Redraw,
            ParseOutcome::Unknown => {
                self.editor.vi.drop_recorded();
                if was_pending { EditorEffect::Redraw } else { EditorEffect::None }
            }
            ParseOutcome::Complete { command: ViCommand::Editor(_), .. }
                if was_pending && key.code == KeyCode::Escape =>
            {
                self.editor.vi.drop_recorded();
                EditorEffect::Redraw
            }
            ParseOutcome::Complete { command, count } => {
                let effect = self.execute_vi(command, count);
                if self.editor.vi.mode == ViMode::Normal {
                    if is_change(command) {
                        self.editor.vi.keep_recorded();
                    } else {
                        self.editor.vi.drop_recorded();
                    }
                    self.leave_line_end();
                }
                effect
            }
        }
    }

    /// Moves the cursor from behind the last unit of a line onto it.
    fn leave_line_end(&mut self) {
        let (text, cursor) = (self.editor.document.text(), self.editor.document.cursor());
        if cursor == text.line_end(cursor) && cursor > text.line_start(cursor) {
            self.editor.document.move_to(text.previous(cursor));
        }
    }

    fn execute_vi(&mut self, command: ViCommand, count: Option<usize>) -> EditorEffect {
        let last = std::mem::take(&mut self.editor.last);
        let times = count.unwrap_or(1);
        match command {
            ViCommand::Move(motion) => return self.move_by(motion, count, &last),
            ViCommand::Operate(operator, target) => self.operate(operator, target, count),
            ViCommand::Insert(place) => {
                self.begin_insertion(place);
                self.editor.vi.repeated = (times > 1).then(|| RepeatedInsertion {
                    further: times - 1,
                    place,
                    inserted: Vec::new(),
                });
            }
            ViCommand::Put(direction) => self.put(direction, times),
            ViCommand::Replace(character) => self.replace_units(character, times),
            ViCommand::Undo => (0..times).for_each(|_| self.editor.document.undo()),
            ViCommand::Redo => (0..times).for_each(|_| self.editor.document.redo()),
            ViCommand::Repeat => self.repeat_change(count),
            ViCommand::Editor(EditorCommand::Enter) => return EditorEffect::Submit,
            ViCommand::Editor(EditorCommand::EraseOrEnd) if !self.editor.text().is_empty() => {
                return EditorEffect::None;
            }
            ViCommand::Editor(command) => {
                self.editor.last = last;
                return self.editor.execute(command);
            }
        }
        EditorEffect::Redraw
    }

    fn move_by(
        &mut self,
        motion: ViMotion,
        count: Option<usize>,
        last: &LastCommand,
    ) -> EditorEffect {
        let step = match motion {
            ViMotion::Up => VerticalStep::Up,
            ViMotion::Down => VerticalStep::Down,
            ViMotion::Left
            | ViMotion::Right
            | ViMotion::WordForward(_)
            | ViMotion::WordBackward(_)
            | ViMotion::WordEnd(_)
            | ViMotion::LineStart
            | ViMotion::FirstText
            | ViMotion::LineEnd
            | ViMotion::FirstLine
            | ViMotion::LastLine
            | ViMotion::Find(_)
            | ViMotion::FindAgain(_) => {
                let Some(target) = self.vi_target(motion, count) else {
                    return EditorEffect::None;
                };
                let position = match target.extent {
                    MotionExtent::Lines => first_text(self.editor.document.text(), target.position),
                    MotionExtent::Exclusive | MotionExtent::Inclusive => target.position,
                };
                self.editor.document.move_to(position);
                return EditorEffect::Redraw;
            }
        };
        let mut effect = self.editor.move_vertically(step, last);
        for _ in 1..count.unwrap_or(1) {
            let last = std::mem::take(&mut self.editor.last);
            if self.editor.move_vertically(step, &last) == EditorEffect::None {
                break;
            }
            effect = EditorEffect::Redraw;
        }
        effect
    }

    /// Returns the target of a motion, where a repeated find is the last one.
    fn vi_target(
        &mut self,
        motion: ViMotion,
        count: Option<usize>,
    ) -> Option<vi_motions::MotionTarget> {
        let mut motion = motion;
        if let ViMotion::Find(find) = motion {
            self.editor.vi.last_find = Some(find);
        } else if let ViMotion::FindAgain(direction) = motion {
            let mut find = self.editor.vi.last_find?;
            if direction == ViDirection::Backward {
                find.direction = find.direction.reversed();
            }
            find.place = match find.place {
                FindPlace::At => FindPlace::At,
                FindPlace::Before | FindPlace::BeforeFurther => FindPlace::BeforeFurther,
            };
            motion = ViMotion::Find(find);
        }
        vi_motions::target(
            self.editor.document.text(),
            self.editor.document.cursor(),
            motion,
            count,
        )
    }

    fn operate(&mut self, operator: ViOperator, target: OperatorTarget, count: Option<usize>) {
        let (text, cursor) = (self.editor.document.text(), self.editor.document.cursor());
        let covered = match target {
            OperatorTarget::Lines => {
                let below = count.unwrap_or(1) - 1;
                let last = match below {
                    0 => Some(cursor),
                    _ => vi_motions::target(text, cursor, ViMotion::Down, Some(below))
                        .map(|target| target.position),
                };
                last.map(|last| (cursor..last, KilledShape::Lines))
            }
            OperatorTarget::Object(object) => vi_motions::object(text, cursor, object)
                .map(|range| (range, KilledShape::Characters)),
            OperatorTarget::Motion(motion) => self.covered_by(operator, motion, count),
        };
        match covered {
            Some((range, KilledShape::Characters)) => self.operate_on(operator, range),
            Some((range, KilledShape::Lines)) => self.operate_on_lines(operator, &range),
            None => {}
        }
    }

    /// Returns the range that an operator covers with a motion.
    fn covered_by(
        &mut self,
        operator: ViOperator,
        motion: ViMotion,
        count: Option<usize>,
    ) -> Option<(Range<usize>, KilledShape)> {
        if let ViMotion::WordForward(kind) = motion {
            let end = self.covered_words(operator, kind, count.unwrap_or(1));
            return Some((self.editor.document.cursor()..end, KilledShape::Characters));
        }
        let target = self.vi_target(motion, count)?;
        let (text, cursor) = (self.editor.document.text(), self.editor.document.cursor());
        let (start, end) = (cursor.min(target.position), cursor.max(target.position));
        Some(match target.extent {
            MotionExtent::Exclusive => (start..end, KilledShape::Characters),
            MotionExtent::Inclusive => (start..text.next(end), KilledShape::Characters),
            MotionExtent::Lines
                if text.line_start(start) == text.line_start(end)
                    && matches!(motion, ViMotion::Up | ViMotion::Down) =>
            {
                return None;
            }
            MotionExtent::Lines => (start..end, KilledShape::Lines),
        })
    }

    /// Returns the end of the words that an operator covers: not the blanks behind them if they are changed, and not
    /// the end of the line if they are the last ones in it.
    fn covered_words(&self, operator: ViOperator, kind: WordKind, times: usize) -> usize {
        let (text, cursor) = (self.editor.document.text(), self.editor.document.cursor());
        let last = (1..times).fold(cursor, |at, _| next_word(text, at, kind));
        let is_blank = |content| match content {
            UnitContent::Cluster(cluster) => str::starts_with(cluster, char::is_whitespace),
            UnitContent::LineFeed => true,
            UnitContent::Chip(_) => false,
        };
        let is_on_word = text.unit_at(last).is_some_and(|unit| !is_blank(unit.content));
        if operator == ViOperator::Change && is_on_word {
            return run_end(text, last, kind);
        }
        let (next, line_end) = (next_word(text, last, kind), text.line_end(last));
        if next > line_end && line_end > cursor { line_end } else { next }
    }

    fn operate_on(&mut self, operator: ViOperator, range: Range<usize>) {
        if operator == ViOperator::Change {
            self.editor.vi.mode = ViMode::Insert;
            self.editor.document.hold_group();
        }
        if range.is_empty() {
            return;
        }
        let fragment = self.editor.document.text().fragment(range.clone());
        self.editor.kill_ring.push(fragment, KilledShape::Characters);
        match operator {
            ViOperator::Yank => self.editor.document.move_to(range.start),
            ViOperator::Delete | ViOperator::Change => {
                self.editor.document.close_group();
                self.editor.document.edit(range, Fragment::default(), ChangeKind::Other);
            }
        }
    }

    fn operate_on_lines(&mut self, operator: ViOperator, range: &Range<usize>) {
        let (text, cursor) = (self.editor.document.text(), self.editor.document.cursor());
        let first = text.line_start(range.start.min(range.end));
        let last = text.line_end(range.start.max(range.end));
        self.editor.kill_ring.push(text.fragment(first..last), KilledShape::Lines);
        match operator {
            ViOperator::Yank if first < text.line_start(cursor) => {
                self.editor.document.move_to(first);
            }
            ViOperator::Yank => {}
            ViOperator::Change => {
                self.editor.vi.mode = ViMode::Insert;
                self.editor.document.hold_group();
                self.editor.document.edit(first..last, Fragment::default(), ChangeKind::Other);
                self.editor.document.move_to(first);
            }
            ViOperator::Delete => {
                // The last line goes with the line feed before it.
                let range =
                    if last < text.len() { first..last + 1 } else { first.saturating_sub(1)..last };
                self.editor.document.close_group();
                self.editor.document.edit(range, Fragment::default(), ChangeKind::Other);
                let position =
                    first_text(self.editor.document.text(), self.editor.document.cursor());
                self.editor.document.move_to(position);
            }
        }
    }

    fn begin_insertion(&mut self, place: InsertPlace) {
        self.editor.vi.mode = ViMode::Insert;
        self.editor.document.hold_group();
        let (text, cursor) = (self.editor.document.text(), self.editor.document.cursor());
        let (start, end) = (text.line_start(cursor), text.line_end(cursor));
        let line_feed = Fragment::plain('\n');
        match place {
            InsertPlace::AtCursor => {}
            InsertPlace::BehindCursor => self.editor.document.move_to(text.next(cursor).min(end)),
            InsertPlace::FirstText => self.editor.document.move_to(first_text(text, cursor)),
            InsertPlace::LineEnd => self.editor.document.move_to(end),
            InsertPlace::LineBelow => {
                self.editor.document.edit(end..end, line_feed, ChangeKind::Other);
            }
            InsertPlace::LineAbove => {
                self.editor.document.edit(start..start, line_feed, ChangeKind::Other);
                self.editor.document.move_to(start);
            }
        }
    }

    /// Inserts the text of an insertion as often as the count before it says.
    fn repeat_insertion(&mut self) {
        let Some(RepeatedInsertion { further, place, inserted }) = self.editor.vi.repeated.take()
        else {
            return;
        };
        for _ in 0..further {
            match place {
                InsertPlace::LineBelow | InsertPlace::LineAbove => {
                    self.insert_recorded(&RecordedInput::Fragment(Fragment::plain('\n')));
                }
                InsertPlace::AtCursor
                | InsertPlace::BehindCursor
                | InsertPlace::FirstText
                | InsertPlace::LineEnd => {}
            }
            for input in &inserted {
                self.insert_recorded(input);
            }
        }
    }

    /// Processes recorded input of the insert mode.
    fn insert_recorded(&mut self, input: &RecordedInput) {
        match input {
            RecordedInput::Key(key) => {
                self.editor.on_text_key(*key);
            }
            RecordedInput::Fragment(fragment) => {
                let cursor = self.editor.document.cursor();
                self.editor.document.edit(cursor..cursor, fragment.clone(), ChangeKind::Other);
            }
        }
    }

    fn put(&mut self, direction: ViDirection, times: usize) {
        let Some(KilledText { fragment, shape }) = self.editor.kill_ring.last().cloned() else {
            return;
        };
        let (text, cursor) = (self.editor.document.text(), self.editor.document.cursor());
        let (start, end) = (text.line_start(cursor), text.line_end(cursor));
        let times = times.min(MOST_PUT_BYTES / fragment.len().max(1)).max(1);
        let line_feed = Fragment::plain('\n');
        let mut inserted = Fragment::default();
        for _ in 0..times {
            match (shape, direction) {
                (KilledShape::Characters, ViDirection::Forward | ViDirection::Backward) => {
                    inserted.append(&fragment);
                }
                (KilledShape::Lines, ViDirection::Forward) => {
                    inserted.append(&line_feed);
                    inserted.append(&fragment);
                }
                (KilledShape::Lines, ViDirection::Backward) => {
                    inserted.append(&fragment);
                    inserted.append(&line_feed);
                }
            }
        }
        let at = match (shape, direction) {
            (KilledShape::Characters, ViDirection::Forward) => text.next(cursor).min(end),
            (KilledShape::Characters, ViDirection::Backward) => cursor,
            (KilledShape::Lines, ViDirection::Forward) => end,
            (KilledShape::Lines, ViDirection::Backward) => start,
        };
        self.editor.document.close_group();
        self.editor.document.edit(at..at, inserted, ChangeKind::Other);
        let text = self.editor.document.text();
        let position = match (shape, direction) {
            (KilledShape::Characters, ViDirection::Forward | ViDirection::Backward) => {
                text.previous(self.editor.document.cursor())
            }
            (KilledShape::Lines, ViDirection::Forward) => first_text(text, at + 1),
            (KilledShape::Lines, ViDirection::Backward) => first_text(text, at),
        };
        self.editor.document.move_to(position);
    }

    /// Replaces units by a character, if the line has as many.
    fn replace_units(&mut self, character: char, times: usize) {
        let (text, cursor) = (self.editor.document.text(), self.editor.document.cursor());
        let end = text.line_end(cursor);
        let replaced: Vec<_> = text.units(cursor..end).take(times).collect();
        let Some(last) = replaced.last().filter(|_| replaced.len() == times) else { return };
        let range = cursor..last.end;
        let inserted =
            if character == '\n' { "\n".to_owned() } else { character.to_string().repeat(times) };
        self.editor.document.close_group();
        self.editor.document.edit(range, Fragment::plain(inserted), ChangeKind::Other);
        let text = self.editor.document.text();
        if character != '\n' {
            self.editor.document.move_to(text.previous(self.editor.document.cursor()));
        }
    }

    /// Repeats the last change, with another count if there is one.
    fn repeat_change(&mut self, count: Option<usize>) {
        if self.editor.vi.recording == RecordingState::Replaying {
            return;
        }
        let change = self.editor.vi.last_change.clone();
        let is_digit = |input: &&RecordedInput| match input {
            RecordedInput::Key(key) => matches!(key.code, KeyCode::Char('0'..='9')),
            RecordedInput::Fragment(_) => false,
        };
        let digits = match count {
            Some(_) => change.iter().take_while(is_digit).count(),
            None => 0,
        };
        self.editor.vi.drop_recorded();
        self.editor.vi.recording = RecordingState::Replaying;
        let count = count.map(|count| count.to_string()).unwrap_or_default();
        let count = count.chars().map(|digit| RecordedInput::Key(Key::char(digit)));
        for input in count.chain(change.into_iter().skip(digits)) {
            match input {
                RecordedInput::Key(key) => {
                    self.on_vi_key(key);
                }
                RecordedInput::Fragment(fragment) => {
                    self.editor.vi.record_text(&fragment);
                    self.insert_recorded(&RecordedInput::Fragment(fragment));
                }
            }
        }
        self.editor.vi.recording = RecordingState::Off;
    }
}

/// Returns true for commands that are repeated by `.`.
fn is_change(command: ViCommand) -> bool {
    match command {
        ViCommand::Operate(operator, _) => operator != ViOperator::Yank,
        ViCommand::Insert(_) | ViCommand::Put(_) | ViCommand::Replace(_) => true,
        ViCommand::Move(_)
        | ViCommand::Undo
        | ViCommand::Redo
        | ViCommand::Repeat
        | ViCommand::Editor(_) => false,
    }
}
