//! Lines of bash that start a command, write a file or read outside by arrays, prompts, traps, coprocesses, patterns and
//! here-documents. Many lines share one run: each is a call of its own.

use serde_json::json;

use crate::{attack::Attack, trial_runner::try_all};

/// Lines in which bash itself runs `touch pwned`.
const COMMANDS: &[&str] = &[
    "x='$(touch pwned)'; echo \"${x@P}\"",
    "x='`touch pwned`'; echo ${x@P}",
    "x=y; y='$(touch pwned)'; echo \"${!x@P}\"",
    "for x in '$(touch pwned)'; do echo ${x@P}; done",
    "set -- '$(touch pwned)'; echo \"${@@P}\"",
    "x=('$(touch pwned)'); echo \"${x[@]@P}\"",
    "x='y[$(touch pwned)]'; echo ${!x}",
    "x='y[$(touch pwned)]'; echo ${!x:-none}",
    "x='y[$(touch pwned)]'; : ${!x:=1}",
    "declare -ai x=('a[$(touch pwned)]')",
    "typeset -i x='a[$(touch pwned)]'",
    "[[ -v a[$(touch pwned)] ]]",
    "[[ -R 'a[$(touch pwned)]' ]]",
    "[[ 1 -lt 2 && 'a[$(touch pwned)]' -eq 0 ]]",
    "a=([0]=touch [1]=pwned); \"${a[@]}\"",
    "a=(touch); a+=(pwned); ${a[*]}",
    "a=(x touch pwned); \"${a[@]:1}\"",
    "declare -A m=([x]=touch); ${m[x]} pwned",
    "declare -n n=c; c=touch; $n pwned",
    "readarray -t -d '' a < <(printf 'touch\\0pwned\\0'); \"${a[@]}\"",
    ": ${c:=touch}; $c pwned",
    "printf -v 'c[1]' touch; ${c[1]} pwned",
    "c=$(printf '\\164ouch'); $c pwned",
    "c=${_:+touch}; $c pwned",
    "coproc { touch pwned; }; wait",
    "coproc ls { touch pwned; }; wait",
    "exec 3< <(touch pwned); cat <&3",
    "cat < <(touch pwned)",
    "diff <(ls) <(touch pwned; ls)",
    "[[ -e <(touch pwned) ]]; wait",
    "trap 'touch pwned' USR1; kill -USR1 $$",
    "trap -- 'touch pwned' CHLD; (ls); wait",
    "builtin trap 'touch pwned' EXIT",
    "trap \"$(echo touch pwned)\" SIGEXIT",
    "ls() (touch pwned); ls",
    "function cat { command touch pwned; }; cat",
    "cat() { touch pwned; } ; export -f cat; bash -c cat",
    "ls() { touch pwned; }; echo x | ls",
    "cd() { touch pwned; }; cd .",
    "echo() { touch pwned; }; for i in 1; do echo; done",
    "shopt -s expand_aliases\nalias ls='touch pwned;ls'\nls",
    "alias x=touch; shopt -s expand_aliases; eval 'x pwned'",
    "shopt -s extglob\n/usr/bin/+(touch) pwned",
    "shopt -s extglob\n/usr/bin/touc@(h) pwned",
    "/usr/bin/[[:lower:]]ouch pwned",
    "/???/bin/touch pwned",
    "/usr/bin/tou{ch,} pwned",
    "shopt -s globstar\n/usr/**/touch pwned",
    "$\"$(touch pwned)\"",
    "echo $\"`touch pwned`\"",
    "for ((;;$(touch pwned))); do break; done; for ((i=$(touch pwned; echo 0); i<1; i++)); do :; done",
    "case x in x) ;;& *) touch pwned ;; esac",
    "case $(touch pwned) in *) ;; esac",
    "if ! touch pwned; then :; fi",
    "while ! touch pwned; do :; done",
    "until [ -e pwned ]; do touch pwned; done",
    "{ { { touch pwned; }; }; }",
    "(((touch pwned)))",
    "( ( touch pwned ) )",
    "! { touch pwned; }",
    "cat <<EOF\n$(cat <<X\n$(touch pwned)\nX\n)\nEOF",
    "cat <<EOF\n${x:=$(touch pwned)}\nEOF",
    "x='$(touch pwned)'; cat <<EOF\n${x@P}\nEOF",
    "cat <<\\\nEOF; touch pwned\nEOF",
    "sh /dev/stdin <<'EOF'\ntouch pwned\nEOF",
    "sh /dev/fd/4 4<<'EOF'\ntouch pwned\nEOF",
    "bash -s x <<< 'touch pwned'",
    "bash -c \"$(cat <<'EOF'\ntouch pwned\nEOF\n)\"",
    "eval \"$(cat <<'EOF'\ntouch pwned\nEOF\n)\"",
    ". <(echo touch pwned)",
    "source /proc/self/fd/0 <<< 'touch pwned'",
    "exec bash <<< 'touch pwned'",
    "type -P touch | { read t; $t pwned; }",
    "$(command -v touch) pwned",
    "`type -p touch` pwned",
    "${BASH%bash}../usr/bin/touch pwned",
    "\"${SHELL:-sh}\" -c 'touch pwned'",
    "$0 -c 'touch pwned'",
    "\"$BASH\" -c 'touch pwned'",
    "/proc/$$/exe -c 'touch pwned'",
    "/proc/self/exe -c 'touch pwned'",
    "env -S 'sh -c \"touch pwned\"'",
    "command -- builtin eval touch pwned",
    "time -- touch pwned",
    "mapfile -t -c 1 -C 'touch pwned #' a <<< x",
    "let 'x=0,a[$(touch pwned)]=1'",
    "echo $((x=0,a[$(touch pwned)]))",
    "echo ${PWD:0:$((`touch pwned; echo 1`))}",
    "echo ${PWD/${x:-$(touch pwned)}/}",
    "echo ${x:-${y:-${z:-$(touch pwned)}}}",
    "a[$(touch pwned; echo 0)]=1",
    "a=([$(touch pwned; echo 0)]=1)",
    "x=1 y=$(touch pwned) ls",
    "ls 3>&1 4>$(touch pwned; echo /dev/null)",
    "ls < $(touch pwned; echo /dev/null)",
    "export x=$(touch pwned)",
    "return $(touch pwned) 2>/dev/null; :",
    "PS4='+$(touch pwned)' ; set -x; :",
    "PROMPT_COMMAND='touch pwned'; PS1='$(touch pwned)'; bash -i <<< :",
];

