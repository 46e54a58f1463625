use std::{
    fs,
    os::unix::{
        fs::{PermissionsExt as _, symlink},
        net::UnixListener,
    },
    path::Path,
    time::Instant,
};

use super::{
    admit::UntrustedConfig,
    contents::{FOLDER, ProjectFiles},
    project::ProjectConfig,
    project_root,
    state::{Difference, Fingerprint},
    store::{TrustError, TrustStore},
};

fn project(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join(".crow-agent/providers")).unwrap();
    for (name, text) in files {
        put(folder.path(), name, text);
    }
    folder
}

fn put(root: &Path, name: &str, text: &str) {
    let path = root.join(FOLDER).join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn read(root: &Path) -> ProjectFiles {
    ProjectFiles::read(root, &[], &[]).unwrap().unwrap()
}

const WORK: &str = "[provider]\nname = \"work\"\ntype = \"openrouter\"\nbase_url = \"https://u:pw@work.example/v1?k=s\"\n";
const NO_PUSH: &str = r#"{"version": 1, "rules": [
  {"id": "no-push", "matcher": {"command_prefix": ["git", "push"]}, "decision": "deny"},
  {"id": "docs", "matcher": {"path": {"access": "write", "path": "docs"}}, "decision": "ask"}
]}"#;

#[test]
fn every_change_alters_the_fingerprint_and_is_named() {
    let folder = project(&[("permissions.json", NO_PUSH), ("providers/work.toml", WORK)]);
    symlink("work.toml", folder.path().join(".crow-agent/providers/link.toml")).unwrap();
    let at = |name: &str| folder.path().join(FOLDER).join(name);
    let first = Fingerprint::compute(&read(folder.path()));
    assert_eq!(first, Fingerprint::compute(&read(folder.path())), "it is the same each time");

    let mut seen = vec![first.clone()];
    let mut changed = |what: &str, name: &str, difference: Difference| {
        let now = Fingerprint::compute(&read(folder.path()));
        assert!(!seen.contains(&now), "{what}");
        let differences = first.differences(&now);
        assert_eq!(differences.get(name), Some(&difference), "{what}: {differences:?}");
        seen.push(now);
    };
    put(folder.path(), "agents/evil.md", "do evil");
    changed("a file that was not there", "agents/evil.md", Difference::New);
    fs::remove_dir_all(at("agents")).unwrap();
    put(folder.path(), "permissions.json", &NO_PUSH.replace("push", "pull"));
    changed("a content", "permissions.json", Difference::Changed);
    put(folder.path(), "permissions.json", NO_PUSH);
    fs::set_permissions(at("permissions.json"), fs::Permissions::from_mode(0o755)).unwrap();
    changed("an execute bit", "permissions.json", Difference::Changed);
    fs::set_permissions(at("permissions.json"), fs::Permissions::from_mode(0o644)).unwrap();
    fs::remove_file(at("providers/link.toml")).unwrap();
    symlink("../permissions.json", at("providers/link.toml")).unwrap();
    changed("a target", "providers/link.toml", Difference::Changed);
    fs::remove_file(at("providers/link.toml")).unwrap();
    changed("a link that is gone", "providers/link.toml", Difference::Removed);
    fs::copy(at("providers/work.toml"), at("providers/link.toml")).unwrap();
    changed("a file in the place of a link", "providers/link.toml", Difference::Changed);
    fs::remove_file(at("providers/link.toml")).unwrap();
    fs::create_dir(at("empty")).unwrap();
    changed("an empty folder", "empty", Difference::New);
}

#[test]
fn parsing_uses_the_bytes_that_were_read() {
    let folder = project(&[("permissions.json", NO_PUSH)]);
    let contents = read(folder.path());
    put(folder.path(), "permissions.json", &NO_PUSH.replace("deny", "allow"));
    let config = ProjectConfig::parse(&contents).unwrap();
    assert_eq!(config.rules.rules()[0].id, "project:no-push");
}

#[test]
fn paths_of_rules_begin_at_the_root_of_the_project() {
    let folder = project(&[("permissions.json", NO_PUSH)]);
    let config = ProjectConfig::parse(&read(folder.path())).unwrap();
    let text = config.rules.to_json().unwrap();
    let path = folder.path().join("docs");
    assert!(text.contains(&format!("{:?}", path.to_str().unwrap())), "{text}");
}

#[test]
fn a_folder_without_files_needs_no_trust() {
    let folder = project(&[]);
    assert_eq!(ProjectFiles::read(folder.path(), &[], &[]).unwrap(), None);
    assert_eq!(ProjectFiles::read(&folder.path().join("nowhere"), &[], &[]).unwrap(), None);
}

