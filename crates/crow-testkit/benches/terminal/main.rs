//! Measures the chat of the built `crow-agent` at a pseudo-terminal, against the test kit's model server.
//!
//! `cargo build --release && cargo bench -p crow-testkit --bench terminal` prints a table as in `docs/book/src/benchmarks.md`. The
//! program is `target/release/crow-agent`, or what `CROW_AGENT` names. Names of parts as arguments (`-- echo files`) measure only these.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::cast_precision_loss,
    clippy::format_push_string,
    reason = "a benchmark starts programs, prints, and fails loudly"
)]

mod chat_program;
mod chat_terminal;
mod echo;
mod figures;
mod file_index;
mod first_frame;
mod memory;
mod paced_stream;
#[path = "../shared/proc.rs"]
#[expect(
    dead_code,
    reason = "threads that ended count here, so the time on a processor comes from elsewhere"
)]
mod proc;
#[path = "../shared/process_tree.rs"]
mod process_tree;
mod project_files;
#[path = "../shared/table.rs"]
mod table;

use std::path::PathBuf;

use chat_program::ChatProgram;

/// Parts of the benchmark, in the order in which they run.
const PARTS: [&str; 4] = ["start", "echo", "memory", "files"];

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    for arg in &args {
        assert!(PARTS.contains(&arg.as_str()), "{arg} is not one of {PARTS:?}");
    }
    let path = std::env::var_os("CROW_AGENT").map_or_else(default_program, PathBuf::from);
    assert!(path.is_file(), "{} is not there: run `cargo build --release` first", path.display());
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let mut rows = Vec::new();
    for part in
        PARTS.into_iter().filter(|part| args.is_empty() || args.iter().any(|arg| arg == part))
    {
        let program = ChatProgram::new(path.clone());
        // The thread here may block: the server runs on the worker.
        rows.extend(runtime.block_on(async {
            match part {
                "start" => first_frame::rows(&program).await,
                "echo" => echo::rows(&program).await,
                "memory" => memory::rows(&program).await,
                _ => file_index::rows(&program).await,
            }
        }));
    }
    println!("{}", table::render("chat", "reference", &rows));
}

/// The benchmark itself lies in `target/release/deps`.
fn default_program() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    own.ancestors().nth(2).unwrap().join("crow-agent")
}
