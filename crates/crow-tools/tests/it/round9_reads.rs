//! Review 9, reads: files of the project that choose which program answers, and listings that were asked about needlessly.

use std::fs;

use crow_core::permission::{Decision, PermissionMode, PermissionPolicy};

use crate::project::Project;

fn passes(project: &Project, text: &str) -> bool {
    let policy = PermissionPolicy::new(PermissionMode::Ask).with_read_sandbox(true);
    matches!(project.decide(&policy, &project.line(text)), Decision::Allow(_))
}

fn passing<'a>(project: &Project, lines: &[&'a str]) -> Vec<&'a str> {
    lines.iter().copied().filter(|text| passes(project, text)).collect()
}

#[test]
fn a_version_that_a_file_of_the_project_may_answer_is_asked_about() {
    for (file, content, lines) in [
        (
            "rust-toolchain.toml",
            "[toolchain]\npath = \"tc\"\n",
            &["cargo --version", "cargo -V", "rustc -V", "rustc --version", "rustfmt --version"][..],
        ),
        ("rust-toolchain.toml", "[toolchain]\n\"p\\u0061th\" = \"tc\"\n", &["rustup --version"]),
        ("rust-toolchain", "/clone/tc\n", &["cargo --version", "cd src; cargo --version"]),
        (
            ".python-version",
            "../../clone/pv\n",
            &["python3 --version", "python -V", "pip --version"],
        ),
        (".tool-versions", "nodejs path:tc\n", &["node --version", "node -v", "jq --version"]),
        (
            "mise.toml",
            "[tools]\nnode = \"20\"\n",
            &["node --version", "go version", "cmake --version"],
        ),
        (".config/mise/config.toml", "", &["ruby -v"]),
        (".nvmrc", "../../../tc\n", &["node -v", "npm -v"]),
        (".ruby-version", "../../tc\n", &["ruby --version", "gem --version"]),
        (".yarnrc", "yarn-path \"./x.js\"\n", &["yarn --version", "yarn -v"]),
        (".yarnrc.yml", "yarnPath: x.js\n", &["yarn --version"]),
        (".mvn/jvm.config", "-XX:+PrintFlagsFinal\n", &["mvn --version"]),
        ("setup.cfg", "[flake8:local-plugins]\n", &["flake8 --version"]),
        ("Gemfile", "", &["bundle --version"]),
        ("global.json", "{}", &["dotnet --version"]),
        ("composer.json", "{}", &["composer --version"]),
        ("package.json", "{\"packageManager\": \"yarn@./x\"}", &["yarn --version", "pnpm -v"]),
        ("conftest.py", "", &["pytest --version"]),
        ("README.md", "", &["cd $x; cargo --version", "RUSTUP_TOOLCHAIN=./tc cargo -V"]),
    ] {
        let project = Project::new();
        let path = project.root.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
        let passed = passing(&project, lines);
        assert!(passed.is_empty(), "{file}: {passed:#?}");
    }
}

#[test]
fn a_version_of_an_installed_toolchain_needs_no_question() {
    let project = Project::new();
    for (file, content) in [
        ("rust-toolchain.toml", "# see https://rust-lang.org\n[toolchain]\nchannel = \"1.80\"\n"),
        ("rust-toolchain", "stable\n"),
        (".python-version", "3.12.1\n"),
        (".tool-versions", "nodejs 20.1.0\npython system\n"),
        (".nvmrc", "lts-iron\n"),
    ] {
        fs::write(project.root.join(file), content).unwrap();
    }
    let lines = [
        "cargo --version",
        "rustc -V",
        "cd src && cargo --version",
        "python3 --version",
        "node -v && npm -v",
        "yarn --version",
        "jq --version",
        "git --version",
    ];
    assert_eq!(passing(&project, &lines), lines);
    // Programs of the system have no shims.
    fs::write(project.root.join("mise.toml"), "").unwrap();
    assert_eq!(passing(&project, &["git --version", "make --version"]).len(), 2);
}

