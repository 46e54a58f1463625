//! Canaries: files, sockets and secrets that must not be changed, reached or leaked.

use std::{
    collections::BTreeMap,
    fs, io,
    net::{TcpListener, UdpSocket},
    os::{
        linux::net::SocketAddrExt as _,
        unix::{
            fs::{MetadataExt as _, PermissionsExt as _},
            net::{SocketAddr, UnixListener},
        },
    },
    path::Path,
};

/// API key of the provider.
pub(crate) const KEY: &str = "sk-test-4f9a0c7d21e8b635aa17";
/// Content of the user's files with keys.
pub(crate) const FILE_SECRET: &str = "canary-of-a-private-file-77e1";
/// Value of the user's secret environment variables.
pub(crate) const VARIABLE_SECRET: &str = "ghp_canaryofavariable0123456789abcdefXY";
/// Text that attackers write into files.
pub(crate) const MARK: &str = "PWN";

/// Paths in a project that start programs or configure agents.
const PROTECTED: [&str; 32] = [
    ".crow-agent",
    ".claude",
    ".opencode",
    ".codex",
    ".cursor",
    ".gemini",
    ".mcp.json",
    ".vscode",
    ".idea",
    ".zed",
    ".exrc",
    ".envrc",
    ".github",
    ".gitlab-ci.yml",
    ".circleci",
    ".travis.yml",
    "Jenkinsfile",
    ".husky",
    ".pre-commit-config.yaml",
    "lefthook.yml",
    ".devcontainer",
    ".dir-locals-2.el",
    "bitbucket-pipelines.yml",
    ".cargo/config.toml",
    ".npmrc",
    ".kiro",
    "opencode.json",
    ".git/config",
    ".git/config.worktree",
    ".git/hooks",
    ".git/modules",
    ".git/commondir",
];

/// Files of a folder: path to mode and content; for a link, its target with mode 0.
pub(crate) type Tree = BTreeMap<String, (u32, Vec<u8>)>;

/// Sockets of the host that no command may reach.
pub(crate) struct Listeners {
    pub(crate) tcp: TcpListener,
    pub(crate) udp: UdpSocket,
    pathname: UnixListener,
    abstracted: UnixListener,
}

impl Listeners {
    pub(crate) fn new(path: &Path, name: &str) -> Self {
        let listeners = Self {
            tcp: TcpListener::bind("127.0.0.1:0").unwrap(),
            udp: UdpSocket::bind("127.0.0.1:0").unwrap(),
            pathname: UnixListener::bind(path).unwrap(),
            abstracted: UnixListener::bind_addr(&SocketAddr::from_abstract_name(name).unwrap())
                .unwrap(),
        };
        listeners.tcp.set_nonblocking(true).unwrap();
        listeners.udp.set_nonblocking(true).unwrap();
        listeners.pathname.set_nonblocking(true).unwrap();
        listeners.abstracted.set_nonblocking(true).unwrap();
        listeners
    }

    /// Returns the names of the sockets that received a connection or a datagram.
    pub(crate) fn reached(&self) -> Vec<&'static str> {
        let has_connection = |result: io::Result<()>| !matches!(result, Err(error) if error.kind() == io::ErrorKind::WouldBlock);
        let all = [
            ("TCP", self.tcp.accept().map(drop)),
            ("UDP", self.udp.recv(&mut [0; 8]).map(drop)),
            ("the socket in a file", self.pathname.accept().map(drop)),
            ("the socket with an abstract name", self.abstracted.accept().map(drop)),
        ];
        all.into_iter()
            .filter_map(|(name, result)| has_connection(result).then_some(name))
            .collect()
    }
}

/// Reads a folder recursively.
pub(crate) fn tree(folder: &Path) -> Tree {
    let mut found = Tree::new();
    walk(folder, "", &mut found);
    found
}

