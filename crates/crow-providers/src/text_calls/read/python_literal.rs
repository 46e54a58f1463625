//! Reading of Python literals: strings in all their forms, numbers, lists, tuples, dictionaries and the constants.

use serde_json::{Map, Number, Value};

use super::{marker::after_name, python::is_name_start};

/// Maximum depth of lists and dictionaries.
const DEEPEST: usize = 64;
/// Note on a line break in a string that has quotes for one line.
const LINE_BREAK: &str = "a line break inside of a string";

/// The reason why a text is no literal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LiteralError {
    /// The text ends in the middle.
    Incomplete,
    /// It is something else.
    Other,
}

/// A position in a text with Python.
#[derive(Debug)]
pub(super) struct PythonCursor<'a> {
    text: &'a str,
    position: usize,
    has_line_break: bool,
}

/// The quotes around a string, and what its prefix says.
#[derive(Debug, Clone, Copy)]
struct StringStart {
    quote: char,
    is_triple: bool,
    is_raw: bool,
    /// True for a string with computed parts.
    is_format: bool,
    /// Bytes of prefix and quotes.
    length: usize,
}

impl<'a> PythonCursor<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, position: 0, has_line_break: false }
    }

    pub(super) fn position(&self) -> usize {
        self.position
    }

    pub(super) fn rest(&self) -> &'a str {
        &self.text[self.position..]
    }

    pub(super) fn skip(&mut self, length: usize) {
        self.position += length;
    }

    pub(super) fn return_to(&mut self, position: usize) {
        self.position = position;
    }

    /// Returns the mistakes that were accepted.
    pub(super) fn repairs(&self) -> Vec<String> {
        if self.has_line_break { vec![LINE_BREAK.to_owned()] } else { Vec::new() }
    }

    /// Returns the error of something else at the position.
    pub(super) fn error(&self) -> LiteralError {
        if self.rest().is_empty() { LiteralError::Incomplete } else { LiteralError::Other }
    }

    /// Skips blanks within a line.
    pub(super) fn skip_blanks(&mut self) {
        self.position = self.text.len() - self.rest().trim_start_matches([' ', '\t']).len();
    }

    /// Skips white space and comments.
    pub(super) fn skip_space(&mut self) {
        self.skip_all(char::is_whitespace);
    }

    /// Skips white space, comments, and what may stand between two statements.
    pub(super) fn skip_separators(&mut self) {
        self.skip_all(|c| c.is_whitespace() || matches!(c, ';' | ','));
    }

    fn skip_all(&mut self, is_skipped: impl Fn(char) -> bool) {
        loop {
            let rest = self.rest().trim_start_matches(&is_skipped);
            self.position = self.text.len() - rest.len();
            if !rest.starts_with('#') {
                return;
            }
            self.position += rest.find('\n').unwrap_or(rest.len());
        }
    }

    /// Takes one character.
    pub(super) fn take(&mut self, c: char) -> Result<(), LiteralError> {
        if !self.rest().starts_with(c) {
            return Err(self.error());
        }
        self.position += c.len_utf8();
        Ok(())
    }

    /// Takes the name of a function, with those of its modules. A name at the end of the text may go on.
    pub(super) fn name(&mut self) -> Result<&'a str, LiteralError> {
        let rest = self.rest();
        if !rest.starts_with(is_name_start) {
            return Err(self.error());
        }
        let after = after_name(rest);
        self.position += rest.len() - after.len();
        if after.is_empty() {
            return Err(LiteralError::Incomplete);
        }
        Ok(&rest[..rest.len() - after.len()])
    }

    /// Takes the name of an argument with its `=`, if there is one.
    pub(super) fn argument_name(&mut self) -> Option<&'a str> {
        let rest = self.rest();
        let after = rest.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || c == '_');
        let name = &rest[..rest.len() - after.len()];
        let value = after.trim_start().strip_prefix('=').filter(|value| !value.starts_with('='))?;
        if !name.starts_with(is_name_start) {
            return None;
        }
        self.position = self.text.len() - value.len();
        self.skip_space();
        Some(name)
    }

    /// Takes a literal.
    pub(super) fn value(&mut self) -> Result<Value, LiteralError> {
        self.value_at(0)
    }

    fn value_at(&mut self, depth: usize) -> Result<Value, LiteralError> {
        if depth > DEEPEST {
            return Err(LiteralError::Other);
        }
        if let Some(start) = string_start(self.rest()) {
            return self.strings(start).map(Value::String);
        }
        match self.rest().chars().next() {
            Some('[') => self.items('[', ']', depth).map(|(items, _)| Value::Array(items)),
            Some('(') => {
                // Parentheses around one value are no tuple.
                let (mut items, has_comma) = self.items('(', ')', depth)?;
                let is_tuple = has_comma || items.len() != 1;
                Ok(if is_tuple { Value::Array(items) } else { items.remove(0) })
            }
            Some('{') => self.dictionary(depth),
            Some(c) if c.is_ascii_digit() || matches!(c, '-' | '+' | '.') => self.number(),
            Some(_) | None => self.constant(),
        }
    }

    /// Takes values up to a closing bracket. Also tells if there is a comma.
    fn items(
        &mut self,
        open: char,
        close: char,
        depth: usize,
    ) -> Result<(Vec<Value>, bool), LiteralError> {
        self.take(open)?;
        let (mut items, mut has_comma) = (Vec::new(), false);
        loop {
            self.skip_space();
            if self.take(close).is_ok() {
                return Ok((items, has_comma));
            }
            items.push(self.value_at(depth + 1)?);
            self.skip_space();
            if self.take(',').is_err() {
                self.take(close)?;
                return Ok((items, has_comma));
            }
            has_comma = true;
        }
    }

    fn dictionary(&mut self, depth: usize) -> Result<Value, LiteralError> {
        self.take('{')?;
        let mut fields = Map::new();
        loop {
            self.skip_space();
            if self.take('}').is_ok() {
                return Ok(Value::Object(fields));
            }
            let start = string_start(self.rest()).ok_or_else(|| self.error())?;
            let key = self.strings(start)?;
            self.skip_space();
            self.take(':')?;
            self.skip_space();
            let value = self.value_at(depth + 1)?;
            fields.insert(key, value);
            self.skip_space();
            if self.take(',').is_err() {
                self.take('}')?;
                return Ok(Value::Object(fields));
            }
        }
    }

    fn number(&mut self) -> Result<Value, LiteralError> {
        let rest = self.rest();
        let mut before = ' ';
        let end = rest.find(|c: char| {
            let is_sign = matches!(c, '-' | '+') && matches!(before, ' ' | 'e' | 'E');
            before = c;
            !(is_sign || c.is_ascii_alphanumeric() || matches!(c, '.' | '_'))
        });
        let end = end.ok_or(LiteralError::Incomplete)?;
        let digits = rest[..end].replace('_', "");
        let digits = digits.strip_prefix('+').unwrap_or(&digits);
        let number = if let Some(hex) = digits.strip_prefix("0x") {
            i64::from_str_radix(hex, 16).ok().map(Number::from)
        } else if let Ok(number) = digits.parse::<i64>() {
            Some(Number::from(number))
        } else {
            let float =
                digits.parse::<f64>().ok().filter(|_| !digits.contains(['n', 'i', 'N', 'I']));
            float.and_then(Number::from_f64)
        };
        self.position += end;
        number.map(Value::Number).ok_or(LiteralError::Other)
    }

    fn constant(&mut self) -> Result<Value, LiteralError> {
        let rest = self.rest();
        let after = rest.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || c == '_');
        if after.is_empty() {
            return Err(LiteralError::Incomplete);
        }
        let value = match &rest[..rest.len() - after.len()] {
            "True" | "true" => Value::Bool(true),
            "False" | "false" => Value::Bool(false),
            "None" | "null" => Value::Null,
            _ => return Err(LiteralError::Other),
        };
        self.position = self.text.len() - after.len();
        Ok(value)
    }

    /// Takes a string, and those that follow it directly: Python joins them.
    fn strings(&mut self, start: StringStart) -> Result<String, LiteralError> {
        let mut text = String::new();
        self.string(start, &mut text)?;
        loop {
            let end = self.position;
            self.skip_space();
            let Some(next) = string_start(self.rest()) else {
                self.position = end;
                return Ok(text);
            };
            self.string(next, &mut text)?;
        }
    }

    fn string(&mut self, start: StringStart, text: &mut String) -> Result<(), LiteralError> {
        let StringStart { quote, is_triple, is_raw, is_format, length } = start;
        let end_mark = quote.to_string().repeat(if is_triple { 3 } else { 1 });
        self.position += length;
        loop {
            let rest = self.rest();
            if rest.starts_with(&end_mark) {
                self.position += end_mark.len();
                return Ok(());
            }
            let Some(c) = rest.chars().next() else { return Err(LiteralError::Incomplete) };
            match c {
                '\\' if is_raw => {
                    // A raw string keeps the backslash, and the quote after it.
                    text.push('\\');
                    self.position += 1;
                    if let Some(escaped) = rest[1..].chars().next() {
                        text.push(escaped);
                        self.position += escaped.len_utf8();
                    }
                }
                '\\' => self.escape(text)?,
                '{' | '}' if is_format => return Err(LiteralError::Other),
                c => {
                    self.has_line_break |= c == '\n' && !is_triple;
                    text.push(c);
                    self.position += c.len_utf8();
                }
            }
        }
    }

    /// Takes an escape sequence. Unknown ones stay as they are, as in Python.
    fn escape(&mut self, text: &mut String) -> Result<(), LiteralError> {
        let rest = &self.rest()[1..];
        let c = rest.chars().next().ok_or(LiteralError::Incomplete)?;
        self.position += 1 + c.len_utf8();
        let digits = match c {
            'x' => 2,
            'u' => 4,
            'U' => 8,
            _ => {
                match c {
                    '\n' => {}
                    'n' => text.push('\n'),
                    't' => text.push('\t'),
                    'r' => text.push('\r'),
                    'b' => text.push('\u{8}'),
                    'f' => text.push('\u{c}'),
                    'v' => text.push('\u{b}'),
                    'a' => text.push('\u{7}'),
                    '0' => text.push('\0'),
                    '\\' | '\'' | '"' => text.push(c),
                    c => {
                        text.push('\\');
                        text.push(c);
                    }
                }
                return Ok(());
            }
        };
        let code = hex(&rest[1..], digits);
        // Above the basic plane, JSON writes two escapes.
        let low = || hex(rest[1 + digits..].strip_prefix("\\u")?, 4);
        let pair = code.filter(|high| (0xD800..0xDC00).contains(high)).and_then(|high| {
            let low = low().filter(|low| (0xDC00..0xE000).contains(low))?;
            Some(0x1_0000 + ((high - 0xD800) << 10) + (low - 0xDC00))
        });
        let taken = digits + if pair.is_some() { 6 } else { 0 };
        if let Some(character) = pair.or(code).and_then(char::from_u32) {
            text.push(character);
            self.position += taken;
        } else {
            text.push('\\');
            text.push(c);
        }
        Ok(())
    }
}

/// Reads a number of hexadecimal digits.
fn hex(text: &str, digits: usize) -> Option<u32> {
    let digits = text.get(..digits)?;
    let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_hex.then(|| u32::from_str_radix(digits, 16).ok()).flatten()
}

/// Returns prefix and quotes at the beginning of a text.
fn string_start(text: &str) -> Option<StringStart> {
    let is_prefix = |c: &char| matches!(c.to_ascii_lowercase(), 'r' | 'u' | 'b' | 'f');
    let prefix = text.chars().take_while(is_prefix).count();
    let quote = text[prefix..].chars().next().filter(|quote| matches!(quote, '"' | '\''))?;
    if prefix > 2 {
        return None;
    }
    let is_triple = text[prefix..].starts_with(&quote.to_string().repeat(3));
    let has = |letter: char| text[..prefix].contains([letter, letter.to_ascii_uppercase()]);
    Some(StringStart {
        quote,
        is_triple,
        is_raw: has('r'),
        is_format: has('f'),
        length: prefix + if is_triple { 3 } else { 1 },
    })
}
