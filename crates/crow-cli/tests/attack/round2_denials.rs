//! Commands, files and tools that the user denied, in other spellings. A denial also applies in `full-auto`, which asks
//! about nothing.

use serde_json::{Value, json};

use crate::{attack::Attack, trial_runner::try_all};

/// Lines that run `touch`, which is denied.
const TOUCH: &[&str] = &[
    "\\touch pwned",
    "tou\\\nch pwned",
    "\"touch\" pwned",
    "$'touch' pwned",
    "$\"touch\" pwned",
    "$'\\u74ouch' pwned",
    "{touch,pwned}",
    "{touch,} pwned",
    "//usr//bin//touch pwned",
    "/usr/bin/../bin/touch pwned",
    "/bin/touch pwned",
    "/usr/bin/t?uch pwned",
    "cd /usr/bin && ./touch {project}/pwned",
    "command -p touch pwned",
    "builtin command touch pwned",
    "command -- touch pwned",
    "exec -a x touch pwned",
    "exec -cl touch pwned",
    "env -i touch pwned",
    "env - touch pwned",
    "env -u X -- touch pwned",
    "env -C . touch pwned",
    "env --chdir=. A=b touch pwned",
    "env -S'touch pwned'",
    "env -vS 'touch pwned'",
    "env --split-string=touch\\ pwned",
    "env A=b B=c touch pwned",
    "A=b touch pwned",
    "A=b B=$(echo) touch pwned",
    "2>/dev/null touch pwned",
    "< /dev/null touch pwned",
    "nice -n 5 touch pwned",
    "nice -5 touch pwned",
    "nice --adjustment=5 touch pwned",
    "timeout -s KILL 5 touch pwned",
    "timeout --signal=9 -k 1 5 touch pwned",
    "stdbuf -oL touch pwned",
    "stdbuf --output L touch pwned",
    "setsid -w touch pwned",
    "ionice -c 3 touch pwned",
    "ionice -c3 -t touch pwned",
    "chrt -o 0 touch pwned",
    "taskset 1 touch pwned",
    "taskset -c 0 touch pwned",
    "xargs touch <<< pwned",
    "echo pwned | xargs -I{} -P2 touch {}",
    "echo pwned | xargs -n 1 -- touch",
    "echo touch pwned | xargs env",
    "echo touch pwned | xargs -t nice",
    "echo touch | xargs -I% % pwned",
    "echo pwned | xargs -d '\\n' sh -c 'touch $0'",
    "find . -maxdepth 0 -execdir touch pwned \\;",
    "find . -maxdepth 0 -exec env touch pwned {} +",
    "find . -maxdepth 0 -exec sh -c 'touch pwned' \\;",
    "find . -maxdepth 0 -ok touch pwned \\;",
    "find . -maxdepth 0 -name x -o -exec touch pwned ';'",
    "flock . touch pwned",
    "flock . -c 'touch pwned'",
    "script -qc 'touch pwned' /dev/null",
    "watch -n 1 touch pwned",
    "parallel touch ::: pwned",
    "time touch pwned",
    "/usr/bin/time touch pwned",
    "busybox touch pwned",
    "sudo -n touch pwned",
    "sudo -u root A=b touch pwned",
    "doas touch pwned",
    "su -c 'touch pwned'",
    "runuser -u root -- touch pwned",
    "setpriv --no-new-privs touch pwned",
    "unshare -r touch pwned",
    "chroot / touch pwned",
    "prlimit --nofile=10 touch pwned",
    "strace -f touch pwned",
    "eval \"touch pwned\"",
    "eval touch '$p'",
    "eval \"$(echo touch pwned)\"",
    "trap 'touch pwned' EXIT",
    "trap \"touch pwned\" 0",
    "bash -ec 'touch pwned'",
    "bash -lc 'touch pwned'",
    "bash -o errexit -c 'touch pwned'",
    "bash -O extglob -c 'touch pwned'",
    "bash +x -c 'touch pwned'",
    "bash --norc --noprofile -c 'touch pwned'",
    "bash --init-file x -c 'touch pwned'",
    "bash -c -- 'touch pwned'",
    "bash -c '\"$@\"' x touch pwned",
    "bash -c '$0 pwned' touch",
    "sh -c 'exec touch pwned'",
    "sh -c {touch\\ pwned,}",
    "dash -c 'touch pwned'",
    "rbash -c 'touch pwned'",
    "bash <<< 'touch pwned'",
    "bash <<'E'\ntouch pwned\nE",
    "sh <<E\n$(echo touch) pwned\nE",
    "echo touch pwned | sh",
    "printf 'touch pwned' | bash -s",
    "cat <<E | bash\ntouch pwned\nE",
    ". <(echo touch pwned)",
    "source /dev/stdin <<< 'touch pwned'",
    "bash <(echo touch pwned)",
    "q() { $@; }; q touch pwned",
    "q() { \"$1\" pwned; }; q touch",
    "q() { ${1}ch pwned; }; q tou",
    "for c in touch; do $c pwned; done",
    "for c in to; do ${c}uch pwned; done",
    "set touch pwned; $@",
    "set touch; ${1} pwned",
    "a=(touch pwned); ${a[*]}",
    "declare c=touch; $c pwned",
    "read c <<< touch; $c pwned",
    "printf -v c touch; $c pwned",
    "mapfile -t c <<< touch; ${c} pwned",
    "c=uch; to$c pwned",
    "c=touch; \"${c}\" pwned",
    "c=hcuot; $(rev <<< $c) pwned",
    "${c:-touch} pwned",
    "${c:=touch} pwned",
    "c=xtouch; ${c#x} pwned",
    "c=TOUCH; ${c,,} pwned",
    "${0/*/touch} pwned",
    "$(echo touch) pwned",
    "`echo touch` pwned",
    "$(which touch) pwned",
    "\"$(command -v touch)\" pwned",
    "$(type -P touch) pwned",
    "to$(:)uch pwned",
    "to${c}uch pwned",
    "to$@uch pwned",
    "to$*uch pwned",
    "$'\\x74'ouch pwned",
    "$(printf %s t ouch) pwned",
    "$(printf '\\164ouch') pwned",
    "alias t=touch; shopt -s expand_aliases\nt pwned",
    "hash -p /usr/bin/touch t; t pwned",
    "BASH_CMDS[t]=/usr/bin/touch; t pwned",
    "coproc touch pwned",
    "coproc t { touch pwned; }",
    "if touch pwned; then :; fi",
    "while ! touch pwned; do :; done",
    "case x in *) touch pwned;; esac",
    "{ { (touch pwned); }; }",
    "! touch pwned",
    "true | touch pwned",
    "true |& touch pwned",
    "touch pwned &",
    "x=$(touch pwned)",
    "echo \"${x:-$(touch pwned)}\" > /dev/null",
    "cat <(touch pwned)",
    "cat <<E\n$(touch pwned)\nE",
    "y='a[$(touch pwned)]'; echo $((y))",
    "PS4='$(touch pwned)'; set -x; :",
    "mapfile -C 'touch pwned;' -c 1 x <<< y",
    "bash -c \"bash -c \\\"touch pwned\\\"\"",
    "env bash -c 'env touch pwned'",
    "git -c alias.x='!touch pwned' x",
    "git -c core.fsmonitor='touch pwned;' status",
    "GIT_PAGER='touch pwned' git -p log",
    "git rebase --exec 'touch pwned' HEAD",
    "git submodule foreach 'touch pwned'",
    "tar cf /dev/null list --checkpoint=1 --checkpoint-action=exec='touch pwned'",
    "make SHELL=/usr/bin/touch x",
    "sed '1e touch pwned' list",
    "awk 'BEGIN { system(\"touch pwned\") }'",
];

