//! Marking of characters that look like ASCII.

use crate::confusable::ASCII_CONFUSABLES;

/// Letters of the Unicode list that are common in ordinary words of Latin scripts.
const EVERYDAY: [char; 6] = ['¡', 'Æ', 'æ', 'Œ', 'œ', 'þ'];

/// Escapes characters that look like ASCII, where they occur among ASCII: a Russian word is shown as it is, a Latin
/// one with a Russian letter in it is not.
///
/// A letter is marked if its run of letters holds ASCII letters or digits, or consists only of such letters in a word
/// with ASCII in it. A sign is marked in any word with ASCII in it. Words end at white space. A sign that looks like
/// a quotation mark, a comment sign or a backslash is marked in every line with ASCII in it: the text that it seems
/// to quote would be run.
pub(crate) fn escape_lookalikes(text: &str) -> String {
    if text.is_ascii() {
        return text.to_owned();
    }
    let mut marked = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let is_line_among_ascii = line.contains(|char: char| char.is_ascii_alphanumeric());
        for word in line.split_inclusive(char::is_whitespace) {
            if word.contains(|char: char| char.is_ascii_alphanumeric()) {
                mark_word(word, &mut marked);
            } else if is_line_among_ascii {
                mark_if(word, seems_to_take_meaning, &mut marked);
            } else {
                marked.push_str(word);
            }
        }
    }
    marked
}

/// Marks a word that has ASCII in it, run by run of letters or signs.
fn mark_word(word: &str, marked: &mut String) {
    let mut rest = word;
    let mut before = None;
    while let Some(first) = rest.chars().next() {
        let is_run = first.is_alphanumeric();
        let end = rest.find(|char: char| char.is_alphanumeric() != is_run).unwrap_or(rest.len());
        let (part, after) = rest.split_at(end);
        let is_mixed = part.contains(|char: char| char.is_ascii_alphanumeric());
        let is_in_chinese =
            [before, after.chars().next()].into_iter().flatten().any(is_ideographic);
        if !is_run && is_in_chinese {
            let is_marked = |char| resembles_ascii(char) && !is_wide_punctuation(char);
            mark_if(part, is_marked, marked);
        } else if !is_run || is_mixed || part.chars().all(looks_like_ascii) {
            mark_if(part, resembles_ascii, marked);
        } else {
            marked.push_str(part);
        }
        before = part.chars().next_back();
        rest = after;
    }
}

fn mark_if(text: &str, is_marked: impl Fn(char) -> bool, marked: &mut String) {
    for char in text.chars() {
        if is_marked(char) {
            marked.extend(char.escape_unicode());
        } else {
            marked.push(char);
        }
    }
}

/// Returns whether a character is easily mistaken for one or several of ASCII.
fn looks_like_ascii(char: char) -> bool {
    // The table's numbers alternately begin and end a range.
    let passed = ASCII_CONFUSABLES.partition_point(|bound| *bound <= u32::from(char));
    passed % 2 == 1 && !EVERYDAY.contains(&char)
}

/// Returns whether a character looks like ASCII, or nearly so, or is a pictorial form of it.
fn resembles_ascii(char: char) -> bool {
    looks_like_ascii(char)
        || matches!(
            char,
            '\u{1dd}' | '\u{2b9}'..='\u{2bf}' | '\u{2c2}'..='\u{2cf}' | '\u{370}'..='\u{37d}' | '\u{387}'
                | 'κ' | 'τ' | 'χ' | 'в' | 'з' | 'к' | 'м' | 'н' | 'т'
                | '\u{5be}' | '\u{609}' | '\u{60a}' | '\u{66a}'..='\u{66d}'
                | '\u{1d00}'..='\u{1d2b}'
                | '\u{2010}'..='\u{2015}' | '\u{2018}'..='\u{201f}' | '\u{2052}' | '\u{2100}'..='\u{2138}'
                | '\u{2758}' | '\u{30fb}' | '\u{fe50}'..='\u{fe6b}' | '\u{ff01}'..='\u{ff5e}'
                | '\u{1d400}'..='\u{1d7ff}' | '\u{1f130}'..='\u{1f149}'
        )
}

