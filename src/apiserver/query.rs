//! Query strings, read strictly: known keys, once each, well escaped.

use crate::apiserver::error::ApiError;

/// Which page of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// Most entries.
    pub limit: u32,
    /// Where the last page ended.
    pub after: Option<String>,
}

const LIMIT_DEFAULT: u32 = 100;
const LIMIT_MAX: u32 = 500;
const CONTINUE_MAX: usize = 8192;

/// Reads `limit` and `continue`.
///
/// # Errors
/// Another key, a key twice, a number that is not from 1 to 500, a bad escape.
pub fn page(query: Option<&str>) -> Result<Page, ApiError> {
    let mut page = Page { limit: LIMIT_DEFAULT, after: None };
    let Some(query) = query else { return Ok(page) };
    let mut seen_limit = false;
    for pair in query.split('&') {
        let (key, value) =
            pair.split_once('=').ok_or_else(|| ApiError::invalid("query: key=value is expected"))?;
        match key {
            "limit" if !seen_limit => {
                seen_limit = true;
                let digits =
                    !value.is_empty() && value.len() <= 3 && value.bytes().all(|b| b.is_ascii_digit());
                let number = if digits { value.parse().ok() } else { None };
                page.limit = number.filter(|number| (1..=LIMIT_MAX).contains(number)).ok_or_else(|| {
                    ApiError::invalid(format!("limit: must be a number from 1 to {LIMIT_MAX}"))
                })?;
            }
            "continue" if page.after.is_none() => {
                let value = decode(value).filter(|value| !value.is_empty() && value.len() <= CONTINUE_MAX);
                let value =
                    value.ok_or_else(|| ApiError::invalid("continue: must be what a page ended with"))?;
                page.after = Some(value);
            }
            _ => return Err(ApiError::invalid("query: limit and continue may be there, once each")),
        }
    }
    Ok(page)
}

/// Undoes percent escapes; `+` is itself, and nothing that should have been escaped is accepted.
fn decode(text: &str) -> Option<String> {
    let (mut bytes, mut decoded) = (text.bytes(), Vec::new());
    while let Some(byte) = bytes.next() {
        match byte {
            b'%' => {
                let digit = |byte: Option<u8>| byte.and_then(|byte| (byte as char).to_digit(16));
                let (high, low) = (digit(bytes.next())?, digit(bytes.next())?);
                decoded.push(u8::try_from(high * 16 + low).ok()?);
            }
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' | b'=' | b'+' | b'/' => {
                decoded.push(byte);
            }
            _ => return None,
        }
    }
    String::from_utf8(decoded).ok().filter(|text| !text.chars().any(char::is_control))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scenario_224_a_page_is_asked_for_strictly() {
        assert_eq!(page(None), Ok(Page { limit: 100, after: None }));
        assert_eq!(page(Some("limit=1")), Ok(Page { limit: 1, after: None }));
        let asked = page(Some("limit=500&continue=a%2Bb%3D%3d"));
        assert_eq!(asked, Ok(Page { limit: 500, after: Some("a+b==".to_owned()) }));
        let long = format!("continue={}", "a".repeat(8193));
        for bad in [
            "limit=+1",
            "limit=1.0",
            "limit=1e2",
            "limit=0",
            "limit=-1",
            "limit=501",
            "limit=",
            "limit",
            "limit=99999999999999999999",
            "limit=1&limit=1",
            "limit=%31",
            "limit=0x1",
            "limit= 1",
            "limit=٣",
            "continue=",
            "continue=a&continue=a",
            "continue=%",
            "continue=%4",
            "continue=%zz",
            "continue=%ff",
            "continue=a;limit=1",
            "limit=1;continue=a",
            "continue=%00",
            "namespace=default",
            "Limit=1",
            "",
            "limit=1&",
            &long,
        ] {
            let error = page(Some(bad)).expect_err(bad);
            assert_eq!((error.status.as_u16(), error.code), (400, "invalid_request"), "{bad}");
        }
    }
}
