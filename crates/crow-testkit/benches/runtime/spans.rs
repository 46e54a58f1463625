//! Cost of a tracing span without a subscriber.

use std::{hint::black_box, time::Instant};

use crow_core::ids::{CallId, SessionId};

use crate::table::TableRow;

const SPANS: u32 = 10_000_000;

/// Times `work` for each of many spans, in nanoseconds.
fn time(work: impl Fn(&SessionId, &CallId)) -> f64 {
    let (session, call) = (SessionId::new("session"), CallId::new("call"));
    let started = Instant::now();
    for _ in 0..SPANS {
        work(black_box(&session), black_box(&call));
    }
    started.elapsed().as_secs_f64() * 1e9 / f64::from(SPANS)
}

pub(crate) fn without_subscriber() -> TableRow {
    let ours = time(|session, call| {
        let span = tracing::debug_span!("call", %session, call = call.as_str());
        span.in_scope(|| tracing::debug!(%session, "call ended"));
    });
    let reference = time(|session, call| {
        black_box((session, call));
    });
    TableRow {
        what: "a span with two ids and an event, no log enabled",
        bound: "≤ 20 ns",
        ours: format!("{ours:.1} ns"),
        reference: format!("{reference:.1} ns (nothing)"),
    }
}