/// Lines that run `git push`, which is denied.
const PUSH: &[&str] = &[
    "git -C . push",
    "git --no-pager push",
    "git -p push",
    "git -c a.b=c push",
    "git -ca.b=c push",
    "git --config-env=a.b=HOME push",
    "git --git-dir .git push",
    "git --git-dir=.git --work-tree=. push",
    "git --namespace=x push",
    "git --namespace x push",
    "git --exec-path=/usr/lib/git-core push",
    "git --literal-pathspecs --no-optional-locks push",
    "git --attr-source HEAD push",
    "git --super-prefix x push",
    "git 'push'",
    "git pu\"\"sh",
    "git pu\\sh",
    "git {push,origin}",
    "{git,push}",
    "git p{ush,}",
    "git pus?",
    "git $(echo push)",
    "x=push; git $x",
    "x='git push'; $x",
    "x=git; $x push",
    "git -c alias.p=push p",
    "git -c alias.p='!git push' p",
    "git -c 'alias.p=-p push' p",
    "GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=alias.p GIT_CONFIG_VALUE_0=push git p",
    "GIT_DIR=x git push",
    "/usr/lib/git-core/git-push",
    "/usr/lib/git-core/git push",
    "git-push",
    "git submodule foreach git push",
    "git submodule foreach --recursive 'git push'",
    "git rebase -x 'git push' HEAD",
    "git bisect run git push",
    "echo push | xargs git",
    "xargs git <<< push",
    "echo origin | xargs git push",
    "xargs -I% git % <<< push",
    "true && { git push || true; }",
    "cd sub && git push",
    "sh -c 'cd sub; git push'",
    "bash -c 'git \"$@\"' x push",
    "env -i PATH=$PATH git push",
    "g() { git \"$@\"; }; g push",
    "q() { git $1; }; q push",
    "git --help push; git push",
    "git push --dry-run",
    "git push;",
];

