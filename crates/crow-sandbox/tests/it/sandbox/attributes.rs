//! Modes, owners, times and extended attributes of files where only Landlock contains commands.
//!
//! Landlock does not cover these system calls, so a supervisor in the agent decides them: see the scripts below. Each test
//! runs in an inner process without namespaces (see `partial`).

use std::{
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::Path,
};

use crow_core::capability::{Containment, ProcessOutcome, Processes as _};
use crow_sandbox::SandboxProfile;

use tokio_util::sync::CancellationToken;

use super::{
    partial::{INNER, InnerUser, ROUNDS, is_inner, is_started_inside},
    sandbox_fixture::{SandboxFixture, printed},
};

const MODULE: &str = "sandbox::attributes::";
/// Shell script with the usual attribute changes of a program's own files. Stops at the first failure.
const OWN_FILES_SCRIPT: &str = r"set -e
printf '#!/bin/sh\necho ran\n' >run; chmod +x run; ./run
touch -d 2001-02-03T00:00:00Z run; stat -c %Y run
mkdir t; echo a >t/a; chmod 640 t/a; ln -s a t/link; tar cf t.tar t; mkdir x; tar xpf t.tar -C x; stat -c %a x/t/a
cp -p run copy; stat -c '%a %Y' copy
install -m 751 run inst; stat -c %a inst
touch -h -d 2002-01-01T00:00:00Z t/link; stat -c %Y t/link
chmod 2755 t; stat -c %a t
python3 - <<'P'
import os, shutil
os.utime('copy', (1, 2)); print(os.stat('copy').st_mtime)
fd = os.open('copy', os.O_RDONLY)
os.fchmod(fd, 0o600); os.utime(fd, (3, 4)); os.fchown(fd, os.getuid(), os.getgid()); os.chown('copy', -1, -1)
for link in (f'/proc/self/fd/{fd}', f'/dev/fd/{fd}'): os.chmod(link, 0o604)
directory = os.open('t', os.O_RDONLY)
os.chmod('a', 0o611, dir_fd=directory); os.utime('a', dir_fd=directory); os.lchown('t/link', -1, -1)
print(oct(os.stat('copy').st_mode), os.stat('copy').st_mtime, oct(os.stat('t/a').st_mode))
try:
    os.setxattr('copy', 'user.x', b'1'); os.setxattr(fd, 'user.y', b''); os.removexattr('copy', 'user.x'); print(os.listxattr('copy'))
except OSError as error: print(error.errno)
shutil.copystat('t/a', 'inst')
P
git init -q . && git add run && git -c user.name=a -c user.email=a@b commit -qm x && git log --oneline | wc -l
echo x >$TMPDIR/t; chmod 600 $TMPDIR/t; stat -c %a $TMPDIR/t
";
/// Python script that tries every system call that could change the attributes of a file. Prints those that succeed.
const ATTRIBUTE_CHANGES_SCRIPT: &str = r"
import ctypes, fcntl, os, struct, sys
path, link = sys.argv[1], 'link'
libc = ctypes.CDLL(None, use_errno=True)
directory, name = os.open(os.path.dirname(path), os.O_RDONLY), os.path.basename(path)
fd, place = os.open(path, os.O_RDONLY), os.open(path, os.O_PATH)
def syscall(number, *arguments):
    if libc.syscall(number, *arguments) < 0: raise OSError(ctypes.get_errno(), str(number))
