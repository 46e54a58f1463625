//! Pictures that users attach to a prompt.

use std::{
    io,
    path::{Path, PathBuf},
};

use crow_core::message::Image;
use tokio_util::sync::CancellationToken;

use super::tool::{ImageRejection, fitted_picture};
use crate::file::MAX_WHOLE;

/// A file cannot be attached as a picture.
#[derive(Debug, thiserror::Error)]
pub enum PictureFileError {
    /// It cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// Its content is no PNG, JPEG, GIF or WebP, whatever its name says.
    #[error("{} is no picture (PNG, JPEG, GIF or WebP)", path.display())]
    NoPicture {
        /// The file.
        path: PathBuf,
    },
    /// It is too large and cannot be scaled down.
    #[error("{} cannot be sent: {why}", path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// The cause.
        why: String,
    },
}

/// Reads a picture for a model. Its type is told by its content, and it is scaled down if it is larger than models use.
/// Follows links. Blocks.
///
/// # Errors
/// Fails if the file cannot be read, is no picture, or cannot be sent.
pub fn read_picture(path: &Path) -> Result<Image, PictureFileError> {
    let read = crow_fs::canonicalize(path).and_then(|path| crow_fs::read_bounded(&path, MAX_WHOLE));
    let bytes =
        read.map_err(|source| PictureFileError::Read { path: path.to_path_buf(), source })?;
    let media_type = Image::media_type_of(&bytes);
    let media_type =
        media_type.ok_or_else(|| PictureFileError::NoPicture { path: path.to_path_buf() })?;
    let fitted = fitted_picture(media_type, &bytes, &CancellationToken::new());
    fitted.map(|fitted| fitted.image).map_err(|rejection| {
        let why = match rejection {
            ImageRejection::Cancelled => "the call was cancelled".to_owned(),
            ImageRejection::Because(why) => why,
        };
        PictureFileError::Unusable { path: path.to_path_buf(), why }
    })
}
