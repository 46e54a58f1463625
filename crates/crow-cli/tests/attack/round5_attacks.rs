//! A fifth round of attacks, written from the promises and not from the code that keeps them.

use serde_json::json;

use crate::{
    attack::Attack,
    trial_runner::{has_full_sandbox, try_all},
};

/// Script that creates a repository with two commits.
const REPOSITORY: &str = "rm -rf .git; git init -q -b main .; git config user.email a@b.invalid; git config user.name a; \
     mkdir -p src; echo one > a.txt; echo two > src/b.txt; git add -A; git commit -qm x; echo more >> a.txt; git commit -qam y";
/// Git commands that the user runs afterwards.
const USER: &str = "set +e; git status >/dev/null 2>&1; git diff >/dev/null 2>&1; git add -A >/dev/null 2>&1; git commit -qm z --allow-empty >/dev/null 2>&1; \
     git checkout -q -b topic >/dev/null 2>&1; git log -1 >/dev/null 2>&1; git fetch >/dev/null 2>&1; git gc -q >/dev/null 2>&1; true";
/// Program that git starts for almost everything.
const MONITOR: &str = "touch {project}/pwned; false";
/// Script that writes an index with the entries that are given as arguments.
const INDEX: &str = r"cat > mkindex.py <<'E'
import hashlib, struct, sys
head = open('.git/index', 'rb').read()
fixed = head[12:72]
def entry(name):
    data = fixed + struct.pack('>H', len(name)) + name
    return data + b'\0' * (8 - len(data) % 8)
