//! A permission for the first words of a command covers what these words say, and nothing that options make of it.

use crow_core::{
    ids::SessionId,
    permission::{Decision, PermissionMode, PermissionPolicy, PermissionRule, RuleSet},
};

use crate::project::Project;

/// What is allowed, and a line that does more than that.
const WIDER: [(&str, &str); 98] = [
    ("git grep", "git grep -iO./evil.sh x"),
    ("git grep", "git grep -O x"),
    ("git grep", "git grep --open-files-in-pager=./evil x"),
    ("git grep", "git grep --open=./evil x"),
    ("git grep", "git grep -hf patterns x"),
    ("git grep", "git grep --textconv x"),
    ("git grep", "git grep --no-index x"),
    ("git diff", "git diff --ext-diff"),
    ("git diff", "git diff --ext"),
    ("git diff", "git diff --textconv"),
    ("git diff", "git diff --output=a.txt"),
    ("git diff", "git diff --outp a.txt"),
    ("git diff", "git diff --no-index a.txt b.txt"),
    ("git diff", "git diff -Oorder"),
    ("git log", "git log -p --ext-diff"),
    ("git log", "git log --output=a.txt"),
    ("git log", "git log --show-signature"),
    ("git show", "git show --textconv HEAD"),
    ("git show", "git show --output a.txt"),
    ("git blame", "git blame --contents a.txt a.txt"),
    ("git blame", "git blame -S revs a.txt"),
    ("git cat-file", "git cat-file --filters HEAD:a.txt"),
    ("git cat-file", "git cat-file --textconv HEAD:a.txt"),
    ("git fetch", "git fetch --upload-pack=./evil ."),
    ("git fetch", "git fetch --upl ./evil ."),
    ("git fetch", "git fetch ext::./evil"),
    ("git ls-remote", "git ls-remote --upload-pack ./evil ."),
    ("git ls-remote", "git ls-remote --exec=./evil ."),
    ("git commit", "git commit -S./evil -m x"),
    ("git commit", "git commit --gpg-sign=x -m x"),
    ("git add", "git add --pathspec-from-file=a.txt"),
    ("git rev-parse", "git rev-parse --resolve-git-dir evil"),
    ("git ls-files", "git ls-files -X patterns"),
    ("make test", "make test -sE '$(shell ./evil)'"),
    ("make test", "make test --ev='$(shell ./evil)'"),
    ("make test", "make test --eval '$(shell ./evil)'"),
    ("make test", "make test -f evil.mk"),
    ("make test", "make test -sfevil.mk"),
    ("make test", "make test --file=evil.mk"),
    ("make test", "make test -C sub"),
    ("make test", "make test -kCsub"),
    ("make test", "make test --dir=sub"),
    ("make test", "make test -I sub"),
    ("make test", "make test evil"),
    ("make test", "make test -s evil"),
    ("make test", "make test -j 4 evil"),
    ("make test", "make test CC=./evil"),
    ("make test", "make test $x"),
    ("make", "make all SHELL=./evil"),
    ("just test", "just test -f evil.just"),
    ("just test", "just test evil"),
    ("just test", "just test --shell ./evil"),
    ("rake test", "rake test -r ./evil"),
    ("rake test", "rake test -e 'system(1)'"),
    ("mvn test", "mvn test exec:java"),
    ("mvn test", "mvn test -f sub/pom.xml"),
    ("mvn test", "mvn test -s settings.xml"),
    ("gradle test", "gradle test -I evil.gradle"),
    ("gradle test", "gradle test --init-script evil.gradle"),
    ("gradle test", "gradle test -p sub"),
    ("npm test", "npm test --prefix sub"),
    ("npm test", "npm test --prefix=sub"),
    ("npm test", "npm test -C sub"),
    ("npm test", "npm test --script-shell=./evil"),
    ("npm test", "npm test --script-s ./evil"),
    ("npm test", "npm test --node-options=--require=./evil.js"),
    ("npm test", "npm test --userconfig evil"),
    ("npm test", "npm test -- --config=evil.js"),
    ("npm run build", "npm run build -- --globalSetup ./evil.js"),
    ("npx jest", "npx jest -c evil.js"),
    ("npx jest", "npx jest --globalSetup=./evil.js"),
    ("npx eslint", "npx eslint --rulesdir evil ."),
    ("npx eslint", "npx eslint -c evil.js ."),
    ("npx eslint", "npx eslint -f ./evil.js ."),
    ("npx tsc", "npx tsc -p sub/tsconfig.json"),
    ("cargo test", "cargo test --config 'target.x.runner=\"./evil\"'"),
    ("cargo test", "cargo test --manifest-path sub/Cargo.toml"),
    ("cargo test", "cargo test -Zunstable-options"),
    ("cargo test", "cargo test -qC sub"),
    ("cargo clippy", "cargo clippy -- -Clinker=./evil"),
    ("cargo", "cargo +./evil test"),
    ("cargo test", "x=--config=evil; cargo test \"$x\""),
    ("cargo test", "cargo test --target-dir=.git/hooks"),
    ("go test", "go test -exec ./evil ./..."),
    ("go test", "go test --exec=./evil ./..."),
    ("go build", "go build -toolexec ./evil ./..."),
    ("go build", "go build -o .git/hooks/pre-commit ./cmd/server"),
    ("go test", "go test -C sub"),
    ("pytest", "pytest -p evil"),
    ("pytest", "pytest -qc evil.ini"),
    ("python -m pytest", "python -m pytest --rootdir=sub"),
    ("tar", "tar -cI./evil.sh -f a.tar ."),
    ("tar", "tar cIf ./evil a.tar ."),
    ("tar", "tar xf a.tar --to-comm=./evil"),
    ("sed", "sed -n '1e cmd' a.txt"),
    ("split", "split --filter='sh -c x' a.txt"),
    ("zip", "zip x.zip a.txt -T -TT ./evil"),
    ("gcc", "gcc -wrapper ./evil,-x -c a.c"),
];

