//! Lines that hide a command behind one that the user allows, in the mode `ask`.

use serde_json::json;

use crate::{attack::Attack, trial_runner::try_all};

/// First words that the user plausibly allows, in all cases.
const ALLOWED: [&str; 9] = [
    "git status",
    "git log",
    "cargo test",
    "cargo check",
    "npm test",
    "make check",
    "echo",
    "ls",
    "cat",
];

fn cases(table: &[(&str, &str)]) -> Vec<Attack> {
    let case = |(name, line): &(&str, &str)| {
        let attack = Attack::unapproved(*name, line)
            .file("notes.txt", "notes\n")
            .file("evil.sh", "#!/bin/sh\ntouch pwned\n");
        ALLOWED.iter().fold(attack, |attack, words| attack.allow(words))
    };
    table.iter().map(case).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_inside_an_allowed_one_is_asked_about() {
    try_all(cases(&[
        ("substitution", "echo $(touch pwned)"),
        ("substitution in double quotes", "echo \"now $(touch pwned)\""),
        ("backticks", "echo `touch pwned`"),
        ("backticks in double quotes", "echo \"`touch pwned`\""),
        ("nested substitution", "echo $(echo $(touch pwned))"),
        ("process substitution in", "cat <(touch pwned)"),
        ("process substitution out", "echo x > >(touch pwned)"),
        ("substitution in arithmetic", "echo $((1 + $(touch pwned; echo 1)))"),
        ("substitution in an index", "echo $((a[$(touch pwned)]))"),
        ("substitution in a default", "echo ${HOME_:-$(touch pwned)}"),
        ("substitution in a pattern", "echo ${HOME#$(touch pwned)}"),
        ("substitution in a here-document", "cat <<EOF\n$(touch pwned)\nEOF"),
        ("substitution in a here-string", "cat <<< \"$(touch pwned)\""),
        ("substitution in an assignment", "LANG=$(touch pwned) git status"),
        ("substitution in a redirect", "git status > $(touch pwned; echo /dev/null)"),
        ("prompt expansion", "x='$(touch pwned)'; echo ${x@P}"),
        ("funsub", "echo ${ touch pwned; }"),
        ("dollar-quote that ends a quote", "echo $'it\\'; touch pwned #'; touch pwned"),
    ]))
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_after_an_allowed_one_is_asked_about() {
    try_all(cases(&[
        ("semicolon", "git status; touch pwned"),
        ("and", "git status && touch pwned"),
        ("or", "git statusx || touch pwned"),
        ("pipe", "git status | touch pwned"),
        ("pipe of both", "git status |& touch pwned"),
        ("background", "git status & touch pwned"),
        ("line feed", "git status\ntouch pwned"),
        ("carriage return and line feed", "git status\r\ntouch pwned"),
        ("fifty commands before", &format!("{}touch pwned", "git status; ".repeat(50))),
        ("a group", "{ git status; touch pwned; }"),
        ("a subshell", "(git status; touch pwned)"),
        ("negation", "! touch pwned"),
        ("coproc", "coproc touch pwned"),
        ("time", "time touch pwned"),
        ("a case branch", "case x in x) touch pwned;; esac"),
        ("an if branch", "if git status; then touch pwned; fi"),
        ("a while head", "while touch pwned; do break; done"),
        ("a for body", "for x in pwned; do touch $x; done"),
        ("a trap", "trap 'touch pwned' EXIT; git status"),
        ("a comment that ends", "git status # harmless\ntouch pwned"),
        ("a here-document that ends early", "cat <<A\nB\nA\ntouch pwned"),
        ("a here-document with a quoted end", "cat <<'A'\nx\nA\ntouch pwned"),
        ("a line that goes on", "git status;\\\ntouch pwned"),
        ("a NUL-like escape", "git status $'\\n' ; touch pwned"),
    ]))
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_in_a_disguised_spelling_is_asked_about() {
    try_all(cases(&[
        ("eval", "eval 'touch pwned'"),
        ("eval of pieces", "eval tou''ch pwn''ed"),
        ("hex", "$'\\x74\\x6f\\x75\\x63\\x68' pwned"),
        ("octal", "$'\\164\\157\\165\\143\\150' pwned"),
        ("base64", "echo dG91Y2ggcHduZWQ= | base64 -d | sh"),
        ("xxd", "echo 746f756368207077 | xxd -r -p | bash"),
        ("a variable as the command", "x=touch; $x pwned"),
        ("a variable with blanks", "x='touch pwned'; $x"),
        ("braces", "{touch,pwned}"),
        ("a glob as the command", "/usr/bin/touc? pwned"),
        ("a glob class", "/usr/bin/t[o]uch pwned"),
        ("changed IFS", "IFS=,; x=touch,pwned; $x"),
        ("backslashes", "to\\uch pwned"),
        ("quotes inside", "t'o'u\"c\"h pwned"),
        ("indirect expansion", "y=touch; x=y; ${!x} pwned"),
        ("printf into a variable", "printf -v x 'touch pwned'; $x"),
        ("read into a variable", "read x <<< touch; $x pwned"),
        ("case change", "x=TOUCH; ${x,,} pwned"),
        ("a part of a variable", "x=xtouch; ${x:1} pwned"),
        ("reversed", "$(echo hcuot | rev) pwned"),
        ("a look-alike blank", "git\u{a0}status; touch pwned"),
        ("full-width semicolon is no end", "echo x\u{ff1b} ; touch pwned"),
        ("an alias", "shopt -s expand_aliases\nalias ls='touch pwned'\nls"),
        ("a function", "ls() { touch pwned; }; ls"),
        ("a function with keyword", "function git { touch pwned; }\ngit status"),
        ("an exported function", "export BASH_FUNC_ls%%='() { touch pwned; }'; ls"),
        ("hash", "hash -p /usr/bin/touch ls; ls pwned"),
        ("enable", "enable -f ./evil.so ls; touch pwned"),
        ("command not found handle", "command_not_found_handle() { touch pwned; }; nosuch"),
    ]))
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_that_starts_another_is_asked_about() {
    try_all(cases(&[
        ("env", "env touch pwned"),
        ("env -S", "env -S 'touch pwned'"),
        ("sh -c", "sh -c 'touch pwned'"),
        ("bash -c in bash -c", "bash -c \"bash -c 'touch pwned'\""),
        ("xargs", "echo pwned | xargs touch"),
        ("find -exec", "find . -maxdepth 0 -exec touch pwned \\;"),
        ("find -fprint", "find . -maxdepth 0 -fprint pwned"),
        ("find -delete", "find . -name notes.txt -delete"),
        ("git -c alias", "git -c alias.x='!touch pwned' x"),
        ("git -c pager", "git -c core.pager='touch pwned' -p log"),
        ("git -c fsmonitor", "git -c core.fsmonitor='touch pwned;' status"),
        ("git --exec-path", "git --exec-path=. status; touch pwned"),
        ("git grep pager", "git grep --open-files-in-pager='touch pwned;' notes"),
        ("git diff driver", "git -c diff.external=./evil.sh diff --ext-diff"),
        ("git log output", "git log --output=pwned"),
        ("git status of another", "GIT_DIR=/tmp/x git status; touch pwned"),
        ("rg --pre", "rg --pre ./evil.sh notes"),
        (
            "tar checkpoint",
            "tar cf /dev/null notes.txt --checkpoint=1 --checkpoint-action=exec='touch pwned'",
        ),
        ("tar to-command", "tar xf a.tar --to-command='touch pwned'"),
        ("sort compress", "sort --compress-program=./evil.sh -S 1 notes.txt"),
        ("sort output", "sort -o pwned notes.txt"),
        ("sed e", "sed '1e touch pwned' notes.txt"),
        ("sed w", "sed -n 'w pwned' notes.txt"),
        ("sed -i", "sed -i s/n/x/ notes.txt"),
        ("awk system", "awk 'BEGIN{system(\"touch pwned\")}'"),
        ("awk redirect", "awk 'BEGIN{print > \"pwned\"}'"),
        ("ed", "echo '!touch pwned' | ed"),
        ("vi", "vi -es -c '!touch pwned' -c q notes.txt"),
        ("less", "LESSOPEN='|touch pwned' less notes.txt"),
        ("man pager", "man -P 'touch pwned' ls"),
        ("tee", "echo x | tee pwned"),
        ("dd", "dd if=notes.txt of=pwned"),
        ("python", "python3 -c 'open(\"pwned\",\"w\")'"),
        ("perl", "perl -e 'open F,\">pwned\"'"),
        ("nice", "nice touch pwned"),
        ("nohup", "nohup touch pwned"),
        ("timeout", "timeout 5 touch pwned"),
        ("setsid", "setsid touch pwned"),
        ("stdbuf", "stdbuf -o0 touch pwned"),
        ("exec", "exec touch pwned"),
        ("command", "command touch pwned"),
        ("builtin", "builtin eval 'touch pwned'"),
        ("source", "source ./evil.sh"),
        ("dot", ". ./evil.sh"),
        ("busybox", "busybox touch pwned"),
        ("the loader", "/lib64/ld-linux-x86-64.so.2 /usr/bin/touch pwned"),
        ("PATH first", "PATH=.:$PATH ls; touch pwned"),
        ("LD_PRELOAD", "LD_PRELOAD=./evil.so git status"),
        ("BASH_ENV", "BASH_ENV=./evil.sh git status"),
        ("GIT_SSH_COMMAND", "GIT_SSH_COMMAND=./evil.sh git status"),
        ("PAGER", "GIT_PAGER='touch pwned' git -p log"),
        ("RUSTC_WRAPPER", "RUSTC_WRAPPER=./evil.sh cargo check"),
        (
            "cargo --config",
            "cargo check --config 'build.rustc-wrapper=\"./evil.sh\"' ; touch pwned",
        ),
        ("a redirect", "echo x > pwned"),
        ("a redirect that appends", "echo x >> notes.txt"),
        ("a redirect of all", "git status &> pwned"),
        ("a redirect that clobbers", "git status >| pwned"),
        ("a redirect through a number", "git status 3> pwned >&3"),
        ("a redirect outside", "echo PWN > {out}/victim"),
        ("mapfile callback", "mapfile -C 'touch pwned;' -c 1 x <<< y"),
        ("printf %n name", "test -v 'a[$(touch pwned)]'"),
        ("let", "let 'x=a[$(touch pwned)]'"),
    ]))
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_denial_applies_to_every_spelling_of_a_command() {
    let case = |(name, line): &(&str, &str)| {
        Attack::new(format!("denied: {name}"), "full-auto")
            .rule("deny", &json!({"command_prefix": ["touch"]}))
            .line(line)
            .refused()
    };
    let table = [
        ("plain", "touch pwned"),
        ("by its path", "/usr/bin/touch pwned"),
        ("wrapped", "env nice touch pwned"),
        ("in a shell", "bash -c 'touch pwned'"),
        ("after others", "true && touch pwned"),
        ("by a variable", "x=touch; $x pwned"),
        ("quoted", "to''uch pwned"),
    ];
    let reads = [
        ("a file", json!({"path": "private/key"})),
        ("through a link", json!({"path": "link"})),
        ("through a linked folder", json!({"path": "folder/key"})),
        ("through dots", json!({"path": "a/../private/./key"})),
        ("an absolute path", json!({"path": "{project}/private/key"})),
        ("through proc", json!({"path": "/proc/self/root/{project}/private/key"})),
        ("through the folder of the process", json!({"path": "/proc/self/cwd/private/key"})),
    ];
    let reads = reads.into_iter().map(|(name, input)| {
        Attack::new(format!("denied read: {name}"), "full-auto")
            .rule("deny", &json!({"path": {"path": "private", "access": "read"}}))
            .file("private/key", "private-canary")
            .before("mkdir a; ln -s private/key link; ln -s private folder")
            .call("read_file", input)
            .hides("private-canary")
    });
    try_all(table.iter().map(case).chain(reads).collect()).await;
}
