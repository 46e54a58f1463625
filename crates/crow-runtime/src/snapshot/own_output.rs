//! Files that the standard output and error of this process go to.

use std::sync::OnceLock;

use rustix::fs::{FileType, fstat};

/// Returns whether a file is one that this process prints to: `crow-agent run -o json > result.json`.
pub(super) fn is_own_output(device: u64, inode: u64) -> bool {
    static FILES: OnceLock<Vec<(u64, u64)>> = OnceLock::new();
    let files = FILES.get_or_init(|| {
        let outputs = [fstat(rustix::stdio::stdout()), fstat(rustix::stdio::stderr())];
        let is_file = |mode| FileType::from_raw_mode(mode) == FileType::RegularFile;
        let files = outputs.into_iter().flatten().filter(|output| is_file(output.st_mode));
        files.map(|file| (file.st_dev, file.st_ino)).collect()
    });
    files.contains(&(device, inode))
}
