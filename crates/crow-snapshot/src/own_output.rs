//! Files that the standard output and error of this process go to.

use std::{fs::File, io, os::fd::AsFd as _, sync::OnceLock};

use crow_fs::EntryMetadata;

use super::{
    ContentRef, FileStamp, NotCoveredReason,
    index::{IndexItem, IndexItemKind, IndexStamp},
};

/// Returns whether a file is one that this process prints to, as in `crow-agent run -o json > result.json`.
pub(super) fn is_own_output(device: u64, inode: u64) -> bool {
    static FILES: OnceLock<Vec<(u64, u64)>> = OnceLock::new();
    let files = FILES.get_or_init(|| {
        let outputs =
            [io::stdout().as_fd().try_clone_to_owned(), io::stderr().as_fd().try_clone_to_owned()];
        let files = outputs.into_iter().flatten().map(File::from);
        let files = files.flat_map(|file| EntryMetadata::of_file(&file));
        let files = files.filter(EntryMetadata::is_file).map(|file| file.identity);
        files.map(|file| (file.device, file.inode)).collect()
    });
    files.contains(&(device, inode))
}

/// Records a file that this process prints to with a constant stamp, so that its output is no change. Returns whether
/// its entry was different before.
pub(super) fn record_own_output(item: &mut IndexItem, stamp: FileStamp) -> bool {
    let before = item.child();
    let stamp = FileStamp { size: 0, modified: 0, changed: 0, ..stamp };
    let content = ContentRef::NotStored { why: NotCoveredReason::OwnOutput, stamp };
    item.kind = IndexItemKind::File { stamp: IndexStamp { stamp, settled: false }, content };
    before != item.child()
}
