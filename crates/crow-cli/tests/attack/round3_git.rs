//! Programs that a command leaves in a repository, and the user's next hour with git.
//!
//! Each case has a preparation by the user, a command that plants something, and the same long list of git commands that the
//! user runs afterwards outside the sandbox. A planted program creates `{out}/pwned`, which the canaries detect.

use futures_util::StreamExt as _;

use crate::{
    attack::Attack,
    trial_runner::{has_full_sandbox, try_all},
};

/// Shell functions for the lines of both sides: `hook` writes a hook, `evil` creates a repository whose settings start a
/// program, `mark` adds such a setting to a file, `link` adds a submodule entry to the index.
const WORDS: &str = r#"
hook() { mkdir -p "$(dirname "$1")"; printf '#!/bin/sh\ntouch {out}/pwned\n' > "$1"; chmod +x "$1"; }
evil() { mkdir -p $1/hooks $1/objects $1/refs/heads; echo 'ref: refs/heads/main' > $1/HEAD; git config -f $1/config core.repositoryformatversion 0; git config -f $1/config core.bare false; git config -f $1/config core.fsmonitor 'touch {out}/pwned; false'; }
mark() { git config -f "$1" core.fsmonitor 'touch {out}/pwned; false'; }
link() { git update-index --add --cacheinfo 160000,1234567890123456789012345678901234567890,$1; }
"#;
/// Script that creates a repository with submodules in three layers and a second worktree.
const REPOSITORY: &str = "rm -rf .git; mk() { git init -q -b main $1; git -C $1 config user.email a@b; git -C $1 config user.name a; }; \
     mk .; mk sub; mk sub/deep; mk sub/deep/deeper; git -C sub/deep/deeper commit -q --allow-empty -m x; \
     for d in sub/deep sub .; do echo text > $d/a.txt; git -C $d add -A 2>/dev/null; git -C $d commit -qm x; done; \
     git worktree add -q wt 2>/dev/null; echo wt >> .git/info/exclude; mkdir -p tools cfg";
/// Script that moves the repositories of the submodules below `.git`, as `git submodule` creates them.
const ABSORBED: &str = "for d in sub sub/deep; do [ -d $d/.git ] && :; done; \
     printf '[submodule \"sub\"]\\n\\tpath = sub\\n\\turl = ./sub\\n' > .gitmodules; printf '[submodule \"deep\"]\\n\\tpath = deep\\n\\turl = ./deep\\n' > sub/.gitmodules; \
     printf '[submodule \"deeper\"]\\n\\tpath = deeper\\n\\turl = ./deeper\\n' > sub/deep/.gitmodules; git add .gitmodules; git -C sub add .gitmodules; git -C sub/deep add .gitmodules; \
     for d in sub/deep sub .; do git -C $d commit -qam modules; done; git submodule absorbgitdirs >/dev/null 2>&1; git submodule init -q; git -C sub submodule init -q; git -C sub/deep submodule init -q";
/// Commands that the user runs afterwards.
const USER: &str = r#"
set +e
export PAGER=cat EDITOR=true GNUPGHOME={project}/gnupg
u() { [ -e {out}/pwned ] || timeout 5 "$@" >/dev/null 2>&1 </dev/null; }
u git rebase --continue; u git status; u git st; echo b >> a.txt; echo b >> b.x; u git diff; u git add -A; u git commit -qS -m y --allow-empty
u git log -p -1; u script -qec 'git log -1' /dev/null; u git ls-remote; u git pull; u git push origin HEAD:refs/heads/pushed
u git commit --amend; u git checkout -q -b topic; u git stash
u git submodule update --init --recursive --force
for d in sub sub/deep sub/deep/deeper wt; do [ -d $d ] && (cd $d; u git commit --allow-empty -qm z; u git checkout -q -b t2); done
true
"#;

