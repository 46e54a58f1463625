//! Measures the built `crow-agent acp` as an editor sees it, beside a bare agent that only speaks the protocol.
//!
//! `cargo build --release && cargo bench -p crow-testkit --bench acp` prints a table as in `docs/book/src/editors.md`. The program is
//! `target/release/crow-agent`, or what `CROW_AGENT` names.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    clippy::cast_precision_loss,
    clippy::format_push_string,
    clippy::panic,
    reason = "a benchmark starts programs, prints, and fails loudly"
)]

mod bare_agent;
mod editor;
mod measure;
#[path = "../shared/proc.rs"]
#[expect(dead_code, reason = "time on a processor is not measured here")]
mod proc;
#[path = "../shared/table.rs"]
mod table;

use std::path::PathBuf;

use editor::AgentProgram;

fn main() {
    let args: Vec<String> = std::env::args().collect();
    if args.get(1).is_some_and(|mode| mode == bare_agent::MODE) {
        return bare_agent::run();
    }
    let program = std::env::var_os("CROW_AGENT").map_or_else(default_program, PathBuf::from);
    assert!(
        program.is_file(),
        "{} is not there: run `cargo build --release` first",
        program.display()
    );
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let rows = runtime.block_on(measure::all(&AgentProgram::crow(program), &AgentProgram::bare()));
    println!("{}", table::render("crow-agent", "bare agent", &rows));
}

/// The benchmark itself lies in `target/release/deps`.
fn default_program() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    own.ancestors().nth(2).unwrap().join("crow-agent")
}