/// More of them, of programs that read.
const WIDER_READERS: [(&str, &str); 28] = [
    ("gcc", "gcc -B./evil a.c"),
    ("gcc", "gcc -fplugin=./evil.so a.c"),
    ("gcc", "gcc @evil a.c"),
    ("gcc", "gcc -Wl,-plugin,./evil a.c"),
    ("gcc", "gcc -specs=evil a.c"),
    ("gcc", "gcc a.c -o .git/hooks/pre-commit"),
    ("rustc", "rustc -Clinker=./evil a.rs"),
    ("cmake", "cmake -P evil.cmake"),
    ("cmake", "cmake -E env ./evil"),
    ("cmake", "cmake -B build -DCMAKE_C_COMPILER_LAUNCHER=./evil"),
    ("sort", "sort --compress-program=./evil a.txt"),
    ("sort", "sort --compress-p ./evil a.txt"),
    ("rg", "rg --pre ./evil x"),
    ("rg", "rg --hostname-bin=./evil x"),
    ("rg", "rg -nz x"),
    ("fd", "fd -tx -x ./evil"),
    ("awk", "awk 'BEGIN{system(\"id\")}'"),
    ("awk", "awk -f evil.awk a.txt"),
    ("sed", "sed 's/a/b/w out' a.txt"),
    ("sed", "sed -f evil.sed a.txt"),
    ("sed", "sed -n '/x/e' a.txt"),
    ("xxd", "xxd -r a.txt out"),
    ("date", "date -s tomorrow"),
    ("file", "file -C -m magic"),
    ("tree", "tree -o out"),
    ("jq", "jq -n env"),
    ("yq", "yq -i '.a = 1' a.json"),
    ("uniq", "uniq a.txt out"),
];

