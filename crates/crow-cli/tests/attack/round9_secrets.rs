//! Keys in odd places: variables whose name or value is a secret, files of programs that few think of, and what commands, file
//! tools and the program itself, started by a command, could tell of them.

use serde_json::json;

use crate::{
    attack::Attack,
    canaries::{FILE_SECRET, VARIABLE_SECRET},
    round8_killed::kernels,
    scene::Kernel,
    trial_runner::{has_full_sandbox, try_all},
};

/// Variables that development needs by their names, and whose values are secrets.
const VARIABLES: [(&str, &str); 20] = [
    ("CARGO_REGISTRY_TOKEN", "SECRET"),
    ("CARGO_REGISTRIES_INTERNAL_TOKEN", "SECRET"),
    ("CARGO_HTTP_PROXY", "http://user:SECRET@proxy.invalid:3128"),
    ("NODE_AUTH_TOKEN", "SECRET"),
    ("NODE_OPTIONS", "--conditions=SECRET"),
    ("NPM_CONFIG__AUTH", "SECRET"),
    ("NPM_CONFIG_REGISTRY", "https://user:SECRET@registry.invalid/"),
    ("PIP_INDEX_URL", "https://user:SECRET@index.invalid/simple"),
    ("PIP_EXTRA_INDEX_URL", "https://SECRET@index.invalid/simple https://other.invalid"),
    ("UV_INDEX_INTERNAL_PASSWORD", "SECRET"),
    ("POETRY_HTTP_BASIC_INTERNAL_PASSWORD", "SECRET"),
    ("GOPROXY", "https://user:SECRET@proxy.invalid,direct"),
    ("PYTHON_KEYRING_SECRET", "SECRET"),
    ("MAVEN_OPTS", "-Dpassword=SECRET"),
    ("JAVA_TOOL_OPTIONS", "-Djavax.net.ssl.keyStorePassword=SECRET"),
    ("HTTPS_PROXY", "http://user:SECRET@proxy.invalid:3128"),
    ("https_proxy", "http://user:SECRET@proxy.invalid:3128"),
    ("DATABASE_URL", "postgres://user:SECRET@host.invalid/db"),
    ("PGPASSWORD", "SECRET"),
    ("CC", "gcc -DKEY=SECRET"),
];
/// Files of the home in which programs keep keys, beside those of the scene.
const PLACES: [&str; 46] = [
    ".git-credentials",
    ".config/git/credentials",
    ".pypirc",
    ".pgpass",
    ".my.cnf",
    ".vault-token",
    ".boto",
    ".s3cfg",
    ".kube/config",
    ".azure/accessTokens.json",
    ".config/gcloud/credentials.db",
    ".config/rclone/rclone.conf",
    ".config/sops/age/keys.txt",
    ".config/op/config",
    ".config/hub",
    ".config/doctl/config.yaml",
    ".config/hcloud/cli.toml",
    ".config/composer/auth.json",
    ".config/nix/nix.conf",
    ".config/netlify/config.json",
    ".config/containers/auth.json",
    ".config/Code/User/globalStorage/state.vscdb",
    ".config/google-chrome/Default/Cookies",
    ".config/chromium/Default/Login Data",
    ".mozilla/firefox/x.default/key4.db",
    ".thunderbird/x.default/logins.json",
    ".local/share/keyrings/login.keyring",
    ".local/share/kwalletd/kdewallet.kwl",
    ".password-store/mail.gpg",
    ".gnupg/private-keys-v1.d/x.key",
    ".terraform.d/credentials.tfrc.json",
    ".cargo/credentials.toml",
    ".gem/credentials",
    ".gradle/gradle.properties",
    ".m2/settings-security.xml",
    ".yarnrc.yml",
    ".nuget/NuGet/NuGet.Config",
    ".bundle/config",
    ".npmrc",
    ".python_history",
    ".psql_history",
    ".node_repl_history",
    ".viminfo",
    ".local/state/nvim/shada/main.shada",
    ".Xauthority",
    ".ICEauthority",
];

