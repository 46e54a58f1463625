//! Sockets of programs in other network namespaces.

use std::{
    io::{BufRead as _, BufReader},
    process::{Child, Command, Stdio},
};

use super::stage::Stage;

/// Listens, says so, and goes on until it is ended.
const LISTENER: &str = "import socket, sys
s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen(); print('listens', flush=True); sys.stdin.read()";

/// A program that listens in a network namespace of its own. Is ended with it.
struct Listener(Child);

impl Listener {
    /// None where no namespace can be made.
    #[expect(clippy::disallowed_methods, reason = "a program outside of every sandbox")]
    fn start(path: &std::path::Path) -> Option<Self> {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--net", "python3", "-c", LISTENER]).arg(path);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut listener = Self(command.spawn().ok()?);
        let mut line = String::new();
        BufReader::new(listener.0.stdout.as_mut()?).read_line(&mut line).ok()?;
        (line == "listens\n").then_some(listener)
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

#[tokio::test]
#[expect(clippy::print_stderr, reason = "a test that is skipped says why")]
async fn sockets_of_other_network_namespaces_cannot_be_reached() {
    // Outside of the folders that the sandbox has its own of.
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = folder.path().join("s");
    let Some(_listener) = Listener::start(&path) else {
        eprintln!("skipped: no network namespace can be made");
        return;
    };
    let script = format!(
        "python3 - <<'P'\nimport socket\ns = socket.socket(socket.AF_UNIX)\ntry: s.connect('{}'); print('reached')\nexcept OSError: print('refused')\nP",
        path.display()
    );
    let stage = Stage::new();
    assert_eq!(stage.print(&script).await, "refused\n");
}
