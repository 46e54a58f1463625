//! The answers to an open question, as a list in which one key gives each.
//!
//! A question can appear while the user types words for the agent, and such keys must not answer it. So the list takes keys
//! only after a moment without any ([`QUIET`]); until then they go to the prompt as before, and the list is shown dimly.
//! Enter behind a text that is an answer counts as one at any time, if nothing was typed before the question.

use std::time::{Duration, Instant};

use crow_console::{QuestionOption, TerminalQuestion};
use unicode_width::UnicodeWidthStr as _;

use crate::{
    editor::EditorSnapshot,
    keys::{Key, KeyCode, KeyModifiers},
    line_layout::clipped_line,
    row_text::wrapped,
    styled_text::{Emphasis, StyledLine, TextLook, TextRole},
};

/// Time without keys after which they answer the question.
const QUIET: Duration = Duration::from_millis(500);
/// Maximum number of rows for questions that wait.
const MOST_WAITING: usize = 4;
/// Key that begins an answer in words.
const WORDS_KEY: char = 't';

/// Effect of a key on the list of answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum QuestionKeyEffect {
    /// The key is for the prompt.
    NotTaken,
    /// The list has changed, or the key means nothing.
    Redraw,
    /// The line that answers the question, see `QuestionQueue::answer`.
    Answer(String),
    /// An answer in words begins, or its input is abandoned.
    WordsMode(bool),
    /// The next question is to be answered before this one.
    PutOff,
}

/// Titles of the open question and of the waiting ones.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct QuestionTitles {
    /// Title of the open question.
    pub(super) title: String,
    /// Titles of the waiting questions, in their order.
    pub(super) waiting: Vec<String>,
}

/// One row of the list.
#[derive(Debug, Clone, PartialEq, Eq)]
enum PanelEntry {
    Option(QuestionOption),
    Words(&'static str),
}

/// Direction in which the selection moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StepDirection {
    Forward,
    Back,
}

/// Input of an answer in words at the prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WordsInput {
    /// It begins with a key.
    Closed,
    /// It begins by itself: only words answer the question.
    Wanted,
    Open,
}

/// The list of answers to an open question.
#[derive(Debug)]
pub(super) struct QuestionPanel {
    entries: Vec<PanelEntry>,
    takes_several: bool,
    /// Numbers of the chosen entries, if several can be chosen.
    chosen: Vec<usize>,
    /// The entry that enter gives; none until one is chosen.
    selected: Option<usize>,
    words: WordsInput,
    /// Text of the prompt before the answer in words.
    draft: EditorSnapshot,
    /// True if the prompt had no text when the question appeared.
    had_no_draft: bool,
    /// Time of the last key for the prompt, or of the question.
    last_key: Instant,
}

impl QuestionPanel {
    /// Makes the list of a question that appears at this time, while the prompt has this text.
    pub(super) fn new(question: &TerminalQuestion, draft: &str, now: Instant) -> Self {
        let mut entries: Vec<PanelEntry> =
            question.options().into_iter().map(PanelEntry::Option).collect();
        entries.extend(question.words_label().map(PanelEntry::Words));
        let is_only_for_words = !question.has_choices();
        if is_only_for_words {
            entries.reverse();
        }
        Self {
            entries,
            takes_several: question.takes_several(),
            chosen: Vec::new(),
            selected: None,
            words: if is_only_for_words { WordsInput::Wanted } else { WordsInput::Closed },
            draft: EditorSnapshot::default(),
            had_no_draft: draft.is_empty(),
            last_key: now,
        }
    }

    /// Returns true if keys answer the question at this time.
    pub(super) fn takes_keys(&self, now: Instant) -> bool {
        now.duration_since(self.last_key) >= QUIET
    }

    /// Returns true if the prompt is to take the answer by itself now: only words answer the question.
    pub(super) fn wants_words(&self, now: Instant) -> bool {
        self.words == WordsInput::Wanted && self.takes_keys(now)
    }

