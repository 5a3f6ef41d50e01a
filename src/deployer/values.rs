//! The final values as helm takes them: a file, and large integers beside it.
//!
//! Helm makes every number of a values file a float, and a template then prints `1.2345678e+07`. Only `--set`
//! gives it integers. Below a million both print the same.

use serde_json::{Map, Value};

/// From here on a template prints a float with an exponent.
const PRINTED_WITH_EXPONENT: u64 = 1_000_000;
/// Helm follows a path of that many names.
const DEPTH_MAX: usize = 30;
/// Helm's bound for an index of a list.
const INDEX_MAX: usize = 65_536;
/// More large integers than that are no configuration; what is over stays a float.
const INTEGERS_MAX: usize = 1000;

/// Gives `path=integer`, in helm's `--set` syntax, for every integer that helm would print with an exponent.
pub fn large_integers(values: &Map<String, Value>) -> Vec<String> {
    let mut found = Vec::new();
    object(values, "", 0, &mut found);
    found.truncate(INTEGERS_MAX);
    found
}

fn object(fields: &Map<String, Value>, path: &str, depth: usize, found: &mut Vec<String>) {
    for (key, value) in fields.iter().filter(|(key, _)| !key.is_empty()) {
        let dot = if path.is_empty() { "" } else { "." };
        walk(value, &format!("{path}{dot}{}", escaped(key)), depth + 1, found);
    }
}

fn walk(value: &Value, path: &str, depth: usize, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) if depth < DEPTH_MAX => object(fields, path, depth, found),
        Value::Array(items) if depth < DEPTH_MAX => {
            for (index, item) in items.iter().enumerate().take(INDEX_MAX) {
                walk(item, &format!("{path}[{index}]"), depth, found);
            }
        }
        // Helm has signed integers only.
        Value::Number(number) => match number.as_i64() {
            Some(integer) if integer.unsigned_abs() >= PRINTED_WITH_EXPONENT => {
                found.push(format!("{path}={integer}"))
            }
            _ => {}
        },
        Value::Object(_) | Value::Array(_) | Value::String(_) | Value::Bool(_) | Value::Null => {}
    }
}

fn escaped(key: &str) -> String {
    let mut out = String::with_capacity(key.len());
    for c in key.chars() {
        if matches!(c, '\\' | '=' | '[' | ']' | ',' | '.' | '{' | '}') {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_integers_that_would_be_printed_with_an_exponent_are_given() {
        let values = json!({
            "port": 5432, "memory": 1_073_741_824, "neg": -2_000_000, "float": 1.5e9, "text": "12345678",
            "none": null, "list": [1, 9_999_999, {"x": 1_000_000}], "a.b": {"c=d,e": 7_654_321}, "huge": u64::MAX,
            "": 1_000_000,
        });
        let found = large_integers(values.as_object().expect("an object"));
        let expected = [
            r"a\.b.c\=d\,e=7654321",
            "list[1]=9999999",
            "list[2].x=1000000",
            "memory=1073741824",
            "neg=-2000000",
        ];
        assert_eq!(found, expected);
    }
}
