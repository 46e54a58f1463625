//! Attacks where no namespaces can be created: Landlock, seccomp and the checks of the program are what is left.

use serde_json::json;

use crate::{
    attack::Attack,
    trial_runner::{has_partial_sandbox, try_all},
};

/// Python that makes system calls (numbers of x86-64) on a file outside, by path, by descriptor and through `/proc`.
const METADATA: &str = r"python3 - {out} <<'E'
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
out = sys.argv[1].encode()
path = out + b'/victim'
opened, pathonly, folder = os.open(path, os.O_RDONLY), os.open(path, os.O_PATH), os.open(out, os.O_RDONLY | os.O_DIRECTORY)
names = [path, b'/proc/self/fd/%d' % opened, b'/proc/self/fd/%d' % pathonly, b'/proc/thread-self/fd/%d' % opened,
         b'/dev/fd/%d' % opened, b'/proc/self/root' + path, b'/proc/self/fd/%d/victim' % folder, b'../out/victim', b'link']
os.symlink(path, 'link')
times = (ctypes.c_long * 4)(1, 0, 1, 0)
one = ctypes.create_string_buffer(b'1')
attribute = (ctypes.c_uint64 * 2)(ctypes.addressof(one), 1)
def call(number, *arguments):
    if libc.syscall(number, *arguments) >= 0:
        print('SUCCEEDED', number, arguments)
for name in names:
    call(90, name, 0o777); call(268, -100, name, 0o777); call(452, -100, name, 0o777, 0); call(452, -100, name, 0o777, 0x100)
    call(92, name, os.getuid(), os.getgid()); call(94, name, os.getuid(), os.getgid()); call(260, -100, name, os.getuid(), os.getgid(), 0)
    call(132, name, None); call(235, name, times); call(261, -100, name, times); call(280, -100, name, times, 0)
    call(188, name, b'user.x', one, 1, 0); call(189, name, b'user.x', one, 1, 0); call(197, name, b'user.x')
    call(463, -100, name, 0, b'user.x', attribute, 16); call(466, -100, name, 0, b'user.x')
    call(76, name, 0)
for descriptor in (opened, pathonly):
    call(91, descriptor, 0o777); call(452, descriptor, b'', 0o777, 0x1000); call(93, descriptor, os.getuid(), os.getgid())
    call(260, descriptor, b'', os.getuid(), os.getgid(), 0x1000); call(280, descriptor, None, times, 0); call(280, descriptor, b'', times, 0x1000)
    call(190, descriptor, b'user.x', one, 1, 0); call(463, descriptor, b'', 0x1000, b'user.x', attribute, 16)
    call(77, descriptor, 0); call(265, descriptor, b'', -100, b'second', 0x1000)
    flags = ctypes.c_long(0x40); call(16, descriptor, 0x40086602, ctypes.byref(flags)); call(16, descriptor, 0x40087602, ctypes.byref(flags))
for number in (82, 86, 87):
    call(number, path, b'second')
E";
/// Python that makes system calls (numbers of x86-64) on a process of the user, given as its argument.
const PROCESS: &str = r"import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
target = int(sys.argv[1])
buffer = ctypes.create_string_buffer(4096)
def call(name, number, *arguments):
    if libc.syscall(number, *arguments) >= 0:
        print('SUCCEEDED', name)
for signal in (0, 10):
    call('kill', 62, target, signal); call('tkill', 200, target, signal); call('tgkill', 234, target, target, signal)
handle = libc.syscall(434, target, 0)
call('pidfd_send_signal', 424, handle, 10, None, 0); call('pidfd_getfd', 438, handle, 0, 0)
call('ptrace', 101, 0x4206, target, 0, 0); call('kcmp', 312, target, target, 0, 0, 0)
vector = (ctypes.c_uint64 * 2)(ctypes.addressof(buffer), 8)
call('process_vm_readv', 310, target, vector, 1, vector, 1, 0); call('process_vm_writev', 311, target, vector, 1, vector, 1, 0)
call('perf_event_open', 298, buffer, target, -1, -1, 0)
for name in ('environ', 'mem', 'maps', 'cwd', 'root', 'auxv'):
    try: open(f'/proc/{target}/{name}', 'rb').read(1); print('SUCCEEDED', name)
    except IsADirectoryError: print('SUCCEEDED', name)
    except OSError: pass
for name in ('oom_score_adj', 'mem', 'comm', 'clear_refs', 'coredump_filter', 'timerslack_ns'):
    try: open(f'/proc/{target}/{name}', 'wb'); print('SUCCEEDED', name)
    except OSError: pass