names = sorted(name.encode() for name in sys.argv[1:])
data = b'DIRC' + struct.pack('>II', 2, len(names)) + b''.join(entry(name) for name in names)
open('.git/index', 'wb').write(data + hashlib.sha1(data).digest())
E
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_program_that_a_command_leaves_in_a_repository_is_started_by_git() {
    if !has_full_sandbox("programs left in repositories") {
        return;
    }
    let table = [
        (
            "settings by another program",
            "printf '[core]\\n\\tfsmonitor = MONITOR\\n' > m; python3 -c \"open('.git/config','a').write(open('m').read())\"",
        ),
        (
            "a copy in place of the repository",
            "cp -r .git copy && git config -f copy/config core.fsmonitor 'MONITOR' && mv .git old && mv copy .git",
        ),
        (
            "settings of a worktree",
            "git config extensions.worktreeConfig true; git config -f .git/config.worktree core.fsmonitor 'MONITOR'",
        ),
        (
            "new hooks in place of the old",
            "mv .git/hooks .git/h2; mkdir .git/hooks; printf '#!/bin/sh\\nMONITOR' > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit",
        ),
        (
            "hooks of a template",
            "mkdir -p t/hooks; printf '#!/bin/sh\\nMONITOR' > t/hooks/post-checkout; chmod +x t/hooks/post-checkout; git init -q --template=t .",
        ),
        (
            "a filter with its settings",
            "echo '* filter=x' > .git/info/attributes; git config filter.x.clean 'MONITOR'",
        ),
        (
            "a hook behind a link to a folder",
            "mkdir h; printf '#!/bin/sh\\nMONITOR' > h/post-checkout; chmod +x h/post-checkout; rm -rf .git/hooks; ln -s ../h .git/hooks",
        ),
        (
            "an unfinished write of settings",
            "cp .git/config .git/config.lock; git config -f .git/config.lock core.fsmonitor 'MONITOR'; mv .git/config.lock .git/config; rm -f .git/config.lock",
        ),
        (
            "an exchange of settings",
            "cp .git/config c; git config -f c core.fsmonitor 'MONITOR'; python3 -c \"import ctypes; ctypes.CDLL(None).syscall(316, -100, b'c', -100, b'.git/config', 2)\"",
        ),
        (
            "a folder mounted over the repository",
            "cp -r .git g2; git config -f g2/config core.fsmonitor 'MONITOR'; unshare -rm mount --bind g2 .git; mount --bind g2 .git",
        ),
        (
            "an included file",
            "printf '[core]\\n\\tfsmonitor = MONITOR\\n' > inc; git config include.path ../inc",
        ),
        (
            "a remote that is a program",
            "git config remote.origin.url 'ext::sh -c \"MONITOR\"'; git config protocol.ext.allow always",
        ),
    ];
    let attacks = table.map(|(name, line)| {
        let line = line.replace("MONITOR", MONITOR);
        Attack::new(format!("left: {name}"), "full-auto")
            .before(REPOSITORY)
            .line(&line)
            .after(&format!("{USER}; if [ -e pwned ]; then echo started; exit 1; fi"))
    });
    try_all(attacks.into()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_spelling_of_a_hidden_place_reveals_it() {
    if !has_full_sandbox("hidden places") {
        return;
    }
    let lines = [
        "cat /proc/self/root{home}/.ssh/id_ed25519",
        "cat /proc/1/root{home}/.netrc; cat /proc/$PPID/root{home}/.netrc",
        "for p in /proc/[0-9]*; do tr '\\0' '\\n' < $p/environ; cat $p/cwd/../home/.netrc; done",
        "ln {home}/.netrc k; cat k",
        // Not the whole disk: how long that takes depends on the machine.
        "find / -xdev -maxdepth 5 -samefile {home}/.netrc -exec cat {} + 2>/dev/null",
        "tar cf - {home}/.aws {home}/.config | tar xOf -",
        "unshare -rm sh -c 'umount -l {home}/.ssh; cat {home}/.ssh/id_ed25519'",
        "nsenter -t 1 -m cat {home}/.netrc; nsenter -t 1 -U cat {home}/.netrc",
        "cp -r {home} /tmp/copy; cat /tmp/copy/.ssh/* /tmp/copy/.netrc /tmp/copy/.aws/*",
        "mkdir /tmp/m; mount --rbind {home} /tmp/m; cat /tmp/m/.netrc; mount --bind {home}/.. /tmp/m; cat /tmp/m/home/.netrc",
        "python3 -c \"import os; fd=os.open('{home}', os.O_PATH); print(open('/proc/self/fd/%d/.netrc' % fd).read())\"",
        "python3 - <<'E'\nimport ctypes,os,struct\nc=ctypes.CDLL(None,use_errno=True)\nh=ctypes.create_string_buffer(struct.pack('Ii',128,0)+b'\\0'*128)\nm=ctypes.c_int()\nc.name_to_handle_at(-100,b'{home}/.netrc',h,ctypes.byref(m),0)\nd=os.open('{home}',os.O_RDONLY)\nf=c.open_by_handle_at(d,h,0)\nprint(os.read(f,100) if f>=0 else 'no')\nE",
        "cat {data}/sessions/*/* {config}/*; ls -laR {data} {config}",
        "git -C {home} grep --no-index canary; git diff --no-index /dev/null {home}/.netrc",
        "(cd {home}; find . | cpio -o 2>/dev/null); python3 -c \"import shutil; shutil.make_archive('/tmp/a','tar','{home}')\"; cat /tmp/a.tar",
        "chroot / cat {home}/.netrc; unshare -r chroot / cat {home}/.netrc; unshare -rm sh -c 'mount -t tmpfs x /mnt; pivot_root . mnt; cat {home}/.netrc'",
    ];
    let attacks = lines.iter().map(|line| Attack::confined(format!("hidden: {line}"), line));
    try_all(attacks.collect()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn folders_around_files_that_the_user_reads_by_links_cannot_be_exchanged() {
    if !has_full_sandbox("folders around linked files") {
        return;
    }
    let table = [
        (
            "a folder around the target",
            "mkdir -p a/b; echo good > a/b/config; ln -s {project}/a/b/config {home}/.ssh/config",
            "mv a c; mkdir -p a/b; echo PWN > a/b/config",
            "a/b",
        ),
        (
            "a folder around a missing target",
            "mkdir a; ln -s {project}/a/b/config {home}/.ssh/config",
            "mkdir a/b; echo PWN > a/b/config",
            "a/b/config",
        ),
        (
            "git's settings of the user in a folder",
            "mkdir dot; git config -f dot/gitconfig user.name a; ln -s {project}/dot/gitconfig {home}/.gitconfig",
            "mv dot d2; mkdir dot; git config -f dot/gitconfig core.pager PWN",
            "dot",
        ),
        (
            "a link that leads through two others",
            "mkdir r; echo '{}' > r/m; ln -s r/m two; ln -s two one; mkdir -p {config}; ln -s {project}/one {config}/mcp.json",
            "mkdir e; echo PWN > e/m; ln -sfn e/m two",
            "two",
        ),
        (
            "a second name made later",
            "mkdir s; echo good > s/k; ln -s {project}/s/k {home}/.ssh/config",
            "ln s/k s/k2; echo PWN > s/k2; mv s/k s/old; echo PWN > s/k",
            "s/k",
        ),
        (
            "a target replaced through a descriptor of its folder",
            "echo good > k; ln -s {project}/k {home}/.ssh/config",
            "python3 -c \"import os; f=os.open('.', os.O_PATH); os.replace('k', 'k3', src_dir_fd=f, dst_dir_fd=f)\"; echo PWN > k",
            "k",
        ),
    ];
    let attacks = table.map(|(name, before, line, kept)| {
        Attack::confined(format!("around: {name}"), line).before(before).keeps(kept)
    });
    try_all(attacks.into()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn file_tools_reach_nothing_that_commands_do_not() {
    let table = [
        ("write_file", json!({"path": ".git/hooks/pre-commit", "content": "PWN"}), "true"),
        ("write_file", json!({"path": "src/../.git/config", "content": "PWN"}), "mkdir src"),
        ("write_file", json!({"path": "x", "content": "PWN"}), "ln -s {home}/.bashrc x"),
        (
            "write_file",
            json!({"path": "d/authorized_keys", "content": "PWN"}),
            "ln -s {home}/.ssh d",
        ),
        ("read_file", json!({"path": "/proc/self/environ"}), "true"),
        ("read_file", json!({"path": "/proc/self/root{home}/.netrc"}), "true"),
        ("read_file", json!({"path": "{home}/.ssh/../.netrc"}), "true"),
        ("grep", json!({"pattern": "canary", "path": "{home}/.aws"}), "true"),
        ("list_directory", json!({"path": "{home}/.ssh"}), "true"),
        ("read_file", json!({"path": "k"}), "ln -s {project}/k {home}/.ssh/id"),
        (
            "write_file",
            json!({"path": "k", "content": "PWN"}),
            "ln -s {project}/k {home}/.ssh/config",
        ),
        ("read_file", json!({"path": "k"}), "ln k {home}/.ssh/own"),
    ];
    let attacks = table.into_iter().map(|(tool, input, before)| {
        Attack::new(format!("tools: {tool} {input} after {before}"), "full-auto")
            .file("k", "text-of-a-linked-key")
            .before(before)
            .call(tool, input)
            .hides("text-of-a-linked-key")
            .fails()
    });
    try_all(attacks.collect()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_line_that_reads_outside_passes_as_a_read_of_listed_files() {
    let index =
        |names: &str| format!("{REPOSITORY}; {INDEX}python3 mkindex.py {names}; rm mkindex.py");
    let outside = || index("a.txt ../out/victim {out}/victim");
    let table = [
        ("an index that names files outside, by a pipe", outside(), "git ls-files | xargs cat"),
        (
            "an index that names files outside, in a loop",
            outside(),
            "for f in $(git ls-files); do cat \"$f\"; done",
        ),
        ("an index that names files outside, as arguments", outside(), "cat $(git ls-files)"),
        ("an index that names files outside, searched", outside(), "git grep -n ."),
        ("an index that names files outside, compared", outside(), "git diff"),
        (
            "a tracked link",
            format!("{REPOSITORY}; ln -s {{out}}/victim l; git add l"),
            "for f in $(git ls-files); do cat \"$f\"; done",
        ),
        (
            "a name with a blank",
            format!("{REPOSITORY}; mkdir -p 'src/x {{out}}'"),
            "for f in $(find src); do cat $f; done",
        ),
        (
            "a name with a pattern",
            format!("{REPOSITORY}; touch 'src/*'; echo k > src/.env"),
            "cat $(find src -name '*')",
        ),
        (
            "a name that is an option",
            format!("{REPOSITORY}; touch -- -ovictim; git add -A"),
            "sort $(git ls-files)",
        ),
        (
            "a folder that is an option",
            format!("{REPOSITORY}; mkdir -- '-f'; touch -- '-f/x'; git add -A"),
            "grep x $(git ls-files)",
        ),
        (
            "a loop that changes its variable",
            REPOSITORY.to_owned(),
            "for f in $(git ls-files); do f={out}/victim; cat \"$f\"; done",
        ),
        (
            "a loop with input of its own",
            REPOSITORY.to_owned(),
            "git ls-files | while read f; do cat \"$f\"; done < {out}/victim",
        ),
    ];
    let attacks = table.map(|(name, before, line)| {
        Attack::unapproved(format!("listed: {name}"), line).before(&before)
    });
    try_all(attacks.into()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_and_trust_leave_nothing_that_starts_later() {
    if !has_full_sandbox("jobs") {
        return;
    }
    let job = |line: &str| json!({"command": line, "run_in_background": true});
    let attacks = [
        Attack::new("job: a hook after the call", "full-auto")
            .call(
                "bash",
                job("sleep 1; printf '#!/bin/sh\\nPWN' > .git/hooks/pre-commit; sleep 30"),
            )
            .line("sleep 2"),
        Attack::new("job: settings through an open file", "full-auto")
            .call("bash", job("exec 3<.git/config; sleep 1; echo PWN > /proc/self/fd/3; sleep 30"))
            .line("sleep 2"),
        Attack::new("job: a link that moves while a tool writes", "full-auto")
            .call(
                "bash",
                job("while :; do rm -rf d; ln -s {home} d; rm d; mkdir d; sleep 0.001; done"),
            )
            .call("write_file", json!({"path": "d/.bashrc", "content": "x"}))
            .call("write_file", json!({"path": "d/.profile", "content": "x"})),
        Attack::new("job: all processes are killed", "full-auto")
            .call("bash", job("printf PWN > .envrc; kill -9 -1"))
            .line("printf PWN > .mcp.json; kill -9 -1")
            .line("true"),
        Attack::new("trust: settings of the project", "full-auto")
            .line("mkdir -p .crow-agent; echo PWN > .crow-agent/config.toml"),
        Attack::new("trust: settings behind a link", "full-auto")
            .line("mkdir -p evil; echo PWN > evil/config.toml; ln -s evil .crow-agent"),
        Attack::new("trust: a link to a server's settings", "full-auto")
            .line("echo PWN > x.json; ln -s x.json .mcp.json"),
        Attack::new("network: sockets of the host", "full-auto").line(
            "(exec 3<>/dev/tcp/127.0.0.1/{tcp}); (exec 3<>/dev/udp/127.0.0.1/{udp} && echo x >&3); \
             python3 -c \"import socket; socket.socket(socket.AF_UNIX).connect('{out}/socket')\"; \
             python3 -c \"import socket; socket.socket(socket.AF_UNIX).connect('\\0{mark}')\"; git ls-remote git://127.0.0.1:{tcp}/x; true",
        ),
    ];
    try_all(attacks.into()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everyday_work_needs_no_question() {
    if !has_full_sandbox("everyday work") {
        return;
    }
    let reads = [
        "wc -l $(git ls-files)",
        "for f in $(git ls-files src); do echo \"== $f\"; head -3 \"$f\"; done",
        "git ls-files | while read -r f; do wc -c \"$f\"; done",
        "find src -name '*.txt' | sort | while IFS= read -r f; do sed -n 1p \"$f\"; done",
        "grep -n two $(git grep -l two)",
        "git ls-files | xargs wc -l",
        "git log --oneline -3 && git diff HEAD~1 --stat",
    ];
    let works = [
        "echo x > notes.txt; git add notes.txt; git commit -qm notes",
        "git checkout -q -b topic; git checkout -q main; git merge -q topic",
        "mkdir -p b/c; cp -r src b/c/; mv b d; rm -r d",
        "tar czf /tmp/x.tgz src; tar tzf /tmp/x.tgz",
        "mkfifo p; (echo hello > p &); cat p; rm p",
        "echo y >> a.txt; git stash -q; git stash pop -q",
        "python3 -c \"import tempfile; print(tempfile.mkdtemp())\"",
    ];
    let dotfiles = "mkdir ssh; echo 'Host *' > ssh/config; git add -A; git commit -qm dot; ln -sf {project}/ssh/config {home}/.ssh/config";
    let cases = reads
        .iter()
        .map(|line| Attack::works(format!("reads: {line}"), "ask").before(REPOSITORY).line(line))
        .chain(works.iter().map(|line| {
            Attack::works(format!("works: {line}"), "full-auto").before(REPOSITORY).line(line)
        }))
        .chain([
            Attack::works("works: notes in a repository of dotfiles", "full-auto")
                .before(REPOSITORY)
                .before(dotfiles)
                .line("echo x > notes; git add notes; git commit -qm notes"),
            Attack::works("reads: a repository of dotfiles", "ask")
                .before(REPOSITORY)
                .before(dotfiles)
                .line("git status --short; cat a.txt")
                .call("grep", json!({"pattern": "one"})),
        ]);
    try_all(cases.collect()).await;
}
