//! Permissions for the first words of a command, and commands among its operands.

use crate::{attack::Attack, trial_runner::try_all};

/// Allowed first words, and a line whose operands start a program or write a file.
const OPERANDS: &[(&str, &str)] = &[
    ("wrapper", "wrapper touch pwned"),
    ("wrapper", "wrapper -- touch pwned"),
    ("wrapper", "wrapper /usr/bin/touch pwned"),
    ("wrapper", "wrapper ./evil.sh"),
    ("wrapper", "wrapper touch pwned/../pwned"),
    ("wrapper run", "wrapper run touch pwned"),
    ("npm", "npm exec -- touch pwned"),
    ("make", "make check 'X=$(shell touch pwned)'"),
    ("make", "make check 'X!=touch pwned'"),
    ("make", "make check 'V!=touch pwned'"),
    ("make", "make check -- 'X!=touch pwned'"),
    ("make", "make check 'X=$(file >pwned,x)'"),
    ("make", "make check MAKEFILES=evil.mk"),
    ("make", "make check 'GNUMAKEFLAGS=--eval=$(shell touch pwned)'"),
    ("make", "make check PATH=.:$PATH"),
    ("make", "make check PATH=."),
    ("make", "make check LD_PRELOAD=./evil.so"),
    ("make", "make check TOOL=./evil.sh"),
    ("perl -pe s/a/b/", "perl -pe s/a/b/ 'touch pwned; id|'"),
    ("perl -pe s/a/b/", "perl -pe s/a/b/ '>pwned'"),
    ("ed", "ed '!touch pwned; id'"),
    ("convert", "convert '|touch pwned' x.png"),
    ("gs", "gs '%pipe%touch pwned'"),
    ("gnuplot", "gnuplot '<touch pwned'"),
    ("lynx", "lynx lynxexec:touch"),
    ("pip install", "pip install git+file:///etc/x"),
    ("pip install", "pip install 'x @ file:///etc/x'"),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_among_the_operands_of_an_allowed_one_is_asked_about() {
    let case = |(number, (words, line)): (usize, &(&str, &str))| {
        Attack::unapproved(format!("operands, {number}: {words} is allowed: {line}"), line)
            .file("notes.txt", "notes\n")
            .file("evil.sh", "#!/bin/sh\ntouch pwned\n")
            .before("chmod +x evil.sh")
            .file("evil.mk", "$(shell touch pwned)\n")
            .file("Makefile", "TOOL=true\ncheck:\n\t$(TOOL)\n")
            .allow(words)
            .hides("untouched")
    };
    try_all(OPERANDS.iter().enumerate().map(case).collect()).await;
}

/// Allowed first words, and a line of everyday work.
const EVERYDAY: &[(&str, &str)] = &[
    ("make", "make check"),
    ("make", "make check V=1"),
    ("make", "make -j2 check DEBUG=1"),
    ("perl -pe s/notes/words/", "perl -pe s/notes/words/ notes.txt"),
    ("git clean", "git clean -n"),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ordinary_operands_of_an_allowed_command_are_not_asked_about() {
    if !crate::trial_runner::has_full_sandbox("permissions") {
        return;
    }
    let case = |(words, line): &&(&str, &str)| {
        Attack::works(format!("operands: {words} is allowed: {line}"), "ask")
            .before("rm -rf .git; git init -q .")
            .file("notes.txt", "notes\n")
            .file("Makefile", "check:\n\techo\n")
            .allow(words)
            .line(line)
    };
    let is_installed = |(_, line): &&(&str, &str)| {
        line.split(' ').next().is_some_and(crate::trial_runner::is_installed)
    };
    let cases: Vec<_> = EVERYDAY.iter().filter(is_installed).collect();
    try_all(cases.iter().map(case).collect()).await;
}