/// What is allowed, and a line that is just that.
const COVERED: [(&str, &str); 48] = [
    ("git grep", "git grep -in -A2 x -- src"),
    ("git diff", "git diff --stat -M HEAD~1 -- src"),
    ("git diff", "git diff --cached --name-only"),
    ("git log", "git log --oneline -n 5 --author=x --since '2 weeks' -S word"),
    ("git log", "git log -10 --format='%h %s' --graph --all"),
    ("git log", "git log -p -3 --follow a.txt"),
    ("git show", "git show --stat HEAD"),
    ("git status", "git status -sb --untracked-files=no"),
    ("git commit", "git commit -am 'fix: x' --no-verify"),
    ("git commit", "git commit --amend --no-edit"),
    ("git commit", "git commit -m \"$MESSAGE\""),
    ("git fetch", "git fetch --all --prune"),
    ("git add", "git add -A ."),
    ("git blame", "git blame -L 1,20 a.txt"),
    ("make test", "make test"),
    ("make test", "make test -j4 -k"),
    ("make test", "make test -j 4 --silent"),
    ("make build test", "make build test"),
    ("just test", "just test --verbose"),
    ("mvn test", "mvn test -q -DskipTests"),
    ("gradle test", "gradle test --info --no-daemon"),
    ("npm test", "npm test --silent"),
    ("npm test", "npm test -- --coverage src/App.test.tsx"),
    ("npm test", "npm test --workspace web"),
    ("npm run build", "npm run build --if-present"),
    ("npm install", "npm install -D @types/node"),
    ("npx jest", "npx jest --coverage -t 'a name' src"),
    ("npx tsc", "npx tsc --noEmit"),
    ("npx prettier", "npx prettier --check ."),
    ("npx unknown-tool", "npx unknown-tool --any-option"),
    ("cargo test", "cargo test -p core --lib -- --nocapture name"),
    ("cargo test", "cargo test \"$TEST_NAME\""),
    ("cargo clippy", "cargo clippy --all-targets -- -D warnings"),
    ("cargo run", "cargo run --release -- --config x"),
    ("cargo build", "cargo build --features a,b --target-dir out"),
    ("go test", "go test -race -run 'TestA|TestB' -count=1 ./..."),
    ("go build", "go build -o bin/server ./cmd/server"),
    ("pytest", "pytest -xvs -k name --tb=short tests"),
    ("python -m pytest", "python -m pytest -q tests"),
    ("poetry run pytest", "poetry run pytest -q"),
    ("uv run pytest", "uv run pytest -x"),
    ("tar", "tar czf out.tgz src"),
    ("tar", "tar -xzf a.tgz --strip-components=1"),
    ("gcc", "gcc -O2 -Wall -std=c11 -Iinclude -c a.c -o a.o"),
    ("cmake", "cmake -S . -B build -DCMAKE_BUILD_TYPE=Release"),
    ("cmake", "cmake --build build -j 4 --target all"),
    ("kubectl get", "kubectl get pods -n web -o yaml"),
    ("terraform plan", "terraform plan -out=plan.bin -input=false"),
];

fn allowing(prefix: &str) -> PermissionPolicy {
    let rule = PermissionRule::allow_bash_prefix(prefix.split(' '));
    PermissionPolicy::new(PermissionMode::Ask).with_rules(RuleSet::new([rule]).unwrap())
}

#[test]
fn an_option_that_does_more_than_the_permission_says_is_asked_about() {
    let project = Project::new();
    let passed: Vec<&str> = WIDER
        .into_iter()
        .chain(WIDER_READERS)
        .filter(|(prefix, text)| {
            let line = project.line(text);
            // Where reads are held by the kernel, too.
            [allowing(prefix), allowing(prefix).with_read_sandbox(true)]
                .iter()
                .any(|policy| matches!(project.decide(policy, &line), Decision::Allow(_)))
        })
        .map(|(_, text)| text)
        .collect();
    assert!(passed.is_empty(), "{passed:#?}");
}

#[test]
fn options_that_only_choose_are_covered_by_the_permission() {
    let project = Project::new();
    let asked: Vec<String> = COVERED
        .into_iter()
        .filter_map(|(prefix, text)| match project.decide(&allowing(prefix), &project.line(text)) {
            Decision::Allow(_) => None,
            Decision::Ask(ask) => Some(format!("{text}: {}", ask.reason)),
            Decision::Deny(_) => Some(format!("{text}: denied")),
        })
        .collect();
    assert!(asked.is_empty(), "{asked:#?}");
}

#[test]
fn what_is_offered_for_a_command_covers_no_wider_one() {
    let project = Project::new();
    for (asked, wider) in [
        ("git grep -n x", "git grep -nO./evil x"),
        ("make test", "make test evil"),
        ("make build test", "make build evil"),
        ("npm test", "npm test --prefix sub"),
        ("cargo test", "cargo test --config x"),
        ("gcc -c a.c", "gcc -wrapper ./evil -c a.c"),
        ("zip x.zip a.txt", "zip x.zip a.txt -T -TT ./evil"),
    ] {
        let mut policy = PermissionPolicy::new(PermissionMode::Ask);
        let line = project.line(asked);
        let Decision::Ask(ask) = project.decide(&policy, &line) else { panic!("{asked} passes") };
        let offer = ask.offers.first().unwrap_or_else(|| panic!("nothing is offered for {asked}"));
        policy.grant(&SessionId::new("session"), &offer.grants);
        assert!(matches!(project.decide(&policy, &line), Decision::Allow(_)), "{asked}");
        let decision = project.decide(&policy, &project.line(wider));
        assert!(!matches!(decision, Decision::Allow(_)), "{wider}");
    }
    for asked in
        ["less a.txt", "concurrently 'npm run a'", "make -f x.mk all", "split --filter=x a.txt"]
    {
        let policy = PermissionPolicy::new(PermissionMode::Ask);
        let decision = project.decide(&policy, &project.line(asked));
        assert!(matches!(decision, Decision::Ask(ask) if ask.offers.is_empty()), "{asked}");
    }
}
