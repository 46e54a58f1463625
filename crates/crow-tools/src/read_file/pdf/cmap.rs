//! The table that maps the codes of a font to text.
//!
//! Only the entries between `beginbfchar` or `beginbfrange` and the next `end…` matter. A range is one entry with the
//! text of its first code, however many codes it has.

use std::collections::BTreeMap;

/// Most entries that are stored.
const MAX_ENTRIES: usize = 1 << 16;

/// Codes and their texts. The table of `lopdf` is not used: it lists every code of every range, and one short line
/// can contain four thousand million.
#[derive(Debug, Default)]
pub(super) struct CMap {
    /// By length and first code of a range: its last code, and the text of its first code in UTF-16.
    ranges: BTreeMap<(usize, u32), (u32, Vec<u16>)>,
    /// Length in bytes of the longest code in the table.
    code_length: usize,
}

enum CMapToken<'a> {
    Code { length: usize, code: u32, units: Vec<u16> },
    Open,
    Close,
    Word(&'a [u8]),
}

impl CMap {
    /// Parses a table. Returns `None` if it maps nothing.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let mut map = Self::default();
        let mut rest = bytes;
        // The codes since the last keyword or complete entry, and the texts of the current array.
        let (mut codes, mut array) = (Vec::new(), None::<Vec<Vec<u16>>>);
        // The current section: `true` for ranges, `false` for single codes.
        let mut is_range = None;
        while let Some((token, after)) = next_token(rest) {
            rest = after;
            match token {
                CMapToken::Word(b"beginbfchar") => (is_range, codes) = (Some(false), Vec::new()),
                CMapToken::Word(b"beginbfrange") => (is_range, codes) = (Some(true), Vec::new()),
                CMapToken::Word(word) if word.starts_with(b"end") => is_range = None,
                CMapToken::Word(_) => {}
                CMapToken::Open => array = Some(Vec::new()),
                CMapToken::Close => {
                    let texts = array.take().unwrap_or_default();
                    if let [(length, first), _] = *codes.as_slice() {
                        for (code, text) in (first..).zip(texts) {
                            map.insert(length, code, code, text);
                        }
                    }
                    codes.clear();
                }
                CMapToken::Code { length, code, units } => {
                    let Some(is_range) = is_range else { continue };
                    if let Some(array) = &mut array {
                        array.push(units);
                        continue;
                    }
                    // An entry is complete when its text follows one code, or two codes of a range.
                    match *codes.as_slice() {
                        [(length, first)] if !is_range => map.insert(length, first, first, units),
                        [(length, first), (_, last)] => map.insert(length, first, last, units),
                        _ => {
                            codes.push((length, code));
                            continue;
                        }
                    }
                    codes.clear();
                }
            }
        }
        (!map.ranges.is_empty()).then_some(map)
    }

    fn insert(&mut self, length: usize, first: u32, last: u32, text: Vec<u16>) {
        if self.ranges.len() < MAX_ENTRIES && first <= last && (1..=4).contains(&length) {
            self.ranges.insert((length, first), (last, text));
            self.code_length = self.code_length.max(length);
        }
    }

    /// Appends the text of codes to `text`. Returns the number of codes.
    pub(super) fn decode(&self, bytes: &[u8], text: &mut String) -> usize {
        let (mut rest, mut count) = (bytes, 0);
        while !rest.is_empty() {
            let found = (1..=self.code_length).find_map(|length| {
                let (head, after) = rest.split_at_checked(length)?;
                let code = head.iter().fold(0, |code: u32, byte| code << 8 | u32::from(*byte));
                Some((self.text_of(length, code)?, after))
            });
            if let Some((piece, after)) = found {
                text.push_str(&piece);
                rest = after;
            } else {
                text.push(char::REPLACEMENT_CHARACTER);
                // The last code may be incomplete.
                rest = rest.get(self.code_length..).unwrap_or_default();
            }
            count += 1;
        }
        count
    }

    fn text_of(&self, length: usize, code: u32) -> Option<String> {
        let ((_, first), (last, units)) =
            self.ranges.range((length, 0)..=(length, code)).next_back()?;
        if code > *last {
            return None;
        }
        let mut units = units.clone();
        if let Some(unit) = units.last_mut() {
            // Within a range only the last unit counts up, and it has 16 bits.
            *unit = unit.wrapping_add(
                u16::try_from((code - first) & 0xFFFF).expect("invariant: masked to 16 bits"),
            );
        }
        Some(String::from_utf16_lossy(&units))
    }
}

