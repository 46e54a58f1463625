//! Processes in the sandbox: how they end, which others they can reach, and their limits.

use crow_testkit::wait_until;
use std::{
    fs,
    net::TcpListener,
    os::unix::{fs::PermissionsExt as _, net::UnixListener},
    sync::Arc,
    time::{Duration, Instant},
};

use crow_core::capability::{Containment, ProcessEnd, ProcessSpec, Processes as _};
use tokio_util::sync::CancellationToken;

use super::sandbox_fixture::{SandboxFixture, printed};

#[tokio::test]
async fn a_command_ends_as_it_would_without_a_sandbox() {
    let fixture = SandboxFixture::new();
    for (script, end) in [
        ("exit 3", ProcessEnd::Exited(3)),
        ("true", ProcessEnd::Exited(0)),
        ("kill -9 $$", ProcessEnd::Signaled(9)),
        ("kill -TERM $$", ProcessEnd::Signaled(15)),
        ("exit 255", ProcessEnd::Exited(255)),
    ] {
        assert_eq!(fixture.run(script).await.end, end, "{script}");
    }
    let error = fixture.runner.run(
        ProcessSpec { argv: vec!["nothing-of-the-kind".to_owned()], ..fixture.spec("") },
        CancellationToken::new(),
    );
    assert!(error.await.unwrap_err().to_string().contains("nothing-of-the-kind cannot be started"));
}

#[tokio::test]
async fn a_caller_that_stops_waiting_does_not_break_the_set_up() {
    let expected = SandboxFixture::new().sandbox.containment().await;
    let fixture = SandboxFixture::new();
    tokio::select! {
        biased;
        _ = fixture.sandbox.containment() => panic!("it was set up at once"),
        () = async {} => {}
    }
    assert_eq!(fixture.sandbox.containment().await, expected);
}

#[tokio::test]
async fn start_errors_are_the_same_with_and_without_a_sandbox() {
    let fixture = SandboxFixture::new();
    let plain = crow_sandbox::ProcessRunner::new(std::collections::BTreeMap::new());
    let broken = fixture.project().join("broken");
    fs::write(&broken, [0; 9]).unwrap();
    fs::set_permissions(&broken, fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(fixture.project().join("text"), "").unwrap();
    for (program, cwd) in [
        ("./broken", "."),
        ("./text", "."),
        ("./nothing", "."),
        ("/bin/sh", "nowhere"),
        ("/bin/sh", "text"),
    ] {
        let spec = || ProcessSpec {
            argv: vec![program.to_owned()],
            cwd: fixture.project().join(cwd),
            ..fixture.spec("")
        };
        let sandboxed = fixture.runner.run(spec(), CancellationToken::new()).await.unwrap_err();
        let unsandboxed = plain.run(spec(), CancellationToken::new()).await.unwrap_err();
        assert_eq!(sandboxed.to_string(), unsandboxed.to_string(), "{program} in {cwd}");
    }
}

#[tokio::test]
async fn the_init_process_of_the_sandbox_holds_no_copy_of_the_agents_memory() {
    let secrets = vec![1_u8; 64 << 20];
    let fixture = SandboxFixture::new();
    let printed = fixture.print("grep -E '^(VmData|VmRSS)' /proc/1/status | tr -dc '0-9\\n'").await;
    let kilobytes: Vec<u64> = printed.lines().map(|line| line.parse().unwrap()).collect();
    assert!(matches!(kilobytes[..], [..12_000, ..12_000]), "{printed}");
    assert_eq!(secrets.len(), 64 << 20);
}

#[tokio::test]
async fn the_keeper_is_not_ended_as_an_orphan() {
    crow_sandbox::adopt_orphans().unwrap();
    let fixture = SandboxFixture::new();
    let sandbox = Arc::clone(&fixture.sandbox);
    // The thread that started the keeper ends, so the keeper becomes a child of the main thread, like an orphan.
    let starter = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(sandbox.containment())
    });
    assert_eq!(starter.join().unwrap(), Containment::Full);
    for _ in 0..3 {
        assert_eq!(fixture.print("(setsid sleep 0.01 &); echo fine").await, "fine\n");
    }
}

