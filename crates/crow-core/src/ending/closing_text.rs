//! Classification of the last text of a run: an answer, or a promise, plan, question or unfounded claim.
//!
//! Models end runs with promises ("Let me update the tests."), plans, and questions, and some say that they changed
//! files that nobody changed. Which of these a text is follows from its last sentences, from whether the request asked
//! for work, and from what the run did. A finished answer must never be taken for one of them, so where the signs are
//! weak the text counts as an answer.
//!
//! The order of the rules matters: what the run changed counts first, then an announcement at the end, then questions,
//! then claims without calls, and at last the form of a plan. Polite offers after an answer ("Want me to …?") are left
//! out before the last sentence is looked at.

use std::borrow::Cow;

use regex::Regex;

use super::phrases::{
    ADMITS_FAILURE, ANNOUNCEMENT, ANNOUNCES_TASK, ANY_NEGATION, ASKS_FOR_QUESTION, ASKS_HOW,
    ASKS_TO_PROCEED, CALL_AS_TEXT, CHECK_REQUEST, CLEAR_ANNOUNCEMENT, CONDITION, DEMAND, DONE,
    DONE_WITHOUT_SPACES, ENDS_WITH_NEXT, ENDS_WITH_SOON, EXCUSE, FIRST_PERSON_PAST, GERUND,
    LIST_LINE, LOOK_ONLY, LOOKING_VERBS, NAMES_FAILURE, NEGATION, NO_ANNOUNCEMENT, NO_FAILURE,
    OFFER, OPTION, OTHER_WORK_REQUEST, OUTSIDE_OF_FILES, PLAN_HEADING, PROJECT, PROPOSAL,
    QUESTION_WORD, SAYS_FILES_CHANGED, SAYS_FILES_CHANGED_WITHOUT_SPACES, SAYS_LOOKED, SAYS_RAN,
    SAYS_TESTED, SAYS_VERIFIED, TELLS_FAILURE, TELLS_TO_SAVE, TEXT_REQUEST, UNDER_WAY,
    WORK_REQUEST,
};

/// Number of words from which a text before a question counts as an answer.
const WORDS_OF_ANSWER: usize = 45;
/// The same if calls ran.
const WORDS_OF_SHORT_ANSWER: usize = 30;
/// Number of words from which a text with a negation counts as the report of an attempt.
const WORDS_OF_REPORT: usize = 60;
/// Number of words from which a text without calls counts as an explanation, whatever its last sentence announces.
const WORDS_OF_EXPLANATION: usize = 40;
/// Maximum length in characters of a sentence that says in a few words what is under way.
const SHORT_SENTENCE: usize = 80;
/// Maximum length in characters of a text around a tool call that was written as text.
const TEXT_AROUND_CALL: usize = 200;

/// The last text of a run, with what it is judged by.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
pub struct ClosingText<'a> {
    /// The user's request.
    pub request: &'a str,
    /// The text.
    pub text: &'a str,
    /// Number of calls that ran.
    pub calls: usize,
    /// True if files were changed.
    pub has_changed_files: bool,
    /// True if a command ran.
    pub has_run_commands: bool,
    /// True if a command ran that may have changed something that is no file of the project.
    pub has_acted: bool,
    /// True if calls ran, and all of them only looked.
    pub has_only_looked: bool,
}

/// Kind of a closing text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClosingKind {
    /// An answer or a report.
    Answer,
    /// It announces work that was not done.
    Promise,
    /// It lists what would have to be done.
    Plan,
    /// It asks for something without which nothing can be done.
    Question,
    /// It reports work that no call of the run did.
    UnfoundedClaim,
}

