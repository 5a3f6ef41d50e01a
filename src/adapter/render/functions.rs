//! The functions of templates: Go's built-ins, bounded where they make text grow, and the ones of product and sprig.

mod format;

use gotmpl::{FuncMap, Template, TemplateError, Value};
use sha2::{Digest as _, Sha256};
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// Bytes that all function calls of one text may make: some double what they get, and a text may hold thousands.
const MADE_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Columns of an indent.
const INDENT_MAX: i64 = 256;
/// Bytes that a width in a format of `printf` can make (gotmpl's own bound).
const PRINTF_WIDTH_MAX: usize = 65_535;

/// Go's functions that need no bound: their results are no larger than what they get.
const PLAIN: [&str; 13] =
    ["and", "or", "not", "eq", "ne", "lt", "le", "gt", "ge", "len", "index", "slice", "call"];
/// Go's functions that make text, with the most bytes that one byte can become.
const GROWING: [(&str, usize); 6] =
    [("print", 2), ("println", 2), ("printf", 6), ("html", 5), ("js", 6), ("urlquery", 3)];

type Made = Result<Value, TemplateError>;
type Own = fn(&[Value]) -> Made;

const OWN: [(&str, Own); 15] = [
    ("default", default),
    ("required", required),
    ("quote", quote),
    ("lower", |args| map("lower", args, |text| text.chars().map(|c| alone(c, c.to_lowercase())).collect())),
    ("upper", |args| map("upper", args, |text| text.chars().map(|c| alone(c, c.to_uppercase())).collect())),
    ("trim", |args| map("trim", args, |text| text.trim().to_owned())),
    ("trunc", trunc),
    ("trimPrefix", |args| cut("trimPrefix", args, |text, end| text.strip_prefix(end))),
    ("trimSuffix", |args| cut("trimSuffix", args, |text, end| text.strip_suffix(end))),
    ("replace", replace),
    ("b64enc", |args| map("b64enc", args, |text| base64(text.as_bytes()))),
    ("sha256sum", |args| map("sha256sum", args, sha256)),
    ("toJson", to_json),
    ("indent", |args| indent("indent", "", args)),
    ("nindent", |args| indent("nindent", "\n", args)),
];

/// Tells whether a template may call a function of this name.
pub(super) fn exists(name: &str) -> bool {
    let mut names =
        GROWING.iter().map(|(name, _)| name).chain(OWN.iter().map(|(name, _)| name)).chain(&PLAIN);
    names.any(|known| *known == name)
}

/// Gives the functions for one text; they share one budget.
pub(super) fn all() -> FuncMap {
    let budget = Arc::new(AtomicUsize::new(MADE_BYTES_MAX));
    let mut all = FuncMap::new();
    for (name, own) in OWN {
        let budget = Arc::clone(&budget);
        all.insert(
            name.to_owned(),
            Arc::new(move |args: &[Value]| {
                spend(&budget, estimate(name, args))?;
                own(args)
            }),
        );
    }
    for (name, growth) in GROWING {
        let budget = Arc::clone(&budget);
        all.insert(
            name.to_owned(),
            Arc::new(move |args: &[Value]| {
                spend(&budget, size(args).saturating_mul(growth).saturating_add(repeats(name, args)))?;
                if let ("printf", [Value::String(format), values @ ..]) = (name, args) {
                    format::check(format, values).map_err(|why| error(format!("printf: {why}")))?;
                }
                builtin(name, args)
            }),
        );
    }
    all
}

fn spend(budget: &AtomicUsize, bytes: usize) -> Result<(), TemplateError> {
    let left = budget.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(bytes));
    left.map(drop).map_err(|_| error(format!("functions make more than {MADE_BYTES_MAX} bytes")))
}

fn size(args: &[Value]) -> usize {
    args.iter().map(|arg| arg.as_str().map_or_else(|| arg.to_string().len(), str::len)).sum()
}