fn denied(words: &str, line: &str) -> Attack {
    let words: Vec<_> = words.split(' ').collect();
    Attack::new(format!("{} is denied: {line}", words.join(" ")), "full-auto")
        .rule("deny", &json!({"command_prefix": words}))
        .file("list", "x\n")
        .before("mkdir sub")
        .keeps("pwned")
        .line(line)
        .refused()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_denied_program_does_not_run_under_another_spelling() {
    try_all(TOUCH.iter().map(|line| denied("touch", line)).collect()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_denied_subcommand_does_not_run_under_another_spelling() {
    try_all(PUSH.iter().map(|line| denied("git push", line)).collect()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_denial_applies_in_every_mode_and_overrides_every_permission() {
    let cases = ["ask", "accept-edits", "read-only", "full-auto"].into_iter().flat_map(|mode| {
        TOUCH.iter().chain(PUSH).step_by(23).map(move |line| {
            denied("touch", line)
                .rule("deny", &json!({"command_prefix": ["git", "push"]}))
                .rule("allow", &json!({"tool_name": "bash"}))
                .rule("allow", &json!("all"))
                .in_mode(mode)
        })
    });
    try_all(cases.collect()).await;
}

/// Lines that read `private/key`, which is denied.
const PRIVATE_READS: &[&str] = &[
    "cat private/key",
    "cat pri*/key",
    "cat priv''ate/k?y",
    "cat {private,}/key",
    "cat $PWD/private/key",
    "cat ~+/private/key",
    "d=private; cat $d/key",
    "cat $(echo private)/key",
    "cd private && cat key",
    "cd private; cat *",
    "cat link",
    "cat folder/key",
    "cat a/../private/key",
    "cat < private/key",
    "cat <<< $(< private/key)",
    "mapfile -t a < private/key; echo ${a[0]}",
    "while read l; do echo $l; done < private/key",
    "exec 5< private/key; cat <&5",
    "head -c 99 -- private/key",
    "grep . private/key",
    "sed '' private/key",
    "awk 1 private/key",
    "cp private/key copy",
    "cp -t /tmp private/key",
    "dd if=private/key",
    "diff list private/key",
    "git diff --no-index list private/key",
    "sort --files0-from=<(printf 'private/key\\0')",
    "bash -c 'cat private/key'",
    "env cat private/key",
    "xargs cat <<< private/key",
    "find private -type f -exec cat {} +",
    "base64 private/key",
];

fn with_private_file(attack: Attack) -> Attack {
    attack
        .rule("deny", &json!({"path": {"path": "private", "access": "read"}}))
        .file("private/key", "private-canary\n")
        .file("list", "x\n")
        .before("mkdir a; ln -s private/key link; ln -s private folder")
        .hides("private-canary")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_cannot_read_a_file_with_denied_reads() {
    let case = |line: &&str| {
        with_private_file(Attack::new(format!("denied read: {line}"), "full-auto").line(line))
            .refused()
    };
    try_all(PRIVATE_READS.iter().map(case).collect()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_tool_cannot_read_a_file_with_denied_reads() {
    let calls: [(&str, Value); 6] = [
        ("grep", json!({"pattern": ".", "path": "private"})),
        ("grep", json!({"pattern": ".", "path": "folder"})),
        ("grep", json!({"pattern": ".", "path": "link"})),
        ("read_file", json!({"path": "private/../private/key"})),
        ("read_file", json!({"path": "folder//key"})),
        ("edit_file", json!({"path": "private/key", "old_string": "x", "new_string": "y"})),
    ];
    let case = |(number, (tool, input)): (usize, (&'static str, Value))| {
        with_private_file(
            Attack::new(format!("denied search {number}"), "full-auto").call(tool, input),
        )
    };
    try_all(calls.into_iter().enumerate().map(case).collect()).await;
}

/// Lines that write `kept.txt`, which is denied.
const KEPT_WRITES: &[&str] = &[
    "echo PWN > kept.txt",
    "echo PWN >> ./kept.txt",
    "echo PWN >| \"kept.txt\"",
    "echo PWN > kept''.txt",
    "f=kept.txt; echo PWN > $f",
    "echo PWN > ke*.txt",
    "echo PWN > link",
    "cd a && echo PWN > ../kept.txt",
    "echo PWN | tee kept.txt",
    "echo PWN | tee -a link",
    "cp list kept.txt",
    "cp list -T kept.txt",
    "cp --target-directory=. a/kept.txt",
    "mv list kept.txt",
    "mv kept.txt other",
    "rm kept.txt",
    "rm -f ./kept.*",
    "unlink kept.txt",
    "ln -sf list kept.txt",
    "ln -f list kept.txt",
    "install list kept.txt",
    "sed -i s/k/PWN/ kept.txt",
    "dd if=list of=kept.txt",
    "truncate -s 0 kept.txt",
    "sort -o kept.txt list",
    "chmod 777 kept.txt",
    "exec 7> kept.txt",
    "exec 7<> kept.txt; echo PWN >&7",
    "{ echo PWN; } &> kept.txt",
    "bash -c 'echo PWN > kept.txt'",
    "bash -c 'echo PWN > \"$0\"' kept.txt",
    "xargs -I{} cp list {} <<< kept.txt",
    "find . -name kept.txt -delete",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_and_file_tools_cannot_write_a_file_with_denied_writes() {
    let kept = |attack: Attack| {
        attack
            .rule("deny", &json!({"path": {"path": "kept.txt", "access": "write"}}))
            .file("kept.txt", "kept\n")
            .file("a/kept.txt", "PWN\n")
            .file("list", "PWN\n")
            .before("ln -s kept.txt link")
            .keeps("kept.txt")
            .refused()
    };
    let lines = KEPT_WRITES
        .iter()
        .map(|line| kept(Attack::new(format!("denied write: {line}"), "full-auto").line(line)));
    let tools = ["kept.txt", "./kept.txt", "a/../kept.txt", "link", "{project}/kept.txt"]
        .into_iter()
        .flat_map(|path| {
            let attack = |tool: &str| Attack::new(format!("denied {tool}: {path}"), "full-auto");
            let edit = json!({"path": path, "old_string": "kept", "new_string": "PWN"});
            [
                kept(attack("write").call("write_file", json!({"path": path, "content": "PWN"}))),
                kept(attack("edit").call("edit_file", edit)),
            ]
        });
    try_all(lines.chain(tools).collect()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_that_only_mentions_a_denied_one_is_allowed() {
    let works = |name: &str, words: &[&str], line: &str| {
        Attack::works(format!("not denied: {name}"), "full-auto")
            .rule("deny", &json!({"command_prefix": words}))
            .before("rm -rf .git; git init -q .; git config user.email a@b; git config user.name a; git commit -q --allow-empty -m x; echo x > touch")
            .line(line)
    };
    try_all(vec![
        works("an argument", &["touch"], "echo touch; cat touch; ls touch"),
        works("a pattern", &["touch"], "grep -c touch touch || true"),
        works("a message", &["git", "push"], "git commit -q --allow-empty -m 'git push'"),
        works("another subcommand", &["git", "push"], "git stash push -q; git log --grep push"),
        works("a variable", &["rm"], "rm_dir=x; echo $rm_dir"),
        works("a loop over files", &["rm"], "for f in *; do wc -l \"$f\"; done"),
        works("a computed argument", &["git", "push"], "git log -1 $(git rev-parse HEAD)"),
        works("a search for it", &["git", "push"], "grep -rn 'git push' . || true"),
    ])
    .await;
}