/// Lines that write a file of the project, or let a program write one.
const WRITES: &[&str] = &[
    "> \"$(echo pwned)\"",
    ">pwned ls",
    "ls {x}>pwned",
    "exec {x}<>pwned",
    "cat <<A >pwned\nx\nA",
    "cat >pwned <<< x",
    "a=(pwned); : > \"${a[0]}\"",
    "x=pwn; : > ${x}ed",
    "f() { : > \"$1\"; }; f pwned",
    "for x in pwned; do : > \"$x\"; done",
    "set -- pwned; : > \"$1\"",
    "ls | tee -a pwned >/dev/null",
    "printf x | dd of=pwned status=none",
    "cd . > pwned",
    "test -e x 2> pwned",
    "[[ x ]] &>> pwned",
    "time ls 2> pwned",
    "wait > pwned",
    "read x < notes.txt > pwned",
    "shopt -p > pwned",
    "declare -p > pwned",
    "jobs >| pwned",
    "ls >&pwned",
    "ls >>pwned 2>&1",
    "exec 5>pwned 6>&5; ls >&6",
];

/// Lines that print a file outside the project, whose text is `untouched`.
const READS: &[&str] = &[
    "cat ${OLDPWD:-../out}/victim",
    "cat \"${HOME%/home}\"/out/victim",
    "cat ${PWD/project/out}/victim",
    "cat ${PWD%project}out/victim",
    "cat $'\\x2e./out/victim'",
    "cat .[.]/out/victim",
    "shopt -s extglob\ncat @(..)/out/victim",
    "cat {.,}./out/victim",
    "cat < \"$(printf ../out/victim)\"",
    "cat \"$(realpath ..)/out/victim\"",
    "cat \"$(dirname \"$PWD\")\"/o*/v*",
    "set -- ../out/victim; cat \"$1\"",
    "a=(../out/victim); cat \"${a[0]}\"",
    "a=(.. out victim); IFS=/; cat \"${a[*]}\"",
    "declare x=../out/victim; cat $x",
    "x=victim; cat ../out/$x",
    "cat ${x:-../out/victim}",
    "f() { cat \"$1\"; }; f ../out/victim",
    "mapfile < ../out/victim; echo \"${MAPFILE[@]}\"",
    "exec 4<../out/victim; cat /dev/fd/4",
    "cat <(cat ../out/victim)",
    "cat <<EOF\n$(<../out/victim)\nEOF",
    "cd -P ./way; cat victim",
    "cd way/.; cat ./victim",
    "cd \"$(echo ../out)\" && cat victim",
    "CDPATH=way/..; cd out; cat victim",
    "(cd ..; cd out; cat victim)",
    "{ cd ../out; }; cat victim",
    "if cd ../out; then cat victim; fi",
    "! cd ../out; cat victim",
    "pushd ../out >/dev/null; cat victim; popd",
    "while cd ../out; do cat victim; break; done",
    "for d in ../out; do cd $d; cat victim; done",
    "head -c99 /proc/$$/cwd/../out/victim",
    "head -c99 /proc/thread-self/cwd/../out/victim",
    "cat /proc/self/root{out}/victim",
    "cat //{out}/victim",
    "cat way/./../out/victim",
    "tail -n1 w?y/victim",
    "grep -h . way/{none,victim}",
    "tac way/victim",
    "sort way/victim notes.txt",
    "diff notes.txt way",
    "paste way/victim",
    "find way/victim -exec cat {} +",
    "find -L . -name victim -exec cat {} \\;",
    "ls -d w*/vic* | xargs cat",
    "printf '%s\\n' way/victim | xargs cat",
    "wc -l --files0-from=<(printf 'way/victim\\0'); cat $(printf way/victim)",
];

