//! Estimation of tokens by the classes of characters.
//!
//! Tokenizers join letters to words and cut everything else short: a token is four to five characters of prose, but one
//! and a half of base64. The costs were measured with `o200k_base`; other tokenizers differ mostly by a constant
//! factor.

/// One token, in the unit of the sums below.
const TOKEN: u64 = 1000;

/// Cost of a character by its class, in thousandths of a token.
mod cost {
    use super::TOKEN;

    /// A letter of a word in Latin script.
    pub(super) const LETTER: u64 = TOKEN * 10 / 47;
    /// A capital after a capital.
    pub(super) const CAPITAL: u64 = TOKEN * 10 / 27;
    /// A Cyrillic letter or one with an accent.
    pub(super) const EUROPEAN: u64 = TOKEN * 10 / 33;
    /// A letter of another alphabet.
    pub(super) const FOREIGN: u64 = TOKEN * 10 / 25;
    /// A Chinese, Japanese or Korean character.
    pub(super) const IDEOGRAPH: u64 = TOKEN * 10 / 16;
    pub(super) const DIGIT: u64 = TOKEN * 10 / 23;
    pub(super) const PUNCTUATION: u64 = TOKEN * 10 / 22;
    /// A symbol or picture.
    pub(super) const SYMBOL: u64 = TOKEN * 13 / 10;
    /// A repetition of the same punctuation or symbol, as in a rule or box.
    pub(super) const REPEATED: u64 = TOKEN / 8;
    /// A letter or digit of base64, a hash or a hexadecimal number.
    pub(super) const NOISE: u64 = TOKEN * 100 / 145;
}

/// The class of a character for a tokenizer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CharClass {
    Lower,
    Upper,
    Digit,
    European,
    Foreign,
    Ideograph,
    Punctuation,
    Symbol,
    Blank,
    LineEnd,
}

impl CharClass {
    fn of(c: char) -> Self {
        match c {
            'a'..='z' => Self::Lower,
            'A'..='Z' => Self::Upper,
            '0'..='9' => Self::Digit,
            '\n' | '\r' => Self::LineEnd,
            ' ' | '\t' => Self::Blank,
            '\0'..='\u{7f}' => Self::Punctuation,
            '\u{1100}'..='\u{11ff}'
            | '\u{3000}'..='\u{30ff}'
            | '\u{3400}'..='\u{9fff}'
            | '\u{ac00}'..='\u{d7af}'
            | '\u{f900}'..='\u{faff}'
            | '\u{ff00}'..='\u{ffef}'
            | '\u{20000}'..='\u{3ffff}' => Self::Ideograph,
            '\u{80}'..='\u{24f}' | '\u{400}'..='\u{52f}' if c.is_alphabetic() => Self::European,
            _ if c.is_alphabetic() => Self::Foreign,
            _ if c.is_whitespace() => Self::Blank,
            _ => Self::Symbol,
        }
    }

    fn is_word(self) -> bool {
        matches!(self, Self::Lower | Self::Upper | Self::Digit)
    }
}

/// A run of letters and digits: a word, a name, a number or noise.
#[derive(Debug, Default)]
struct AlphanumericRun {
    letters: u64,
    /// Capitals after capitals.
    capitals: u64,
    digits: u64,
    /// Number of changes between lower case, upper case and digits.
    changes: u64,
}

impl AlphanumericRun {
    fn push(&mut self, class: CharClass, before: CharClass) {
        // Lower case after a capital does not count as a change: words begin so.
        let is_capital = before == CharClass::Upper && class == CharClass::Lower;
        if before.is_word() && before != class && !is_capital {
            self.changes += 1;
        }
        if class == CharClass::Digit {
            self.digits += 1;
        } else if class == CharClass::Upper && before == CharClass::Upper {
            self.capitals += 1;
        } else {
            self.letters += 1;
        }
    }

    fn cost(&self) -> u64 {
        let length = self.letters + self.capitals + self.digits;
        if self.changes * 3 > length {
            // Random characters change their class at nearly every second position, camelCase at every fifth.
            length * cost::NOISE
        } else if self.digits == length {
            self.digits.div_ceil(3) * TOKEN
        } else {
            let letters = self.letters * cost::LETTER + self.capitals * cost::CAPITAL;
            (letters + self.digits * cost::DIGIT).max(TOKEN)
        }
    }
}

/// Estimates the tokens of a text. Linear in its length.
pub(super) fn estimate(text: &str) -> u64 {
    let mut sum: u64 = 0;
    let mut word = AlphanumericRun::default();
    let (mut last, mut before, mut blanks) = ('\n', CharClass::LineEnd, 0u32);
    for c in text.chars() {
        let class = CharClass::of(c);
        if class.is_word() {
            // A blank belongs to the token of the word after it, but not to that of a number.
            sum += if before == CharClass::Blank && class == CharClass::Digit { TOKEN } else { 0 };
            word.push(class, before);
        } else {
            sum += std::mem::take(&mut word).cost();
        }
        blanks = if class == CharClass::Blank { blanks + 1 } else { 0 };
        sum += match class {
            CharClass::European => cost::EUROPEAN,
            CharClass::Foreign => cost::FOREIGN,
            CharClass::Ideograph => cost::IDEOGRAPH,
            CharClass::Punctuation | CharClass::Symbol if c == last => cost::REPEATED,
            CharClass::Punctuation => cost::PUNCTUATION,
            CharClass::Symbol => cost::SYMBOL,
            // Of any number of blanks, all but the last are one token.
            CharClass::Blank if blanks == 2 => TOKEN,
            CharClass::Lower | CharClass::Upper | CharClass::Digit | CharClass::Blank => 0,
            // A line end belongs to the token of the punctuation and the line ends before it.
            CharClass::LineEnd if matches!(before, CharClass::Punctuation | CharClass::LineEnd) => {
                0
            }
            CharClass::LineEnd => TOKEN,
        };
        (last, before) = (c, class);
    }
    (sum + word.cost()).div_ceil(TOKEN)
}