/// Returns whether a character looks like a sign that disables the text after it: a quotation mark, a comment sign or
/// a backslash.
fn seems_to_take_meaning(char: char) -> bool {
    matches!(
        char,
        '\u{b4}'
            | '\u{2b9}'..='\u{2bf}' | '\u{2c8}' | '\u{2ca}' | '\u{2cb}' | '\u{2dd}' | '\u{2ee}'
            | '\u{2f4}' | '\u{2f6}' | '\u{374}' | '\u{384}' | '\u{55a}' | '\u{55b}' | '\u{55d}'
            | '\u{5f3}' | '\u{5f4}' | '\u{1fbd}' | '\u{1fbf}' | '\u{1fef}' | '\u{1ffd}' | '\u{1ffe}'
            | '\u{2018}'..='\u{201f}' | '\u{2032}'..='\u{2037}' | '\u{3003}'
            | '\u{ff02}' | '\u{ff07}' | '\u{ff40}'
            | '\u{266f}' | '\u{fe5f}' | '\u{ff03}'
            | '\u{2216}' | '\u{27cd}' | '\u{29f5}' | '\u{29f9}' | '\u{fe68}' | '\u{ff3c}'
    )
}

/// Returns whether a letter is of a script that is written without spaces and has punctuation of its own.
fn is_ideographic(char: char) -> bool {
    char >= '\u{2e80}' && char.is_alphabetic() && !('\u{ff00}'..='\u{ff5e}').contains(&char)
}

/// Returns whether a sign is punctuation of such scripts. None of them looks like a quotation mark or comment sign.
fn is_wide_punctuation(char: char) -> bool {
    matches!(
        char,
        '\u{3014}'
            | '\u{3015}'
            | '\u{301c}'
            | '\u{30fb}'
            | '\u{ff01}'
            | '\u{ff08}'
            | '\u{ff09}'
            | '\u{ff0c}'
            | '\u{ff1a}'
            | '\u{ff1b}'
            | '\u{ff1f}'
    )
}

#[cfg(test)]
mod tests {
    use unicode_security::confusable_detection::skeleton;

    use super::*;

    #[test]
    fn a_character_that_looks_like_ascii_is_marked_among_ascii() {
        for (text, shown) in [
            ("ba\u{217c}l", "ba\\u{217c}l"),
            ("g\u{456}t push", "g\\u{456}t push"),
            ("ls\u{37e} rm x", "ls\\u{37e} rm x"),
            ("a\u{2215}b", "a\\u{2215}b"),
            ("src\u{ff0f}main.rs", "src\\u{ff0f}main.rs"),
            ("rm \u{2010}rf", "rm \\u{2010}rf"),
            ("/usr/\u{455}\u{4bb}", "/usr/\\u{455}\\u{4bb}"),
            ("/bin/\u{13df}\u{13aa}\u{13a2}", "/bin/\\u{13df}\\u{13aa}\\u{13a2}"),
        ] {
            assert_eq!(escape_lookalikes(text), shown);
        }
    }

