//! Tests of the decoder, the editor and the view.

mod chip_tests;
mod decoder_tests;
mod editing_tests;
mod history_tests;
mod key_names;
mod popup_tests;
mod property_tests;
mod text_tests;
mod vi_tests;
mod view_tests;
