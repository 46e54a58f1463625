//! Characters that look like ASCII.

/// Returns the text with escapes for characters that look like ASCII, where they stand among ASCII: a Russian word is
/// shown as it is, a Latin one with a Russian letter in it is not.
///
/// A letter is marked if its run of letters holds ASCII letters or digits, or consists of such letters alone in a word
/// with ASCII in it. A sign is marked in any word with ASCII in it. Words end at white space.
pub(crate) fn mark(text: &str) -> String {
    if text.is_ascii() {
        return text.to_owned();
    }
    let mut marked = String::with_capacity(text.len());
    for word in text.split_inclusive(char::is_whitespace) {
        let has_ascii = word.contains(|char: char| char.is_ascii_alphanumeric());
        if word.is_ascii() || !has_ascii {
            marked.push_str(word);
        } else {
            mark_word(word, &mut marked);
        }
    }
    marked
}

fn mark_word(word: &str, marked: &mut String) {
    let mut rest = word;
    while let Some(first) = rest.chars().next() {
        let is_run = first.is_alphanumeric();
        let end = rest.find(|char: char| char.is_alphanumeric() != is_run).unwrap_or(rest.len());
        let (part, after) = rest.split_at_checked(end).unwrap_or((rest, ""));
        let is_mixed = part.contains(|char: char| char.is_ascii_alphanumeric());
        let is_marked = !is_run || is_mixed || part.chars().all(looks_like_ascii);
        for char in part.chars() {
            if is_marked && looks_like_ascii(char) {
                marked.extend(char.escape_unicode());
            } else {
                marked.push(char);
            }
        }
        rest = after;
    }
}

/// Returns whether a character is easily taken for one of ASCII.
fn looks_like_ascii(char: char) -> bool {
    matches!(
        char,
        // Signs: of quotation, dashes, slashes, colons, semicolons, bars, dots, brackets.
        '\u{b4}' | '\u{b8}'
            | '\u{1c0}' | '\u{1c3}'
            | '\u{2b9}'..='\u{2bf}' | '\u{2c2}'..='\u{2cf}' | '\u{2d0}' | '\u{2d7}' | '\u{2dc}'
            | '\u{37e}' | '\u{384}' | '\u{387}'
            | '\u{589}' | '\u{5be}' | '\u{5c0}' | '\u{5c3}' | '\u{5f3}' | '\u{5f4}'
            | '\u{609}' | '\u{60a}' | '\u{66a}'..='\u{66d}' | '\u{6d4}'
            | '\u{2010}'..='\u{2015}' | '\u{2018}'..='\u{201f}' | '\u{2024}' | '\u{2032}'..='\u{2037}'
            | '\u{2039}' | '\u{203a}' | '\u{2043}' | '\u{2044}' | '\u{204e}' | '\u{2052}' | '\u{2053}'
            | '\u{2212}' | '\u{2215}'..='\u{2217}' | '\u{2223}' | '\u{2236}' | '\u{223c}'
            | '\u{2571}' | '\u{2572}' | '\u{2758}' | '\u{276e}' | '\u{276f}' | '\u{27cb}' | '\u{27cd}'
            | '\u{29f5}' | '\u{29f8}' | '\u{29f9}' | '\u{2e40}' | '\u{3033}' | '\u{30fb}'
            | '\u{a4fa}' | '\u{a4fd}' | '\u{a789}' | '\u{a78c}'
            | '\u{fe50}'..='\u{fe6b}'
            // Letters: Latin of other forms, Greek, Cyrillic, Armenian, Roman numerals, full width, of mathematics.
            | '\u{131}' | '\u{17f}' | '\u{1dd}' | '\u{237}' | '\u{251}' | '\u{261}' | '\u{26a}' | '\u{28f}'
            | '\u{370}'..='\u{37d}' | '\u{37f}'
            | 'Α' | 'Β' | 'Ε' | 'Ζ' | 'Η' | 'Ι' | 'Κ' | 'Μ' | 'Ν' | 'Ο' | 'Ρ' | 'Τ' | 'Υ' | 'Χ'
            | 'α' | 'γ' | 'ι' | 'κ' | 'ν' | 'ο' | 'ρ' | 'σ' | 'τ' | 'υ' | 'χ' | 'ϲ' | 'ϳ' | 'ϒ'
            | 'А' | 'В' | 'Е' | 'З' | 'К' | 'М' | 'Н' | 'О' | 'Р' | 'С' | 'Т' | 'У' | 'Х' | 'Ѕ' | 'І' | 'Ј'
            | 'а' | 'в' | 'г' | 'е' | 'з' | 'к' | 'м' | 'н' | 'о' | 'р' | 'с' | 'т' | 'у' | 'х' | 'ѕ' | 'і' | 'ј'
            | 'ѵ' | 'һ' | 'ү' | 'ӏ' | 'Ӏ' | 'ԁ' | 'ԛ' | 'ԝ' | 'Ԍ' | 'Ԛ' | 'Ԝ'
            | 'Ս' | 'Օ' | 'ց' | 'հ' | 'յ' | 'ո' | 'ս' | 'օ' | 'զ'
            | '\u{2100}'..='\u{2138}' | '\u{2145}'..='\u{2149}' | '\u{2160}'..='\u{217f}'
            | '\u{1d00}'..='\u{1d2b}'
            | '\u{ff01}'..='\u{ff5e}' | '\u{ffe8}'
            | '\u{1d400}'..='\u{1d7ff}'
            | '\u{1f130}'..='\u{1f149}' | '\u{1fbf0}'..='\u{1fbf9}'
    )
}

#[cfg(test)]
mod tests {
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
        ] {
            assert_eq!(mark(text), shown);
        }
    }

    #[test]
    fn words_of_other_scripts_stay_as_they_are() {
        for text in
            ["привет мир", "cat привет.txt", "καλημέρα", "你好；再见", "fix – x", "grün", "naïve é"]
        {
            assert_eq!(mark(text), text);
        }
    }
}