impl ClosingText<'_> {
    /// Tells what the text is.
    pub fn kind(&self) -> ClosingKind {
        let (request, text) = (self.request.to_lowercase(), self.text.trim().to_lowercase());
        ClosingText { request: &request, text: &text, ..*self }.kind_in_lower_case()
    }

    /// The same for texts in lower case, as the phrases are.
    fn kind_in_lower_case(&self) -> ClosingKind {
        let text = self.text;
        if self.is_unread_call(text) {
            return ClosingKind::Promise;
        }
        let asks_for_work = asks_for_work(self.request);
        let wants_text = TEXT_REQUEST.is_match(self.request);
        let without_code = without_quoted_speech(&without_code(text, "\n"));
        let sentences = sentences(&without_code);
        let Some(reading) = TextFindings::new(&without_code, &sentences) else {
            let is_only_code = asks_for_work && self.did_nothing() && !wants_text;
            return if is_only_code { ClosingKind::Promise } else { ClosingKind::Answer };
        };
        if self.has_changed_files {
            let is_promise = reading.ends_with_announcement;
            return if is_promise { ClosingKind::Promise } else { ClosingKind::Answer };
        }
        // What looks like a question may be the text that was asked for.
        let only_asks = reading.only_asks && !ASKS_FOR_QUESTION.is_match(self.request);
        if self.calls == 0 && !reading.ends_with_announcement && !only_asks {
            let is_small_talk = !asks_for_work && self.request.split_whitespace().count() < 3;
            let needs_material = asks_for_work
                && reading.demands
                && reading.words < WORDS_OF_ANSWER
                && !text.contains("```");
            if is_small_talk || (wants_text && !needs_material) {
                return ClosingKind::Answer;
            }
            let is_short = reading.words < WORDS_OF_ANSWER && !text.contains("```");
            let asks_back = reading.asks_near_end && !reading.has_offer && !reading.says_done;
            if asks_for_work && !wants_text && is_short && asks_back {
                return ClosingKind::Question;
            }
        }
        if reading.ends_with_announcement && !ANNOUNCES_TASK.is_match(self.request) {
            let is_explanation =
                self.calls == 0 && (reading.words >= WORDS_OF_EXPLANATION || wants_text);
            if asks_for_work || !is_explanation {
                return ClosingKind::Promise;
            }
        }
        if asks_for_work && self.has_only_looked && !wants_text {
            return reading.kind_after_looks(text);
        }
        if asks_for_work { self.kind_for_work(&reading) } else { self.kind_for_question(&reading) }
    }

    fn did_nothing(&self) -> bool {
        self.calls == 0 && !self.has_changed_files
    }

    /// Returns true if the text is little else than a tool call that was not read as one.
    fn is_unread_call(&self, text: &str) -> bool {
        if !CALL_AS_TEXT.is_match(text) {
            return false;
        }
        let asks_about_calls = ["tool", "call", "json", "schema", "function", "format"];
        if asks_about_calls.iter().any(|word| self.request.contains(word)) {
            return false;
        }
        let around = match (text.find(['{', '<']), text.rfind(['}', '>'])) {
            (Some(start), Some(end)) if start < end => text.len() - (end - start),
            _ => text.len(),
        };
        around < TEXT_AROUND_CALL
    }

    /// The rules where the request asked for work and no file was changed.
    fn kind_for_work(&self, reading: &TextFindings) -> ClosingKind {
        if reading.announces && !reading.says_files_changed && !reading.negates {
            return ClosingKind::Promise;
        }
        let is_offer_after_work = reading.says_done && reading.has_offer;
        let is_report_with_offer =
            reading.negates && reading.words > WORDS_OF_REPORT && reading.has_offer;
        if reading.asks
            && (reading.asks_to_proceed || !is_offer_after_work)
            && !is_report_with_offer
        {
            return ClosingKind::Question;
        }
        let is_outside = OUTSIDE_OF_FILES.is_match(self.request);
        let is_claim = match self.calls {
            0 => reading.says_done,
            _ => reading.says_files_changed && !is_outside && !self.has_acted,
        };
        let is_unchecked = !self.has_run_commands && !self.has_acted && says_checked(self.text);
        let denies = reading.negates && !(self.calls == 0 && reading.claims_changes);
        if (is_claim || is_unchecked) && !denies {
            ClosingKind::UnfoundedClaim
        } else if reading.tells_to_save {
            ClosingKind::Promise
        } else if (self.calls == 0 && !reading.negates && PROJECT.is_match(self.request))
            || (self.calls > 0 && reading.is_list_of_steps && !reading.says_done)
        {
            ClosingKind::Plan
        } else {
            ClosingKind::Answer
        }
    }

    /// The rules where the request asked for an answer.
    fn kind_for_question(&self, reading: &TextFindings) -> ClosingKind {
        let needed = if self.calls == 0 { WORDS_OF_ANSWER } else { WORDS_OF_SHORT_ANSWER };
        // A short answer may end with a question; one that says that something is missing needs it.
        let needs_answer = reading.only_asks || reading.demands || reading.negates;
        let is_plan = reading.is_list_of_steps
            && reading.has_plan_heading
            && !ASKS_HOW.is_match(self.request)
            && !LOOK_ONLY.is_match(self.request);
        let says_ran = self.has_only_looked && !self.has_run_commands && reading.says_ran;
        if ((reading.says_looked && self.calls == 0) || says_ran) && !reading.negates {
            ClosingKind::UnfoundedClaim
        } else if reading.asks && needs_answer && reading.words < needed {
            ClosingKind::Question
        } else if is_plan && self.calls == 0 {
            ClosingKind::Plan
        } else {
            ClosingKind::Answer
        }
    }
}

