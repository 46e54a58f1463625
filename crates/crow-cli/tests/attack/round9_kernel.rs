//! Doors of the kernel that earlier rounds left out: signals by descriptors, priorities of groups and users, new system calls,
//! address families, devices, kernel settings, descriptors and folders of other processes, and mounts inside the project.

use crate::{
    attack::Attack,
    round8_killed::kernels,
    scene::Kernel,
    trial_runner::{has_partial_sandbox, is_installed, try_all},
};

/// Python that opens sockets of all families but the usual ones.
const FAMILIES: &str = "import socket
for family in range(1, 46):
    if family in (1, 2, 10, 16): continue
    for kind in (1, 2, 3, 5, 0x800):
        try: socket.socket(family, kind, 0); print('OPENED', 'family', family, kind)
        except OSError: pass
for protocol in range(1, 24):
    try: socket.socket(16, 3, protocol).bind((0, 0xffffffff)); print('OPENED', 'netlink', protocol)
    except OSError: pass
";
/// Python that opens devices and settings of the kernel for writing.
const DEVICES: &str = "import os
known = ('watchdog', 'watchdog0', 'null', 'zero', 'full', 'random', 'urandom', 'tty', 'ptmx', 'stdin', 'stdout', 'stderr')
for folder, folders, names in os.walk('/dev'):
    folders[:] = [name for name in folders if name not in ('shm', 'mqueue', 'pts', 'fd')]
    for name in names:
        if name in known: continue
        for flags in (os.O_RDWR, os.O_RDONLY):
            try: os.close(os.open(f'{folder}/{name}', flags | os.O_NONBLOCK)); print('OPENED', folder, name, flags)
            except OSError: pass
places = ['/proc/sys/kernel', '/proc/sys/vm', '/proc/sys/fs', '/proc/sys/user', '/proc/sys/dev', '/proc/irq', '/proc/bus', '/proc/acpi', '/proc/driver', '/proc/fs', '/proc/scsi',
          '/sys/kernel', '/sys/power', '/sys/fs', '/sys/module', '/sys/firmware']
found = ['/proc/sysrq-trigger', '/proc/kcore', '/proc/kmsg', '/proc/mtrr', '/proc/timer_list', '/proc/sched_debug', '/proc/keys']
for place in places:
    for folder, folders, names in os.walk(place):
        found += [f'{folder}/{name}' for name in names]
for path in found[:60000]:
    try: os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK)); print('OPENED', 'setting', path)
    except OSError: pass
";
/// Python that looks for descriptors of the program and its helpers, by which files outside could be opened.
const DESCRIPTORS: &str = "import os, stat, sys
def judge(path, what):
    try: seen = os.stat(path)
    except OSError: return
    if stat.S_ISDIR(seen.st_mode):
        for name in (sys.argv[1] + '/victim', sys.argv[1][1:] + '/victim', '../out/victim'):
            try: os.open(name, os.O_WRONLY, dir_fd=os.open(path, os.O_RDONLY)); print('OPENED', what, name)
            except OSError: pass
    elif stat.S_ISSOCK(seen.st_mode): print('OPENED', what, 'a socket')
for number in range(3, 1024): judge(f'/proc/self/fd/{number}', f'own descriptor {number}')
for pid in filter(str.isdigit, os.listdir('/proc')):
    if int(pid) == os.getpid(): continue
    for folder in (f'/proc/{pid}/fd', f'/proc/{pid}/task/{pid}/fd'):
        try: numbers = os.listdir(folder)
        except OSError: continue
        for number in numbers:
            try: judge(f'{folder}/{number}', f'descriptor of {pid}')
            except OSError: pass
    for name in ('root', 'cwd'):
        path = f'/proc/{pid}/{name}{sys.argv[1]}/victim'
        try: os.open(path, os.O_WRONLY); print('OPENED', path)
        except OSError: pass
        try:
            if os.read(os.open(f'/proc/{pid}/{name}{sys.argv[1]}/../home/.netrc', os.O_RDONLY), 6) == b'canary': print('OPENED', 'read', path)
        except OSError: pass
