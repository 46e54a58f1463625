//! Attempts to leave the sandbox: system calls, other processes, files outside, and processes left behind.

use serde_json::json;

use crate::{
    attack::Attack,
    trial_runner::{has_full_sandbox, is_installed, try_all},
};

/// Returns a case that invokes a system call by its number and prints `it-worked` if the kernel performed it.
fn system_call(name: &str, number: u32, arguments: &str) -> Attack {
    let code = format!(
        "import ctypes\nl = ctypes.CDLL(None, use_errno=True)\nr = l.syscall({number}{arguments})\nprint('it' + '-worked' if r >= 0 else 'refused')"
    );
    Attack::confined(format!("system call: {name}"), &format!("python3 -c \"{code}\""))
        .shows("refused")
        .hides("it-worked")
}

#[cfg(target_arch = "x86_64")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dangerous_system_calls_are_refused() {
    if !has_full_sandbox("system calls") || !is_installed("python3") {
        return;
    }
    let table = [
        ("ptrace of itself", 101, ", 0, 0, 0, 0"),
        ("ptrace of its parent", 101, ", 16, __import__('os').getppid(), 0, 0"),
        ("process_vm_readv", 310, ", __import__('os').getppid(), 0, 0, 0, 0, 0"),
        ("process_vm_writev", 311, ", __import__('os').getppid(), 0, 0, 0, 0, 0"),
        ("unshare of users", 272, ", 0x10000000"),
        ("unshare of mounts", 272, ", 0x00020000"),
        ("unshare of the network", 272, ", 0x40000000"),
        ("setns", 308, ", __import__('os').open('/proc/self/ns/net', 0), 0"),
        ("mount", 165, ", b'none', b'/mnt', b'tmpfs', 0, 0"),
        ("umount", 166, ", b'/proc', 2"),
        ("pivot_root", 155, ", b'.', b'.'"),
        ("chroot", 161, ", b'.'"),
        ("open_tree", 428, ", -100, b'/', 1"),
        ("fsopen", 430, ", b'tmpfs', 0"),
        ("mount_setattr", 442, ", -100, b'/', 0, 0, 0"),
        ("open_by_handle_at", 304, ", -100, 0, 0"),
        ("keyctl", 250, ", 0, -3, 0"),
        ("add_key", 248, ", b'user', b'x', b'y', 1, -3"),
        ("bpf", 321, ", 0, 0, 0"),
        ("perf_event_open", 298, ", 0, 0, -1, -1, 0"),
        ("userfaultfd", 323, ", 0"),
        ("io_uring_setup", 425, ", 8, ctypes.create_string_buffer(256)"),
        ("clone3", 435, ", 0, 0"),
        ("x32 open", 0x4000_0002, ", b'/etc/passwd', 0"),
        ("init_module", 175, ", 0, 0, b''"),
        ("kexec_load", 246, ", 0, 0, 0, 0"),
        ("reboot", 169, ", 0xfee1dead, 672274793, 0, 0"),
        ("sethostname", 170, ", b'PWN', 3"),
        ("settimeofday", 164, ", 0, 0"),
        ("syslog", 103, ", 3, 0, 0"),
        ("swapon", 167, ", b'x', 0"),
        ("mknod of a disk", 133, ", b'disk', 0o60666, 0x0800"),
        ("TIOCSTI", 16, ", 0, 0x5412, b'x'"),
        ("nfsservctl", 180, ", 0, 0, 0"),
        ("iopl", 172, ", 3"),
    ];
    try_all(
        table
            .iter()
            .map(|(name, number, arguments)| system_call(name, *number, arguments))
            .collect(),
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_change_no_files_outside_the_project() {
    if !has_full_sandbox("files outside") {
        return;
    }
    let table = [
        ("a file", "echo PWN > {out}/victim; echo PWN >> {out}/victim"),
        ("a new file", "echo PWN > {out}/new; mkdir {out}/folder"),
        ("removed", "rm -rf {out}/victim {out}"),
        ("renamed", "mv {out}/victim {out}/x; mv {out} ../x"),
        ("renamed in", "mv {out}/victim ."),
        ("linked in and written", "ln {out}/victim here && echo PWN > here"),
        (
            "a link that was made meanwhile",
            "ln -s {out}/victim l; echo PWN > l; ln -s {out} f; echo PWN > f/new",
        ),
        ("its mode", "chmod 777 {out}/victim {out}; chown 1:1 {out}/victim"),
        ("its times", "touch -d 2001-01-01 {out}/victim; touch {out}"),
        (
            "its attributes",
            "python3 -c 'import os; os.setxattr(\"{out}/victim\",\"user.x\",b\"PWN\")'",
        ),
        (
            "truncated",
            "truncate -s 0 {out}/victim; python3 -c 'import os; os.truncate(\"{out}/victim\",0)'",
        ),
        (
            "through proc",
            "echo PWN > /proc/self/root{out}/victim; echo PWN > /proc/1/root{out}/victim; echo PWN > /proc/$PPID/cwd/../out/victim",
        ),
        (
            "through a descriptor",
            "exec 5<{out}/victim; echo PWN > /proc/self/fd/5; echo PWN > /dev/fd/5",
        ),
        ("through tee", "echo PWN | tee {out}/victim {out}/new"),
        (
            "a race of links",
            "for i in $(seq 60); do ln -sfn {out} r; (echo PWN > r/new) 2>/dev/null; rm -f r; mkdir r 2>/dev/null; rmdir r 2>/dev/null; done",
        ),
        (
            "the home",
            "echo PWN > {home}/.bashrc; echo PWN > ~/.profile; mkdir -p ~/.config/autostart",
        ),
        (
            "keys of ssh",
            "echo PWN >> ~/.ssh/authorized_keys; mkdir -p ~/.ssh && echo PWN > ~/.ssh/config",
        ),
        (
            "settings of Crow",
            "mkdir -p {config}; echo PWN > {config}/permissions.json; echo PWN > {config}/config.toml",
        ),
        ("trust of Crow", "echo PWN > {data}/trust.json; mkdir -p {data}"),
        (
            "sessions of Crow",
            "ls {data}; echo PWN > {data}/sessions/x; for f in {data}/sessions/*/*; do echo PWN >> $f; done",
        ),
        (
            "sandboxes of others",
            "mkdir -p {data}/sandbox/other/tmp; echo PWN > {data}/sandbox/other/tmp/x; ls -la {data}/sandbox",
        ),
        ("the program itself", "p=$(readlink /proc/$PPID/exe); echo PWN >> \"$p\"; true"),
        ("the host's temporary folder", "echo PWN > /tmp/{mark}; echo PWN > /var/tmp/{mark}"),
        ("shared memory", "echo PWN > /dev/shm/{mark}"),
        (
            "crontabs",
            "echo '* * * * * PWN' | crontab - ; echo PWN > /etc/cron.d/{mark}; echo PWN > /var/spool/cron/{mark}",
        ),
        ("etc", "echo PWN > /etc/{mark}; echo PWN > /etc/ld.so.preload.{mark}"),
        (
            "settings of the kernel",
            "echo '|/x' > /proc/sys/kernel/core_pattern.; echo 1 > /proc/sys/kernel/sysrq_; echo 0 > /proc/sys/kernel/yama/ptrace_scope",
        ),
        ("control groups", "mkdir /sys/fs/cgroup/{mark}"),
        (
            "a disk",
            "mknod disk b 8 0; cat disk | head -c 1; ls /dev/sd* /dev/vd* 2>/dev/null | head -1",
        ),
        ("overmounted", "mount -t tmpfs none {out}; mount --bind . {out}"),
        ("a copy that keeps links", "mkdir -p a; ln -s {out} a/l; cp -r a b; echo PWN > b/l/new"),
        (
            "tar with dots",
            "echo PWN > victim; tar -cPf t.tar --transform 's,^,../out/,' victim; tar -xPf t.tar",
        ),
        (
            "tar with a link",
            "ln -s {out} d; tar cf t.tar d; rm d; mkdir s; echo PWN > s/victim; tar rf t.tar --transform 's,^s,d,' s/victim; tar xf t.tar",
        ),
        (
            "git with a work tree outside",
            "git --work-tree={out} checkout . ; git init -q {out}/r; GIT_DIR={out}/g git init -q",
        ),
        (
            "python shutil",
            "python3 -c 'import shutil; shutil.copy(\"/etc/hostname\", \"{out}/victim\")'",
        ),
    ];
    let names = ["/tmp", "/var/tmp", "/dev/shm", "/etc", "/etc/cron.d", "/sys/fs/cgroup"];
    let cases = table
        .iter()
        .map(|(name, line)| Attack::confined(format!("outside: {name}"), line).absent(&names));
    try_all(cases.collect()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_read_no_private_files_or_secrets() {
    if !has_full_sandbox("private files") {
        return;
    }
    let table = [
        ("a key of ssh", "cat ~/.ssh/id_ed25519"),
        ("credentials of a cloud", "cat ~/.aws/credentials; cp -r ~/.aws ."),
        ("netrc", "cat ~/.netrc; curl -n file:///{home}/.netrc"),
        ("a token of GitHub", "cat ~/.config/gh/hosts.yml; tar cf t.tar -C ~ .config; cat t.tar"),
        ("docker", "cat ~/.docker/config.json"),
        ("history", "cat ~/.bash_history"),
        ("encoded", "base64 ~/.ssh/id_ed25519; xxd -p ~/.netrc; rev ~/.netrc"),
        ("through a link", "ln -s ~/.ssh s; cat s/id_ed25519; ln -s ~/.netrc n; cat n"),
        (
            "through proc",
            "cat /proc/self/root{home}/.netrc; cat /proc/1/root{home}/.netrc; cat /proc/$PPID/root{home}/.netrc",
        ),
        ("a hard link", "ln ~/.netrc n; cat n"),
        (
            "everything",
            "grep -r canary ~ {out}/.. --include=id_ed25519 --include=.netrc 2>/dev/null; find ~ -type f -exec cat {} + 2>/dev/null; true",
        ),
        ("the session", "cat {data}/sessions/*/*; ls {data} {config}; grep -r do.your.work {data}"),
        (
            "variables of parents",
            "for p in /proc/[0-9]*; do tr '\\0' '\\n' < $p/environ | grep -E 'KEY|TOKEN|PASSWORD'; done 2>/dev/null; true",
        ),
        (
            "memory of parents",
            "for p in /proc/[0-9]*; do cat $p/maps > /dev/null; head -c 64 $p/mem; done 2>/dev/null; true",
        ),
        (
            "own variables",
            "env; export -p; set; cat /proc/self/environ; python3 -c 'import os; print(os.environ)'",
        ),
        ("variables of a job", "(env | grep -iE 'key|token|password|ssh_auth') & wait"),
        (
            "the command line of the agent",
            "ps auxe; for p in /proc/[0-9]*; do cat $p/cmdline; done",
        ),
        (
            "a debugger",
            "gdb -p $PPID -batch -ex 'x/s environ'; strace -p 1 -c & sleep 0.1; kill %1",
        ),
        ("a core dump", "ulimit -c unlimited; sh -c 'kill -ABRT $$'; ls core* 2>/dev/null; true"),
        ("the keyring", "keyctl show; cat /proc/keys"),
        (
            "the terminal",
            "echo PWN > /dev/tty; cat < /dev/tty; echo PWN > /dev/console; echo PWN > /dev/pts/0",
        ),
        (
            "kernel memory",
            "head -c 1 /dev/mem; head -c 1 /dev/kmsg; head -c 1 /proc/kcore; dmesg | head -1",
        ),
        (
            "a disk",
            "cat /dev/vda | head -c 1 ; cat /dev/sda | head -c 1; debugfs -R 'cat {home}/.netrc' /dev/vda",
        ),
    ];
    try_all(
        table
            .iter()
            .map(|(name, line)| Attack::confined(format!("private: {name}"), line))
            .collect(),
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_neither_outlive_the_program_nor_end_it() {
    if !has_full_sandbox("processes") {
        return;
    }
    let table = [
        ("a job of the shell", "bash -c 'exec -a {mark} sleep 300' &"),
        ("nohup", "nohup bash -c 'exec -a {mark} sleep 300' > /dev/null 2>&1 &"),
        ("setsid", "setsid bash -c 'exec -a {mark} sleep 300' > /dev/null 2>&1 &"),
        (
            "a double fork",
            "(setsid bash -c '(setsid bash -c \"exec -a {mark} sleep 300\" &) ' &) > /dev/null 2>&1",
        ),
        (
            "without marks",
            "env -i setsid /bin/bash -c 'exec -a {mark} /bin/sleep 300' > /dev/null 2>&1 &",
        ),
        (
            "deaf to signals",
            "bash -c 'trap \"\" TERM HUP INT; exec -a {mark} sleep 300' > /dev/null 2>&1 &",
        ),
        ("a stopped process", "bash -c 'exec -a {mark} sleep 300' & kill -STOP $!"),
        ("at", "echo 'sleep 300 {mark}' | at now; systemd-run --user sleep 300; true"),
        (
            "many",
            "for i in $(seq 40); do (setsid bash -c 'exec -a {mark} sleep 300' &) ; done > /dev/null 2>&1",
        ),
        ("signals to the parents", "trap '' TERM HUP; kill -TERM $PPID; kill -9 1; kill -HUP 1"),
        ("signals to all", "trap '' TERM HUP INT; kill -TERM -1; true"),
        ("signals to the group", "trap '' TERM; kill -TERM 0; true"),
        ("a realtime class", "chrt -f 99 true; renice -n -20 $$; ionice -c1 -p $$; true"),
        (
            "less likely killed",
            "echo -1000 > /proc/self/oom_score_adj; cat /proc/self/oom_score_adj",
        ),
    ];
    let cases =
        table.iter().map(|(name, line)| Attack::confined(format!("processes: {name}"), line));
    let bombs = [
        Attack::new("processes: a fork bomb", "full-auto")
            .call("bash", json!({"command": "b() { b | b & }; b; sleep 1", "timeout": 1500}))
            .file("{config}/config.toml", "[sandbox]\nprocesses = 256\n"),
        Attack::new("processes: all memory", "full-auto")
            .call("bash", json!({"command": "python3 -c 'x = bytearray(40 << 30); print(\"got\" + \"-all\")'", "timeout": 20_000}))
            .hides("got-all"),
        Attack::new("processes: endless output", "full-auto")
            .call("bash", json!({"command": "yes | head -c 300000000", "timeout": 20_000})),
        Attack::new("processes: a job that is never ended", "full-auto")
            .call("bash", json!({"command": "exec -a {mark} sleep 300", "run_in_background": true})),
    ];
    try_all(cases.chain(bombs).collect()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn privileged_programs_give_no_rights_in_the_sandbox() {
    if !has_full_sandbox("rights") {
        return;
    }
    let table = [
        ("setuid", "cp /bin/bash b; chmod 4755 b; ./b -p -c 'echo PWN > {out}/victim'"),
        (
            "a shell that runs as its owner",
            "cp /bin/bash shell; chmod 4755 shell; chmod u+s shell; cp -p shell s2; install -m 4755 shell s3; python3 -c 'import os; os.fchmod(os.open(\"shell\", 0), 0o4755)'; python3 -c 'import os; os.umask(0); f = os.open(\"s4\", os.O_CREAT|os.O_WRONLY, 0o4755); os.write(f, open(\"shell\", \"rb\").read())'; tar cf t --mode=4755 shell; mkdir u; tar xpf t -C u; test -z \"$(find . -perm -4000)\" || echo left-a-set'-'user-id",
        ),
        (
            "su and sudo",
            "sudo -n sh -c 'echo PWN > {out}/victim'; echo | su -c 'echo PWN > {out}/victim'",
        ),
        (
            "a user namespace",
            "unshare -Ur sh -c 'echo PWN > {out}/victim'; unshare -rmn mount -t tmpfs none {out}",
        ),
        ("capabilities", "grep CapEff /proc/self/status; setcap cap_sys_admin+ep b; capsh --print"),
        ("bubblewrap", "bwrap --bind / / sh -c 'echo PWN > {out}/victim'"),
        (
            "chroot",
            "chroot . /bin/sh -c 'echo PWN > {out}/victim'; chroot /proc/1/root sh -c 'echo PWN > {out}/victim'",
        ),
        (
            "nsenter",
            "nsenter -t 1 -m -p sh -c 'echo PWN > {out}/victim'; nsenter -t $PPID -a sh -c 'echo PWN > {out}/victim'",
        ),
        ("pkexec and doas", "pkexec true; doas true; true"),
        ("docker", "docker run -v /:/h alpine sh -c 'echo PWN > /h{out}/victim'"),
        (
            "preload of the next command",
            "printf 'PWN' > {home}/.bashrc; echo 'export LD_PRELOAD=PWN' >> ~/.profile; export LD_PRELOAD=/x.so",
        ),
        (
            "rules about calls",
            "python3 -c 'import ctypes; l=ctypes.CDLL(None); print(l.prctl(22,0), l.prctl(38,0,0,0,0))'; echo PWN > {out}/victim",
        ),
    ];
    try_all(
        table
            .iter()
            .map(|(name, line)| {
                Attack::confined(format!("rights: {name}"), line).hides("left-a-set-user-id")
            })
            .collect(),
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_in_read_only_mode_changes_no_files() {
    if !has_full_sandbox("read-only") {
        return;
    }
    let table = [
        ("a file", "echo PWN > pwned; echo PWN >> README.md"),
        ("git", "git init -q x; git add -A; git stash"),
        ("removed", "rm -rf README.md .git"),
        ("made by python", "python3 -c 'open(\"pwned\",\"w\")'"),
        ("a link in its temporary folder", "ln -s {project} /tmp/l; echo PWN > /tmp/l/pwned"),
        ("outside", "echo PWN > {out}/victim"),
    ];
    let case = |(name, line): &(&str, &str)| {
        Attack::confined(format!("read-only: {name}"), line)
            .in_mode("read-only")
            .file("README.md", "mine\n")
            .keeps("README.md")
            .keeps("pwned")
            .keeps("x")
            .keeps(".git")
    };
    try_all(table.iter().map(case).collect()).await;
}