#[tokio::test]
async fn dropping_a_sandboxed_call_ends_its_processes() {
    let fixture = SandboxFixture::new();
    let ready = fixture.project().join("ready");
    let run = fixture.runner.run(
        fixture.spec("setsid sleep 976 & touch ready; exec sleep 976"),
        CancellationToken::new(),
    );
    let started = async {
        wait_until(|| ready.exists()).await;
    };
    tokio::select! {
        outcome = run => panic!("{outcome:?}"),
        () = started => {}
    }
    let until = Instant::now() + Duration::from_secs(10);
    while is_any_running("sleep\0976") {
        assert!(Instant::now() < until, "it goes on");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn processes_outside_the_sandbox_can_be_neither_seen_nor_signalled() {
    let fixture = SandboxFixture::new();
    let own = std::process::id();
    let script = format!(
        "kill -0 {own} 2>/dev/null && echo signalled; cat /proc/{own}/environ 2>/dev/null | wc -c; cat /proc/1/environ 2>/dev/null | wc -c; ls /proc | grep -c '^[0-9]'"
    );
    let printed = fixture.print(&script).await;
    let counts: Vec<u32> = printed.lines().map(|line| line.parse().unwrap()).collect();
    assert!(matches!(counts[..], [0, 0, 2..10]), "{printed}");
}

#[tokio::test]
async fn processes_that_a_command_leaves_behind_are_ended_with_it() {
    let fixture = SandboxFixture::new();
    let started = Instant::now();
    let outcome = fixture
        .run("(setsid sleep 987 &) ; setsid -f sleep 987; nohup sleep 987 >/dev/null 2>&1 & echo done")
        .await;
    assert_eq!((printed(&outcome).as_str(), outcome.left_running), ("done\n", true));
    assert!(started.elapsed() < Duration::from_secs(10));
    assert_eq!(fixture.print("ps -e -o args= 2>/dev/null | grep -c 'sleep 98[7]'").await, "0\n");
    assert!(!is_any_running("sleep\0987"), "it runs outside");
}

fn is_any_running(arguments: &str) -> bool {
    let Ok(entries) = std::fs::read_dir("/proc") else { return false };
    entries.flatten().any(|entry| {
        std::fs::read_to_string(entry.path().join("cmdline"))
            .is_ok_and(|line| line.starts_with(arguments))
    })
}

#[tokio::test]
async fn a_cancelled_command_gets_sigterm_and_may_handle_it() {
    let fixture = SandboxFixture::new();
    let cancel = CancellationToken::new();
    let script = "trap 'echo asked; exit 7' TERM; touch ready; while :; do sleep 0.01; done";
    let run = fixture.runner.run(fixture.spec(script), cancel.clone());
    let ready = fixture.project().join("ready");
    let stop = async {
        wait_until(|| ready.exists()).await;
        cancel.cancel();
    };
    tokio::pin!(run);
    let outcome = tokio::select! {
        outcome = &mut run => outcome,
        () = stop => run.await,
    };
    let outcome = outcome.unwrap();
    assert_eq!(outcome.end, ProcessEnd::Cancelled);
    assert!(printed(&outcome).ends_with("asked\n"), "{}", printed(&outcome));
}

#[tokio::test]
async fn a_command_that_ignores_signals_is_killed_at_its_timeout() {
    let fixture = SandboxFixture::new();
    let mut spec = fixture.spec("trap '' TERM INT HUP; while :; do sleep 1; done");
    spec.timeout = Duration::from_millis(200);
    let started = Instant::now();
    let outcome = fixture.runner.run(spec, CancellationToken::new()).await.unwrap();
    assert_eq!(outcome.end, ProcessEnd::TimedOut);
    assert!(started.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn commands_see_only_a_loopback_network_of_their_session() {
    let fixture = SandboxFixture::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let script = format!(
        "python3 - <<'E'
import socket
def reach(kind, address):
    try:
        s = socket.socket(socket.AF_INET, kind); s.settimeout(1); s.connect(address); s.send(b'x'); return True
    except OSError: return False
print(reach(socket.SOCK_STREAM, ('127.0.0.1', {port})))
print(reach(socket.SOCK_STREAM, ('8.8.8.8', 53)), reach(socket.SOCK_DGRAM, ('8.8.8.8', 53)))
server = socket.create_server(('127.0.0.1', 0))
print(reach(socket.SOCK_STREAM, server.getsockname()))
for family in (17, 38, 40, 16):
    try: socket.socket(family, socket.SOCK_RAW, 15); print('made', family)
    except OSError: pass
E"
    );
    assert_eq!(fixture.print(&script).await, "False\nFalse False\nTrue\n");
}

#[tokio::test]
async fn unix_sockets_outside_the_workspace_cannot_be_reached() {
    let fixture = SandboxFixture::new();
    let path = fixture.base().join("outside/docker.sock");
    let _listener = UnixListener::bind(&path).unwrap();
    let script = format!(
        "python3 -c \"
import socket
s = socket.socket(socket.AF_UNIX)
try: s.connect('{}'); print('reached')
except OSError: print('out of reach')
own = socket.socket(socket.AF_UNIX); own.bind('own.sock'); own.listen()
socket.socket(socket.AF_UNIX).connect('own.sock'); print('own')
\"",
        path.display()
    );
    assert_eq!(fixture.print(&script).await, "out of reach\nown\n");
}

#[tokio::test]
async fn dangerous_system_calls_are_refused() {
    let fixture = SandboxFixture::new();
    let script = "python3 - <<'E'
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
def refused(number, *args):
    return libc.syscall(number, *args) == -1 and ctypes.get_errno() in (1, 38)
print(all(refused(n, 0, 0, 0, 0, 0) for n in (101, 165, 166, 272, 308, 310, 321, 298, 323, 425, 428, 442, 250, 304)))
print(refused(56, 0x10000000 | 17, 0, 0, 0, 0), refused(0x40000000 | 101, 0, 0, 0, 0))
E
grep -E '^(NoNewPrivs|Seccomp):' /proc/self/status; ulimit -c";
    assert_eq!(fixture.print(script).await, "True\nTrue True\nNoNewPrivs:\t1\nSeccomp:\t2\n0\n");
}

#[tokio::test]
async fn a_fork_bomb_is_stopped_and_later_commands_run() {
    let fixture = SandboxFixture::with(|config, _| config.limits.processes = 600);
    let mut spec = fixture.spec("bomb() { bomb | bomb & }; bomb 2>/dev/null; sleep 0.5; echo over");
    spec.timeout = Duration::from_secs(5);
    let outcome = fixture.runner.run(spec, CancellationToken::new()).await.unwrap();
    assert!(
        matches!(outcome.end, ProcessEnd::Exited(_) | ProcessEnd::TimedOut),
        "{:?}",
        outcome.end
    );
    assert_eq!(fixture.print("echo fine").await, "fine\n");
}

#[tokio::test]
async fn a_process_cannot_exceed_the_memory_limit() {
    let fixture = SandboxFixture::with(|config, _| config.limits.memory = 256 << 20);
    let script = "python3 -c 'x = bytearray(512 << 20)' 2>&1 | tail -n1; echo fine";
    assert_eq!(fixture.print(script).await, "MemoryError\nfine\n");
}