";
/// Python in which threads exchange a folder with a link, a path with another, and a descriptor with another, during calls
/// that a supervisor decides on.
const RACE: &str = r"python3 - {out} <<'E'
import ctypes, os, sys, threading, time
libc = ctypes.CDLL(None)
out = sys.argv[1].encode()
os.mkdir('d'); open('d/victim', 'w').close(); os.symlink(out, 'l')
inside, outside = b'd/victim'.ljust(255, b'\0'), (out + b'/victim').ljust(255, b'\0')
path = ctypes.create_string_buffer(256)
end = time.time() + 6
good, bad = os.open('d/victim', os.O_RDONLY), os.open(out + b'/victim', os.O_RDONLY)
def exchange():
    while time.time() < end: libc.renameat2(-100, b'd', -100, b'l', 2)
def rewrite():
    while time.time() < end: path[:255] = inside; path[:255] = outside
def reopen():
    while time.time() < end: os.dup2(good, 77); os.dup2(bad, 77)
threads = [threading.Thread(target=work) for work in (exchange, rewrite, reopen)]
for thread in threads: thread.start()
times = (ctypes.c_long * 4)(1, 0, 1, 0)
while time.time() < end:
    for name in (path, b'd/victim', b'l/victim'):
        libc.chmod(name, 0o777); libc.utimensat(-100, name, times, 0); libc.setxattr(name, b'user.x', b'1', 1, 0)
    libc.fchmod(77, 0o777); libc.futimens(77, times); libc.fsetxattr(77, b'user.x', b'1', 1, 0); libc.chmod(b'/proc/self/fd/77', 0o777)
