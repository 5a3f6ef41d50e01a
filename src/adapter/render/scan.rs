//! Which blocks are open where: what gotmpl's parser does not check. And where the actions are, which it does not tell.

use super::Fault;

/// A block that waits for its `end`.
struct Open {
    word: &'static str,
    at: usize,
    /// Whether its final `else` was passed.
    last: bool,
    /// How many `else if` or `else with` it has.
    chained: usize,
}

/// What stands between two delimiters, comments left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Action {
    /// Byte of its `{{`.
    pub(super) at: usize,
    /// Byte behind its `}}`.
    pub(super) end: usize,
    pub(super) kind: Kind,
}

/// What an action is to the blocks around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// It is evaluated when it is reached.
    Plain,
    /// `define` or a bare `else`: nothing is evaluated.
    Frame,
    /// `else if` or `else with`; the byte of the second word.
    Chained(usize),
    /// `end` of a block with so many chained ones.
    End(usize),
}

const UNTRIMMED: &str =
    "only spaces, tabs and line ends are trimmed, and here stands a space of another kind";

/// Refuses blocks without `end`, `end` without block, `else`, `break`, `continue` and `define` in the wrong place,
/// comments that Go would not take for one, and strings that end with their line. Returns the actions in order.
pub(super) fn check(source: &str) -> Result<Vec<Action>, Fault> {
    let mut open: Vec<Open> = Vec::new();
    let mut actions = Vec::new();
    let mut from = 0;
    while let Some(found) = source[from..].find("{{") {
        let at = from + found;
        let trims = source[at + 2..].starts_with('-') && source[at + 3..].starts_with(is_space);
        let inside = if trims { at + 4 } else { at + 2 };
        // gotmpl trims every space of Unicode, Go these four.
        if trims && source[from..at].trim_end_matches(is_space).ends_with(char::is_whitespace) {
            return Err(Fault::new(at, UNTRIMMED));
        }
        if source[inside..].trim_start_matches(is_space).starts_with("/*") {
            from = comment(source, at, inside)?;
            continue;
        }
        from = action(source, at, inside)?;
        if source[..from - 2].ends_with('-')
            && source[..from - 3].ends_with(is_space)
            && source[from..].trim_start_matches(is_space).starts_with(char::is_whitespace)
        {
            return Err(Fault::new(from - 3, UNTRIMMED));
        }
        let mut words = source[inside..from]
            .split(|c: char| !c.is_alphanumeric() && c != '_')
            .filter(|word| !word.is_empty());
        // Only what begins the action is a keyword of it.
        let begins = source[inside..].trim_start_matches(is_space).starts_with(char::is_alphabetic);
        let kind = match words.next().filter(|_| begins) {
            Some(word) => block(&mut open, word, words.next(), at)?,
            None => Kind::Plain,
        };
        let second = || source[inside..].find("else").map_or(0, |found| inside + found + 4);
        let kind = if let Kind::Chained(_) = kind { Kind::Chained(second()) } else { kind };
        actions.push(Action { at, end: from, kind });
    }
    match open.pop() {
        Some(Open { word, at, .. }) => Err(Fault::new(at, format!("{word} has no end"))),
        None => Ok(actions),
    }
}

fn block(open: &mut Vec<Open>, word: &str, next: Option<&str>, at: usize) -> Result<Kind, Fault> {
    let opener = ["if", "range", "with", "define", "block"].into_iter().find(|opener| *opener == word);
    if let Some(word) = opener {
        if word == "define" && !open.is_empty() {
            return Err(Fault::new(at, "define inside another block"));
        }
        open.push(Open { word, at, last: false, chained: 0 });
        return Ok(if word == "define" { Kind::Frame } else { Kind::Plain });
    }
    match word {
        "end" => match open.pop() {
            Some(closed) => Ok(Kind::End(closed.chained)),
            None => Err(Fault::new(at, "end without a block")),
        },
        "else" => match open.last_mut() {
            Some(top) if matches!(top.word, "if" | "with" | "range") && !top.last => {
                let chained = next.is_some_and(|next| next == top.word && next != "range");
                if !chained && next.is_some() {
                    return Err(Fault::new(at, format!("else of {} with something behind it", top.word)));
                }
                top.last = !chained;
                top.chained += usize::from(chained);
                Ok(if chained { Kind::Chained(at) } else { Kind::Frame })
            }
            _ => Err(Fault::new(at, "else without if, with or range")),
        },
        "break" | "continue" => {
            let mut around = open.iter().rev().take_while(|open| !matches!(open.word, "define" | "block"));
            if around.any(|open| open.word == "range") {
                Ok(Kind::Plain)
            } else {
                Err(Fault::new(at, format!("{word} outside range")))
            }
        }
        _ => Ok(Kind::Plain),
    }
}