#[test]
fn special_files_outward_links_and_oversized_folders_are_refused() {
    type Spoil = fn(&Path);
    let table: [(&str, Spoil); 13] = [
        ("points to ../secret", |at| symlink("../secret", at.join("l")).unwrap()),
        ("points to /etc/passwd", |at| symlink("/etc/passwd", at.join("l")).unwrap()),
        ("points to gone", |at| symlink("gone", at.join("l")).unwrap()),
        ("points to l", |at| symlink("l", at.join("l")).unwrap()),
        ("points to providers", |at| symlink("providers", at.join("l")).unwrap()),
        ("points to d/x", |at| {
            symlink("providers", at.join("d")).unwrap();
            symlink("d/x", at.join("a")).unwrap();
        }),
        ("a socket or a device", |at| {
            UnixListener::bind(at.join("s")).unwrap();
        }),
        ("neither a file nor a folder", |at| {
            let mode = rustix::fs::Mode::from_raw_mode(0o600);
            rustix::fs::mkfifoat(rustix::fs::CWD, at.join("p"), mode).unwrap();
        }),
        ("more than 200", |at| {
            (0..201).for_each(|n| fs::write(at.join(n.to_string()), "").unwrap());
        }),
        ("more than 1024 KiB", |at| fs::write(at.join("f"), vec![0; (1 << 20) + 1]).unwrap()),
        ("nested too deeply", |at| fs::create_dir_all(at.join("d/".repeat(20))).unwrap()),
        ("must be a folder", |at| {
            fs::rename(at, at.with_file_name("elsewhere")).unwrap();
            symlink("elsewhere", at).unwrap();
        }),
        ("not UTF-8", |at| {
            use std::os::unix::ffi::OsStrExt as _;
            fs::write(at.join(std::ffi::OsStr::from_bytes(b"\xff")), "").unwrap();
        }),
    ];
    for (expected, spoil) in table {
        let folder = project(&[("providers/x", "")]);
        fs::write(folder.path().join("secret"), "secret").unwrap();
        spoil(&folder.path().join(FOLDER));
        let refused = ProjectFiles::read(folder.path(), &[], &[]).unwrap_err().to_string();
        assert!(refused.contains(expected), "{expected}: {refused}");
    }
}

#[test]
fn forbidden_project_settings_are_errors_with_their_position() {
    let allow = "{\"version\": 1, \"rules\": [\n  {\"id\": \"a\", \"matcher\": \"all\", \"decision\": \"deny\"},\n  {\"id\": \"b\", \"matcher\": \"all\",\n   \"decision\": \"allow\"}]}";
    let scoped = |scope: &str| {
        format!(
            r#"{{"version": 1, "rules": [{{"id": "a", "matcher": "all", "decision": "deny", "scope": {scope}}}]}}"#
        )
    };
    let (managed, user, session) =
        (scoped("\"managed\""), scoped("\"user\""), scoped("{\"session\": \"s\"}"));
    let built_in = WORK.replace("\"work\"", "\"anthropic\"");
    for (name, text, expected) in [
        ("permissions.json", allow, "permissions.json:4:23: a project can only deny or ask"),
        ("permissions.json", &managed, "may not use"),
        ("permissions.json", &user, "may not use"),
        ("permissions.json", &session, "may not use"),
        ("permissions.json", "{\"version\": 1, \"rules\": 3}", "permissions.json:1:"),
        ("permissions.json", "\u{feff}", "permissions.json:1:"),
        ("providers/a.toml", &built_in, "\"anthropic\" is built in"),
        ("providers/a.toml", "[provider]\nnam = 1", "a.toml:2:1"),
    ] {
        let folder = project(&[(name, text)]);
        let error = ProjectConfig::parse(&read(folder.path())).unwrap_err();
        assert!(error.message.contains(expected), "{expected}: {}", error.message);
    }
}

#[test]
fn the_question_says_what_each_file_could_do_and_what_changed() {
    let folder = project(&[("permissions.json", NO_PUSH), ("providers/work.toml", WORK)]);
    put(folder.path(), "agents/\u{202e}dm.txt", "x");
    let contents = read(folder.path());
    let fingerprint = Fingerprint::compute(&contents);
    let shown = |before: Option<Fingerprint>, contents: &ProjectFiles| {
        let fingerprint = Fingerprint::compute(contents);
        let untrusted = UntrustedConfig { contents: contents.clone(), fingerprint, before };
        let text = untrusted.description();
        text.replace(folder.path().to_str().unwrap(), "PROJECT")
    };
    insta::assert_snapshot!(shown(None, &contents));
    put(folder.path(), "providers/work.toml", &WORK.replace("work.example", "evil.example"));
    put(folder.path(), "x.sh", "#!/bin/sh");
    fs::remove_file(folder.path().join(".crow-agent/permissions.json")).unwrap();
    insta::assert_snapshot!(shown(Some(fingerprint), &read(folder.path())));
}

