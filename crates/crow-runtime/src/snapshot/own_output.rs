//! Files that the standard output and error of this process go to.

use std::{
    fs::{File, Metadata},
    io,
    os::{fd::AsFd as _, unix::fs::MetadataExt as _},
    sync::OnceLock,
};

use super::{
    Content, FileStamp, WhyNotCovered,
    index::{Item, Seen, What},
};

/// Returns whether a file is one that this process prints to: `crow-agent run -o json > result.json`.
pub(super) fn is_own_output(device: u64, inode: u64) -> bool {
    static FILES: OnceLock<Vec<(u64, u64)>> = OnceLock::new();
    let files = FILES.get_or_init(|| {
        let outputs =
            [io::stdout().as_fd().try_clone_to_owned(), io::stderr().as_fd().try_clone_to_owned()];
        let metadata =
            outputs.into_iter().flatten().flat_map(|output| File::from(output).metadata());
        metadata.filter(Metadata::is_file).map(|file| (file.dev(), file.ino())).collect()
    });
    files.contains(&(device, inode))
}

/// Takes a file that this process prints to for the same, whatever was printed. Returns whether it was taken for something
/// else before.
pub(super) fn see_own_output(item: &mut Item, stamp: FileStamp) -> bool {
    let before = item.child();
    let stamp = FileStamp { size: 0, modified: 0, changed: 0, ..stamp };
    let content = Content::NotStored { why: WhyNotCovered::OwnOutput, stamp };
    item.what = What::File { seen: Seen { stamp, settled: false }, content };
    before != item.child()
}
