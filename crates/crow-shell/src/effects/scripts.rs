//! Recognises small scripts on the command line that certainly only read their input.

/// The language of such a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Language {
    Awk,
    Jq,
    Sed,
}

impl Language {
    /// Returns whether a script accesses no other file and starts no program.
    pub(super) fn only_reads(self, script: &str) -> bool {
        match self {
            Self::Awk => awk_only_reads(script),
            Self::Jq => jq_only_reads(script),
            Self::Sed => sed_only_reads(script),
        }
    }
}

/// Returns whether a sed script only prints, deletes and replaces, and neither reads nor writes other files nor
/// starts anything.
fn sed_only_reads(script: &str) -> bool {
    let mut chars = script.chars().peekable();
    loop {
        while chars.next_if(|char| matches!(char, ' ' | ';' | '\n')).is_some() {}
        if chars.peek().is_none() {
            return true;
        }
        // Address, then command, then the end of the command.
        if skip_address(&mut chars).is_none() {
            return false;
        }
        while chars.next_if(|char| matches!(char, ' ' | '!')).is_some() {}
        match chars.next() {
            Some('p' | 'd' | '=' | 'n' | 'N' | 'D' | 'P' | 'g' | 'G' | 'h' | 'H' | 'x') => {}
            Some('q') => while chars.next_if(char::is_ascii_digit).is_some() {},
            Some('{' | '}') => continue,
            Some('s') => {
                if skip_replacement(&mut chars).is_none() {
                    return false;
                }
            }
            // Text commands, labels, and commands that use files or start programs.
            Some(_) | None => return false,
        }
        while chars.next_if_eq(&' ').is_some() {}
        if !matches!(chars.peek(), None | Some(';' | '\n' | '}')) {
            return false;
        }
    }
}

type Chars<'a> = std::iter::Peekable<std::str::Chars<'a>>;

fn skip_address(chars: &mut Chars<'_>) -> Option<()> {
    loop {
        match chars.peek() {
            Some('0'..='9' | '$' | '~' | '+') => drop(chars.next()),
            Some('/') => {
                chars.next();
                skip_to('/', chars)?;
                chars.next_if_eq(&'I');
            }
            Some(_) | None => return Some(()),
        }
        while chars.next_if_eq(&' ').is_some() {}
        if chars.next_if_eq(&',').is_some() {
            while chars.next_if_eq(&' ').is_some() {}
        }
    }
}

fn skip_replacement(chars: &mut Chars<'_>) -> Option<()> {
    let mark = chars.next().filter(|mark| mark.is_ascii_punctuation() && *mark != '\\')?;
    skip_to(mark, chars)?;
    skip_to(mark, chars)?;
    // Flag `e` would run the result, `w` would write it.
    while chars.next_if(|flag| flag.is_ascii_digit() || "gpIi".contains(*flag)).is_some() {}
    Some(())
}

/// Skips past the next unescaped mark. Inside brackets some implementations take a mark literally; then `None` is
/// returned.
fn skip_to(mark: char, chars: &mut Chars<'_>) -> Option<()> {
    let (mut in_brackets, mut in_class) = (false, false);
    loop {
        match chars.next()? {
            '\\' => drop(chars.next()?),
            '\n' => return None,
            '[' if in_brackets => in_class = true,
            '[' if matches!(chars.peek(), Some(']' | '^')) => return None,
            '[' => in_brackets = true,
            ']' if in_class => in_class = false,
            ']' => in_brackets = false,
            char if char == mark => return (!in_brackets).then_some(()),
            _ => {}
        }
    }
}

/// Returns whether an awk program accesses no other file and starts no program.
fn awk_only_reads(program: &str) -> bool {
    const WAYS: [&str; 9] =
        ["system", "getline", "close", "fflush", "ARGV", "ARGC", "ENVIRON", "PROCINFO", "include"];
    let alone = program.replace("||", "");
    !alone.contains(['|', '@', '\n'])
        && !WAYS.iter().any(|way| program.contains(way))
        && !writes(program)
}

