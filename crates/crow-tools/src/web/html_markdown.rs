//! HTML as Markdown.
//!
//! Pages may be hostile: 10,000 nested elements, missing end tags, a single tag of five megabytes. So no DOM tree is
//! built: a streaming tokenizer feeds a [`MarkdownWriter`], which keeps counters, bounded stacks and the output. Time and
//! memory are linear in the length of the page. Without a tree, implied end tags are handled only for list items, table
//! cells, paragraphs, options and buttons; elsewhere a missing end tag makes the layout less accurate.
//!
//! Scripts, styles and hidden elements are omitted, and so are navigation, forms, asides and footers. If less than
//! [`FEW`] bytes remain, or an omitted element was never closed, the page is converted again with less omitted.

use html5gum::{State, emitters::callback::CallbackEvent, naive_next_state};
use url::Url;

use super::{html_events::read_html, markdown_writer::MarkdownWriter, untrusted::on_one_line};

/// Bytes of a text below which a page is written again with more of its elements.
const FEW: usize = 250;
/// Maximum length of a title in characters.
const TITLE: usize = 200;
/// Maximum length in bytes of an address in a page that is read at all: each is joined with that of the page.
const ADDRESS: usize = 2_000;

/// Converts a page at an address. Returns its title, if it has one, and the Markdown.
pub(super) fn to_markdown(html: &str, url: &Url) -> (Option<String>, String) {
    let mut selections =
        vec![PageSelection::Main, PageSelection::WithoutNavigation, PageSelection::WholePage];
    if !has_main(html) {
        selections.remove(0);
    }
    let mut best = WrittenPage::default();
    for selection in selections {
        let written = WrittenPage::new(html, url, selection);
        if written.text.len() >= best.text.len() {
            best = written;
        }
        if best.text.len() >= FEW && !best.is_incomplete {
            break;
        }
    }
    (best.title, best.text)
}

fn has_main(html: &str) -> bool {
    html.as_bytes().windows(5).any(|window| window.eq_ignore_ascii_case(b"<main"))
}

/// Which elements of a page are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PageSelection {
    /// Only the `main` element, without navigation.
    Main,
    /// The whole page except navigation, asides, footers and forms.
    WithoutNavigation,
    /// Everything visible.
    WholePage,
}

#[derive(Debug, Default)]
struct WrittenPage {
    title: Option<String>,
    text: String,
    /// True if an omitted element was never closed, so that text after it may be missing.
    is_incomplete: bool,
}

impl WrittenPage {
    fn new(html: &str, url: &Url, selection: PageSelection) -> Self {
        let mut converter = PageConverter::new(url, selection);
        // The callback yields the next tokenizer state (raw text after `<script>`, for example). The tokenizer's own
        // switching does not recognise SVG, in which `<title/>` and `<style/>` are ordinary elements.
        read_html(html, &mut |event| converter.on_event(event));
        let is_incomplete = converter.is_incomplete || converter.omitted.is_some();
        Self { title: converter.title(), text: converter.writer.finish(), is_incomplete }
    }
}

/// The element whose start tag is being read, as far as its attributes matter.
#[derive(Debug, Default)]
struct StartTag {
    name: String,
    /// The name of the attribute whose value comes next.
    attribute: String,
    address: Option<String>,
    alternative: Option<String>,
    language: Option<String>,
    start: Option<u32>,
    is_hidden: bool,
    /// True if it is hidden only until a reader looks for it.
    is_revealed: bool,
}

impl StartTag {
    /// Returns true if readers never see the element. The panels of tabs are hidden until they are chosen, and whole
    /// pages until they are ready.
    fn is_omitted(&self) -> bool {
        let is_page = matches!(self.name.as_str(), "html" | "body" | "main");
        self.is_hidden && !self.is_revealed && !is_page
    }

