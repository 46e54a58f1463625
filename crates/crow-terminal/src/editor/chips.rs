//! Chips: short labels in the text that stand for long pastes and images.
//!
//! A chip is a range of the text. Text that only looks like a label is not one. A [`Fragment`] is a piece of text with
//! the chips in it, and what is killed, yanked, undone and saved.

use std::{collections::BTreeMap, ops::Range, sync::Arc};

use super::prompt_text::PromptText;

use crate::{
    line_layout::clipped_text,
    visible_characters::{CharacterForm, safe},
};

/// Bounds above which a paste becomes a chip.
const MOST_PASTED_LINES: usize = 20;
const MOST_PASTED_BYTES: usize = 2048;
/// Maximum number of columns of an image's name in its label.
const WIDEST_NAME: usize = 40;

/// Beginning of the label of an image.
const IMAGE_LABEL_START: &str = "[image ";

/// Identifier of a chip. Copies of a chip have the same one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ChipId(pub(super) u64);

/// Content that a chip represents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ChipContent {
    Paste(String),
    Image(ChipId),
}

/// A label in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Chip {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) content: Arc<ChipContent>,
}

impl Chip {
    pub(crate) fn range(&self) -> Range<usize> {
        self.start..self.end
    }

    /// Moves the chip from a text that begins at `from` to one where this place is `to`.
    pub(super) fn moved(&self, from: usize, to: usize) -> Self {
        let content = Arc::clone(&self.content);
        Self { start: self.start - from + to, end: self.end - from + to, content }
    }
}

/// A piece of text with its chips.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Fragment {
    pub(super) text: String,
    /// In the order of their places, which do not overlap.
    pub(super) chips: Vec<Chip>,
}

impl Fragment {
    /// Creates a fragment without chips.
    pub(crate) fn plain(text: impl Into<String>) -> Self {
        Self { text: text.into(), chips: Vec::new() }
    }

    /// Creates a fragment that is one chip.
    pub(super) fn chip(label: String, content: ChipContent) -> Self {
        let chip = Chip { start: 0, end: label.len(), content: Arc::new(content) };
        Self { text: label, chips: vec![chip] }
    }

    /// Creates a text with images. Their labels are at these places, which are in order and do not overlap.
    pub(super) fn with_images(text: String, labels: &[(Range<usize>, ChipId)]) -> Self {
        let chip = |(label, id): &(Range<usize>, ChipId)| Chip {
            start: label.start,
            end: label.end,
            content: Arc::new(ChipContent::Image(*id)),
        };
        Self { text, chips: labels.iter().map(chip).collect() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.text.len()
    }

    /// Returns the number of bytes that the fragment takes in memory, about.
    pub(super) fn size(&self) -> usize {
        self.text.len() + self.chips.len() * size_of::<Chip>()
    }

    pub(super) fn append(&mut self, other: &Self) {
        let offset = self.text.len();
        self.chips.extend(other.chips.iter().map(|chip| chip.moved(0, offset)));
        self.text.push_str(&other.text);
    }
}

/// A part of a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SubmissionBlock {
    Text(String),
    Image(ChipId),
}

/// A prompt that is sent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Submission {
    /// The whole text, with pastes in the place of their chips, and labels in the place of images.
    pub(crate) text: String,
    /// The text and the images in their order. Blocks of text are not empty.
    pub(crate) blocks: Vec<SubmissionBlock>,
}

impl Submission {
    pub(super) fn new(text: &str, chips: &[Chip]) -> Self {
        let mut blocks = Vec::new();
        let mut from = 0;
        let push_text = |range: Range<usize>, blocks: &mut Vec<SubmissionBlock>| {
            let within: Vec<Chip> = chips
                .iter()
                .filter(|chip| range.contains(&chip.start))
                .map(|chip| chip.moved(range.start, 0))
                .collect();
            let part = expanded(&text[range], &within);
            if !part.is_empty() {
                blocks.push(SubmissionBlock::Text(part));
            }
        };
        for chip in chips {
            match *chip.content {
                ChipContent::Paste(_) => {}
                ChipContent::Image(id) => {
                    push_text(from..chip.start, &mut blocks);
                    blocks.push(SubmissionBlock::Image(id));
                    from = chip.end;
                }
            }
        }
        push_text(from..text.len(), &mut blocks);
        Self { text: expanded(text, chips), blocks }
    }

