//! A writer of HTML that escapes all text, and the rendering of Markdown without anything active.

use std::fmt;

use crow_text::neutralise;
use pulldown_cmark::{Alignment, CowStr, Event, Options, Parser, Tag, TagEnd, html};

/// Writer of an HTML document. Markup comes from this crate only; everything else is text.
#[derive(Debug, Default)]
pub(super) struct HtmlWriter {
    out: String,
}

impl HtmlWriter {
    /// Adds markup.
    pub(super) fn markup(&mut self, markup: &str) {
        self.out.push_str(markup);
    }

    /// Adds markup with numbers, or with text that is escaped already.
    pub(super) fn format(&mut self, markup: fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = fmt::Write::write_fmt(&mut self.out, markup);
    }

    /// Adds a text: control characters become visible, and characters with a meaning are escaped.
    pub(super) fn text(&mut self, text: &str) {
        escape(&neutralise(text), &mut self.out);
    }

    /// Adds an element with a text. `open` is the start tag without its brackets, such as `p class="note"`.
    pub(super) fn element(&mut self, open: &str, text: &str) {
        let name = open.split(' ').next().unwrap_or(open);
        self.format(format_args!("<{open}>"));
        self.text(text);
        self.format(format_args!("</{name}>"));
    }

    /// Adds a text in Markdown.
    pub(super) fn markdown(&mut self, text: &str) {
        let text = neutralise(text);
        let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH;
        self.markup("<div class=\"text\">");
        let mut links = Vec::new();
        let events = Parser::new_ext(&text, options).filter_map(|event| inert(event, &mut links));
        html::push_html(&mut self.out, events);
        self.markup("</div>");
    }

    /// Returns the document.
    pub(super) fn finish(self) -> String {
        self.out
    }
}

/// Makes a part of Markdown inert: raw HTML becomes text, pictures become their descriptions, links to the web open a page of
/// their own, and what other links say becomes text. `links` has for each open link whether it leads to the web.
fn inert<'a>(event: Event<'a>, links: &mut Vec<bool>) -> Option<Event<'a>> {
    match event {
        Event::Html(text) | Event::InlineHtml(text) => Some(Event::Text(text)),
        Event::Start(Tag::Image { .. } | Tag::HtmlBlock)
        | Event::End(TagEnd::Image | TagEnd::HtmlBlock) => None,
        // Alignment would be an inline style, which the page forbids.
        Event::Start(Tag::Table(columns)) => {
            Some(Event::Start(Tag::Table(vec![Alignment::None; columns.len()])))
        }
        Event::Start(Tag::Link { dest_url, .. }) => {
            let leads_to_web = ["http://", "https://"].iter().any(|web| dest_url.starts_with(web));
            links.push(leads_to_web);
            let mut start = "<a target=\"_blank\" rel=\"noopener noreferrer\" href=\"".to_owned();
            escape(&dest_url.replace('"', "%22"), &mut start);
            start.push_str("\">");
            leads_to_web.then(|| Event::InlineHtml(CowStr::from(start)))
        }
        Event::End(TagEnd::Link) => {
            links.pop().unwrap_or_default().then_some(Event::InlineHtml(CowStr::Borrowed("</a>")))
        }
        other => Some(other),
    }
}

/// Adds `text` with the characters that have a meaning between tags escaped. It is not for attributes.
pub(super) fn escape(text: &str, out: &mut String) {
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            other => out.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn markdown(text: &str) -> String {
        let mut html = HtmlWriter::default();
        html.markdown(text);
        html.finish()
    }

    #[test]
    fn markdown_is_rendered_without_anything_active() {
        let table = markdown("| a |\n|--:|\n| 1 |");
        assert!(table.contains("<table>") && !table.contains("style="), "{table}");
        let hostile = "<script>alert(1)</script>\n\n<img src=x onerror=alert(1)> ![a](http://e/p.png) [b](javascript:alert(1)) [c](data:text/html,x) `<b>`";
        let shown = markdown(hostile);
        for active in ["<script", "<img", "onerror=\"", "href=\"javascript", "href=\"data", "<b>"] {
            assert!(!shown.contains(active), "{active}: {shown}");
        }
        assert!(shown.contains("&lt;script&gt;"), "{shown}");
        let links = markdown(
            "[in](src/main.rs) [out](https://e.org/?a=1&b=%22) [bad](<https://e/\"onclick=x>)",
        );
        assert_eq!(links.matches("<a ").count(), 2, "{links}");
        assert!(links.contains("href=\"https://e.org/?a=1&amp;b=%22\">out</a>"), "{links}");
        assert!(links.contains("%22onclick") && !links.contains("\"onclick"), "{links}");
    }

    #[test]
    fn text_is_escaped_and_control_characters_are_visible() {
        let mut html = HtmlWriter::default();
        html.element("p title=\"x\"", "a<b>&\"'\u{1b}[2J\u{202e}");
        assert_eq!(html.finish(), "<p title=\"x\">a&lt;b&gt;&amp;\"'␛[2J\\u{202e}</p>");
    }
}
