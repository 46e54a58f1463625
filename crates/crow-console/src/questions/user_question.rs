//! Answers to questions of an agent: numbers or labels of choices, or free text.

use crow_core::capability::{QuestionAnswer, UserQuestion};

/// Line that declines to answer.
pub(super) const DECLINE: &str = "-";

/// Parses a typed line. Returns `None` for a number without a choice, and for an answer that the question does not
/// accept.
pub(super) fn parse_answer(line: &str, question: &UserQuestion) -> Option<QuestionAnswer> {
    let line = line.trim();
    if line == DECLINE {
        return Some(QuestionAnswer::Declined);
    }
    let answer = match labels(line, question) {
        QuestionInput::Labels(labels) => QuestionAnswer::Chosen { labels },
        QuestionInput::Words => QuestionAnswer::Text { text: line.to_owned() },
        QuestionInput::NoSuchNumber => return None,
    };
    question.accepts(&answer).then_some(answer)
}

/// Returns the prompt before the answer.
pub(super) fn prompt(question: &UserQuestion) -> String {
    format!("  {}: ", accepted_forms(question))
}

/// Returns the message for an unparsable answer: it lists the possible ones.
pub(super) fn invalid_answer_message(question: &UserQuestion) -> String {
    format!("answer with {}", accepted_forms(question))
}

/// Returns true if the line is unmistakably an answer, even if it was typed ahead: it selects choices.
pub(super) fn is_plain(line: &str, question: &UserQuestion) -> bool {
    matches!(labels(line.trim(), question), QuestionInput::Labels(_))
}

fn accepted_forms(question: &UserQuestion) -> String {
    let count = question.choices.len();
    let numbers = match (count, question.multiple) {
        (0, _) => return format!("words, or {DECLINE} for no answer"),
        (1, _) => "1".to_owned(),
        (_, false) => format!("1 to {count}"),
        (_, true) => format!("some of 1 to {count} (such as 1,{count})"),
    };
    let words = if question.free_text { ", words" } else { "" };
    format!("{numbers}{words}, or {DECLINE} for no answer")
}

/// Classification of a typed line.
enum QuestionInput {
    Labels(Vec<String>),
    Words,
    NoSuchNumber,
}

fn labels(line: &str, question: &UserQuestion) -> QuestionInput {
    let choices = &question.choices;
    if let Some(choice) = choices.iter().find(|choice| choice.label.eq_ignore_ascii_case(line)) {
        return QuestionInput::Labels(vec![choice.label.clone()]);
    }
    let parts = line.split([',', ' ']).filter(|part| !part.is_empty());
    let numbers: Result<Vec<usize>, _> = parts.map(str::parse).collect();
    let Ok(numbers) = numbers else { return QuestionInput::Words };
    if choices.is_empty() {
        return QuestionInput::Words;
    }
    let chosen: Option<Vec<_>> = numbers
        .iter()
        .map(|number| Some(choices.get(number.checked_sub(1)?)?.label.clone()))
        .collect();
    match chosen {
        Some(labels) if !labels.is_empty() && (question.multiple || labels.len() == 1) => {
            QuestionInput::Labels(labels)
        }
        Some(_) | None => QuestionInput::NoSuchNumber,
    }
}

#[cfg(test)]
mod tests {
    use crow_core::capability::QuestionChoice;

    use super::*;

    fn question(labels: &[&str], multiple: bool) -> UserQuestion {
        let choice = |label: &&str| QuestionChoice { label: (*label).into(), description: None };
        UserQuestion {
            text: "Which?".into(),
            header: None,
            choices: labels.iter().map(choice).collect(),
            multiple,
            free_text: true,
        }
    }

    #[test]
    fn numbers_and_labels_choose_and_other_words_are_the_answer() {
        let chosen = |labels: &[&str]| {
            let labels = labels.iter().map(|label| (*label).to_owned()).collect();
            Some(QuestionAnswer::Chosen { labels })
        };
        let words = |text: &str| Some(QuestionAnswer::Text { text: text.into() });
        let (one, several, free) = (
            question(&["SQLite", "PostgreSQL"], false),
            question(&["a", "b", "c"], true),
            question(&[], false),
        );
        let table = [
            (&one, "1\n", chosen(&["SQLite"])),
            (&one, " 2 ", chosen(&["PostgreSQL"])),
            (&one, "sqlite", chosen(&["SQLite"])),
            (&one, "1,2", None),
            (&one, "0", None),
            (&one, "3", None),
            (&one, "", None),
            (&one, "-", Some(QuestionAnswer::Declined)),
            (&one, "3 of them", words("3 of them")),
            (&several, "1, 3", chosen(&["a", "c"])),
            (&several, "3 1", chosen(&["c", "a"])),
            (&several, "1,4", None),
            (&free, "42", words("42")),
            (&free, "the old one", words("the old one")),
            (&free, "   ", None),
        ];
        for (question, line, expected) in table {
            assert_eq!(parse_answer(line, question), expected, "{line:?}");
        }
    }

    #[test]
    fn the_prompt_lists_the_possible_answers() {
        assert_eq!(prompt(&question(&[], false)), "  words, or - for no answer: ");
        assert_eq!(prompt(&question(&["a"], true)), "  1, words, or - for no answer: ");
        assert_eq!(prompt(&question(&["a", "b"], false)), "  1 to 2, words, or - for no answer: ");
        assert_eq!(
            invalid_answer_message(&question(&["a", "b", "c"], true)),
            "answer with some of 1 to 3 (such as 1,3), words, or - for no answer"
        );
    }

    #[test]
    fn only_a_selection_of_choices_is_plain() {
        let question = question(&["a", "b"], false);
        let table =
            [("1", true), ("b", true), ("7", false), ("run the tests", false), ("-", false)];
        for (line, plain) in table {
            assert_eq!(is_plain(line, &question), plain, "{line}");
        }
    }
}
