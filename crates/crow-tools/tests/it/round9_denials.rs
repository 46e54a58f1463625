//! Review 9, denials by path: programs that pack, compress or rename folders, and commands of git that show objects.

use crow_core::{permission::PermissionRule, tool::Access};

use crate::project::{Project, full_auto_with};

/// Lines that may show the content of `certs/server.key`, or let a later line show it.
const READS: &[&str] = &[
    "git mv certs c9",
    "git mv -k certs c9",
    "git -C certs mv server.key ../k",
    "mkdir q; git mv certs q/",
    "gzip -r certs",
    "gzip -9kr certs",
    "gzip --recursive certs",
    "zstd -r certs",
    "zstd -r --rm certs -o x",
    "lz4 -r certs",
    "lz4 -mr certs",
    "compress -r certs",
    "pigz -rk certs",
    "gunzip -r certs",
    "xz -k --files=list",
    "zstd --filelist list",
    "jar cf x.jar certs",
    "jar cf x.jar -C certs .",
    "rar a x certs",
    "7zz a x.7z certs",
    "7z a x.7z @list",
    "zip x.zip -@ < list",
    "tar cf x.tar -T list",
    "tar cTf list x.tar",
    "tar cf x.tar --files-from=list",
    "mksquashfs certs x",
    "genisoimage -o x certs",
    "dpkg-deb -b certs x",
    "python3 -m zipfile -c x.zip certs",
    "python3 -m tarfile -c x.tar certs",
    "python3 -m zipapp certs -m a:b",
    "rename s/certs/c8/ certs",
    "rename.ul certs c7 certs",
    "exch certs src",
    "npm pack",
    "npm pack --silent",
    "cargo package --list",
    "git tag t9 5ed7b80643cce55a8642278076025e177373e6a0",
    "git tag t9 HEAD:certs",
    "git update-ref refs/tags/t8 5ed7b80643cce55a8642278076025e177373e6a0",
    "git for-each-ref --format='%(raw)' refs/tags/t9",
    "git for-each-ref --format '%(*raw)'",
    "git tag -l --format='%(raw)'",
    "git branch --format='%(raw)'",
    "git unpack-file 5ed7b80643cce55a8642278076025e177373e6a0",
    "git read-tree --prefix=zz/ -u HEAD",
    "git read-tree HEAD",
    "git update-index --add --cacheinfo 100644,5ed7b80643,zz",
    "git update-index --index-info < list",
    "git mktree < list",
    "git commit-tree 5ed7b806 -m x",
    "git replace 5ed7b806 6ed7b806",
    "git replace HEAD:a.txt HEAD:certs/server.key",
    "git checkout HEAD:certs -- .",
    "git checkout 5ed7b806 -- server.key",
    "git restore --source=HEAD:certs -- .",
    "git restore -s 5ed7b806 .",
    "git reset HEAD:certs -- server.key",
    "git config --blob 5ed7b806 -l",
    "git pack-objects --all --stdout < list",
    "git merge-file -p --object-id 5ed7 6ed7 7ed7",
    "git merge-tree --trivial-merge 5ed7 6ed7 7ed7",
    "git init n9; cd n9 && git fetch -q .. HEAD",
    "git remote add up ..",
    "git push ./n9 HEAD:refs/heads/x",
    "git push file:///tmp/x HEAD",
    "git pull . main",
    "git clone . x",
    "git subtree split --prefix=certs",
    "git diagnose --mode=all",
    "git apply rename.patch",
    "git am rename.patch",
    "patch -p1 -i rename.patch",
    "GIT_WORK_TREE=q git checkout HEAD -- .",
    "export GIT_WORK_TREE=q; git checkout HEAD -- .",
    "export GIT_WORK_TREE; GIT_WORK_TREE=q; git checkout HEAD -- .",
    "git init n9; GIT_DIR=.git GIT_WORK_TREE=n9 git checkout -f",
    "env GIT_WORK_TREE=q git checkout HEAD -- .",
    "git --work-tree=q checkout HEAD -- .",
];

/// Lines that read nothing below `certs`.
const FREE: &[&str] = &[
    "git mv a.txt c.txt",
    "git mv src lib",
    "git mv src/main.rs certs/main.rs",
    "gzip -k a.txt",
    "gzip -r src",
    "zstd -r src",
    "xz -k a.txt",
    "jar cf x.jar src",
    "tar czf out.tgz src docs",
    "zip -r x.zip src",
    "python3 -m zipfile -c x.zip src",
    "rename s/a/b/ a.txt",
    "npm install",
    "npm test",
    "cargo build",
    "git tag v1.0",
    "git tag -a v1.0 -m x",
    "git tag -l --format='%(refname)'",
    "git for-each-ref --format='%(refname) %(contents:subject)'",
    "git update-index --refresh",
    "git checkout main",
    "git checkout -b topic",
    "git checkout 5ed7b806",
    "git checkout HEAD~1 -- a.txt",
    "git checkout -- a.txt",
    "git restore a.txt",
    "git restore --source=HEAD~2 a.txt",
    "git fetch origin",
    "git fetch origin main",
    "git pull --rebase",
    "git pull origin main",
    "git remote add up https://example.org/r.git",
    "git submodule update --init",
    "git apply --stat x.patch",
    "git worktree list",
    "git merge topic",
    "git rebase main",
    "git cherry-pick 5ed7b806",
    "git ls-tree -r HEAD",
    "git status",
];

fn allowed<'t>(lines: &[&'t str]) -> Vec<&'t str> {
    let policy = full_auto_with([PermissionRule::deny_path(Access::Read, "certs/server.key")]);
    Project::new().allowed_lines(&policy, lines)
}

#[test]
fn a_denied_file_is_not_read_by_packing_or_renaming_its_folder_or_by_its_hash() {
    let passed = allowed(READS);
    assert!(passed.is_empty(), "{passed:#?}");
}

#[test]
fn packing_and_git_commands_that_reach_no_denied_file_are_allowed() {
    let passed = allowed(FREE);
    let refused: Vec<_> = FREE.iter().filter(|text| !passed.contains(text)).collect();
    assert!(refused.is_empty(), "{refused:#?}");
}
