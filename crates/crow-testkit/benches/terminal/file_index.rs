//! Memory and search time of the file list behind `@` in a large project.

use std::{
    path::Path,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use crow_testkit::{Delivery, Script};

use crate::{
    chat_program::{ChatProgram, start_server},
    chat_terminal::ChatTerminal,
    figures::{Timings, ms},
    proc::Proc,
    project_files::{self, BEST_MATCH, FIRST_ENTRY, QUERY},
    table::TableRow,
};

/// Files of the project, unless `CROW_BENCH_FILES` has another number.
const FILES: usize = 200_000;
/// How often matches are awaited.
const TIMES: usize = 7;

pub(crate) async fn rows(program: &ChatProgram) -> Vec<TableRow> {
    let files = std::env::var("CROW_BENCH_FILES").map_or(FILES, |files| files.parse().unwrap());
    let size = project_files::make(&program.project(), files);
    let server = start_server(Script::new(), Delivery::Each).await;
    let found = find(&program.project(), size.paths);

    let asked = format!("@{QUERY}");

    // 1) The list of a project that was not listed before, and what it takes in memory.
    let mut chat = program.open_chat(&server);
    let before = settled_pss(&chat);
    let typed = chat.type_keys("@");
    let listed = chat.wait_for_list("@", FIRST_ENTRY) - typed;
    let growth = settled_pss(&chat) - before;
    // 2) Matches in a list that is there.
    let matches = Timings::new((0..TIMES).map(|_| {
        let typed = chat.type_keys(QUERY);
        let shown = chat.wait_for_list(&asked, BEST_MATCH) - typed;
        chat.type_keys("\u{15}@");
        chat.wait_for_list("@", FIRST_ENTRY);
        shown
    }));
    let searched = settled_pss(&chat) - before;
    chat.type_keys("\u{15}");
    chat.wait_for_empty_prompt();
    chat.quit();
    // 3) Both at once.
    let mut chat = program.open_chat(&server);
    thread::sleep(Duration::from_millis(300));
    let typed = chat.type_keys(&asked);
    let first = chat.wait_for_list(&asked, BEST_MATCH) - typed;
    chat.type_keys("\u{15}");
    chat.wait_for_empty_prompt();
    chat.quit();

    let row = |what, bound, ours, reference| TableRow { what, bound, ours, reference };
    let per_path = |growth: f64| growth * 1024.0 * 1024.0 / size.paths as f64;
    let length = size.length as f64 / size.paths as f64;
    vec![
        row(
            "memory (PSS) per path behind `@` in 200,000 files, or `CROW_BENCH_FILES`; after searches",
            "≤ 120 bytes",
            format!("{:.0} bytes; {:.0} bytes", per_path(growth), per_path(searched)),
            format!("{length:.0} bytes (a path as text)"),
        ),
        row(
            "`@` to the first files, which are listed",
            "–",
            ms(listed),
            format!("{} (`find`)", ms(found)),
        ),
        row(
            "`@` and three characters to their matches",
            "–",
            ms(first),
            format!("{} (`find`)", ms(found)),
        ),
        row(
            "three characters to their matches, with the list; maximum",
            "–",
            format!("{}; {}", ms(matches.median()), ms(matches.maximum())),
            "–".to_owned(),
        ),
    ]
}

/// Returns the memory of a chat that has had time to do the rest of its work.
fn settled_pss(chat: &ChatTerminal) -> f64 {
    thread::sleep(Duration::from_secs(1));
    Proc::new(chat.pid()).pss_mb()
}

/// Returns how long another program takes to list the files, the second time.
fn find(root: &Path, paths: usize) -> Duration {
    let mut took = Duration::ZERO;
    for _ in 0..2 {
        let mut command = Command::new("find");
        command.arg(root).args(["-mindepth", "1"]).stdin(Stdio::null());
        let began = Instant::now();
        let output = command.output().unwrap();
        took = began.elapsed();
        assert_eq!(String::from_utf8(output.stdout).unwrap().lines().count(), paths);
    }
    took
}