times = struct.pack('4q', 5, 0, 5, 0)
c = path.encode()
attribute = struct.pack('QII', 0, 0, 0)
trials = {
    'fchmodat2': lambda: syscall(452, -100, c, 0o777, 0), 'fchmodat2 by fd': lambda: syscall(452, fd, b'', 0o777, 0x1000),
    'fchmodat2 by place': lambda: syscall(452, place, b'', 0o777, 0x1000),
    'utimensat by fd': lambda: syscall(280, fd, None, times, 0) if os.uname().machine == 'x86_64' else syscall(88, fd, None, times, 0),
    'setxattrat': lambda: syscall(463, -100, c, 0, b'user.z', attribute, 16), 'removexattrat': lambda: syscall(466, -100, c, 0, b'user.there'),
    'file_setattr': lambda: syscall(469, -100, c, bytes(24), 24, 0),
    'set flags': lambda: fcntl.ioctl(fd, 0x40086602, struct.pack('q', 0x80)), 'set the version on ext4': lambda: fcntl.ioctl(fd, 0x40086604, struct.pack('q', 7)), 'set extended flags': lambda: fcntl.ioctl(fd, 0x401c5820, bytes(28)),
    'chmod by directory': lambda: os.chmod(name, 0o777, dir_fd=directory), 'utime by directory': lambda: os.utime(name, (5, 5), dir_fd=directory),
    'chown by directory': lambda: os.chown(name, os.getuid(), os.getgid(), dir_fd=directory),
    'fchmod': lambda: os.fchmod(fd, 0o777), 'fchown': lambda: os.fchown(fd, os.getuid(), os.getgid()), 'futime': lambda: os.utime(fd, (5, 5)),
    'lchown': lambda: os.lchown(path, os.getuid(), os.getgid()), 'lutime': lambda: os.utime(path, (5, 5), follow_symlinks=False),
    'lsetxattr': lambda: os.setxattr(path, 'user.z', b'', follow_symlinks=False),
}
if os.uname().machine == 'x86_64':
    trials |= {'utime (old)': lambda: syscall(132, c, None), 'utimes': lambda: syscall(235, c, None), 'futimesat': lambda: syscall(261, -100, c, None),
        'old chmod': lambda: syscall(90, c, 0o777), 'old chown': lambda: syscall(92, c, os.getuid(), os.getgid())}
hard = os.path.abspath('hard')
try: os.link(path, hard)
except OSError: pass
try: os.symlink(path, link)
except OSError: pass
for spelling in (path, link, hard, os.path.relpath(path), f'/proc/self/fd/{fd}', f'/proc/thread-self/fd/{fd}', f'/dev/fd/{place}',
                 f'/proc/self/fd/{directory}/{name}', f'/proc/{os.getpid()}/fd/{fd}', '/proc/self/root' + path, fd):
    trials |= {f'chmod {spelling}': lambda s=spelling: os.chmod(s, 0o777), f'chown {spelling}': lambda s=spelling: os.chown(s, os.getuid(), os.getgid()),
        f'utime {spelling}': lambda s=spelling: os.utime(s, (5, 5)), f'utime {spelling} now': lambda s=spelling: os.utime(s),
        f'set {spelling}': lambda s=spelling: os.setxattr(s, 'user.z', b'1'), f'remove {spelling}': lambda s=spelling: os.removexattr(s, 'user.there')}
for trial, change in trials.items():
    try: change()
    except OSError: continue
    print(trial)
print(len(trials), 'tried')
";
/// Python script that swaps the target of a path during `chmod`, on disk (`renameat2`) and in the memory of the argument.
const RACE_SCRIPT: &str = r"
import ctypes, os, sys, threading
outside, rounds = sys.argv[1], int(sys.argv[2])
libc = ctypes.CDLL(None, use_errno=True)
os.mkdir('real'); os.symlink(os.path.dirname(outside), 'real2')
open('real/' + os.path.basename(outside), 'w').close()
inside = os.path.abspath('real/' + os.path.basename(outside)).encode()
buffer = ctypes.create_string_buffer(inside, 4096)
going = True
def exchange():
    while going: libc.renameat2(-100, b'real', -100, b'real2', 2)
def rewrite():
    while going:
        ctypes.memmove(buffer, outside.encode() + b'\0', len(outside) + 1); ctypes.memmove(buffer, inside + b'\0', len(inside) + 1)
threads = [threading.Thread(target=exchange), threading.Thread(target=rewrite)]
for thread in threads: thread.start()
done, tried = {0: 0, -1: 0}, 0
relative = ('real/' + os.path.basename(outside)).encode()
# On until one has succeeded: on a busy machine the others may never rest at the right moment.
while tried < rounds or done[0] == 0 and tried < 100_000:
    tried += 1
    done[libc.chmod(relative, 0o777)] += 1
    done[libc.chmod(buffer, 0o777)] += 1
    libc.utimes(relative, None); libc.utimes(buffer, None)
going = False
for thread in threads: thread.join()
print('raced', done[0] > 0, sum(done.values()) == tried * 2)
";

/// Value of [`INNER`] in a process inside a partial sandbox.
const NESTED: &str = "deeper";

