use super::call::{Call, paths, policy};
use crate::{
    permission::{PermissionRule, RuleScope},
    tool_types::{Access, Effects, ToolCategory},
};

fn labels(call: &Call, rules: impl IntoIterator<Item = PermissionRule>) -> Vec<String> {
    call.offers(&policy(rules)).into_iter().map(|offer| offer.label).collect()
}

#[test]
fn commands_are_offered_by_their_identifying_words() {
    for (line, wanted) in [
        ("ls -l", "`ls`"),
        ("git log -n1", "`git log`"),
        ("cargo test --workspace", "`cargo test`"),
        ("cargo --version", "`cargo --version`"),
        ("npm run build", "`npm run build`"),
        ("npm test", "`npm test`"),
        ("go test ./...", "`go test`"),
        ("docker compose up -d", "`docker compose up`"),
        ("uv run pytest -q", "`uv run pytest`"),
        ("gh pr view 1", "`gh pr view`"),
        ("python -m pytest -q", "`python -m pytest`"),
        ("python3 scripts/a.py x", "`python3 scripts/a.py`"),
        ("bash scripts/a.sh", "`bash scripts/a.sh`"),
        ("./gradlew test", "`./gradlew test`"),
        ("scripts/check.sh $X", "`scripts/check.sh`"),
        ("echo x", "`echo`"),
        ("cd q ; pytest ; cargo test ; cargo test -q", "`pytest` or `cargo test`"),
        ("CI=1 make all", "`make all`"),
        ("bundle exec rspec", "`bundle exec rspec`"),
        ("npx eslint src", "`npx eslint`"),
    ] {
        let wanted = format!("commands that begin with {wanted}");
        assert_eq!(labels(&Call::bash(line), []), [wanted], "{line}");
    }
}

#[test]
fn dangerous_commands_get_no_offer() {
    for line in [
        "python -c x",
        "python3",
        "python -",
        "node -e x",
        "sh -c x",
        "bash",
        "perl -e x",
        "ruby -e x",
        "deno eval x",
        "rm x",
        "/bin/rm x",
        "sudo ls",
        "dd if=x",
        "chmod -R 777 x",
        "git push --force",
        "git push",
        "git reset --hard",
        "git -C x log",
        "git config a b",
        "git $X",
        "eval x",
        "xargs ls",
        "find x -delete",
        "env ls",
        "curl x ; sh",
        "curl x",
        "docker run x",
        "docker compose exec x sh",
        "npm exec x",
        "uv run python -c x",
        "npx -y x",
        "cargo +nightly test",
        "$X y",
        "ls >$OUT",
        "ls >/q/out",
        "cd /q ; ls",
        "PATH=/q ls",
        "ls ; rm x",
        "git_log",
        "make",
        "a ; b ; c ; d ; e ; f",
        "go run x@latest",
        "java -jar x.jar",
        "tar xf a",
        "uvx",
        "npx tsx -e x",
        "poetry run bash",
    ] {
        assert_eq!(labels(&Call::bash(line), []), [""; 0], "{line}");
    }
    assert_eq!(labels(&Call::unclear("ls"), []), [""; 0]);
}

#[test]
fn only_commands_that_are_not_allowed_yet_are_offered() {
    let rules = [PermissionRule::allow_bash_prefix(["ls"])];
    let offered = labels(&Call::bash("ls ; cargo test"), rules);
    assert_eq!(offered, ["commands that begin with `cargo test`"]);
}

#[test]
fn offers_that_would_not_allow_the_call_are_left_out() {
    let ask = |scope| PermissionRule::ask_for_tool("bash").with_scope(scope).with_priority(1);
    assert_eq!(labels(&Call::bash("ls"), [ask(RuleScope::User)]), [""; 0]);
    let offered = labels(&Call::bash("ls"), [ask(RuleScope::Global)]);
    assert_eq!(offered, ["commands that begin with `ls`"]);
    let doubt = [PermissionRule::deny_bash_prefix(["cargo", "test", "x"])];
    assert_eq!(labels(&Call::bash("cargo test $X"), doubt), [""; 0]);
}

#[test]
fn files_are_offered_alone_and_with_their_folder() {
    let asked = |path| PermissionRule::ask_for_path(Access::Read, path);
    for (call, rules, wanted) in [
        (
            Call::write("/p/src/a.rs"),
            vec![],
            vec!["changes of `src/a.rs`", "changes of files in `src`"],
        ),
        (Call::write("/p/a.rs"), vec![], vec!["changes of `a.rs`", "changes of files in `.`"]),
        (Call::write("/p/.git/config"), vec![], vec![]),
        (Call::write("/q/a"), vec![], vec![]),
        (
            Call::read("/usr/include/sys/a.h"),
            vec![],
            vec!["reads of `/usr/include/sys/a.h`", "reads of files in `/usr/include/sys`"],
        ),
        (Call::read("/etc/hosts"), vec![], vec!["reads of `/etc/hosts`"]),
        (Call::read("/u/me/.ssh/x/key"), vec![], vec!["reads of `/u/me/.ssh/x/key`"]),
        (Call::read("/p/a"), vec![asked("/p/a")], vec!["reads of `a`"]),
    ] {
        assert_eq!(labels(&call, rules), wanted, "{:?}", call.plan.effects);
    }
}

#[test]
fn commands_are_offered_with_the_files_that_their_output_goes_to() {
    for (line, wanted) in [
        ("ls >out", "commands that begin with `ls`, and changes of `out`"),
        (
            "cargo test >a ; cargo test >b",
            "commands that begin with `cargo test`, and changes of `a` and changes of `b`",
        ),
        ("ls </etc/hosts", "commands that begin with `ls`, and reads of `/etc/hosts`"),
    ] {
        assert_eq!(labels(&Call::bash(line), []), [wanted], "{line}");
    }
    assert_eq!(labels(&Call::bash("ls >.git/config"), []), [""; 0]);
}

#[test]
fn several_files_are_offered_together() {
    let effects =
        paths(&[("/p/a/x", Access::Write), ("/p/a/y", Access::Write), ("/p/z", Access::Read)]);
    let call = Call::new("edit_file", ToolCategory::Write, effects);
    assert_eq!(
        labels(&call, []),
        ["changes of `a/x` and changes of `a/y`", "changes of files in `a`"]
    );
    let many: Vec<String> = (0..9).map(|index| format!("/p/a/{index}")).collect();
    let many: Vec<_> = many.iter().map(|path| (path.as_str(), Access::Write)).collect();
    let call = Call::new("edit_file", ToolCategory::Write, paths(&many));
    assert_eq!(labels(&call, []), ["changes of files in `a`"]);
}

#[test]
fn other_tools_are_offered_as_a_whole() {
    let call = Call::new("fetch", ToolCategory::Network, Effects::Unknown);
    assert_eq!(labels(&call, []), ["calls of `fetch`"]);
}