    /// Returns true while an answer in words is typed at the prompt.
    pub(super) fn is_typing_words(&self) -> bool {
        self.words == WordsInput::Open
    }

    /// Begins an answer in words at the prompt, whose draft rests meanwhile.
    pub(super) fn begin_words(&mut self, draft: EditorSnapshot) {
        (self.words, self.draft) = (WordsInput::Open, draft);
    }

    /// Ends an answer in words. Returns the draft of the prompt.
    pub(super) fn end_words(&mut self) -> EditorSnapshot {
        self.words = WordsInput::Closed;
        std::mem::take(&mut self.draft)
    }

    /// Processes a key, while the prompt has this text.
    pub(super) fn on_key(&mut self, key: Key, text: &str, now: Instant) -> QuestionKeyEffect {
        if self.is_typing_words() {
            return match key.code {
                KeyCode::Escape => QuestionKeyEffect::WordsMode(false),
                _ => QuestionKeyEffect::NotTaken,
            };
        }
        if !self.takes_keys(now) {
            if key == Key::plain(KeyCode::Enter) && self.had_no_draft {
                let typed = text.trim().to_ascii_lowercase();
                if let Some(option) = self.options().find(|option| option.line == typed) {
                    return QuestionKeyEffect::Answer(option.line.clone());
                }
            }
            self.last_key = now;
            return QuestionKeyEffect::NotTaken;
        }
        // As long as the prompt has a text, keys continue it, unless the list was chosen.
        if !text.is_empty() && self.selected.is_none() && key != Key::plain(KeyCode::Tab) {
            return QuestionKeyEffect::NotTaken;
        }
        match (key.code, key.modifiers) {
            (KeyCode::Up, KeyModifiers::NONE) | (KeyCode::Char('p'), KeyModifiers::CTRL) => {
                self.move_selection(StepDirection::Back)
            }
            (KeyCode::Down | KeyCode::Tab, KeyModifiers::NONE)
            | (KeyCode::Char('n'), KeyModifiers::CTRL) => {
                self.move_selection(StepDirection::Forward)
            }
            (KeyCode::Right, KeyModifiers::NONE) => QuestionKeyEffect::PutOff,
            (KeyCode::Enter, KeyModifiers::NONE) => self.enter(),
            (KeyCode::Char(' '), KeyModifiers::NONE) if self.takes_several => self.toggle(),
            (KeyCode::Char(char), KeyModifiers::NONE) => self.on_character(char),
            _ => QuestionKeyEffect::NotTaken,
        }
    }

    fn options(&self) -> impl Iterator<Item = &QuestionOption> {
        self.entries.iter().filter_map(|entry| match entry {
            PanelEntry::Option(option) => Some(option),
            PanelEntry::Words(_) => None,
        })
    }

    fn move_selection(&mut self, direction: StepDirection) -> QuestionKeyEffect {
        let last = self.entries.len().saturating_sub(1);
        self.selected = Some(match (self.selected, direction) {
            (None, StepDirection::Forward) => 0,
            (Some(selected), StepDirection::Forward) if selected == last => 0,
            (Some(selected), StepDirection::Forward) => selected + 1,
            (None | Some(0), StepDirection::Back) => last,
            (Some(selected), StepDirection::Back) => selected - 1,
        });
        QuestionKeyEffect::Redraw
    }

    fn selected_entry(&self) -> Option<&PanelEntry> {
        self.entries.get(self.selected?)
    }

    fn on_character(&mut self, character: char) -> QuestionKeyEffect {
        let character = character.to_ascii_lowercase();
        let position = self.entries.iter().position(|entry| match entry {
            PanelEntry::Option(option) => option.key == character,
            PanelEntry::Words(_) => character == WORDS_KEY,
        });
        // Other characters are no words for the agent: the question has to be answered first.
        let Some(position) = position else { return QuestionKeyEffect::Redraw };
        self.selected = Some(position);
        if self.takes_several && character.is_ascii_digit() { self.toggle() } else { self.choose() }
    }