/// Name, preparation by the user, and the command that plants a program.
const PLANTED: &[(&str, &str, &str)] = &[
    // Location of the repository.
    (
        "a common directory with an absolute name",
        "",
        "evil evil; cp -r .git/refs .git/objects evil/; echo {project}/evil > .git/commondir",
    ),
    (
        "a common directory with a long way",
        "",
        "evil evil; cp -r .git/refs .git/objects evil/; printf '../cfg/.././evil///\\n\\n' > .git/commondir",
    ),
    (
        "a common directory by a link",
        "",
        "evil evil; cp -r .git/refs .git/objects evil/; ln -s ../evil .git/c; echo c > .git/commondir",
    ),
    (
        "a common directory that is a link",
        "",
        "evil evil; cp -r .git/refs .git/objects evil/; echo ../evil > cd; ln -s ../cd .git/commondir",
    ),
    (
        "a common directory with a name that is no text",
        "",
        "evil $'e\\xff'; cp -r .git/refs .git/objects $'e\\xff/'; printf '../e\\xff\\n' > .git/commondir",
    ),
    (
        "a file in the place of git",
        "",
        "cp -r .git g2; mark g2/config; mv .git g3; echo 'gitdir: g2' > .git",
    ),
    ("a link in the place of git", "", "cp -r .git g2; mark g2/config; mv .git g3; ln -s g2 .git"),
    (
        "a chain of links in the place of git",
        "",
        "cp -r .git g2; mark g2/config; mv .git g3; ln -s g2 l1; ln -s l1 l2; ln -s l2 .git",
    ),
    (
        "another repository exchanged for git",
        "",
        "cp -r .git g2; mark g2/config; python3 -c 'import ctypes; ctypes.CDLL(None).renameat2(-100, b\"g2\", -100, b\".git\", 2)'; [ -n \"$(git config core.fsmonitor)\" ] || { mv .git g3; mv g2 .git; }",
    ),
    (
        "a repository without a folder of its own",
        "",
        "cp -r .git g2; git config -f g2/config core.worktree .; mark g2/config; mv .git g3; cp -r g2/* .",
    ),
    // Submodules.
    (
        "the third submodule that leads elsewhere",
        "",
        "evil evil; mv sub/deep/deeper/.git old; echo 'gitdir: {project}/evil' > sub/deep/deeper/.git",
    ),
    (
        "the third submodule has settings",
        "",
        "mv sub/deep sub/d2; cp -r sub/d2 sub/deep; rm -rf sub/deep/deeper/.git/config; mark sub/deep/deeper/.git/config",
    ),
    ("the second submodule behind a link", "", "mv sub s2; ln -s s2 sub; mark s2/deep/.git/config"),
    (
        "a submodule whose repository is a link",
        "",
        "evil evil; mv sub/.git g2; ln -s ../evil sub/.git",
    ),
    (
        "a hook of a submodule",
        "",
        "rm -rf sub/.git/hooks; hook sub/.git/hooks/post-checkout; hook sub/.git/hooks/pre-commit",
    ),
    (
        "a common directory of a submodule",
        "",
        "evil evil; cp -r sub/.git/refs sub/.git/objects evil; echo {project}/evil > sub/.git/commondir",
    ),
    ("a new submodule in a submodule", "", "mkdir sub/new; evil sub/new/.git; (cd sub; link new)"),
    (
        "a new submodule in the third layer",
        "",
        "mkdir sub/deep/deeper/new; evil sub/deep/deeper/new/.git; (cd sub/deep/deeper; link new)",
    ),
    (
        "a new submodule as a conflict",
        "",
        "mkdir new; evil new/.git; printf '160000 1234567890123456789012345678901234567890 2\\tnew\\n160000 1234567890123456789012345678901234567891 3\\tnew\\n' | git update-index --index-info",
    ),
    (
        "a new submodule in an index of version 4",
        "",
        "mkdir -p d/e/new; evil d/e/new/.git; link d/e/new; git update-index --index-version 4",
    ),
    (
        "a new submodule in an index behind a link",
        "",
        "mkdir new; evil new/.git; link new; mv .git/index idx; ln -s ../idx .git/index",
    ),
    (
        "a new submodule in a split index behind a link",
        "",
        "mkdir new; evil new/.git; link new; git update-index --split-index; mv .git/sharedindex.* cfg/; for f in cfg/sharedindex.*; do ln -s ../$f .git/; done",
    ),
    (
        "a new submodule in an index without its sum",
        "",
        "mkdir new; evil new/.git; link new; python3 -c 'd=open(\".git/index\",\"rb\").read(); open(\".git/index\",\"wb\").write(d[:-20]+b\"\\0\"*20)'",
    ),
    (
        "a new submodule in a huge index",
        "",
        "mkdir new; evil new/.git; link new; python3 - <<'E'\nimport struct\nd=open('.git/index','rb').read()[:-20]\nn=20*1024*1024\nf=open('.git/index','wb')\nf.write(d+b'ZZZZ'+struct.pack('>I',n))\nf.truncate(len(d)+8+n+20)\nE",
    ),
    (
        "a new submodule in an index beyond all bounds",
        "",
        "mkdir new; evil new/.git; link new; python3 - <<'E'\nimport struct\nd=open('.git/index','rb').read()[:-20]\nn=260*1024*1024\nf=open('.git/index','wb')\nf.write(d+b'ZZZZ'+struct.pack('>I',n))\nf.truncate(len(d)+8+n+20)\nE",
    ),
    (
        "a new submodule with a name that is no text",
        "",
        "mkdir $'n\\xff'; evil $'n\\xff/.git'; link $'n\\xff'",
    ),
    (
        "a new submodule with a newline in its name",
        "",
        "mkdir $'n\\nw'; evil g2; echo 'gitdir: {project}/g2' > $'n\\nw/.git'; printf '160000 1234567890123456789012345678901234567890 0\\tn\\nw\\0' | git update-index -z --index-info",
    ),
    (
        "a new submodule behind many others",
        "",
        "mkdir -p m/zz; evil m/zz/.git; (for i in $(seq 20000); do echo \"160000 1234567890123456789012345678901234567890 0\tm/$i\"; done; echo \"160000 1234567890123456789012345678901234567890 0\tm/zz\") | git update-index --index-info",
    ),
    (
        "an absorbed submodule with settings",
        ABSORBED,
        "mv .git/modules/sub old; cp -r old .git/modules/sub; rm .git/modules/sub/config; mark .git/modules/sub/config; git config -f .git/modules/sub/config core.worktree ../../../sub",
    ),
    (
        "an absorbed submodule in the third layer",
        ABSORBED,
        "m=.git/modules/sub/modules/deep/modules; mv $m m2; cp -r m2 $m; mark $m/deeper/config",
    ),
    (
        "hooks of an absorbed submodule",
        ABSORBED,
        "m=.git/modules/sub/modules/deep; rm -rf $m/hooks; hook $m/hooks/pre-commit; hook $m/hooks/post-checkout",
    ),
    (
        "settings of a worktree of an absorbed submodule",
        ABSORBED,
        "m=.git/modules/sub; git config -f $m/config extensions.worktreeConfig true; mark $m/config.worktree; evil evil; cp -r $m/refs $m/objects evil; echo {project}/evil > $m/commondir",
    ),
    (
        "modules behind a link",
        ABSORBED,
        "mv .git/modules m2; ln -s ../m2 .git/modules; rm m2/sub/config; mark m2/sub/config; git config -f m2/sub/config core.worktree {project}/sub",
    ),
    (
        "a module that waits for its submodule",
        "",
        "git clone -q --bare .git .git/modules/late; git config -f .git/modules/late/config core.bare false; mark .git/modules/late/config; git config -f .git/modules/late/config core.worktree ../../../late; hook .git/modules/late/hooks/post-checkout; printf '[submodule \"late\"]\\n\\tpath = late\\n\\turl = ./late\\n' > .gitmodules; git update-index --add --cacheinfo 160000,$(git rev-parse HEAD),late; mkdir late; echo 'gitdir: ../.git/modules/late' > late/.git",
    ),
    // Worktrees.
    (
        "a worktree that leads elsewhere",
        "",
        "evil evil; cp -r .git/refs .git/objects evil/; echo 'gitdir: ../evil' > wt/.git",
    ),
    (
        "a worktree with another common directory",
        "",
        "evil evil; cp -r .git/refs .git/objects evil/; echo {project}/evil > .git/worktrees/wt/commondir",
    ),
    (
        "settings of a worktree",
        "git config extensions.worktreeConfig true; git config core.repositoryformatversion 1",
        "mark .git/worktrees/wt/config.worktree",
    ),
    (
        "settings of the first worktree",
        "git config extensions.worktreeConfig true; git config core.repositoryformatversion 1",
        "mark .git/config.worktree",
    ),
    (
        "settings of a worktree behind a link",
        "git config extensions.worktreeConfig true; git config core.repositoryformatversion 1",
        "mark cw; ln -s ../cw .git/config.worktree",
    ),
    (
        "worktrees behind a link",
        "",
        "evil evil; cp -r .git/refs .git/objects evil/; mv .git/worktrees w2; ln -s ../w2 .git/worktrees; echo {project}/evil > w2/wt/commondir",
    ),
    // Included settings.
    (
        "a file that is included where the repository lies here",
        "git config includeIf.gitdir:**/.path ../.inc; git config 'includeIf.gitdir:/.path' ../.inc",
        "mark .inc",
    ),
    (
        "a file that is included in upper case",
        "printf '[INCLUDE]\\n\\tPATH = ../.inc\\n' >> .git/config",
        "mark .inc",
    ),
    (
        "a file that is included on a branch",
        "git config includeIf.onbranch:main.path ../.inc",
        "mark .inc",
    ),
    (
        "a file that is included with a remote",
        "git remote add o2 https://a.invalid/x; git config 'includeIf.hasconfig:remote.*.url:https://a.invalid/**.path' ../.inc",
        "mark .inc",
    ),
    (
        "the third file that is included",
        "git config include.path ../cfg/one; git config -f cfg/one include.path two; git config -f cfg/two include.path ./deep/three",
        "mkdir cfg/deep; mark cfg/deep/three",
    ),
    (
        "an included file whose name is quoted",
        "printf '[include] path = \"../c\\\\\\\\f g\" ; why\\n' >> .git/config; sed -i 's/c\\\\\\\\f g/cfg\\/a b/' .git/config",
        "mark 'cfg/a b'",
    ),
    (
        "an included file whose name goes on",
        "printf '[include]\\n  path = ../cfg/\\\\\\ninc\\n' >> .git/config",
        "mark cfg/inc",
    ),
    (
        "an included file after an end of line of DOS",
        "printf '[include]\\r\\n\\tpath = ../cfg/inc\\r\\n' >> .git/config",
        "mark cfg/inc",
    ),
    (
        "an included file from the home",
        "git config include.path '~/../project/cfg/inc'",
        "mark cfg/inc",
    ),
    (
        "an included file behind a link",
        "mkdir confs; touch confs/inc; ln -s confs c; git config include.path ../c/inc",
        "mkdir e; mark e/inc; rm c; ln -s e c",
    ),
    (
        "settings that are a link",
        "mv .git/config gitsettings; ln -s ../gitsettings .git/config",
        "mark gitsettings; cp gitsettings g2; mark g2; rm gitsettings; mv g2 gitsettings",
    ),
    (
        "settings with a second name",
        "ln .git/config notes.ini",
        "printf '[core]\\n\\tfsmonitor = touch {out}/pwned; false\\n' >> notes.ini",
    ),
    (
        "settings of the user that include a file of the project",
        "git config --global include.path {project}/cfg/inc",
        "mark cfg/inc",
    ),
    (
        "settings of the user that include a file where it is",
        "git config --global 'includeIf.gitdir:{project}/.path' {project}/cfg/inc",
        "mark cfg/inc",
    ),
    // Hooks.
    (
        "hooks that settings name and that are not there",
        "git config core.hooksPath .hooks",
        "hook .hooks/pre-commit",
    ),
    (
        "hooks with an absolute name",
        "git config core.hooksPath {project}/.hooks",
        "hook .hooks/pre-commit",
    ),
    (
        "hooks named from the home",
        "git config core.hooksPath '~/../project/.hooks'",
        "hook .hooks/pre-commit",
    ),
    (
        "hooks that the user's settings name",
        "git config --global core.hooksPath .hooks",
        "hook .hooks/pre-commit",
    ),
    (
        "hooks that an included file names",
        "git config include.path ../cfg/inc; git config -f cfg/inc core.hooksPath cfg/hooks",
        "hook cfg/hooks/pre-commit",
    ),
    (
        "hooks behind a link that changes",
        "mkdir h1; ln -s h1 hk; git config core.hooksPath hk",
        "hook h2/pre-commit; rm hk; ln -s h2 hk",
    ),
    (
        "hooks behind a link and two dots",
        "mkdir -p cfg/in cfg/hooks; ln -s cfg/in w; git config core.hooksPath w/../hooks",
        "hook cfg/hooks/pre-commit",
    ),
    (
        "hooks with two names",
        "git config core.hooksPath old; git config --add core.hooksPath .hooks",
        "hook .hooks/pre-commit",
    ),
    (
        "hooks of husky",
        "git config core.hooksPath .husky/_; mkdir -p .husky/_; printf '#!/bin/sh\\nexec sh .husky/pre-commit\\n' > .husky/_/pre-commit; chmod +x .husky/_/pre-commit; echo true > .husky/pre-commit",
        "echo 'touch {out}/pwned' >> .husky/pre-commit; hook .husky/_/post-commit; mv .husky h; cp -r h .husky; echo 'touch {out}/pwned' >> .husky/pre-commit",
    ),
    (
        "a hook that is a link into the project",
        "mkdir scripts; printf '#!/bin/sh\\n' > scripts/pc; chmod +x scripts/pc; ln -s ../../scripts/pc .git/hooks/pre-commit",
        "echo 'touch {out}/pwned' >> scripts/pc; mv scripts s2; hook scripts/pc",
    ),
    (
        "a hook that is a link to nothing",
        "ln -s ../../scripts/pc .git/hooks/pre-commit",
        "hook scripts/pc",
    ),
    (
        "hooks that are a link into the project",
        "rm -rf .git/hooks; mkdir githooks; ln -s ../githooks .git/hooks",
        "hook githooks/pre-commit",
    ),
    (
        "hooks that are a chain of links",
        "rm -rf .git/hooks; mkdir -p a/githooks; ln -s a b; ln -s ../b/githooks .git/hooks",
        "hook c/githooks/pre-commit; rm b; ln -s c b",
    ),
    (
        "a hook that was switched off",
        "printf '#!/bin/sh\\ntouch {out}/pwned\\n' > .git/hooks/pre-commit; chmod -x .git/hooks/pre-commit",
        "chmod +x .git/hooks/pre-commit; mv .git/hooks h; cp -r h .git/hooks; chmod +x .git/hooks/pre-commit",
    ),
    (
        "an example of a hook",
        "",
        "printf '#!/bin/sh\\ntouch {out}/pwned\\n' > .git/hooks/pre-commit.sample; chmod +x .git/hooks/pre-commit.sample; mv .git/hooks/pre-commit.sample .git/hooks/pre-commit",
    ),
    // Programs named in settings.
    (
        "a filter of the user",
        "printf '#!/bin/sh\\ncat\\n' > tools/clean; chmod +x tools/clean; git config filter.x.clean tools/clean; echo '*.x filter=x' > .gitattributes",
        "hook tools/clean; mv tools t; mkdir tools; hook tools/clean",
    ),
    (
        "a filter that an interpreter runs",
        "echo 'cat' > tools/clean.sh; git config filter.x.clean 'sh ./tools/clean.sh %f'; echo '*.x filter=x' > .gitattributes",
        "mv tools t; hook tools/clean.sh",
    ),
    (
        "a filter in quotes",
        "echo 'cat' > 'tools/cl ean.sh'; git config filter.x.clean \"sh 'tools/cl ean.sh' %f\"; echo '*.x filter=x' > .gitattributes",
        "mv tools t; hook 'tools/cl ean.sh'",
    ),
    (
        "a filter that is a process",
        "git config filter.x.process tools/process; echo '*.x filter=x' > .gitattributes",
        "hook tools/process",
    ),
    (
        "a program for texts",
        "git config diff.x.textconv 'sh tools/text.sh'; echo '*.txt diff=x' > .gitattributes",
        "hook tools/text.sh",
    ),
    (
        "a program for differences",
        "git config diff.external ./tools/diff; echo more >> a.txt",
        "hook tools/diff",
    ),
    ("an alias to a script", "git config alias.st '!sh tools/st.sh'", "hook tools/st.sh"),
    ("an alias to a program", "git config alias.st '!f() { ./tools/st; }; f'", "hook tools/st"),
    (
        "a helper for passwords",
        "git remote add origin https://127.0.0.1:1/x; git config credential.helper '!sh tools/cred'; git config remote.origin.proxyAuthMethod basic; git config core.fsmonitor tools/cred",
        "hook tools/cred",
    ),
    (
        "a program in the place of ssh",
        "git remote add origin ssh://a.invalid/x; git config core.sshCommand 'sh ./tools/ssh'",
        "hook tools/ssh",
    ),
    ("a pager", "git config core.pager './tools/pager | cat'", "hook tools/pager"),
    ("an editor", "git config core.editor 'sh tools/ed --wait'", "hook tools/ed"),
    (
        "a program for signatures",
        "git config gpg.program tools/gpg; git config user.signingkey x",
        "hook tools/gpg",
    ),
    (
        "a program for keys of signatures",
        "git config gpg.format ssh; git config gpg.ssh.defaultKeyCommand 'sh tools/key'",
        "hook tools/key",
    ),
    (
        "a program of a remote",
        "git remote add origin ./server.git; git clone -q --bare .git server.git; git config remote.origin.uploadpack {project}/tools/up",
        "hook tools/up",
    ),
    (
        "a driver for merges",
        "git config merge.x.driver 'sh ./tools/m %A'; echo '*.txt merge=x' > .gitattributes; git config pull.rebase false; git config commit.template tools/none; git config core.fsmonitor 'sh ./tools/m'",
        "hook tools/m",
    ),
    (
        "a script that another word runs",
        "git config core.fsmonitor 'env A=b sh tools/watch.sh'",
        "hook tools/watch.sh",
    ),
    (
        "a program that is a link",
        "printf '#!/bin/sh\\nfalse\\n' > tools/w; chmod +x tools/w; ln -s w tools/watch; git config core.fsmonitor tools/watch",
        "hook tools/e; rm tools/watch; ln -s e tools/watch; mv tools t; mkdir tools; hook tools/watch",
    ),
    (
        "a watch of the user's settings",
        "git config --global core.fsmonitor {project}/tools/watch",
        "hook tools/watch",
    ),
    // Other files of git.
    (
        "hooks of a remote in the project",
        "git clone -q --bare .git server.git; git remote add origin ./server.git",
        "hook server.git/hooks/pre-receive; hook server.git/hooks/post-update",
    ),
    (
        "settings of a remote in the project",
        "git clone -q --bare .git server.git; git remote add origin {project}/server.git",
        "git -C server.git config core.hooksPath {project}/hk; hook hk/update",
    ),
    (
        "a remote as it was named long ago",
        "",
        "git clone -q --bare .git server.git; hook server.git/hooks/update; mkdir .git/remotes; printf 'URL: {project}/server.git\\nPull: refs/heads/main\\n' > .git/remotes/origin",
    ),
    (
        "a remote in a file of branches",
        "",
        "git clone -q --bare .git server.git; hook server.git/hooks/update; mkdir -p .git/branches; echo {project}/server.git > .git/branches/origin",
    ),
    (
        "a rebase that stops",
        "git branch side HEAD; echo 1 > c.txt; git add c.txt; git commit -qm 1; git checkout -q side; echo 2 > c.txt; git add c.txt; git commit -qm 2; git rebase main >/dev/null 2>&1 || true; echo 3 > c.txt; git add c.txt",
        "echo 'exec touch {out}/pwned' >> .git/rebase-merge/git-rebase-todo",
    ),
    (
        "a rebase that was not begun",
        "",
        "mkdir .git/rebase-merge; cd .git/rebase-merge; echo 'exec touch {out}/pwned' > git-rebase-todo; echo refs/heads/main > head-name; git rev-parse HEAD > orig-head; cp orig-head onto; touch interactive; echo 1 > msgnum; echo 1 > end; touch done",
    ),
];

