//! Decodes the records of `SQLite` tables, and parses the columns that the SQL text of a table
//! declares. Only as much of the SQL is understood as decides where a column is stored and how its
//! value is read: names, types, keys, defaults and generated columns.

use std::borrow::Cow;

/// A value of one column in one row.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum SqliteValue {
    /// No value.
    #[default]
    Null,
    /// A whole number.
    Integer(i64),
    /// A floating-point number.
    Real(f64),
    /// A text, in which bytes that are no valid text are replaced by U+FFFD.
    Text(String),
    /// Bytes.
    Blob(Vec<u8>),
}

/// How a database stores its texts.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SqliteEncoding {
    Utf8,
    Utf16Little,
    Utf16Big,
}

impl SqliteEncoding {
    fn decode(self, bytes: Cow<'_, [u8]>) -> String {
        let from_pair = match self {
            Self::Utf8 => {
                return String::from_utf8(bytes.into_owned()).unwrap_or_else(|error| {
                    String::from_utf8_lossy(error.as_bytes()).into_owned()
                });
            }
            Self::Utf16Little => u16::from_le_bytes,
            Self::Utf16Big => u16::from_be_bytes,
        };
        let units = bytes.as_chunks().0.iter().map(|pair| from_pair(*pair));
        char::decode_utf16(units).map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
    }
}

/// Reads a number of one to nine bytes and tells how many bytes it took.
pub(crate) fn read_varint(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut value = 0;
    for (index, &byte) in bytes.iter().take(9).enumerate() {
        // The ninth byte carries eight bits, every other byte seven.
        if index == 8 {
            return Some(((value << 8) | u64::from(byte), 9));
        }
        value = (value << 7) | u64::from(byte & 0x7f);
        if byte < 0x80 {
            return Some((value, index + 1));
        }
    }
    None
}

/// Tells how many bytes a value of this serial type takes in a record.
pub(crate) fn stored_length(serial_type: u64) -> Option<u64> {
    match serial_type {
        0 | 8 | 9 => Some(0),
        1..=4 => Some(serial_type),
        5 => Some(6),
        6 | 7 => Some(8),
        10 | 11 => None,
        _ => Some((serial_type - 12) / 2),
    }
}

/// Makes a value of its stored bytes, whose count is the one of `stored_length`.
pub(crate) fn decode_value(
    serial_type: u64,
    bytes: Cow<'_, [u8]>,
    encoding: SqliteEncoding,
) -> SqliteValue {
    match serial_type {
        0 => SqliteValue::Null,
        8 => SqliteValue::Integer(0),
        9 => SqliteValue::Integer(1),
        1..=6 => {
            let sign = if bytes.first().is_some_and(|first| *first >= 0x80) { -1 } else { 0 };
            let number = bytes.iter().fold(sign, |number, byte| (number << 8) | i64::from(*byte));
            SqliteValue::Integer(number)
        }
        7 => {
            let bits = bytes.iter().fold(0, |bits, byte| (bits << 8) | u64::from(*byte));
            let number = f64::from_bits(bits);
            if number.is_nan() { SqliteValue::Null } else { SqliteValue::Real(number) }
        }
        _ if serial_type.is_multiple_of(2) => SqliteValue::Blob(bytes.into_owned()),
        _ => SqliteValue::Text(encoding.decode(bytes)),
    }
}

/// Type affinity of a column: the conversion of the values stored in it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Affinity {
    Unchanged,
    Text,
    Numeric,
    Real,
}

/// A column as the SQL of its table declares it.
#[derive(Debug)]
pub(crate) struct Column {
    pub(crate) name: String,
    /// Whether the column is another name of the rowid; its stored value is null.
    pub(crate) is_rowid: bool,
    /// Whether the column is computed when it is read; it is not in the record.
    pub(crate) is_virtual: bool,
    /// The value in records that were written before the column was added.
    pub(crate) default: SqliteValue,
    is_integer: bool,
    affinity: Affinity,
}