    fn set(&mut self, value: &str) {
        match (self.name.as_str(), self.attribute.as_str()) {
            ("a" | "base", "href") if self.address.is_none() => {
                self.address = Some(value.trim().to_owned());
            }
            ("img", "alt") => self.alternative = Some(value.to_owned()),
            ("ol", "start") => self.start = value.trim().parse().ok(),
            (_, "hidden") => self.is_revealed |= value == "until-found",
            (_, "role") => self.is_revealed |= value == "tabpanel",
            (_, "aria-hidden") => self.is_hidden |= value == "true",
            (_, "style") => {
                let style: String = value.chars().filter(|c| !c.is_whitespace()).collect();
                let style = style.to_ascii_lowercase();
                self.is_hidden |=
                    style.contains("display:none") || style.contains("visibility:hidden");
            }
            ("code" | "pre", "class") => {
                let language = value.split_whitespace().find_map(|class| {
                    class.strip_prefix("language-").or_else(|| class.strip_prefix("lang-"))
                });
                self.language = language.map(str::to_owned);
            }
            _ => {}
        }
    }
}

/// An element that is left out with all that is in it.
#[derive(Debug)]
struct OmittedElement {
    name: String,
    /// Elements of the same name that are open in it, itself included.
    depth: usize,
    /// Lists and tables that are open in it.
    inner: usize,
    /// True if it is `svg` or `math`.
    is_foreign: bool,
}

/// Progress of reading the page title. Further `title` elements are ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TitleProgress {
    Before,
    InTitle,
    After,
    InAnother,
}

/// Reads the tokens of a page and writes its text.
#[derive(Debug)]
struct PageConverter {
    selection: PageSelection,
    /// Base URL for relative links: the page's address, or the `href` of the first `base` element.
    base: Url,
    writer: MarkdownWriter,
    tag: StartTag,
    omitted: Option<OmittedElement>,
    is_incomplete: bool,
    has_base: bool,
    main_depth: usize,
    title_progress: TitleProgress,
    title: String,
}

impl PageConverter {
    fn new(url: &Url, selection: PageSelection) -> Self {
        Self {
            selection,
            base: url.clone(),
            writer: MarkdownWriter::default(),
            tag: StartTag::default(),
            omitted: None,
            is_incomplete: false,
            has_base: false,
            main_depth: 0,
            title_progress: TitleProgress::Before,
            title: String::new(),
        }
    }

    /// Handles a token. Returns the state of the tokenizer if it changes.
    fn on_event(&mut self, event: &CallbackEvent<'_>) -> Option<State> {
        match event {
            CallbackEvent::OpenStartTag { name } => {
                self.tag = StartTag { name: lossy(name), ..StartTag::default() };
            }
            CallbackEvent::AttributeName { name } => {
                self.tag.attribute = lossy(name);
                self.tag.is_hidden |= self.tag.attribute == "hidden";
            }
            CallbackEvent::AttributeValue { value } => {
                self.tag.set(&String::from_utf8_lossy(value));
            }
            CallbackEvent::CloseStartTag { self_closing } => {
                let tag = std::mem::take(&mut self.tag);
                let is_foreign = self.omitted.as_ref().is_some_and(|omitted| omitted.is_foreign);
                let may_be_empty = is_foreign || matches!(tag.name.as_str(), "svg" | "math");
                self.start(&tag, *self_closing && may_be_empty);
                return if is_foreign { None } else { naive_next_state(tag.name.as_bytes()) };
            }
            CallbackEvent::EndTag { name } => self.end(&lossy(name)),
            CallbackEvent::String { value } => self.text(&String::from_utf8_lossy(value)),
            CallbackEvent::Comment { .. }
            | CallbackEvent::Doctype { .. }
            | CallbackEvent::Error(_) => {}
        }
        None
    }

