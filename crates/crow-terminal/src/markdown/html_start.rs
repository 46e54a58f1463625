//! The seven ways in which a block of HTML begins and ends.

use super::cursor::{is_blank, is_space};

/// End condition of an HTML block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HtmlEnd {
    /// A line that contains one of these, in lower case.
    Text(&'static [&'static str]),
    BlankLine,
}

const RAW_TAGS: [&str; 4] = ["pre", "script", "style", "textarea"];
const RAW_ENDS: &[&str] = &["</pre>", "</script>", "</style>", "</textarea>"];

#[rustfmt::skip]
const BLOCK_TAGS: [&str; 62] = [
    "address", "article", "aside", "base", "basefont", "blockquote", "body", "caption", "center", "col", "colgroup",
    "dd", "details", "dialog", "dir", "div", "dl", "dt", "fieldset", "figcaption", "figure", "footer", "form", "frame",
    "frameset", "h1", "h2", "h3", "h4", "h5", "h6", "head", "header", "hr", "html", "iframe", "legend", "li", "link",
    "main", "menu", "menuitem", "nav", "noframes", "ol", "optgroup", "option", "p", "param", "search", "section",
    "summary", "table", "tbody", "td", "tfoot", "th", "thead", "title", "tr", "track", "ul",
];

/// Returns how the block of HTML ends that `line` begins. A tag that is not known begins none within a paragraph.
pub(super) fn html_start(line: &str, is_within_paragraph: bool) -> Option<HtmlEnd> {
    let rest = line.strip_prefix('<')?;
    if rest.starts_with("!--") {
        return Some(HtmlEnd::Text(&["-->"]));
    }
    if rest.starts_with('?') {
        return Some(HtmlEnd::Text(&["?>"]));
    }
    if rest.starts_with("![CDATA[") {
        return Some(HtmlEnd::Text(&["]]>"]));
    }
    if rest.starts_with('!') && rest[1..].starts_with(|first: char| first.is_ascii_alphabetic()) {
        return Some(HtmlEnd::Text(&[">"]));
    }
    let is_closing = rest.starts_with('/');
    let tag = &rest[usize::from(is_closing)..];
    let length = tag.bytes().take_while(u8::is_ascii_alphanumeric).count();
    let (name, after) = (tag[..length].to_ascii_lowercase(), &tag[length..]);
    let ends = after.is_empty() || after.starts_with([' ', '\t', '>']);
    if !is_closing && ends && RAW_TAGS.contains(&name.as_str()) {
        return Some(HtmlEnd::Text(RAW_ENDS));
    }
    if (ends || after.starts_with("/>")) && BLOCK_TAGS.contains(&name.as_str()) {
        return Some(HtmlEnd::BlankLine);
    }
    let is_whole_tag = !is_within_paragraph && after_tag(rest).is_some_and(is_blank);
    is_whole_tag.then_some(HtmlEnd::BlankLine)
}

impl HtmlEnd {
    /// Returns whether the block ends with this line.
    pub(super) fn is_in(self, line: &str) -> bool {
        match self {
            Self::Text(ends) => {
                let line = line.to_ascii_lowercase();
                ends.iter().any(|end| line.contains(end))
            }
            Self::BlankLine => false,
        }
    }
}

/// Returns what follows a complete tag whose `<` is already consumed.
fn after_tag(text: &str) -> Option<&str> {
    let is_closing = text.starts_with('/');
    let name = &text[usize::from(is_closing)..];
    if !name.starts_with(|first: char| first.is_ascii_alphabetic()) {
        return None;
    }
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'-';
    let mut rest = &name[name.bytes().take_while(is_name).count()..];
    if !is_closing {
        while let Some(next) = after_attribute(rest) {
            rest = next;
        }
    }
    rest = without_spaces(rest);
    if !is_closing {
        rest = rest.strip_prefix('/').unwrap_or(rest);
    }
    rest.strip_prefix('>')
}

fn after_attribute(text: &str) -> Option<&str> {
    let rest = without_spaces(text);
    let is_first = |byte: u8| byte.is_ascii_alphabetic() || matches!(byte, b'_' | b':');
    if rest.len() == text.len() || !rest.bytes().next().is_some_and(is_first) {
        return None;
    }
    let is_name =
        |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b':' | b'-');
    let rest = &rest[rest.bytes().take_while(is_name).count()..];
    let Some(value) = without_spaces(rest).strip_prefix('=') else { return Some(rest) };
    let value = without_spaces(value);
    for quote in ['"', '\''] {
        if let Some(inner) = value.strip_prefix(quote) {
            return inner.split_once(quote).map(|(_, after)| after);
        }
    }
    let is_value = |byte: &u8| !is_space(*byte) && !b"\"'=<>`".contains(byte);
    let length = value.bytes().take_while(is_value).count();
    (length > 0).then_some(&value[length..])
}

fn without_spaces(text: &str) -> &str {
    &text[text.bytes().take_while(|byte| is_space(*byte)).count()..]
}
