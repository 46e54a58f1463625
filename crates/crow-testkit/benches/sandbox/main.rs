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
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use crow_core::{
    capability::{OutputLimits, ProcessSpec, Processes as _},
    tool::Progress,
};
use crow_runtime::{ProcessRunner, Sandbox, SandboxConfig};
use table::TableRow;
use tokio_util::sync::CancellationToken;

const ROUNDS: usize = 300;
const SUBMODULES: usize = 20;
/// As many as the program hides below a home, and how many of them most homes have.
const HIDDEN_PLACES: usize = 330;
const PRESENT_PLACES: usize = 40;
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
    let empty = base.join("empty");
    fs::create_dir(&empty).unwrap();
    let nested = base.join("nested");
    repository_with_submodules(&nested);
    let hidden = hidden_places(&base.join("home"));
    let held_in = |root: &Path, name: &str, hidden: &[PathBuf]| {
        let mut config = SandboxConfig::new(base.join(name));
        config.hidden.extend(hidden.iter().cloned());
        Arc::new(Sandbox::new(config, name, vec![root.to_owned()]))
    };
    let sandbox = held_in(&project, "private", &hidden);
    let started = Instant::now();
    let containment = sandbox.containment().await;
    let first = started.elapsed();
    let held = plain_runner.clone().in_sandbox(sandbox);
    let held_empty = plain_runner.clone().in_sandbox(held_in(&empty, "private-empty", &hidden));
    let held_open = plain_runner.clone().in_sandbox(held_in(&empty, "private-open", &[]));
    let held_nested = plain_runner.clone().in_sandbox(held_in(&nested, "private-nested", &hidden));
    // The program holds memory, as an agent at work does: a fork copies its tables.
    let ballast: Vec<u8> = (0..20 << 20).map(|byte: u32| byte.to_le_bytes()[0]).collect();
    let command = ["sh", "-c", "true"];
    let with_bwrap = [BWRAP.as_slice(), command.as_slice()].concat();
    let (mut plain, mut sandboxed, mut others) = (Vec::new(), Vec::new(), Vec::new());
    let (mut without_git, mut with_submodules, mut open) = (Vec::new(), Vec::new(), Vec::new());
    let has_bwrap = Path::new("/usr/bin/bwrap").exists();
    for _ in 0..ROUNDS {
        plain.push(time(&plain_runner, &command, &project).await);
        sandboxed.push(time(&held, &command, &project).await);
        without_git.push(time(&held_empty, &command, &empty).await);
        open.push(time(&held_open, &command, &empty).await);
        with_submodules.push(time(&held_nested, &command, &nested).await);
        if has_bwrap {
            let started = Instant::now();
            let status = std::process::Command::new(with_bwrap[0]).args(&with_bwrap[1..]).status();
            others.push(started.elapsed());
            assert!(status.unwrap().success());
        }
    }
    let (plain, sandboxed) = (median(&mut plain), median(&mut sandboxed));
    let without_git = median(&mut without_git);
    let resolved = median(&mut with_submodules).saturating_sub(without_git);
    let hiding = without_git.saturating_sub(median(&mut open));
    let reference = if has_bwrap { ms(median(&mut others)) } else { "not installed".to_owned() };
    let rows = [
        row("`sh -c true` without a sandbox", "", ms(plain)),
        TableRow {
            what: "the same in the sandbox; bwrap",
            bound: "",
            ours: ms(sandboxed),
            reference,
        },
        row("what the sandbox adds", "≤ 2 ms", ms(sandboxed.saturating_sub(plain))),
        row(
            "of that, what git would read, in a repository with 20 submodules",
            "≤ 1 ms",
            ms(resolved),
        ),
        row("of that, 330 hidden places, 40 of which are there", "", ms(hiding)),
        row("setting it up, once a session", "", ms(first)),
    ];
    println!(
        "{}\nlayers: {containment}; {} MB of memory held",
        table::render("Crow", "reference", &rows),
        ballast.len() >> 20
    );
}

fn row(what: &'static str, bound: &'static str, ours: String) -> TableRow {
    TableRow { what, bound, ours, reference: String::new() }
}

/// Makes the hidden places of a home, some of which are there.
fn hidden_places(home: &Path) -> Vec<PathBuf> {
    let places = (0..HIDDEN_PLACES).map(|number| home.join(format!(".config/program-{number}")));
    let places: Vec<_> = places.collect();
    for (number, place) in places.iter().take(PRESENT_PLACES).enumerate() {
        if number % 2 == 0 {
            fs::create_dir_all(place).unwrap();
        } else {
            fs::create_dir_all(place.parent().unwrap()).unwrap();
            fs::write(place, "key").unwrap();
        }
    }
    places
}

/// Makes a repository with submodules, as git makes them.
fn repository_with_submodules(root: &Path) {
    let source = root.with_extension("source");
    fs::create_dir_all(&source).unwrap();
    fs::create_dir_all(root).unwrap();
    for folder in [&source, &root.to_owned()] {
        git(folder, &["init", "-q"]);
        git(folder, &["commit", "-q", "--allow-empty", "-m", "first"]);
    }
    for number in 0..SUBMODULES {
        let name = format!("modules/sub-{number}");
        git(root, &["submodule", "--quiet", "add", source.to_str().unwrap(), &name]);
    }
    git(root, &["commit", "-q", "-m", "submodules"]);
}

fn git(folder: &Path, arguments: &[&str]) {
    let settings = ["protocol.file.allow=always", "user.name=bench", "user.email=bench@localhost"];
    let status = std::process::Command::new("git")
        .args(settings.iter().flat_map(|setting| ["-c", setting]))
        .args(arguments)
        .current_dir(folder)
        .env("GIT_CEILING_DIRECTORIES", folder.parent().unwrap())
        .status();
    assert!(status.unwrap().success(), "{arguments:?}");
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