for thread in threads: thread.join()
E";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_namespaces_nothing_outside_is_changed_or_read() {
    if !has_partial_sandbox("commands without namespaces") {
        return;
    }
    let confined = |name: &str, line: &str| {
        Attack::confined(format!("partial: {name}"), line).without_namespaces().hides("SUCCEEDED [")
    };
    let mut cases = vec![
        confined("metadata of a file outside", METADATA),
        confined("a race of names and descriptors", RACE),
        confined(
            "a hidden file in every spelling",
            "for p in {home}/.ssh/id_ed25519 {home}/./.ssh//id_ed25519 /proc/self/root{home}/.ssh/id_ed25519 /proc/self/cwd/../home/.ssh/id_ed25519; do cat $p; done 2>/dev/null; (cd {home} && cat .netrc; cat .aws/*); ln -s {home}/.ssh s; cat s/*",
        ),
        confined(
            "a second name of a hidden file",
            "ln {home}/.netrc n; ln {home}/.ssh/id_ed25519 k; cp -l {home}/.netrc m; mv {home}/.netrc o; cat n k m o",
        ),
        confined(
            "files of the home",
            "for f in .bashrc .profile .config/x .local/share/y .ssh/authorized_keys; do echo PWN >> {home}/$f; done; mkdir {home}/d; ln -s x {home}/l; rm -rf {home}/.ssh {home}/.netrc",
        ),
        confined(
            "files outside",
            "echo PWN > {out}/victim; : > {out}/victim; truncate -s 0 {out}/victim; rm {out}/victim; mv {out}/victim v; mv a.x {out}/; mkfifo {out}/p; mkdir {out}/d; ln {out}/victim v2; ln -s x {out}/l; python3 -c \"import os; os.open('{out}', os.O_TMPFILE | os.O_RDWR)\"",
        ),
        confined(
            "sockets",
            "(exec 3<>/dev/tcp/127.0.0.1/{tcp}); (echo x > /dev/udp/127.0.0.1/{udp}); for a in '{out}/socket' '\\0{mark}'; do python3 -c \"import socket; socket.socket(socket.AF_UNIX).connect('$a')\"; done",
        ),
        confined(
            "memory of another process",
            "tr '\\0' '\\n' < /proc/$PPID/environ; cat /proc/*/environ; gdb -p $PPID -batch; dd if=/proc/$PPID/mem bs=1 count=1",
        ),
        confined(
            "shared memory in files",
            "echo PWN > /dev/shm/{mark}; mkdir /dev/mqueue/{mark}; echo PWN > /dev/mqueue/{mark}",
        )
        .absent(&["/dev/shm", "/dev/mqueue"]),
        confined(
            "the system's folders for temporary files",
            "for d in /tmp /var/tmp /run /run/lock; do echo PWN > $d/{mark}; done",
        )
        .absent(&["/var/tmp", "/run", "/run/lock"]),
        confined(
            "the program is killed",
            "kill -9 $PPID; kill -TERM $PPID; kill -STOP $PPID; python3 -c \"import os, signal; signal.pidfd_send_signal(os.pidfd_open(os.getppid()), 0)\" 2>/dev/null; sleep 0.2",
        ),
        confined(
            "processes that stay",
            "(setsid nohup sh -c 'sleep 300; : {mark}' >/dev/null 2>&1 &); (trap '' TERM INT HUP; setsid sleep 300 {mark} &) 2>/dev/null",
        ),
        confined(
            "namespaces after all",
            "unshare -Ur true; unshare -m true; python3 -c \"import ctypes; c = ctypes.CDLL(None); [print('SUCC' + 'EEDED [', f) for f in (1<<28, 1<<17, 1<<29, 1<<30, 1<<26, 1<<27) if c.unshare(f) == 0]\"",
        ),
    ];
    for mode in ["ask", "accept-edits", "read-only"] {
        let case = |line: &str| {
            Attack::new(format!("partial, {mode}: {line}"), mode)
                .without_namespaces()
                .line(line)
                .refused()
        };
        cases.extend(
            [
                "chmod 777 README",
                "touch -d 2001-01-01 README",
                "git -c core.fsmonitor='touch x' status",
                "cat {out}/victim",
                "cat {home}/.netrc",
                "echo x > README",
            ]
            .map(case),
        );
    }
    try_all(cases).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_namespaces_other_processes_are_not_reached() {
    if !has_partial_sandbox("processes without namespaces") {
        return;
    }
    let case = Attack::confined("partial: a process of the user", "python3 process.py $(cat pid)")
        .without_namespaces()
        .file("process.py", PROCESS)
        .before("sleep 40 >/dev/null 2>&1 & echo $! > pid")
        .after("kill -0 $(cat pid); kill $(cat pid)")
        .hides("SUCCEEDED environ")
        .hides("SUCCEEDED kill")
        .hides("SUCCEEDED mem")
        .hides("SUCCEEDED p")
        .hides("SUCCEEDED t")
        .hides("SUCCEEDED oom_score_adj");
    try_all(vec![case]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_namespaces_protected_files_are_put_back_after_the_command() {
    if !has_partial_sandbox("protected files without namespaces") {
        return;
    }
    let plants = [
        (
            "a hook",
            "printf '#!/bin/sh\\ntouch {out}/pwned\\n' > .git/hooks/post-commit; chmod +x .git/hooks/post-commit; printf '#!/bin/sh\\ntouch {out}/pwned\\n' > x; chmod +x x; mv x .git/hooks/pre-commit",
        ),
        ("settings", "printf '[core]\\n\\tfsmonitor = touch {out}/pwned; false\\n' >> .git/config"),
        (
            "settings by a rename",
            "sed 's,.core.,[core]\\n\\tfsmonitor = touch {out}/pwned,' .git/config > c; mv c .git/config",
        ),
        (
            "a common directory",
            "cp -r .git e; git config -f e/config core.fsmonitor 'touch {out}/pwned; false'; echo ../e > .git/commondir",
        ),
        (
            "a repository that is a link",
            "cp -r .git e; printf '[core]\\n\\tfsmonitor = touch {out}/pwned; false\\n' >> e/config; mv .git g; ln -s e .git",
        ),
        (
            "a file in place of the repository",
            "cp -r .git e; printf '[core]\\n\\tfsmonitor = touch {out}/pwned; false\\n' >> e/config; mv .git g; echo 'gitdir: e' > .git",
        ),
        (
            "a detached process",
            "(setsid sh -c 'while :; do printf \"#!/bin/sh\\ntouch {out}/pwned\\n\" > .git/hooks/post-commit; chmod +x .git/hooks/post-commit; done' >/dev/null 2>&1 &)",
        ),
        (
            "files in turn",
            "for i in 1 2 3 4 5 6 7 8; do printf '#!/bin/sh\\ntouch {out}/pwned\\n' > .git/hooks/post-commit; chmod +x .git/hooks/post-commit; sleep 0.2; done",
        ),
    ];
    let cases = plants.into_iter().map(|(name, line)| {
        Attack::new(format!("partial: {name}"), "full-auto")
            .without_namespaces()
            .before("rm -rf .git; git init -q -b main .; git config user.email a@b.invalid; git config user.name a; echo x > a.x; git add -A; git commit -qm x")
            .line(line)
            .after("set +e; for c in status diff 'add -A' 'commit -qm z --allow-empty' 'checkout -q -b t'; do timeout 9 git $c >/dev/null 2>&1; done; true")
    });
    let jobs = [
        (
            "a job",
            "sleep 0.3; printf '#!/bin/sh\\ntouch {out}/pwned\\n' > .git/hooks/post-commit; chmod +x .git/hooks/post-commit; sleep 60",
        ),
        (
            "a job that repeats",
            "while :; do echo PWN > .envrc; mkdir -p .vscode; echo PWN > .vscode/tasks.json; sleep 0.01; done",
        ),
    ];
    let jobs = jobs.into_iter().map(|(name, line)| {
        Attack::new(format!("partial: {name}"), "full-auto")
            .without_namespaces()
            .call("bash", json!({"command": line, "run_in_background": true}))
            .line("sleep 1")
            .after("git status >/dev/null 2>&1; git commit -qm z --allow-empty >/dev/null 2>&1 || true; ! grep -rqs PWN .envrc .vscode")
    });
    try_all(cases.chain(jobs).collect()).await;
}