/// Findings in a text.
#[expect(clippy::struct_excessive_bools, reason = "independent findings, named one by one")]
struct TextFindings {
    /// Its last sentence, offers left out, announces what comes next.
    ends_with_announcement: bool,
    /// A sentence of it clearly does.
    announces: bool,
    /// It ends with a question or a demand.
    asks: bool,
    /// It ends with a demand.
    demands: bool,
    /// It consists of questions and demands.
    only_asks: bool,
    /// It has the heading of a plan.
    has_plan_heading: bool,
    /// It ends with a question for permission to begin.
    asks_to_proceed: bool,
    /// Its last sentence offers more.
    has_offer: bool,
    /// It says that something is done.
    says_done: bool,
    /// It says that files were changed.
    says_files_changed: bool,
    /// It says that something was looked at or run.
    says_looked: bool,
    /// It says that something was run.
    says_ran: bool,
    /// One of its last sentences is a question.
    asks_near_end: bool,
    /// A sentence without a negation says that files were changed.
    claims_changes: bool,
    /// It says that there was nothing to do, or that it could not be done.
    excuses: bool,
    /// It says that something was not done or cannot be done.
    negates: bool,
    /// It tells the user to write a file.
    tells_to_save: bool,
    /// It is mainly a list, and says nothing of what was done.
    is_list_of_steps: bool,
    /// Number of words, offers left out.
    words: usize,
}

