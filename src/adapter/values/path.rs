//! Paths in Helm's `--set` syntax: `a.b`, `a\.b` for a dot in a name, `a[0].b` for a place in a list.

use serde_json::{Map, Value};

/// Steps of a path; Helm's own bound (`MaxNestedNameLevel`).
const STEPS_MAX: usize = 30;
/// Places of a list that a path can name. What lies before it is filled with `null`, so this bounds what one key
/// can make; Helm's bound of 65,536 would let one key fill half a Secret.
const PLACE_MAX: usize = 1_023;

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Into a map.
    Key(String),
    /// Into a list.
    Place(usize),
}

/// Reads a path. Everything but dots, brackets, backslashes and `=` stands for itself.
pub(super) fn parse(text: &str) -> Result<Vec<Step>, String> {
    let mut steps = Vec::new();
    let mut chars = text.chars().peekable();
    loop {
        let mut key = String::new();
        while let Some(c) = chars.next_if(|c| !matches!(c, '.' | '[')) {
            match c {
                '=' => return Err("a key is a path, not an assignment: write \\= for = in a name".to_owned()),
                '\\' => key.push(chars.next().ok_or("nothing stands behind the last backslash")?),
                c => key.push(c),
            }
        }
        if key.is_empty() {
            return Err("a name in the path is empty".to_owned());
        }
        steps.push(Step::Key(key));
        while chars.next_if_eq(&'[').is_some() {
            let mut digits = String::new();
            while let Some(c) = chars.next_if(|c| *c != ']') {
                digits.push(c);
            }
            chars.next().ok_or("[ without ]")?;
            steps.push(Step::Place(place(&digits)?));
        }
        if steps.len() > STEPS_MAX {
            return Err(format!("the path has more than {STEPS_MAX} steps"));
        }
        match chars.next() {
            None => return Ok(steps),
            Some('.') => {}
            Some(_) => return Err("after ] comes a dot, another [ or the end".to_owned()),
        }
    }
}

fn place(digits: &str) -> Result<usize, String> {
    let plain = !digits.is_empty() && digits.len() <= 4 && digits.bytes().all(|b| b.is_ascii_digit());
    let place = digits.parse().ok().filter(|place| plain && *place <= PLACE_MAX);
    place.ok_or_else(|| format!("[{digits}] is no place in a list (0 to {PLACE_MAX})"))
}

/// Puts a value at a path. What stands in its way is replaced, gaps in lists become `null`.
pub(super) fn set(root: &mut Value, path: &[Step], value: Value) {
    let mut at = root;
    for step in path {
        at = match step {
            Step::Key(key) => {
                if !at.is_object() {
                    *at = Value::Object(Map::new());
                }
                match at {
                    Value::Object(map) => map.entry(key.clone()).or_insert(Value::Null),
                    other => other,
                }
            }
            Step::Place(place) => {
                if !at.is_array() {
                    *at = Value::Array(Vec::new());
                }
                match at {
                    Value::Array(list) => {
                        if list.len() <= *place {
                            list.resize(place + 1, Value::Null);
                        }
                        &mut list[*place]
                    }
                    other => other,
                }
            }
        };
    }
    *at = value;
}

/// Returns what stands at a path.
pub(super) fn get<'a>(root: &'a Value, path: &[Step]) -> Option<&'a Value> {
    path.iter().try_fold(root, |at, step| match step {
        Step::Key(key) => at.get(key),
        Step::Place(place) => at.get(place),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Result<&str, &str>) {
        let shown = parse(text).map(|steps| {
            let step = |step: &Step| match step {
                Step::Key(key) => format!("<{key}>"),
                Step::Place(place) => place.to_string(),
            };
            steps.iter().map(step).collect::<Vec<_>>().join(" ")
        });
        assert_eq!(shown.as_deref().map_err(String::as_str), expected, "{text}");
    }

    #[test]
    fn paths_are_read_as_helm_reads_them() {
        check("a", Ok("<a>"));
        check("a.b-c", Ok("<a> <b-c>"));
        check(r"nodeSelector.kubernetes\.io/os", Ok("<nodeSelector> <kubernetes.io/os>"));
        check("hosts[0].name", Ok("<hosts> 0 <name>"));
        check("a[1][20]", Ok("<a> 1 20"));
        check(r"a\[0\]\\", Ok(r"<a[0]\>"));
        check("a,b{c}", Ok("<a,b{c}>"));
    }

    #[test]
    fn what_is_no_path_is_refused() {
        check("", Err("a name in the path is empty"));
        check(".a", Err("a name in the path is empty"));
        check("a..b", Err("a name in the path is empty"));
        check("a.", Err("a name in the path is empty"));
        check("[0]", Err("a name in the path is empty"));
        check("a[", Err("[ without ]"));
        check("a[x]", Err("[x] is no place in a list (0 to 1023)"));
        check("a[]", Err("[] is no place in a list (0 to 1023)"));
        check("a[-1]", Err("[-1] is no place in a list (0 to 1023)"));
        check("a[1024]", Err("[1024] is no place in a list (0 to 1023)"));
        check("a[0]b", Err("after ] comes a dot, another [ or the end"));
        check("a=b", Err("a key is a path, not an assignment: write \\= for = in a name"));
        check("a\\", Err("nothing stands behind the last backslash"));
        check(&"a.".repeat(40), Err("the path has more than 30 steps"));
    }
}
