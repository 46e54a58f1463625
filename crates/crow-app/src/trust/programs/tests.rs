use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::StartedServer;
use crate::trust::{
    admit::UntrustedConfig,
    contents::ProjectFiles,
    state::{Difference, Fingerprint, ServerRefusal, TrustedState},
};

struct ClonedProject {
    _folder: TempDir,
    root: PathBuf,
}

impl ClonedProject {
    /// Creates a project with one server, and files that contain their own names.
    fn new(server: &Value, files: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let clone = Self { _folder: folder, root };
        for name in files {
            clone.write(name, name);
        }
        clone.write(".mcp.json", &json!({"mcpServers": {"s": server}}).to_string());
        clone
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn contents(&self) -> ProjectFiles {
        ProjectFiles::read(&self.root, &[], &[]).unwrap().unwrap()
    }

    fn differences(&self, before: &Fingerprint) -> BTreeMap<String, Difference> {
        before.differences(&Fingerprint::compute(&self.contents()))
    }
}

fn command(line: &[&str]) -> Value {
    json!({"command": line[0], "args": line[1..]})
}

#[test]
fn a_changed_program_of_a_server_ends_the_trust_for_every_form_of_its_name() {
    let with = |key: &str, value: Value, line: &[&str]| {
        let mut server = command(line);
        server[key] = value;
        server
    };
    let table: Vec<(Value, &str)> = vec![
        (command(&["python3", "tools/server.py"]), "tools/server.py"),
        (command(&["./run.sh"]), "run.sh"),
        (command(&["node", "dist/x.js"]), "dist/x.js"),
        (command(&["node", "dist/x"]), "dist/x.js"),
        (command(&["node", "dist"]), "dist/index.js"),
        (command(&["python3", "tools"]), "tools/__main__.py"),
        (command(&["python3", "-m", "pkg.server"]), "pkg/server.py"),
        (command(&["sh", "-c", "tools/x.sh"]), "tools/x.sh"),
        (command(&["bash", "-lc", "cd tools && exec ./x.sh --fast"]), "tools/x.sh"),
        (command(&["sh", "-c", "exec \"$PWD/tools/x.sh\""]), "tools/x.sh"),
        (command(&["program", "--config=tools/x.json"]), "tools/x.json"),
        (command(&["node", "-r./hook.js", "x"]), "hook.js"),
        (command(&["node", "--import=./hook.mjs"]), "hook.mjs"),
        (command(&["npm", "run", "serve"]), "package.json"),
        (command(&["npm", "start", "--prefix", "web"]), "web/package.json"),
        (command(&["make", "serve"]), "Makefile"),
        (command(&["make", "-C", "sub", "serve"]), "sub/Makefile"),
        (command(&["cargo", "run"]), "src/main.rs"),
        (command(&["go", "run", "./cmd/x"]), "cmd/x/main.go"),
        (command(&["uv", "run", "server"]), "pyproject.toml"),
        (with("env", json!({"NODE_OPTIONS": "--require ./hook.js"}), &["npx", "x"]), "hook.js"),
        (with("env", json!({"PYTHONPATH": "lib:other"}), &["python3", "-m", "x"]), "other/json.py"),
        (with("env", json!({"BASH_ENV": "env.sh"}), &["bash", "-c", "true"]), "env.sh"),
        (with("cwd", json!("tools"), &["./x.sh"]), "tools/x.sh"),
        (with("cwd", json!("tools"), &["python3", "server.py"]), "tools/server.py"),
        (with("cwd", json!("sub"), &["npm", "start"]), "sub/package.json"),
        // Scripts that are not named like code.
        (command(&["sh", "tools/x.txt"]), "tools/x.txt"),
        (command(&["env", "A=b", "bash", "-e", "tools/x.md"]), "tools/x.md"),
        (command(&["python3", "-u", "tools/x.csv"]), "tools/x.csv"),
        (command(&["sh", "-c", "sh < tools/x.txt > x.log"]), "tools/x.txt"),
        (command(&["sh", "-c", "cd tools && cat x.log | sh"]), "tools/x.log"),
        // Packages and tasks.
        (command(&["uvx", "--from", "./srv", "s"]), "srv/a.py"),
        (command(&["pipx", "run", "--spec=./srv", "s"]), "srv/pyproject.toml"),
        (command(&["npx", "./srv"]), "srv/a.js"),
        (command(&["mise", "run", "serve"]), "mise-tasks/serve"),
        (command(&["docker", "compose", "up"]), "compose.override.yaml"),
        // Code beside a program and below it.
        (command(&["python3", "tools/server.py"]), "tools/helper.py"),
        (command(&["python3", "tools/server.py"]), "tools/deep/er.py"),
        (command(&["python3", "server.py"]), "helper.py"),
    ];
    for (server, file) in table {
        let clone = ClonedProject::new(&server, &[file, "docs/x.md", "unrelated/y.txt"]);
        if file.starts_with("tools/") && file != "tools/server.py" {
            clone.write("tools/server.py", "");
        }
        if file == "helper.py" {
            clone.write("server.py", "");
        }
        if file.ends_with("package.json") {
            clone.write(file, r#"{"scripts": {"serve": "node x.js"}}"#);
        }
        let before = Fingerprint::compute(&clone.contents());
        clone.write("docs/x.md", "changed");
        clone.write("unrelated/y.txt", "changed");
        assert_eq!(clone.differences(&before), BTreeMap::new(), "{server}");
        clone.write(file, r#"{"scripts": {"serve": "evil"}}"#);
        let differences = clone.differences(&before);
        let name = format!("../{file}");
        assert_eq!(differences.get(&name), Some(&Difference::Changed), "{server}: {differences:?}");
    }
}

#[test]
fn a_module_that_appears_beside_a_program_ends_the_trust() {
    let clone = ClonedProject::new(&command(&["python3", "tools/server.py"]), &["tools/server.py"]);
    let before = Fingerprint::compute(&clone.contents());
    clone.write("tools/json.py", "evil");
    assert_eq!(clone.differences(&before)["../tools/json.py"], Difference::New);
    fs::remove_file(clone.root.join("tools/server.py")).unwrap();
    assert_eq!(clone.differences(&before)["../tools/server.py"], Difference::Removed);
}

#[test]
fn files_that_a_script_names_are_watched_too() {
    let clone = ClonedProject::new(&command(&["./run.sh"]), &["srv/main.py"]);
    clone.write("run.sh", "#!/bin/sh\nexec python3 \"$(dirname \"$0\")/srv/main.py\"\n");
    let before = Fingerprint::compute(&clone.contents());
    clone.write("srv/main.py", "evil");
    assert_eq!(clone.differences(&before)["../srv/main.py"], Difference::Changed);
    let clone = ClonedProject::new(&command(&["npm", "run", "mcp"]), &["bin/x.js"]);
    clone.write("package.json", r#"{"scripts": {"mcp": "node bin/x.js"}}"#);
    let before = Fingerprint::compute(&clone.contents());
    clone.write("bin/x.js", "evil");
    assert_eq!(clone.differences(&before)["../bin/x.js"], Difference::Changed);
}

#[test]
fn a_replaced_link_on_the_way_to_a_program_ends_the_trust() {
    let clone = ClonedProject::new(&command(&["tools/x.sh"]), &["one/x.sh", "two/x.sh"]);
    clone.write("two/x.sh", "one/x.sh");
    symlink("one", clone.root.join("tools")).unwrap();
    let contents = clone.contents();
    let before = Fingerprint::compute(&contents);
    assert!(contents.programs.named.contains(&clone.root.join("tools")));
    assert!(contents.programs.named.contains(&clone.root.join("one/x.sh")));
    fs::remove_file(clone.root.join("tools")).unwrap();
    symlink("two", clone.root.join("tools")).unwrap();
    assert_eq!(clone.differences(&before)["../tools"], Difference::Changed);
    // A link that leads out of the project is itself watched.
    let clone = ClonedProject::new(&command(&["./x.sh"]), &[]);
    symlink("/bin/true", clone.root.join("x.sh")).unwrap();
    let before = Fingerprint::compute(&clone.contents());
    fs::remove_file(clone.root.join("x.sh")).unwrap();
    symlink("/bin/false", clone.root.join("x.sh")).unwrap();
    assert_eq!(clone.differences(&before)["../x.sh"], Difference::Changed);
}

#[test]
fn data_dependencies_and_other_folders_do_not_end_the_trust() {
    let server = command(&["npx", "-y", "@scope/server-filesystem", ".", "./data.db", "notes"]);
    let files = ["src/main.rs", "index.js", "data.db", "notes/a.md", "notes/b.js", "package.json"];
    let clone = ClonedProject::new(&server, &files);
    clone.write("package.json", r#"{"scripts": {"x": "y"}, "dependencies": {"a": "1"}}"#);
    let before = Fingerprint::compute(&clone.contents());
    for name in ["src/main.rs", "index.js", "data.db", "notes/a.md", "notes/b.js"] {
        clone.write(name, "changed");
    }
    clone.write("package.json", r#"{"scripts": {"x": "y"}, "dependencies": {"a": "2"}}"#);
    assert_eq!(clone.differences(&before), BTreeMap::new());
}

#[test]
fn files_that_a_server_is_given_to_write_do_not_end_the_trust() {
    for server in [
        command(&["python3", "tools/server.py", "--log", "x.log"]),
        command(&["sh", "-c", "exec ./run.sh >> x.log 2>&1"]),
        command(&["sh", "-c", "exec ./run.sh >x.log"]),
    ] {
        let clone = ClonedProject::new(&server, &["tools/server.py", "run.sh", "x.log"]);
        let before = Fingerprint::compute(&clone.contents());
        clone.write("x.log", "changed");
        assert_eq!(clone.differences(&before), BTreeMap::new(), "{server}");
    }
}

#[test]
fn the_question_says_when_not_all_code_is_watched() {
    let clone = ClonedProject::new(&command(&["python3", "tools/server.py"]), &["tools/server.py"]);
    (0..500).for_each(|n| clone.write(&format!("tools/m{n}.py"), "x"));
    let contents = clone.contents();
    assert!(contents.programs.is_cut && contents.programs.marks.len() <= 402);
    let fingerprint = Fingerprint::compute(&contents);
    let text = UntrustedConfig { contents, fingerprint, before: None }.description();
    assert!(text.contains("ore code lies beside them than is watched"), "{text}");
}

#[test]
fn the_question_names_the_files_that_servers_are_started_from() {
    let mut server = command(&["python3", "tools/server.py"]);
    server["env"] = json!({"NODE_OPTIONS": "--require ./hook.js"});
    let clone = ClonedProject::new(&server, &["tools/server.py", "tools/helper.py", "hook.js"]);
    let before = Fingerprint::compute(&clone.contents());
    clone.write("tools/helper.py", "evil");
    let shown = |before: Option<Fingerprint>| {
        let contents = clone.contents();
        let fingerprint = Fingerprint::compute(&contents);
        let text = UntrustedConfig { contents, fingerprint, before }.description();
        text.replace(clone.root.to_str().unwrap(), "PROJECT")
    };
    insta::assert_snapshot!(format!("{}\n{}", shown(None), shown(Some(before))));
}

#[test]
fn a_server_is_refused_when_something_changed_since_the_session_began() {
    let clone = ClonedProject::new(&command(&["python3", "tools/server.py"]), &["tools/server.py"]);
    let trusted = TrustedState::from_files(&clone.contents());
    let argv = ["python3", "tools/server.py"].map(str::to_owned);
    assert!(trusted.starts(&argv) && !trusted.starts(&argv[..1]));
    assert_eq!(trusted.protected, [clone.root.join("tools/server.py")]);
    assert_eq!(trusted.check(), Ok(()));
    clone.write("tools/server.py", "evil");
    let names = vec!["tools/server.py".to_owned()];
    assert_eq!(trusted.check(), Err(ServerRefusal::Changed { names }));
}

#[test]
fn a_pipe_in_place_of_a_program_does_not_block() {
    let clone = ClonedProject::new(&command(&["python3", "tools/server.py"]), &["tools/a.py"]);
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    for name in ["tools/server.py", "tools/b.py"] {
        rustix::fs::mkfifoat(rustix::fs::CWD, clone.root.join(name), mode).unwrap();
    }
    assert!(Path::new(&clone.root).is_dir());
    assert!(!clone.contents().programs.marks.contains_key("../tools/server.py"));
}

#[test]
fn code_beside_a_named_script_is_held_and_the_work_itself_is_not() {
    let protected = |server: Value, files: &[&str]| {
        let clone = ClonedProject::new(&server, files);
        let protected = clone.contents().programs.protected;
        let names = protected.iter().map(|path| path.strip_prefix(&clone.root).unwrap());
        names.map(|name| name.display().to_string()).collect::<Vec<_>>()
    };
    let table: Vec<(Value, &[&str], &[&str])> = vec![
        (
            command(&["python3", "tools/server.py"]),
            &["tools/server.py", "tools/a.py", "tools/deep/b.py", "tools/data.txt", "src/c.py"],
            &["tools/a.py", "tools/deep/b.py", "tools/server.py"],
        ),
        (command(&["python3", "server.py"]), &["server.py", "src/c.py"], &["server.py"]),
        (
            command(&["node", "dist"]),
            &["dist/index.js", "dist/a.js"],
            &["dist/a.js", "dist/index.js"],
        ),
        (command(&["cargo", "run"]), &["Cargo.toml", "src/main.rs", "src/a.rs"], &[]),
        (command(&["python3", "-u", "."]), &["__main__.py", "a.sh"], &["__main__.py"]),
        (command(&["node", "./"]), &["index.js", "b.py"], &["index.js"]),
        (command(&["node", "/usr/lib/server.js", "."]), &["index.js", "package.json"], &[]),
        (command(&["perl", "-Itools", "-MS", "-e1"]), &["tools/S.pm"], &["tools/S.pm"]),
        (
            json!({"command": "srv", "env": {"PATH": "./bin:/usr/bin"}}),
            &["bin/srv", "bin/other"],
            &["bin/srv"],
        ),
        (
            json!({"command": "python3", "args": ["/usr/lib/s.py"], "env": {"PYTHONPATH": "."}}),
            &["x.py", "data.csv"],
            &["x.py"],
        ),
        (json!({"command": "srv", "env": {"ROOT_DIR": "."}}), &["x.py"], &[]),
        (command(&["npm", "run", "serve"]), &["package.json"], &[]),
    ];
    for (server, files, expected) in table {
        assert_eq!(protected(server.clone(), files), expected, "{server}");
    }
    let clone = ClonedProject::new(&command(&["sh", "tools/s.sh"]), &["src/main.py", "src/a.py"]);
    clone.write("tools/s.sh", "exec python3 src/main.py\n");
    let protected = clone.contents().programs.protected;
    assert_eq!(protected, ["src/main.py", "tools/s.sh"].map(|name| clone.root.join(name)).into());
}

#[test]
fn the_notice_names_the_existing_configuration() {
    let clone = ClonedProject::new(&command(&["true"]), &[]);
    let notice = || {
        let contents = clone.contents();
        let fingerprint = Fingerprint::compute(&contents);
        let untrusted = UntrustedConfig { contents, fingerprint, before: None };
        let notice = untrusted.notice();
        notice.replace(clone.root.to_str().unwrap(), "PROJECT")
    };
    assert!(notice().starts_with("PROJECT/.mcp.json is not trusted"), "{}", notice());
    clone.write(".crow-agent/config.toml", "");
    assert!(notice().starts_with("PROJECT/.crow-agent is not trusted"), "{}", notice());
}

#[test]
fn bytecode_that_shadows_a_module_ends_the_trust() {
    let clone = ClonedProject::new(&command(&["python3", "tools/server.py"]), &["tools/server.py"]);
    let before = Fingerprint::compute(&clone.contents());
    clone.write("tools/json.pyc", "evil");
    assert_eq!(clone.differences(&before)["../tools/json.pyc"], Difference::New);
}

#[test]
fn trust_survives_the_loss_of_files_of_the_users_own_servers() {
    let server = |file: &str| {
        let argv = vec!["python3".to_owned(), file.to_owned()];
        StartedServer::new(argv, BTreeMap::new(), PathBuf::from("/elsewhere"))
    };
    let clone = ClonedProject::new(&command(&["sh", "own.sh"]), &["own.sh", "a/x.py", "b/y.py"]);
    let path = |name: &str| clone.root.join(name).display().to_string();
    let users = [server(&path("a/x.py")), server(&path("b/y.py")), server("own.sh")];
    let take = |users: &[StartedServer]| {
        Fingerprint::compute(&ProjectFiles::read(&clone.root, users, &[]).unwrap().unwrap())
    };
    let before = take(&users);
    assert!(before.covers(&before) && before.covers(&take(&users[..1])));
    assert!(!take(&users[..1]).covers(&before), "more is not covered");
    clone.write("a/x.py", "evil");
    assert!(!before.covers(&take(&users)), "nor a change");
    clone.write("a/x.py", "a/x.py");
    fs::remove_file(clone.root.join("own.sh")).unwrap();
    assert!(!before.covers(&take(&users)), "nor one of the project");
    // A relative path of a server that is started elsewhere names no file here.
    assert!(
        ProjectFiles::read(&clone.root, &users[2..], &[]).unwrap().unwrap().user_servers.is_empty()
    );
}

#[test]
fn a_path_that_leaves_the_project_and_comes_back_is_found() {
    let clone = ClonedProject::new(&command(&["true"]), &["tools/run"]);
    let name = clone.root.file_name().unwrap().to_string_lossy().into_owned();
    let above = clone.root.parent().unwrap().display().to_string();
    for line in [
        vec![format!("../{name}/tools/run")],
        vec!["sh".to_owned(), format!("./../{name}/tools/run")],
        vec![
            "sh".to_owned(),
            "-c".to_owned(),
            format!("cd {above} && exec python3 {name}/tools/run"),
        ],
        vec![
            "sh".to_owned(),
            "-c".to_owned(),
            format!("cd /; exec .{}/tools/run", clone.root.display()),
        ],
        ["env", "-C", &above, "sh", &format!("{name}/tools/run")].map(str::to_owned).to_vec(),
    ] {
        let line: Vec<&str> = line.iter().map(String::as_str).collect();
        clone.write(".mcp.json", &json!({"mcpServers": {"s": command(&line)}}).to_string());
        let protected = clone.contents().programs.protected;
        assert_eq!(protected, [clone.root.join("tools/run")].into(), "{line:?}");
    }
}

#[test]
fn files_that_a_users_server_finds_by_search_paths_and_homes_are_found() {
    let clone = ClonedProject::new(
        &command(&["true"]),
        &[
            "tools/run",
            "tools/S.pm",
            "tools/x.py",
            "x.py",
            "S.pm",
            "index.js",
            ".bash_profile",
            "home/.gitconfig",
            "home/.local/lib/python3.11/site-packages/usercustomize.py",
        ],
    );
    let bin = tempfile::tempdir().unwrap();
    symlink(clone.root.join("tools/run"), bin.path().join("srv")).unwrap();
    let path = format!("/nonexistent:{}", bin.path().display());
    for (argv, variable, value, expected) in [
        (&["srv"][..], "PATH", path.as_str(), "tools/run"),
        (&["sh", "-c", "exec srv"], "PATH", &path, "tools/run"),
        (&["python3", "/srv/x.py"], "PYTHONPATH", "/a::/b", "x.py"),
        (&["python3", "/srv/x.py"], "PYTHONPATH", ":", "x.py"),
        (&["perl", "-I.", "-MS", "-e1"], "A", "", "S.pm"),
        (&["perl", "-I", ".", "-MS", "-e1"], "A", "", "S.pm"),
        (&["perl", "-Mlib=.", "-MS", "-e1"], "A", "", "S.pm"),
        (&["perl", "-Mlib=tools", "-MS", "-e1"], "A", "", "tools/S.pm"),
        (&["perl", "-wItools", "-MS", "-e1"], "A", "", "tools/S.pm"),
        (&["perl", "-e", "use lib \"tools\"; require S"], "A", "", "tools/S.pm"),
        (&["perl", "-MS", "-e1"], "PERL_USE_UNSAFE_INC", "1", "S.pm"),
        (&["ruby", "-I.", "-rx", "-e1"], "A", "", "x.py"),
        (&["python3", "-Bmtools.x"], "A", "", "tools/x.py"),
        (&["node", "-e", "require(\"./\")"], "A", "", "index.js"),
        (&["sh", "-c", ". \"${CHECK:-tools/x.py}\""], "A", "", "tools/x.py"),
        (&["bash", "-c", "exec $'\\x74ools/x.py'"], "A", "", "tools/x.py"),
        (&["bash", "-c", "exec to\\\nols/x.py"], "A", "", "tools/x.py"),
        (&["node", "-e", "require(\"./index\")"], "A", "", "index.js"),
        (&["bash", "-lc", "true"], "HOME", ".", ".bash_profile"),
        (&["git", "status"], "HOME", "home", "home/.gitconfig"),
        (
            &["python3", "-c", "pass"],
            "HOME",
            "home",
            "home/.local/lib/python3.11/site-packages/usercustomize.py",
        ),
    ] {
        let argv = argv.iter().map(|word| (*word).to_owned()).collect();
        let env = BTreeMap::from([(variable.to_owned(), value.to_owned())]);
        let server = StartedServer::new(argv, env, clone.root.clone());
        let found = super::started_files(&clone.root, std::slice::from_ref(&server));
        assert!(found.contains(&clone.root.join(expected)), "{server:?}: {found:?}");
    }
    for argv in [&["ls", "-la"][..], &["uvx", "mcp-server-git"], &["python3", "/srv/x.py"]] {
        let argv = argv.iter().map(|word| (*word).to_owned()).collect();
        let server = StartedServer::new(argv, BTreeMap::new(), clone.root.clone());
        assert_eq!(super::started_files(&clone.root, &[server]), [""; 0].map(PathBuf::from));
    }
}
