//! A JSON parser that accepts common mistakes of models.
//!
//! Accepts everything that strict JSON allows and, beyond it, only what has one meaning. A text that could mean two
//! things (an unescaped quote, a missing comma) is an error. [`LenientJsonReader`] is a recursive-descent parser over
//! `rest`; each deviation that it accepts is noted once in `mends`, for the model.

use std::fmt;

use serde_json::{Map, Number, Value};

/// Maximum depth of arrays and objects; the same as in strict JSON.
const DEEPEST: usize = 127;
/// Maximum length of a text, in bytes.
const LONGEST: usize = 8 << 20;
/// Maximum number of characters of the text in an error.
const SHOWN: usize = 24;

/// A deviation from strict JSON that was accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum JsonRepair {
    /// A Markdown fence around it.
    Fence,
    /// A string in single quotes.
    SingleQuotes,
    /// A comma after the last item.
    TrailingComma,
    /// A key without quotes.
    BareKey,
    /// `True`, `False` or `None`.
    PythonLiteral,
    /// A line end or another control character in a string.
    ControlCharacter,
    /// A backslash before a character that needs none.
    Escape,
    /// A comment.
    Comment,
    /// A string, array or object without its end.
    Unclosed,
    /// Brackets after the end.
    ExtraBrackets,
}

impl fmt::Display for JsonRepair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fence => "a code fence around it",
            Self::SingleQuotes => "single quotes",
            Self::TrailingComma => "a trailing comma",
            Self::BareKey => "a key without quotes",
            Self::PythonLiteral => "True, False or None",
            Self::ControlCharacter => "an unescaped control character in a string",
            Self::Escape => "an invalid escape, kept as it stands",
            Self::Comment => "a comment",
            Self::Unclosed => "missing closing brackets at the end",
            Self::ExtraBrackets => "extra closing brackets at the end",
        })
    }
}

/// A value with the deviations that were accepted.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RepairedJson {
    pub(super) value: Value,
    /// Each kind at most once.
    pub(super) repairs: Vec<JsonRepair>,
}

/// Error for a text that is not JSON, or is ambiguous.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum SyntaxError {
    #[error("{what} at line {line}, column {column}, before `{before}`")]
    At { what: &'static str, line: usize, column: usize, before: String },
    #[error("the text ends {what}")]
    End { what: &'static str },
    #[error("the text is longer than {LONGEST} bytes")]
    TooLong,
}

/// A JSON value at the beginning of a longer text.
#[derive(Debug, Clone, PartialEq)]
pub struct JsonPrefix<'a> {
    /// The value.
    pub value: Value,
    /// The text after it.
    pub rest: &'a str,
    /// The mistakes that were accepted, each at most once, as phrases for the model.
    pub repairs: Vec<String>,
    /// False if closing brackets at the end of the text are missing, so that the value may be cut.
    pub is_closed: bool,
}

/// Reads a JSON value at the beginning of a text, with the same mistakes as in the arguments of a call. Returns `None`
/// if there is none, or a cut or ambiguous one.
pub fn read_json_prefix(text: &str) -> Option<JsonPrefix<'_>> {
    if text.len() > LONGEST {
        return None;
    }
    let mut reader = LenientJsonReader { text, rest: text, repairs: Vec::new() };
    let value = reader.value(0).ok()?;
    Some(JsonPrefix {
        value,
        rest: reader.rest,
        repairs: reader.repairs.iter().map(ToString::to_string).collect(),
        is_closed: !reader.repairs.contains(&JsonRepair::Unclosed),
    })
}

/// Parses a text, strictly if possible.
pub(super) fn read(text: &str) -> Result<RepairedJson, SyntaxError> {
    if let Ok(value) = serde_json::from_str(text) {
        return Ok(RepairedJson { value, repairs: Vec::new() });
    }
    if text.len() > LONGEST {
        return Err(SyntaxError::TooLong);
    }
    let mut reader = LenientJsonReader { text, rest: text, repairs: Vec::new() };
    reader.fence();
    let value = reader.value(0)?;
    reader.end()?;
    Ok(RepairedJson { value, repairs: reader.repairs })
}

/// Parses a text from its start. Every method leaves `rest` after what it consumed.
struct LenientJsonReader<'a> {
    text: &'a str,
    rest: &'a str,
    repairs: Vec<JsonRepair>,
}

