//! Choosing tasks of a set by name or number.

use std::str::FromStr;

/// A choice of tasks: numbers, ranges of numbers and names, separated by commas. A task's number is the first one in its
/// name; a name may end with `*`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TaskSelection(Vec<SelectionPart>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum SelectionPart {
    Numbers { first: u64, last: u64 },
    Name(String),
    NameStart(String),
}

/// Error for a choice of tasks that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{part}\" is neither a number, a range such as 100-199, nor the name of a task")]
pub struct TaskSelectionError {
    part: String,
}

impl TaskSelection {
    /// Returns true if the task is chosen; every task is if nothing was named.
    pub fn contains(&self, name: &str) -> bool {
        let number = number_of(name);
        self.0.is_empty()
            || self.0.iter().any(|part| match part {
                SelectionPart::Numbers { first, last } => {
                    number.is_some_and(|number| (*first..=*last).contains(&number))
                }
                SelectionPart::Name(chosen) => chosen == name,
                SelectionPart::NameStart(start) => name.starts_with(start),
            })
    }
}

/// Returns the first number in a name.
fn number_of(name: &str) -> Option<u64> {
    let start = name.find(|c: char| c.is_ascii_digit())?;
    let digits = &name[start..];
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    digits[..end].parse().ok()
}

impl FromStr for TaskSelection {
    type Err = TaskSelectionError;

    fn from_str(text: &str) -> Result<Self, TaskSelectionError> {
        text.split(',').map(|part| part_of(part.trim())).collect::<Result<_, _>>().map(Self)
    }
}

fn part_of(part: &str) -> Result<SelectionPart, TaskSelectionError> {
    let error = || TaskSelectionError { part: part.to_owned() };
    let is_number = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_digit());
    let number = |text: &str| text.parse::<u64>().map_err(|_| error());
    match part.split_once('-') {
        Some((first, last)) if is_number(first) && is_number(last) => {
            let (first, last) = (number(first)?, number(last)?);
            if first > last {
                return Err(error());
            }
            Ok(SelectionPart::Numbers { first, last })
        }
        _ if part.is_empty() => Err(error()),
        _ if is_number(part) => {
            let number = number(part)?;
            Ok(SelectionPart::Numbers { first: number, last: number })
        }
        _ => Ok(match part.strip_suffix('*') {
            Some(start) => SelectionPart::NameStart(start.to_owned()),
            None => SelectionPart::Name(part.to_owned()),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_are_chosen_by_number_range_and_name() {
        for (selection, name, expected) in [
            ("100-199", "task_101_csv", true),
            ("100-199", "task_99_csv", false),
            ("100-199", "HumanEval/150", true),
            ("100-199", "leap", false),
            ("7", "task_07", true),
            ("leap", "leap", true),
            ("leap", "leap-2", false),
            ("le*", "leap", true),
            ("3,le*", "x3", true),
            ("3 , bob", "bob", true),
            ("two-fer", "two-fer", true),
        ] {
            let parsed: TaskSelection = selection.parse().unwrap();
            assert_eq!(parsed.contains(name), expected, "{selection} {name}");
        }
        assert!(TaskSelection::default().contains("anything"));
    }

    #[test]
    fn a_selection_that_makes_no_sense_is_refused() {
        for text in ["", "1,,2", "9-3", "99999999999999999999999"] {
            assert!(text.parse::<TaskSelection>().is_err(), "{text}");
        }
    }
}
