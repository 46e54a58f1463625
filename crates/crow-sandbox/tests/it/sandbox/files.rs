//! Files that commands can read and change.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
};

use crow_core::capability::{Containment, ProcessEnd};
use crow_sandbox::{LinkSearchConfig, SandboxProfile};

use super::sandbox_fixture::{SandboxFixture, printed};

#[tokio::test]
async fn only_the_workspace_and_the_private_folder_can_be_changed() {
    let fixture = SandboxFixture::new();
    let base = fixture.base();
    fs::write(base.join("outside/theirs"), "theirs").unwrap();
    let outside = base.join("outside").display().to_string();
    let home = base.join("home").display().to_string();
    let outcome = fixture
        .run(&format!(
            "echo ours >file && mkdir -p a/b && mv file a/b && echo temp >/tmp/t && cat /tmp/t $TMPDIR/t a/b/file
             for path in {outside}/new {outside}/theirs {home}/.bashrc /etc/x /usr/x /x /var/x; do
               (echo x >$path) 2>/dev/null && echo changed $path; done
             rm {outside}/theirs 2>/dev/null && echo removed
             ln {outside}/theirs link 2>/dev/null && echo linked
             ln -s {outside}/theirs soft && (echo x >soft) 2>/dev/null && echo through the link
             mv a {outside}/a 2>/dev/null && echo moved
             chmod 777 {outside}/theirs 2>/dev/null; true"
        ))
        .await;
    assert_eq!(printed(&outcome), "temp\ntemp\nours\n");
    assert_eq!(outcome.containment, Containment::Full);
    assert_eq!(fs::read_to_string(base.join("project/a/b/file")).unwrap(), "ours\n");
    assert_eq!(fs::read_to_string(base.join("outside/theirs")).unwrap(), "theirs");
    assert_eq!(fs::read_dir(base.join("home")).unwrap().count(), 0);
}

