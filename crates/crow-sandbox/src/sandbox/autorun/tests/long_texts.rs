//! Texts of a project that would take a reader with nested loops minutes or years. The deadline is far above what is
//! needed, so that a busy machine does not fail the test.

use std::time::{Duration, Instant};

use crow_core::capability::OriginalState;

use super::{
    super::{
        command_words::{command_words, script_words},
        script_targets::started_words,
    },
    guard::Project,
};

/// Number of characters of a text.
const LONG: usize = 200_000;
/// Size of the longest file that is read.
const LONGEST: usize = 1 << 20;
const DEADLINE: Duration = Duration::from_secs(10);

/// Repeats a piece up to a length.
fn repeated(piece: &str, length: usize) -> String {
    piece.repeat(length / piece.len())
}

/// Pieces that nest or join words if they repeat.
const PIECES: [&str; 34] = [
    "[", "{", "(", "$(", "${", "`", "\"", "'", "\\", "a=[", "a: {", "- ", "/", "../", "${a}/",
    "$(a)/", "$a/", "a.", "a,", "a:", "a;", "a&&", "|", "| sh ", ";", "\n", "a\n", "a\\\n",
    "<<a\n", "&a *a ", "a|", "cd a;", "~/", "\u{e9}",
];
/// Lines and words that differ by their number.
const NUMBERED: [(&str, &str); 10] = [
    ("many paths", "./a#/b# "),
    ("many keys", "k#: v#\n"),
    ("many lines with paths", "sh a#/b\n"),
    ("many anchors", "a#: &a# [*a#]\n"),
    ("many folders", "cd d#\n./x#\n"),
    ("many words", "a# "),
    ("many interpreters", "node ./a# | sh\n"),
    ("many modules", "python3 -m a#.b\n"),
    ("many substitutions", "$(cat a#)/x "),
    ("many values", "export A#=$PWD/b#:$PATH\n"),
];

/// Numbers each copy of a piece, up to a length.
fn numbered(piece: &str, length: usize) -> String {
    let mut text = String::new();
    for number in 0.. {
        if text.len() >= length {
            break;
        }
        text.push_str(&piece.replace('#', &number.to_string()));
    }
    text
}

/// Asserts that a command that leaves files with these texts is followed by a fast pass, and that a file that it plants
/// beside them is moved aside.
fn assert_fast(name: &str, files: &[(String, String)]) {
    let project = Project::new();
    // The least that git accepts as a repository.
    for (path, text) in [("HEAD", "ref: refs/heads/main\n"), ("objects/x", ""), ("refs/x", "")] {
        project.write(&format!("sub/.git/{path}"), text);
    }
    let before = Instant::now();
    let found = project.run(|project| {
        for (path, text) in files {
            project.write(path, text);
        }
        project.write(".vscode/tasks.json", "evil");
    });
    let took = before.elapsed();
    assert!(took < DEADLINE, "{name}: {took:?}");
    let planted = (".vscode".to_owned(), OriginalState::Absent);
    assert!(found.contains(&planted), "{name}: {found:?}");
}

fn assert_words_fast(name: &str, text: &str) {
    let before = Instant::now();
    let _words = (started_words(text), script_words(text), command_words(text));
    let took = before.elapsed();
    assert!(took < DEADLINE, "{name}: {took:?}");
}

#[test]
fn the_words_of_a_repeated_piece_are_found_in_linear_time() {
    for piece in PIECES {
        assert_words_fast(piece, &repeated(piece, LONG));
    }
}

#[test]
fn the_words_of_many_different_lines_are_found_in_linear_time() {
    for (name, piece) in NUMBERED {
        assert_words_fast(name, &numbered(piece, LONG));
    }
    for (name, start, piece) in [
        ("a module of many parts", "python3 -m ", "a."),
        ("code after a first line", "#!/usr/bin/python3\n", "'a/b',"),
        ("a path of many parts", "sh ", "a/"),
        ("a path of long parts", "sh /", &format!("{}/", "x".repeat(300))),
        ("words of many expansions", "sh ", "${a}/b"),
        ("text of an interpreter", "node <<E\n", "./a;"),
    ] {
        assert_words_fast(name, &format!("{start}{}", repeated(piece, LONG)));
    }
}

