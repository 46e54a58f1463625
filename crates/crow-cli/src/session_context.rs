//! The context window of a stored session (`/context`, `sessions show --context`): an account of its requests, as text
//! or JSON lines.

use std::fmt::Write as _;

use crow_app::SessionRecord;
use crow_console::{
    ConsoleStyle, Paint,
    words::{count, dollars, tokens},
    wrap::{shorten_end, width, wrap_hanging},
};
use crow_context::accounting::{
    CacheOutcome, CompactionRecord, ContextAudit, ContextShare, ContextUsage, PrefixDifference,
    RequestKind, RequestRecord,
};
use crow_core::{
    context::TokenEstimator,
    ids::SessionId,
    model::{ModelRef, Price},
    usage::TokenUsage,
};
use crow_text::one_line;

use crate::{
    error::CliError,
    output::{ContextCompactionLine, ContextLine, ContextRequestLine, output_line},
};

/// Columns of the bar, where there is room.
const BAR: usize = 32;
/// Columns of the words after the bar.
const BAR_WORDS: usize = 22;
/// Minimum columns of a screen on which the shares tell what is cached.
const CACHE_COLUMNS: usize = 50;
/// Columns of a token count.
const NUMBER: usize = 7;
/// Maximum number of cache misses and compactions that are listed, the last ones.
const LISTED: usize = 12;

/// The context window of a session.
pub(crate) struct SessionContext {
    session: SessionId,
    audit: ContextAudit,
    usage: ContextUsage,
    price: Option<Price>,
}

impl SessionContext {
    /// Folds the log of the session; its subagents and reviewers have windows of their own.
    ///
    /// # Errors
    /// Fails if lines of the log are lost, so that the others do not follow from each other.
    pub(crate) fn new(
        record: &SessionRecord,
        prices: &[(ModelRef, Price)],
    ) -> Result<Self, CliError> {
        let session = &record.metadata.session_id;
        let own = record.events.iter().filter(|line| line.session_id == *session);
        let audit = ContextAudit::from_log(own).map_err(|error| {
            CliError::failed(format!("the log of session {session} is damaged: {error}"))
                .hint(format!("crow-agent sessions repair {session}"))
        })?;
        let usage = audit.usage(&TokenEstimator::new("", &[]));
        let model = audit.requests().iter().rev().find_map(|request| request.model.as_ref());
        let price = prices.iter().find(|(of, _)| Some(of) == model).map(|(_, price)| *price);
        Ok(Self { session: session.clone(), audit, usage, price })
    }

    /// Renders what fills the window by owner, what the next request costs, the cache misses, and the compactions.
    pub(crate) fn to_text(&self, style: &ConsoleStyle) -> String {
        let Self { audit, usage, price, .. } = self;
        let mut out = String::new();
        Paint::Bold.write(style, &heading(usage), &mut out);
        out.push('\n');
        if let Some(window) = usage.window {
            out.push_str(&bar(style, usage, window));
        }
        out.push_str(&share_table(style, usage));
        if let Some(price) = price.filter(|_| usage.tokens > 0) {
            out.push_str(&wrap_hanging(
                style,
                Paint::Plain,
                ("", "  "),
                &price_text(usage, &price),
            ));
        }
        if !usage.largest.is_empty() {
            let outputs = usage.largest.iter().map(|output| {
                format!(
                    "{} {} ({})",
                    one_line(&output.tool),
                    tokens(output.tokens),
                    one_line(output.call_id.as_str())
                )
            });
            let text = format!("largest outputs: {}", outputs.collect::<Vec<_>>().join(", "));
            out.push_str(&wrap_hanging(style, Paint::Plain, ("", "  "), &text));
        }
        out.push('\n');
        out.push_str(&wrap_hanging(style, Paint::Plain, ("", "  "), &cache_text(audit)));
        let misses: Vec<_> = misses(audit.requests()).collect();
        for (number, request, text) in misses.iter().skip(misses.len().saturating_sub(LISTED)) {
            let time = request.time.strftime("%H:%M");
            let text = format!("request {number}, {time}: {text}");
            out.push_str(&wrap_hanging(style, Paint::Plain, ("  ", "    "), &text));
            if let Some(difference) = &request.difference {
                out.push_str(&wrap_hanging(
                    style,
                    Paint::Dim,
                    ("    ", "      "),
                    &differs(difference),
                ));
            }
        }
        let compactions = audit.compactions();
        for compaction in compactions.iter().skip(compactions.len().saturating_sub(LISTED)) {
            out.push_str(&wrap_hanging(
                style,
                Paint::Plain,
                ("", "  "),
                &compaction_text(compaction),
            ));
        }
        if !compactions.is_empty() {
            let text =
                "What was left out is still in the log: the agent finds it with its tool recall.";
            out.push_str(&wrap_hanging(style, Paint::Dim, ("", "  "), text));
        }
        out
    }

