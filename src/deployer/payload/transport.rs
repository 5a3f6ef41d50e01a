//! How a git repository is reached: read off its URL, which comes from a template and ends as an argument of git.

/// Names what git speaks to a repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// HTTP or HTTPS.
    Http,
    /// Ssh.
    Ssh,
}

impl Transport {
    /// What a URL has to be.
    pub const RULE: &str = "git.repo has to be an http, https or ssh URL without a password in it";

    /// Reads it off a URL, or off `user@host:path`; `None` for what holds a password, or what git would take for a
    /// file, a helper program or an option of ssh.
    pub fn of(url: &str) -> Option<Self> {
        if url.contains(|c: char| c.is_whitespace() || c.is_control()) {
            return None;
        }
        if let Some(rest) = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://")) {
            let host = rest.split('/').next().filter(|host| !host.is_empty() && !host.contains('@'));
            return host.map(|_| Self::Http);
        }
        let (place, path) = match url.strip_prefix("ssh://") {
            Some(rest) => rest.split_once('/')?,
            None => url.split_once(':').filter(|(place, _)| place.contains('@'))?,
        };
        let (user, host) = place.split_once('@').unwrap_or(("git", place));
        let (host, port) = host.split_once(':').unwrap_or((host, "22"));
        let good = is_word(user) && is_word(host) && port.parse::<u16>().is_ok();
        (good && !path.is_empty() && !path.starts_with('-')).then_some(Self::Ssh)
    }
}

fn is_word(word: &str) -> bool {
    let letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    !word.is_empty() && !word.starts_with('-') && word.chars().all(letter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ssh_url_may_have_a_user_and_a_port() {
        for url in ["ssh://git.example/r", "ssh://git@git.example:2222/a/b.git", "git@git.example:a/b.git"] {
            assert_eq!(Transport::of(url), Some(Transport::Ssh), "{url}");
        }
    }

    #[test]
    fn what_is_more_than_the_place_of_a_repository_is_refused() {
        for url in [
            "file:///etc",
            "ext::sh -c touch% /tmp/x",
            "ext::me@host:x",
            "https://me:secret@git.example/r",
            "/srv/git",
            "../git",
            "host:path",
            "ssh://-oProxyCommand=touch/x",
            "ssh://-oProxyCommand=x@h/x",
            "git@-oProxyCommand=touch:x",
            "git@git.example:--upload-pack=x",
            "ssh://me:secret@git.example/r",
            "ssh://git@git.example:a/r",
            "ssh://git.example",
            "ssh://git.example/r\nHost x",
            "",
        ] {
            assert_eq!(Transport::of(url), None, "{url}");
        }
    }
}