fn on(kernel: Kernel, attack: Attack) -> Attack {
    match kernel {
        Kernel::AsItIs => attack,
        Kernel::WithoutNamespaces => attack.without_namespaces(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_in_odd_variables_and_files_reach_neither_commands_nor_tools() {
    let variables = |attack: Attack| {
        VARIABLES.iter().fold(attack, |attack, (name, value)| {
            attack.env(name, &value.replace("SECRET", VARIABLE_SECRET))
        })
    };
    let text = format!(
        "password = {FILE_SECRET}\n_authToken={FILE_SECRET}\nurl = https://u:{FILE_SECRET}@h.invalid/\n"
    );
    let files = |attack: Attack| {
        PLACES.iter().fold(attack, |attack, path| attack.file(&format!("{{home}}/{path}"), &text))
    };
    let everything = "cd {home}; for f in $(find . -type f 2>/dev/null); do if grep -q canary $f 2>/dev/null; then echo readable: $f; fi; done; grep -rh canary . 2>/dev/null | rev";
    let cases = kernels("keys in odd places").into_iter().flat_map(|kernel| {
        [
            variables(Attack::confined(format!("{kernel:?}: variables"), "env; set; export -p; cat /proc/self/environ /proc/$PPID/environ; python3 -c 'import os; print(os.environ)'; npm config list; pip config list; (env) & wait")),
            files(Attack::confined(format!("{kernel:?}: files"), everything)),
        ]
        .map(|attack| on(kernel, attack))
    });
    let tools = PLACES.chunks(16).enumerate().map(|(number, places)| {
        let attack = files(Attack::new(format!("tools and files {number}"), "full-auto"));
        let with_read = |attack: Attack, path: &&str| {
            attack.call("read_file", json!({"path": format!("{{home}}/{path}")}))
        };
        places
            .iter()
            .fold(attack, with_read)
            .call("grep", json!({"pattern": "c[a]nary", "path": "{home}"}))
    });
    try_all(cases.chain(tools).collect()).await;
}

/// A command starts the program itself: in the sandbox it has no keys, sessions or trust, and it cannot give itself any.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_that_starts_the_program_gains_nothing() {
    if !has_full_sandbox("the program in itself") {
        return;
    }
    let exe = env!("CARGO_BIN_EXE_crow-agent");
    let clone = |attack: Attack| {
        attack
            .file("tools/s.sh", "#!/bin/sh\ntouch {out}/pwned\n")
            .file(".mcp.json", "{\"mcpServers\": {\"x\": {\"command\": \"./tools/s.sh\"}}}")
            .file(".crow-agent/config.toml", "[checks]\ncommands = [\"touch {out}/pwned\"]\n")
    };
    let cases = kernels("the program in itself").into_iter().flat_map(|kernel| {
        let line = format!(
            "c() {{ timeout 5 {exe} \"$@\" </dev/null; }}; c trust --yes; c trust --list; c sessions list; c sessions show; c doctor; c undo --to-start --force; c redo --force; c restore .envrc@start --force; \
             c run hi -p full-auto --no-sandbox; c config set permissions full-auto; printf 'sk-evil' | c login anthropic; c acp --listen 127.0.0.1:0 & sleep 0.3; kill %1; c mcp test x"
        );
        let after = format!("! {exe} trust --list 2>&1 | grep -q 'trusted {{project}}'");
        let asked = ["trust --yes", "undo --force", "redo", "run hi", "acp", "sessions list"].iter().fold(
            Attack::new(format!("{kernel:?}: asked about"), "ask"),
            |attack, words| attack.line(&format!("{exe} {words}")),
        );
        [
            clone(Attack::confined(format!("{kernel:?}: commands of the program"), &line)).after(&after).keeps(".envrc"),
            asked.refused(),
        ]
        .map(|attack| on(kernel, attack))
    });
    try_all(cases.collect()).await;
}