#[test]
fn what_a_command_plants_beside_a_script_of_any_text_is_moved_aside() {
    for piece in ["[", "$(", "${a}/", "a;", "\n"] {
        assert_fast(piece, &[(".envrc".to_owned(), repeated(piece, LONG))]);
    }
    for (name, piece) in NUMBERED.into_iter().step_by(2) {
        assert_fast(name, &[(".pre-commit-config.yaml".to_owned(), numbered(piece, LONG))]);
    }
}

#[test]
fn what_a_command_plants_beside_the_longest_script_is_moved_aside() {
    for piece in ["[", "$(", "$a/", "a;", "\n"] {
        assert_fast(piece, &[("lefthook.yml".to_owned(), repeated(piece, LONGEST))]);
    }
}

#[test]
fn what_a_command_plants_beside_settings_of_any_text_is_moved_aside() {
    let settings = || "sub/.git/config".to_owned();
    for (name, text) in [
        ("a section", repeated("[", LONG)),
        ("many sections", numbered("[a#]\n", LONG)),
        ("many keys", format!("[a]\n{}", numbered("k# = ./x#\n", LONG))),
        ("many values", format!("[a]\n{}", numbered("k = sh ./x# a/b\n", LONG))),
        ("a long value", format!("[a]\nk = {}", repeated("$(a)/", LONG))),
        ("a long alias", format!("[alias]\nk = {}", numbered("--exec ./x# ", LONG))),
        ("many hooks", format!("[core]\n{}", numbered("hooksPath = x#\n", LONG))),
        (
            "many rewrites",
            format!(
                "{}{}",
                numbered("[remote \"a#\"]\nurl = b#\n", LONG / 2),
                numbered("[url \"./c#\"]\ninsteadOf = b\n", LONG / 2)
            ),
        ),
    ] {
        assert_fast(name, &[(settings(), text)]);
    }
    // Each of them includes the next one many times.
    let include = |level: usize| repeated(&format!("[include]\npath = s{level}\n"), 2000);
    let mut files = vec![(settings(), include(0))];
    files.extend((0..9).map(|level| (format!("sub/.git/s{level}"), include(level + 1))));
    assert_fast("many includes", &files);
}

#[test]
fn scripts_beyond_the_limit_of_all_together_count_as_starting_every_program() {
    let project = Project::new();
    let text = repeated(&format!("#{}\n", "x".repeat(100)), LONG);
    for at in 0..15 {
        project.write(&format!(".husky/x{at}"), &text);
    }
    project.write("tools/run.py", "print()\n");
    let found = project.run(|project| project.write("tools/run.py", "evil"));
    assert_eq!(found, [("tools/run.py".to_owned(), OriginalState::Restored)]);
}

#[test]
fn many_scripts_that_are_too_long_are_not_searched_one_by_one() {
    let long = "a".repeat(LONGEST + 1);
    let mut files: Vec<_> = (0..40).map(|at| (format!(".husky/x{at}"), long.clone())).collect();
    files.extend((0..200).map(|at| (format!("src/a{at}/b.py"), String::new())));
    assert_fast("long scripts", &files);
}

#[test]
fn a_script_with_more_words_than_are_read_counts_as_starting_every_program() {
    let words = numbered("w#/x ", LONG);
    for script in [".envrc", "lefthook.yml"] {
        let project = Project::new();
        project.write(script, &format!("a {words}\n"));
        project.write("tools/run.py", "print()\n");
        let found = project.run(|project| project.write("tools/run.py", "evil"));
        assert_eq!(found, [("tools/run.py".to_owned(), OriginalState::Restored)], "{script}");
    }
}