#[tokio::test]
async fn modes_and_times_of_files_outside_cannot_be_changed() {
    let fixture = SandboxFixture::new();
    // Outside the folders that the sandbox replaces by private ones, such as `/tmp`.
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let file = folder.path().join("theirs");
    fs::write(&file, "").unwrap();
    let before = fs::metadata(&file).unwrap();
    let script = format!("chmod 777 {0}; touch -d 2001-01-01 {0}; mkdir {0}.d", file.display());
    fixture.run(&format!("{{ {script}; }} 2>/dev/null")).await;
    let after = fs::metadata(&file).unwrap();
    assert_eq!(after.permissions(), before.permissions());
    assert_eq!(after.modified().unwrap(), before.modified().unwrap());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[tokio::test]
async fn the_temporary_folder_is_private_to_the_session_and_outlives_commands() {
    let fixture = SandboxFixture::new();
    assert_eq!(fixture.print("echo kept >/tmp/file; ls -A /tmp | grep -c .").await, "2\n");
    assert_eq!(fixture.print("cat /tmp/file /var/tmp/file").await, "kept\nkept\n");
    assert_eq!(fs::read_to_string(fixture.sandbox.temp().join("file")).unwrap(), "kept\n");
}

#[tokio::test]
async fn under_the_read_only_profile_only_the_private_folder_can_be_changed() {
    let fixture = SandboxFixture::new();
    fs::write(fixture.project().join("file"), "as it was").unwrap();
    fixture.runner.set_profile(SandboxProfile::ReadOnly);
    let script = "echo x >file; rm -f file; mkdir new; echo fine >/tmp/cache; cat file /tmp/cache";
    let printed = fixture.print(&format!("{{ {script}; }} 2>/dev/null")).await;
    assert_eq!(printed, "as it wasfine\n");
    assert_eq!(fs::read_dir(fixture.project()).unwrap().count(), 1);
    fixture.runner.set_profile(SandboxProfile::Workspace);
    assert_eq!(fixture.print("echo x >file; cat file").await, "x\n");
}

#[tokio::test]
async fn hidden_files_cannot_be_read_by_any_path() {
    let fixture = SandboxFixture::with(|config, base| {
        fs::create_dir_all(base.join("home/.ssh")).unwrap();
        fs::write(base.join("home/.ssh/key"), "secret").unwrap();
        fs::write(base.join("home/.netrc"), "secret").unwrap();
        std::os::unix::fs::symlink("../home/.ssh/key", base.join("project/link")).unwrap();
        config.hidden = vec![base.join("home/.ssh"), base.join("home/.netrc"), base.join("none")];
    });
    let script = "cat ~/.ssh/key ~/.netrc link /proc/1/root$HOME/.ssh/key /proc/self/root$HOME/.netrc ~/../home/.ssh/key; ls -A ~/.ssh";
    assert_eq!(fixture.print(&format!("{{ {script}; }} 2>/dev/null")).await, "");
    assert_eq!(fixture.print("grep -r secret ~ 2>/dev/null").await, "");
}

#[tokio::test]
async fn existing_protected_files_cannot_be_changed_or_replaced() {
    let fixture = SandboxFixture::new();
    let project = fixture.project();
    for folder in [".git/hooks", ".git/objects", ".vscode", ".crow-agent"] {
        fs::create_dir_all(project.join(folder)).unwrap();
    }
    fs::write(project.join(".git/config"), "[core]\n").unwrap();
    fs::write(project.join(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
    fs::write(project.join(".vscode/tasks.json"), "{}").unwrap();
    let outcome = fixture
        .run(
            "{ echo evil >.git/hooks/pre-commit; echo evil >.git/config; rm -rf .git/config .vscode;
             mv .git .git2; mv .vscode v; mv .git/hooks h; echo evil >.vscode/tasks.json; touch .crow-agent/x;
             echo y >config && mv config .git/config; } 2>/dev/null
             echo object >.git/objects/o && cat .git/objects/o",
        )
        .await;
    assert_eq!(printed(&outcome), "object\n");
    assert_eq!(fs::read_to_string(project.join(".git/config")).unwrap(), "[core]\n");
    assert_eq!(fs::read_to_string(project.join(".vscode/tasks.json")).unwrap(), "{}");
    assert_eq!(fs::read_dir(project.join(".git/hooks")).unwrap().count(), 0);
    assert_eq!(fs::read_dir(project.join(".crow-agent")).unwrap().count(), 0);
    assert_eq!(outcome.quarantined, []);
}

#[tokio::test]
async fn protected_files_that_appear_are_moved_aside() {
    let fixture = SandboxFixture::new();
    let outcome =
        fixture.run("mkdir -p .github/workflows && echo evil >.github/workflows/x.yml").await;
    let [aside] = outcome.quarantined.as_slice() else { panic!("{:?}", outcome.quarantined) };
    assert_eq!(aside.path, fixture.project().join(".github"));
    assert!(aside.moved_to.as_ref().unwrap().join("workflows/x.yml").exists());
    assert_eq!(fs::read_dir(fixture.project()).unwrap().count(), 0);
}

#[tokio::test]
async fn a_repository_can_be_made_and_committed_to() {
    let fixture = SandboxFixture::new();
    let git = "git -c user.name=a -c user.email=a@b -c init.defaultBranch=main";
    let outcome = fixture.run(&format!("{git} init -q . && echo a >a && git add a && {git} commit -qm first && git log --oneline | wc -l")).await;
    assert_eq!(printed(&outcome), "1\n");
    assert_eq!((outcome.quarantined, outcome.end), (Vec::new(), ProcessEnd::Exited(0)));
    let again = format!(
        "echo b >>a && {git} commit -qam second && git stash list && git log --oneline | wc -l; git config core.fsmonitor evil 2>/dev/null; echo $?"
    );
    assert_eq!(fixture.print(&again).await, "2\n4\n");
}

#[tokio::test]
async fn nested_repositories_cannot_be_configured_to_start_programs() {
    let fixture = SandboxFixture::new();
    let git = "git -c user.name=a -c user.email=a@b";
    let commit = format!("{git} commit -q --allow-empty -m x");
    let created = fixture
        .run(&format!("git init -q . && git init -q sub && (cd sub && {commit}) && git add sub 2>/dev/null; ls"))
        .await;
    assert_eq!((printed(&created).as_str(), created.quarantined), ("sub\n", Vec::new()));
    let configured = fixture.run("git -C sub config core.fsmonitor evil; echo $?").await;
    assert_eq!((printed(&configured).lines().last(), configured.quarantined.len()), (Some("4"), 0));
    let other = fixture
        .run(&format!("git init -q new && (cd new && {commit} && git config core.fsmonitor evil) && git add new 2>/dev/null"))
        .await;
    let [aside] = other.quarantined.as_slice() else { panic!("{:?}", other.quarantined) };
    assert_eq!(aside.path, fixture.project().join("new/.git"));
    let module = fixture.run("mkdir -p .git/modules/m && cp -r .git/HEAD .git/objects .git/refs .git/modules/m && printf '[core]\nfsmonitor = evil\n' >.git/modules/m/config").await;
    assert_eq!(module.quarantined.len(), 1, "{:?}", module.quarantined);
}

#[tokio::test]
async fn only_harmless_devices_can_be_used() {
    let fixture = SandboxFixture::new();
    let script = "echo x >/dev/null && head -c1 /dev/zero | wc -c
        for device in /dev/vda /dev/sda /dev/nvme0n1 /dev/mem /dev/kmsg; do head -c1 $device 2>/dev/null | wc -c | grep -v '^0'; done
        python3 -c 'import pty,os; m,s=pty.openpty(); os.write(s,b\"p\"); print(os.read(m,1))' 2>&1; ls /dev/pts | wc -l";
    let printed = fixture.print(script).await;
    assert!(printed.starts_with("1\n") && printed.lines().count() <= 3, "{printed}");
}

#[tokio::test]
async fn hidden_files_in_the_project_stay_hidden_when_folders_around_them_move() {
    let fixture = SandboxFixture::with(|config, base| {
        let project = base.join("project");
        fs::create_dir_all(project.join("home/keys/deep")).unwrap();
        fs::write(project.join("home/keys/deep/key"), "secret").unwrap();
        fs::write(project.join("home/token"), "secret").unwrap();
        config.hidden = vec![project.join("home/keys/deep"), project.join("home/token")];
    });
    fixture.run("mv home moved; mv home/keys moved; mv home/token t; mkdir x; mv -T x home").await;
    fixture.run("python3 -c \"import os; os.rename('home', 'other')\"").await;
    // `mv` copies folders that it cannot rename; hidden folders are empty for it.
    let output = fixture.print("grep -r secret . ; test -d home/keys/deep && echo held").await;
    assert_eq!(output, "held\n");
}

#[tokio::test]
async fn a_write_to_hidden_files_of_the_project_fails() {
    let fixture = SandboxFixture::with(|config, base| {
        let token = base.join("project/token");
        let keys = base.join("project/keys");
        fs::create_dir_all(&keys).unwrap();
        fs::write(&token, "secret").unwrap();
        config.hidden = vec![token, keys];
    });
    for line in ["echo evil > token", "echo evil > keys/x", "rm token", "cp /etc/hosts token"] {
        let output = fixture.print(&format!("({line}) 2>/dev/null || echo refused")).await;
        assert_eq!(output, "refused\n", "{line}");
    }
    assert_eq!(fixture.print("cat token; ls keys").await, "");
    assert_eq!(fs::read_to_string(fixture.project().join("token")).unwrap(), "secret");
}

#[tokio::test]
async fn targets_of_links_in_hidden_folders_are_hidden_from_the_first_command() {
    let fixture = SandboxFixture::with_links(|config, base| {
        fs::create_dir_all(base.join("home/.ssh/deep/er")).unwrap();
        fs::write(base.join("project/key"), "secret").unwrap();
        symlink(base.join("project/key"), base.join("home/.ssh/deep/er/id")).unwrap();
        config.hidden = vec![base.join("home/.ssh")];
        LinkSearchConfig {
            hidden: config.hidden.clone(),
            home: base.join("home"),
            ..LinkSearchConfig::default()
        }
    });
    assert_eq!(fixture.print("cat key; echo ran").await, "ran\n");
}

#[tokio::test]
async fn thousands_of_linked_folders_do_not_keep_commands_from_running() {
    let fixture = SandboxFixture::with_links(|config, base| {
        fs::create_dir(base.join("home/.ssh")).unwrap();
        for number in 0..1200 {
            let target = base.join(format!("project/{number}"));
            fs::create_dir(&target).unwrap();
            fs::write(target.join("key"), "secret\n").unwrap();
            symlink(&target, base.join(format!("home/.ssh/{number}"))).unwrap();
        }
        config.hidden = vec![base.join("home/.ssh")];
        LinkSearchConfig {
            hidden: config.hidden.clone(),
            home: base.join("home"),
            ..LinkSearchConfig::default()
        }
    });
    let visible = fixture.print("cat */key 2>/dev/null | grep -c secret").await;
    // The others are hidden; `LinkGap::Links` tells the user of these.
    assert_eq!(visible, "944\n");
}

#[tokio::test]
async fn a_command_cannot_create_the_programs_own_folders() {
    let fixture = SandboxFixture::with(|config, base| {
        let own = base.join("project/.config/program");
        config.hidden = vec![own.clone()];
        config.own = vec![own, base.join("home/.config/program")];
    });
    fixture.run("mkdir -p .config/program; echo evil > .config/program/settings").await;
    fixture
        .run("mv .config aside; mkdir -p .config/program; echo evil > .config/program/settings")
        .await;
    let own = fixture.project().join(".config/program");
    assert_eq!(fs::read_dir(&own).unwrap().count(), 0);
    assert_eq!(fs::metadata(&own).unwrap().permissions().mode() & 0o777, 0o700);
    assert!(!fixture.base().join("home/.config").exists());
}
