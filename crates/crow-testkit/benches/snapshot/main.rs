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
#[path = "../shared/table.rs"]
mod table;

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use project::Project;
use table::Row;

const FOLDER: usize = 20;

fn main() {
    let mut rows = Vec::new();
    let small = Project::new(10_000, FOLDER);
    rows.extend(small.rows(&Words {
        cold: "10k files, first scan; git: add, write-tree",
        unchanged: "10k files, nothing changed; a walk with lstat, git",
        bound: "≤ 10 ms",
        changed: "10k files, one changed; git",
    }));
    rows.push(capture(&small));
    drop(small);
    rows.extend(Project::new(100_000, FOLDER).rows(&Words {
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

/// One file captured, new content each time, beside writing a copy of it.
fn capture(project: &Project) -> Row {
    let paths = [PathBuf::from("captured")];
    let (mut ours, mut plain) = (Vec::new(), Vec::new());
    let copy = project.root.join("../copy");
    for round in 0..500 {
        let content = project::content(1_000_000 + round);
        std::fs::write(project.root.join("captured"), &content).unwrap();
        ours.push(timed(|| drop(project.store.capture(&project.session, &paths).unwrap())));
        plain.push(timed(|| std::fs::write(&copy, &content).unwrap()));
    }
    Row {
        what: "one file captured; a copy written",
        bound: "≤ 0.1 ms",
        ours: show(&mut ours),
        reference: show(&mut plain),
    }
}

fn timed(work: impl FnOnce()) -> Duration {
    let started = Instant::now();
    work();
    started.elapsed()
}

/// The least and the median.
fn show(times: &mut [Duration]) -> String {
    times.sort();
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    format!("{:.3} / {:.3} ms", ms(times[0]), ms(times[times.len() / 2]))
}
