//! Measures what the sandbox costs a command, beside the same command without one, and beside bwrap where it is installed.
//!
//! `cargo bench -p crow-testkit --bench sandbox` prints the table.
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
    collections::BTreeMap,
    fs,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use crow_core::{
    capability::{OutputLimits, ProcessSpec, Processes as _},
    tool::Progress,
};
use crow_runtime::{ProcessRunner, Sandbox, SandboxConfig};
use table::Row;
use tokio_util::sync::CancellationToken;

const ROUNDS: usize = 300;
const BWRAP: [&str; 12] = [
    "bwrap",
    "--unshare-all",
    "--ro-bind",
    "/",
    "/",
    "--proc",
    "/proc",
    "--dev",
    "/dev",
    "--tmpfs",
    "/tmp",
    "--",
];

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let folder = tempfile::tempdir().unwrap();
    let base = folder.path().canonicalize().unwrap();
    let project = base.join("project");
    fs::create_dir_all(project.join(".git/hooks")).unwrap();
    fs::write(project.join(".git/config"), "").unwrap();
    let path = ("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned());
    let plain_runner = ProcessRunner::new(BTreeMap::from([path]));
    let config = SandboxConfig::new(base.join("private"));
    let sandbox = Arc::new(Sandbox::new(config, "bench", vec![project.clone()]));
    let started = Instant::now();
    let containment = sandbox.containment().await;
    let first = started.elapsed();
    let held = plain_runner.clone().in_sandbox(sandbox);
    // The program holds memory, as an agent at work does: a fork copies its tables.
    let ballast: Vec<u8> = (0..20 << 20).map(|byte: u32| byte.to_le_bytes()[0]).collect();
    let command = ["sh", "-c", "true"];
    let with_bwrap = [BWRAP.as_slice(), command.as_slice()].concat();
    let (mut plain, mut sandboxed, mut others) = (Vec::new(), Vec::new(), Vec::new());
    let has_bwrap = Path::new("/usr/bin/bwrap").exists();
    for _ in 0..ROUNDS {
        plain.push(time(&plain_runner, &command, &project).await);
        sandboxed.push(time(&held, &command, &project).await);
        if has_bwrap {
            let started = Instant::now();
            let status = std::process::Command::new(with_bwrap[0]).args(&with_bwrap[1..]).status();
            others.push(started.elapsed());
            assert!(status.unwrap().success());
        }
    }
    let (plain, sandboxed) = (median(&mut plain), median(&mut sandboxed));
    let reference = if has_bwrap { ms(median(&mut others)) } else { "not installed".to_owned() };
    let rows = [
        Row {
            what: "`sh -c true` without a sandbox",
            bound: "",
            ours: ms(plain),
            reference: String::new(),
        },
        Row { what: "the same in the sandbox; bwrap", bound: "", ours: ms(sandboxed), reference },
        Row {
            what: "what the sandbox adds",
            bound: "≤ 2 ms",
            ours: ms(sandboxed.saturating_sub(plain)),
            reference: String::new(),
        },
        Row {
            what: "setting it up, once a session",
            bound: "",
            ours: ms(first),
            reference: String::new(),
        },
    ];
    println!(
        "{}\nlayers: {containment}; {} MB of memory held",
        table::render("Crow", "reference", &rows),
        ballast.len() >> 20
    );
}

async fn time(runner: &ProcessRunner, command: &[&str], cwd: &Path) -> Duration {
    let spec = ProcessSpec {
        argv: command.iter().map(|word| (*word).to_owned()).collect(),
        cwd: cwd.to_owned(),
        env: BTreeMap::new(),
        timeout: Duration::from_mins(1),
        output: OutputLimits { head: 1024, tail: 1024, spill: None, spill_cap: 0 },
        progress: Progress::default(),
        only_reads: false,
    };
    let started = Instant::now();
    let outcome = runner.run(spec, CancellationToken::new()).await.unwrap();
    let elapsed = started.elapsed();
    assert_eq!(outcome.end, crow_core::capability::ProcessEnd::Exited(0));
    elapsed
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort();
    times[times.len() / 2]
}

fn ms(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1e3)
}