/// Further cases against the fixes for the table above: name, preparation, command.
const PLANTED_NEXT: &[(&str, &str, &str)] = &[
    (
        "settings with a second name in a folder",
        "mkdir -p .git/hooks; printf '#!/bin/sh\\n' > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit; ln .git/hooks/pre-commit notes.sh",
        "echo 'touch {out}/pwned' >> notes.sh",
    ),
    (
        "a hook with a second name in the folder of git",
        "printf '#!/bin/sh\\n' > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit; ln .git/hooks/pre-commit .git/description2",
        "echo 'touch {out}/pwned' >> .git/description2",
    ),
    (
        "a script of a hook behind two links",
        "mkdir -p scripts other; printf '#!/bin/sh\\n' > other/pc; chmod +x other/pc; ln -s ../other/pc scripts/pc; ln -s ../../scripts/pc .git/hooks/pre-commit",
        "hook other/bad; ln -sf ../other/bad scripts/pc; mv scripts s2; mkdir scripts; hook scripts/pc",
    ),
    (
        "a hook link that is relinked by a folder",
        "mkdir -p v1 v2; printf '#!/bin/sh\\n' > v1/pc; chmod +x v1/pc; ln -s v1 cur; ln -s ../../cur/pc .git/hooks/pre-commit",
        "hook v3/pc; rm cur; ln -s v3 cur",
    ),
    (
        "hooks that two files of settings name",
        "git config include.path ../cfg/a; git config -f cfg/a include.path b; git config --global core.hooksPath elsewhere",
        "hook elsewhere/pre-commit; git config -f cfg/b core.hooksPath elsewhere; rm -rf .git/hooks; hook elsewhere/post-checkout",
    ),
    (
        "settings of the user by another variable",
        "mkdir -p ~/.config/git; git config -f ~/.config/git/config core.fsmonitor 'sh tools/w'",
        "hook tools/w",
    ),
    (
        "an include of the user's with a condition",
        "git config --global 'includeIf.gitdir/i:**.path' {project}/cfg/inc",
        "mark cfg/inc",
    ),
    (
        "an include of the user's that goes on here",
        "git config --global include.path inc1; git config -f ~/inc1 include.path {project}/cfg/inc",
        "mark cfg/inc",
    ),
    (
        "a remote by a rewritten address",
        "git config url.{project}/srv/.insteadOf srv:; git remote add origin srv:x.git; mkdir srv; git clone -q --bare .git srv/x.git",
        "hook srv/x.git/hooks/update",
    ),
    (
        "a remote without its ending",
        "git remote add origin ./srv/x; mkdir srv; git clone -q --bare .git srv/x.git",
        "hook srv/x.git/hooks/update",
    ),
    (
        "a remote that is a worktree",
        "git remote add origin ./other; git clone -q . other",
        "hook other/.git/hooks/update",
    ),
    (
        "a remote behind a link",
        "git remote add origin ./ln; git clone -q --bare .git real.git; ln -s real.git ln",
        "git clone -q --bare .git e.git; hook e.git/hooks/update; rm ln; ln -s e.git ln",
    ),
    (
        "a remote that is not there yet",
        "git remote add origin ./later.git",
        "git clone -q --bare .git later.git; hook later.git/hooks/update",
    ),
    (
        "a remote named by a branch",
        "git config branch.main.remote ./b.git; git config branch.main.merge refs/heads/main; git clone -q --bare .git b.git; git config remote.origin.url ./b.git",
        "hook b.git/hooks/update",
    ),
    (
        "a remote by a file address",
        "git remote add origin file://{project}/b.git; git clone -q --bare .git b.git",
        "hook b.git/hooks/update",
    ),
    (
        "a remote of the user's settings",
        "git config --global remote.origin.url {project}/b.git; git clone -q --bare .git b.git",
        "hook b.git/hooks/update",
    ),
    (
        "a remote of a submodule",
        "git -C sub remote add origin ../b.git; git clone -q --bare sub/.git b.git; git config --global push.default current; git config remote.origin.url ./b.git",
        "hook b.git/hooks/update",
    ),
    (
        "an old remote with another name",
        "git config remote.pushDefault origin",
        "git clone -q --bare .git s.git; hook s.git/hooks/update; mkdir -p cfg/r; printf 'URL: {project}/s.git\\n' > cfg/r/origin; ln -s ../cfg/r .git/remotes",
    ),
    (
        "an old remote that fetches first",
        "",
        "git clone -q --bare .git s.git; git -C s.git config core.hooksPath {project}/hh; hook hh/update; mkdir -p .git/branches; echo '{project}/s.git#main' > .git/branches/origin",
    ),
    (
        "a worktree of a submodule",
        "git -C sub worktree add -q ../subwt 2>/dev/null; rm -rf wt; mv subwt wt; git -C sub worktree repair ../wt >/dev/null 2>&1",
        "evil evil; cp -r sub/.git/refs sub/.git/objects evil; echo 'gitdir: ../evil' > wt/.git",
    ),
    (
        "a worktree that was moved",
        "git worktree move wt wt2 2>/dev/null; rm -rf wt; ln -s wt2 wt",
        "evil wt2/g; cp -r .git/refs .git/objects wt2/g; echo 'gitdir: g' > wt2/.git",
    ),
    (
        "a submodule whose folder was a file",
        "mkdir new; link new; rmdir new; echo x > new",
        "rm new; mkdir new; evil new/.git",
    ),
    (
        "an index beside the index",
        "",
        "mkdir new; evil new/.git; cp .git/index i2; GIT_INDEX_FILE=i2 git update-index --add --cacheinfo 160000,1234567890123456789012345678901234567890,new; mv i2 .git/index",
    ),
    (
        "an index that names others by long hashes",
        "",
        "mkdir new; rm -rf .git; git init -q --object-format=sha256 .; git config user.email a@b; git config user.name a; git init -q --object-format=sha256 new; git -C new -c user.email=a@b -c user.name=a commit -q --allow-empty -m x; git add new; mark new/.git/config",
    ),
    (
        "a filter by a shell in quotes",
        "git config filter.x.clean \"bash -c 'sh tools/c.sh \\\"\\$1\\\"' --\"; echo '*.x filter=x' > .gitattributes",
        "hook tools/c.sh",
    ),
    (
        "a filter with an escaped blank",
        "git config filter.x.clean 'sh tools/a\\ b.sh'; echo '*.x filter=x' > .gitattributes",
        "hook 'tools/a b.sh'",
    ),
    (
        "a hook whose folder becomes a link",
        "git config core.hooksPath a/hooks; mkdir a",
        "rmdir a; hook z/hooks/pre-commit; ln -s z a",
    ),
    (
        "a mode that makes a hook of a file",
        "git config core.hooksPath hk; mkdir hk; printf '#!/bin/sh\\ntouch {out}/pwned\\n' > hk/pre-commit; chmod 644 hk/pre-commit",
        "mv hk h2; cp -r h2 hk; chmod 755 hk/pre-commit",
    ),
    (
        "a filter that goes to its folder",
        "git config filter.x.clean \"sh -c 'cd tools && ./c.sh'\"; echo '*.x filter=x' > .gitattributes",
        "hook tools/c.sh",
    ),
    (
        "a filter that is a module",
        "git config filter.x.clean 'python3 -m tools.y'; echo '*.x filter=x' > .gitattributes",
        "printf 'open(\"{out}/pwned\", \"w\")' > tools/y.py",
    ),
    (
        "a remote that is a program",
        "git remote add origin 'ext::tools/x.sh %S'; git config protocol.ext.allow always",
        "hook tools/x.sh",
    ),
    (
        "a watch behind the top of the repository",
        "git config core.fsmonitor '\"$(git rev-parse --show-toplevel)/tools/watch\"'",
        "hook tools/watch",
    ),
    (
        "a long hook",
        "git config core.hooksPath hk; mkdir hk",
        "(printf '#!/bin/sh\\ntouch {out}/pwned; exit\\n'; head -c 3000000 /dev/zero) > hk/pre-commit; chmod +x hk/pre-commit",
    ),
];