impl<'a> LenientJsonReader<'a> {
    /// Removes a code fence from both ends.
    fn fence(&mut self) {
        let Some(inner) = self.rest.trim_start().strip_prefix("```") else { return };
        self.note(JsonRepair::Fence);
        let inner = inner.trim_start_matches(|c: char| c.is_ascii_alphanumeric());
        let inner = inner.trim_end();
        self.text = inner.strip_suffix("```").unwrap_or(inner);
        self.rest = self.text;
    }

    fn value(&mut self, depth: usize) -> Result<Value, SyntaxError> {
        self.skip_blanks()?;
        match self.peek() {
            None => Err(SyntaxError::End { what: "where a value is missing" }),
            Some('{' | '[') if depth >= DEEPEST => Err(self.error("nested too deep")),
            Some('{') => self.object(depth).map(Value::Object),
            Some('[') => self.array(depth).map(Value::Array),
            Some(quote @ ('"' | '\'')) => self.string(quote).map(Value::String),
            Some('-' | '0'..='9') => self.number().map(Value::Number),
            Some(_) => self.literal(),
        }
    }

    fn object(&mut self, depth: usize) -> Result<Map<String, Value>, SyntaxError> {
        self.advance();
        let mut map = Map::new();
        while self.has_item('}')? {
            let start = self.rest;
            let key = self.key()?;
            if map.contains_key(&key) {
                self.rest = start;
                return Err(self.error("the same key for the second time"));
            }
            self.skip_blanks()?;
            match self.peek() {
                Some(':') => self.advance(),
                Some(_) => return Err(self.error("no colon after a key")),
                None => return Err(SyntaxError::End { what: "after a key" }),
            }
            let value = self.value(depth + 1)?;
            map.insert(key, value);
            self.separator('}')?;
        }
        Ok(map)
    }

    fn array(&mut self, depth: usize) -> Result<Vec<Value>, SyntaxError> {
        self.advance();
        let mut items = Vec::new();
        while self.has_item(']')? {
            items.push(self.value(depth + 1)?);
            self.separator(']')?;
        }
        Ok(items)
    }

    /// Returns true if an item follows; else consumes the closing bracket.
    fn has_item(&mut self, close: char) -> Result<bool, SyntaxError> {
        self.skip_blanks()?;
        match self.peek() {
            None => {
                self.note(JsonRepair::Unclosed);
                Ok(false)
            }
            Some(c) if c == close => {
                self.advance();
                Ok(false)
            }
            Some(_) => Ok(true),
        }
    }

    /// Consumes the comma between two items.
    fn separator(&mut self, close: char) -> Result<(), SyntaxError> {
        self.skip_blanks()?;
        match self.peek() {
            Some(',') => {
                self.advance();
                self.skip_blanks()?;
                if self.peek().is_none_or(|c| c == close) {
                    self.note(JsonRepair::TrailingComma);
                }
                Ok(())
            }
            Some(c) if c != close => Err(self.error("no comma or closing bracket after a value")),
            Some(_) | None => Ok(()),
        }
    }