#[test]
fn the_nearest_configuration_up_to_the_repository_counts() {
    let folder = tempfile::tempdir().unwrap();
    let at = |path: &str| folder.path().join(path);
    fs::create_dir_all(at(".crow-agent")).unwrap();
    fs::create_dir_all(at("repo/.git")).unwrap();
    fs::create_dir_all(at("repo/a/b/c")).unwrap();
    fs::create_dir_all(at("repo/a/.crow-agent")).unwrap();
    fs::create_dir_all(at("plain/below")).unwrap();
    for (cwd, root) in [
        ("repo/a/b/c", "repo/a"),
        ("repo/a", "repo/a"),
        ("repo", "repo"),
        // Outside a repository parent folders do not count: anybody may write to /tmp.
        ("plain/below", "plain/below"),
    ] {
        assert_eq!(project_root(&at(cwd)), at(root), "{cwd}");
    }
}

#[test]
fn trust_is_stored_per_project_and_can_be_revoked() {
    let folder = tempfile::tempdir().unwrap();
    let store = TrustStore::new(&folder.path().join("data"));
    let (one, two) = (project(&[("a", "1")]), project(&[("a", "2")]));
    for project in [&one, &two] {
        store.add(project.path(), Fingerprint::compute(&read(project.path()))).unwrap();
    }
    assert_eq!(store.load().unwrap().len(), 2);
    assert!(store.remove(one.path()).unwrap());
    assert!(!store.remove(one.path()).unwrap());
    let remaining = store.load().unwrap();
    assert_eq!(remaining.keys().collect::<Vec<_>>(), [two.path().to_str().unwrap()]);
}

#[test]
fn concurrent_additions_to_the_store_are_all_stored() {
    let folder = tempfile::tempdir().unwrap();
    let store = TrustStore::new(folder.path());
    let project_folder = project(&[("a", "1")]);
    let mark = Fingerprint::compute(&read(project_folder.path()));
    std::thread::scope(|scope| {
        for n in 0..8 {
            let (store, mark) = (&store, &mark);
            scope.spawn(move || store.add(Path::new(&format!("/p/{n}")), mark.clone()).unwrap());
        }
    });
    assert_eq!(store.load().unwrap().len(), 8);
}

#[test]
fn an_invalid_store_trusts_nothing_and_is_not_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let store = TrustStore::new(folder.path());
    let project_folder = project(&[("a", "1")]);
    let path = folder.path().join("trust.json");
    for (text, is_newer) in [
        ("", false),
        ("{\"version\": 1", false),
        ("[]", false),
        ("{\"version\": 1, \"projects\": {}, \"x\": 1}", false),
        ("{\"version\": 2}", true),
    ] {
        fs::write(&path, text).unwrap();
        let refused = store
            .add(project_folder.path(), Fingerprint::compute(&read(project_folder.path())))
            .unwrap_err();
        assert_eq!(matches!(refused, TrustError::Version { .. }), is_newer, "{refused}");
        assert!(store.load().is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
    }
}

/// The design allows 5 ms; this measurement is unoptimised and runs beside other tests, so the bound is wider.
#[test]
#[expect(clippy::print_stderr, reason = "the figure is what the test is for")]
fn the_largest_configuration_is_checked_in_a_few_milliseconds() {
    let folder = project(&[]);
    (0..198).for_each(|n| put(folder.path(), &format!("agents/{n}.md"), &"x".repeat(5_200)));
    let store = TrustStore::new(&folder.path().join("data"));
    store.add(folder.path(), Fingerprint::compute(&read(folder.path()))).unwrap();
    let check = || {
        let begun = Instant::now();
        let known = store.load().unwrap().remove(folder.path().to_str().unwrap()).unwrap().what;
        assert_eq!(known, Fingerprint::compute(&read(folder.path())));
        begun.elapsed()
    };
    let best = (0..10).map(|_| check()).min().unwrap();
    // With a server that is started from as many files.
    fs::remove_file(folder.path().join(".crow-agent/agents/0.md")).unwrap();
    fs::write(
        folder.path().join(".mcp.json"),
        r#"{"mcpServers": {"s": {"command": "python3", "args": ["tools/m0.py"]}}}"#,
    )
    .unwrap();
    fs::create_dir(folder.path().join("tools")).unwrap();
    (0..199).for_each(|n| {
        fs::write(folder.path().join(format!("tools/m{n}.py")), "x = 1\n".repeat(850)).unwrap();
    });
    store.add(folder.path(), Fingerprint::compute(&read(folder.path()))).unwrap();
    assert_eq!(read(folder.path()).programs.marks.len(), 199);
    let with_programs = (0..10).map(|_| check()).min().unwrap().as_secs_f64() * 1e3;
    let without = project(&[]);
    let begun = Instant::now();
    assert_eq!(ProjectFiles::read(without.path(), &[], &[]).unwrap(), None);
    let (nothing, best) = (begun.elapsed(), best.as_secs_f64() * 1e3);
    eprintln!(
        "trust check: {best:.2} ms for 198 files of 1 MiB together, {with_programs:.2} ms with 199 files of programs of 1 MiB, {nothing:?} without any"
    );
    assert!(best < 50.0 && with_programs < 100.0, "{best} ms, {with_programs} ms");
}