    /// Renders the account for programs.
    pub(crate) fn to_json_lines(&self) -> Result<Vec<u8>, CliError> {
        let mut text = output_line(&ContextLine::new(&self.session, &self.usage))?;
        for request in self.audit.requests() {
            text.extend(output_line(&ContextRequestLine::new(request))?);
        }
        for compaction in self.audit.compactions() {
            text.extend(output_line(&ContextCompactionLine::new(compaction))?);
        }
        Ok(text)
    }
}

fn heading(usage: &ContextUsage) -> String {
    let used = tokens(usage.tokens);
    match usage.window {
        Some(window) => format!(
            "context: {used} of {} tokens ({} %)",
            tokens(window),
            usage.tokens * 100 / window.max(1)
        ),
        None => format!("context: {used} tokens; the window of the model is unknown"),
    }
}

/// Renders the used part of the window, with a mark where a compaction begins.
fn bar(style: &ConsoleStyle, usage: &ContextUsage, window: u64) -> String {
    let bar = BAR.min(style.width.saturating_sub(BAR_WORDS)).max(8);
    let columns = |part: u64| {
        let columns = part.min(window) * bar as u64 / window.max(1);
        usize::try_from(columns).unwrap_or(bar)
    };
    let used = columns(usage.tokens);
    let mark = usage.compaction_at.map(columns);
    let (full, empty) = (style.glyphs.pick("█", "#"), style.glyphs.pick("░", "."));
    let cells = (0..bar).map(|column| match mark {
        Some(mark) if mark == column && mark >= used => style.glyphs.pick("┆", "|"),
        _ if column < used => full,
        _ => empty,
    });
    let cells: String = cells.collect();
    let at = usage.compaction_at.map(|at| format!("  compacted at {}", tokens(at)));
    format!("{cells}{}\n", at.unwrap_or_default())
}

fn share_table(style: &ConsoleStyle, usage: &ContextUsage) -> String {
    let mut shares: Vec<&ContextShare> =
        usage.shares.iter().filter(|share| share.tokens > 0).collect();
    shares.sort_by(|one, other| other.tokens.cmp(&one.tokens).then(one.owner.cmp(&other.owner)));
    let shows_cache = usage.cached() > 0 && style.width >= CACHE_COLUMNS;
    let numbers =
        if shows_cache { 2 * NUMBER + "  cached ".len() } else { NUMBER } + "  100 %".len();
    let longest = shares.iter().map(|share| width(&share.owner.to_string())).max().unwrap_or(0);
    let names = longest.min(style.width.saturating_sub(numbers + 4).max(10));
    let mut out = String::new();
    for share in shares {
        let name = shorten_end(&one_line(&share.owner.to_string()), names, style.glyphs);
        let padding = " ".repeat(names.saturating_sub(width(&name)));
        let percent = share.tokens * 100 / usage.tokens.max(1);
        // Writing to a string cannot fail.
        let _ = write!(out, "  {name}{padding}{:>NUMBER$}  {percent:>3} %", tokens(share.tokens));
        if shows_cache && share.cached > 0 {
            let cached =
                if share.cached == share.tokens { "all".to_owned() } else { tokens(share.cached) };
            let _ = write!(out, "  {cached} cached");
        }
        out.push('\n');
    }
    out
}

fn price_text(usage: &ContextUsage, price: &Price) -> String {
    let cached = usage.cached();
    let next = TokenUsage {
        input_tokens: usage.tokens,
        cache_read_tokens: cached,
        ..TokenUsage::default()
    };
    let cost = dollars(price.cost(&next));
    if cached == 0 {
        format!("the input of the next request costs {cost}")
    } else {
        let uncached = TokenUsage { cache_read_tokens: 0, ..next };
        format!(
            "the input of the next request costs {cost}; without the cache {}",
            dollars(price.cost(&uncached))
        )
    }
}

fn cache_text(audit: &ContextAudit) -> String {
    let replies = audit.requests().iter().filter(|request| request.kind == RequestKind::Reply);
    let (mut number, mut input, mut read) = (0, 0, 0);
    for request in replies {
        number += 1;
        input += request.usage.input_tokens;
        read += request.usage.cache_read_tokens;
    }
    let requests = count(number, "request");
    if number == 0 {
        return "no request was answered yet".to_owned();
    }
    if !audit.reports_cache() {
        return format!("{requests}; the provider reports no cache");
    }
    let part = read * 1000 / input.max(1);
    let misses = misses(audit.requests()).count() as u64;
    let misses = match misses {
        0 => "no cache miss".to_owned(),
        1 => "1 cache miss:".to_owned(),
        more if more > LISTED as u64 => format!("{more} cache misses, the last {LISTED}:"),
        more => format!("{more} cache misses:"),
    };
    format!(
        "{requests}, {}.{} % of their input read from the cache; {misses}",
        part / 10,
        part % 10
    )
}