impl TextFindings {
    /// Returns `None` for a text without a sentence.
    fn new(without_code: &str, sentences: &[&str]) -> Option<Self> {
        let is_offer = |sentence: &str| {
            OFFER.is_match(sentence)
                && !DEMAND.is_match(sentence)
                && !QUESTION_WORD.is_match(sentence)
        };
        let offers = sentences.iter().rev().take_while(|sentence| is_offer(sentence)).count();
        let (core, offers) =
            sentences.split_at((sentences.len() - offers).max(1).min(sentences.len()));
        let last = core.last()?;
        // The text after a colon belongs to the sentence before it: "Let me try this: pass the clock."
        let before = core.len().checked_sub(2).map(|index| core[index]);
        let introduced = before.filter(|before| before.ends_with(':') && !LIST_LINE.is_match(last));
        let joined = introduced.map(|before| format!("{before} {last}"));
        let said = without_quotes(joined.as_deref().unwrap_or(last));
        let is_under_way = GERUND.is_match(&said)
            && ENDS_WITH_SOON.is_match(&said)
            && said.chars().count() < SHORT_SENTENCE
            && !DONE.is_match(&said.replace("now", ""));
        let clearly_announces = |sentence: &&str| {
            let said = without_quotes(sentence);
            CLEAR_ANNOUNCEMENT.is_match(&said) && is_announcement(&said)
        };
        let has_offer = !offers.is_empty();
        let relevant = if has_offer { core } else { sentences };
        let last_relevant = relevant.last().copied().unwrap_or_default();
        // What a list at the end belongs to is asked by the sentence before it.
        let is_item = |sentence: &&&str| LIST_LINE.is_match(sentence);
        let before_list = if is_item(&&last_relevant) {
            relevant.iter().rev().find(|sentence| !is_item(sentence)).copied()
        } else {
            None
        };
        let end: Vec<&str> = before_list.into_iter().chain([last_relevant]).collect();
        let all_end = &sentences[sentences.len().saturating_sub(2)..];
        let asks_to_proceed = all_end.iter().any(|sentence| ASKS_TO_PROCEED.is_match(sentence));
        let demands = end.iter().any(|sentence| DEMAND.is_match(sentence));
        let asks = asks_to_proceed || demands || end.iter().any(|sentence| is_question(sentence));
        let is_asking = |sentence: &&str| {
            is_question(sentence) || DEMAND.is_match(sentence) || LIST_LINE.is_match(sentence)
        };
        // A list of questions alone may be what was asked for.
        let is_plain = |sentence: &&str| !LIST_LINE.is_match(sentence);
        let only_asks = asks && core.iter().all(is_asking) && core.iter().any(is_plain);
        let (before_offers, all) = (core.join(" "), sentences.join(" "));
        let changed_by_me = FIRST_PERSON_PAST
            .captures_iter(&before_offers)
            .any(|found| !LOOKING_VERBS.is_match(&found[1]));
        let says_files_changed = changed_by_me
            || SAYS_FILES_CHANGED.is_match(&before_offers)
            || SAYS_FILES_CHANGED_WITHOUT_SPACES.is_match(&before_offers);
        let negates = NEGATION.is_match(&all);
        Some(Self {
            ends_with_announcement: is_announcement(&said) || is_under_way,
            announces: core.iter().any(clearly_announces),
            asks,
            demands,
            only_asks,
            has_plan_heading: PLAN_HEADING.is_match(without_code),
            asks_to_proceed,
            has_offer,
            says_done: DONE.is_match(&before_offers)
                || DONE_WITHOUT_SPACES.is_match(&before_offers),
            says_files_changed,
            says_looked: SAYS_LOOKED.is_match(&before_offers),
            says_ran: SAYS_RAN.is_match(&before_offers),
            asks_near_end: last_sentences(core).iter().any(|sentence| is_question(sentence)),
            claims_changes: core.iter().any(|sentence| claims_changes(sentence)),
            excuses: EXCUSE.is_match(&all),
            negates,
            tells_to_save: TELLS_TO_SAVE.is_match(without_code),
            is_list_of_steps: !says_files_changed && !negates && is_mainly_list(without_code),
            words: core.iter().map(|sentence| count_words(sentence)).sum(),
        })
    }

    /// The rule where the request asked for work and all calls only looked: the text is an answer only if it says why
    /// nothing was done.
    fn kind_after_looks(&self, text: &str) -> ClosingKind {
        if self.announces && !self.claims_changes && !self.negates {
            return ClosingKind::Promise;
        }
        // An offer after a reason is a courtesy, any other question is needed.
        if self.asks_near_end || self.demands || (self.asks_to_proceed && !self.excuses) {
            return ClosingKind::Question;
        }
        if self.claims_changes {
            return ClosingKind::UnfoundedClaim;
        }
        let is_proposal = text.contains("```") || PROPOSAL.is_match(text);
        let is_reason = self.excuses
            || (!is_proposal
                && (self.negates || ANY_NEGATION.is_match(text) || names_failure(text)));
        if is_reason { ClosingKind::Answer } else { ClosingKind::Plan }
    }
}

/// Returns the last sentences.
fn last_sentences<'a, 'b>(sentences: &'b [&'a str]) -> &'b [&'a str] {
    &sentences[sentences.len().saturating_sub(3)..]
}

/// Returns true if a sentence says that files were changed, and does not deny it.
fn claims_changes(sentence: &str) -> bool {
    let is_mine = || {
        FIRST_PERSON_PAST.captures_iter(sentence).any(|found| !LOOKING_VERBS.is_match(&found[1]))
    };
    let says = SAYS_FILES_CHANGED.is_match(sentence)
        || SAYS_FILES_CHANGED_WITHOUT_SPACES.is_match(sentence)
        || is_mine();
    says && !NEGATION.is_match(sentence) && !PROPOSAL.is_match(sentence)
}

/// Returns the number of words. Two characters of a language without spaces count as one.
fn count_words(sentence: &str) -> usize {
    let is_dense = |c: &char| matches!(c, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}');
    let dense = sentence.chars().filter(is_dense).count();
    sentence.split_whitespace().count() + dense / 2
}

/// Returns true if a text says that a check succeeded, and not that one did not.
pub(super) fn says_checked(text: &str) -> bool {
    says_success(text, &[&SAYS_TESTED, &SAYS_VERIFIED])
}

