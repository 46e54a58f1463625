//! Measures the snapshot store beside a plain walk over the same files, and beside git where it is installed.
//!
//! `cargo bench -p crow-testkit --bench snapshot` prints the table.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    clippy::format_push_string,
    reason = "a benchmark starts programs, prints, and fails loudly"
)]

mod project;
mod steps;
#[path = "../shared/table.rs"]
mod table;

use std::time::{Duration, Instant};

use project::BenchProject;

const FOLDER: usize = 20;

fn main() {
    let mut rows = steps::rows(&BenchProject::new(1000, FOLDER));
    let small = BenchProject::new(10_000, FOLDER);
    rows.extend(small.rows(&Words {
        cold: "10k files, first scan; git: add, write-tree",
        unchanged: "10k files, nothing changed; a walk with lstat, git",
        bound: "≤ 10 ms",
        changed: "10k files, one changed; git",
    }));
    drop(small);
    rows.extend(BenchProject::new(100_000, FOLDER).rows(&Words {
        cold: "100k files, first scan; git: add, write-tree",
        unchanged: "100k files, nothing changed; a walk with lstat, git",
        bound: "≤ 120 ms",
        changed: "100k files, one changed; git",
    }));
    println!("{}", table::render("Crow", "reference", &rows));
}

/// What the rows of a project are called.
struct Words {
    cold: &'static str,
    unchanged: &'static str,
    bound: &'static str,
    changed: &'static str,
}

fn timed<T>(work: impl FnOnce() -> T) -> Duration {
    let started = Instant::now();
    let result = work();
    let elapsed = started.elapsed();
    drop(result);
    elapsed
}

/// The least and the median.
fn show(times: &mut [Duration]) -> String {
    times.sort();
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    format!("{:.3} / {:.3} ms", ms(times[0]), ms(times[times.len() / 2]))
}
