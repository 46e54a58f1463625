//! Security review 4, lines that pass as reads: options whose value is the next word, and filters of searches.

use std::fs;

use crow_core::permission::{Decision, PermissionMode, PermissionPolicy};

use crate::project::Project;

fn passes(project: &Project, text: &str) -> bool {
    let line = project.line(text);
    [PermissionMode::Ask, PermissionMode::AcceptEdits, PermissionMode::ReadOnly].into_iter().any(
        |mode| {
            [false, true].into_iter().any(|in_sandbox| {
                let policy = PermissionPolicy::new(mode).with_read_sandbox(in_sandbox);
                matches!(project.decide(&policy, &line), Decision::Allow(_))
            })
        },
    )
}

fn passing<'a>(project: &Project, lines: &[&'a str]) -> Vec<&'a str> {
    lines.iter().copied().filter(|text| passes(project, text)).collect()
}

#[test]
fn a_sed_script_in_the_word_after_its_option_is_inspected() {
    let passed = passing(
        &Project::new(),
        &[
            "sed -e p --expression 'w out' a.txt",
            "sed -n -e p --expression 'e id' a.txt",
            "sed -i -e p --expression 'e id' a.txt",
            "sed -i p --expression 'w .git/x' a.txt",
            "sed --expression=p --expression 'e id' a.txt",
            "sed --expression p --expression 'w out' a.txt",
            "sed --expression p -e p --expression 's/a/id/e' a.txt",
        ],
    );
    assert!(passed.is_empty(), "{passed:#?}");
}

#[test]
fn a_search_filter_that_includes_a_file_with_keys_is_asked_about() {
    let passed = passing(
        &Project::new(),
        &[
            "rg --glob .env TOKEN",
            "rg --glob '.e*' TOKEN .",
            "rg --iglob .ENV TOKEN",
            "rg --iglob=.ENV TOKEN",
            "rg --hidden --iglob='.ENV' TOKEN",
            "rg --hidden --glob='!.env*' -g '.env' TOKEN",
            "rg --hidden --iglob='!.env*' --glob='.env' TOKEN",
            "grep -r --exclude=.env --include=.env TOKEN .",
            "grep -r --exclude='.env*' --include='.env' TOKEN .",
            "grep -r --exclude='*.md' --include='*.rs' TOKEN .",
            "grep -r --exclude '*.md' --include='*.rs' TOKEN .",
        ],
    );
    assert!(passed.is_empty(), "{passed:#?}");
}

#[test]
fn a_search_filter_that_excludes_files_with_keys_needs_no_question() {
    let lines = [
        "rg TOKEN",
        "rg -g '*.rs' TOKEN",
        "rg --glob='*.rs' TOKEN",
        "rg -t rust TOKEN src",
        "rg -g '*.rs' -g '!target' TOKEN",
        "grep -r --include='*.rs' TOKEN .",
        "grep -r --include='*.rs' --exclude='lib.rs' TOKEN .",
        "sed -n -e 1p -e 3p a.txt",
        "sed --expression=p a.txt",
    ];
    let project = Project::new();
    let asked: Vec<&str> = lines.into_iter().filter(|text| !passes(&project, text)).collect();
    assert!(asked.is_empty(), "{asked:#?}");
}

#[test]
fn variables_of_git_that_show_a_token_are_asked_about() {
    let project = Project::new();
    let settings = "[remote \"o\"]\n\turl = https://u:token@example.org/r\n";
    fs::write(project.root.join(".git/config"), settings).unwrap();
    let passed = passing(&project, &["git var -l", "git --no-pager var -l", "git -C . var -l"]);
    assert!(passed.is_empty(), "{passed:#?}");
    assert!(passes(&project, "git var GIT_EDITOR"));
}

#[test]
fn git_objects_that_are_named_on_standard_input_are_asked_about() {
    let project = Project::new();
    let lines = [
        "echo HEAD:.env | git cat-file --batch",
        "echo contents HEAD:.env | git cat-file --batch-command",
        "git cat-file --batch --batch-all-objects",
        "echo HEAD | git log -p --stdin",
        "echo HEAD | git show --stdin",
    ];
    let passed = passing(&project, &lines);
    assert!(passed.is_empty(), "{passed:#?}");
    for line in ["git cat-file -p HEAD:a.txt", "git cat-file --batch-check", "git show HEAD"] {
        assert!(passes(&project, line), "{line}");
    }
}

#[test]
fn the_in_place_option_of_jq_is_not_a_read() {
    let project = Project::new();
    assert!(passing(&project, &["jq -i . a.json", "jq -ri . a.json"]).is_empty());
    assert!(passes(&project, "jq -r . a.txt"));
}