#[test]
fn listings_and_single_variables_need_no_question() {
    let project = Project::new();
    let lines = [
        "printenv PATH",
        "printenv HOME LANG",
        "tar tf x.tar",
        "tar -tzf out.tgz | head",
        "tar --list --file=x.tar",
        "unzip -l x.zip",
        "ps aux",
        "ps aux | grep cargo",
        "ps -ef | head -5",
        "strings a.txt",
        "strings -n 8 a.txt | head",
        "python3 -m json.tool a.json",
        "cat a.json | python3 -m json.tool --indent 2",
        "help cd",
    ];
    assert_eq!(passing(&project, &lines), lines);
}

#[test]
fn listings_that_start_programs_write_files_or_show_secrets_are_asked_about() {
    let project = Project::new();
    let lines = [
        "printenv",
        "printenv GITHUB_TOKEN",
        "printenv DATABASE_URL",
        "env | grep PATH",
        "tar xf x.tar",
        "tar tf x.tar --to-command=./evil",
        "tar tf x.tar -I ./evil",
        "tar tf x.tar --use-compress-program=./evil",
        "tar tf x.tar --checkpoint=1 --checkpoint-action=exec=./evil",
        "tar tf host:x.tar",
        "tar tf ../x.tar",
        "tar tf x.tar --index-file=a.txt",
        "tar tf .env",
        "TAR_OPTIONS=-I./evil tar tf x.tar",
        "unzip x.zip",
        "unzip -p x.zip",
        "unzip -lo x.zip",
        "unzip -l '*.zip'",
        "unzip -l ../x.zip",
        "ps e",
        "ps auxe",
        "ps -eo pid,environ",
        "strings .env",
        "strings @a.txt",
        "strings -T x a.txt",
        "strings ../a.txt",
        "python3 -m json.tool a.json b.txt",
        "python3 -m json.tool .env",
        "python3 -m json.tool ../a.json",
        "python3 -m json a.json",
        "cd py && python3 -m json.tool ../a.json",
        "PYTHONPATH=py python3 -m json.tool a.json",
        "less a.txt",
    ];
    let passed = passing(&project, &lines);
    assert!(passed.is_empty(), "{passed:#?}");
    for module in ["json.py", "argparse.pyc", "json.so"] {
        fs::write(project.root.join(module), "").unwrap();
        assert!(!passes(&project, "python3 -m json.tool a.json"), "{module}");
        fs::remove_file(project.root.join(module)).unwrap();
    }
    fs::create_dir(project.root.join("json")).unwrap();
    assert!(passes(&project, "python3 -m json.tool a.json"), "a folder is no module of its own");
    fs::write(project.root.join("json/__init__.py"), "").unwrap();
    assert!(!passes(&project, "python3 -m json.tool a.json"));
}

/// Writes an index of version 2 with these names.
fn track(project: &Project, names: &[&str]) {
    let mut bytes = b"DIRC\0\0\0\x02".to_vec();
    bytes.extend(u32::try_from(names.len()).unwrap().to_be_bytes());
    for name in names {
        let start = bytes.len();
        bytes.extend([0; 24]);
        bytes.extend(0o100_644_u32.to_be_bytes());
        bytes.extend([0; 34]);
        bytes.extend(name.as_bytes());
        bytes.push(0);
        while !(bytes.len() - start).is_multiple_of(8) {
            bytes.push(0);
        }
    }
    fs::write(project.root.join(".git/index"), bytes).unwrap();
}

#[test]
fn a_search_by_git_reads_tracked_files_only() {
    let project = Project::new();
    fs::write(project.root.join(".gitignore"), "").unwrap();
    let lines = [
        "git grep -n hello",
        "git grep hello -- .",
        "git -C src grep hello",
        "git grep --cached hello",
    ];
    track(&project, &["README.md", "src/main.rs"]);
    assert_eq!(passing(&project, &lines), lines, "untracked files with keys");
    let others = [
        "git grep --untracked hello",
        "git grep --untr hello",
        "git grep --no-index hello",
        "git grep --no-exclude-standard hello",
        "git grep --recurse-submodules hello",
        "GIT_INDEX_FILE=x git grep hello",
    ];
    let passed = passing(&project, &others);
    assert!(passed.is_empty(), "{passed:#?}");
    track(&project, &[".env", "README.md", "src/main.rs"]);
    let passed = passing(&project, &lines);
    assert_eq!(passed, ["git -C src grep hello"], "a tracked file with keys");
    let limited = ["git grep hello -- src", "git grep hello -- '*.rs'"];
    assert_eq!(passing(&project, &limited), limited);
}
