use super::call::{Call, policy, policy_in};
use crate::{
    permission::{
        CustomMatcher, PermissionMode, PermissionRule, RuleDecision, RuleMatcher, RuleRegex,
    },
    tool_types::{Access, CommandMeaning},
};
use RuleDecision::{Allow, AskUser, Deny};

fn regex(pattern: &str, decision: RuleDecision) -> PermissionRule {
    let regex = RuleRegex::new(pattern).expect("a sound pattern");
    PermissionRule::new(format!("{pattern} {decision:?}"), RuleMatcher::Regex(regex), decision)
}

#[test]
fn a_prefix_allows_only_commands_that_begin_with_it() {
    let policy = policy([
        PermissionRule::allow_bash_prefix(["git", "log"]),
        PermissionRule::allow_bash_prefix(["cargo", "test"]),
        PermissionRule::allow_bash_prefix(["ls"]),
    ]);
    for (line, wanted) in [
        ("git log", Allow),
        ("git log --oneline $N", Allow),
        ("git logs", AskUser),
        ("git", AskUser),
        ("git $SUB", AskUser),
        ("$GIT log", AskUser),
        ("git -c core.pager=x log", AskUser),
        ("./git log", AskUser),
        ("/usr/bin/git log", AskUser),
        ("git_log", AskUser),
        ("cargo test ; git log", Allow),
        ("cargo test ; git log ; rm x", AskUser),
        ("rm x ; ls", AskUser),
        ("ls >/dev/null", Allow),
        ("ls >out", AskUser),
        ("ls >$OUT", AskUser),
        ("ls <in", Allow),
        ("RUST_LOG=debug cargo test", Allow),
        ("RUST_LOG=debug PATH=/x cargo test", AskUser),
        ("GIT_PAGER=x git log", AskUser),
    ] {
        assert_eq!(Call::bash(line).outcome(&policy), wanted, "{line}");
    }
}

#[test]
fn commands_without_effect_need_no_rule_beside_an_allowed_one() {
    let policy = policy([PermissionRule::allow_bash_prefix(["ls"])]);
    for (line, wanted) in [
        ("cd sub/x ; ls", Allow),
        ("cd /q ; ls", AskUser),
        ("cd .. ; ls", AskUser),
        ("cd - ; ls", AskUser),
        ("cd $X ; ls", AskUser),
        ("cd ; ls", AskUser),
        ("echo $X ; ls ; true", Allow),
        ("CI=1 ; ls", Allow),
        ("cd /q ; pwd", AskUser),
        ("echo x >f ; ls", AskUser),
        ("PATH=/q ; ls", AskUser),
        ("LD_PRELOAD=/q echo ; ls", AskUser),
        ("test -f $X ; ls", AskUser),
        ("printf $X ; ls", AskUser),
        ("printf -vPATH q ; ls", AskUser),
        ("wait -pPATH ; ls", AskUser),
        ("test -f x ; ls", Allow),
        ("printf -v 'a[$(id)]' ; ls", AskUser),
        ("test -v a[`id`] ; ls", AskUser),
    ] {
        assert_eq!(Call::bash(line).outcome(&policy), wanted, "{line}");
    }
}

#[test]
fn a_line_is_denied_if_one_of_its_commands_is() {
    let policy = policy_in(
        PermissionMode::FullAuto,
        [
            PermissionRule::allow_tool("bash"),
            PermissionRule::deny_bash_prefix(["rm"]),
            PermissionRule::deny_bash_prefix(["git", "push"]),
            PermissionRule::deny_bash_prefix(["docker", "compose", "down"]),
        ],
    );
    for (line, wanted) in [
        ("ls ; rm x", Deny),
        ("/bin/rm x", Deny),
        ("../rm", Deny),
        ("rm >f", Deny),
        ("PATH=/q rm x", Deny),
        ("rmdir x", Allow),
        ("git push", Deny),
        ("git -C sub push origin", Deny),
        ("git --no-pager push", Deny),
        ("git commit -m push", Allow),
        ("docker compose -f x down", Deny),
        ("docker compose up down", Allow),
        ("$RM x", AskUser),
    ] {
        assert_eq!(Call::bash(line).outcome(&policy), wanted, "{line}");
    }
}

#[test]
fn a_word_that_may_be_a_denied_one_is_asked_about_in_every_mode() {
    let rules = || {
        [
            PermissionRule::allow_bash_prefix(["git"]),
            PermissionRule::deny_bash_prefix(["git", "push"]),
        ]
    };
    let asking = policy(rules());
    assert_eq!(Call::bash("git log $X").outcome(&asking), Allow);
    assert_eq!(Call::bash("git $X").outcome(&asking), AskUser);
    assert_eq!(Call::bash("git -C $X log").outcome(&asking), AskUser);
    assert_eq!(Call::bash("git push $X").outcome(&asking), Deny);
    let harmless = policy([
        PermissionRule::allow_bash_prefix(["ls"]),
        PermissionRule::deny_bash_prefix(["echo", "x"]),
    ]);
    assert_eq!(Call::bash("echo y ; ls").outcome(&harmless), Allow);
    assert_eq!(Call::bash("echo $X ; ls").outcome(&harmless), AskUser);
    let free = policy_in(PermissionMode::FullAuto, rules());
    assert_eq!(Call::bash("git $X").outcome(&free), AskUser);
    assert_eq!(Call::bash("git log $X").outcome(&free), Allow);
}

