//! The pages of a PDF file that a call requests.

/// Pages, counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PdfPageRange {
    /// First page.
    pub(crate) first: usize,
    /// Last page; `None` for as many as the limits allow.
    pub(crate) last: Option<usize>,
}

impl PdfPageRange {
    /// All pages, as far as the limits allow.
    pub(crate) const ALL: Self = Self { first: 1, last: None };

    /// Parses `3`, `2-5` or `4-`.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let number = |text: &str| text.trim().parse::<usize>().ok().filter(|number| *number > 0);
        let pages = match text.split_once('-') {
            None => number(text).map(|page| Self { first: page, last: Some(page) }),
            Some((first, last)) if last.trim().is_empty() => {
                number(first).map(|first| Self { first, last: None })
            }
            Some((first, last)) => number(first)
                .zip(number(last))
                .filter(|(first, last)| first <= last)
                .map(|(first, last)| Self { first, last: Some(last) }),
        };
        pages.ok_or_else(|| format!("pages is \"3\", \"2-5\" or \"4-\", not \"{text}\""))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_page_a_range_and_an_open_range_are_understood() {
        for (text, first, last) in
            [("3", 3, Some(3)), ("2-5", 2, Some(5)), ("4-", 4, None), (" 1 - 2 ", 1, Some(2))]
        {
            assert_eq!(PdfPageRange::parse(text), Ok(PdfPageRange { first, last }));
        }
        for text in ["", "0", "-", "-3", "5-2", "a", "1-2-3", "99999999999999999999"] {
            assert!(PdfPageRange::parse(text).is_err(), "{text}");
        }
    }
}
