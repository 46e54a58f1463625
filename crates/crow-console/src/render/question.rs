//! Questions of agents to the user, and the answers.

use std::fmt::Write as _;

use crow_core::capability::{QuestionAnswer, UserQuestion};

use super::{
    ConsoleStyle, Visibility, approval_line, approval_text,
    paint::Paint,
    wrap::{width, wrap, wrap_hanging},
};

/// Renders the question and its choices, numbered from 1. `agent` is the prefix that names the agent; empty for the
/// primary.
pub(super) fn user_question(style: &ConsoleStyle, agent: &str, question: &UserQuestion) -> String {
    let header = question.header.as_ref().map(|header| format!("{}: ", approval_line(header)));
    let mut lines = String::new();
    let mut before = format!("{agent}{}", header.unwrap_or_default());
    let mut prefix = "? ";
    for line in question.text.lines() {
        let text = format!("{}{}", std::mem::take(&mut before), approval_text(line));
        lines.push_str(&wrap_hanging(style, Paint::Yellow, (prefix, "  "), &text));
        prefix = "  ";
    }
    let last = question.choices.len().to_string().len();
    for (number, choice) in (1..).zip(&question.choices) {
        let first = format!("  {number:>last$}  ");
        let rest = " ".repeat(width(&first));
        let mut text = approval_line(&choice.label);
        if let Some(description) = &choice.description {
            // Writing to a string cannot fail.
            let _ = write!(text, ": {}", approval_line(description));
        }
        lines.push_str(&wrap_hanging(style, Paint::Plain, (&first, &rest), &text));
    }
    lines
}

/// Renders the answer of the user. If there was no user, the result of the call says so.
pub(super) fn user_answer(style: &ConsoleStyle, agent: &str, answer: &QuestionAnswer) -> String {
    if style.questions == Visibility::Hide {
        return String::new();
    }
    let reply = match answer {
        QuestionAnswer::Text { text } => format!("you: {}", approval_line(text)),
        QuestionAnswer::Chosen { labels } => format!("you: {}", approval_line(&labels.join(", "))),
        QuestionAnswer::Declined => "you gave no answer".to_owned(),
        QuestionAnswer::Nobody { .. } => return String::new(),
    };
    wrap(style, Paint::Dim, style.glyphs.pick("· ", "- "), &format!("{agent}{reply}"))
}

#[cfg(test)]
mod tests {
    use crow_core::capability::QuestionChoice;

    use super::*;

    #[test]
    fn a_question_shows_its_choices_and_nothing_of_it_commands_the_terminal() {
        let choice = |label: &str, description: Option<&str>| QuestionChoice {
            label: label.into(),
            description: description.map(str::to_owned),
        };
        let question = UserQuestion {
            text: "Which database\u{1b}[2J should it be?\nIt cannot be changed later.".into(),
            header: Some("data".into()),
            choices: vec![
                choice("SQLite", Some("one file, nothing to run, which is enough for one person")),
                choice("Postgre\nSQL", None),
            ],
            multiple: false,
            free_text: true,
        };
        let style = ConsoleStyle::plain(50);
        insta::assert_snapshot!(user_question(&style, "planner: ", &question), @"
        ? planner: data: Which database␛[2J should it be?
          It cannot be changed later.
          1  SQLite: one file, nothing to run, which is
             enough for one person
          2  Postgre SQL
        ");
    }

    #[test]
    fn the_answer_of_the_user_takes_one_line() {
        let style = ConsoleStyle { questions: Visibility::Show, ..ConsoleStyle::plain(80) };
        let table = [
            (QuestionAnswer::Text { text: "the\nold one".into() }, "· you: the old one\n"),
            (QuestionAnswer::Chosen { labels: vec!["a".into(), "b".into()] }, "· you: a, b\n"),
            (QuestionAnswer::Declined, "· you gave no answer\n"),
            (QuestionAnswer::Nobody { hint: "no terminal".into() }, ""),
        ];
        for (answer, expected) in table {
            assert_eq!(user_answer(&style, "", &answer), expected);
        }
    }
}