/// What a format makes beyond each argument once: arguments again and again, and widths.
fn repeats(name: &str, args: &[Value]) -> usize {
    let Some(format) = args.first().and_then(Value::as_str).filter(|_| name == "printf") else { return 0 };
    let verbs = format.matches('%').count();
    let repeated = if format.contains('[') { verbs.saturating_mul(size(args)).saturating_mul(6) } else { 0 };
    let padded = format.split('%').skip(1).filter(|verb| {
        let verb = verb.trim_start_matches(['+', '-', '#', ' ', '.']);
        verb.starts_with(|c: char| c.is_ascii_digit() || c == '*' || c == '[')
    });
    repeated.saturating_add(padded.count().saturating_mul(PRINTF_WIDTH_MAX))
}

/// What one of our own functions makes at most.
fn estimate(name: &str, args: &[Value]) -> usize {
    let lines = |text: &str| text.matches('\n').count() + 2;
    match (name, args) {
        ("replace", [Value::String(old), Value::String(new), Value::String(text)]) => {
            let found = if old.is_empty() { text.len() + 1 } else { text.len() / old.len() };
            text.len().saturating_add(found.saturating_mul(new.len()))
        }
        ("indent" | "nindent", [Value::Int(width), Value::String(text)]) => {
            let width = usize::try_from((*width).clamp(0, INDENT_MAX)).unwrap_or_default();
            text.len().saturating_add(lines(text).saturating_mul(width + 1))
        }
        _ => size(args).saturating_mul(6).saturating_add(64),
    }
}

/// Calls one of gotmpl's own functions: they are not public, but a template reaches them.
fn builtin(name: &str, args: &[Value]) -> Made {
    let places: Vec<String> = (0..args.len()).map(|place| format!("(index . {place})")).collect();
    let call = format!("{{{{ {name} {} }}}}", places.join(" "));
    let text = Template::new("").parse(&call)?.execute_to_string(&Value::List(args.into()))?;
    Ok(string(text))
}

fn default(args: &[Value]) -> Made {
    match args {
        [fallback, value] => Ok(if value.is_truthy() { value.clone() } else { fallback.clone() }),
        _ => Err(error("default needs a default and a value")),
    }
}

fn required(args: &[Value]) -> Made {
    match args {
        [Value::String(message), value] => match value {
            Value::Nil => Err(error(message.to_string())),
            Value::String(text) if text.is_empty() => Err(error(message.to_string())),
            value => Ok(value.clone()),
        },
        _ => Err(error("required needs a message and a value")),
    }
}

fn quote(args: &[Value]) -> Made {
    if args.iter().any(|arg| matches!(arg, Value::Nil)) {
        return Err(error("quote: a value does not exist"));
    }
    let quoted: Vec<String> = args.iter().map(|arg| quoted(&arg.to_string())).collect();
    Ok(string(quoted.join(" ")))
}

