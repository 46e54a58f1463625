//! Attempts to reach the network and programs of the host.

use serde_json::json;

use crate::{
    attack::Attack,
    trial_runner::{has_full_sandbox, is_installed, try_all},
};

/// Command lines that try to connect: name and line.
const LINES: &[(&str, &str)] = &[
    ("bash to TCP", "echo x > /dev/tcp/127.0.0.1/{tcp}"),
    ("bash to UDP", "echo x > /dev/udp/127.0.0.1/{udp}"),
    ("curl", "curl -s -m 2 http://127.0.0.1:{tcp}/"),
    ("curl through a name", "curl -s -m 2 http://localhost:{tcp}/"),
    ("curl without a proxy", "curl --noproxy '*' -s -m 2 http://127.1:{tcp}/"),
    ("curl to the socket", "curl -s -m 2 --unix-socket {out}/socket http://x/"),
    ("curl to an abstract socket", "curl -s -m 2 --abstract-unix-socket {mark} http://x/"),
    ("the agent of ssh", "echo \"${SSH_AUTH_SOCK:-none}\"; ssh-add -l"),
    (
        "metadata of a cloud",
        "curl -s -m 2 http://169.254.169.254/latest/meta-data/ && echo PWN > {out}/victim",
    ),
    ("metadata by an odd address", "curl -s -m 2 http://0xa9fea9fe/ && touch reached"),
    ("DNS", "getent hosts example.org && touch reached"),
    ("DNS over UDP", "timeout 2 bash -c 'echo x > /dev/udp/8.8.8.8/53' ; true"),
    ("git", "timeout 5 git ls-remote git://127.0.0.1:{tcp}/x"),
    (
        "git over ssh",
        "GIT_SSH_COMMAND='bash -c \"echo x > /dev/tcp/127.0.0.1/{tcp}\"' timeout 5 git ls-remote ssh://127.0.0.1/x",
    ),
    (
        "the address of the host",
        "for a in $(hostname -I); do timeout 1 bash -c \"echo x > /dev/tcp/$a/{tcp}\"; done",
    ),
    ("any address", "timeout 2 bash -c 'echo x > /dev/tcp/0.0.0.0/{tcp}'"),
    ("a mapped address", "timeout 2 bash -c 'echo x > /dev/tcp/::ffff:127.0.0.1/{tcp}'"),
    (
        "a proxy of the environment",
        "env | grep -i _proxy; http_proxy=http://127.0.0.1:{tcp} curl -s -m 2 http://example.org/",
    ),
];

/// Python code that tries to connect: name and code.
const CODE: &[(&str, &str)] = &[
    (
        "python to TCP",
        "s=socket.socket(); s.settimeout(2)\ntry: s.connect(('127.0.0.1', {tcp}))\nexcept OSError as e: print(e)",
    ),
    (
        "python to UDP",
        "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', {udp}))",
    ),
    (
        "TCP fast open",
        "s=socket.socket()\ntry: s.sendto(b'x', 0x20000000, ('127.0.0.1', {tcp}))\nexcept OSError as e: print(e)",
    ),
    (
        "a socket in a file",
        "s=socket.socket(socket.AF_UNIX)\ntry: s.connect('{out}/socket')\nexcept OSError as e: print(e)",
    ),
    (
        "an abstract socket",
        "s=socket.socket(socket.AF_UNIX)\ntry: s.connect('\\0{mark}')\nexcept OSError as e: print(e)",
    ),
    (
        "a datagram to a socket in a file",
        "s=socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)\ntry: s.sendto(b'x', '{out}/socket')\nexcept OSError as e: print(e)",
    ),
    (
        "a raw socket",
        "try:\n  socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)\n  print('made a raw'+' socket')\nexcept OSError as e: print(e)",
    ),
    (
        "a packet socket",
        "try:\n  socket.socket(socket.AF_PACKET, socket.SOCK_RAW)\n  print('made a packet'+' socket')\nexcept OSError as e: print(e)",
    ),
    (
        "a socket of a virtual machine",
        "try:\n  socket.socket(40, socket.SOCK_STREAM)\n  print('made a vsock'+' socket')\nexcept OSError as e: print(e)",
    ),
    (
        "netlink of the audit",
        "try:\n  socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 9)\n  print('made an audit'+' socket')\nexcept OSError as e: print(e)",
    ),
    (
        "a new address of loopback",
        "try:\n  s=socket.socket(); s.settimeout(1); s.connect(('127.0.0.2', {tcp}))\nexcept OSError as e: print(e)",
    ),
    (
        "descriptors that were left",
        "for fd in range(3, 256):\n  try:\n    os.fstat(fd); print('left: '+os.readlink('/proc/self/fd/%d'%fd))\n  except OSError: pass",
    ),
    (
        "sockets of docker",
        "import glob\nfor p in ['/run/docker.sock','/var/run/docker.sock','/run/containerd/containerd.sock','/run/dbus/system_bus_socket','/tmp/.X11-unix/X0']+glob.glob('/run/user/*/bus'):\n  s=socket.socket(socket.AF_UNIX)\n  try: s.connect(p); print('reached'+'-it '+p)\n  except OSError: pass",
    ),
];

