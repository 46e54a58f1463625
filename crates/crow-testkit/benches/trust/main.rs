//! Measures what the check of trust adds to a start: the same command in a project with as many files as `.crow-agent` may
//! hold, all of them trusted, and in one without any, beside reading and hashing nothing but the files.
//!
//! `cargo build --release && cargo bench -p crow-testkit --bench trust` prints the table. The program is
//! `target/release/crow-agent`, or what `CROW_AGENT` names.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    clippy::format_push_string,
    reason = "a benchmark starts programs, prints, and fails loudly"
)]

#[path = "../shared/table.rs"]
mod table;

use std::{
    fs,
    hint::black_box,
    path::PathBuf,
    process::{Command, Output},
    time::{Duration, Instant},
};

use table::TableRow;

const ROUNDS: usize = 300;
/// With the folder that they lie in, this is all that is admitted.
const FILES: usize = 199;
/// Together nearly what is admitted.
const BYTES: usize = 5000;

struct TrustBench {
    program: PathBuf,
    base: PathBuf,
}

impl TrustBench {
    fn project(&self, name: &str) -> PathBuf {
        self.base.join(name)
    }

    fn run(&self, project: &str, args: &[&str]) -> Output {
        let mut command = Command::new(&self.program);
        command.args(args).current_dir(self.project(project)).env_clear();
        let output = command.env("HOME", self.base.join("home")).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        output
    }

    fn time(&self, project: &str) -> Duration {
        let started = Instant::now();
        self.run(project, &["permissions", "list"]);
        started.elapsed()
    }
}

fn main() {
    let folder = tempfile::tempdir().unwrap();
    let own = std::env::current_exe().unwrap();
    let usual = own.ancestors().nth(2).unwrap().join("crow-agent");
    let program = std::env::var_os("CROW_AGENT").map_or(usual, PathBuf::from);
    assert!(program.is_file(), "{}: run `cargo build --release` first", program.display());
    let place = TrustBench { program, base: folder.path().canonicalize().unwrap() };
    for name in ["home", "empty", "full/.crow-agent/notes"] {
        fs::create_dir_all(place.base.join(name)).unwrap();
    }
    let files: Vec<PathBuf> = (0..FILES)
        .map(|number| place.project(&format!("full/.crow-agent/notes/{number}.md")))
        .collect();
    for (number, path) in files.iter().enumerate() {
        fs::write(path, format!("{number} ").repeat(BYTES / 4)).unwrap();
    }
    place.run("full", &["trust", "--yes"]);
    let told = place.run("full", &["permissions", "list"]).stderr;
    assert!(told.is_empty(), "it is not trusted: {}", String::from_utf8_lossy(&told));

    let (mut empty, mut full, mut read) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        empty.push(place.time("empty"));
        full.push(place.time("full"));
        let started = Instant::now();
        for path in &files {
            black_box(fs::read(path).unwrap());
        }
        read.push(started.elapsed());
    }
    let (empty, full, read) = (median(&mut empty), median(&mut full), median(&mut read));
    let rows = [TableRow {
        what: "the check of trust at a start, 199 files of 1 MB",
        bound: "≤ 5 ms",
        ours: ms(full.saturating_sub(empty)),
        reference: ms(read),
    }];
    let table = table::render("crow-agent", "the same files read", &rows);
    println!("{table}\na start without such files: {}", ms(empty));
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort();
    times[times.len() / 2]
}

fn ms(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1e3)
}