";
/// Python that makes system calls (numbers of x86-64) which change a file outside, or send signals and set priorities.
const CALLS: &str = "import ctypes, fcntl, os, signal, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
out = sys.argv[1].encode() + b'/victim'
def call(name, number, *arguments):
    if libc.syscall(number, *arguments) >= 0: print('OPENED', 'call', name)
    return ctypes.get_errno()
opened = os.open(out, os.O_RDONLY)
attributes = ctypes.create_string_buffer(struct.pack('QIIII', 0x80, 0, 0, 7, 0))
for path, at in ((out, 0), (b'../out/victim', 0), (b'/proc/self/fd/%d' % opened, 0), (b'', 0x1000)):
    call('file_setattr', 469, opened if at else -100, path, attributes, 24, at)
flags = ctypes.c_long(0x80)
for request in (0x401c5820, 0x40086602, 0x40049409, 0xc0045877, 0xc0045878):
    for at in (opened, os.open(out, os.O_PATH)):
        call('ioctl %x' % request, 16, at, request, ctypes.byref(flags))
call('open_tree_attr', 467, -100, out, 1, None, 0)
call('acct', 163, b'accounting'); call('vhangup', 153)
if call('clock_settime', 227, 0, struct.pack('QQ', 1, 2000000000)) not in (1, 38): print('OPENED', 'clock_settime')
call('ioperm', 173, 0x80, 1, 1); call('setdomainname', 171, b'x', 1)
call('iopl', 172, 3); call('delete_module', 176, b'x', 0); call('move_mount', 429, -100, out, -100, b'x', 0); call('fsmount', 432, 0, 0, 0)
for number in (248, 249, 250, 426, 427):
    if call('keys or rings', number, b'user', b'x', b'y', 1, -3) not in (1, 38): print('OPENED', 'not refused', number, ctypes.get_errno())
call('process_madvise', 440, os.getppid(), None, 0, 0, 0); call('process_mrelease', 448, os.getppid(), 0)
try:
    pidfd = os.pidfd_open(os.getppid())
    for request in range(0xff01, 0xff0b):
        try: inner = fcntl.ioctl(pidfd, request)
        except OSError: continue
        call('setns by a descriptor of a process', 308, inner, 0)
except OSError: pass
";
/// Python that sends signals to the program by descriptors, and sets the priority of its group and its user. The values are
/// those that processes have, so that nothing changes if the kernel lets it through.
const SIGNALS: &str = "import ctypes, fcntl, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
def is_agent(pid):
    try: return sys.argv[3] in open(f'/proc/{pid}/cmdline').read() and 'Name:\\tcrow-agent' in open(f'/proc/{pid}/status').read()
    except OSError: return False
agents = [int(pid) for pid in os.listdir('/proc') if pid.isdigit() and is_agent(pid)]
info = ctypes.create_string_buffer(struct.pack('iii', 9, 0, -1) + bytes(116))
for pid in agents:
    libc.syscall(129, pid, 9, info); libc.syscall(297, pid, pid, 9, info)
    receiver, sender = os.pipe()
    fcntl.fcntl(receiver, 10, 9)
    try: fcntl.fcntl(receiver, fcntl.F_SETOWN, pid)
    except OSError: continue
    fcntl.fcntl(receiver, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK); os.write(sender, b'x')
    libc.fcntl(receiver, 15, ctypes.create_string_buffer(struct.pack('ii', 1, pid))); os.write(sender, b'x')
for pid in agents:
    for which, who in ((0, pid), (1, os.getpgid(pid)), (2, os.getuid())):
        if libc.syscall(141, which, who, 0) >= 0 or ctypes.get_errno() == 13: print('OPENED', 'setpriority', which)
        if libc.syscall(251, which + 1, who, 0) >= 0: print('OPENED', 'ioprio_set', which)
";

/// Python whose result shows whether the kernel let it through anywhere.
fn python(kernel: Kernel, name: &str, code: &str) -> Attack {
    let line = format!("python3 - {{out}} {{home}} {{mark}} <<'E'\n{code}\nE");
    let attack = Attack::confined(format!("{kernel:?}: {name}"), &line).hides("OPENED ");
    on(kernel, attack)
}