    fn toggle(&mut self) -> QuestionKeyEffect {
        let (entry, selected) = (self.selected_entry(), self.selected);
        match (entry, selected) {
            (Some(PanelEntry::Option(option)), Some(number)) if option.key.is_ascii_digit() => {
                match self.chosen.iter().position(|chosen| *chosen == number) {
                    Some(position) => drop(self.chosen.remove(position)),
                    None => self.chosen.push(number),
                }
                QuestionKeyEffect::Redraw
            }
            (_, _) => QuestionKeyEffect::Redraw,
        }
    }

    fn enter(&mut self) -> QuestionKeyEffect {
        if self.chosen.is_empty() {
            return self.choose();
        }
        self.chosen.sort_unstable();
        let lines: Vec<&str> = self
            .chosen
            .iter()
            .filter_map(|number| match self.entries.get(*number) {
                Some(PanelEntry::Option(option)) => Some(option.line.as_str()),
                Some(PanelEntry::Words(_)) | None => None,
            })
            .collect();
        QuestionKeyEffect::Answer(lines.join(","))
    }

    fn choose(&self) -> QuestionKeyEffect {
        match self.selected_entry() {
            Some(PanelEntry::Option(option)) => QuestionKeyEffect::Answer(option.line.clone()),
            Some(PanelEntry::Words(_)) => QuestionKeyEffect::WordsMode(true),
            None => QuestionKeyEffect::Redraw,
        }
    }

    /// Returns the rows of the list, at most `most` of them: with fewer rows than answers, one row names the keys. `text` is
    /// that of the prompt.
    pub(super) fn rows(
        &self,
        columns: usize,
        most: usize,
        titles: &QuestionTitles,
        text: &str,
        now: Instant,
    ) -> Vec<StyledLine> {
        let has_draft = !text.is_empty();
        let is_live = self.takes_keys(now) && !self.is_typing_words();
        let mut title = StyledLine::default();
        let keys = if self.takes_several { "space chooses, enter answers" } else { "enter" };
        if self.is_typing_words() {
            title.push("enter sends your words, esc goes back", TextRole::Dim);
        } else if is_live && has_draft && self.selected.is_none() {
            title
                .push("tab goes to the answers; other keys go on with your text", TextRole::Accent);
        } else if is_live {
            title.push("press a key, or ↑↓ and ", TextRole::Accent);
            title.push(keys, TextRole::Accent);
        } else {
            title.push("keys answer when you stop typing", TextRole::Dim);
        }
        let waiting = titles.waiting.len();
        if waiting > 0 && is_live {
            title.push(format!(" · → next of {}", waiting + 1), TextRole::Accent);
        } else if waiting > 0 {
            title.push(format!(" · {waiting} more"), TextRole::Dim);
        }
        if self.is_typing_words() {
            return vec![clipped_line(&title, columns)];
        }
        let mut rows = Vec::new();
        if waiting > 0 {
            // With several of them on the screen, it must be clear which one the answer is for.
            let mut subject = StyledLine::default();
            subject.push(format!("? {}", titles.title), TextRole::Heading);
            rows.push(clipped_line(&subject, columns));
        }
        rows.push(clipped_line(&title, columns));
        for (number, entry) in self.entries.iter().enumerate() {
            let is_selected = is_live && self.selected == Some(number);
            let role = match (is_live, is_selected) {
                (_, true) => TextRole::Accent,
                (true, false) => TextRole::Plain,
                (false, false) => TextRole::Dim,
            };
            let emphasis = if is_selected { Emphasis::BOLD } else { Emphasis::NONE };
            let look = TextLook { role, emphasis, link: None };
            let mark = if is_selected { "› " } else { "  " };
            let box_mark = match (self.takes_several, self.chosen.contains(&number)) {
                (false, _) => "",
                (true, true) => "[x] ",
                (true, false) => "[ ] ",
            };
            let (key, label) = match entry {
                PanelEntry::Option(option) => (option.key, option.label.as_str()),
                PanelEntry::Words(label) => (WORDS_KEY, *label),
            };
            // The whole rule that an answer makes is shown.
            let first = format!("{mark}{box_mark}{key}  ");
            let indent = " ".repeat(first.width());
            let parts = wrapped(label, columns.saturating_sub(first.width()).max(1));
            for (part_number, part) in parts.iter().enumerate() {
                let mut row = StyledLine::default();
                row.push(if part_number == 0 { &first } else { &indent }, look.clone());
                row.push(part, look.clone());
                rows.push(clipped_line(&row, columns));
            }
        }
        if rows.len() > most {
            let compact = clipped_line(&self.compact_row(is_live), columns);
            // The subject stays, if there is one.
            rows.truncate(most.saturating_sub(1).min(usize::from(waiting > 0)));
            rows.push(compact);
            return rows;
        }
        rows.extend(waiting_rows(&titles.waiting, columns, most - rows.len()));
        rows
    }

