//! Keeps secrets out of logs and reports: every string of the values, and every credential.

use serde_json::{Map, Value};

/// What stands in place of a secret.
const MASK: &str = "•••";
/// Shorter strings are no secrets, and masking them would leave no readable text.
const SECRET_MIN: usize = 4;
/// From this length on a string is masked wherever it stands, below it only as a whole word.
const ANYWHERE_MIN: usize = 8;

/// Replaces known secrets in a text.
#[derive(Debug, Default)]
pub struct Masker {
    /// Longest first, so that a secret inside another one leaves no remains.
    secrets: Vec<String>,
}

impl Masker {
    /// Collects the secrets: all string leaves of `values`, and `credentials`.
    ///
    /// What is a public name (release, namespace, chart), or a whole word of one, stays readable.
    pub fn new(values: &Map<String, Value>, credentials: &[String], public: &[&str]) -> Self {
        let mut leaves: Vec<&str> = credentials.iter().map(String::as_str).collect();
        values.values().for_each(|value| strings(value, &mut leaves));
        let mut secrets: Vec<String> = leaves
            .iter()
            .flat_map(|leaf| std::iter::once(*leaf).chain(leaf.lines()))
            .map(str::trim)
            .filter(|leaf| leaf.len() >= SECRET_MIN && !public.iter().any(|name| names(name, leaf)))
            .filter(|leaf| !matches!(*leaf, "true" | "false" | "null"))
            .flat_map(forms)
            .collect();
        secrets.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        secrets.dedup();
        Self { secrets }
    }

    /// Gives the text without any of the secrets.
    pub fn mask(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for secret in &self.secrets {
            if text.contains(secret.as_str()) {
                text = replace(&text, secret);
            }
        }
        text
    }
}

fn names(name: &str, leaf: &str) -> bool {
    name == leaf || name.split(|c: char| !c.is_alphanumeric()).any(|word| word == leaf)
}

fn strings<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
    match value {
        Value::String(text) => found.push(text),
        Value::Array(items) => items.iter().for_each(|item| strings(item, found)),
        Value::Object(fields) => fields.values().for_each(|field| strings(field, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// A secret as it stands, quoted, and as a Secret's data: the three ways in which an error may show it.
fn forms(secret: &str) -> Vec<String> {
    let quoted = Value::String(secret.to_owned()).to_string();
    let quoted = quoted.trim_matches('"').to_owned();
    let mut forms = vec![secret.to_owned(), quoted];
    if secret.len() >= ANYWHERE_MIN {
        forms.push(base64(secret.as_bytes()));
    }
    forms
}

/// Encodes as a Secret's data is encoded.
pub fn base64(bytes: &[u8]) -> String {
    match serde_json::to_value(k8s_openapi::ByteString(bytes.to_vec())) {
        Ok(Value::String(text)) => text,
        _ => String::new(),
    }
}

fn replace(text: &str, secret: &str) -> String {
    if secret.len() >= ANYWHERE_MIN {
        return text.replace(secret, MASK);
    }
    let word = |c: char| c.is_alphanumeric() || c == '-' || c == '_';
    let mut out = String::with_capacity(text.len());
    let mut from = 0;
    for (at, _) in text.match_indices(secret) {
        let end = at + secret.len();
        let inside =
            text[..at].chars().next_back().is_some_and(word) || text[end..].chars().next().is_some_and(word);
        if !inside && at >= from {
            out.push_str(&text[from..at]);
            out.push_str(MASK);
            from = end;
        }
    }
    out.push_str(&text[from..]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn masker(values: Value) -> Masker {
        let values = values.as_object().expect("an object").clone();
        Masker::new(&values, &["tok-123456789".to_owned()], &["pr-1-api", "petri-env-0123abcd"])
    }

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let masker = masker(json!({
            "password": "correct horse", "pin": "abcd", "list": [{"key": "-----BEGIN\nMIIEvQIBADANBg\n-----END"}],
            "name": "api", "on": "true", "host": "petri-env-0123abcd", "quote": "pa\"ss\\word",
        }));
        assert_eq!(masker.mask(text), expected);
    }

    #[test]
    fn a_value_is_masked_wherever_it_stands() {
        check("postgres://u:correct horse@h/", "postgres://u:•••@h/");
        check("line MIIEvQIBADANBg is bad", "line ••• is bad");
        check("bearer tok-123456789.", "bearer •••.");
    }

    #[test]
    fn a_value_is_masked_in_quotes_and_in_base64_as_well() {
        check(r#"Invalid value: "pa\"ss\\word": no"#, r#"Invalid value: "•••": no"#);
        check("data: Y29ycmVjdCBob3JzZQ==", "data: •••");
    }

    #[test]
    fn a_short_value_is_masked_as_a_word_only() {
        check("pin \"abcd\" xabcd abcd-x abcd", "pin \"•••\" xabcd abcd-x •••");
    }

    #[test]
    fn names_and_plain_words_stay_readable() {
        let text = r#"Deployment "pr-1-api" in petri-env-0123abcd: true"#;
        check(text, text);
    }

    #[test]
    fn a_secret_inside_a_longer_one_leaves_nothing_of_either() {
        let masker = masker(json!({"a": "hunter22", "b": "hunter22-and-more"}));
        assert_eq!(masker.mask("x hunter22-and-more y hunter22"), "x ••• y •••");
    }
}