#[test]
fn a_rule_that_asks_about_a_prefix_asks_in_every_mode() {
    let policy =
        policy_in(PermissionMode::FullAuto, [PermissionRule::ask_for_bash_prefix(["git", "push"])]);
    for (line, wanted) in [
        ("git push", AskUser),
        ("/usr/bin/git -C x push", AskUser),
        ("git $X", AskUser),
        ("git log", Allow),
        ("ls ; git push", AskUser),
    ] {
        assert_eq!(Call::bash(line).outcome(&policy), wanted, "{line}");
    }
}

#[test]
fn an_unparsed_line_is_allowed_by_no_narrow_rule() {
    let narrow =
        [PermissionRule::allow_bash_prefix(["ls"]), regex("^ls", Allow), regex(".*", Allow)];
    assert_eq!(Call::unclear("ls").outcome(&policy(narrow.clone())), AskUser);
    assert_eq!(Call::unclear("ls").outcome(&policy_in(PermissionMode::FullAuto, narrow)), Allow);
    let whole = policy([PermissionRule::allow_tool("bash")]);
    assert_eq!(Call::unclear("ls").outcome(&whole), Allow);
}

#[test]
fn a_denial_matches_an_unparsed_line_that_mentions_its_command() {
    let policy = policy_in(
        PermissionMode::FullAuto,
        [PermissionRule::deny_bash_prefix(["git", "push"]), regex("^rm -r", Deny)],
    );
    for (line, wanted) in [
        ("git push <<(x", Deny),
        ("a && (cd b; /usr/bin/git -C b push)", Deny),
        ("g''it \"push\"", Deny),
        ("gi\\\nt push", Deny),
        ("X=$(git push)", Deny),
        ("{git,push}", Deny),
        ("sh -c {git\\ push,}", Deny),
        ("q() { git $1; }; q push", AskUser),
        ("git log; echo push", AskUser),
        ("rm -rf x", Deny),
        ("ls; rm -r x", Deny),
        ("r\\m -r x", Deny),
        ("ls; rm x", AskUser),
    ] {
        assert_eq!(Call::unclear(line).outcome(&policy), wanted, "{line}");
    }
}

#[test]
fn a_pattern_sees_each_command_and_never_the_line() {
    let policy = policy([
        regex("^git (log|status)( |$)", Allow),
        regex("^npm run [a-z]+$", Allow),
        regex("--force", Deny),
        regex("^curl ", Deny),
    ]);
    for (line, wanted) in [
        ("git log -n1", Allow),
        ("git log ; npm run build", Allow),
        ("git log ; ls", AskUser),
        ("ls ; git log", AskUser),
        ("git log $X", AskUser),
        ("git_log x", AskUser),
        ("git log >f", AskUser),
        ("npm run build x", AskUser),
        ("git push --force", Deny),
        ("git $X --force", Deny),
        ("/usr/bin/curl x", Deny),
    ] {
        assert_eq!(Call::bash(line).outcome(&policy), wanted, "{line}");
    }
}

#[test]
fn a_pattern_for_commands_matches_no_path() {
    let rule = |decision| {
        let pattern = RuleRegex::new("^make$").expect("a sound pattern");
        let matcher = RuleMatcher::CommandRegex(pattern);
        policy([PermissionRule::new("make", matcher, decision)])
    };
    for (decision, of_path) in [(Allow, AskUser), (Deny, AskUser)] {
        assert_eq!(Call::bash("make").outcome(&rule(decision)), decision);
        assert_eq!(Call::write("/p/make").outcome(&rule(decision)), of_path);
    }
    assert_eq!(Call::bash("ls ; make").outcome(&rule(Deny)), Deny);
    assert_eq!(Call::bash("make all").outcome(&rule(Allow)), AskUser);
}

#[test]
fn a_line_without_commands_is_allowed_by_no_prefix() {
    let empty = Call::shell("# nothing", CommandMeaning::Commands(Vec::new()));
    let narrow = policy([PermissionRule::allow_bash_prefix(["ls"]), regex("", Allow)]);
    assert_eq!(empty.outcome(&narrow), AskUser);
    assert_eq!(empty.outcome(&policy([PermissionRule::allow_tool("bash")])), Allow);
}

#[test]
fn a_redirect_into_a_denied_place_is_denied() {
    let policy = policy_in(
        PermissionMode::FullAuto,
        [
            PermissionRule::deny_path(Access::Write, "/p/keys"),
            PermissionRule::deny_path(Access::Read, "secret"),
        ],
    );
    for (line, wanted) in [
        ("echo x >keys/a", Deny),
        ("echo x >/p/keys", Deny),
        ("cat <keys/a", Allow),
        ("cat <secret/a", Deny),
        ("echo x >other", Allow),
    ] {
        assert_eq!(Call::bash(line).outcome(&policy), wanted, "{line}");
    }
}

#[test]
fn a_function_sees_the_facts_of_the_call() {
    let matcher = CustomMatcher::new("short lines", |facts| facts.plan.title.len() < 3);
    let rule = PermissionRule::new("short", RuleMatcher::Custom(matcher), Allow);
    let policy = policy([rule]);
    let mut call = Call::bash("make");
    assert_eq!(call.outcome(&policy), Allow);
    call.plan.title = "make".into();
    assert_eq!(call.outcome(&policy), AskUser);
}
