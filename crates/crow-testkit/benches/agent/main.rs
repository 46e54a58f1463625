//! Measures the built `crow-agent` beside a bare loop client, both against the test kit's model server.
//!
//! `cargo build --release && cargo bench -p crow-testkit --bench agent` prints the table of docs/book/src/benchmarks.md. The program is
//! `target/release/crow-agent`, or what `CROW_AGENT` names.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    clippy::cast_precision_loss,
    clippy::format_push_string,
    reason = "a benchmark starts programs, prints, and fails loudly"
)]

mod bare_loop;
mod client;
mod measure;
#[path = "../shared/proc.rs"]
mod proc;
#[path = "../shared/process_tree.rs"]
mod process_tree;
#[path = "../shared/table.rs"]
mod table;

use std::path::PathBuf;

use client::BenchClient;

fn main() {
    let args: Vec<String> = std::env::args().collect();
    if let [_, mode, url] = args.as_slice()
        && [bare_loop::MODE, bare_loop::CONFINED_MODE].contains(&mode.as_str())
    {
        return bare_loop::run(url, mode == bare_loop::CONFINED_MODE);
    }
    let program = std::env::var_os("CROW_AGENT").map_or_else(default_program, PathBuf::from);
    assert!(
        program.is_file(),
        "{} is not there: run `cargo build --release` first",
        program.display()
    );
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let crow = BenchClient::crow(program.clone());
    let bare = BenchClient::bare(bare_loop::MODE);
    let confined = BenchClient::bare(bare_loop::CONFINED_MODE);
    let rows = runtime.block_on(measure::all(&crow, &bare, &confined));
    println!("{}", table::render("crow-agent", "bare loop", &rows));
}

/// The benchmark itself lies in `target/release/deps`.
fn default_program() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    own.ancestors().nth(2).unwrap().join("crow-agent")
}
