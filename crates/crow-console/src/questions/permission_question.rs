//! The text form of permission questions and their answers.

use std::fmt::Write as _;

use crow_core::{capability::PermissionAnswer, permission::GrantOffer};
use crow_text::approval_line;

/// Parses a typed line: `y`, `n`, `n` with feedback for the model, or the letter of an offer. Returns `None` for
/// anything else.
pub(super) fn parse_answer(line: &str, offers: &[GrantOffer]) -> Option<PermissionAnswer> {
    let line = line.trim();
    let (word, rest) = line.split_once([' ', ',', ':']).unwrap_or((line, ""));
    let feedback = Some(rest.trim().to_owned()).filter(|rest| !rest.is_empty());
    let word = word.to_ascii_lowercase();
    let offer = OFFER_KEYS.iter().zip(offers).find(|(key, _)| key.to_string() == word);
    match (word.as_str(), offer) {
        ("y" | "yes", _) => Some(PermissionAnswer::AllowOnce),
        ("n" | "no", _) => Some(PermissionAnswer::Deny { feedback }),
        (_, Some((_, offer))) => {
            Some(PermissionAnswer::AllowSession { grants: offer.grants.clone() })
        }
        (_, None) => None,
    }
}

/// Writes the offers, a line each, and the prompt with the possible answers.
pub(super) fn choices(offers: &[GrantOffer]) -> String {
    let mut text = String::new();
    let offers: Vec<_> = OFFER_KEYS.iter().zip(offers).collect();
    for (key, offer) in &offers {
        let label = approval_line(&offer.label);
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  {key} = yes, and {label} for the rest of this session");
    }
    text.push_str("  allow? [y]es, ");
    for (key, _) in &offers {
        let _ = write!(text, "[{key}], ");
    }
    text.push_str("[n]o, or n and why: ");
    text
}

/// Returns the message for an unparsable answer: it lists the possible ones.
pub(super) fn invalid_answer_message(offers: &[GrantOffer]) -> String {
    let keys: Vec<_> = OFFER_KEYS.iter().zip(offers).map(|(key, _)| key.to_string()).collect();
    let keys = if keys.is_empty() {
        String::new()
    } else {
        format!("{} for yes in this session, ", keys.join(" or "))
    };
    format!("answer y for yes, {keys}n for no, or n and what the model should do instead")
}

/// Letters that accept the offers, in order; further offers cannot be chosen.
const OFFER_KEYS: [char; 3] = ['a', 'b', 'c'];

#[cfg(test)]
mod tests {
    use crow_core::permission::Grant;

    use super::*;

    fn offer(label: &str) -> GrantOffer {
        GrantOffer { label: label.into(), grants: vec![Grant::Tool(label.into())] }
    }

    #[test]
    fn answers_are_yes_an_offer_no_or_no_with_feedback() {
        let no = |feedback: Option<&str>| {
            Some(PermissionAnswer::Deny { feedback: feedback.map(str::to_owned) })
        };
        let always = |tool: &str| {
            Some(PermissionAnswer::AllowSession { grants: vec![Grant::Tool(tool.into())] })
        };
        let offers = [offer("one"), offer("two")];
        let table = [
            ("y\n", Some(PermissionAnswer::AllowOnce)),
            ("YES", Some(PermissionAnswer::AllowOnce)),
            ("a", always("one")),
            ("B\n", always("two")),
            ("c", None),
            ("n", no(None)),
            ("no, use the other file", no(Some("use the other file"))),
            ("", None),
            ("maybe", None),
            ("yesterday", None),
        ];
        for (line, expected) in table {
            assert_eq!(parse_answer(line, &offers), expected, "{line:?}");
        }
        assert_eq!(parse_answer("a", &[]), None);
    }

    #[test]
    fn the_message_for_an_unparsable_answer_lists_the_offered_letters() {
        let rest = "n for no, or n and what the model should do instead";
        let table = [
            (vec![], format!("answer y for yes, {rest}")),
            (vec![offer("one")], format!("answer y for yes, a for yes in this session, {rest}")),
            (
                vec![offer("one"), offer("two")],
                format!("answer y for yes, a or b for yes in this session, {rest}"),
            ),
        ];
        for (offers, expected) in table {
            assert_eq!(invalid_answer_message(&offers), expected);
        }
    }

    #[test]
    fn what_can_be_answered_is_said_with_what_it_means() {
        insta::assert_snapshot!(choices(&[offer("edits of src/a.rs"), offer("edits below src/")]), @"
          a = yes, and edits of src/a.rs for the rest of this session
          b = yes, and edits below src/ for the rest of this session
          allow? [y]es, [a], [b], [n]o, or n and why:
        ");
    }
}
