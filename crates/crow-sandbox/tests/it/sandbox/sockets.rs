//! Unix sockets of processes outside the sandbox: in other network namespaces, and inside the project.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    os::unix::net::UnixListener,
    path::Path,
    process::{Child, Command, Stdio},
};

use crow_core::network::Network;

use super::sandbox_fixture::SandboxFixture;

/// Python script that listens on a socket, prints a line, and runs until it is killed.
const LISTENER: &str = "import socket, sys
s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen(); print('listens', flush=True); sys.stdin.read()";
/// Python script that listens on a socket, then renames it to `own`. Runs until the file `end` exists.
const SERVER: &str = "import os, socket, time
s = socket.socket(socket.AF_UNIX); s.bind('early'); s.listen(); os.rename('early', 'own')
while not os.path.exists('end'): time.sleep(0.01)";

/// A listening program outside the sandbox. Is killed on drop.
struct Listener(Child);

impl Listener {
    /// Starts a listener in its own network namespace. Returns `None` if no namespace can be created.
    #[expect(clippy::disallowed_methods, reason = "a program outside of every sandbox")]
    fn in_namespace(path: &Path) -> Option<Self> {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--net", "python3"]);
        Self::start(&mut command, path)
    }

    /// Starts a listener that binds to a relative name in a folder.
    #[expect(clippy::disallowed_methods, reason = "a program outside of every sandbox")]
    fn in_folder(folder: &Path, name: &str) -> Option<Self> {
        Self::start(Command::new("python3").current_dir(folder), Path::new(name))
    }

    fn start(command: &mut Command, path: &Path) -> Option<Self> {
        command.args(["-c", LISTENER]).arg(path);
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

/// Returns a script that connects to each path and prints `reached` or `refused`.
fn connect(paths: &[&str]) -> String {
    format!(
        "python3 - {} <<'P'\nimport socket, sys\nfor path in sys.argv[1:]:\n  s = socket.socket(socket.AF_UNIX)\n  try: s.connect(path); print('reached')\n  except OSError: print('refused')\nP",
        paths.join(" ")
    )
}

#[tokio::test]
#[expect(clippy::print_stderr, reason = "a test that is skipped says why")]
async fn sockets_of_other_network_namespaces_cannot_be_reached() {
    // Outside the folders that the sandbox replaces by private ones, such as `/tmp`.
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let fixture = SandboxFixture::new();
    for path in [folder.path().join("s"), fixture.project().join("s")] {
        let Some(_listener) = Listener::in_namespace(&path) else {
            eprintln!("skipped: no network namespace can be made");
            return;
        };
        assert_eq!(fixture.print(&connect(&[path.to_str().unwrap()])).await, "refused\n");
    }
}

#[tokio::test]
async fn sockets_of_the_host_inside_the_project_cannot_be_reached_by_any_name() {
    let fixture = SandboxFixture::new();
    let folder = fixture.project().join("folder");
    fs::create_dir(&folder).unwrap();
    let _absolute = UnixListener::bind(fixture.project().join("absolute")).unwrap();
    let _relative = Listener::in_folder(&fixture.project(), "./relative").unwrap();
    let _deep = Listener::in_folder(&folder, "../folder/deep").unwrap();
    let _moved = UnixListener::bind(folder.join("first")).unwrap();
    fs::rename(folder.join("first"), fixture.project().join("moved")).unwrap();
    let _named_twice = UnixListener::bind(folder.join("one")).unwrap();
    fs::hard_link(folder.join("one"), fixture.project().join("two")).unwrap();
    let paths = ["absolute", "relative", "folder/deep", "moved", "folder/one", "two"];
    let refused = "refused\n".repeat(paths.len());
    assert_eq!(fixture.print(&connect(&paths)).await, refused);
    // The sockets stay unreachable after a command moved their folder.
    let paths = ["absolute", "relative", "other/deep", "moved", "other/one", "two"];
    assert_eq!(fixture.print("mv folder other").await, "");
    assert_eq!(fixture.print(&connect(&paths)).await, refused);
}

async fn assert_only_sockets_of_commands_are_reached(fixture: SandboxFixture) {
    let _host = UnixListener::bind(fixture.project().join("host")).unwrap();
    let script = format!("python3 - <<'P'\n{SERVER}\nP");
    let client = async {
        while fixture.print("test -S own && echo listens").await.is_empty() {}
        let printed = fixture.print(&connect(&["own", "host"])).await;
        fs::write(fixture.project().join("end"), "").unwrap();
        printed
    };
    let (_, printed) = tokio::join!(fixture.run(&script), client);
    assert_eq!(printed, "reached\nrefused\n");
    // The file of a server that has ended may be replaced.
    assert_eq!(fixture.print("rm own && echo removed").await, "removed\n");
}

#[tokio::test]
async fn a_server_that_an_earlier_command_started_in_the_project_is_reached() {
    assert_only_sockets_of_commands_are_reached(SandboxFixture::new()).await;
}

#[tokio::test]
async fn with_a_shared_network_only_servers_of_commands_are_reached() {
    let fixture = SandboxFixture::with(|config, _| config.network = Network::All);
    assert_only_sockets_of_commands_are_reached(fixture).await;
}