/// Returns where the text after a comment begins. Go wants nothing between the delimiters and the comment's marks.
fn comment(source: &str, at: usize, inside: usize) -> Result<usize, Fault> {
    if !source[inside..].starts_with("/*") {
        return Err(Fault::new(at, "a comment begins right behind {{"));
    }
    let Some(length) = source[inside..].find("*/") else { return Err(Fault::new(at, "unclosed comment")) };
    let after = inside + length + 2;
    if source[after..].starts_with("}}") {
        // gotmpl takes a trim on the left for one on the right; Go does not.
        if inside > at + 2 && source[after + 2..].starts_with(char::is_whitespace) {
            let message = "a comment that trims before it trims after it too: close it with -}}";
            return Err(Fault::new(at, message));
        }
        return Ok(after + 2);
    }
    if source[after..].starts_with(is_space) && source[after + 1..].starts_with("-}}") {
        return Ok(after + 4);
    }
    Err(Fault::new(after, "a comment ends right before }}"))
}

/// Returns where the text after an action begins; delimiters inside its strings do not count.
fn action(source: &str, at: usize, inside: usize) -> Result<usize, Fault> {
    let mut from = inside;
    loop {
        let Some(found) = source[from..].find(['"', '`', '\'', '}']) else {
            return Err(Fault::new(at, "{{ without }}"));
        };
        from += found;
        from = match source.as_bytes().get(from) {
            Some(b'}') if source[from..].starts_with("}}") => return Ok(from + 2),
            Some(b'}') => from + 1,
            Some(b'`') => match source[from + 1..].find('`') {
                Some(length) => from + length + 2,
                None => return Err(Fault::new(from, "a raw string has no end")),
            },
            _ => quoted(source, from)?,
        };
    }
}

/// Returns what follows a string or character literal.
fn quoted(source: &str, at: usize) -> Result<usize, Fault> {
    let mut chars = source[at..].char_indices();
    let quote = chars.next().map(|(_, quote)| quote);
    while let Some((offset, char)) = chars.next() {
        match char {
            '\\' => {
                let rest = source.get(at + offset + 1..).unwrap_or_default();
                if !is_escape(rest, quote) {
                    return Err(Fault::new(at + offset, "no such escape in a string: a text is UTF-8"));
                }
                chars.next();
            }
            '\n' => break,
            _ if Some(char) == quote => return Ok(at + offset + 1),
            _ => {}
        }
    }
    Err(Fault::new(at, "a string has no end on its line"))
}

/// The escapes that Go knows; but none for a byte that is no character by itself, which gotmpl takes for one.
fn is_escape(rest: &str, quote: Option<char>) -> bool {
    let number = |from: usize, digits: usize, radix: u32| {
        let text = rest.get(from..from + digits).filter(|text| text.bytes().all(|b| b.is_ascii_hexdigit()));
        text.and_then(|text| u32::from_str_radix(text, radix).ok())
    };
    match rest.chars().next() {
        Some('x') => number(1, 2, 16).is_some_and(|byte| byte < 0x80),
        Some('u') => number(1, 4, 16).is_some_and(|code| char::from_u32(code).is_some()),
        Some('U') => number(1, 8, 16).is_some_and(|code| char::from_u32(code).is_some()),
        Some('0'..='7') => number(0, 3, 8).is_some_and(|byte| byte < 0x80),
        Some(c) => matches!(c, 'a' | 'b' | 'f' | 'n' | 'r' | 't' | 'v' | '\\') || Some(c) == quote,
        None => false,
    }
}

fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n')
}