impl Column {
    /// Changes a stored value to what a reader of this column gets.
    pub(crate) fn read_as(&self, value: SqliteValue) -> SqliteValue {
        match value {
            // Whole numbers in a column of real numbers are stored as integers to save space.
            SqliteValue::Integer(number) if self.affinity == Affinity::Real => {
                #[expect(clippy::cast_precision_loss, reason = "SQLite rounds in the same way")]
                let real = number as f64;
                SqliteValue::Real(real)
            }
            value => value,
        }
    }

    fn from_definition(definition: &[Token]) -> Option<Self> {
        let name = definition.first()?.name()?.to_owned();
        let type_length = definition[1..]
            .iter()
            .take_while(|token| token.name().is_some() && !token.is_any(&AFTER_TYPE))
            .count();
        let (type_words, constraints) = definition[1..].split_at(type_length);
        let is_integer = matches!(type_words, [word] if word.is("INTEGER"))
            && constraints.first() != Some(&Token::Symbol('('));
        let affinity = affinity_of(type_words);
        let key = find_pair(constraints, "PRIMARY", "KEY");
        // A quirk that the format keeps: a descending key is not the rowid.
        let is_descending =
            key.is_some_and(|key| constraints.get(key + 2).is_some_and(|token| token.is("DESC")));
        let is_formula = |pair: &[Token]| pair[0].is("AS") && pair[1] == Token::Symbol('(');
        let is_virtual = constraints.windows(2).position(is_formula).is_some_and(|at| {
            let after = closing_parenthesis(constraints, at + 1).map_or(0, |end| end + 1);
            !constraints.get(after).is_some_and(|token| token.is("STORED"))
        });
        let default = constraints.iter().position(|token| token.is("DEFAULT"));
        let default = default.map_or(SqliteValue::Null, |at| literal(&constraints[at + 1..]));
        let is_rowid = is_integer && key.is_some() && !is_descending;
        let mut column =
            Self { name, is_rowid, is_virtual, default: SqliteValue::Null, is_integer, affinity };
        column.default = column.read_as(convert(default, affinity));
        Some(column)
    }
}

/// Columns and keys that a CREATE TABLE statement declares.
#[derive(Debug)]
pub(crate) struct TableDefinition {
    pub(crate) columns: Vec<Column>,
    pub(crate) is_without_rowid: bool,
}

impl TableDefinition {
    /// Reads a CREATE TABLE statement, in the form in which a database keeps it.
    pub(crate) fn parse(sql: &str) -> Option<Self> {
        let tokens = split_tokens(sql);
        let start = tokens.iter().position(|token| *token == Token::Symbol('('))?;
        let end = closing_parenthesis(&tokens, start)?;
        let is_without_rowid = find_pair(&tokens[end..], "WITHOUT", "ROWID").is_some();
        let mut columns: Vec<Column> = Vec::new();
        for definition in split_at_commas(&tokens[start + 1..end]) {
            if !definition.first()?.is_any(&TABLE_CONSTRAINTS) {
                columns.push(Column::from_definition(definition)?);
                continue;
            }
            // A key of one integer column, declared after the columns, is the rowid as well.
            if let Some(key) = find_pair(definition, "PRIMARY", "KEY")
                && let Some(end) = closing_parenthesis(definition, key + 2)
                && let terms = split_at_commas(&definition[key + 3..end])
                && let [term] = terms.as_slice()
                && let Some(name) = term.iter().find_map(Token::name)
            {
                // Whatever follows are further constraints.
                for column in &mut columns {
                    column.is_rowid |= column.is_integer && column.name.eq_ignore_ascii_case(name);
                }
                break;
            }
        }
        (columns.len() <= MOST_COLUMNS).then_some(Self { columns, is_without_rowid })
    }
}

/// The most columns that `SQLite` allows.
pub(crate) const MOST_COLUMNS: usize = 32_767;

const TABLE_CONSTRAINTS: [&str; 5] = ["CONSTRAINT", "PRIMARY", "UNIQUE", "CHECK", "FOREIGN"];

