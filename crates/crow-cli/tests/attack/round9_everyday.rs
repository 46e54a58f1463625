//! Ordinary work in the territory of the ninth round; none of it may need a question or be undone by a check.

use serde_json::json;

use crate::{attack::Attack, round8_killed::kernels, scene::Kernel, trial_runner::try_all};

const REPOSITORY: &str = "rm -rf .git; git init -q -b main .; git config user.email a@b.invalid; git config user.name a; git config rerere.enabled true; mkdir -p src tests; echo one > a.txt; echo two > src/b.txt; \
     printf 'def f():\\n    return 1\\n' > tests/conftest.py; printf '{\"name\": \"x\", \"version\": \"1.0.0\", \"scripts\": {\"test\": \"node -e 0\"}}' > package.json; git add -A; git commit -qm x; git checkout -q -b side; echo s > a.txt; git commit -qam side; git checkout -q main; echo m > a.txt; git commit -qam main";
/// Lines of full-auto that change files of the project and its repository.
const WORKS: &[&str] = &[
    "git merge side >/dev/null || { echo both > a.txt; git add a.txt; git commit -qm merged; }; git reset -q --hard HEAD~1; git merge side >/dev/null || grep -q both a.txt; git merge --abort",
    "git format-patch -q -1 -o $TMPDIR/p side; git checkout -q -b am side~1; git am -q $TMPDIR/p/*.patch; git log -1 --format=%s | grep -q side; git checkout -q main",
    "git bundle create -q x.bundle --all; git clone -q x.bundle c; git -C c log -1 --format=%s | grep -q main; git fetch -q x.bundle side; rm -rf c x.bundle",
    "echo x >> a.txt; echo n > new; git stash -qu; git stash show -p stash@{0} | grep -q x; git stash branch tried -q 2>/dev/null || git stash branch tried; git checkout -q -f main; git clean -fdq",
    "git worktree add -q $TMPDIR/wt side; (cd $TMPDIR/wt && git status --short); git worktree list | wc -l | grep -q 2; git worktree remove -f $TMPDIR/wt; git worktree prune",
    "git cherry-pick side >/dev/null || { echo picked > a.txt; git add a.txt; GIT_EDITOR=true git cherry-pick --continue >/dev/null; }; git revert --no-edit HEAD >/dev/null; git log -1 --format=%s | grep -q Revert",
    "git bisect start -q HEAD HEAD~2 >/dev/null; git bisect run test -e a.txt >/dev/null || true; git bisect reset >/dev/null 2>&1",
    "git notes add -m note HEAD; git notes show | grep -q note; git tag -a v9 -m nine; git describe | grep -q v9; git replace -l; git notes remove HEAD",
    "git maintenance run --task=gc -q 2>/dev/null || git gc -q; git repack -adq; git multi-pack-index write; git commit-graph write --reachable; git fsck --no-dangling",
    "git archive HEAD | tar t | grep -q src/b.txt; git rm -q --cached package.json; git reset -q; git mv src/b.txt src/c.txt; git reset -q --hard",
    "a=(one two 'three four'); a+=(five); for x in \"${a[@]}\"; do echo \"$x\"; done | wc -l | grep -q 4; declare -A m=([k]=v); echo ${m[k]} > m.txt; rm m.txt",
    "paste <(sort a.txt) <(sort src/b.txt) > both.txt; tee >(wc -l > n.txt) < a.txt >/dev/null; sleep 0.1; rm both.txt n.txt",
    "cat > gen.sh <<'EOF'\n#!/bin/sh\nset -eu\ntrap 'rm -f t' EXIT\n: > t\necho made\nEOF\nsh gen.sh | grep made; rm gen.sh",
    "shopt -s extglob globstar nullglob\nls -d !(none) **/*.txt >/dev/null\nshopt -u extglob",
    "coproc cat; echo hi >&${COPROC[1]}; read -r x <&${COPROC[0]}; [ \"$x\" = hi ]; kill %1 2>/dev/null; wait 2>/dev/null; true",
    "alias l=ls; f() { local x=${1:-a.txt}; cat \"$x\"; }; f; f src/b.txt; printf -v y '%s' z; echo $y $'\\t' $\"text\"",
    "n=$(printf 'n%.0s' $(seq 250)); mkdir $n; echo x > $n/$n; cat $n/$n; rm -r $n; mkdir $'b\\xff'; touch $'b\\xff/c\\xfe'; rm -r $'b\\xff'; touch README readme; rm README readme",
    "sqlite3 t.db 'create table t(x); insert into t values (1); select * from t' | grep 1; rm t.db",
    "python3 -c \"import tempfile, shutil, os; d = tempfile.mkdtemp(); open(d + '/x', 'w').close(); os.rename(d + '/x', d + '/y'); shutil.rmtree(d); os.mkdir('build'); os.rmdir('build')\"",
    "python3 -c \"import sys; sys.path.insert(0, 'tests'); import conftest; print(conftest.f())\"; rm -rf tests/__pycache__",
    "node -e \"const fs = require('fs'); fs.writeFileSync('o.js', 'module.exports = 1'); console.log(require('./o.js')); fs.rmSync('o.js'); new (require('worker_threads').Worker)('process.exit()', {eval: true})\"",
    "npm test --silent; npm pkg set description=x --silent; git checkout -q package.json",
    "printf 'int main(void){return 0;}' > m.c; cc -g m.c -o m 2>/dev/null && ./m; rm -f m m.c",
    "mkdir -p .config/app target; echo 'x = 1' > .config/app/settings.toml; echo '{}' > tsconfig.json; echo 'export default {}' > vite.config.ts; echo 'default:' > justfile; echo 'version: 3' > Taskfile.yml; echo 'A=b' > .env.example; rm -r .config tsconfig.json vite.config.ts justfile Taskfile.yml .env.example target",
    "timeout 5 sh -c 'sleep 0.1'; nice -n 5 true; (ulimit -n 100; true); nohup true >/dev/null; setsid true; flock -n a.txt true; time true",
    "(trap 'exit 0' TERM; kill -TERM $BASHPID; sleep 1) & wait $!; kill -0 $$; jobs; wait",
    "mkfifo p; (echo hi > p &); cat p; rm p; ln -s src l; (cd l && ls); rm l; truncate -s 1M big; rm big; dd if=/dev/urandom of=r bs=1k count=1 status=none; rm r",
    "find . -name '*.txt' -newer package.json -exec grep -l one {} + ; grep -rn --include='*.py' def . | sed 's/:.*//' | sort -u; xargs -n1 echo < a.txt",
];
/// Lines of full-auto that need sockets or semaphores.
const SOCKETS: &[&str] = &[
    "python3 - <<'E'\nimport socket, threading, os\ns = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen()\nthreading.Thread(target=lambda: s.accept()[0].send(b'hi')).start()\nc = socket.create_connection(s.getsockname()); assert c.recv(2) == b'hi'\nos.umask(0o22); u = socket.socket(socket.AF_UNIX); u.bind('u.sock'); os.unlink('u.sock')\nE",
    "python3 -c \"import multiprocessing as m, mmap, os; p = m.Pool(2); print(sum(p.map(abs, range(9)))); f = os.memfd_create('x'); os.ftruncate(f, 4096); mmap.mmap(f, 4096)[:2] = b'hi'\"",
    "tmux -S ./t.sock new -d 'sleep 1' && tmux -S ./t.sock ls; tmux -S ./t.sock kill-server; rm -f t.sock",
    "curl -s -m 1 http://127.0.0.1:9/ || true; python3 -c 'import socket; socket.getaddrinfo(\"localhost\", 80)'",
];
/// Lines of ask that only read.
const READS: &[&str] = &[
    "x=a.txt; cat \"$x\"; y=$(wc -l < a.txt); echo \"$y\"",
    "for f in src/*; do printf '%s\\n' \"$f\"; done",
    "while IFS= read -r line; do printf '%s\\n' \"$line\"; done < a.txt",
    "case $(wc -l < a.txt) in 1) echo one ;; *) echo more ;; esac",
    "[[ -e a.txt && ! -d a.txt ]] && cat a.txt || echo none",
    "if grep -q m a.txt; then head -1 src/b.txt; fi",
    "diff <(cat a.txt) <(cat src/b.txt) || true",
    "cat <<EOF\n$(head -1 a.txt)\nEOF",
    "cat package.json | grep -c name; sort a.txt src/b.txt | uniq",
];
/// Lines of ask that read with git, which can start programs: they pass where the sandbox keeps these from changing anything.
const GIT_READS: &[&str] = &[
    "git stash list; git branch -a",
    "git worktree list; git rev-parse HEAD",
    "git log --oneline --all | head -5; git show side:a.txt",
];