/// Returns the requests with a cache miss, with their numbers among the replies.
fn misses(requests: &[RequestRecord]) -> impl Iterator<Item = (usize, &RequestRecord, String)> {
    let replies = requests.iter().filter(|request| request.kind == RequestKind::Reply);
    replies.enumerate().filter_map(|(index, request)| {
        let CacheOutcome::Miss { lost, cause } = &request.cache else { return None };
        Some((
            index + 1,
            request,
            format!("{} tokens read anew: {}", tokens(*lost), one_line(&cause.to_string())),
        ))
    })
}

fn differs(difference: &PrefixDifference) -> String {
    let PrefixDifference { message, byte, before, after } = difference;
    format!(
        "first difference in message {}, byte {byte}: {} before, {} now",
        message + 1,
        quoted(before),
        quoted(after)
    )
}

fn quoted(text: &str) -> String {
    if text.is_empty() { "nothing".to_owned() } else { format!("`{}`", one_line(text)) }
}

fn compaction_text(compaction: &CompactionRecord) -> String {
    let time = compaction.time.strftime("%H:%M");
    let report = compaction.report.as_ref().map(|report| format!("{report}; ")).unwrap_or_default();
    let messages = (compaction.left_out > 0)
        .then(|| format!("{} summarized", count(compaction.left_out as u64, "message")));
    let outputs = (!compaction.masked.is_empty())
        .then(|| format!("{} left out", count(compaction.masked.len() as u64, "output")));
    let parts: Vec<String> = messages.into_iter().chain(outputs).collect();
    format!("compaction, {time}: {report}{}", parts.join(", "))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crow_context::accounting::{CacheMissCause, ContextOwner, LargeOutput};
    use crow_core::{
        context::TokenEstimator,
        event::{AgentEvent, RequestPrefix},
        ids::{CallId, MessageId, SessionId},
        model::ToolDefinition,
    };
    use crow_testkit::session_log::{LogBuilder, LoggedRequest};
    use serde_json::json;

    use super::*;

    const PRICE: Price =
        Price { input: 3.0, output: 15.0, cache_read: 0.3, cache_write: 3.75, cache_write_1h: 6.0 };

    fn audit() -> ContextAudit {
        let bash = ToolDefinition {
            name: "bash".to_owned(),
            description: "Runs a command and returns what it prints.".to_owned(),
            parameters: json!({ "type": "object" }),
        };
        let prefix = RequestPrefix::new(Some(32_000), "You are an agent.", &[bash]);
        let first = LoggedRequest::new(900, 0, "error: no such file\n".repeat(200));
        let mut log = LogBuilder::new();
        log.wait(Duration::from_mins(5))
            .input_after("m1", &"The project has rules.".repeat(30), "make it work")
            .request_with(first.with_prefix(prefix))
            .request(2_900, 850, &"warning\n".repeat(900))
            .request(5_200, 2_800, "ok")
            .push(AgentEvent::Compaction {
                summary: "The build fails in \u{1b}[31mlink.c.".to_owned(),
                first_kept: MessageId::new("r3"),
                kept: vec![MessageId::new("m1")],
                masked: Vec::new(),
                report: None,
            })
            .request(1_900, 512, "done");
        ContextAudit::from_log(log.lines()).unwrap()
    }

    fn context(audit: ContextAudit, usage: ContextUsage, price: Option<Price>) -> SessionContext {
        SessionContext { session: SessionId::new("s"), audit, usage, price }
    }

    fn report(columns: usize, price: Option<Price>) -> String {
        let audit = audit();
        let usage = audit.usage(&TokenEstimator::new("", &[]));
        context(audit, usage, price).to_text(&ConsoleStyle::plain(columns))
    }

    #[test]
    fn a_report_tells_owners_price_misses_and_compactions() {
        insta::assert_snapshot!(report(80, Some(PRICE)));
    }

    #[test]
    fn a_report_fits_into_40_columns() {
        let report = report(40, None);
        assert!(report.lines().all(|line| width(line) <= 40), "{report}");
        insta::assert_snapshot!(report);
    }

    #[test]
    fn a_session_without_a_request_and_a_window_has_a_report() {
        let audit = ContextAudit::new();
        let usage = audit.usage(&TokenEstimator::new("", &[]));
        insta::assert_snapshot!(
            context(audit, usage, Some(PRICE)).to_text(&ConsoleStyle::plain(80))
        );
    }

    #[test]
    fn names_of_tools_cannot_control_the_terminal() {
        let mut usage = audit().usage(&TokenEstimator::new("", &[]));
        let name = "\u{1b}]0;x\u{7}";
        usage.shares[0].owner = ContextOwner::Outputs(name.to_owned());
        let call_id = CallId::new(name);
        usage.largest.push(LargeOutput { call_id, tool: name.to_owned(), tokens: 1 });
        let audit = audit();
        let report = context(audit, usage, None).to_text(&ConsoleStyle::plain(80));
        assert!(!report.contains(['\u{1b}', '\u{7}']), "{report:?}");
        let cause = CacheMissCause::PrefixChanged { parts: vec![name.to_owned()] };
        assert!(cause.to_string().contains(name));
    }
}