    /// Starts an element. `is_empty` is true if it is one of SVG that ends at once.
    fn start(&mut self, tag: &StartTag, is_empty: bool) {
        let name = tag.name.as_str();
        // 1) Omitted elements
        if let Some(omitted) = &mut self.omitted {
            if omitted.inner > 0 || !is_ended_by_start(&omitted.name, name) {
                omitted.inner += usize::from(is_container(name));
                // A form in a form does not exist.
                let counts = omitted.name == name && name != "form";
                omitted.depth += usize::from(counts && !is_empty);
                return;
            }
            self.omitted = None;
        }
        if !is_void(name) && (tag.is_omitted() || self.is_omitted(name)) {
            if !is_empty {
                let (name, is_foreign) = (name.to_owned(), matches!(name, "svg" | "math"));
                self.omitted = Some(OmittedElement { name, depth: 1, inner: 0, is_foreign });
            }
            return;
        }
        // 2) Title, main element and base URL
        match name {
            "title" => {
                self.title_progress = match self.title_progress {
                    TitleProgress::Before | TitleProgress::InTitle => TitleProgress::InTitle,
                    TitleProgress::After | TitleProgress::InAnother => TitleProgress::InAnother,
                };
            }
            "main" => self.main_depth += 1,
            "base" => {
                // Only the first one counts.
                let address = tag.address.as_deref().filter(|_| !self.has_base);
                let address = address.filter(|address| address.len() <= ADDRESS);
                if let Some(base) = address.and_then(|text| self.base.join(text).ok()) {
                    (self.base, self.has_base) = (base, true);
                }
            }
            _ => {}
        }
        // 3) Output
        if !self.is_selected() {
            return;
        }
        match name {
            "a" => self.writer.start_link(self.address(tag.address.as_deref())),
            "ol" => self.writer.start_list(Some(tag.start.unwrap_or(1))),
            "ul" | "menu" => self.writer.start_list(None),
            "pre" => self.writer.start_preformatted(tag.language.as_deref()),
            "code" | "kbd" | "samp" | "tt" => self.writer.start_code(tag.language.as_deref()),
            "img" => {
                if let Some(text) =
                    tag.alternative.as_deref().filter(|text| !text.trim().is_empty())
                {
                    self.writer.text(&format!("[image: {}]", text.trim()));
                }
            }
            _ => self.writer.start(name),
        }
    }

    fn end(&mut self, name: &str) {
        if let Some(omitted) = &mut self.omitted {
            if is_container(name) && omitted.inner > 0 {
                omitted.inner -= 1;
                return;
            }
            let is_own = omitted.name == name;
            omitted.depth -= usize::from(is_own);
            let is_around = omitted.inner == 0 && is_ended_by_end(&omitted.name, name);
            let is_page = matches!(name, "body" | "html");
            if omitted.depth > 0 && !is_around && !is_page {
                return;
            }
            self.is_incomplete |= is_page && !is_own;
            self.omitted = None;
            // An end tag of a parent element is processed below as well.
            if is_own {
                return;
            }
        }
        if self.is_selected() {
            self.writer.end(name);
        }
        match name {
            "title" => self.title_progress = TitleProgress::After,
            "main" => self.main_depth = self.main_depth.saturating_sub(1),
            _ => {}
        }
    }

    fn text(&mut self, text: &str) {
        if self.omitted.is_some() {
            return;
        }
        match self.title_progress {
            TitleProgress::InTitle => self.title.push_str(text),
            TitleProgress::InAnother => {}
            TitleProgress::Before | TitleProgress::After if !self.is_selected() => {}
            TitleProgress::Before | TitleProgress::After => self.writer.text(text),
        }
    }

    fn is_selected(&self) -> bool {
        self.selection != PageSelection::Main || self.main_depth > 0
    }

    /// Returns true if an element is left out in this selection.
    fn is_omitted(&self, name: &str) -> bool {
        match name {
            "script" | "style" | "noscript" | "template" | "svg" | "iframe" | "object"
            | "canvas" | "audio" | "video" | "textarea" | "annotation" => true,
            "nav" | "footer" | "aside" | "form" | "dialog" | "button" | "select" => {
                self.selection != PageSelection::WholePage
            }
            _ => false,
        }
    }

    /// Returns the absolute address of a link that leads to another page.
    fn address(&self, address: Option<&str>) -> Option<String> {
        let address = address.filter(|text| !text.starts_with('#') && !text.is_empty())?;
        if address.len() > ADDRESS {
            return None;
        }
        let url = self.base.join(address).ok()?;
        matches!(url.scheme(), "http" | "https").then(|| url.to_string())
    }

    fn title(&self) -> Option<String> {
        Some(on_one_line(&self.title).chars().take(TITLE).collect())
            .filter(|title: &String| !title.is_empty())
    }
}