fn on(kernel: Kernel, attack: Attack) -> Attack {
    match kernel {
        Kernel::AsItIs => attack,
        Kernel::WithoutNamespaces => attack.without_namespaces(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ordinary_work_beside_the_ninth_round_needs_no_question() {
    let cases = kernels("ordinary work").into_iter().flat_map(|kernel| {
        let (sockets, git_reads) = match kernel {
            Kernel::AsItIs => (SOCKETS, GIT_READS),
            Kernel::WithoutNamespaces => (&[][..], &[][..]),
        };
        let works =
            WORKS.chunks(10).chain(sockets.chunks(10)).enumerate().map(move |(number, lines)| {
                let new = Attack::works(format!("{kernel:?} works {number}"), "full-auto");
                lines
                    .iter()
                    .fold(new, |attack, line| attack.line(&format!("set -e\n{line}")))
                    .hides("moved aside")
                    .hides("put back")
                    .after("git fsck >/dev/null 2>&1; git status >/dev/null")
            });
        let reads = Attack::works(format!("{kernel:?} reads"), "ask");
        let reads = READS.iter().chain(git_reads).fold(reads, |attack, line| attack.line(line));
        let edits = Attack::works(format!("{kernel:?} edits"), "accept-edits")
            .call("write_file", json!({"path": "tests/unit/conftest.py", "content": "x = 1\n"}))
            .call("write_file", json!({"path": "vite.config.ts", "content": "export default {}\n"}))
            .call("write_file", json!({"path": "justfile", "content": "default:\n"}))
            .call("write_file", json!({"path": "src/naïve größe.txt", "content": "x\n"}))
            .call("read_file", json!({"path": "a.txt"}))
            .call("edit_file", json!({"path": "a.txt", "old_string": "m", "new_string": "n"}));
        works
            .chain([reads, edits])
            .map(|attack| on(kernel, attack.before(REPOSITORY)))
            .collect::<Vec<_>>()
    });
    try_all(cases.collect()).await;
}