/// Creates a file outside the workspace and returns its path.
fn create_outside_file(fixture: &SandboxFixture) -> std::path::PathBuf {
    let path = fixture.base().join("outside/theirs");
    fs::write(&path, "theirs").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    // Not every filesystem supports extended attributes.
    let _ = rustix::fs::setxattr(&path, "user.there", b"1", rustix::fs::XattrFlags::empty());
    path
}

fn attributes(path: &Path) -> (u32, u32, u32, i64, i64, i64) {
    let data = fs::metadata(path).unwrap();
    // The ctime also reveals changes that set the same values again.
    (data.mode(), data.uid(), data.gid(), data.mtime(), data.ctime(), data.ctime_nsec())
}

fn assert_no_gap(outcome: &ProcessOutcome) {
    let Containment::Partial { gaps } = &outcome.containment else {
        panic!("{:?}", outcome.containment)
    };
    assert!(gaps.iter().all(|gap| !gap.contains("attributes")), "{gaps:?}");
    // The supervisor has ended with the command.
    let threads = fs::read_dir("/proc/self/task").unwrap();
    let names =
        threads.filter_map(|thread| fs::read_to_string(thread.ok()?.path().join("comm")).ok());
    assert!(names.into_iter().all(|name| name.trim() != "attributes"));
}

fn python(program: &str, arguments: &str) -> String {
    format!("python3 - {arguments} <<'P'\n{program}\nP")
}

/// Returns true in the inner process that runs the named test. Skips a test for an ordinary user unless this is root.
#[expect(clippy::print_stderr, reason = "a test that is skipped says why")]
async fn in_partial_sandbox(name: &str, user: InnerUser) -> bool {
    if user == InnerUser::Ordinary && !rustix::process::geteuid().is_root() && !is_started_inside()
    {
        eprintln!("skipped: only root can become another user");
        return false;
    }
    is_inner(&format!("{MODULE}{name}"), user).await
}

async fn assert_programs_can_change_their_own_files() {
    let fixture = SandboxFixture::new();
    let outcome = fixture.run(&format!("{{ {OWN_FILES_SCRIPT}\n}} 2>&1")).await;
    let printed = printed(&outcome);
    let attributes = if printed.contains("['user.y']") { "['user.y']" } else { "95" };
    assert_eq!(
        printed,
        format!(
            "ran\n981158400\n640\n755 981158400\n751\n1009843200\n2755\n2.0\n0o100604 4.0 0o100611\n{attributes}\n1\n600\n"
        )
    );
    assert_no_gap(&outcome);
}

async fn assert_outside_files_are_unchanged() {
    let fixture = SandboxFixture::new();
    let path = create_outside_file(&fixture);
    let before = attributes(&path);
    let script = python(ATTRIBUTE_CHANGES_SCRIPT, &path.display().to_string());
    let outcome = fixture
        .run(&format!(
            "{{ {script}\n}} 2>&1; chmod 000 {} ~ 2>/dev/null; true",
            fixture.base().join("outside").display()
        ))
        .await;
    let printed = printed(&outcome);
    let (passed, count) = printed.trim_end().rsplit_once('\n').unwrap_or(("", printed.trim_end()));
    assert_eq!((passed, attributes(&path)), ("", before), "{printed}");
    assert!(count.ends_with(" tried"), "{printed}");
    assert_no_gap(&outcome);
}

#[tokio::test]
async fn programs_change_attributes_of_their_own_files() {
    let name = "programs_change_attributes_of_their_own_files";
    if in_partial_sandbox(name, InnerUser::Same).await {
        assert_programs_can_change_their_own_files().await;
    }
}

#[tokio::test]
async fn programs_of_an_ordinary_user_change_attributes_of_their_own_files() {
    let name = "programs_of_an_ordinary_user_change_attributes_of_their_own_files";
    if in_partial_sandbox(name, InnerUser::Ordinary).await {
        assert_programs_can_change_their_own_files().await;
    }
}

#[tokio::test]
async fn attributes_of_files_outside_cannot_be_changed_by_any_call() {
    let name = "attributes_of_files_outside_cannot_be_changed_by_any_call";
    if in_partial_sandbox(name, InnerUser::Same).await {
        assert_outside_files_are_unchanged().await;
    }
}

