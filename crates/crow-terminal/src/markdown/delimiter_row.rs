//! The second line of a table, which makes the line before it a header.

/// Where text stands in a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ColumnAlignment {
    Left,
    Centre,
    Right,
}

/// Returns the alignments if `line` is a delimiter row. It needs a pipe: a line of hyphens is a heading or a rule.
pub(super) fn delimiter_row(line: &str) -> Option<Vec<ColumnAlignment>> {
    let line = line.trim_matches([' ', '\t']);
    if !line.contains('|') {
        return None;
    }
    let inner = line.strip_prefix('|').unwrap_or(line);
    let inner = inner.strip_suffix('|').unwrap_or(inner);
    inner.split('|').map(|cell| column_alignment(cell.trim_matches(' '))).collect()
}

fn column_alignment(cell: &str) -> Option<ColumnAlignment> {
    let (left, dashes) = cell.strip_prefix(':').map_or((false, cell), |rest| (true, rest));
    let (right, dashes) = dashes.strip_suffix(':').map_or((false, dashes), |rest| (true, rest));
    let is_delimiter = !dashes.is_empty() && dashes.bytes().all(|byte| byte == b'-');
    is_delimiter.then_some(match (left, right) {
        (_, false) => ColumnAlignment::Left,
        (true, true) => ColumnAlignment::Centre,
        (false, true) => ColumnAlignment::Right,
    })
}

/// Returns the number of columns of a line as the header of a table; 0 if it has no pipe.
pub(super) fn header_columns(line: &str) -> usize {
    let line = line.trim_matches([' ', '\t']);
    let is_escaped = |index: usize| index > 0 && line.as_bytes()[index - 1] == b'\\';
    let pipes = line.match_indices('|').map(|(index, _)| index).filter(|index| !is_escaped(*index));
    let (count, last) = pipes.fold((0_usize, 0), |(count, _), index| (count + 1, index));
    if count == 0 {
        return 0;
    }
    let leading = usize::from(line.starts_with('|'));
    let trailing = usize::from(last + 1 == line.len());
    (count + 1).saturating_sub(leading + trailing)
}
