//! Measures long conversations: appending to a history, building requests, folding a log, and what pruning saves.
//!
//! `cargo bench -p crow-context --bench conversation` prints medians, each beside a reference in the same run.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a benchmark reads the clock, prints, and fails loudly"
)]

use std::{
    hint::black_box,
    sync::Arc,
    time::{Duration, Instant},
};

use crow_context::{
    accounting::ContextAudit,
    environment::{Environment, SystemState},
    manager::ContextManager,
};
use crow_core::{context::TokenEstimator, event::Envelope, history::History, message::Message};
use crow_testkit::session_log::{LogBuilder, LoggedRequest};

/// Steps of the long session: a reply and a result each.
const STEPS: usize = 2_500;
/// Bytes of an output.
const OUTPUT: usize = 2_000;
/// Steps of the task whose tokens are counted, with outputs of about 1,000 tokens.
const TASK_STEPS: usize = 60;
/// Budget of the task.
const BUDGET: u64 = 12_000;

fn main() {
    let mut log = log(STEPS, OUTPUT);
    let mut history = History::from_log(log.lines()).unwrap();
    println!("a history of {} entries, outputs of {OUTPUT} bytes", 2 * STEPS + 1);
    append(&mut history, &mut log);
    requests(&history);
    let log = log.lines();
    let fold = median(5, || drop(black_box(History::from_log(log).unwrap())));
    let parse: Vec<String> = log.iter().map(|line| serde_json::to_string(line).unwrap()).collect();
    let read = median(5, || {
        for line in &parse {
            drop(black_box(serde_json::from_str::<Envelope>(line).unwrap()));
        }
    });
    println!("fold of the log: {} (reading its JSON: {})", ms(fold), ms(read));
    let audit = median(5, || drop(black_box(ContextAudit::from_log(log).unwrap())));
    println!("account of the log: {}", ms(audit));
    tokens_of_a_task();
}

/// Appends steps to a long history.
fn append(history: &mut History, log: &mut LogBuilder) {
    let mut vec: Vec<Envelope> = Vec::new();
    let (mut own, mut reference) = (Vec::new(), Vec::new());
    for number in STEPS..STEPS + 500 {
        let known = log.lines().len();
        add_step(log, number, OUTPUT);
        for line in &log.lines()[known..] {
            let start = Instant::now();
            vec.push(line.clone());
            reference.push(start.elapsed());
            let start = Instant::now();
            history.apply(line).unwrap();
            own.push(start.elapsed());
        }
    }
    own.sort_unstable();
    reference.sort_unstable();
    let (own, reference) = (own[own.len() / 2], reference[reference.len() / 2]);
    println!("append of an event: {} (clone and push on a vector: {})", us(own), us(reference));
    assert!(own < Duration::from_micros(50), "appending takes too long");
}

/// Builds the next request of a long history.
fn requests(history: &History) {
    let messages = history.messages().unwrap();
    let clone = median(21, || drop(black_box(messages.to_vec())));
    let mut estimator = TokenEstimator::new("", &[]);
    let first = once(|| estimator.request(messages));
    let next = median(21, || {
        black_box(estimator.request(black_box(messages)));
    });
    println!(
        "length of the next request: {} at the first time, then {} (clone of the pointers: {})",
        ms(first),
        us(next),
        us(clone)
    );
    let mut context = manager(u64::MAX / 200).with_history(messages.iter().cloned());
    let built = median(5, || drop(black_box(context.build_request().unwrap())));
    println!("request of a context manager, everything counted anew: {}", ms(built));
    assert!(next < Duration::from_millis(5), "building a request takes too long");
}

/// Compares the tokens of a task with a budget, and with the whole conversation in every request.
fn tokens_of_a_task() {
    let history = History::from_log(log(TASK_STEPS, 4_000).lines()).unwrap();
    let messages = history.messages().unwrap();
    let (mut budgeted, mut whole) = (manager(BUDGET), manager(u64::MAX / 200));
    for message in messages {
        for context in [&mut budgeted, &mut whole] {
            context.add_to_history(Arc::clone(message));
            if !matches!(message.as_ref(), Message::Assistant(_)) {
                context.build_request().unwrap();
            }
        }
    }
    let (with, without) = (budgeted.metrics(), whole.metrics());
    println!(
        "tokens of a task of {TASK_STEPS} steps: {} within {BUDGET} a request, {} with everything: {:.1} times less; {} prunings",
        with.tokens,
        without.tokens,
        without.tokens as f64 / with.tokens as f64,
        with.prunings
    );
}

fn manager(max_tokens: u64) -> ContextManager {
    let system = SystemState { working_directory: "/project".into(), ..SystemState::default() };
    let environment = Environment::builder().system(system).build();
    ContextManager::new(environment, max_tokens, "You are an agent.")
}

/// The log of a session with one input and many steps.
fn log(steps: usize, output: usize) -> LogBuilder {
    let mut log = LogBuilder::new();
    log.input("m", "look at all of it");
    for number in 0..steps {
        add_step(&mut log, number, output);
    }
    log
}

/// Adds a reply that calls a tool, its usage and the result.
fn add_step(log: &mut LogBuilder, number: usize, output: usize) {
    let text = format!("line {number} of the file\n").repeat(output / 20);
    let command = format!("cat file{number}");
    log.request_with(LoggedRequest { command, ..LoggedRequest::new(1_000, 0, text) });
}

fn once<T>(work: impl FnOnce() -> T) -> Duration {
    let start = Instant::now();
    drop(black_box(work()));
    start.elapsed()
}

fn median(rounds: usize, mut work: impl FnMut()) -> Duration {
    let mut times: Vec<_> = (0..rounds).map(|_| once(&mut work)).collect();
    times.sort_unstable();
    times[times.len() / 2]
}

fn ms(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1e3)
}

fn us(time: Duration) -> String {
    format!("{:.2} µs", time.as_secs_f64() * 1e6)
}
