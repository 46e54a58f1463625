//! Containment where no namespaces can be created: inside another sandbox, for example.
//!
//! A test starts its own binary again in a sandbox, with its own name as filter; see [`is_inner`].

use std::{fs, os::unix::net::UnixDatagram};

use crow_core::capability::{Containment, OriginalState};

use super::sandbox_fixture::{SandboxFixture, printed};

/// Variable that is set in the inner process.
pub(super) const INNER: &str = "CROW_TEST_IS_INNER";
/// Variable with the number of rounds of tests that race.
pub(super) const ROUNDS: &str = "CROW_RACE_ROUNDS";

/// The user that runs a test in the inner process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum InnerUser {
    Same,
    /// An unprivileged user; only root can switch to it.
    Ordinary,
}

/// Returns true in the inner process.
#[expect(clippy::disallowed_methods, reason = "the test itself has set it")]
pub(super) fn is_started_inside() -> bool {
    std::env::var_os(INNER).is_some()
}

/// Runs a test again inside a sandbox, where no namespaces can be created. Returns true in that inner process.
#[expect(clippy::disallowed_methods, reason = "the test itself, started again")]
pub(super) async fn is_inner(name: &str, user: InnerUser) -> bool {
    if is_started_inside() {
        return true;
    }
    let exe = std::env::current_exe().unwrap();
    let rounds = std::env::var(ROUNDS).unwrap_or_default();
    let test = format!("'{}' {name} --exact --nocapture", exe.display());
    let become_user = match user {
        InnerUser::Same => "",
        InnerUser::Ordinary => "setpriv --reuid=4242 --regid=4242 --clear-groups",
    };
    let script = format!(
        "chmod 755 /tmp && mkdir /tmp/inner && chmod 777 /tmp/inner && {INNER}=1 {ROUNDS}={rounds} TMPDIR=/tmp/inner {become_user} {test} 2>&1"
    );
    let fixture = SandboxFixture::new();
    // The test binary may lie in a folder that the sandbox replaces by a private one, such as `/tmp`.
    fixture.sandbox.make_readable(&exe);
    let outcome = fixture.run(&script).await;
    assert_eq!(outcome.containment, Containment::Full);
    assert!(printed(&outcome).contains("1 passed"), "{}", printed(&outcome));
    false
}

#[tokio::test]
async fn without_namespaces_the_other_layers_apply_and_the_gaps_are_named() {
    let name = "sandbox::partial::without_namespaces_the_other_layers_apply_and_the_gaps_are_named";
    if !is_inner(name, InnerUser::Same).await {
        return;
    }
    let fixture = SandboxFixture::with(|config, base| {
        fs::create_dir(base.join("home/.ssh")).unwrap();
        fs::write(base.join("home/.ssh/key"), "secret").unwrap();
        config.hidden = vec![base.join("home/.ssh")];
    });
    let outside = fixture.base().join("outside");
    let script = format!(
        "echo ours >file && cat file; echo x >$TMPDIR/t && cat $TMPDIR/t; {{ echo x >{}/new; cat ~/.ssh/key; }} 2>/dev/null
         python3 -c 'import socket; socket.socket()' 2>&1 | tail -n1 | cut -d: -f1; kill -0 {} 2>/dev/null || echo alone",
        outside.display(),
        std::process::id()
    );
    let outcome = fixture.run(&script).await;
    assert_eq!(printed(&outcome), "ours\nx\nPermissionError\nalone\n");
    assert_eq!(fs::read_dir(outside).unwrap().count(), 0);
    let Containment::Partial { gaps } = &outcome.containment else {
        panic!("{:?}", outcome.containment)
    };
    assert!(gaps[0].starts_with("no namespaces (namespaces cannot be made"), "{gaps:?}");
    let outcome = fixture.run("mkdir .github; echo evil >.github/x").await;
    assert_eq!(outcome.quarantined.len(), 1);
    // An existing protected file can be changed during the command, and is restored after it.
    fs::write(fixture.project().join(".envrc"), "use nix").unwrap();
    let outcome = fixture.run("echo evil >.envrc; cat .envrc").await;
    assert_eq!(printed(&outcome), "evil\n");
    assert_eq!(outcome.quarantined[0].original, OriginalState::Restored);
    assert_eq!(fs::read_to_string(fixture.project().join(".envrc")).unwrap(), "use nix");
    assert_eq!(fixture.run("cat .envrc").await.quarantined, []);
}

#[tokio::test]
async fn without_namespaces_no_message_is_sent_to_a_socket_in_a_file() {
    let name = "sandbox::partial::without_namespaces_no_message_is_sent_to_a_socket_in_a_file";
    if !is_inner(name, InnerUser::Same).await {
        return;
    }
    let fixture = SandboxFixture::new();
    let socket = UnixDatagram::bind(fixture.project().join("waits")).unwrap();
    socket.set_nonblocking(true).unwrap();
    let script = "python3 - <<'P'\nimport socket
for kind in (socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_STREAM, socket.SOCK_SEQPACKET):
  try:
    pair = socket.socketpair(socket.AF_UNIX, kind)
    print('made')
    pair[0].sendto(b'x', 'waits')
  except OSError: print('refused')\nP";
    let refused = "refused\n".repeat(2);
    let printed = fixture.print(script).await;
    assert!(printed.starts_with(&refused), "{printed}");
    assert!(socket.recv(&mut [0]).is_err());
}
