//! `${…}` by the shells' own rule: which parameter it expands, and where it ends.
//!
//! While bash and dash read a line, the end of an expansion is the first `}` that is neither quoted, nor escaped, nor
//! part of an inner expansion or substitution. Braces are not counted, so that `${x#{a}` ends at its first `}`. The
//! grammar sees patterns and words in an operand and may take more. The shells differ from each other in the meaning
//! of quotes in an operand: it depends on the quotes around the expansion and on its operator.
//!
//! So only operands on which all three agree are accepted: plain characters, escaped ones, quotes around plain
//! characters (which end at the same place whether they count as quotes or not), and inner substitutions and
//! expansions, which are nodes of the grammar and are checked separately. Everything else is not understood.

use std::{collections::HashMap, iter::Peekable, str::CharIndices};

/// A parameter expansion: `${name}`, or with an operator and an operand.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ParameterExpansion<'text> {
    pub name: &'text str,
    pub operator: Operator,
    /// The offset after its closing brace.
    pub end: usize,
}

/// The effect of an expansion on its parameter, as far as it matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operator {
    /// Yields the value, a part of it, or another text.
    Value,
    /// Sets the parameter if it has no value: `:=`, `=`.
    Assign,
}

/// The end offsets of nodes by their start offsets in the text.
pub(super) type NodeEnds = HashMap<usize, usize>;

/// Reads the expansion at the start of a text. `inner` are the substitutions and expansions that the grammar found in
/// it. Returns `None` unless all shells certainly agree.
pub(super) fn parameter_expansion<'text>(
    text: &'text str,
    inner: &NodeEnds,
) -> Option<ParameterExpansion<'text>> {
    let body = text.strip_prefix("${")?;
    // `${#x}` is a length, and takes no operator. Shells read `${#-x}` and the like differently.
    if let Some(counted) = body.strip_prefix('#') {
        let name = name_of(counted);
        let rest = counted.get(name.len()..)?;
        let (_, rest) = subscript(rest)?;
        let end = text.len() - rest.strip_prefix('}')?.len();
        return Some(ParameterExpansion { name, operator: Operator::Value, end });
    }
    let name = name_of(body);
    if name.is_empty() {
        return None;
    }
    let (index, rest) = subscript(body.get(name.len()..)?)?;
    let (operator, operand) = operator(rest)?;
    if operator == Operator::Assign && !index.is_empty() {
        return None;
    }
    let base = text.len() - operand.len();
    let mut operand = OperandScanner { chars: operand.char_indices().peekable(), inner, base };
    let end = operand.end()?;
    Some(ParameterExpansion { name, operator, end })
}

/// Returns the name of a variable, a positional parameter or a special one at the start of a text. `!` is excluded:
/// it evaluates another variable.
fn name_of(text: &str) -> &str {
    let is_name = |char: char| char.is_ascii_alphanumeric() || char == '_';
    let end = match text.chars().next() {
        Some('@' | '*' | '?' | '$' | '-') => 1,
        Some(char) if char.is_ascii_digit() => {
            text.find(|char: char| !char.is_ascii_digit()).unwrap_or(text.len())
        }
        Some(_) | None => text.find(|char: char| !is_name(char)).unwrap_or(text.len()),
    };
    &text[..end]
}

/// Splits off an index, if there is one: a number, `@` or `*`. Any other is arithmetic, and may run commands.
fn subscript(text: &str) -> Option<(&str, &str)> {
    let Some(inner) = text.strip_prefix('[') else { return Some(("", text)) };
    let (index, rest) = inner.split_once(']')?;
    let is_number = !index.is_empty() && index.chars().all(|char| char.is_ascii_digit());
    (is_number || matches!(index, "@" | "*")).then_some((index, rest))
}

/// Splits off an operator. `@` is refused: `${x@P}` runs commands in the value.
fn operator(text: &str) -> Option<(Operator, &str)> {
    let rest = text.strip_prefix(':').unwrap_or(text);
    let mut chars = rest.chars();
    match chars.next()? {
        '=' => Some((Operator::Assign, chars.as_str())),
        '-' | '+' | '?' => Some((Operator::Value, chars.as_str())),
        // A substring: offset and length are arithmetic, so that only numbers are accepted.
        _ if rest.len() < text.len() => {
            let (range, _) = rest.split_once('}')?;
            let is_number = |char: char| char.is_ascii_digit() || matches!(char, ':' | ' ' | '-');
            (!range.is_empty() && range.chars().all(is_number)).then_some((Operator::Value, rest))
        }
        '}' => Some((Operator::Value, rest)),
        '#' | '%' | '/' | '^' | ',' => Some((Operator::Value, chars.as_str())),
        _ => None,
    }
}

/// A scanner for the end of an operand.
struct OperandScanner<'text, 'nodes> {
    /// The remaining text, with offsets from `base`.
    chars: Peekable<CharIndices<'text>>,
    inner: &'nodes NodeEnds,
    base: usize,
}