    /// One example of each kind: letters of other scripts and of other forms, numerals, signs, ligatures.
    #[test]
    fn every_kind_of_lookalike_is_marked_in_a_word() {
        for char in [
            '\u{131}',
            '\u{17f}',
            '\u{1c0}',
            '\u{1c3}',
            '\u{237}',
            '\u{251}',
            '\u{261}',
            '\u{26a}',
            '\u{269}',
            '\u{2c2}',
            '\u{37e}',
            '\u{391}',
            '\u{3bf}',
            '\u{3f2}',
            '\u{405}',
            '\u{430}',
            '\u{456}',
            '\u{458}',
            '\u{4cf}',
            '\u{501}',
            '\u{51b}',
            '\u{555}',
            '\u{578}',
            '\u{57d}',
            '\u{5d5}',
            '\u{5df}',
            '\u{627}',
            '\u{661}',
            '\u{9ed}',
            '\u{d20}',
            '\u{13aa}',
            '\u{13df}',
            '\u{1d04}',
            '\u{2010}',
            '\u{2019}',
            '\u{201c}',
            '\u{2024}',
            '\u{2044}',
            '\u{2113}',
            '\u{2160}',
            '\u{217c}',
            '\u{2212}',
            '\u{2215}',
            '\u{2236}',
            '\u{29f5}',
            '\u{2c9f}',
            '\u{a4d0}',
            '\u{a731}',
            '\u{ab75}',
            '\u{fb01}',
            '\u{ff01}',
            '\u{ff53}',
            '\u{10404}',
            '\u{118c8}',
            '\u{1d5ba}',
            '\u{1fbf3}',
        ] {
            let expected = format!("a{}b", char.escape_unicode());
            assert_eq!(escape_lookalikes(&format!("a{char}b")), expected);
        }
    }

    #[test]
    fn lookalike_quotes_are_marked_in_every_line_with_ascii() {
        for (text, shown) in [
            ("echo \u{2018}; rm x; \u{2019}", "echo \\u{2018}; rm x; \\u{2019}"),
            ("echo \u{201d} ; rm x", "echo \\u{201d} ; rm x"),
            ("ls \u{ff40}", "ls \\u{ff40}"),
            ("ls \u{ff03} ; rm x", "ls \\u{ff03} ; rm x"),
            ("echo a \u{ff3c}; rm x", "echo a \\u{ff3c}; rm x"),
        ] {
            assert_eq!(escape_lookalikes(text), shown);
        }
    }

    #[test]
    fn words_of_other_scripts_stay_as_they_are() {
        for text in [
            "привет мир",
            "cat привет.txt",
            "API-сервер",
            "καλημέρα",
            "你好；再见",
            "fix – x",
            "grün",
            "naïve é",
            "“привет”",
        ] {
            assert_eq!(escape_lookalikes(text), text);
        }
    }

    #[test]
    fn ordinary_prose_is_not_marked() {
        for text in [
            "Die Prüfung läuft; größere Änderungen (ß, ÄÖÜ) folgen am 3. März: ca. 20 % der Übungen.",
            "Ça marche déjà : le cœur du système où l'élève a reçu « son œuvre », puis s'arrête à Noël.",
            "Zażółć gęślą jaźń, a źródło łódzkie może być próbą: ćwiczenie 5 z 10.",
            "Съешь же ещё этих мягких французских булок, да выпей чаю. Запусти make и проверь 3 файла.",
            "Ξεσκεπάζω την ψυχοφθόρα βδελυγμία, και μετά τρέχω git status στο έργο.",
            "请在提交之前运行测试，然后检查结果；使用git工具（共3个），完成任务。",
            "USBメモリーへコピーしてください！",
            "¡Mañana! ¿Qué año? El pingüino comió 2 piñas.",
            "Blåbærgrød på øen; Þór æfir íslensku.",
        ] {
            assert_eq!(escape_lookalikes(text), text);
        }
    }

    /// Prints the correct table if the one in the source differs.
    #[test]
    fn the_table_is_that_of_the_consortium() {
        let is_confusable = |char: char| {
            let seen: String = skeleton(char.encode_utf8(&mut [0; 4])).collect();
            !char.is_ascii() && !seen.trim().is_empty() && seen.is_ascii()
        };
        let mut bounds = Vec::new();
        for code in 0..=u32::from(char::MAX) + 1 {
            let is_inside = char::from_u32(code).is_some_and(is_confusable);
            if is_inside != (bounds.len() % 2 == 1) {
                bounds.push(code);
            }
        }
        let table: Vec<String> = bounds.iter().map(|bound| format!("{bound:#x}")).collect();
        assert!(bounds == ASCII_CONFUSABLES, "{}", table.join(", "));
    }
}