/// The words that end the type of a column.
const AFTER_TYPE: [&str; 11] = [
    "CONSTRAINT",
    "PRIMARY",
    "NOT",
    "NULL",
    "UNIQUE",
    "CHECK",
    "DEFAULT",
    "COLLATE",
    "REFERENCES",
    "GENERATED",
    "AS",
];

#[derive(Debug, PartialEq)]
enum Token {
    /// A keyword, a bare name or a number.
    Word(String),
    /// A quoted name or text.
    Quoted(String),
    Symbol(char),
}

impl Token {
    fn is(&self, keyword: &str) -> bool {
        matches!(self, Self::Word(word) if word.eq_ignore_ascii_case(keyword))
    }

    fn is_any(&self, keywords: &[&str]) -> bool {
        keywords.iter().any(|keyword| self.is(keyword))
    }

    fn name(&self) -> Option<&str> {
        match self {
            Self::Word(name) | Self::Quoted(name) => Some(name),
            Self::Symbol(_) => None,
        }
    }
}

fn split_tokens(sql: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut rest = sql;
    while let Some(first) = rest.chars().next() {
        let after = &rest[first.len_utf8()..];
        if first.is_ascii_whitespace() {
            rest = after;
        } else if rest.starts_with("--") {
            rest = rest.split_once('\n').map_or("", |(_, after)| after);
        } else if let Some(comment) = rest.strip_prefix("/*") {
            rest = comment.split_once("*/").map_or("", |(_, after)| after);
        } else if matches!(first, '"' | '\'' | '`' | '[') {
            let (text, after) = split_quoted(after, if first == '[' { ']' } else { first });
            tokens.push(Token::Quoted(text));
            rest = after;
        } else if is_in_word(first) || is_number(rest) {
            let (word, after) = rest.split_at(word_length(rest));
            tokens.push(Token::Word(word.to_owned()));
            rest = after;
        } else {
            tokens.push(Token::Symbol(first));
            rest = after;
        }
    }
    tokens
}

fn is_in_word(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '_' | '$') || !character.is_ascii()
}

fn is_number(text: &str) -> bool {
    text.strip_prefix('.').unwrap_or(text).starts_with(|first: char| first.is_ascii_digit())
}

fn word_length(text: &str) -> usize {
    let (is_number, is_hex) = (is_number(text), text.starts_with("0x") || text.starts_with("0X"));
    let mut previous = ' ';
    let end = text.find(|character: char| {
        // A number has a point, and a sign after the letter of its exponent.
        let is_exponent = matches!(character, '+' | '-') && matches!(previous, 'e' | 'E');
        let is_in_number = is_number && !is_hex && (character == '.' || is_exponent);
        previous = character;
        !is_in_word(character) && !is_in_number
    });
    end.unwrap_or(text.len())
}

/// Splits after the closing quote; the quote itself is doubled inside the text.
fn split_quoted(text: &str, quote: char) -> (String, &str) {
    let mut content = String::new();
    let mut rest = text;
    while let Some((part, after)) = rest.split_once(quote) {
        content.push_str(part);
        rest = after;
        match after.strip_prefix(quote) {
            Some(after) if quote != ']' => rest = after,
            _ => return (content, rest),
        }
        content.push(quote);
    }
    content.push_str(rest);
    (content, "")
}

fn find_pair(tokens: &[Token], first: &str, second: &str) -> Option<usize> {
    tokens.windows(2).position(|pair| pair[0].is(first) && pair[1].is(second))
}

/// Finds the parenthesis that closes the one at `start`.
fn closing_parenthesis(tokens: &[Token], start: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (index, token) in tokens.iter().enumerate().skip(start) {
        match token {
            Token::Symbol('(') => depth += 1,
            Token::Symbol(')') if depth == 1 => return Some(index),
            Token::Symbol(')') => depth = depth.checked_sub(1)?,
            _ if depth == 0 => return None,
            _ => {}
        }
    }
    None
}

