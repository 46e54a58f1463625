//! Projects that hold files of the user: links and hard links from the home lead into them, as in a repository of dotfiles.

use serde_json::json;

use crate::{
    attack::Attack,
    trial_runner::{has_full_sandbox, try_all},
};

/// Text of a key in the project.
const KEY: &str = "text-of-a-linked-key";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_behind_links_into_the_project_cannot_be_replaced() {
    if !has_full_sandbox("files behind links") {
        return;
    }
    let table = [
        (
            "a link on the way",
            "mkdir real; echo '{}' > real/m; ln -s real/m lnk; ln -s {project}/lnk {config}/mcp.json",
            "rm lnk; echo PWN > lnk",
            "lnk",
        ),
        (
            "a linked folder on the way",
            "mkdir real; echo '{}' > real/m; ln -s real dl; ln -s {project}/dl/m {config}/mcp.json",
            "rm dl; mkdir dl; echo PWN > dl/m",
            "dl",
        ),
        (
            "another target of a link on the way",
            "mkdir real; echo '{}' > real/m; ln -s real dl; ln -s {project}/dl/m {config}/mcp.json",
            "mkdir ev; echo PWN > ev/m; ln -sfn ev dl; rm -r ev",
            "dl",
        ),
        ("a missing target", "ln -s {project}/m {config}/mcp.json", "echo PWN > m", "m"),
        (
            "a missing folder",
            "ln -s {project}/pr {config}/providers",
            "mkdir pr; echo PWN > pr/x.toml",
            "pr",
        ),
        (
            "a file deep in the settings",
            "mkdir -p {config}/agents/base; echo x > zz; ln -s {project}/zz {config}/agents/base/x.toml",
            "echo PWN > zz",
            "zz",
        ),
        (
            "a missing file deep in the settings",
            "mkdir -p {config}/agents/base; ln -s {project}/zz {config}/agents/base/x.toml",
            "echo PWN > zz",
            "zz",
        ),
        (
            "settings of ssh",
            "ln -s {project}/s/config {home}/.ssh/config",
            "mkdir s; echo PWN > s/config",
            "s/config",
        ),
        (
            "a second name of git's settings",
            "echo '[user]' > gc; ln gc {home}/.gitconfig",
            "echo PWN > gc",
            "gc",
        ),
        (
            "a second name of the settings",
            "echo '{}' > m; mkdir -p {config}; ln m {config}/mcp.json",
            "echo PWN > m",
            "m",
        ),
        (
            "a start file of the shell",
            "echo x > bashrc; ln -s {project}/bashrc {home}/.bashrc",
            "echo PWN > bashrc",
            "bashrc",
        ),
        (
            "a start file of the shell that does not exist",
            "ln -s {project}/zsh/env {home}/.zshenv",
            "mkdir zsh; echo PWN > zsh/env",
            "zsh/env",
        ),
        (
            "a folder of an editor",
            "mkdir -p nvim {home}/.config; echo x > nvim/init.lua; ln -s {project}/nvim {home}/.config/nvim",
            "echo PWN > nvim/init.lua; mkdir nvim/plugin; echo PWN > nvim/plugin/a.lua",
            "nvim",
        ),
        (
            "a file in a folder of a shell",
            "mkdir -p {home}/.config/fish; echo x > fish; ln -s {project}/fish {home}/.config/fish/config.fish",
            "rm fish; echo PWN > fish",
            "fish",
        ),
        (
            "a second name of a start file",
            "echo x > pr; ln pr {home}/.profile",
            "echo PWN > pr",
            "pr",
        ),
        (
            "a hook of the user",
            "mkdir {home}/hooks h; echo x > h/pc; ln -s {project}/h/pc {home}/hooks/pre-commit; git config --global core.hooksPath '~/hooks'",
            "echo PWN > h/pc",
            "h/pc",
        ),
    ];
    let attacks = table.into_iter().map(|(name, before, line, kept)| {
        Attack::confined(name, line).before(&format!("mkdir -p {{config}}\n{before}")).keeps(kept)
    });
    try_all(attacks.collect()).await;
}

/// Scripts that link a key in the project from the home.
const LINKED_KEYS: [(&str, &str); 4] = [
    ("deep", "rm s/key; mkdir -p {home}/.ssh/a/b; ln -s {project}/s/k {home}/.ssh/a/b/id"),
    (
        "among many",
        "rm s/key; mkdir {home}/.ssh/z; cd {home}/.ssh; python3 -c 'import os; [os.symlink(\"x\", str(n)) for n in range(2000)]'; ln -s {project}/s/k z/id",
    ),
    ("a hard link", "rm s/key; ln s/k {home}/.ssh/own"),
    ("a hard link of a target", "rm s/k; ln -s {project}/s/key {home}/.ssh/id; ln s/key s/k"),
];

fn with_linked_key(attack: &Attack, before: &str) -> Attack {
    attack.clone().file("s/k", KEY).file("s/key", KEY).before(before).hides(KEY)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_read_no_keys_behind_links_and_second_names_in_the_project() {
    if !has_full_sandbox("keys behind links") {
        return;
    }
    let attacks = LINKED_KEYS.map(|(name, before)| {
        let attack = Attack::confined(format!("{name}: command"), "cat s/k; grep -r . s");
        with_linked_key(&attack, before)
    });
    try_all(attacks.into()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tools_read_no_keys_behind_links_and_second_names_in_the_project() {
    let attacks = LINKED_KEYS.into_iter().flat_map(|(name, before)| {
        [
            Attack::new(format!("{name}: file tool"), "full-auto")
                .call("read_file", json!({"path": "s/k"}))
                .refused(),
            Attack::new(format!("{name}: search tool"), "ask")
                .call("grep", json!({"pattern": ".", "path": "s"})),
        ]
        .map(|attack| with_linked_key(&attack, before))
    });
    try_all(attacks.collect()).await;
}