    /// Returns the answers in one row, for small terminals.
    fn compact_row(&self, is_live: bool) -> StyledLine {
        let role = if is_live { TextRole::Accent } else { TextRole::Dim };
        let parts: Vec<String> = self
            .entries
            .iter()
            .map(|entry| match entry {
                PanelEntry::Option(option) if option.label.len() <= 4 => {
                    format!("{} {}", option.key, option.label)
                }
                PanelEntry::Option(option) => option.key.to_string(),
                PanelEntry::Words(_) => format!("{WORDS_KEY} words"),
            })
            .collect();
        let mut row = StyledLine::default();
        row.push(format!("? {}", parts.join(" · ")), role);
        row
    }
}

/// Returns rows for the questions that wait, at most `most`; the last one counts those that have none.
fn waiting_rows(waiting: &[String], columns: usize, most: usize) -> Vec<StyledLine> {
    let shown = waiting.len().min(most.min(MOST_WAITING));
    let named = if shown < waiting.len() { shown.saturating_sub(1) } else { shown };
    let mut texts: Vec<String> =
        waiting.iter().take(named).map(|title| format!("  then: {title}")).collect();
    if named < shown {
        texts.push(format!("  and {} more", waiting.len() - named));
    }
    let row = |text: String| {
        let mut row = StyledLine::default();
        row.push(text, TextRole::Dim);
        clipped_line(&row, columns)
    };
    texts.into_iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use crow_console::QuestionQueue;
    use crow_core::{
        capability::{QuestionChoice, UserQuestion},
        event::AgentEvent,
        ids::{CallId, RequestId},
        permission::{Grant, GrantOffer},
        tool::Subject,
    };

    use super::*;

    fn permission() -> AgentEvent {
        AgentEvent::PermissionRequest {
            request_id: RequestId::new("r"),
            call_id: CallId::new("c"),
            tool: "bash".into(),
            title: "cargo check".into(),
            subject: Subject::Nothing,
            reason: "it runs a command".into(),
            offers: vec![GrantOffer {
                label: "`cargo check …`".into(),
                grants: vec![Grant::Tool("bash".into())],
            }],
        }
    }

    fn choice(labels: &[&str], multiple: bool) -> AgentEvent {
        let choices =
            labels.iter().map(|label| QuestionChoice { label: (*label).into(), description: None });
        AgentEvent::QuestionAsked {
            request_id: RequestId::new("r"),
            call_id: CallId::new("c"),
            question: UserQuestion {
                text: "Which?".into(),
                header: None,
                choices: choices.collect(),
                multiple,
                free_text: true,
            },
        }
    }

    fn panel(event: &AgentEvent, draft: &str, now: Instant) -> QuestionPanel {
        let mut questions = QuestionQueue::default();
        questions.on_event(event);
        QuestionPanel::new(questions.open_next().expect("an open question"), draft, now)
    }

    fn titles(waiting: usize) -> QuestionTitles {
        let waiting = (1..=waiting).map(|number| format!("question {number}")).collect();
        QuestionTitles { title: "cargo check".to_owned(), waiting }
    }

    fn answer(line: &str) -> QuestionKeyEffect {
        QuestionKeyEffect::Answer(line.to_owned())
    }

    #[test]
    fn one_key_gives_each_answer() {
        let start = Instant::now();
        let later = start + QUIET;
        let table = [
            ('y', answer("y")),
            ('Y', answer("y")),
            ('a', answer("a")),
            ('n', answer("n")),
            ('t', QuestionKeyEffect::WordsMode(true)),
            ('x', QuestionKeyEffect::Redraw),
        ];
        for (key, expected) in table {
            let effect = panel(&permission(), "", start).on_key(Key::char(key), "", later);
            assert_eq!(effect, expected, "{key}");
        }
    }

    #[test]
    fn keys_go_to_the_prompt_until_none_was_typed_for_a_moment() {
        let start = Instant::now();
        let mut panel = panel(&permission(), "", start);
        let at = |millis| start + Duration::from_millis(millis);
        for millis in [0, 499, 900, 1300] {
            let effect = panel.on_key(Key::char('y'), "", at(millis));
            assert_eq!(effect, QuestionKeyEffect::NotTaken, "{millis}");
        }
        assert_eq!(panel.on_key(Key::char('y'), "", at(1800)), answer("y"));
    }

    #[test]
    fn enter_behind_an_answer_counts_at_once_if_nothing_was_typed_before_the_question() {
        let start = Instant::now();
        let enter = Key::plain(KeyCode::Enter);
        let table = [
            ("", "y", answer("y")),
            ("", "A", answer("a")),
            ("", "yes, and run it", QuestionKeyEffect::NotTaken),
            ("y", "y", QuestionKeyEffect::NotTaken),
        ];
        for (draft, text, expected) in table {
            let effect = panel(&permission(), draft, start).on_key(enter, text, start);
            assert_eq!(effect, expected, "{draft:?} {text:?}");
        }
    }

    #[test]
    fn the_selection_moves_around_and_enter_gives_it() {
        let start = Instant::now();
        let (now, enter) = (start + QUIET, Key::plain(KeyCode::Enter));
        let mut panel = panel(&permission(), "", start);
        let (up, down) = (Key::plain(KeyCode::Up), Key::plain(KeyCode::Down));
        assert_eq!(panel.on_key(enter, "", now), QuestionKeyEffect::Redraw, "nothing is chosen");
        for key in [down, down, down, up, up, up] {
            assert_eq!(panel.on_key(key, "", now), QuestionKeyEffect::Redraw);
        }
        assert_eq!(panel.on_key(enter, "", now), QuestionKeyEffect::WordsMode(true));
        panel.on_key(up, "", now);
        assert_eq!(panel.on_key(enter, "", now), answer("n"));
    }

    #[test]
    fn several_choices_are_toggled_and_sent_together_in_order() {
        let start = Instant::now();
        let (now, enter) = (start + QUIET, Key::plain(KeyCode::Enter));
        let mut panel = panel(&choice(&["a", "b", "c"], true), "", start);
        for key in ['3', '1', '2', '2'] {
            assert_eq!(panel.on_key(Key::char(key), "", now), QuestionKeyEffect::Redraw);
        }
        assert_eq!(panel.on_key(enter, "", now), answer("1,3"));
        let rows: Vec<String> = panel
            .rows(80, 10, &QuestionTitles::default(), "", now)
            .iter()
            .map(|row| row.text().trim_end().to_owned())
            .collect();
        let expected = [
            "press a key, or ↑↓ and space chooses, enter answers",
            "  [x] 1  a",
            "› [ ] 2  b",
            "  [x] 3  c",
            "  [ ] -  no answer",
            "  [ ] t  another answer",
        ];
        assert_eq!(rows, expected);
    }

    #[test]
    fn one_choice_is_given_by_its_number() {
        let start = Instant::now();
        let mut panel = panel(&choice(&["a", "b", "c"], false), "", start);
        assert_eq!(panel.on_key(Key::char('2'), "", start + QUIET), answer("2"));
    }

    #[test]
    fn a_question_without_choices_takes_words_by_itself_after_a_moment() {
        let start = Instant::now();
        let mut panel = panel(&choice(&[], false), "half", start);
        assert!(!panel.wants_words(start) && panel.wants_words(start + QUIET));
        panel.begin_words(EditorSnapshot::default());
        assert!(!panel.wants_words(start + QUIET));
        panel.end_words();
        assert!(!panel.wants_words(start + QUIET), "the input was abandoned");
        let decline = panel.on_key(Key::char('-'), "", start + QUIET);
        assert_eq!(decline, answer("-"));
    }

    #[test]
    fn keys_are_for_the_prompt_while_words_are_typed() {
        let start = Instant::now();
        let mut panel = panel(&permission(), "", start);
        panel.begin_words(EditorSnapshot::default());
        let key = panel.on_key(Key::char('y'), "", start + QUIET);
        assert_eq!(key, QuestionKeyEffect::NotTaken);
        let escape = panel.on_key(Key::plain(KeyCode::Escape), "because", start + QUIET);
        assert_eq!(escape, QuestionKeyEffect::WordsMode(false));
    }

    #[test]
    fn a_draft_goes_on_until_the_list_is_chosen() {
        let start = Instant::now();
        let (now, tab) = (start + QUIET, Key::plain(KeyCode::Tab));
        let mut panel = panel(&permission(), "fix it and ", start);
        for key in [Key::char('a'), Key::char('y'), Key::plain(KeyCode::Enter)] {
            assert_eq!(
                panel.on_key(key, "fix it and ", now),
                QuestionKeyEffect::NotTaken,
                "{key:?}"
            );
        }
        assert_eq!(panel.on_key(tab, "fix it and ", now), QuestionKeyEffect::Redraw);
        assert_eq!(panel.on_key(Key::char('n'), "fix it and ", now), answer("n"));
    }

    #[test]
    fn few_rows_show_the_keys_in_one() {
        let start = Instant::now();
        let panel = panel(&permission(), "", start);
        for (columns, most) in [(1, 1), (20, 2), (40, 3), (80, 4)] {
            let rows = panel.rows(columns, most, &titles(0), "", start + QUIET);
            assert!(rows.len() == 1 && rows[0].width() <= columns, "{rows:?}");
        }
        let rows = panel.rows(40, 3, &titles(0), "", start + QUIET);
        assert_eq!(rows[0].text(), "? y yes · a · n no · t words");
    }

    #[test]
    fn several_questions_are_a_list_with_the_open_one_above_its_answers() {
        let start = Instant::now();
        let panel = panel(&permission(), "", start);
        let rows = |waiting, most| -> Vec<String> {
            let rows = panel.rows(60, most, &titles(waiting), "", start + QUIET);
            rows.iter().map(StyledLine::text).collect()
        };
        let all = rows(2, 12);
        assert_eq!(all[0], "? cargo check");
        assert_eq!(all[1], "press a key, or ↑↓ and enter · → next of 3");
        assert_eq!(all[all.len() - 2..], ["  then: question 1", "  then: question 2"]);
        let many = rows(9, 12);
        assert_eq!(many[many.len() - 2..], ["  then: question 3", "  and 6 more"]);
        let few = rows(9, 2);
        assert_eq!(few.len(), 2, "{few:?}");
        assert_eq!(few[0], "? cargo check");
        let right = Key::plain(KeyCode::Right);
        let mut panel = panel;
        assert_eq!(panel.on_key(right, "", start + QUIET), QuestionKeyEffect::PutOff);
    }
}
