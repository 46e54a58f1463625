//! Measures the runtime inside one process, each figure beside what tokio alone needs for the same.
//!
//! `cargo bench -p crow-testkit --bench runtime` prints the table.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    clippy::cast_precision_loss,
    clippy::format_push_string,
    reason = "a benchmark starts tasks and programs, prints, and fails loudly"
)]

mod agents;
mod cancel;
mod idle;
mod memory;
#[path = "../shared/proc.rs"]
mod proc;
mod rounds;
mod spans;
#[path = "../shared/table.rs"]
mod table;
mod throughput;
mod tool_calls;

fn main() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let args: Vec<String> = std::env::args().collect();
    if let [_, mode] = args.as_slice()
        && [memory::WHOLE_MODE, memory::COMPACTED_MODE].contains(&mode.as_str())
    {
        return println!("{}", runtime.block_on(memory::run(mode)));
    }
    let rows = runtime.block_on(async {
        // Memory comes first: nothing that was freed is taken again unseen.
        let mut rows = vec![idle::memory().await, idle::first_event().await];
        rows.extend(memory::all());
        rows.push(agents::fairness().await);
        rows.push(tool_calls::many().await);
        rows.extend(throughput::all().await);
        rows.extend(rounds::all().await);
        rows.extend(cancel::all().await);
        rows.push(spans::without_subscriber());
        rows
    });
    println!("{}", table::render("Crow", "tokio alone", &rows));
}