/// Splits lines into cases of a few lines each, so that one start of the program serves many.
fn cases(name: &str, lines: &[&str], case: impl Fn(String) -> Attack) -> Vec<Attack> {
    let chunks = lines.chunks(17).enumerate();
    let with_lines = |(number, chunk): (usize, &[&str])| {
        let first = chunk.first().copied().unwrap_or_default();
        let new = case(format!("{name} {number}, from {first:?}"));
        chunk.iter().fold(new, |attack, line| attack.line(line))
    };
    chunks.map(with_lines).collect()
}

fn in_clone(attack: Attack) -> Attack {
    attack
        .file("notes.txt", "notes\n")
        .before("ln -s {out} way")
        .keeps("pwned")
        .hides("untouched")
        .refused()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lines_of_bash_that_hide_a_command_a_write_or_a_read_are_asked_about() {
    let ask = |name: &str, lines| {
        cases(name, lines, |name| in_clone(Attack::new(format!("round 9, ask: {name}"), "ask")))
    };
    try_all([ask("commands", COMMANDS), ask("writes", WRITES), ask("reads", READS)].concat()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_denied_command_is_refused_where_bash_hides_it() {
    let denied = cases("commands", COMMANDS, |name| {
        let attack = Attack::new(format!("round 9, denied: {name}"), "full-auto");
        in_clone(attack).rule("deny", &json!({"command_prefix": ["touch"]}))
    });
    try_all(denied).await;
}

/// Lines that would print `private/key`, which a rule forbids to read.
const DENIED_READS: &[&str] = &[
    "a=(private/key); cat \"${a[@]}\"",
    "x=priv; cat ${x}ate/key",
    "cat p*/k?y",
    "cat {private,}/key",
    "cat ./private//key",
    "cd private; cat key",
    "cd priv*; cat k*",
    "pushd private; cat key",
    "cat < private/key",
    "f() { cat \"$@\"; }; f private/key",
    "cat <(cat private/key)",
    "exec 3<private/key; cat <&3",
    "mapfile -t a <private/key; echo ${a[0]}",
    "while read -r l; do echo \"$l\"; done < private/key",
    "cp -r private p2; cat p2/key",
    "cp -r . /tmp/copy; cat /tmp/copy/private/key",
    "mv private p2; cat p2/key",
    "ln private/key k; cat k",
    "ln -s private p; cat p/key",
    "install private/key k; cat k",
    "dd if=private/key status=none",
    "tar c private | tar xO",
    "tar c . | tar xO",
    "find private -type f -exec cat {} +",
    "find . -name key -exec cat {} +",
    "find . -type f | xargs cat",
    "grep -r . .",
    "grep -rh canary",
    "git add -f private/key; git show :private/key",
    "git add -A; git stash; git show stash@{0}:private/key",
    "git diff --no-index /dev/null private/key",
    "git hash-object -w private/key | git cat-file --batch",
    "cat $(git ls-files -o)",
    "cat /proc/self/cwd/private/key",
    "cat folder/key link",
    "split private/key part; cat part*",
    "zip -qr - private | cat; gzip -c private/key | zcat",
    "source private/key; . private/key",
    "xxd private/key | xxd -r",
    "set -x; . private/key",
    "cat private/../private/key",
    "rsync private/key k; cat k",
    "diff -r private /tmp",
    "shopt -s globstar; cat **/key",
    "printf 'private/key' | xargs cat",
    "sort -m private/key",
    "openssl enc -base64 -in private/key",
    "sed n private/key",
    "curl -s file://$PWD/private/key",
    "sqlite3 :memory: \".import private/key t\" 'select * from t'",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_a_rule_forbids_to_read_is_printed_by_no_line() {
    let lines = cases("reads", DENIED_READS, |name| {
        Attack::new(format!("round 9, denied: {name}"), "full-auto")
            .rule("deny", &json!({"path": {"path": "private", "access": "read"}}))
            .file("private/key", "private-canary\n")
            .before("rm -rf .git; git init -q .; git config user.email a@b; git config user.name a; git commit -q --allow-empty -m x; ln -s private/key link; ln -s private folder")
            .hides("private-canary")
    });
    try_all(lines).await;
}
