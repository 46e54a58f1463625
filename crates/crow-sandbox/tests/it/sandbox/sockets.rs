//! Sockets in files that others listen at: in other network namespaces, and inside the project.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    os::unix::net::UnixListener,
    path::Path,
    process::{Child, Command, Stdio},
};

use crow_sandbox::Network;

use super::stage::Stage;

/// Listens, says so, and goes on until it is ended.
const LISTENER: &str = "import socket, sys
s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen(); print('listens', flush=True); sys.stdin.read()";
/// Listens, and takes its name only then. Goes on until there is a file that says otherwise.
const SERVER: &str = "import os, socket, time
s = socket.socket(socket.AF_UNIX); s.bind('early'); s.listen(); os.rename('early', 'own')
while not os.path.exists('end'): time.sleep(0.01)";

/// A program outside of the sandbox that listens. Is ended with it.
struct Listener(Child);

impl Listener {
    /// Starts one in a network namespace of its own. None where no namespace can be made.
    #[expect(clippy::disallowed_methods, reason = "a program outside of every sandbox")]
    fn in_namespace(path: &Path) -> Option<Self> {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--net", "python3"]);
        Self::start(&mut command, path)
    }

    /// Starts one that binds to a relative name in a folder.
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

/// A script that connects to each path, and says what came of it.
fn connect(paths: &[&str]) -> String {
    format!(
        "python3 - {} <<'P'\nimport socket, sys\nfor path in sys.argv[1:]:\n  s = socket.socket(socket.AF_UNIX)\n  try: s.connect(path); print('reached')\n  except OSError: print('refused')\nP",
        paths.join(" ")
    )
}

#[tokio::test]
#[expect(clippy::print_stderr, reason = "a test that is skipped says why")]
async fn sockets_of_other_network_namespaces_cannot_be_reached() {
    // Outside of the folders that the sandbox has its own of.
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let stage = Stage::new();
    for path in [folder.path().join("s"), stage.project().join("s")] {
        let Some(_listener) = Listener::in_namespace(&path) else {
            eprintln!("skipped: no network namespace can be made");
            return;
        };
        assert_eq!(stage.print(&connect(&[path.to_str().unwrap()])).await, "refused\n");
    }
}

#[tokio::test]
async fn sockets_of_the_host_inside_the_project_cannot_be_reached_by_any_name() {
    let stage = Stage::new();
    let folder = stage.project().join("folder");
    fs::create_dir(&folder).unwrap();
    let _absolute = UnixListener::bind(stage.project().join("absolute")).unwrap();
    let _relative = Listener::in_folder(&stage.project(), "./relative").unwrap();
    let _deep = Listener::in_folder(&folder, "../folder/deep").unwrap();
    let _moved = UnixListener::bind(folder.join("first")).unwrap();
    fs::rename(folder.join("first"), stage.project().join("moved")).unwrap();
    let _named_twice = UnixListener::bind(folder.join("one")).unwrap();
    fs::hard_link(folder.join("one"), stage.project().join("two")).unwrap();
    let paths = ["absolute", "relative", "folder/deep", "moved", "folder/one", "two"];
    let refused = "refused\n".repeat(paths.len());
    assert_eq!(stage.print(&connect(&paths)).await, refused);
    // Moved by a command, with the folder around it.
    let paths = ["absolute", "relative", "other/deep", "moved", "other/one", "two"];
    assert_eq!(stage.print("mv folder other").await, "");
    assert_eq!(stage.print(&connect(&paths)).await, refused);
}

async fn tell_own_sockets_from_those_of_the_host(stage: Stage) {
    let _host = UnixListener::bind(stage.project().join("host")).unwrap();
    let script = format!("python3 - <<'P'\n{SERVER}\nP");
    let client = async {
        while stage.print("test -S own && echo listens").await.is_empty() {}
        let printed = stage.print(&connect(&["own", "host"])).await;
        fs::write(stage.project().join("end"), "").unwrap();
        printed
    };
    let (_, printed) = tokio::join!(stage.run(&script), client);
    assert_eq!(printed, "reached\nrefused\n");
    // The file of a server that has ended may be replaced.
    assert_eq!(stage.print("rm own && echo removed").await, "removed\n");
}

#[tokio::test]
async fn a_server_that_an_earlier_command_started_in_the_project_is_reached() {
    tell_own_sockets_from_those_of_the_host(Stage::new()).await;
}

#[tokio::test]
async fn with_a_shared_network_only_servers_of_commands_are_reached() {
    let stage = Stage::with(|config, _| config.network = Network::All);
    tell_own_sockets_from_those_of_the_host(stage).await;
}
