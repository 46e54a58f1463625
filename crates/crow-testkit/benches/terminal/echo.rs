//! How long a key takes to the screen while the model streams, and what the stream costs.

use std::{
    thread,
    time::{Duration, Instant},
};

use crow_testkit::{Delivery, Script};

use crate::{
    chat_program::{ChatProgram, start_server},
    chat_terminal::ChatTerminal,
    figures::{Timings, ms},
    paced_stream::{DeltaSpacing, PacedStream, SentStream},
    process_tree,
    table::TableRow,
};

/// Rows of keys whose echo is measured, and keys of a row. After each the prompt is cleared.
const KEY_ROWS: usize = 6;
const KEYS: usize = 40;
/// Least time between two keys, and how much it grows with each key of a row: keys are not in step with frames.
const KEY_PERIOD: Duration = Duration::from_millis(45);
const KEY_PERIOD_STEP: Duration = Duration::from_micros(250);
/// Duration of a stream: longer than all keys take.
const STREAM: Duration = Duration::from_secs(16);

pub(crate) async fn rows(program: &ChatProgram) -> Vec<TableRow> {
    let grouped = chat_stream(program, DeltaSpacing::Groups, Typist::Types).await;
    let even = chat_stream(program, DeltaSpacing::Even, Typist::Types).await;
    let watched = chat_stream(program, DeltaSpacing::Groups, Typist::Watches).await;
    let grouped_run = piped_stream(program, DeltaSpacing::Groups).await;
    let even_run = piped_stream(program, DeltaSpacing::Even).await;
    let idle = echo_figures(idle_echoes(program).await);
    let row = |what, bound, ours: String, reference| TableRow { what, bound, ours, reference };
    vec![
        row(
            "key to its echo while 5,000 deltas per second stream, median, 99 % and maximum of 240",
            "99 % ≤ 16 ms",
            echo_figures(grouped.echoes),
            format!("{idle} (idle)"),
        ),
        row(
            "the same if each delta arrives by itself, every 0.2 ms",
            "99 % ≤ 16 ms",
            echo_figures(even.echoes),
            format!("{idle} (idle)"),
        ),
        row(
            "CPU over the first of these streams, of one core; without keys",
            "< 10 %",
            format!("{}; {}", grouped.cost.text(), watched.cost.text()),
            format!("{} (`run` to a pipe)", grouped_run.text()),
        ),
        row(
            "CPU over the second, of one core",
            "< 10 %",
            even.cost.text(),
            format!("{} (`run` to a pipe)", even_run.text()),
        ),
    ]
}

fn echo_figures(echoes: Vec<Duration>) -> String {
    let times = Timings::new(echoes);
    let [median, most, maximum] = [times.median(), times.percentile(99), times.maximum()].map(ms);
    format!("{median}, {most}, {maximum}")
}

/// Typing of keys while the reply streams.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Typist {
    Types,
    Watches,
}

struct ChatStream {
    echoes: Vec<Duration>,
    cost: StreamCost,
}

/// Time on a processor, in percent of one core, and the rate that was reached.
struct StreamCost {
    percent: f64,
    rate: f64,
}

impl StreamCost {
    fn new(before: Duration, after: Duration, sent: &SentStream) -> Self {
        let cpu = after.saturating_sub(before);
        let percent = cpu.as_secs_f64() / sent.duration.as_secs_f64() * 100.0;
        Self { percent, rate: sent.rate }
    }

    fn text(&self) -> String {
        format!("{:.1} % at {:.0}/s", self.percent, self.rate)
    }
}

async fn chat_stream(program: &ChatProgram, spacing: DeltaSpacing, typist: Typist) -> ChatStream {
    let stream = PacedStream::new(STREAM, spacing);
    let server = start_server([stream.step()], Delivery::Each).await;
    let mut chat = program.open_chat(&server);
    chat.type_keys("work\r");
    server.wait_for_request(0).await;
    settle();
    let before = process_tree::cpu(chat.pid());
    let started = stream.start();
    settle();
    let echoes = match typist {
        Typist::Types => type_keys(&mut chat),
        Typist::Watches => Vec::new(),
    };
    let sent = started.wait(Instant::now()).await;
    let cost = StreamCost::new(before, process_tree::cpu(chat.pid()), &sent);
    stream.end();
    chat.wait_for_run_end();
    chat.quit();
    server.finish().await.unwrap();
    ChatStream { echoes, cost }
}

async fn piped_stream(program: &ChatProgram, spacing: DeltaSpacing) -> StreamCost {
    let stream = PacedStream::new(STREAM, spacing);
    let server = start_server([stream.step()], Delivery::Each).await;
    let run = program.start_run(&server);
    server.wait_for_request(0).await;
    settle();
    let before = process_tree::cpu(run.pid());
    let sent = stream.start().wait(Instant::now()).await;
    let cost = StreamCost::new(before, process_tree::cpu(run.pid()), &sent);
    stream.end();
    run.wait_for_end();
    server.finish().await.unwrap();
    cost
}

async fn idle_echoes(program: &ChatProgram) -> Vec<Duration> {
    let server = start_server(Script::new(), Delivery::Each).await;
    let mut chat = program.open_chat(&server);
    settle();
    let echoes = type_keys(&mut chat);
    chat.quit();
    echoes
}

/// Types rows of keys, and returns how long the echo of each key took.
fn type_keys(chat: &mut ChatTerminal) -> Vec<Duration> {
    (0..KEY_ROWS).flat_map(|_| type_row(chat)).collect()
}

fn type_row(chat: &mut ChatTerminal) -> Vec<Duration> {
    let mut keys = Vec::new();
    let mut text = String::new();
    for (letter, period) in ('a'..='z').cycle().zip(periods()) {
        text.push(letter);
        let typed = chat.type_keys(&letter.to_string());
        keys.push((typed, text.clone()));
        thread::sleep((typed + period).saturating_duration_since(Instant::now()));
    }
    // Only now the screen is emulated.
    let echoes = keys.into_iter().map(|(typed, text)| chat.wait_for_typed(&text) - typed).collect();
    chat.type_keys("\u{15}");
    chat.wait_for_empty_prompt();
    echoes
}

/// Returns the times between the keys of a row.
fn periods() -> impl Iterator<Item = Duration> {
    (0..KEYS).map(|key| KEY_PERIOD + KEY_PERIOD_STEP * u32::try_from(key).unwrap())
}

fn settle() {
    thread::sleep(Duration::from_millis(300));
}