/// Splits the next token from the rest.
fn next_token(bytes: &[u8]) -> Option<(CMapToken<'_>, &[u8])> {
    let start = bytes.iter().position(|byte| !byte.is_ascii_whitespace())?;
    let (first, rest) = bytes.get(start..)?.split_first()?;
    Some(match first {
        b'[' => (CMapToken::Open, rest),
        b']' => (CMapToken::Close, rest),
        b'<' if rest.first() != Some(&b'<') => {
            let end = rest.iter().position(|byte| *byte == b'>').unwrap_or(rest.len());
            let (inside, after) = rest.split_at_checked(end)?;
            (code(inside), after.get(1..).unwrap_or_default())
        }
        _ => {
            let is_end = |byte: &u8| byte.is_ascii_whitespace() || b"<[]".contains(byte);
            let end = rest.iter().position(is_end).map_or(rest.len(), |end| end);
            let word = bytes.get(start..=start + end)?;
            // The second character of `<<` is part of the word.
            let end = if word == b"<" { end + 1 } else { end };
            (CMapToken::Word(word), rest.get(end..)?)
        }
    })
}

fn code(inside: &[u8]) -> CMapToken<'_> {
    let digits: Vec<u32> =
        inside.iter().filter_map(|byte| char::from(*byte).to_digit(16)).take(64).collect();
    let code = digits.iter().take(8).fold(0, |code, digit| code << 4 | digit);
    let unit = |digits: &[u32]| digits.iter().fold(0, |unit, digit| unit << 4 | digit);
    let units =
        digits.chunks(4).map(|digits| u16::try_from(unit(digits)).unwrap_or_default()).collect();
    CMapToken::Code { length: digits.len() / 2, code, units }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(table: &str, bytes: &[u8]) -> String {
        let mut text = String::new();
        CMap::parse(table.as_bytes()).unwrap().decode(bytes, &mut text);
        text
    }

    #[test]
    fn characters_ranges_and_arrays_are_mapped() {
        let table = "1 begincodespacerange <0000> <FFFF> endcodespacerange << /x 1 >>\n\
            2 beginbfchar <0001> <0041> <0002> <00660069> endbfchar\n\
            2 beginbfrange <0010> <0012> <0061>\n<0020> <0021> [<0058> <D83DDE00>] endbfrange";
        assert_eq!(decoded(table, b"\0\x01\0\x02\0\x11\0\x12\0\x20\0\x21"), "Afibc\u{58}😀");
        assert_eq!(decoded(table, b"\x99\x99\0\x01"), "\u{FFFD}A");
    }

    #[test]
    fn codes_of_one_byte_are_read_one_by_one() {
        assert_eq!(decoded("1 beginbfrange <41><43><0061> endbfrange", b"ABC"), "abc");
    }

    #[test]
    fn a_range_of_all_codes_costs_nothing() {
        let table = "1 beginbfrange <00000000> <FFFFFFFF> <0041> endbfrange";
        assert_eq!(decoded(table, b"\0\0\0\x01"), "B");
    }

    #[test]
    fn nonsense_maps_nothing() {
        for table in ["", "<", "beginbfchar <", "beginbfrange ]]] <41", "<<<<<>", "[[[["] {
            assert!(CMap::parse(table.as_bytes()).is_none(), "{table}");
        }
    }
}