fn on(kernel: Kernel, attack: Attack) -> Attack {
    match kernel {
        Kernel::AsItIs => attack,
        Kernel::WithoutNamespaces => attack.without_namespaces(),
    }
}

#[cfg(target_arch = "x86_64")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rarely_used_doors_of_the_kernel_are_closed() {
    if !is_installed("python3") {
        return;
    }
    let cases = kernels("doors of the kernel").into_iter().flat_map(|kernel| {
        [
            python(kernel, "address families", FAMILIES),
            python(kernel, "devices and settings", DEVICES),
            python(kernel, "descriptors of others", DESCRIPTORS),
            python(kernel, "new and rare system calls", CALLS),
            // The program is found by the name of its session.
            python(kernel, "signals and priorities", SIGNALS).arg("--session-id").arg("{mark}"),
            on(kernel, Attack::confined(
                format!("{kernel:?}: a program without a file"),
                "python3 -c \"import os; f = os.memfd_create('x', 0); os.write(f, open('/bin/sh', 'rb').read()); os.execv(f'/proc/self/fd/{f}', ['sh', '-c', 'echo PWN > {out}/victim; cat {home}/.netrc; echo PWN > .git/hooks/pre-commit; true'])\"; true",
            )),
            on(kernel, Attack::confined(
                format!("{kernel:?}: the loader and a library of the project"),
                "cp /bin/cat c; /lib64/ld-linux-x86-64.so.2 ./c {home}/.netrc; LD_PRELOAD=./evil.so ./c {home}/.netrc; LD_AUDIT=./evil.so ./c {home}/.ssh/id_ed25519",
            )),
            on(kernel, Attack::confined(
                format!("{kernel:?}: messages of the desktop"),
                "for a in unix:path=/run/dbus/system_bus_socket unix:abstract={mark} unix:path={out}/socket; do DBUS_SESSION_BUS_ADDRESS=$a timeout 2 dbus-send --session --print-reply --dest=org.freedesktop.DBus / org.freedesktop.DBus.ListNames; done; timeout 2 busctl --system list; timeout 2 busctl call org.freedesktop.systemd1 /org/freedesktop/systemd1 org.freedesktop.systemd1.Manager ListUnits; DISPLAY=:0 XAUTHORITY={home}/.Xauthority timeout 2 xset q; WAYLAND_DISPLAY={out}/socket true; timeout 2 systemd-run --user touch {out}/pwned; true",
            ).absent(&["/run", "/tmp"])),
        ]
    });
    try_all(cases.collect()).await;
}

/// A file system that is mounted inside the project is covered like the rest of it. The mounts exist only for the program.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mounts_inside_the_project_are_protected_and_confined_like_the_rest() {
    let mounted = |name: &str, mounts: &str, line: &str| {
        Attack::confined(format!("mounts: {name}"), line).with_mounts(mounts)
    };
    let repository =
        "mkdir m; mount -t tmpfs none m; git init -q m; git -C m config user.nick as-it-was";
    let cases = vec![
        mounted("a repository", repository, "git -C m config core.fsmonitor 'touch {out}/pwned; false'; printf '[core]\\n\\tfsmonitor = x\\n' >> m/.git/config; echo x > m/.git/hooks/pre-commit; true")
            .line("! grep -q fsmonitor m/.git/config && [ ! -e m/.git/hooks/pre-commit ] && echo kept''-it")
            .shows("kept-it"),
        mounted("settings of an editor", "mkdir .vscode; mount -t tmpfs none .vscode; echo mine > .vscode/tasks.json", "echo PWN > .vscode/tasks.json; echo PWN > .vscode/launch.json; umount .vscode; mv .vscode v; rm -rf .vscode; true")
            .line("test \"$(cat .vscode/tasks.json)\" = mine && test ! -e .vscode/launch.json && echo kept''-it")
            .shows("kept-it"),
    ];
    if has_partial_sandbox("mounts inside the project") {
        try_all(cases).await;
    }
}
