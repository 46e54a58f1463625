//! The keys of vi's normal mode: a parser that makes commands of counts, operators, motions and text objects.

use super::key_bindings::{self, EditorCommand};
use crate::keys::{Key, KeyCode};

/// Maximum count of a command.
const MOST_TIMES: usize = 1000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ViOperator {
    Delete,
    Change,
    Yank,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WordKind {
    /// Letters, or punctuation.
    Small,
    /// Everything but blanks.
    Big,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ViDirection {
    Forward,
    Backward,
}

impl ViDirection {
    pub(super) fn reversed(self) -> Self {
        match self {
            Self::Forward => Self::Backward,
            Self::Backward => Self::Forward,
        }
    }
}

/// Place relative to the character that is sought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FindPlace {
    /// At the character.
    At,
    /// On the near side of it.
    Before,
    /// On the near side of the first one that is not next to the cursor.
    BeforeFurther,
}

/// A character that is sought in the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CharacterFind {
    pub(super) direction: ViDirection,
    pub(super) place: FindPlace,
    pub(super) character: char,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ViMotion {
    Left,
    Right,
    Up,
    Down,
    WordForward(WordKind),
    WordBackward(WordKind),
    WordEnd(WordKind),
    LineStart,
    FirstText,
    LineEnd,
    FirstLine,
    LastLine,
    Find(CharacterFind),
    /// Repeats the last find, in its direction or the other one.
    FindAgain(ViDirection),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ObjectScope {
    Inner,
    /// With the quotes and the blanks around it.
    Around,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TextObject {
    Word(ObjectScope, WordKind),
    Quoted(ObjectScope, char),
}

/// Target of an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OperatorTarget {
    Motion(ViMotion),
    Lines,
    Object(TextObject),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum InsertPlace {
    AtCursor,
    BehindCursor,
    FirstText,
    LineEnd,
    LineBelow,
    LineAbove,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ViCommand {
    Move(ViMotion),
    Operate(ViOperator, OperatorTarget),
    Insert(InsertPlace),
    /// Inserts the killed text behind the cursor or before it.
    Put(ViDirection),
    Replace(char),
    Undo,
    Redo,
    /// Repeats the last change.
    Repeat,
    /// A command that is the same in both styles.
    Editor(EditorCommand),
}

/// Role of the next key.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum ExpectedKey {
    #[default]
    Command,
    /// After g.
    Prefixed,
    Find(ViDirection, FindPlace),
    Replacement,
    Object(ObjectScope),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ParseOutcome {
    Incomplete,
    Complete { command: ViCommand, count: Option<usize> },
    Unknown,
}

/// A command that is being typed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ViParser {
    count: Option<usize>,
    /// The operator, with the count before it.
    operator: Option<(ViOperator, Option<usize>)>,
    expected: ExpectedKey,
}

impl ViParser {
    /// Returns true if the start of a command was typed.
    pub(super) fn is_pending(&self) -> bool {
        *self != Self::default()
    }

    /// Processes a key.
    pub(super) fn push(&mut self, key: Key) -> ParseOutcome {
        let is_modified = key.modifiers.ctrl || key.modifiers.alt;
        let outcome = if let KeyCode::Char(character) = key.code
            && !is_modified
        {
            self.push_character(character)
        } else if self.expected == ExpectedKey::Replacement && key == Key::plain(KeyCode::Enter) {
            self.complete(ViCommand::Replace('\n'))
        } else {
            self.push_other(key)
        };
        match outcome {
            ParseOutcome::Incomplete => {}
            ParseOutcome::Complete { .. } | ParseOutcome::Unknown => *self = Self::default(),
        }
        outcome
    }

    /// Processes a key that is no character.
    fn push_other(&self, key: Key) -> ParseOutcome {
        if self.expected != ExpectedKey::Command {
            return ParseOutcome::Unknown;
        }
        let is_modified = key.modifiers.ctrl || key.modifiers.alt;
        let motion = match key.code {
            KeyCode::Left | KeyCode::Backspace => ViMotion::Left,
            KeyCode::Right => ViMotion::Right,
            KeyCode::Up => ViMotion::Up,
            KeyCode::Down => ViMotion::Down,
            KeyCode::Home => ViMotion::LineStart,
            KeyCode::End => ViMotion::LineEnd,
            KeyCode::Delete if self.operator.is_none() => {
                let target = OperatorTarget::Motion(ViMotion::Right);
                return self.complete(ViCommand::Operate(ViOperator::Delete, target));
            }
            KeyCode::Char('r') if key == Key::ctrl('r') => {
                return self.complete(ViCommand::Redo);
            }
            KeyCode::Char(_)
            | KeyCode::Enter
            | KeyCode::Tab
            | KeyCode::BackTab
            | KeyCode::Delete
            | KeyCode::Insert
            | KeyCode::PageUp
            | KeyCode::PageDown
            | KeyCode::Escape
            | KeyCode::Function(_) => return self.editor_command(key),
        };
        if is_modified { self.editor_command(key) } else { self.motion(motion) }
    }

    /// Returns the command of a key that does not change the text.
    fn editor_command(&self, key: Key) -> ParseOutcome {
        let Some(command) = key_bindings::command(key) else { return ParseOutcome::Unknown };
        match command {
            EditorCommand::Enter
            | EditorCommand::Move(_)
            | EditorCommand::Up
            | EditorCommand::Down
            | EditorCommand::Undo
            | EditorCommand::Redo
            | EditorCommand::Search(_)
            | EditorCommand::Prefix
            | EditorCommand::EraseOrEnd
            | EditorCommand::Effect(_) => self.complete(ViCommand::Editor(command)),
            EditorCommand::Insert(_)
            | EditorCommand::LineFeed
            | EditorCommand::Erase(_)
            | EditorCommand::Kill(_)
            | EditorCommand::Yank
            | EditorCommand::YankOlder
            | EditorCommand::TransposeCharacters
            | EditorCommand::TransposeWords
            | EditorCommand::ChangeCase(_) => ParseOutcome::Unknown,
        }
    }

    fn push_character(&mut self, character: char) -> ParseOutcome {
        match self.expected {
            ExpectedKey::Command => self.push_command(character),
            ExpectedKey::Prefixed if character == 'g' => self.motion(ViMotion::FirstLine),
            ExpectedKey::Prefixed => ParseOutcome::Unknown,
            ExpectedKey::Find(direction, place) => {
                self.motion(ViMotion::Find(CharacterFind { direction, place, character }))
            }
            ExpectedKey::Replacement => self.complete(ViCommand::Replace(character)),
            ExpectedKey::Object(scope) => {
                let object = match character {
                    'w' => TextObject::Word(scope, WordKind::Small),
                    'W' => TextObject::Word(scope, WordKind::Big),
                    '"' | '\'' | '`' => TextObject::Quoted(scope, character),
                    _ => return ParseOutcome::Unknown,
                };
                self.operate(OperatorTarget::Object(object))
            }
        }
    }

    fn push_command(&mut self, character: char) -> ParseOutcome {
        if let Some(digit) = character.to_digit(10)
            && (digit > 0 || self.count.is_some())
        {
            let count = self.count.unwrap_or(0).saturating_mul(10);
            self.count = Some(count.saturating_add(digit as usize).min(MOST_TIMES));
            return ParseOutcome::Incomplete;
        }
        if let Some(motion) = motion_of(character) {
            return self.motion(motion);
        }
        let expected = match character {
            'g' => ExpectedKey::Prefixed,
            'f' => ExpectedKey::Find(ViDirection::Forward, FindPlace::At),
            'F' => ExpectedKey::Find(ViDirection::Backward, FindPlace::At),
            't' => ExpectedKey::Find(ViDirection::Forward, FindPlace::Before),
            'T' => ExpectedKey::Find(ViDirection::Backward, FindPlace::Before),
            'r' if self.operator.is_none() => ExpectedKey::Replacement,
            'i' if self.operator.is_some() => ExpectedKey::Object(ObjectScope::Inner),
            'a' if self.operator.is_some() => ExpectedKey::Object(ObjectScope::Around),
            _ => return self.push_operator(character),
        };
        self.expected = expected;
        ParseOutcome::Incomplete
    }

    fn push_operator(&mut self, character: char) -> ParseOutcome {
        let operator = match character {
            'd' => ViOperator::Delete,
            'c' => ViOperator::Change,
            'y' => ViOperator::Yank,
            _ if self.operator.is_none() => {
                return match simple_command(character) {
                    Some(command) => self.complete(command),
                    None => ParseOutcome::Unknown,
                };
            }
            _ => return ParseOutcome::Unknown,
        };
        match self.operator {
            None => {
                self.operator = Some((operator, self.count.take()));
                ParseOutcome::Incomplete
            }
            Some((pending, _)) if pending == operator => self.operate(OperatorTarget::Lines),
            Some(_) => ParseOutcome::Unknown,
        }
    }

    fn motion(&self, motion: ViMotion) -> ParseOutcome {
        match self.operator {
            None => self.complete(ViCommand::Move(motion)),
            Some(_) => self.operate(OperatorTarget::Motion(motion)),
        }
    }

    fn operate(&self, target: OperatorTarget) -> ParseOutcome {
        match self.operator {
            Some((operator, _)) => self.complete(ViCommand::Operate(operator, target)),
            None => ParseOutcome::Unknown,
        }
    }

    fn complete(&self, command: ViCommand) -> ParseOutcome {
        let before_operator = self.operator.and_then(|(_, count)| count);
        let count = match (before_operator, self.count) {
            (Some(before), Some(count)) => Some((before * count).min(MOST_TIMES)),
            (before, count) => before.or(count),
        };
        ParseOutcome::Complete { command, count }
    }
}

fn motion_of(character: char) -> Option<ViMotion> {
    let motion = match character {
        'h' => ViMotion::Left,
        'l' | ' ' => ViMotion::Right,
        'k' => ViMotion::Up,
        'j' => ViMotion::Down,
        'w' => ViMotion::WordForward(WordKind::Small),
        'W' => ViMotion::WordForward(WordKind::Big),
        'b' => ViMotion::WordBackward(WordKind::Small),
        'B' => ViMotion::WordBackward(WordKind::Big),
        'e' => ViMotion::WordEnd(WordKind::Small),
        'E' => ViMotion::WordEnd(WordKind::Big),
        '0' => ViMotion::LineStart,
        '^' => ViMotion::FirstText,
        '$' => ViMotion::LineEnd,
        'G' => ViMotion::LastLine,
        ';' => ViMotion::FindAgain(ViDirection::Forward),
        ',' => ViMotion::FindAgain(ViDirection::Backward),
        _ => return None,
    };
    Some(motion)
}

/// Returns the command of a character that needs no further one.
fn simple_command(character: char) -> Option<ViCommand> {
    let operate = |operator, motion| ViCommand::Operate(operator, OperatorTarget::Motion(motion));
    let command = match character {
        'i' => ViCommand::Insert(InsertPlace::AtCursor),
        'I' => ViCommand::Insert(InsertPlace::FirstText),
        'a' => ViCommand::Insert(InsertPlace::BehindCursor),
        'A' => ViCommand::Insert(InsertPlace::LineEnd),
        'o' => ViCommand::Insert(InsertPlace::LineBelow),
        'O' => ViCommand::Insert(InsertPlace::LineAbove),
        'x' => operate(ViOperator::Delete, ViMotion::Right),
        'X' => operate(ViOperator::Delete, ViMotion::Left),
        's' => operate(ViOperator::Change, ViMotion::Right),
        'D' => operate(ViOperator::Delete, ViMotion::LineEnd),
        'C' => operate(ViOperator::Change, ViMotion::LineEnd),
        'S' => ViCommand::Operate(ViOperator::Change, OperatorTarget::Lines),
        'Y' => ViCommand::Operate(ViOperator::Yank, OperatorTarget::Lines),
        'p' => ViCommand::Put(ViDirection::Forward),
        'P' => ViCommand::Put(ViDirection::Backward),
        'u' => ViCommand::Undo,
        '.' => ViCommand::Repeat,
        _ => return None,
    };
    Some(command)
}
