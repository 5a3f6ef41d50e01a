//! Formats of `printf`: one that does not fit what it prints is a mistake. Go prints `%!d(string=a)` then.

use gotmpl::Value;
use std::{iter::Peekable, str::Chars};

/// What gotmpl bounds a width to.
const WIDTH_MAX: usize = 65_535;

/// Checks that each verb has an argument that it can print, and each argument a verb.
pub(super) fn check(format: &str, args: &[Value]) -> Result<(), String> {
    let mut walk = Walk { chars: format.chars().peekable(), args, next: 0, reordered: false };
    while let Some(c) = walk.chars.next() {
        if c == '%' {
            walk.verb()?;
        }
    }
    if !walk.reordered && walk.next < args.len() {
        return Err(format!(
            "{} of {} values have no verb in the format",
            args.len() - walk.next,
            args.len()
        ));
    }
    Ok(())
}

struct Walk<'a> {
    chars: Peekable<Chars<'a>>,
    args: &'a [Value],
    next: usize,
    reordered: bool,
}

impl<'a> Walk<'a> {
    fn verb(&mut self) -> Result<(), String> {
        let mut flags = String::new();
        while let Some(flag) = self.chars.next_if(|c| matches!(c, '+' | '-' | '#' | ' ' | '0')) {
            flags.push(flag);
        }
        self.place()?;
        self.number()?;
        let precise = self.chars.next_if_eq(&'.').is_some();
        if precise {
            self.place()?;
            self.number()?;
        }
        self.place()?;
        let Some(verb) = self.chars.next() else { return Err("the format ends within a verb".to_owned()) };
        if verb == '%' {
            return Ok(());
        }
        let shown = format!("%{}{verb}", flags.trim_matches(['-', '0', ' ']));
        let arg = self.arg(&shown)?;
        // gotmpl prints these as if the flag were not there.
        let ignored = match verb {
            'v' => flags.contains('#'),
            'q' => flags.contains(['+', '#']),
            'x' | 'X' => precise || flags.contains(' '),
            'd' | 'o' | 'O' | 'b' => precise,
            _ => false,
        };
        if ignored {
            return Err(format!("{shown} is not offered with these flags"));
        }
        if !known(verb) {
            return Err(format!("{shown} is no verb"));
        }
        if fits(verb, arg) {
            Ok(())
        } else {
            Err(format!("{shown} is not for a value of type {}", arg.type_name()))
        }
    }

    /// A width or a precision; `*` takes it from the arguments.
    fn number(&mut self) -> Result<(), String> {
        if self.chars.next_if_eq(&'*').is_some() {
            return match self.arg("*")? {
                Value::Int(_) => Ok(()),
                other => Err(format!("* takes an integer, not a {}", other.type_name())),
            };
        }
        let mut number = 0_usize;
        while let Some(digit) = self.chars.next_if(char::is_ascii_digit).and_then(|c| c.to_digit(10)) {
            number = number.saturating_mul(10).saturating_add(digit as usize);
        }
        if number > WIDTH_MAX { Err(format!("a width is at most {WIDTH_MAX}")) } else { Ok(()) }
    }

    /// `[n]`: which argument comes next.
    fn place(&mut self) -> Result<(), String> {
        if self.chars.next_if_eq(&'[').is_none() {
            return Ok(());
        }
        let mut digits = String::new();
        while let Some(c) = self.chars.next_if(|c| *c != ']') {
            digits.push(c);
        }
        self.chars.next();
        let place = digits.parse::<usize>().ok().and_then(|place| place.checked_sub(1));
        self.next = place.ok_or_else(|| format!("[{digits}] is no place of a value"))?;
        self.reordered = true;
        Ok(())
    }

    fn arg(&mut self, shown: &str) -> Result<&'a Value, String> {
        let arg = self.args.get(self.next).ok_or_else(|| format!("{shown} has no value"))?;
        self.next += 1;
        Ok(arg)
    }
}

fn known(verb: char) -> bool {
    "vsqxXdoObcUeEfFgGt".contains(verb)
}

fn fits(verb: char, arg: &Value) -> bool {
    match arg {
        Value::String(_) => "vsqxX".contains(verb),
        Value::Int(_) | Value::Uint(_) => "vdoObcUqxX".contains(verb),
        Value::Float(_) => "veEfFgG".contains(verb),
        Value::Bool(_) => "vt".contains(verb),
        Value::Nil | Value::Function(_) | Value::List(_) | Value::Map(_) => verb == 'v',
    }
}