    /// Returns the images in their order.
    pub(crate) fn images(&self) -> impl Iterator<Item = ChipId> + '_ {
        self.blocks.iter().filter_map(|block| match block {
            SubmissionBlock::Text(_) => None,
            SubmissionBlock::Image(id) => Some(*id),
        })
    }
}

/// The names of chips: the labels of the current prompt, and the identifiers of images.
#[derive(Debug, Clone, Default)]
pub(crate) struct ChipNames {
    next_image: u64,
    /// How many chips have had each label since the last submission.
    labels: BTreeMap<String, u32>,
}

impl ChipNames {
    /// Returns the identifier of an image that is not in the text yet.
    pub(crate) fn new_image(&mut self) -> ChipId {
        let id = ChipId(self.next_image);
        self.next_image += 1;
        id
    }

    /// Returns a label that no chip has had since the last submission, and that is not in the text.
    pub(super) fn unique_label(
        &mut self,
        text: &PromptText,
        label: impl Fn(u32) -> String,
    ) -> String {
        let number = self.labels.entry(label(1)).or_default();
        loop {
            *number += 1;
            let label = label(*number);
            if !text.as_str().contains(&label) {
                return label;
            }
        }
    }

    /// Begins another prompt.
    pub(super) fn forget_labels(&mut self) {
        self.labels.clear();
    }

    /// Takes the chips of a draft that came back: later images must not have the identifiers of those in it.
    pub(super) fn on_restored(&mut self, chips: &[Chip]) {
        let images = chips.iter().filter_map(|chip| match *chip.content {
            ChipContent::Paste(_) => None,
            ChipContent::Image(ChipId(id)) => Some(id + 1),
        });
        self.next_image = images.fold(self.next_image, u64::max);
    }
}

/// Returns the text with pastes in the place of their chips. Images keep their labels.
pub(super) fn expanded(text: &str, chips: &[Chip]) -> String {
    let mut expanded = String::with_capacity(text.len());
    let mut from = 0;
    for chip in chips {
        match &*chip.content {
            ChipContent::Paste(pasted) => {
                expanded.push_str(&text[from..chip.start]);
                expanded.push_str(pasted);
                from = chip.end;
            }
            ChipContent::Image(_) => {}
        }
    }
    expanded.push_str(&text[from..]);
    expanded
}

/// Returns the size of a paste as its label says it, if the paste is long.
pub(super) fn size_if_long(paste: &str) -> Option<String> {
    let lines = paste.lines().count();
    if lines > MOST_PASTED_LINES {
        Some(format!("{lines} lines"))
    } else if paste.len() > MOST_PASTED_BYTES && lines > 1 {
        Some(format!("{lines} long lines"))
    } else if paste.len() > MOST_PASTED_BYTES {
        Some(format!("{} characters", paste.chars().count()))
    } else {
        None
    }
}

/// Returns the label of the `number`th paste of the same size.
pub(super) fn paste_label(size: &str, number: u32) -> String {
    if number == 1 { format!("[{size} pasted]") } else { format!("[{size} pasted, {number}]") }
}

/// Returns the label of the `number`th image of the same name.
pub(super) fn image_label(name: &str, number: u32) -> String {
    let mut shown = String::new();
    // A name may come from anywhere: its characters are shown like those of the text, and not kept.
    for character in name.chars() {
        match safe(character) {
            CharacterForm::Plain => shown.push(character),
            CharacterForm::Replaced(form) => shown.push_str(&form),
        }
    }
    let shown = clipped_text(&shown, WIDEST_NAME);
    if number == 1 {
        format!("{IMAGE_LABEL_START}{shown}]")
    } else {
        format!("{IMAGE_LABEL_START}{shown}, {number}]")
    }
}

/// Returns the places in a text that look like labels of images.
pub(crate) fn image_labels(text: &str) -> Vec<Range<usize>> {
    let starts = text.match_indices(IMAGE_LABEL_START).map(|(start, _)| start);
    let label = |start: usize| {
        let rest = &text[start + IMAGE_LABEL_START.len()..];
        let length = rest.find(['[', ']', '\n']).filter(|at| rest[*at..].starts_with(']'))?;
        Some(start..start + IMAGE_LABEL_START.len() + length + 1)
    };
    starts.filter_map(label).collect()
}

/// Returns a text with line feeds as its only line ends.
pub(super) fn with_line_feeds(text: impl Into<String>) -> String {
    let text = text.into();
    if text.contains('\r') { text.replace("\r\n", "\n").replace('\r', "\n") } else { text }
}
