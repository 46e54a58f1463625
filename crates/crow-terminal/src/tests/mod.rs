//! Tests of the decoder, the editor, the view and the help about keys.

mod chip_tests;
mod decoder_tests;
mod editing_tests;
mod history_tests;
mod key_names;
mod popup_tests;
mod property_tests;
mod resize_tests;
mod shortcut_tests;
mod text_tests;
mod vi_tests;
mod view_tests;