impl OperandScanner<'_, '_> {
    /// Returns the offset after the brace that ends the expansion.
    fn end(&mut self) -> Option<usize> {
        while let Some((at, char)) = self.chars.next() {
            match char {
                '}' => return Some(self.base + at + 1),
                '\\' => self.escaped()?,
                '\'' => self.single_quoted()?,
                '"' => self.double_quoted()?,
                '$' | '`' => self.dollar_or_backquote(at, char)?,
                '<' | '>' if matches!(self.chars.peek(), Some((_, '('))) => return None,
                // Bash takes a brace as plain text here. Unquoted ones are rare enough to refuse.
                '{' | '\n' => return None,
                _ => {}
            }
        }
        None
    }

    /// Skips an escaped character. A line continuation is refused: it joins the text around it, which may then be an
    /// operator.
    fn escaped(&mut self) -> Option<()> {
        self.chars.next().filter(|(_, char)| *char != '\n').map(drop)
    }

    fn single_quoted(&mut self) -> Option<()> {
        loop {
            match self.chars.next()?.1 {
                '\'' => return Some(()),
                char if is_plain(char) => {}
                _ => return None,
            }
        }
    }

    fn double_quoted(&mut self) -> Option<()> {
        loop {
            match self.chars.next()? {
                (_, '"') => return Some(()),
                (at, char @ ('$' | '`')) => self.dollar_or_backquote(at, char)?,
                (_, char) if is_plain(char) => {}
                _ => return None,
            }
        }
    }

    /// Skips a substitution or expansion that the grammar found. A `$` alone, or before a name, is plain text here.
    fn dollar_or_backquote(&mut self, at: usize, char: char) -> Option<()> {
        if let Some(end) = self.inner.get(&(self.base + at)) {
            while self.chars.next_if(|(at, _)| self.base + at < *end).is_some() {}
            return Some(());
        }
        let is_open = |next: char| matches!(next, '(' | '{' | '[' | '\'' | '"' | '`' | '\\' | '$');
        let opens = char == '`' || self.chars.peek().is_some_and(|(_, next)| is_open(*next));
        (!opens).then_some(())
    }
}

/// Returns whether quotes around a character make no difference for the end of an expansion.
fn is_plain(char: char) -> bool {
    char.is_alphanumeric() || " .,/:+-_*?=@%#~^!;|&<>()[]".contains(char)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expansion_ends_at_the_first_brace_that_closes_nothing_else() {
        let end = |text: &str, inner: &[(usize, usize)]| {
            let inner = inner.iter().copied().collect();
            parameter_expansion(text, &inner).map(|expansion| expansion.end)
        };
        for (text, inner, wanted) in [
            ("${x}", &[][..], 4),
            ("${x} }", &[], 4),
            ("${x#a} && id #}", &[], 6),
            ("${x#a b} }", &[], 8),
            ("${x%\\}} }", &[], 7),
            ("${x:-'a b'}", &[], 11),
            ("${x:-\"a b\"}", &[], 11),
            ("${x//a/b}", &[], 9),
            ("${x/#(a)/b}", &[], 11),
            ("${x[0]}", &[], 7),
            ("${x[@]:1:2}", &[], 11),
            ("${#x}", &[], 5),
            ("${#}", &[], 4),
            ("${#x[@]}", &[], 8),
            ("${x: -3}", &[], 8),
            ("${x:-$y}", &[], 8),
            ("${x%$}", &[], 6),
            ("${x:-${y}}", &[(5, 9)], 10),
            ("${x:-$(a })}", &[(5, 11)], 12),
            ("${x:-\"$(a })\"}", &[(6, 12)], 14),
            ("${@}", &[], 4),
            ("${1:?no file}", &[], 13),
            ("${HOME:?(}}$y && id }", &[], 10),
        ] {
            assert_eq!(end(text, inner), Some(wanted), "{text}");
        }
    }

    #[test]
    fn an_expansion_that_shells_may_read_differently_is_not_understood() {
        for text in [
            "${x#{a} && id #}",
            "${x##{a}; id #}",
            "${x:-'}'}",
            "${x:-\"}\"}",
            "${x:-'a}",
            "${x:-$'a'}",
            "${x:-$\"a\"}",
            "${x:-$[1]}",
            "${x:-$$(a)}",
            "${x:-$(a)}",
            "${x:-`a`}",
            "${x:-${y}}",
            "${x:-<(a)}",
            "${x:-\n}",
            "${x#\\\n}",
            "${!x}",
            "${!x@}",
            "${x@P}",
            "${x[1+1]}",
            "${x[y]}",
            "${x[]}",
            "${x:y}",
            "${x:1+1}",
            "${x:}",
            "${#x:-a}",
            "${#-a}",
            "${x[0]:=a}",
            "${}",
            "${ id; }",
            "${|id;}",
            "${x~}",
            "${x",
            "$x",
        ] {
            assert_eq!(parameter_expansion(text, &NodeEnds::new()), None, "{text}");
        }
    }
}