#[tokio::test]
async fn an_ordinary_user_cannot_change_attributes_of_files_outside() {
    let name = "an_ordinary_user_cannot_change_attributes_of_files_outside";
    if in_partial_sandbox(name, InnerUser::Ordinary).await {
        assert_outside_files_are_unchanged().await;
    }
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "how long a test takes is said from outside")]
async fn swapping_a_path_during_a_call_never_changes_another_file() {
    if !in_partial_sandbox(
        "swapping_a_path_during_a_call_never_changes_another_file",
        InnerUser::Same,
    )
    .await
    {
        return;
    }
    let rounds =
        std::env::var(ROUNDS).ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(200_u32);
    let fixture = SandboxFixture::new();
    let path = create_outside_file(&fixture);
    let before = attributes(&path);
    let script = python(RACE_SCRIPT, &format!("{} {rounds}", path.display()));
    let mut spec = fixture.spec(&format!("{{ {script}\n}} 2>&1"));
    spec.timeout *= rounds.div_ceil(200);
    let outcome = fixture.runner.run(spec, CancellationToken::new()).await.unwrap();
    assert_eq!(printed(&outcome), "raced True True\n");
    assert_eq!(attributes(&path), before);
}

#[tokio::test]
async fn under_the_read_only_profile_no_attributes_can_be_changed() {
    if !in_partial_sandbox(
        "under_the_read_only_profile_no_attributes_can_be_changed",
        InnerUser::Same,
    )
    .await
    {
        return;
    }
    let fixture = SandboxFixture::new();
    fixture.runner.set_profile(SandboxProfile::ReadOnly);
    let path = fixture.project().join("file");
    fs::write(&path, "").unwrap();
    let before = attributes(&path);
    let script = python(ATTRIBUTE_CHANGES_SCRIPT, &path.display().to_string());
    let outcome = fixture.run(&format!("{{ {script}\n}} 2>&1; echo x >$TMPDIR/t; chmod 600 $TMPDIR/t 2>/dev/null || echo refused")).await;
    let printed = printed(&outcome);
    let lines: Vec<_> = printed.lines().collect();
    let [count, "refused"] = lines.as_slice() else { panic!("{printed}") };
    assert!(count.ends_with(" tried"), "{printed}");
    assert_eq!(attributes(&path), before);
}

#[tokio::test]
async fn set_id_modes_and_changes_as_another_user_are_refused() {
    let name = "set_id_modes_and_changes_as_another_user_are_refused";
    if !in_partial_sandbox(name, InnerUser::Same).await {
        return;
    }
    let fixture = SandboxFixture::new();
    let other = if rustix::process::geteuid().is_root() {
        "chmod 777 . ; echo x >file; setpriv --reuid=4242 --clear-groups chmod 777 file || echo refused"
    } else {
        "echo refused"
    };
    let script = format!(
        "{{ echo x >f; for mode in 4755 2755 6755; do chmod $mode f || echo refused; done; stat -c %a f; {other}; }} 2>/dev/null"
    );
    assert_eq!(fixture.print(&script).await, "refused\nrefused\nrefused\n644\nrefused\n");
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "the test itself, started again")]
async fn without_a_supervisor_attribute_changes_are_refused_and_named_as_a_gap() {
    let name = "without_a_supervisor_attribute_changes_are_refused_and_named_as_a_gap";
    if !in_partial_sandbox(name, InnerUser::Same).await {
        return;
    }
    let fixture = SandboxFixture::new();
    if std::env::var(INNER).is_ok_and(|inner| inner == NESTED) {
        let script = "{ echo x >f; chmod 600 f || echo refused; cat f; } 2>/dev/null";
        let outcome = fixture.run(script).await;
        assert_eq!(printed(&outcome), "refused\nx\n");
        let Containment::Partial { gaps } = &outcome.containment else {
            panic!("{:?}", outcome.containment)
        };
        let gap = "modes, owners, times and attributes of files cannot be changed (a filter with a listener is refused";
        assert!(gaps.iter().any(|named| named.starts_with(gap)), "{gaps:?}");
        return;
    }
    // A process has one supervisor only: that of the sandbox around it.
    let exe = std::env::current_exe().unwrap();
    let script =
        format!("{INNER}={NESTED} '{}' {MODULE}{name} --exact --nocapture 2>&1", exe.display());
    let printed = fixture.print(&script).await;
    assert!(printed.contains("1 passed"), "{printed}");
}