fn case(name: &str, before: &str, line: &str) -> Attack {
    Attack::confined(format!("git: {name}"), &format!("{WORDS}{line}"))
        .before(REPOSITORY)
        .before(&format!("{WORDS}{before}"))
        .after(&format!("{WORDS}{USER}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn git_runs_nothing_left_in_repositories_submodules_or_remotes() {
    if !has_full_sandbox("repositories") {
        return;
    }
    let all = PLANTED.iter().chain(PLANTED_NEXT);
    try_all(all.map(|(name, before, line)| case(name, before, line)).collect()).await;
}

/// Configuration in which the user unprotects the files of git.
const FREE: &str = "[sandbox]\nunprotected = [\".git\", \".husky\", \".gitconfig\", \"cfg\"]\n";

/// Checks that the cases above start a program if nothing prevents it; otherwise they would prove nothing. Runs every sixth
/// case.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn planted_programs_run_if_the_user_unprotects_git_files() {
    if !has_full_sandbox("repositories") {
        return;
    }
    let only = std::env::var("CROW_ATTACK").unwrap_or_default();
    let cases = PLANTED.iter().chain(PLANTED_NEXT).filter(|(name, ..)| name.contains(&only));
    let cases = cases.step_by(if only.is_empty() { 6 } else { 1 });
    let not_started = futures_util::stream::iter(cases).map(async |(name, before, line)| {
        let judged = case(name, before, line).file("{config}/config.toml", FREE).judge().await;
        (!judged.join("\n").contains("+pwned")).then(|| format!("{name}: {}", judged.join("\n")))
    });
    let not_started: Vec<_> =
        not_started.buffer_unordered(3).filter_map(async |not_started| not_started).collect().await;
    assert!(not_started.is_empty(), "{}:\n{}", not_started.len(), not_started.join("\n"));
}