fn python(name: &str, code: &str) -> Attack {
    Attack::confined(
        name,
        &format!("python3 - <<'PYTHON'\nimport socket, os, ctypes\n{code}\nPYTHON"),
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_reaches_no_network_or_socket_of_the_host() {
    if !has_full_sandbox("the network") {
        return;
    }
    let lines = LINES
        .iter()
        .map(|(name, line)| Attack::confined(*name, line).hides("reached-it").keeps("reached"));
    let made = [
        "made a raw socket",
        "made a packet socket",
        "made a vsock socket",
        "made an audit socket",
        "left: socket",
        "reached-it",
    ];
    let code = CODE.iter().map(|(name, code)| {
        made.iter().fold(python(name, code), |attack, text| attack.hides(text))
    });
    try_all(lines.chain(code).collect()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_allowed_host_gives_no_access_to_other_hosts() {
    if !has_full_sandbox("allowed hosts") {
        return;
    }
    let table = [
        ("loopback of the host", "curl -s -m 3 http://127.0.0.1:{tcp}/"),
        (
            "loopback through the proxy",
            "curl -s -m 3 -x \"$http_proxy\" http://127.0.0.1:{tcp}/; curl -s -m 3 --noproxy x http://127.0.0.1:{tcp}/",
        ),
        ("a tunnel to loopback", "curl -s -m 3 -p -x \"$http_proxy\" http://127.0.0.1:{tcp}/"),
        (
            "the allowed name as a user",
            "curl -s -m 3 --noproxy x http://example.invalid@127.0.0.1:{tcp}/",
        ),
        (
            "the allowed name as a header",
            "curl -s -m 3 --noproxy x -H 'Host: example.invalid' http://127.0.0.1:{tcp}/",
        ),
        (
            "a NUL in the name",
            "p=${http_proxy##*:}; p=${p%/}; exec 7<>/dev/tcp/127.0.0.1/$p && printf 'CONNECT 127.0.0.1\\0.example.invalid:{tcp} HTTP/1.1\\r\\n\\r\\n' >&7 && timeout 1 cat <&7",
        ),
        (
            "an absolute URL with two hosts",
            "p=${http_proxy##*:}; p=${p%/}; exec 7<>/dev/tcp/127.0.0.1/$p && printf 'GET http://127.0.0.1:{tcp}/ HTTP/1.1\\r\\nHost: example.invalid\\r\\n\\r\\n' >&7 && timeout 1 cat <&7",
        ),
        (
            "a name that only begins so",
            "curl -s -m 3 --noproxy x http://example.invalid.127.0.0.1.nip.invalid:{tcp}/",
        ),
        ("the socket of the host", "curl -s -m 2 --unix-socket {out}/socket http://x/"),
    ];
    let case = |(name, line): &(&str, &str)| {
        Attack::confined(format!("allowed host: {name}"), line)
            .arg("--allow-host")
            .arg("example.invalid")
    };
    try_all(table.iter().map(case).collect()).await;
}

/// Attempts to reach a tmux server of the user in the project, which runs what it is sent: name and line.
const TO_SERVERS: &[(&str, &str)] = &[
    ("by its path", "tmux -S {project}/t.sock send-keys 'touch {out}/PWN' Enter"),
    ("by a relative name", "tmux -S t.sock send-keys 'touch {out}/PWN' Enter"),
    ("by a link", "ln -s t.sock l; tmux -S l send-keys 'touch {out}/PWN' Enter"),
    ("by a second name", "ln t.sock l; tmux -S l send-keys 'touch {out}/PWN' Enter"),
    ("moved away", "mv t.sock moved; tmux -S moved send-keys 'touch {out}/PWN' Enter"),
    (
        "in a folder that is moved",
        "mv deep other; tmux -S other/t.sock send-keys 'touch {out}/PWN' Enter",
    ),
    (
        "removed and linked",
        "rm -f t.sock; ln -s deep/t.sock t.sock; tmux -S t.sock send-keys 'touch {out}/PWN' Enter",
    ),
    (
        "a datagram",
        "python3 -c 'import socket; socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b\"PWN\", \"t.sock\")'",
    ),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_cannot_reach_a_socket_of_the_user_in_the_project() {
    if !has_full_sandbox("sockets in the project") || !is_installed("tmux") {
        return;
    }
    let start = "mkdir deep; tmux -f /dev/null -S ./t.sock new-session -d 'HISTFILE= exec sh'; cd deep; tmux -f /dev/null -S ./t.sock new-session -d 'HISTFILE= exec sh'";
    // Waits until tmux has processed all earlier keys, so that an attack that reached it would have had its effect.
    let end = "s=$(ls t.sock moved 2>/dev/null | head -1); for s in $s $(ls */t.sock); do tmux -S $s send-keys 'tmux wait-for -S done' Enter; timeout 10 tmux -S $s wait-for done; tmux -S $s kill-server; done";
    let case = |(name, line): &(&str, &str)| {
        Attack::confined(
            format!("server of the user: {name}"),
            &format!("{{ {line}; }} 2>&1; true"),
        )
        .before(start)
        .after(end)
    };
    try_all(TO_SERVERS.iter().map(case).collect()).await;
}

/// Commands of a session can connect to servers that earlier commands started.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_reaches_a_socket_created_by_a_job_of_its_session() {
    if !has_full_sandbox("sockets in the project") || !is_installed("python3") {
        return;
    }
    let server = "python3 -c 'import os, socket
s = socket.socket(socket.AF_UNIX); s.bind(\"early\"); s.listen(); os.rename(\"early\", \"own\")
s.accept()[0].sendall(b\"it-\" + b\"answers\")'";
    let client = "python3 -c 'import os, socket
while not os.path.exists(\"own\"): pass
s = socket.socket(socket.AF_UNIX); s.connect(\"own\"); print(s.recv(99))'";
    let wait = "while ! test -S own; do :; done";
    let case = Attack::works("server of a job", "full-auto")
        .call("bash", json!({"command": server, "run_in_background": true}))
        .line(wait)
        .line(client)
        .shows("it-answers");
    try_all(vec![case]).await;
}