/// Quotes as Go's `%q`.
fn quoted(text: &str) -> String {
    let mut out = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{b}' => out.push_str("\\v"),
            '\u{c}' => out.push_str("\\f"),
            c if c.is_ascii_control() => out.push_str(&format!("\\x{:02x}", u32::from(c))),
            c if !is_printable(c) && u32::from(c) < 0x1_0000 => {
                out.push_str(&format!("\\u{:04x}", u32::from(c)))
            }
            c if !is_printable(c) => out.push_str(&format!("\\U{:08x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// As Go has it: letters, marks, numbers, punctuation, symbols and the space. Rust tells the same of what it escapes;
/// the letter in front is for marks, which it escapes where they have none.
fn is_printable(c: char) -> bool {
    matches!(c, ' '..='~') || format!("a{c}").escape_debug().count() == 2
}

/// Go maps a letter to one letter or to none.
fn alone(c: char, mut mapped: impl ExactSizeIterator<Item = char>) -> char {
    match (c, mapped.len()) {
        ('İ', 2) => 'i',
        (c, 1) => mapped.next().unwrap_or(c),
        (c, _) => c,
    }
}

fn trunc(args: &[Value]) -> Made {
    let [Value::Int(length), Value::String(text)] = args else {
        return Err(wanted("trunc", "a length and a text"));
    };
    let bytes = usize::try_from(length.unsigned_abs()).unwrap_or(usize::MAX).min(text.len());
    let kept = if *length < 0 {
        text.get(text.ceil_char_boundary(text.len() - bytes)..)
    } else {
        text.get(..text.floor_char_boundary(bytes))
    };
    Ok(string(kept.unwrap_or_default()))
}

fn replace(args: &[Value]) -> Made {
    match args {
        [Value::String(old), Value::String(new), Value::String(text)] => {
            Ok(string(text.replace(&**old, new)))
        }
        _ => Err(wanted("replace", "old, new and a text")),
    }
}

fn to_json(args: &[Value]) -> Made {
    match args {
        [value] => json(value).map(|json| string(escaped(&json.to_string()))),
        _ => Err(wanted("toJson", "a value")),
    }
}

/// Go writes these so that JSON can stand in HTML and in a script; in JSON they stand within texts only.
fn escaped(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out
}

fn json(value: &Value) -> Result<serde_json::Value, TemplateError> {
    Ok(match value {
        Value::Nil => serde_json::Value::Null,
        Value::Bool(yes) => (*yes).into(),
        Value::Int(number) => (*number).into(),
        Value::Uint(number) => (*number).into(),
        // Go writes no fraction where there is none.
        Value::Float(number) if number.fract() == 0.0 && number.abs() < 1e15 => (*number as i64).into(),
        Value::Float(number) => (*number).into(),
        Value::String(text) => (**text).into(),
        Value::List(list) => serde_json::Value::Array(list.iter().map(json).collect::<Result<_, _>>()?),
        Value::Map(map) => {
            let entry = |(key, value): (&Arc<str>, &Value)| Ok((key.to_string(), json(value)?));
            serde_json::Value::Object(map.iter().map(entry).collect::<Result<_, TemplateError>>()?)
        }
        Value::Function(_) => return Err(error("toJson: a function has no JSON")),
    })
}

fn indent(name: &str, before: &str, args: &[Value]) -> Made {
    let [Value::Int(width @ 0..=INDENT_MAX), Value::String(text)] = args else {
        return Err(wanted(name, "a width from 0 to 256 and a text"));
    };
    let pad = " ".repeat(usize::try_from(*width).unwrap_or_default());
    Ok(string(format!("{before}{pad}{}", text.replace('\n', &format!("\n{pad}")))))
}

fn map(name: &str, args: &[Value], change: impl Fn(&str) -> String) -> Made {
    match args {
        [Value::String(text)] => Ok(string(change(text))),
        _ => Err(wanted(name, "a text")),
    }
}

fn cut(name: &str, args: &[Value], strip: impl for<'a> Fn(&'a str, &str) -> Option<&'a str>) -> Made {
    match args {
        [Value::String(end), Value::String(text)] => Ok(string(strip(text, end).unwrap_or(text))),
        _ => Err(wanted(name, "two texts")),
    }
}

fn sha256(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Encodes in the standard alphabet with padding (RFC 4648).
fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let group =
            chunk.iter().fold(0_u32, |sum, byte| sum << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for place in 0..4 {
            let digit = ALPHABET[(group >> (18 - 6 * place) & 63) as usize];
            out.push(if place <= chunk.len() { char::from(digit) } else { '=' });
        }
    }
    out
}

fn string(text: impl Into<Arc<str>>) -> Value {
    Value::String(text.into())
}

fn error(message: impl Into<String>) -> TemplateError {
    TemplateError::Exec(message.into())
}

fn wanted(name: &str, what: &str) -> TemplateError {
    error(format!("{name} needs {what}"))
}
