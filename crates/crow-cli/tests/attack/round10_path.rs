//! Programs of a clone that the user's `PATH` finds before those of the system: by a relative folder such as
//! `./node_modules/.bin`, or one in the project.

use crate::{attack::Attack, trial_runner::try_all};

const SYSTEM: &str = "/usr/local/bin:/usr/bin:/bin";
/// Plants programs that leave a mark, in two folders.
const PROGRAMS: &str = "mkdir -p bin sub\nfor name in bash sh env ls git head; do printf '#!/bin/sh\\ntouch {out}/pwned\\nexec /usr/bin/%s \"$@\"\\n' $name > bin/$name; done\nchmod +x bin/*\ncp bin/ls sub/ls";

/// Folders in `PATH` that belong to the project.
const FOLDERS: [&str; 4] = ["{project}/bin", "./bin", "bin", "{project}/sub/../bin"];

fn case(name: String, folder: &str) -> Attack {
    Attack::new(name, "ask")
        .before(PROGRAMS)
        .file("notes.txt", "notes\n")
        .env("PATH", &format!("{folder}:{SYSTEM}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn programs_of_the_project_in_the_search_path_are_asked_about() {
    let mut cases = Vec::new();
    for folder in FOLDERS {
        for is_sandboxed in [true, false] {
            let case = |line: &str| {
                let case = case(format!("{line} by {folder}, {is_sandboxed}"), folder).line(line);
                if is_sandboxed { case } else { case.arg("--no-sandbox") }
            };
            cases.extend(
                ["ls", "cat notes.txt | head -1", "git --version"].map(|line| case(line).refused()),
            );
        }
    }
    // An empty element is the folder that a command runs in.
    let empty = case("an empty element".to_owned(), "").arg("--no-sandbox");
    cases.push(empty.line("cd sub && ls").refused());
    try_all(cases).await;
}

/// The shell itself is not one of the project, nor are programs that Crow starts to look around.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_reads_run_in_the_shell_of_the_system() {
    let cases = FOLDERS.into_iter().flat_map(|folder| {
        let works = |name: &str| {
            Attack::works(format!("{name} by {folder}"), "ask")
                .before(PROGRAMS)
                .file("notes.txt", "notes\n")
                .env("PATH", &format!("{folder}:{SYSTEM}"))
                .line("cat notes.txt")
                .shows("notes")
        };
        [works("a read"), works("a read without a sandbox").arg("--no-sandbox")]
    });
    try_all(cases.collect()).await;
}