/// Returns true if a text says that tests, a build or a linter succeeded, and not that one did not.
pub(super) fn says_tested(text: &str) -> bool {
    says_success(text, &[&SAYS_TESTED])
}

fn says_success(text: &str, phrases: &[&Regex]) -> bool {
    let text = without_code(text, " ");
    let says = |sentence: &str| {
        phrases.iter().any(|phrase| phrase.is_match(sentence))
            && !NEGATION.is_match(sentence)
            && !names_failure(sentence)
    };
    !ADMITS_FAILURE.is_match(&text) && sentences(&text).into_iter().any(says)
}

/// Returns true if a text names a failure, other than that there was none.
fn names_failure(text: &str) -> bool {
    NAMES_FAILURE.is_match(&NO_FAILURE.replace_all(text, " "))
}

/// Returns true if a text says that something is done, and neither denies nor admits anything.
pub(super) fn says_done(text: &str) -> bool {
    let text = without_code(text, " ");
    let says = DONE.is_match(&text) || DONE_WITHOUT_SPACES.is_match(&text) || text.contains('✅');
    let admits = ADMITS_FAILURE.is_match(&text) || EXCUSE.is_match(&text);
    says && !admits && !names_failure(&text)
}

/// Returns true if a text admits that something did not succeed, and does not say that a check did.
pub(super) fn admits_failure(text: &str) -> bool {
    let text = without_code(text, " ");
    ADMITS_FAILURE.is_match(&text) && !SAYS_TESTED.is_match(&text) && !SAYS_VERIFIED.is_match(&text)
}

/// Returns true if a text tells of something that failed and was left so.
pub(super) fn tells_failure(text: &str) -> bool {
    TELLS_FAILURE.is_match(&without_code(text, " "))
}

pub(super) fn asks_for_work(request: &str) -> bool {
    let request = without_code(request, " ");
    let request = without_quotes(&request);
    let request = CHECK_REQUEST.replace_all(&request, "check");
    let request = OPTION.replace_all(&request, " ");
    !LOOK_ONLY.is_match(&request)
        && (WORK_REQUEST.is_match(&request) || OTHER_WORK_REQUEST.is_match(&request))
}

fn is_announcement(sentence: &str) -> bool {
    if CONDITION.is_match(sentence) || NO_ANNOUNCEMENT.is_match(sentence) || is_question(sentence) {
        return false;
    }
    let is_open = sentence.ends_with(['…', ':']) || sentence.ends_with("...");
    ANNOUNCEMENT.is_match(sentence)
        || (UNDER_WAY.is_match(sentence)
            && (is_open || ENDS_WITH_NEXT.is_match(sentence) || sentence.chars().count() < 60))
}

fn is_question(sentence: &str) -> bool {
    let is_mark = |c: char| matches!(c, '?' | '？');
    sentence.trim_end_matches(|c: char| !c.is_alphanumeric() && !is_mark(c)).ends_with(is_mark)
}

fn is_mainly_list(text: &str) -> bool {
    let (mut lines, mut items) = (0, 0);
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        lines += 1;
        items += usize::from(LIST_LINE.is_match(line));
    }
    items >= 3 && items * 2 >= lines
}

/// Returns a text in lower case, as the phrases are, and with replacements for blocks between fences.
fn without_code(text: &str, replacement: &str) -> String {
    let mut parts = text.split("```");
    let mut result = parts.next().unwrap_or_default().to_owned();
    // Every second part is code; the last one is also if its fence is never closed.
    while parts.next().is_some() {
        result.push_str(replacement);
        result.push_str(parts.next().unwrap_or_default());
    }
    result.to_lowercase()
}

/// Leaves out speech between quotation marks that spans sentences: it is not the agent's own.
fn without_quoted_speech(text: &str) -> String {
    let parts: Vec<&str> = text.split(['"', '“', '”']).collect();
    // Without pairs nothing is left out.
    if parts.len() < 3 || parts.len().is_multiple_of(2) {
        return text.to_owned();
    }
    let mut result = String::with_capacity(text.len());
    for (index, part) in parts.iter().enumerate() {
        let is_speech = index % 2 == 1 && part.chars().any(|c| matches!(c, '.' | '!' | '?' | '…'));
        if index % 2 == 0 {
            result.push_str(part);
        } else if !is_speech {
            result.push('"');
            result.push_str(part);
            result.push('"');
        }
    }
    result
}

