//! Files with the set-user-ID bit, which would run with their owner's rights when started outside the sandbox.

use std::{fs, os::unix::fs::PermissionsExt as _};

use super::sandbox_fixture::SandboxFixture;

/// Creates files with set-user-ID and set-group-ID bits by `open`, and fills them by every system call that can.
const CREATE_SET_ID_FILES: &str = "import ctypes, os, struct
l = ctypes.CDLL(None); os.umask(0); source = os.open('/bin/sh', 0)
def made(name):
  how = struct.pack('QQQ', os.O_CREAT | os.O_RDWR, 0o6755, 0)
  fd = l.syscall(437, -100, name.encode(), how, 24)
  return fd if fd >= 0 else os.open(name, os.O_CREAT | os.O_RDWR, 0o2755)
os.write(made('written'), b'x')
os.ftruncate(made('longer'), 4096)
os.posix_fallocate(made('allocated'), 0, 4096)
os.copy_file_range(source, made('copied'), 100) if os.stat('.').st_dev == os.stat('/bin/sh').st_dev else os.write(made('copied'), b'x')
os.sendfile(made('sent'), source, 0, 100)
for refused in (lambda: os.mknod('node', 0o106755), lambda: os.close(os.open('opened', os.O_CREAT, 0o4755))):
  try: refused(); print('made')
  except PermissionError: pass
";

#[tokio::test]
async fn no_command_can_leave_a_set_user_id_file() {
    let fixture = SandboxFixture::new();
    let lines = "cp /bin/sh shell; chmod 4755 shell 2>/dev/null || echo refused; chmod u+s shell 2>/dev/null || echo refused
install -m 4755 /bin/sh installed 2>/dev/null; mkdir folder && chmod 2775 folder && stat -c %a folder; chmod 755 shell && echo ordinary
cp -p shell again && tar cf - shell | tar xpf - -C folder && stat -c %a again folder/shell";
    assert_eq!(fixture.print(lines).await, "refused\nrefused\n2775\nordinary\n755\n755\n");
    assert_eq!(fixture.print(&format!("python3 - <<'P'\n{CREATE_SET_ID_FILES}P")).await, "");
    let mut count = 0;
    for entry in fs::read_dir(fixture.project()).unwrap().map(Result::unwrap) {
        let data = entry.metadata().unwrap();
        if data.is_file() {
            let mode = data.permissions().mode();
            assert_eq!(mode & 0o4000, 0, "{entry:?} {mode:o}");
            assert!(mode & 0o2000 == 0 || data.len() == 0, "{entry:?} {mode:o}");
            count += 1;
        }
    }
    assert!(count >= 7, "{count}");
}