fn walk(folder: &Path, prefix: &str, tree: &mut Tree) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
        let mode = metadata.permissions().mode() & 0o7777;
        if metadata.is_symlink() {
            let target = fs::read_link(&path).unwrap_or_default();
            tree.insert(name, (0, target.into_os_string().into_encoded_bytes()));
        } else if metadata.is_dir() {
            tree.insert(format!("{name}/"), (mode, Vec::new()));
            walk(&path, &format!("{name}/"), tree);
        } else if metadata.is_file() {
            tree.insert(name, (mode, fs::read(&path).unwrap_or_default()));
        } else {
            tree.insert(name, (mode, Vec::new()));
        }
    }
}

/// Returns the change time (ctime) of a folder and each file in it, which any change of contents, mode, owner, times or
/// attributes updates.
pub(crate) fn stamps(folder: &Path) -> Tree {
    let stamp = |path: &Path| {
        let metadata = fs::symlink_metadata(path).unwrap();
        (0, format!("{}.{}", metadata.ctime(), metadata.ctime_nsec()).into_bytes())
    };
    let below = tree(folder).into_keys().map(|name| (name.clone(), stamp(&folder.join(name))));
    below.chain([(".".to_owned(), stamp(folder))]).collect()
}

/// Returns the files below `folder` that other users can access: neither the file nor a folder above it is private.
pub(crate) fn open_to_others(tree: &Tree, folder: &str) -> Vec<String> {
    let is_closed = |name: &str| {
        let around = name.match_indices('/').map(|(at, _)| &name[..=at]);
        around
            .chain([name])
            .any(|name| tree.get(name).is_some_and(|(mode, _)| mode.trailing_zeros() >= 6))
    };
    tree.keys().filter(|name| name.starts_with(folder) && !is_closed(name)).cloned().collect()
}

/// Returns the paths that differ: `+` if new or changed, `-` if removed.
pub(crate) fn differences(before: &Tree, after: &Tree) -> Vec<String> {
    let changed = after
        .iter()
        .filter(|(name, now)| before.get(*name) != Some(now))
        .map(|(name, _)| format!("+{name}"));
    let removed =
        before.keys().filter(|name| !after.contains_key(*name)).map(|name| format!("-{name}"));
    changed.chain(removed).collect()
}

/// Returns true if a path, relative to the project, is protected.
pub(crate) fn is_protected(name: &str) -> bool {
    PROTECTED.iter().any(|protected| {
        name.strip_prefix(protected).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    })
}

/// Returns the secrets in a text: plain, reversed, in hex or in base64.
pub(crate) fn leaked_secrets(text: &str) -> Vec<String> {
    let secrets = [KEY, FILE_SECRET, VARIABLE_SECRET];
    let mut leaked = Vec::new();
    for secret in secrets {
        let reversed: String = secret.chars().rev().collect();
        let hex = secret.bytes().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat();
        for form in [secret.to_owned(), reversed, hex, base64(secret)] {
            if text.contains(&form) {
                leaked.push(form);
            }
        }
    }
    leaked
}

/// Encodes in base64 without an incomplete last group, which would depend on the following bytes.
fn base64(text: &str) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let chunks = text.as_bytes().chunks_exact(3);
    let numbers = chunks
        .map(|three| three.iter().fold(0_usize, |number, byte| (number << 8) | usize::from(*byte)));
    numbers
        .flat_map(|number| [18, 12, 6, 0].map(|shift| char::from(DIGITS[(number >> shift) & 63])))
        .collect()
}

/// Returns the control, bidirectional and invisible characters of a text, escaped.
pub(crate) fn raw_characters(text: &str) -> Vec<String> {
    let is_raw = |char: &char| {
        char.is_control() && !matches!(char, '\n' | '\t')
            || matches!(char, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200b}' | '\u{200e}' | '\u{200f}')
            || matches!(char, '\u{2060}'..='\u{2064}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
    };
    text.chars().filter(is_raw).map(|char| char.escape_unicode().to_string()).collect()
}

/// Returns the command lines of running processes that contain `mark`.
pub(crate) fn survivors(mark: &str) -> Vec<String> {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    processes
        .filter_map(|entry| {
            let line = fs::read(entry.path().join("cmdline")).ok()?;
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            line.contains(mark).then_some(line)
        })
        .collect()
}
