//! The ledger of a session: to whom the bytes and tokens of each request belong, what they cost, and which came from the
//! cache.

use std::collections::BTreeMap;

use crow_app::SessionRecord;
use crow_console::{
    ConsoleStyle, Paint,
    words::{dollars, tokens},
    wrap::{shorten_end, width},
};
use crow_context::accounting::{
    CacheOutcome, ContextAudit, ContextShare, ContextUsage, RequestKind, RequestRecord,
};
use crow_core::{
    context::TokenEstimator,
    event::Envelope,
    model::{ModelRef, Price},
    usage::TokenUsage,
};
use crow_text::one_line;

use crate::{
    error::CliError,
    output::{LedgerLine, output_line},
};

/// Columns of a number.
const NUMBER: usize = 9;
/// Columns from which the table of parts shows bytes.
const BYTES_FROM: usize = 60;

/// A request of the session's own agent, and the account of the log up to it.
struct LedgerRequest<'a> {
    number: usize,
    record: &'a RequestRecord,
    usage: ContextUsage,
    price: Option<Price>,
}

impl LedgerRequest<'_> {
    /// Returns the cost of a part of the input; what was written to the cache is divided evenly among what was not read
    /// from it.
    fn cost_of(&self, share: &ContextShare) -> Option<f64> {
        let price = self.price?;
        let of = self.record.usage;
        let whole = Price { output: 0.0, ..price }.cost(&of);
        let read = TokenUsage {
            input_tokens: of.cache_read_tokens,
            cache_read_tokens: of.cache_read_tokens,
            ..TokenUsage::default()
        };
        let read_cost = price.cost(&read);
        let fresh_tokens = of.input_tokens.saturating_sub(of.cache_read_tokens);
        let per = |cost: f64, tokens: u64| if tokens == 0 { 0.0 } else { cost / float(tokens) };
        Some(
            float(share.cached) * per(read_cost, of.cache_read_tokens)
                + float(share.tokens - share.cached) * per(whole - read_cost, fresh_tokens),
        )
    }

    fn cost(&self) -> Option<f64> {
        self.price.map(|price| price.cost(&self.record.usage))
    }
}

#[expect(clippy::cast_precision_loss, reason = "token counts are far below 2^52")]
fn float(tokens: u64) -> f64 {
    tokens as f64
}

/// The requests of the conversation of a session.
struct SessionLedger<'a> {
    lines: Vec<&'a Envelope>,
    audit: ContextAudit,
    prices: &'a BTreeMap<ModelRef, Price>,
}

impl<'a> SessionLedger<'a> {
    fn new(
        record: &'a SessionRecord,
        prices: &'a BTreeMap<ModelRef, Price>,
    ) -> Result<Self, CliError> {
        let session = &record.metadata.session_id;
        let own = record.events.iter().filter(|line| line.session_id == *session);
        let lines: Vec<&Envelope> = own.collect();
        let audit = ContextAudit::from_log(lines.iter().copied()).map_err(|error| {
            CliError::failed(format!("the log of session {session} is damaged: {error}"))
                .hint(format!("crow-agent sessions repair {session}"))
        })?;
        Ok(Self { lines, audit, prices })
    }

    /// Returns the requests whose replies are part of the conversation, with their numbers among all requests.
    fn requests(&self) -> Vec<(usize, &RequestRecord)> {
        let all = self.audit.requests().iter().enumerate();
        all.filter(|(_, request)| request.kind == RequestKind::Reply).collect()
    }

    /// Divides a request, by its number among those of the conversation, counted from 1.
    fn request(&self, number: usize) -> Result<LedgerRequest<'_>, CliError> {
        let requests = self.requests();
        let Some((index, record)) = number.checked_sub(1).and_then(|at| requests.get(at)) else {
            let message =
                format!("there is no request {number}: the session has {}", requests.len());
            return Err(CliError::usage(message));
        };
        let until = ContextAudit::until_request(self.lines.iter().copied(), index + 1)
            .expect("invariant: the whole log was folded before");
        Ok(self.divided(number, record, &until))
    }

    /// Divides a request with the account of the log up to its answer.
    fn divided<'b>(
        &self,
        number: usize,
        record: &'b RequestRecord,
        until: &ContextAudit,
    ) -> LedgerRequest<'b> {
        let usage = until
            .last_request(&TokenEstimator::new("", &[]))
            .expect("invariant: a request of the conversation was answered");
        let price = record.model.as_ref().and_then(|model| self.prices.get(model)).copied();
        LedgerRequest { number, record, usage, price }
    }
}

/// Renders the requests of a session, and the parts of the last one, or of the one with this number.
pub(crate) fn ledger_text(
    style: &ConsoleStyle,
    record: &SessionRecord,
    number: Option<usize>,
    prices: &BTreeMap<ModelRef, Price>,
) -> Result<String, CliError> {
    let ledger = SessionLedger::new(record, prices)?;
    let requests = ledger.requests();
    if requests.is_empty() {
        return Ok("No request was answered in this session.\n".to_owned());
    }
    let mut out = String::new();
    if number.is_none() {
        request_table(style, &ledger, &requests, &mut out);
        out.push('\n');
    }
    parts_table(style, &ledger.request(number.unwrap_or(requests.len()))?, &mut out);
    Ok(out)
}