/// Returns whether a `>` may redirect output to a file. It is a comparison where nothing is printed (`$3 > 5`),
/// before a `print`, and in parentheses. A slash may begin a regex, in which a quote is no quote, and a backslash
/// outside of a string may be anything: such programs count as writing.
fn writes(program: &str) -> bool {
    let has_both = program.contains('>') && program.contains("print");
    if !has_both || program.contains('/') {
        return has_both;
    }
    // After `print`, a `>` outside of parentheses and strings redirects, until the statement ends.
    let (mut depth, mut in_string, mut in_output) = (0_usize, false, false);
    let mut rest = program;
    while let Some(char) = rest.chars().next() {
        match char {
            '\\' if in_string => {
                let mut behind = rest.chars();
                behind.by_ref().take(2).for_each(drop);
                rest = behind.as_str();
                continue;
            }
            '\\' => return true,
            '"' => in_string = !in_string,
            _ if in_string => {}
            '(' | '[' => depth += 1,
            ')' | ']' => depth = depth.saturating_sub(1),
            ';' | '}' => (in_output, depth) = (false, 0),
            '>' if in_output && depth == 0 => return true,
            _ if rest.starts_with("print") => (in_output, depth) = (true, 0),
            _ => {}
        }
        rest = &rest[char.len_utf8()..];
    }
    false
}

/// Returns whether a jq filter reads no other file and no environment variable.
fn jq_only_reads(filter: &str) -> bool {
    const WAYS: [&str; 6] = ["import", "include", "env", "ENV", "modulemeta", "get_search_list"];
    !WAYS.iter().any(|way| filter.contains(way))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_that_may_do_more_than_read_are_refused() {
        for (script, wanted) in [
            ("1,20p", true),
            ("$p", true),
            ("/a/,/b/p", true),
            ("/a\\/b/d", true),
            ("s/a/b/g", true),
            ("s|a|b|;s#c#d#p", true),
            ("10q", true),
            ("5!d", true),
            ("$!N;P;D", true),
            ("w out", false),
            ("s/a/b/w out", false),
            ("s/a/b/e", false),
            ("s/a/b/ge", false),
            ("e", false),
            ("1e id", false),
            ("r /etc/passwd", false),
            ("R x", false),
            ("/a/w x", false),
            ("{p;w x\n}", false),
            ("/x/{p;q}", true),
            ("/x/{=;p}", true),
            ("s/[[:alpha:]/]/x/;w out/", false),
            ("s/[]/]/x/w out", false),
            ("s/[[:alpha:]]/x/g", true),
            ("a text", false),
            ("s/[/]/x/w out", false),
            ("s/[/]/x/;w out/", false),
            ("s/a/b/\nw out", false),
            ("y/abc/def/", false),
            ("", true),
        ] {
            assert_eq!(sed_only_reads(script), wanted, "{script}");
        }
        for (program, wanted) in [
            ("{print $1}", true),
            ("NR==1 || /x/ {print}", true),
            ("$3 > 5", true),
            ("$3 > 5 {print}", true),
            ("{ if ($1 >= 5) print }", true),
            ("NR>1{s+=$2} END{print s}", true),
            ("{ print ($1 > 5) }", true),
            ("{ print \"a > b\" }", true),
            ("NR>=1 && NR<=5 {printf \"%d: %s\\n\", NR, $0}", true),
            ("$1 > 2 {printf \"\\\"%s\\\\\", $0}", true),
            ("{printf \"%s\\n\", $0 > \"out\"}", false),
            ("{printf \"\\\"\" > \"out\"}", false),
            ("{printf \"a\\\\\" > \"out\"}", false),
            ("NR>1 \\ {print}", false),
            ("{ print \"a\" > \"b\" }", false),
            ("{ print($1) > \"out\" }", false),
            ("{ printf(\"%s\", $1) >> \"out\" }", false),
            ("$1 > 5 { print > $2 }", false),
            ("/\"/ { print > \"out\" }", false),
            ("{ x = \"\\\"\"; print > x }", false),
            ("{ a[\"(\"]; print > \"out\" }", false),
            ("{ print $1, (2) > \"out\" }", false),
            ("{ print a[1] > \"out\" }", false),
            ("{ print (1)(2) > \"out\" }", false),
            ("{print > \"out\"}", false),
            ("{print | \"sh\"}", false),
            ("BEGIN{system(\"id\")}", false),
            ("{getline < \"/etc/passwd\"}", false),
            ("BEGIN{while((\"id\"|getline x)>0) x}", false),
            ("BEGIN{ARGV[1]=\"/etc/passwd\"}", false),
            ("{sum+=$2} END {print sum}", true),
            ("@load \"x\"", false),
            ("{sy\\\nstem(\"id\")}", false),
        ] {
            assert_eq!(awk_only_reads(program), wanted, "{program}");
        }
        for (filter, wanted) in [
            (".a.b", true),
            (".[] | select(.x > 1)", true),
            ("env", false),
            ("$ENV.HOME", false),
            ("import \"/etc/x\" as $x; $x", false),
        ] {
            assert_eq!(jq_only_reads(filter), wanted, "{filter}");
        }
    }
}
