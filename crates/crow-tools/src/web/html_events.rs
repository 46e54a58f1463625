//! The tokens of HTML.

use html5gum::{
    Span, State, Tokenizer,
    emitters::callback::{CallbackEmitter, CallbackEvent},
};

/// Reads HTML. `on_event` returns the next state of the tokenizer if a tag changes it, as `<script>` does.
///
/// Not generic: the tokenizer has 150 kB of code for each type of emitter.
pub(super) fn read_html(html: &str, on_event: &mut dyn FnMut(&CallbackEvent<'_>) -> Option<State>) {
    let on_token = |event: CallbackEvent<'_>, _: Span<()>| on_event(&event);
    let mut tokenizer = Tokenizer::new_with_emitter(html, CallbackEmitter::new(on_token));
    while let Some(Ok(state)) = tokenizer.next() {
        tokenizer.set_state(state);
    }
}