    fn key(&mut self) -> Result<String, SyntaxError> {
        match self.peek() {
            Some(quote @ ('"' | '\'')) => self.string(quote),
            Some(c) if c.is_alphabetic() || c == '_' || c == '$' => {
                self.note(JsonRepair::BareKey);
                let word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '$' | '-');
                Ok(self.take_while(word).to_owned())
            }
            Some(_) | None => Err(self.error("no key")),
        }
    }

    fn number(&mut self) -> Result<Number, SyntaxError> {
        let start = self.rest;
        let digits =
            self.take_while(|c| c.is_ascii_digit() || matches!(c, '-' | '+' | '.' | 'e' | 'E'));
        serde_json::from_str(digits).map_err(|_| {
            self.rest = start;
            self.error("not a number")
        })
    }

    fn literal(&mut self) -> Result<Value, SyntaxError> {
        let start = self.rest;
        let word = self.take_while(|c| c.is_alphanumeric() || c == '_');
        let (value, is_python) = match word {
            "true" => (Value::Bool(true), false),
            "false" => (Value::Bool(false), false),
            "null" => (Value::Null, false),
            "True" => (Value::Bool(true), true),
            "False" => (Value::Bool(false), true),
            "None" => (Value::Null, true),
            _ => {
                self.rest = start;
                return Err(self.error("not a value"));
            }
        };
        if is_python {
            self.note(JsonRepair::PythonLiteral);
        }
        Ok(value)
    }

    fn string(&mut self, quote: char) -> Result<String, SyntaxError> {
        self.advance();
        if quote == '\'' {
            self.note(JsonRepair::SingleQuotes);
        }
        let mut content = String::new();
        loop {
            content.push_str(self.take_while(|c| c != quote && c != '\\' && c >= ' '));
            match self.peek() {
                // The end of a cut string is unknown, so it is never closed: half a command is not a command.
                None => {
                    return Err(SyntaxError::End { what: "inside a string that was never closed" });
                }
                Some('\\') => {
                    self.advance();
                    self.escape(quote, &mut content)?;
                }
                Some(c) => {
                    self.advance();
                    if c == quote {
                        return Ok(content);
                    }
                    self.note(JsonRepair::ControlCharacter);
                    content.push(c);
                }
            }
        }
    }

    fn escape(&mut self, quote: char, content: &mut String) -> Result<(), SyntaxError> {
        let Some(c) = self.peek() else {
            return Err(SyntaxError::End { what: "inside an escape" });
        };
        let escaped = match c {
            '"' | '\\' | '/' => c,
            '\'' => {
                if quote == '"' {
                    self.note(JsonRepair::Escape);
                }
                c
            }
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'u' => self.unicode()?,
            // A regular expression or a path whose backslashes were not doubled. Only in double quotes: in a
            // single-quoted string (Python) such an escape may mean something else, so it is an error.
            _ if quote == '"' => {
                self.note(JsonRepair::Escape);
                content.push('\\');
                return Ok(());
            }
            _ => return Err(self.error("an escape that JSON does not know")),
        };
        self.advance();
        content.push(escaped);
        Ok(())
    }

    /// Parses `uXXXX` up to its last digit, and the second half of a surrogate pair.
    fn unicode(&mut self) -> Result<char, SyntaxError> {
        let invalid = "an invalid \\u escape";
        let first = self.hex().ok_or_else(|| self.error(invalid))?;
        if let Some(c) = char::from_u32(first) {
            return Ok(c);
        }
        self.advance();
        let second = self.rest.strip_prefix('\\').and_then(|rest| {
            self.rest = rest;
            self.hex()
        });
        let pair = second.and_then(|second| char::decode_utf16(halves(first, second)).next());
        pair.and_then(Result::ok).ok_or_else(|| self.error(invalid))
    }

    /// Consumes `uXXX` of `uXXXX`; the caller advances over the last digit.
    fn hex(&mut self) -> Option<u32> {
        let digits = self.rest.strip_prefix('u')?.get(..4)?;
        if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        self.rest = self.rest.get(4..)?;
        u32::from_str_radix(digits, 16).ok()
    }

    /// Skips blanks and comments.
    fn skip_blanks(&mut self) -> Result<(), SyntaxError> {
        loop {
            self.rest =
                self.rest.trim_start_matches(|c: char| c.is_whitespace() || c == '\u{feff}');
            if self.rest.starts_with("//") || self.rest.starts_with('#') {
                self.take_while(|c| c != '\n');
            } else if let Some(comment) = self.rest.strip_prefix("/*") {
                let Some((_, after)) = comment.split_once("*/") else {
                    return Err(SyntaxError::End { what: "inside a comment" });
                };
                self.rest = after;
            } else {
                return Ok(());
            }
            self.note(JsonRepair::Comment);
        }
    }

    /// Consumes what may follow the value.
    fn end(&mut self) -> Result<(), SyntaxError> {
        self.skip_blanks()?;
        let extra = self.take_while(|c| matches!(c, '}' | ']') || c.is_whitespace());
        if !extra.is_empty() {
            self.note(JsonRepair::ExtraBrackets);
        }
        if self.rest.is_empty() { Ok(()) } else { Err(self.error("text after the end")) }
    }

    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn advance(&mut self) {
        let mut chars = self.rest.chars();
        chars.next();
        self.rest = chars.as_str();
    }

    fn take_while(&mut self, accepts: impl Fn(char) -> bool) -> &'a str {
        let end = self.rest.find(|c| !accepts(c)).unwrap_or(self.rest.len());
        let (front, rest) = self.rest.split_at(end);
        self.rest = rest;
        front
    }

    fn note(&mut self, repair: JsonRepair) {
        if !self.repairs.contains(&repair) {
            self.repairs.push(repair);
        }
    }

    fn error(&self, what: &'static str) -> SyntaxError {
        let before = &self.text[..self.text.len() - self.rest.len()];
        let line_start = before.rfind('\n').map_or(0, |end| end + 1);
        SyntaxError::At {
            what,
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            before: self.rest.chars().take(SHOWN).collect(),
        }
    }
}

/// Returns the halves of a surrogate pair as UTF-16.
fn halves(first: u32, second: u32) -> [u16; 2] {
    [first, second].map(|half| u16::try_from(half).expect("invariant: four hexadecimal digits fit"))
}
