//! Shares the rows of the panel among its sections.

/// Number of rows of each section.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct SectionRows {
    pub(super) spinner: usize,
    pub(super) calls: usize,
    /// Output of the newest call.
    pub(super) tail: usize,
    pub(super) agents: usize,
    pub(super) todos: usize,
    pub(super) jobs: usize,
}

/// Rows of the todo list with which it has a header and shows what is around the item in progress.
const TODO_WINDOW: usize = 3;

impl SectionRows {
    /// Returns the number of all rows.
    pub(super) fn total(self) -> usize {
        self.spinner + self.calls + self.tail + self.agents + self.todos + self.jobs
    }

    /// Returns the rows of each section if there are at most `rows` for all.
    pub(super) fn within(self, rows: usize) -> Self {
        let mut shares = RowShares { wanted: self, given: Self::default(), left: rows };
        // 1) One row for each section.
        shares.grow(1, |rows| &mut rows.spinner);
        shares.grow(1, |rows| &mut rows.calls);
        if self.calls == 0 {
            // The spinner line names the only call: its output is the section.
            shares.grow(1, |rows| &mut rows.tail);
        }
        shares.grow(1, |rows| &mut rows.agents);
        shares.grow(1, |rows| &mut rows.todos);
        shares.grow(1, |rows| &mut rows.jobs);
        // 2) More of what tells most.
        shares.grow(usize::MAX, |rows| &mut rows.calls);
        shares.grow(1, |rows| &mut rows.tail);
        shares.grow(usize::MAX, |rows| &mut rows.agents);
        if shares.left >= TODO_WINDOW - 1 {
            shares.grow(TODO_WINDOW, |rows| &mut rows.todos);
            shares.grow(usize::MAX, |rows| &mut rows.tail);
            shares.grow(usize::MAX, |rows| &mut rows.todos);
        } else {
            // A header and one item say no more than the one row before.
            shares.grow(usize::MAX, |rows| &mut rows.tail);
        }
        shares.given
    }
}

/// Rows that are being shared.
#[derive(Debug)]
struct RowShares {
    wanted: SectionRows,
    given: SectionRows,
    left: usize,
}

impl RowShares {
    /// Gives a section rows until it has as many as it wants, but at most `most`.
    fn grow(&mut self, most: usize, section: impl Fn(&mut SectionRows) -> &mut usize) {
        let wanted = (*section(&mut self.wanted)).min(most);
        let given = section(&mut self.given);
        let more = wanted.saturating_sub(*given).min(self.left);
        *given += more;
        self.left -= more;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(list: [usize; 6]) -> SectionRows {
        let [spinner, calls, tail, agents, todos, jobs] = list;
        SectionRows { spinner, calls, tail, agents, todos, jobs }
    }

    #[test]
    fn each_section_gets_a_row_before_another_gets_more() {
        let wanted = rows([1, 5, 3, 4, 6, 1]);
        let table = [
            (0, [0, 0, 0, 0, 0, 0]),
            (1, [1, 0, 0, 0, 0, 0]),
            (2, [1, 1, 0, 0, 0, 0]),
            (4, [1, 1, 0, 1, 1, 0]),
            (5, [1, 1, 0, 1, 1, 1]),
            (7, [1, 3, 0, 1, 1, 1]),
            (10, [1, 5, 1, 1, 1, 1]),
            (13, [1, 5, 1, 4, 1, 1]),
            (14, [1, 5, 2, 4, 1, 1]),
            (15, [1, 5, 1, 4, 3, 1]),
            (20, [1, 5, 3, 4, 6, 1]),
        ];
        for (most, expected) in table {
            assert_eq!(wanted.within(most), rows(expected), "{most}");
        }
        assert_eq!(wanted.within(usize::MAX), wanted);
    }

    #[test]
    fn the_output_of_the_only_call_is_the_second_section() {
        let wanted = rows([1, 0, 3, 2, 6, 1]);
        assert_eq!(wanted.within(2), rows([1, 0, 1, 0, 0, 0]));
        assert_eq!(wanted.within(5), rows([1, 0, 1, 1, 1, 1]));
        assert_eq!(wanted.within(9), rows([1, 0, 2, 2, 3, 1]));
    }
}