fn lossy(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}

/// Returns true if the start tag `next` implies the end tag of `open`, as in the HTML specification.
fn is_ended_by_start(open: &str, next: &str) -> bool {
    match open {
        "li" | "option" | "button" => next == open,
        "dt" | "dd" => matches!(next, "dt" | "dd"),
        "td" | "th" => matches!(next, "td" | "th" | "tr" | "tbody" | "tfoot"),
        "tr" => matches!(next, "tr" | "tbody" | "tfoot"),
        "p" => matches!(
            next,
            "p" | "div"
                | "ul"
                | "ol"
                | "dl"
                | "table"
                | "pre"
                | "blockquote"
                | "section"
                | "article"
                | "h1"
                | "h2"
                | "h3"
                | "h4"
                | "h5"
                | "h6"
                | "hr"
                | "form"
                | "figure"
                | "details"
        ),
        _ => false,
    }
}

/// Returns true if the end tag of a parent element implies the end tag of `open`, as in the HTML specification.
fn is_ended_by_end(open: &str, end: &str) -> bool {
    match open {
        "li" => matches!(end, "ul" | "ol" | "menu"),
        "option" => end == "select",
        "dt" | "dd" => end == "dl",
        "td" | "th" => matches!(end, "tr" | "tbody" | "thead" | "tfoot" | "table"),
        "tr" => matches!(end, "tbody" | "thead" | "tfoot" | "table"),
        "p" => matches!(
            end,
            "div"
                | "section"
                | "article"
                | "main"
                | "li"
                | "td"
                | "th"
                | "dd"
                | "blockquote"
                | "figure"
                | "details"
        ),
        _ => false,
    }
}

/// Returns true for elements whose children have optional end tags.
fn is_container(name: &str) -> bool {
    matches!(name, "ul" | "ol" | "menu" | "dl" | "table" | "select")
}