fn split_at_commas(tokens: &[Token]) -> Vec<&[Token]> {
    let mut depth = 0_usize;
    let is_comma = |token: &Token| {
        match token {
            Token::Symbol('(') => depth += 1,
            Token::Symbol(')') => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && *token == Token::Symbol(',')
    };
    tokens.split(is_comma).collect()
}

fn affinity_of(type_words: &[Token]) -> Affinity {
    let words: Vec<&str> = type_words.iter().filter_map(Token::name).collect();
    let name = words.join(" ").to_ascii_uppercase();
    let has = |parts: &[&str]| parts.iter().any(|part| name.contains(part));
    // The order matters: a FLOATING POINT is numeric, because it contains INT.
    match () {
        () if has(&["INT"]) => Affinity::Numeric,
        () if has(&["CHAR", "CLOB", "TEXT"]) => Affinity::Text,
        () if has(&["BLOB"]) || name.is_empty() || name == "ANY" => Affinity::Unchanged,
        () if has(&["REAL", "FLOA", "DOUB"]) => Affinity::Real,
        () => Affinity::Numeric,
    }
}

/// Reads the literal that tokens begin with; whatever is not a simple literal counts as null.
fn literal(tokens: &[Token]) -> SqliteValue {
    let start = tokens.iter().take_while(|token| **token == Token::Symbol('(')).count();
    match &tokens[start..] {
        [Token::Symbol('-'), Token::Word(word), ..] => number(&format!("-{word}")),
        [Token::Symbol('+'), Token::Word(word), ..] => number(word),
        [Token::Word(x), Token::Quoted(digits), ..] if x.eq_ignore_ascii_case("x") => {
            let pairs = digits.as_bytes().chunks(2);
            let bytes = pairs.map(|pair| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok());
            bytes.collect::<Option<_>>().map_or(SqliteValue::Null, SqliteValue::Blob)
        }
        [Token::Quoted(text), ..] => SqliteValue::Text(text.clone()),
        [word, ..] if word.is("TRUE") => SqliteValue::Integer(1),
        [word, ..] if word.is("FALSE") => SqliteValue::Integer(0),
        [Token::Word(word), ..] if is_number(word) => number(word),
        [word, ..] if word.is("NULL") => SqliteValue::Null,
        [Token::Word(_), Token::Symbol('('), ..] => SqliteValue::Null,
        [Token::Word(word), ..] => SqliteValue::Text(word.clone()),
        _ => SqliteValue::Null,
    }
}

fn number(text: &str) -> SqliteValue {
    let text = text.replace('_', "").to_ascii_lowercase();
    if let Some(digits) = text.strip_prefix("0x") {
        let bits = u64::from_str_radix(digits, 16).ok();
        return bits.map_or(SqliteValue::Null, |bits| SqliteValue::Integer(bits.cast_signed()));
    }
    let real = || text.parse().map_or(SqliteValue::Null, SqliteValue::Real);
    text.parse().map_or_else(|_| real(), SqliteValue::Integer)
}

/// Changes a default value to what its column would store.
fn convert(value: SqliteValue, affinity: Affinity) -> SqliteValue {
    let value = match (affinity, value) {
        (Affinity::Numeric | Affinity::Real, SqliteValue::Text(text))
            if is_signed_number(&text) =>
        {
            number(text.trim())
        }
        (_, value) => value,
    };
    match (affinity, value) {
        (Affinity::Text, SqliteValue::Integer(number)) => SqliteValue::Text(number.to_string()),
        (Affinity::Text, SqliteValue::Real(number)) => {
            let text = format!("{number:?}");
            // Longer numbers are written in another way by SQLite, which is not imitated here.
            if text.len() > 15 || text.contains('e') {
                SqliteValue::Null
            } else {
                SqliteValue::Text(text)
            }
        }
        (Affinity::Numeric, SqliteValue::Real(number)) if number.fract() == 0.0 => {
            let whole = format!("{number:.0}").parse();
            whole.map_or(SqliteValue::Real(number), SqliteValue::Integer)
        }
        (_, value) => value,
    }
}

fn is_signed_number(text: &str) -> bool {
    let text = text.trim();
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    is_number(digits) && text.parse::<f64>().is_ok()
}
