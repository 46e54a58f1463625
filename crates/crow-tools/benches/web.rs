//! Measures a call of `web_fetch` for a page of 5 MB, from the answer of the server to the result for the model, beside
//! the tokens of the same page alone, and the memory that the process needed at most.
//!
//! `cargo bench -p crow-tools --features web --bench web` prints the table. Times are medians; memory is of the first call.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark prints, and fails loudly"
)]

use std::{
    fmt::Write as _,
    fs,
    sync::Arc,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use crow_core::{
    capability::{Http, HttpError, HttpRequest, HttpResponse},
    network::Network,
    tool::{ToolContext, TypedToolAdapter},
    workspace::Workspace,
};
use crow_testkit::tools::{agent_context, call, tool_context};
use crow_tools::WebFetch;
use serde_json::json;

const BYTES: usize = 5 << 20;
const ROUNDS: usize = 9;

/// Answers every request with the same page, in chunks as from a socket.
#[derive(Debug)]
struct OnePage(Arc<Vec<u8>>);

#[async_trait]
impl Http for OnePage {
    async fn send(&self, _request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let (page, size) = (Arc::clone(&self.0), 16 << 10);
        let chunks = (0..page.len()).step_by(size).map(move |begin| {
            let end = page.len().min(begin + size);
            Ok(page[begin..end].to_vec())
        });
        Ok(HttpResponse {
            status: 200,
            headers: vec![("content-type".to_owned(), "text/html; charset=utf-8".to_owned())],
            body: Box::pin(futures_util::stream::iter(chunks)),
        })
    }
}

/// A reference manual: headings, paragraphs with links and code, lists, a table and a block of code in each section.
fn page() -> String {
    let mut html =
        "<!doctype html><html><head><title>Manual</title><style>p { margin: 1em }</style>\
         </head><body><nav><ul><li><a href=/>Home</a></ul></nav><main>"
            .to_owned();
    let mut number = 0;
    while html.len() < BYTES - 2_000 {
        number += 1;
        let _ = write!(
            html,
            "<section id=\"s{number}\"><h2>Section {number}</h2><p class=\"lead\">The function \
             <a href=\"/api/f{number}.html#top\"><code>f{number}</code></a> takes a <b>slice</b> &amp; returns \
             its length, <i>not</i> its capacity. See also <a href='other.html'>the other one</a>.</p>\
             <pre><code class=\"language-rust\">fn f{number}(x: &amp;[u8]) -&gt; usize {{\n    x.len()\n}}</code></pre>\
             <ul><li>It never panics.</li><li>It is <code>const</code>.</li></ul>\
             <table><tr><th>input</th><th>output</th></tr><tr><td>[]</td><td>0</td></tr></table></section>"
        );
    }
    html.push_str("</main></body></html>");
    html
}

/// Returns a line of the process's status in kilobytes.
fn status_of(name: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or("0");
    line.trim_start_matches(':').trim().split(' ').next().unwrap().parse().unwrap()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

fn main() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let html = page();
    let body = Arc::new(html.clone().into_bytes());
    let folder = tempfile::tempdir().unwrap();
    let context = || -> ToolContext {
        tool_context(agent_context(Workspace::new(folder.path().canonicalize().unwrap())))
    };
    let fetch = || {
        let http = Arc::new(OnePage(Arc::clone(&body)));
        let tool = TypedToolAdapter::new(WebFetch::new(http, Network::default()));
        let started = Instant::now();
        let result = runtime.block_on(call(&tool, json!({"url": "https://a.test/"}), &context()));
        assert!(result.output.contains("## Section 1\n"), "{}", result.output);
        started.elapsed()
    };
    let before = status_of("VmRSS");
    let first = fetch();
    let most = status_of("VmHWM").saturating_sub(before);
    let fetches: Vec<_> = (0..ROUNDS).map(|_| fetch()).collect();
    let tokens: Vec<_> = (0..ROUNDS)
        .map(|_| {
            let started = Instant::now();
            assert!(html5gum::Tokenizer::new(&html).flatten().count() > 1_000);
            started.elapsed()
        })
        .collect();
    println!("page of {} bytes of HTML", html.len());
    println!("{:40} {:>8.1} ms", "web_fetch, first", first.as_secs_f64() * 1e3);
    println!("{:40} {:>8.1} ms", "web_fetch", median(fetches).as_secs_f64() * 1e3);
    println!("{:40} {:>8.1} ms", "tokens of the page alone", median(tokens).as_secs_f64() * 1e3);
    println!(
        "{:40} {:>8.1} MB",
        "memory of the first call at most",
        f64::from(u32::try_from(most).unwrap()) / 1e3
    );
}