/// Returns true for void elements, which have no end tag.
fn is_void(name: &str) -> bool {
    matches!(
        name,
        "area"
            | "base"
            | "br"
            | "col"
            | "embed"
            | "hr"
            | "img"
            | "input"
            | "link"
            | "meta"
            | "param"
            | "source"
            | "track"
            | "wbr"
    )
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use proptest::prelude::*;

    use super::*;

    fn markdown(html: &str) -> String {
        to_markdown(html, &Url::parse("https://a.test/docs/x.html").unwrap()).1
    }

    #[test]
    fn elements_become_markdown() {
        for (html, expected) in [
            ("<h1>A</h1><p>b\n  c</p><p>d", "# A\n\nb c\n\nd"),
            ("a <b>b</b> <code>c</code>, <i>d</i>", "a **b** `c`, d"),
            ("<a href='../y?z=1#t'>l</a>", "[l](https://a.test/y?z=1#t)"),
            ("<a href='#t'>l</a> <a href='javascript:x()'>m</a> <a href=y></a>", "l m"),
            ("<a href=y><h3>H</h3><p>t</p></a>", "### H\n\nt (https://a.test/docs/y)"),
            ("<base href='https://b.test/'><a href=y>l</a>", "[l](https://b.test/y)"),
            (
                "<ul><li>a<li>b<ol start=3><li>c</li><li><p>d</p></ol></ul>e",
                "- a\n- b\n  3. c\n  4. d\n\ne",
            ),
            ("<ul><li><p>a</p><p>b</p></li></ul>", "- a\n\n  b"),
            (
                "<pre><code class='x language-rust'>fn a() {\n    1\n}\n</code></pre>z",
                "```rust\nfn a() {\n    1\n}\n```\n\nz",
            ),
            ("<pre>\n  a\n</pre>", "```\n  a\n```"),
            ("<code>a`b</code>", "`` a`b ``"),
            ("<blockquote><p>a</p><p>b</p></blockquote>c", "> a\n>\n> b\n\nc"),
            (
                "<table><tr><th>a<th>b</tr><tr><td>1</td><td>2</td></tr></table>c",
                "a | b\n--- | ---\n1 | 2\n\nc",
            ),
            ("<table><tr><td><table><tr><td>a<tr><td>b</table></table>", "a\nb"),
            ("<dl><dt>a</dt><dd>b</dd></dl>", "a\n: b"),
            ("a<br>b<br/>c", "a\nb\nc"),
            ("x<img src=y alt=' Z '>", "x[image: Z]"),
            ("a &amp; b &lt;c&gt; &nbsp;&eacute;", "a & b <c> \u{a0}é"),
            ("a<script>b</script><style>c</style><!-- d --><svg><text>e</text></svg>f", "af"),
            (
                "a<p hidden>b</p><p style='display: none'>c</p><span aria-hidden=true>d</span>e",
                "ae",
            ),
            ("a<div hidden><div>b</div>c</div>d", "ad"),
            ("<input hidden>a<br hidden>b", "a\nb"),
            ("</b></a></ul></table></pre>a</code>", "a"),
            ("<p><a href=y>one<p>two</a>", "one\n\ntwo (https://a.test/docs/y)"),
            ("<b><a href=y>x</b>y</a>", "**[x**y](https://a.test/docs/y)"),
            ("<table><tr><td>1<td>2</tr><tr><td><td>x</table>", "1 | 2\n| x"),
            ("<p>I</p><table><tr><th><th>A</tr></table>", "I\n\n| A\n--- | ---"),
            ("<table><tr><td><p>a</p></td><td><p>b</p><p>c</table>", "a | b c"),
            ("<table><tr><th>N<td>x<tr><th>A<td>3</table>", "N | x\nA | 3"),
            ("<pre><code><div>a</div><div>b</div></code></pre>", "```\na\nb\n```"),
            ("<pre>a ``` b</pre>", "````\na ``` b\n````"),
            ("10<sup>6</sup>, H<sub>2</sub>O, <sup><a href='#1'>[1]</a></sup>", "10^6, H_2O, ^[1]"),
            ("<ul><li hidden>a<li>b<li>c</ul><p>d", "- b\n- c\n\nd"),
            ("<p hidden>x<p>y", "y"),
            ("<ul><li hidden>a</ul>b", "b"),
            ("a<svg><title/><style/><path/><svg/></svg>b", "ab"),
            ("a<script src=x/>var k=1</script>b", "ab"),
            ("a<div hidden/>x</div>b", "ab"),
            ("<div role=tabpanel hidden>a</div><div hidden=until-found>b</div>", "a\nb"),
            ("<body style='visibility:hidden'>a", "a"),
            ("<base href='https://b.test/'><base href=x/><a href=y>l</a>", "[l](https://b.test/y)"),
            (
                "<pre><a href=s>x</a></pre><p>see <a href=t>T</a>",
                "```\nx\n```\n\nsee [T](https://a.test/docs/t)",
            ),
            ("<a name=x><a name=y><a href=t>T</a>", "[T](https://a.test/docs/t)"),
            ("<ol><li>x<li hidden>s<ul><li>no</ul>t</li><li>y</ol>", "1. x\n2. y"),
            ("<table><tr><td>1<td hidden>2</tr><tr><td>3<td hidden>4</table>", "1\n3"),
            ("<table><tr><td hidden><ul><li>a</ul>b</td><td>c</table>d", "c\n\nd"),
            ("<p>a<svg data-src=i.svg /><p>rest", "a\n\nrest"),
            ("<button>a<button>b</button><p>rest", "ab\n\nrest"),
            ("<form><form></form><p>rest", "rest"),
            ("<table><tr><td>x<td><pre>y</pre></table>", "x |\n```\ny\n```"),
            ("<a href=y><pre>c</pre></a>", "```\nc\n```\n (https://a.test/docs/y)"),
            ("<blockquote><pre>a\n</pre></blockquote>", "> ```\n> a\n> ```"),
            ("<pre> <code class=language-rust>x</code></pre>", "```rust\n x\n```"),
            ("<ol><li><h3>A</h3></li></ol>", "1. ### A"),
            ("<ul><li></ul><p>text", "text"),
            ("<table><tr><td>a<ul><li></ul><td>b</table>", "a | b"),
            ("<ul><li>x<dl><dt>a<dd>b</dl></ul>", "- x\n\n  a\n  : b"),
            ("x<sup></sup>y", "xy"),
            ("<code>Option&lt;<a href=x>T</a>&gt;</code>", "`Option<T>`"),
            ("<a href=x href=y>l</a>", "[l](https://a.test/docs/x)"),
            ("<title>t</title><title>u</title>a", "a"),
            ("", ""),
        ] {
            assert_eq!(markdown(html), expected, "{html}");
        }
    }

    #[test]
    fn what_surrounds_the_text_is_left_out_if_enough_is_left() {
        let long = "word ".repeat(60);
        let page = format!(
            "<title> A \n page </title><nav>Menu</nav><header><h1>H</h1></header>\
             <form>Sign in</form><p>{long}<footer>(c)</footer>"
        );
        let url = Url::parse("https://a.test/").unwrap();
        let (title, text) = to_markdown(&page, &url);
        assert_eq!((title.as_deref(), text), (Some("A page"), format!("# H\n\n{}", long.trim())));
        let main = format!("<div>before</div><MAIN><p>{long}</MAIN>after");
        assert_eq!(to_markdown(&main, &url).1, long.trim());
        // Elements without ends take nothing along.
        for unclosed in ["<button>a<button>b</button>", "<nav>menu", "<form><form></form>"] {
            let page = format!("<p>{long}{unclosed}<p>rest");
            assert!(to_markdown(&page, &url).1.ends_with("rest"), "{unclosed}");
        }
        // A page whose text is in its navigation.
        assert_eq!(to_markdown("<nav><p>All there is</nav>", &url).1, "All there is");
        assert_eq!(to_markdown("<main></main><p>outside", &url).1, "outside");
    }

    #[test]
    fn hostile_pages_take_time_that_grows_with_their_length() {
        let pages = [
            "<div>".repeat(200_000),
            "<ul><li>".repeat(100_000),
            "<blockquote>x".repeat(50_000),
            "<b><a href=x>y".repeat(50_000),
            "<table><tr><td>x".repeat(50_000),
            "<pre>x".repeat(100_000),
            "<nav>".repeat(100_000),
            format!("<p {}>x", "a=b ".repeat(200_000)),
            format!("<a href='{}'>x</a>", "y".repeat(1_000_000)),
            format!("<b>{}</b>", "x <b>".repeat(100_000)),
            "&".repeat(500_000),
            "<".repeat(500_000),
            format!("<title>{}", "x".repeat(1_000_000)),
            format!(
                "<base href='https://a.test/{}/'>{}",
                "A".repeat(500_000),
                "<a href=x>y".repeat(100_000)
            ),
            "<base href='a/'>".repeat(100_000) + &"<a href=x>y".repeat(50_000),
            format!(
                "{}{}<pre>x{}x",
                "<blockquote>".repeat(12),
                "<ul>".repeat(12),
                "\n".repeat(1_000_000)
            ),
        ];
        for page in pages {
            let start = Instant::now();
            let text = markdown(&page);
            let (name, taken) = (&page[..20], start.elapsed());
            assert!(text.len() <= 40 * page.len(), "{name}: {} bytes", text.len());
            assert!(taken < Duration::from_secs(20), "{name}: {taken:?}");
        }
    }

    proptest! {
        #[test]
        fn every_page_is_converted(parts in proptest::collection::vec(part(), 0..60)) {
            let text = markdown(&parts.concat());
            prop_assert_eq!(text.trim_end(), text.as_str());
        }
    }

    fn part() -> impl Strategy<Value = String> {
        let names = [
            "p",
            "a href=x",
            "b",
            "ul",
            "li",
            "ol",
            "pre",
            "code",
            "table",
            "tr",
            "td",
            "th",
            "blockquote",
            "h2",
            "dd",
            "br",
            "nav",
            "main",
            "title",
            "p hidden",
        ];
        let start = proptest::sample::select(names.to_vec());
        prop_oneof![
            start.clone().prop_map(|name| format!("<{name}>")),
            start.prop_map(|name| format!("</{}>", name.split(' ').next().unwrap_or(name))),
            "[a-z `|\n]{0,6}",
        ]
    }
}