/// Replaces quoted text and code in a line by a blank.
fn without_quotes(text: &str) -> Cow<'_, str> {
    if !text.contains(['"', '“', '`']) {
        return Cow::Borrowed(text);
    }
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((start, opening)) =
        rest.char_indices().find(|(_, c)| matches!(c, '"' | '“' | '`'))
    {
        let inside = &rest[start + opening.len_utf8()..];
        let is_closing = |c: char| match opening {
            '`' => c == '`',
            _ => matches!(c, '"' | '”'),
        };
        let Some((end, closing)) = inside.char_indices().find(|(_, c)| is_closing(*c)) else {
            break;
        };
        result.push_str(&rest[..start]);
        result.push(' ');
        rest = &inside[end + closing.len_utf8()..];
    }
    result.push_str(rest);
    Cow::Owned(result)
}

/// Splits a text at the ends of sentences and lines. Parts without a letter or digit are left out.
fn sentences(text: &str) -> Vec<&str> {
    let mut sentences = Vec::new();
    let mut start = 0;
    let mut chars = text.char_indices().peekable();
    while let Some((_, c)) = chars.next() {
        let ends = match c {
            '\n' | '。' | '！' | '？' => true,
            '.' | '!' | '?' | '…' | ':' | ';' | '：' => {
                // Closing marks belong to the sentence; without a blank behind them it goes on (`a.rs`).
                while chars
                    .next_if(|(_, next)| matches!(next, '"' | '\'' | '”' | '’' | '*' | '_' | ')'))
                    .is_some()
                {}
                chars.peek().is_none_or(|(_, next)| next.is_whitespace())
            }
            _ => false,
        };
        if ends {
            let end = chars.peek().map_or(text.len(), |(next, _)| *next);
            sentences.push(&text[start..end]);
            start = end;
        }
    }
    sentences.push(&text[start..]);
    let has_words = |sentence: &&str| sentence.chars().any(char::is_alphanumeric);
    sentences.into_iter().map(str::trim).filter(has_words).collect()
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    const TUNED: &str = include_str!("../../tests/data/endings_tuned.jsonl");

    /// An ending in the style of an agent, labelled without sight of the rules.
    #[derive(Debug, Deserialize)]
    struct Ending {
        id: String,
        prompt: String,
        calls: usize,
        changed: bool,
        text: String,
        label: String,
    }

    /// Returns the ids of the endings that are judged wrongly: finished answers, and others.
    fn wrong(data: &str) -> (Vec<String>, Vec<String>) {
        let (mut answers, mut others) = (Vec::new(), Vec::new());
        for line in data.lines() {
            let ending: Ending = serde_json::from_str(line).unwrap();
            let closing = ClosingText {
                request: &ending.prompt,
                text: &ending.text,
                calls: ending.calls,
                has_changed_files: ending.changed,
                has_run_commands: ending.calls > 0,
                has_acted: false,
                has_only_looked: false,
            };
            let is_answer = closing.kind() == ClosingKind::Answer;
            match (ending.label == "answered", is_answer) {
                (true, false) => answers.push(format!("{} {:?}", ending.id, closing.kind())),
                (false, true) => others.push(ending.id),
                (true, true) | (false, false) => {}
            }
        }
        (answers, others)
    }

    #[test]
    fn a_report_that_ends_with_now_is_an_answer() {
        for text in
            ["The greeting is spelled correctly now.", "The setting is read from the file now."]
        {
            let request = "Correct the greeting in notes.txt.";
            let (calls, has_changed_files) = (3, true);
            let closing = ClosingText {
                request,
                text,
                calls,
                has_changed_files,
                has_run_commands: true,
                has_acted: true,
                has_only_looked: false,
            };
            assert_eq!(closing.kind(), ClosingKind::Answer, "{text}");
        }
    }

    #[test]
    fn of_the_endings_for_tuning_no_answer_is_taken_for_something_else() {
        let (answers, others) = wrong(TUNED);
        assert_eq!(answers, Vec::<String>::new());
        // Weak signs count as an answer: these are taken for one.
        assert!(others.len() <= 40, "{others:?}");
    }
}