fn request_table(
    style: &ConsoleStyle,
    ledger: &SessionLedger<'_>,
    requests: &[(usize, &RequestRecord)],
    out: &mut String,
) {
    let heading = format!(
        "{:>4} {:>NUMBER$} {:>NUMBER$} {:>NUMBER$} {:>NUMBER$}",
        "#", "input", "cached", "output", "cost"
    );
    Paint::Bold.write(style, &shorten_end(&heading, style.width, style.glyphs), out);
    out.push('\n');
    let row = |name: &str, usage: &TokenUsage, cost: Option<f64>, note: &str| {
        let cost = cost.map_or_else(|| "-".to_owned(), dollars);
        let (input, output) = (tokens(usage.input_tokens), tokens(usage.output_tokens));
        let cached = tokens(usage.cache_read_tokens);
        let row = format!(
            "{name:>4} {input:>NUMBER$} {cached:>NUMBER$} {output:>NUMBER$} {cost:>NUMBER$}  {note}"
        );
        shorten_end(row.trim_end(), style.width, style.glyphs) + "\n"
    };
    let (mut sum, mut total) = (TokenUsage::default(), Some(0.0));
    for (number, (_, request)) in requests.iter().enumerate() {
        let price = request.model.as_ref().and_then(|model| ledger.prices.get(model));
        let cost = price.map(|price| price.cost(&request.usage));
        sum += request.usage;
        total = total.zip(cost).map(|(total, cost)| total + cost);
        let note = match &request.cache {
            CacheOutcome::Miss { lost, .. } => format!("cache miss, {} read anew", tokens(*lost)),
            CacheOutcome::First | CacheOutcome::Hit | CacheOutcome::NotReported => String::new(),
        };
        out.push_str(&row(&(number + 1).to_string(), &request.usage, cost, &note));
    }
    Paint::Bold.write(style, row("all", &sum, total, "").trim_end(), out);
    out.push('\n');
}

fn parts_table(style: &ConsoleStyle, request: &LedgerRequest<'_>, out: &mut String) {
    let model = request.record.model.as_ref().map(ToString::to_string).unwrap_or_default();
    let heading = format!("request {}, {model}", request.number);
    Paint::Bold.write(style, &shorten_end(&one_line(&heading), style.width, style.glyphs), out);
    out.push('\n');
    let ContextUsage { shares, format_bytes, .. } = &request.usage;
    let has_bytes = format_bytes.is_some() && style.width >= BYTES_FROM;
    let numbers = if has_bytes { 4 } else { 3 };
    let columns = style.width.saturating_sub(numbers * (NUMBER + 1)).clamp(10, 40);
    let row = |name: &str, numbers: [&str; 4]| {
        let name = shorten_end(&one_line(name), columns, style.glyphs);
        let padding = " ".repeat(columns.saturating_sub(width(&name)));
        let shown = if has_bytes { &numbers[..] } else { &numbers[1..] };
        let aligned = |number: &&str| " ".repeat(1 + NUMBER.saturating_sub(width(number))) + number;
        let numbers: String = shown.iter().map(aligned).collect();
        let row = format!("{name}{padding}{numbers}");
        shorten_end(row.trim_end(), style.width, style.glyphs)
    };
    let cost_in_words = |cost: Option<f64>| cost.map_or_else(|| "-".to_owned(), dollars);
    let heading = row("part", ["bytes", "tokens", "cached", "cost"]);
    Paint::Dim.write(style, &heading, out);
    out.push('\n');
    let counted = |name: &str, bytes: Option<u64>, of: u64, cached: u64, cost: Option<f64>| {
        let bytes = bytes.map_or_else(|| "-".to_owned(), |bytes| bytes.to_string());
        row(name, [&bytes, &tokens(of), &tokens(cached), &cost_in_words(cost)])
    };
    for share in shares {
        let (name, cost) = (share.owner.to_string(), request.cost_of(share));
        out.push_str(&counted(&name, Some(share.bytes), share.tokens, share.cached, cost));
        out.push('\n');
    }
    if let Some(format) = format_bytes.filter(|_| has_bytes) {
        // Services count the contents: what is around them has neither tokens nor a price.
        let cost = request.price.map(|_| 0.0);
        out.push_str(&counted("JSON around them", Some(format), 0, 0, cost));
        out.push('\n');
    }
    let RequestRecord { usage, bytes, .. } = request.record;
    let input_cost = request.price.map(|price| Price { output: 0.0, ..price }.cost(usage));
    let sum = counted("input", *bytes, usage.input_tokens, usage.cache_read_tokens, input_cost);
    Paint::Bold.write(style, &sum, out);
    out.push('\n');
    let output_cost = request.cost().zip(input_cost).map(|(all, input)| all - input);
    let output = tokens(usage.output_tokens);
    out.push_str(&row("output", ["", &output, "", &cost_in_words(output_cost)]));
    out.push('\n');
}

/// Renders all requests, or the one with this number, for programs.
pub(crate) fn ledger_json(
    record: &SessionRecord,
    number: Option<usize>,
    prices: &BTreeMap<ModelRef, Price>,
) -> Result<Vec<u8>, CliError> {
    let ledger = SessionLedger::new(record, prices)?;
    let mut text = Vec::new();
    let mut add = |request: &LedgerRequest<'_>| -> Result<(), CliError> {
        let LedgerRequest { number, record, usage, .. } = request;
        let cost_of = |share: &ContextShare| request.cost_of(share);
        let line = LedgerLine::new(*number, record, usage, request.cost(), cost_of);
        text.extend(output_line(&line)?);
        Ok(())
    };
    if let Some(number) = number {
        add(&ledger.request(number)?)?;
        return Ok(text);
    }
    // One pass over the log: each request is divided when it was answered.
    let requests = ledger.requests();
    let mut audit = ContextAudit::new();
    let mut number = 0;
    for line in &ledger.lines {
        audit.apply(line).expect("invariant: the whole log was folded before");
        let answered = audit.requests().len();
        if requests.get(number).is_some_and(|(index, _)| index + 1 == answered) {
            add(&ledger.divided(number + 1, requests[number].1, &audit))?;
            number += 1;
        }
    }
    Ok(text)
}
